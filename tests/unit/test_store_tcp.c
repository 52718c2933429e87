/* SPDX-License-Identifier: Apache-2.0 */
/* The tcp store over real sockets: servers that die, hang and lie; strangers on the port. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tutti/store.h>

#include "base/clock.h"
#include "store/store.h"
#include "store_talk.h"

TestSuite(store_tcp, .timeout = 30);

static int64_t ms_since(int64_t start_ns)
{
    return (clock_now_ns() - start_ns) / CLOCK_NS_PER_MS;
}

static int loopback_socket(bool listening, uint16_t *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    cr_assert_geq(fd, 0);
    if (listening) {
        cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
        cr_assert_eq(listen(fd, 16), 0);
        cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
        *port = ntohs(address.sin_port);
    } else {
        cr_assert_eq(connect(fd, (struct sockaddr *)&address, size), 0);
    }
    return fd;
}

static tutti_store *open_client(uint16_t port)
{
    tutti_store *store;

    cr_assert_eq(tutti_store_open_tcp("127.0.0.1", port, 15000, &store), TUTTI_OK, "%s",
                 tutti_last_error());
    return store;
}

static void works(tutti_store *store)
{
    tutti_store_value value;

    cr_assert_eq(tutti_store_set(store, "works", "yes", 3, 5000), TUTTI_OK, "%s",
                 tutti_last_error());
    cr_assert_eq(tutti_store_get(store, "works", 5000, &value), TUTTI_OK, "%s", tutti_last_error());
    cr_assert_str_eq(value.data, "yes");
    tutti_store_value_free(&value);
}

/* Whether the other side ends the connection within `ms`, by FIN or RST. */
static bool is_closed_within(int fd, int ms)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    char byte;

    return poll(&pollfd, 1, ms) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

/* ---- Servers that end, stop and lie ---- */

struct child_server {
    pid_t pid;
    uint16_t port;
};

static struct child_server start_child_server(rlim_t descriptors)
{
    struct child_server child;
    int pipes[2];

    cr_assert_eq(pipe(pipes), 0);
    child.pid = fork();
    if (!child.pid) {
        tutti_store_server *server;
        uint16_t port;

        if (descriptors) {
            for (int fd = 3; fd < 1024; fd++) {
                if (fd != pipes[1])
                    close(fd);
            }
            setrlimit(RLIMIT_NOFILE, &(struct rlimit){descriptors, descriptors});
        }
        if (tutti_store_server_start("127.0.0.1", 0, &server))
            _exit(1);
        port = tutti_store_server_port(server);
        if (write(pipes[1], &port, sizeof port) != sizeof port)
            _exit(2);
        for (;;)
            pause();
    }
    close(pipes[1]);
    cr_assert_eq(read(pipes[0], &child.port, sizeof child.port), sizeof child.port);
    close(pipes[0]);
    return child;
}

static void kill_child(struct child_server child)
{
    kill(child.pid, SIGKILL);
    waitpid(child.pid, NULL, 0);
}

Test(store_tcp, a_server_that_is_killed_is_an_error_of_the_next_call_and_all_later_ones)
{
    struct child_server server = start_child_server(0);
    tutti_store *store = open_client(server.port);
    const int64_t start = clock_now_ns();
    int64_t count;

    works(store);
    kill_child(server);
    cr_assert_eq(tutti_store_set(store, "k", "v", 1, 5000), TUTTI_ERR_STORE);
    cr_assert_not_null(strstr(tutti_last_error(), "127.0.0.1"), "%s", tutti_last_error());
    cr_assert_eq(tutti_store_num_keys(store, 5000, &count), TUTTI_ERR_STORE);
    cr_assert_not_null(strstr(tutti_last_error(), "lost before"), "%s", tutti_last_error());
    cr_assert_lt(ms_since(start), 1000);
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
    cr_assert_lt(ms_since(start), 2000);
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
    cr_assert_lt(ms_since(start), 1000);
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

static bool read_all(int fd, void *data, size_t size)
{
    return recv(fd, data, size, MSG_WAITALL) == (ssize_t)size;
}

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

        cr_assert_eq(make_call(store, cases[i].call, 150), cases[i].status, "case %zu: %s", i,
                     tutti_last_error());
        if (cases[i].words)
            cr_assert_not_null(strstr(tutti_last_error(), cases[i].words), "case %zu: %s", i,
                               tutti_last_error());
        cr_assert_eq(make_call(store, CALL_NUM_KEYS, 150), TUTTI_ERR_STORE, "case %zu", i);
        cr_assert_lt(ms_since(start), 1000, "case %zu", i);
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

        cr_assert_eq(make_call(store, CALL_WAIT, 30), TUTTI_ERR_TIMEOUT);
        cr_assert_eq(tutti_store_num_keys(store, 1000, &count), TUTTI_OK, "%s", tutti_last_error());
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
    int fd = loopback_socket(true, &port);
    const int64_t start = clock_now_ns();
    tutti_store *store = (tutti_store *)1;

    close(fd);
    cr_assert_eq(tutti_store_open_tcp("127.0.0.1", port, 250, &store), TUTTI_ERR_TIMEOUT);
    cr_assert(ms_since(start) >= 249 && ms_since(start) < 1500);
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
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* bound, not listening: connections are refused */
    pthread_t thread;
    void *server;

    cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    pthread_create(&thread, NULL, start_late, &fd);

    const int64_t start = clock_now_ns();
    tutti_store *store = open_client(ntohs(address.sin_port));

    cr_assert_lt(ms_since(start), 1000);
    pthread_join(thread, &server);
    cr_assert_eq(tutti_store_server_port(server), ntohs(address.sin_port));
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

/* ---- Strangers on the port ---- */

Test(store_tcp, garbage_on_the_port_is_closed_at_once_and_disturbs_nobody)
{
    static const char *const garbage[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x01\x01",
                                          "SSH-2.0-x\r\n", "\x0d\x01\x02\x03\x04", "\xff"};
    tutti_store_server *server;

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);

    uint16_t port = tutti_store_server_port(server);
    tutti_store *store = open_client(port);

    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        int fd = loopback_socket(false, &port);

        cr_assert_gt(send(fd, garbage[i], strlen(garbage[i]), MSG_NOSIGNAL), 0);
        cr_assert(is_closed_within(fd, 2000), "%zu", i);
        close(fd);
        works(store);
    }
    srand(1);
    for (int i = 0; i < 100; i++) {
        char bytes[300];
        int fd = loopback_socket(false, &port);

        for (size_t j = 0; j < sizeof bytes; j++)
            bytes[j] = (char)rand();
        memcpy(bytes, "\0\xce\xf7\x85\x3c", i % 2 ? 5 : 1);
        (void)!send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        close(fd);
    }
    works(store);
    tutti_store_unref(store);
    tutti_store_server_stop(server);
}

Test(store_tcp, strangers_that_say_nothing_are_closed_and_keep_a_client_waiting_only_so_long)
{
    enum { STRANGERS = 70 };
    tutti_store_server *server;
    int fds[STRANGERS];
    const int64_t start = clock_now_ns();

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);

    uint16_t port = tutti_store_server_port(server);
    tutti_store *early = open_client(port);

    for (int i = 0; i < STRANGERS; i++)
        fds[i] = loopback_socket(false, &port);
    works(early);

    tutti_store *late = open_client(port);

    cr_assert(ms_since(start) >= 9000 && ms_since(start) < 13000, "%" PRId64, ms_since(start));
    works(late);
    works(early);
    for (int i = 0; i < 64; i++)
        cr_assert(is_closed_within(fds[i], 0), "%d", i);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    tutti_store_unref(early);
    tutti_store_unref(late);
    tutti_store_server_stop(server);
}

static int64_t cpu_ms(pid_t pid)
{
    clockid_t clock;
    struct timespec used;

    cr_assert_eq(clock_getcpuclockid(pid, &clock), 0);
    cr_assert_eq(clock_gettime(clock, &used), 0);
    return (int64_t)used.tv_sec * 1000 + used.tv_nsec / CLOCK_NS_PER_MS;
}

Test(store_tcp, a_server_out_of_descriptors_does_not_spin_and_recovers)
{
    enum { CLIENTS = 40 };
    static const uint8_t hello[] = {0, 0xce, 0xf7, 0x85, 0x3c};
    struct child_server server = start_child_server(24);
    int fds[CLIENTS];

    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = loopback_socket(false, &server.port);
        cr_assert_eq(send(fds[i], hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    }
    usleep(50 * 1000);

    const int64_t before = cpu_ms(server.pid);

    usleep(500 * 1000);
    cr_assert_lt(cpu_ms(server.pid) - before, 50);
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);

    tutti_store *store = open_client(server.port);

    works(store);
    tutti_store_unref(store);
    kill_child(server);
}

Test(store_tcp, a_client_that_does_not_read_gets_everything_later_and_holds_up_nobody)
{
    enum { ANSWERS = 48, SIZE = 1 << 20 };
    static char value[SIZE];
    tutti_store_server *server;

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);

    uint16_t port = tutti_store_server_port(server);
    tutti_store *store = open_client(port);
    struct store_buffer get = talk("1b", STORE_GET, "/big");
    int fd = loopback_socket(false, &port);

    cr_assert_eq(tutti_store_set(store, "big", value, SIZE, 5000), TUTTI_OK);
    works(store);
    cr_assert_eq(send(fd, "\0\xce\xf7\x85\x3c", 5, MSG_NOSIGNAL), 5);
    for (int i = 0; i < ANSWERS; i++)
        cr_assert_eq(send(fd, get.data, get.size, MSG_NOSIGNAL), (ssize_t)get.size);
    usleep(100 * 1000);
    works(store);
    for (int i = 0; i < ANSWERS; i++) {
        uint8_t size[8];

        cr_assert(read_all(fd, size, 8));
        cr_assert_eq(store_load_u64(size), SIZE);
        cr_assert(read_all(fd, value, SIZE));
    }
    works(store);
    close(fd);
    store_buffer_free(&get);
    tutti_store_unref(store);
    tutti_store_server_stop(server);
}

Test(store_tcp, clients_see_the_end_when_the_server_stops_though_a_forked_child_lives_on)
{
    tutti_store_server *server;

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);

    uint16_t port = tutti_store_server_port(server);
    tutti_store *store = open_client(port), *refused;

    works(store);

    pid_t child = fork();

    if (!child) {
        for (;;)
            pause();
    }
    tutti_store_server_stop(server);
    cr_assert_eq(tutti_store_set(store, "k", "v", 1, 5000), TUTTI_ERR_STORE);
    cr_assert_eq(tutti_store_open_tcp("127.0.0.1", port, 100, &refused), TUTTI_ERR_TIMEOUT);
    cr_assert_not_null(strstr(tutti_last_error(), "refused"), "%s", tutti_last_error());
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    tutti_store_unref(store);
}

static void *hold_store(void *store)
{
    static const char *const key = "never";

    cr_assert_eq(tutti_store_wait(store, &key, 1, 300), TUTTI_ERR_TIMEOUT);
    return NULL;
}

Test(store_tcp, a_call_behind_a_waiting_one_gives_up_at_its_own_deadline)
{
    tutti_store_server *server;
    pthread_t thread;

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);

    tutti_store *store = open_client(tutti_store_server_port(server));

    pthread_create(&thread, NULL, hold_store, store);
    usleep(50 * 1000);
    cr_assert_eq(tutti_store_set(store, "k", "v", 1, 30), TUTTI_ERR_TIMEOUT);
    cr_assert_not_null(strstr(tutti_last_error(), "another thread"), "%s", tutti_last_error());
    pthread_join(thread, NULL);
    works(store);
    tutti_store_unref(store);
    tutti_store_server_stop(server);
}

Test(store_tcp, a_client_without_descriptors_fails_at_once_and_works_when_it_has_some)
{
    struct rlimit before;
    tutti_store_server *server;
    tutti_store *store;
    const int64_t start = clock_now_ns();

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);
    getrlimit(RLIMIT_NOFILE, &before);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, before.rlim_max});
    cr_assert_eq(tutti_store_open_tcp("127.0.0.1", tutti_store_server_port(server), 10000, &store),
                 TUTTI_ERR_SYSTEM);
    cr_assert_not_null(strstr(tutti_last_error(), "Too many open files"), "%s", tutti_last_error());
    cr_assert_lt(ms_since(start), 1000);
    setrlimit(RLIMIT_NOFILE, &before);
    store = open_client(tutti_store_server_port(server));
    works(store);
    tutti_store_unref(store);
    tutti_store_server_stop(server);
}

Test(store_tcp, a_server_on_ipv6_and_one_on_a_given_socket_serve_and_others_are_refused)
{
    tutti_store_server *server;
    tutti_store *store;
    int fd = socket(AF_INET6, SOCK_STREAM, 0);

    if (fd >= 0 && tutti_store_server_start("::1", 0, &server) == TUTTI_OK) {
        cr_assert_eq(tutti_store_open_tcp("::1", tutti_store_server_port(server), 5000, &store),
                     TUTTI_OK);
        works(store);
        tutti_store_unref(store);
        tutti_store_server_stop(server);
    }
    close(fd);
    cr_assert_eq(store_server_start_on(socket(AF_UNIX, SOCK_STREAM, 0), &server), TUTTI_ERR_SYSTEM);
    cr_assert_eq(store_server_start_on(socket(AF_INET, SOCK_DGRAM, 0), &server), TUTTI_ERR_SYSTEM);
    cr_assert_eq(store_server_start_on(-1, &server), TUTTI_ERR_SYSTEM);
}

Test(store_tcp, a_request_beyond_what_a_server_takes_is_refused_before_it_is_sent)
{
    enum { KEYS = 40000 };
    static char key[8001];
    static const char *keys[KEYS];
    tutti_store_server *server;
    int32_t present;

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);

    tutti_store *store = open_client(tutti_store_server_port(server));

    memset(key, 'k', sizeof key - 1);
    for (int i = 0; i < KEYS; i++)
        keys[i] = key;
    cr_assert_eq(tutti_store_check(store, keys, KEYS, 5000, &present), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(tutti_last_error(), "too large"), "%s", tutti_last_error());
    works(store);
    tutti_store_unref(store);
    tutti_store_server_stop(server);
}
