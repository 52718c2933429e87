/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of the tcp store over real sockets: servers that die, hang and lie, or are not there. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tutti/store.h>

#include "base/clock.h"
#include "store/store.h"
#include "store_sockets.h"

TestSuite(store_tcp, .timeout = 60);

/* ---- Servers that end, stop and lie ---- */

Test(store_tcp, a_killed_server_fails_the_next_call_and_all_later_ones)
{
    struct child_server server = start_child_server(0);
    tutti_store *store = open_client(server.port);
    const int64_t start = clock_now_ns();
    int64_t count;

    works(store);
    kill_child(server);
    cr_assert_eq(tutti_store_set(store, "k", "v", 1, 2 * SOON_MS), TUTTI_ERR_STORE);
    cr_assert_not_null(strstr(tutti_last_error(), "127.0.0.1"), "%s", tutti_last_error());
    cr_assert_eq(tutti_store_num_keys(store, 2 * SOON_MS, &count), TUTTI_ERR_STORE);
    cr_assert_not_null(strstr(tutti_last_error(), "lost before"), "%s", tutti_last_error());
    cr_assert_lt(ms_since(start), SOON_MS);
    tutti_store_unref(store);
}

static void *kill_soon(void *server)
{
    usleep(50 * 1000);
    kill_child(*(struct child_server *)server);
    return NULL;
}

Test(store_tcp, a_server_that_is_killed_ends_a_wait_at_once)
{
    struct child_server server = start_child_server(0);
    tutti_store *store = open_client(server.port);
    const int64_t start = clock_now_ns();
    tutti_store_value value;
    pthread_t thread;

    pthread_create(&thread, NULL, kill_soon, &server);
    cr_assert_eq(tutti_store_get(store, "never", 20000, &value), TUTTI_ERR_STORE);
    cr_assert_lt(ms_since(start), SOON_MS);
    pthread_join(thread, NULL);
    tutti_store_unref(store);
}

/* Returns when it stands still. */
static void stop_child(struct child_server server)
{
    int how;

    kill(server.pid, SIGSTOP);
    cr_assert_eq(waitpid(server.pid, &how, WUNTRACED), server.pid);
    cr_assert(WIFSTOPPED(how));
}

/* Each kind of call, as each has an answer of its own that comes late. */
static tutti_status call_of_kind(tutti_store *store, int kind)
{
    static const char *const keys[] = {"works", "late"};
    enum { SHORT_MS = 50 };
    tutti_store_value value;
    int64_t number;
    int32_t flag;

    switch (kind) {
    case 0:
        return tutti_store_wait(store, keys, 2, SHORT_MS);
    case 1:
        return tutti_store_check(store, keys, 2, SHORT_MS, &flag);
    case 2:
        return tutti_store_get(store, keys[0], SHORT_MS, &value);
    case 3:
        return tutti_store_set(store, "set", "late", 4, SHORT_MS);
    case 4:
        return tutti_store_append(store, "append", "late", 4, SHORT_MS);
    case 5:
        return tutti_store_add(store, "count", 1, SHORT_MS, &number);
    case 6:
        return tutti_store_compare_set(store, keys[0], "yes", 3, "yes", 3, SHORT_MS, &value);
    case 7:
        return tutti_store_delete(store, "none", SHORT_MS, &flag);
    default:
        return tutti_store_num_keys(store, SHORT_MS, &number);
    }
}

Test(store_tcp, calls_to_a_stopped_server_time_out_until_it_goes_on)
{
    struct child_server server = start_child_server(0);
    tutti_store *store = open_client(server.port);
    const int64_t start = clock_now_ns();
    int64_t count;

    works(store);
    for (int kind = 0; kind < 9; kind++) {
        stop_child(server);
        cr_assert_eq(call_of_kind(store, kind), TUTTI_ERR_TIMEOUT, "kind %d", kind);
        cr_assert_not_null(strstr(tutti_last_error(), "50 ms"), "%s", tutti_last_error());
        cr_assert_eq(call_of_kind(store, 8), TUTTI_ERR_TIMEOUT, "kind %d", kind);
        kill(server.pid, SIGCONT);
        works(store);
    }
    cr_assert_eq(tutti_store_num_keys(store, SOON_MS, &count), TUTTI_OK, "%s", tutti_last_error());
    cr_assert_eq(count, 4); /* works, set, append, count: what timed out was done all the same */
    cr_assert_lt(ms_since(start), SOON_MS);
    kill_child(server);
    tutti_store_unref(store);
}

Test(store_tcp, a_request_that_was_sent_in_part_is_sent_to_its_end_before_the_next)
{
    enum { LARGE = 8 << 20 }; /* more than both sockets hold */
    struct child_server server = start_child_server(0);
    tutti_store *store = open_client(server.port);
    char *large = calloc(1, LARGE);
    tutti_store_value value;

    cr_assert_not_null(large);
    stop_child(server);
    cr_assert_eq(tutti_store_set(store, "large", large, LARGE, 100), TUTTI_ERR_TIMEOUT);
    kill(server.pid, SIGCONT);
    works(store);
    cr_assert_eq(tutti_store_get(store, "large", SOON_MS, &value), TUTTI_OK, "%s",
                 tutti_last_error());
    cr_assert_eq(value.size, LARGE);
    tutti_store_value_free(&value);
    free(large);
    kill_child(server);
    tutti_store_unref(store);
}

/* One scripted exchange: after `expect` bytes of the client have come, sends, then ends or hangs.
 */
struct step {
    size_t expect;
    const char *reply;
    size_t size;
};

struct liar {
    int listener;
    const struct step *steps; /* ends with one of no expectation */
    /* Once a byte can be read at the gate: bytes that nobody has to ask for, then further steps. */
    const int *gate;
    struct step rest;
    const struct step *later;
    bool hang;
    int clients; /* seen */
};

static void take_steps(int fd, const struct step *step)
{
    char bytes[512];

    for (; step && step->expect; step++) {
        if (!read_all(fd, bytes, step->expect))
            return;
        (void)!send(fd, step->reply, step->size, MSG_NOSIGNAL);
    }
}

static void *lie(void *argument)
{
    struct liar *liar = argument;
    char bytes[512];
    int fd;

    while ((fd = accept(liar->listener, NULL, NULL)) >= 0) {
        liar->clients++;
        if (read_all(fd, bytes, 10) && send(fd, bytes + 6, 4, MSG_NOSIGNAL) == 4) {
            take_steps(fd, liar->steps);
            if (liar->gate && read(*liar->gate, bytes, 1) == 1) {
                (void)!send(fd, liar->rest.reply, liar->rest.size, MSG_NOSIGNAL);
                take_steps(fd, liar->later);
            }
        }
        if (liar->hang)
            (void)!read_all(fd, bytes, sizeof bytes); /* until the client closes */
        close(fd);
    }
    return NULL;
}

enum call { CALL_GET, CALL_CHECK, CALL_NUM_KEYS, CALL_WAIT };

static tutti_status make_call(tutti_store *store, enum call call, int64_t timeout_ms)
{
    static const char *const key = "k";
    tutti_store_value value;
    int32_t present;
    int64_t count;

    switch (call) {
    case CALL_GET:
        return tutti_store_get(store, key, timeout_ms, &value);
    case CALL_CHECK:
        return tutti_store_check(store, &key, 1, timeout_ms, &present);
    case CALL_NUM_KEYS:
        return tutti_store_num_keys(store, timeout_ms, &count);
    default:
        return tutti_store_wait(store, &key, 1, timeout_ms);
    }
}

#define LIST_OF_K 19 /* bytes of a request with a list of the one key "/k" */
#define ONE_K 11     /* bytes of a request with the key "/k" */

Test(store_tcp, a_server_that_ends_hangs_or_lies_fails_within_the_deadline)
{
    static const struct {
        enum call call;
        bool hang;
        struct step steps[3];
        tutti_status status;
        const char *words;
    } cases[] = {
        {CALL_WAIT, false, {{LIST_OF_K, "", 0}}, TUTTI_ERR_STORE, "closed"},
        {CALL_GET, false, {{LIST_OF_K, "\0", 1}}, TUTTI_ERR_STORE, "lost"},
        {CALL_GET,
         false,
         {{LIST_OF_K, "\0", 1}, {ONE_K, "\5\0\0\0\0\0\0\0he", 10}},
         TUTTI_ERR_STORE,
         "lost"},
        {CALL_GET,
         true,
         {{LIST_OF_K, "\0", 1}, {ONE_K, "\5\0\0\0\0\0\0\0he", 10}},
         TUTTI_ERR_TIMEOUT,
         "150 ms"},
        {CALL_GET,
         true,
         {{LIST_OF_K, "\0", 1}, {ONE_K, "\5\0\0\0\0\0\0\1", 8}},
         TUTTI_ERR_STORE,
         "8 MiB"},
        {CALL_GET, true, {{LIST_OF_K, "\7", 1}}, TUTTI_ERR_STORE, "protocol"},
        {CALL_CHECK, true, {{LIST_OF_K, "\2", 1}}, TUTTI_ERR_STORE, "protocol"},
        {CALL_CHECK, true, {{0}}, TUTTI_ERR_TIMEOUT, "150 ms"},
        {CALL_NUM_KEYS, false, {{1, "\1\0\0", 3}}, TUTTI_ERR_STORE, "lost"},
        {CALL_NUM_KEYS, true, {{1, "\1\0\0", 3}}, TUTTI_ERR_TIMEOUT, "did not answer"},
        /* right, and one byte too many: the next call finds it */
        {CALL_NUM_KEYS, true, {{1, "\1\0\0\0\0\0\0\0\0", 9}}, TUTTI_OK, NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct liar liar = {.steps = cases[i].steps, .hang = cases[i].hang};
        uint16_t port = 0;
        pthread_t thread;

        liar.listener = loopback_socket(true, &port);
        pthread_create(&thread, NULL, lie, &liar);

        tutti_store *store = open_client(port);
        const int64_t start = clock_now_ns();

        /* A server that answers may be slow to do so: only without an answer must the time run
         * out. */
        cr_assert_eq(make_call(store, cases[i].call,
                               cases[i].status == TUTTI_ERR_TIMEOUT ? 150 : 2 * SOON_MS),
                     cases[i].status, "case %zu: %s", i, tutti_last_error());
        if (cases[i].words)
            cr_assert_not_null(strstr(tutti_last_error(), cases[i].words), "case %zu: %s", i,
                               tutti_last_error());
        /* a timeout is no end: a hung server still owes an answer */
        cr_assert_eq(make_call(store, CALL_NUM_KEYS, 150),
                     cases[i].status == TUTTI_ERR_TIMEOUT ? TUTTI_ERR_TIMEOUT : TUTTI_ERR_STORE,
                     "case %zu", i);
        cr_assert_lt(ms_since(start), SOON_MS, "case %zu", i);
        tutti_store_unref(store);
        shutdown(liar.listener, SHUT_RDWR);
        pthread_join(thread, NULL);
        close(liar.listener);
    }
}

Test(store_tcp, both_answers_to_a_cancelled_wait_are_read_before_the_next_call)
{
    static const char *const answers[] = {"\1", "\0\1"};

    for (size_t i = 0; i < 2; i++) {
        const struct step steps[] = {
            {LIST_OF_K + 1, answers[i], i + 1}, {1, "\4\0\0\0\0\0\0\0", 8}, {0, NULL, 0}};
        struct liar liar = {.steps = steps, .hang = true};
        uint16_t port = 0;
        pthread_t thread;
        int64_t count;

        liar.listener = loopback_socket(true, &port);
        pthread_create(&thread, NULL, lie, &liar);

        tutti_store *store = open_client(port);

        cr_assert_eq(make_call(store, CALL_WAIT, 1000), TUTTI_ERR_TIMEOUT); /* and it was sent */
        cr_assert_eq(tutti_store_num_keys(store, 2 * SOON_MS, &count), TUTTI_OK, "%s",
                     tutti_last_error());
        cr_assert_eq(count, 4);
        tutti_store_unref(store);
        shutdown(liar.listener, SHUT_RDWR);
        pthread_join(thread, NULL);
        close(liar.listener);
    }
}

/* Of a value, and of its length, only a part has come when the time is up. */
Test(store_tcp, the_rest_of_a_value_that_comes_late_is_dropped_before_the_next_call)
{
    static const struct step parts[] = {{ONE_K, "\5\0\0\0\0\0\0\0he", 10}, {ONE_K, "\5\0\0", 3}};
    static const struct step rests[] = {{0, "llo", 3}, {0, "\0\0\0\0\0hello", 10}};
    static const struct step later[] = {{1, "\4\0\0\0\0\0\0\0", 8}, {0, NULL, 0}};

    for (size_t i = 0; i < 2; i++) {
        const struct step steps[] = {{LIST_OF_K, "\0", 1}, parts[i], {0, NULL, 0}};
        int gate[2];
        struct liar liar = {
            .steps = steps, .gate = gate, .rest = rests[i], .later = later, .hang = true};
        uint16_t port = 0;
        pthread_t thread;
        int64_t count;

        cr_assert_eq(pipe(gate), 0);
        liar.listener = loopback_socket(true, &port);
        pthread_create(&thread, NULL, lie, &liar);

        tutti_store *store = open_client(port);

        cr_assert_eq(make_call(store, CALL_GET, 500), TUTTI_ERR_TIMEOUT);
        cr_assert_eq(write(gate[1], "", 1), 1);
        cr_assert_eq(tutti_store_num_keys(store, SOON_MS, &count), TUTTI_OK, "%s",
                     tutti_last_error());
        cr_assert_eq(count, 4);
        tutti_store_unref(store);
        shutdown(liar.listener, SHUT_RDWR);
        pthread_join(thread, NULL);
        close(liar.listener);
        close(gate[0]);
        close(gate[1]);
    }
}

/* ---- Connecting ---- */

Test(store_tcp, without_a_server_opening_ends_in_time_and_names_the_place)
{
    uint16_t port = 0;
    int fd = bound_socket(&port);
    const int64_t start = clock_now_ns();
    tutti_store *store = (tutti_store *)1;

    cr_assert_eq(tutti_store_open_tcp("127.0.0.1", port, 250, &store), TUTTI_ERR_TIMEOUT);
    cr_assert(ms_since(start) >= 249 && ms_since(start) < SOON_MS);
    cr_assert_eq(store, (tutti_store *)1);

    char place[32];

    snprintf(place, sizeof place, "127.0.0.1:%u", port);
    cr_assert_not_null(strstr(tutti_last_error(), place), "%s", tutti_last_error());
    cr_assert_not_null(strstr(tutti_last_error(), "250 ms"));
    cr_assert_not_null(strstr(tutti_last_error(), "refused"));
    cr_assert_eq(tutti_store_open_tcp("no-such-host.invalid", port, 200, &store),
                 TUTTI_ERR_TIMEOUT);
    cr_assert_not_null(strstr(tutti_last_error(), "no-such-host.invalid"));
    cr_assert_eq(tutti_store_open_tcp("127.0.0.1", 0, 200, &store), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_eq(tutti_store_open_tcp("", port, 200, &store), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_eq(tutti_store_open_tcp("127.0.0.1", port, -2, &store), TUTTI_ERR_INVALID_ARGUMENT);
    close(fd);
}

static void *start_late(void *fd)
{
    tutti_store_server *server;

    usleep(150 * 1000);
    cr_assert_eq(store_server_start_on(*(int *)fd, NULL, &server), TUTTI_OK);
    return server;
}

Test(store_tcp, a_client_may_start_before_its_server)
{
    uint16_t port = 0;
    int fd = bound_socket(&port);
    pthread_t thread;
    void *server;

    pthread_create(&thread, NULL, start_late, &fd);

    const int64_t start = clock_now_ns();
    tutti_store *store = open_client(port);

    cr_assert_lt(ms_since(start), SOON_MS);
    pthread_join(thread, &server);
    cr_assert_eq(tutti_store_server_port(server), port);
    works(store);
    tutti_store_unref(store);
    tutti_store_server_stop(server);
}

Test(store_tcp, what_is_no_store_server_is_told_apart)
{
    static const struct step none[] = {{0, NULL, 0}};
    struct liar liar = {.steps = none};
    uint16_t port = 0;
    tutti_store *store;

    /* accepts by its backlog and never answers */
    liar.listener = loopback_socket(true, &port);
    cr_assert_eq(tutti_store_open_tcp("127.0.0.1", port, 150, &store), TUTTI_ERR_TIMEOUT);
    cr_assert_not_null(strstr(tutti_last_error(), "the process there is not a store server"), "%s",
                       tutti_last_error());
    close(liar.listener);
}

Test(store_tcp, a_wait_for_a_silent_server_warns_before_the_deadline)
{
    uint16_t port = 0;
    const int listener = loopback_socket(true, &port);
    tutti_store *store;
    char line[512] = "";

    cr_redirect_stderr();
    cr_assert_eq(tutti_store_open_tcp("127.0.0.1", port, 6000, &store), TUTTI_ERR_TIMEOUT);
    close(STDERR_FILENO);

    FILE *said = cr_get_redirected_stderr();

    cr_assert_not_null(fgets(line, sizeof line, said));
    cr_expect_not_null(strstr(line, "still trying"), "%s", line);
    cr_expect_not_null(strstr(line, ", for at most "), "%s", line);
    cr_expect_not_null(strstr(line, "127.0.0.1"), "%s", line);
    close(listener);
}

Test(store_tcp, a_server_cannot_bind_what_is_taken_or_unknown)
{
    tutti_store_server *server, *second;

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);
    cr_assert_eq(tutti_store_server_start("127.0.0.1", tutti_store_server_port(server), &second),
                 TUTTI_ERR_STORE);
    cr_assert_not_null(strstr(tutti_last_error(), "in use"), "%s", tutti_last_error());
    cr_assert_eq(tutti_store_server_start("192.0.2.1", 0, &second), TUTTI_ERR_STORE);
    cr_assert_eq(tutti_store_server_start("no-such-host.invalid", 0, &second),
                 TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_eq(tutti_store_server_start(NULL, 0, &second), TUTTI_ERR_INVALID_ARGUMENT);
    tutti_store_server_stop(server);
    tutti_store_server_stop(NULL);
    cr_assert_eq(tutti_store_server_port(NULL), 0);
}
