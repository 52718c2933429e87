/* SPDX-License-Identifier: Apache-2.0 */
/* The serving side of the tcp store over real sockets: strangers, slow readers, no descriptors
 * left. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
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
#include "store_sockets.h"
#include "store_talk.h"

TestSuite(store_server, .timeout = 30);

Test(store_server, garbage_on_the_port_is_closed_at_once_and_disturbs_nobody)
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
        cr_assert(is_closed_within(fd, SOON_MS), "%zu", i);
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

static int64_t cpu_ms(pid_t pid)
{
    clockid_t clock;
    struct timespec used;

    cr_assert_eq(clock_getcpuclockid(pid, &clock), 0);
    cr_assert_eq(clock_gettime(clock, &used), 0);
    return (int64_t)used.tv_sec * 1000 + used.tv_nsec / CLOCK_NS_PER_MS;
}

Test(store_server, a_server_out_of_descriptors_does_not_spin_and_recovers)
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

/* A fork may fall between a connection's end here and the child's closing of its copy. */
Test(store_server, a_connection_that_was_hung_up_is_forgotten_although_a_child_holds_it)
{
    tutti_store_server *server;

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);

    uint16_t port = tutti_store_server_port(server);
    int fd = loopback_socket(false, &port);
    tutti_store *store = open_client(port); /* the other one has been accepted, too */
    pid_t child = _Fork();

    if (!child) {
        pause();
        _exit(0);
    }
    cr_assert_gt(send(fd, "GET / ", 6, MSG_NOSIGNAL), 0);
    works(store);
    works(store);
    cr_assert_gt(send(fd, "more", 4, MSG_NOSIGNAL), 0);
    works(store);
    const int64_t before = cpu_ms(getpid());
    usleep(500 * 1000);
    cr_expect_lt(cpu_ms(getpid()) - before, 50, "the server spins");
    works(store);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(fd);
    tutti_store_unref(store);
    tutti_store_server_stop(server);
}

Test(store_server, a_client_that_does_not_read_gets_everything_later_and_holds_up_nobody)
{
    enum { ANSWERS = 48, SIZE = 1 << 20 };
    static char value[SIZE];
    tutti_store_server *server;

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);

    uint16_t port = tutti_store_server_port(server);
    tutti_store *store = open_client(port);
    struct buffer get = talk("1b", STORE_GET, "/big");
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
        cr_assert_eq(uint_from_bytes(size, 8), SIZE);
        cr_assert(read_all(fd, value, SIZE));
    }
    works(store);
    close(fd);
    buffer_free(&get);
    tutti_store_unref(store);
    tutti_store_server_stop(server);
}

Test(store_server, clients_see_a_stopped_server_though_a_forked_child_lives_on)
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
    static const char *const key = "end";

    cr_assert_eq(tutti_store_wait(store, &key, 1, 20000), TUTTI_OK);
    return NULL;
}

Test(store_server, a_call_behind_a_waiting_one_gives_up_at_its_own_deadline)
{
    tutti_store_server *server;
    pthread_t thread;
    tutti_status status;

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);

    uint16_t port = tutti_store_server_port(server);
    tutti_store *store = open_client(port), *other = open_client(port);

    pthread_create(&thread, NULL, hold_store, store);
    do /* until the thread has it, which then keeps it */
        status = tutti_store_set(store, "k", "v", 1, 300);
    while (!status);
    cr_assert_eq(status, TUTTI_ERR_TIMEOUT);
    cr_assert_not_null(strstr(tutti_last_error(), "another thread"), "%s", tutti_last_error());
    cr_assert_eq(tutti_store_set(other, "end", "", 0, 5000), TUTTI_OK);
    pthread_join(thread, NULL);
    works(store);
    tutti_store_unref(other);
    tutti_store_unref(store);
    tutti_store_server_stop(server);
}

Test(store_server, a_client_without_descriptors_fails_at_once_and_works_when_it_has_some)
{
    struct rlimit before;
    tutti_store_server *server;
    tutti_store *store;
    const int64_t start = clock_now_ns();

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);
    getrlimit(RLIMIT_NOFILE, &before);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, before.rlim_max});
    cr_assert_eq(
        tutti_store_open_tcp("127.0.0.1", tutti_store_server_port(server), 2 * SOON_MS, &store),
        TUTTI_ERR_SYSTEM);
    cr_assert_not_null(strstr(tutti_last_error(), "Too many open files"), "%s", tutti_last_error());
    cr_assert_lt(ms_since(start), SOON_MS);
    setrlimit(RLIMIT_NOFILE, &before);
    store = open_client(tutti_store_server_port(server));
    works(store);
    tutti_store_unref(store);
    tutti_store_server_stop(server);
}

Test(store_server, ipv6_and_given_sockets_serve_and_other_sockets_are_refused)
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
    cr_assert_eq(store_server_start_on(socket(AF_UNIX, SOCK_STREAM, 0), NULL, &server),
                 TUTTI_ERR_SYSTEM);
    cr_assert_eq(store_server_start_on(socket(AF_INET, SOCK_DGRAM, 0), NULL, &server),
                 TUTTI_ERR_SYSTEM);
    cr_assert_eq(store_server_start_on(-1, NULL, &server), TUTTI_ERR_SYSTEM);
    cr_expect_geq(fcntl(STDIN_FILENO, F_GETFD), 0, "a server that cannot start closed stdin");
}

Test(store_server, a_request_beyond_what_a_server_takes_is_refused_before_it_is_sent)
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
