/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of the tcp store over real sockets: servers that die, hang and lie, or are not there. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
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

Test(store_tcp, a_server_that_is_killed_is_an_error_of_the_next_call_and_all_later_ones)
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

Test(store_tcp, a_stopped_server_is_a_time_out_and_a_wait_that_timed_out_can_be_repeated)
{
    static const char *const key = "late";
    struct child_server server = start_child_server(0);
    tutti_store *store = open_client(server.port), *other = open_client(server.port);
    int64_t start = clock_now_ns(), count;

    kill(server.pid, SIGSTOP);
    cr_assert_eq(tutti_store_wait(store, &key, 1, 100), TUTTI_ERR_TIMEOUT);
    cr_assert_eq(tutti_store_num_keys(other, 100, &count), TUTTI_ERR_TIMEOUT);
    cr_assert_not_null(strstr(tutti_last_error(), "100 ms"));
    cr_assert_lt(ms_since(start), SOON_MS);
    kill(server.pid, SIGCONT);
    works(store);
    cr_assert_eq(tutti_store_num_keys(other, 100, &count), TUTTI_ERR_STORE);
    kill_child(server);
    tutti_store_unref(store);
    tutti_store_unref(other);
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
    bool hang;
    int clients; /* seen */
};

static void *lie(void *argument)
{
    struct liar *liar = argument;
    char bytes[512];
    int fd;

    while ((fd = accept(liar->listener, NULL, NULL)) >= 0) {
        liar->clients++;
        if (read_all(fd, bytes, 10) && send(fd, bytes + 6, 4, MSG_NOSIGNAL) == 4) {
            for (const struct step *step = liar->steps; step->expect; step++) {
                if (!read_all(fd, bytes, step->expect))
                    break;
                (void)!send(fd, step->reply, step->size, MSG_NOSIGNAL);
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

Test(store_tcp, a_server_that_ends_hangs_or_lies_in_the_middle_is_an_error_within_the_deadline)
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

        /* Who answers may be slow to do so: only where nothing comes the time has to run out. */
        cr_assert_eq(make_call(store, cases[i].call,
                               cases[i].status == TUTTI_ERR_TIMEOUT ? 150 : 2 * SOON_MS),
                     cases[i].status, "case %zu: %s", i, tutti_last_error());
        if (cases[i].words)
            cr_assert_not_null(strstr(tutti_last_error(), cases[i].words), "case %zu: %s", i,
                               tutti_last_error());
        cr_assert_eq(make_call(store, CALL_NUM_KEYS, 150), TUTTI_ERR_STORE, "case %zu", i);
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
    cr_assert_eq(store_server_start_on(*(int *)fd, &server), TUTTI_OK);
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
    cr_assert_not_null(strstr(tutti_last_error(), "handshake"), "%s", tutti_last_error());
    close(liar.listener);
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
