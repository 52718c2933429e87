/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission to a store that tutti serves: another user of the host, as a process of its own, and more
 * connections and bytes than anybody needs. What needs a second user is skipped without root.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/store.h>

#include "store/store_guard.h"
#include "store/store_session.h"
#include "store_sockets.h"
#include "store_talk.h"

enum { STRANGER = 54321 };

TestSuite(store_guard, .timeout = 120);

static const uint8_t hello[] = {0, 0xce, 0xf7, 0x85, 0x3c};

/* ---- another user ---- */

static bool become_stranger(void)
{
    return !setgroups(0, NULL) && !setresgid(STRANGER, STRANGER, STRANGER) &&
           !setresuid(STRANGER, STRANGER, STRANGER);
}

/* Skips the test where this process may not have a child of another user. */
static void need_strangers(void)
{
    const pid_t child = fork();
    int how;

    if (!child)
        _exit(!become_stranger());
    cr_assert_eq(waitpid(child, &how, 0), child);
    if (how)
        cr_skip_test("only root may start a process of another user");
}

/* Runs `act` in a child that is another user. */
static pid_t start_stranger(void (*act)(uint16_t port), uint16_t port)
{
    const pid_t child = fork();

    if (child)
        return child;
    if (!become_stranger())
        _exit(3);
    act(port);
    _exit(0);
}

static void as_stranger(void (*act)(uint16_t port), uint16_t port)
{
    const pid_t child = start_stranger(act, port);
    int how;

    cr_assert_eq(waitpid(child, &how, 0), child);
    cr_assert(WIFEXITED(how) && !WEXITSTATUS(how), "%x", (unsigned)how);
}

/* A plain connection, or -1. In a child a check of Criterion would not end the test. */
static int dial(int family, uint16_t port)
{
    const struct sockaddr_in four = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const int fd = socket(family == AF_INET ? AF_INET : AF_INET6, SOCK_STREAM, 0);

    if (!family) /* an IPv6 socket with IPv4 addresses */
        inet_pton(AF_INET6, "::ffff:127.0.0.1", &six.sin6_addr);
    if (fd >= 0 && (family == AF_INET ? connect(fd, (const struct sockaddr *)&four, sizeof four)
                                      : connect(fd, (const struct sockaddr *)&six, sizeof six))) {
        close(fd);
        return -1;
    }
    return fd;
}

static void send_quietly(int fd, const void *data, size_t size)
{
    (void)!send(fd, data, size, MSG_NOSIGNAL);
}

/* Sends the request of a torch client; whether the server ends the connection without a word. */
static bool is_refused(uint16_t port, struct buffer request)
{
    const int fd = dial(AF_INET, port);
    const bool closed = (send_quietly(fd, hello, sizeof hello),
                         send_quietly(fd, request.data, request.size), fd >= 0) &&
                        is_closed_within(fd, SOON_MS);

    buffer_free(&request);
    close(fd);
    return closed;
}

static void try_everything(uint16_t port)
{
    struct buffer requests[] = {talk("1", STORE_LIST_KEYS),
                                talk("1", STORE_GETNUMKEYS),
                                talk("1b", STORE_GET, "/key"),
                                talk("1nb", STORE_MULTI_GET, 1L, "/key"),
                                talk("1nb", STORE_CHECK, 1L, "/key"),
                                talk("1nb", STORE_WAIT, 1L, "/key"),
                                talk("1bb", STORE_SET, "/key", "x"),
                                talk("1bb", STORE_APPEND, "/key", "x"),
                                talk("14", STORE_PING, 7),
                                talk("1bbb", STORE_COMPARE_SET, "/key", "mine", "x"),
                                talk("1b8", STORE_ADD, "/n", 1L),
                                talk("1b", STORE_DELETE_KEY, "/key"),
                                talk("1bb", STORE_QUEUE_PUSH, "/q", "x")};
    tutti_store *store;

    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        if (!is_refused(port, requests[i]))
            _exit(10 + (int)i);
    if (tutti_store_open_tcp("127.0.0.1", port, 100, &store) != TUTTI_ERR_TIMEOUT)
        _exit(40);
    if (!strstr(tutti_last_error(), "serves another user"))
        _exit(41);
}

/* From here on, what is written to stderr is read from the result, which does not block. */
static int listen_to_stderr(void)
{
    int ends[2];

    cr_assert_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
    close(ends[1]);
    return ends[0];
}

static int count_of(const char *text, const char *word)
{
    int count = 0;

    for (; (text = strstr(text, word)); text++)
        count++;
    return count;
}

Test(store_guard, another_user_reads_and_changes_nothing_and_is_named_once)
{
    char said[8192] = "";
    tutti_store_server *server;
    tutti_store_value value;

    need_strangers();

    const int log = listen_to_stderr();

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);
    tutti_store *store = open_client(tutti_store_server_port(server));

    cr_assert_eq(tutti_store_set(store, "key", "mine", 4, 5000), TUTTI_OK);
    as_stranger(try_everything, tutti_store_server_port(server));
    cr_assert_eq(tutti_store_get(store, "key", 5000, &value), TUTTI_OK, "%s", tutti_last_error());
    cr_expect_str_eq(value.data, "mine");
    tutti_store_value_free(&value);

    int64_t count;

    cr_assert_eq(tutti_store_num_keys(store, 5000, &count), TUTTI_OK);
    cr_expect_eq(count, 1);
    cr_expect_gt(read(log, said, sizeof said - 1), 0);
    cr_expect_eq(count_of(said, "refused a connection of user 54321"), 1, "%s", said);
    works(store);
    tutti_store_unref(store);
    tutti_store_server_stop(server);
}

static void flood(uint16_t port)
{
    static char noise[1 << 16];

    for (int i = 0; i < 2000; i++) {
        const int fd = dial(AF_INET, port);

        send_quietly(fd, hello, sizeof hello);
        send_quietly(fd, noise, sizeof noise);
        if (i % 8)
            close(fd);
    }
}

Test(store_guard, another_users_flood_disturbs_nobody)
{
    tutti_store_server *server;

    need_strangers();
    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);

    const uint16_t port = tutti_store_server_port(server);
    tutti_store *early = open_client(port);
    const pid_t child = start_stranger(flood, port);

    for (int i = 0; i < 20; i++) {
        tutti_store *late = open_client(port);

        works(late);
        works(early);
        tutti_store_unref(late);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    works(early);
    tutti_store_unref(early);
    tutti_store_server_stop(server);
}

/* The kernel may say that a closed socket is root's. */
static void write_and_leave(uint16_t port)
{
    struct buffer set = talk("1bb", STORE_SET, "/key", "theirs");
    const int fd = dial(AF_INET, port);

    send_quietly(fd, hello, sizeof hello);
    send_quietly(fd, set.data, set.size);
    close(fd);
    buffer_free(&set);
}

Test(store_guard, a_stranger_that_has_left_before_it_is_accepted_changes_nothing)
{
    need_strangers();

    const struct child_server server = start_child_server(0);
    tutti_store *store = open_client(server.port);
    static const char *const key = "key";
    int32_t present;
    int how;

    kill(server.pid, SIGSTOP);
    cr_assert_eq(waitpid(server.pid, &how, WUNTRACED), server.pid);
    as_stranger(write_and_leave, server.port);
    kill(server.pid, SIGCONT);
    works(store);
    works(store);
    cr_assert_eq(tutti_store_check(store, &key, 1, 5000, &present), TUTTI_OK);
    cr_expect_not(present);
    tutti_store_unref(store);
    kill_child(server);
}

static void be_served(uint16_t port)
{
    tutti_store *store;

    if (tutti_store_open_tcp("127.0.0.1", port, SOON_MS, &store) ||
        tutti_store_set(store, "theirs", "", 0, SOON_MS))
        _exit(1);
    tutti_store_unref(store);
}

Test(store_guard, an_open_store_takes_everybody_and_says_so)
{
    char said[2048] = "";
    tutti_store_server *server;

    need_strangers();
    setenv("TUTTI_STORE_OPEN", "1", 1);

    const int log = listen_to_stderr();

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);
    as_stranger(be_served, tutti_store_server_port(server));
    cr_expect_gt(read(log, said, sizeof said - 1), 0);
    cr_expect_not_null(strstr(said, "TUTTI_STORE_OPEN=1: the store at port"), "%s", said);
    tutti_store_server_stop(server);
}

/* Requests that do not end, of 30 MiB each. */
static void hold_too_much(uint16_t port)
{
    enum { CLIENTS = 6, PART = 1 << 20, PARTS = 30 };
    static uint8_t part[PART];
    struct buffer begin = talk("1n", STORE_MULTI_SET, (long)PARTS + 2);
    struct buffer pair = talk("bn", "/large", (long)PART);
    tutti_store *store;

    for (int i = 0; i < CLIENTS; i++) {
        const int fd = dial(AF_INET, port);

        send_quietly(fd, hello, sizeof hello);
        send_quietly(fd, begin.data, begin.size);
        for (int j = 0; j < PARTS; j++) {
            send_quietly(fd, pair.data, pair.size);
            send_quietly(fd, part, sizeof part);
        }
    }
    if (tutti_store_open_tcp("127.0.0.1", port, SOON_MS, &store))
        _exit(1);
}

Test(store_guard, what_unknown_clients_hold_together_is_bounded)
{
    char said[4096] = "";
    tutti_store_server *server;

    need_strangers();
    setenv("TUTTI_STORE_OPEN", "1", 1);

    const int log = listen_to_stderr();

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);
    as_stranger(hold_too_much, tutti_store_server_port(server));
    cr_expect_gt(read(log, said, sizeof said - 1), 0);
    cr_expect_not_null(strstr(said, "closed the client that held most"), "%s", said);
    cr_expect_not_null(strstr(said, "of at most 134217728"), "%s", said);
    tutti_store_server_stop(server);
}

Test(store_guard, an_unknown_client_fills_a_quarter_of_the_store)
{
    static char text[4001];
    struct store_session unknown, known;
    struct store_map *map;
    tutti_status status = TUTTI_OK;
    int stored = 0;

    memset(text, 'v', sizeof text - 1);
    cr_assert_eq(store_map_new(64 << 10, &map), TUTTI_OK);
    store_session_init(&unknown, map, false, NULL);
    store_session_init(&known, map, true, NULL);
    cr_assert_eq(store_session_feed(&unknown, hello, sizeof hello), TUTTI_OK);
    cr_assert_eq(store_session_feed(&known, hello, sizeof hello), TUTTI_OK);
    for (; !status; stored++) {
        char key[24];
        struct buffer set;

        snprintf(key, sizeof key, "/%d", stored);
        set = talk("1bb", STORE_SET, key, text);
        status = store_session_feed(&unknown, set.data, set.size);
        buffer_free(&set);
    }
    cr_expect_eq(status, TUTTI_ERR_STORE);
    cr_expect_not_null(strstr(tutti_last_error(), "that the server does not know"), "%s",
                       tutti_last_error());
    cr_expect(stored > 2 && stored <= 4, "%d", stored);
    for (int i = 0; i < 8; i++) {
        char key[24];
        struct buffer set;

        snprintf(key, sizeof key, "/mine-%d", i);
        set = talk("1bb", STORE_SET, key, text);
        cr_expect_eq(store_session_feed(&known, set.data, set.size), TUTTI_OK, "%s",
                     tutti_last_error());
        buffer_free(&set);
    }
    store_session_free(&unknown);
    store_session_free(&known);
    store_map_free(map);
}

/* ---- whose a socket is ---- */

struct pair {
    int listener, client, accepted;
};

static struct pair connect_pair(const char *address, int family)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *at = address ? (struct sockaddr *)&six : (struct sockaddr *)&four;
    socklen_t size = address ? sizeof six : sizeof four;
    struct pair pair = {.listener = socket(at->sa_family, SOCK_STREAM, 0)};
    const int off = 0;

    if (address) {
        inet_pton(AF_INET6, address, &six.sin6_addr);
        (void)setsockopt(pair.listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (bind(pair.listener, at, size))
        cr_skip_test("there is no IPv6 here");
    cr_assert_eq(listen(pair.listener, 1), 0);
    cr_assert_eq(getsockname(pair.listener, at, &size), 0);
    pair.client = dial(family, ntohs(address ? six.sin6_port : four.sin_port));
    cr_assert_geq(pair.client, 0);
    pair.accepted = accept(pair.listener, NULL, NULL);
    cr_assert_geq(pair.accepted, 0);
    return pair;
}

/* By netlink, and then by /proc. */
static void is_found_both_ways(const char *address, int family)
{
    struct pair pair = connect_pair(address, family);
    struct store_peers peers;

    store_peers_open(&peers, pair.listener);
    for (int way = 0; way < 2; way++) {
        uid_t uid = 1;

        cr_expect_eq(store_peers_find(&peers, pair.accepted, &uid), STORE_PEER_OWN, "%d %s", way,
                     address ? address : "");
        cr_expect_eq(uid, geteuid());
        store_peers_close(&peers);
    }
    close(pair.client);
    store_peers_open(&peers, pair.listener);
    for (int way = 0; way < 2; way++) {
        uid_t uid;
        const enum store_peer peer = store_peers_find(&peers, pair.accepted, &uid);

        cr_expect(geteuid() ? peer == STORE_PEER_GONE || peer == STORE_PEER_OWN
                            : peer == STORE_PEER_GONE,
                  "%d: %d", way, (int)peer);
        store_peers_close(&peers);
    }
    close(pair.accepted);
    close(pair.listener);
}

Test(store_guard, the_owner_of_an_ipv4_connection_is_found)
{
    is_found_both_ways(NULL, AF_INET);
}

Test(store_guard, the_owner_of_an_ipv6_connection_is_found)
{
    is_found_both_ways("::1", AF_INET6);
    is_found_both_ways("::", AF_INET6);
}

Test(store_guard, the_owner_of_a_connection_of_mixed_families_is_found)
{
    is_found_both_ways("::", AF_INET);
    is_found_both_ways("::", 0);
}

Test(store_guard, without_netlink_and_proc_nobody_comes_in)
{
    struct pair pair = connect_pair(NULL, AF_INET);
    struct store_guard guard;
    char said[1024] = "";

    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", "/proc", "tmpfs", 0, NULL))
        cr_skip_test("only root may hide /proc");

    const int log = listen_to_stderr();

    store_guard_init(&guard, pair.listener, 1, NULL);
    store_peers_close(&guard.peers);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(store_guard_admit(&guard, pair.accepted), STORE_REFUSED);
    cr_expect_gt(read(log, said, sizeof said - 1), 0);
    cr_expect_eq(count_of(said, "the kernel does not say whose it is"), 1, "%s", said);
    guard.open = true;
    cr_expect_eq(store_guard_admit(&guard, pair.accepted), STORE_UNKNOWN);
}

/* ---- many connections ---- */

/* Opens `count` connections that show `size` bytes of the magic and no more. */
static void hold_half_open(uint16_t port, int *ret_fds, int count, size_t size)
{
    for (int i = 0; i < count; i++) {
        ret_fds[i] = dial(AF_INET, port);
        cr_assert_geq(ret_fds[i], 0, "%d: %s", i, strerror(errno));
        send_quietly(ret_fds[i], hello, size);
    }
}

Test(store_guard, a_client_gets_in_beside_5000_half_open_connections)
{
    enum { KIND = 1666 }; /* silent, in the middle of the magic, without a request */
    static int fds[3 * KIND];
    const struct rlimit enough = {3 * KIND + 100, 3 * KIND + 100};
    const struct child_server server = start_child_server(0);
    tutti_store *early = open_client(server.port);

    if (setrlimit(RLIMIT_NOFILE, &enough))
        cr_skip_test("the limit of descriptors cannot be %u", 3 * KIND + 100);
    for (size_t kind = 0; kind < 3; kind++) {
        static const size_t shown[] = {0, 1, sizeof hello};

        hold_half_open(server.port, fds + kind * KIND, KIND, shown[kind]);

        tutti_store *late = open_client(server.port);

        works(late);
        works(early);
        tutti_store_unref(late);
    }
    tutti_store_unref(early);
    kill_child(server);
}

Test(store_guard, who_has_sent_a_request_is_not_pushed_out_by_silent_ones)
{
    enum { SILENT = 300 };
    static int fds[SILENT];
    const struct child_server server = start_child_server(0);
    struct buffer ping = talk("14", STORE_PING, 7);
    uint8_t answer[4];
    int how;

    kill(server.pid, SIGSTOP);
    cr_assert_eq(waitpid(server.pid, &how, WUNTRACED), server.pid);

    const int fd = dial(AF_INET, server.port);

    send_quietly(fd, hello, sizeof hello);
    send_quietly(fd, ping.data, ping.size);
    hold_half_open(server.port, fds, SILENT, 0);
    kill(server.pid, SIGCONT);
    cr_assert(read_all(fd, answer, sizeof answer));
    cr_expect_eq(answer[0], 7);
    cr_expect(is_closed_within(fds[0], SOON_MS));
    close(fd);
    buffer_free(&ping);
    kill_child(server);
}

Test(store_guard, a_client_without_a_request_ends_and_one_with_a_request_may_idle, .timeout = 120)
{
    struct buffer ping = talk("14", STORE_PING, 7);
    tutti_store_server *server;
    uint8_t answer[4];

    if (!getenv("TUTTI_TEST_LONG"))
        cr_skip_test("it takes a minute: TUTTI_TEST_LONG=1");
    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);

    const uint16_t port = tutti_store_server_port(server);
    const int silent = dial(AF_INET, port), shown = dial(AF_INET, port),
              asked = dial(AF_INET, port);

    send_quietly(shown, hello, sizeof hello);
    send_quietly(asked, hello, sizeof hello);
    send_quietly(asked, ping.data, ping.size);
    cr_assert(read_all(asked, answer, sizeof answer));
    cr_expect(is_closed_within(silent, 30000));
    cr_expect_not(is_closed_within(shown, 20000));
    cr_expect(is_closed_within(shown, 60000));
    cr_expect_not(is_closed_within(asked, 5000));
    send_quietly(asked, ping.data, ping.size);
    cr_expect(read_all(asked, answer, sizeof answer));
    tutti_store_server_stop(server);
    buffer_free(&ping);
}
