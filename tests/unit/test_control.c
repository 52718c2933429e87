/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection of two members, both played by this process, where one reads too little or has
 * too little memory, and strangers that connect. tests/fault kills and stops real ones.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/inside.h"
#include "mapping_flags.h"
#include "no_memory.h"

TestSuite(control, .timeout = 60);

enum {
    SOON_MS = 20000,
    CHUNK = 1 << 16,
    FLIGHT_BYTES = 512, /* of a TLS listener, at most */
    ALERT_BYTES = 7
};

static bool encrypted;

/* A test of connections without encryption, and one with it. */
#define PLAIN_AND_ENCRYPTED(name)                                                                  \
    static void name(void);                                                                        \
    Test(control, name)                                                                            \
    {                                                                                              \
        name();                                                                                    \
    }                                                                                              \
    Test(control, name##_by_tls)                                                                   \
    {                                                                                              \
        encrypted = true;                                                                          \
        name();                                                                                    \
    }                                                                                              \
    static void name(void)

static const uint8_t salt[CONTROL_SALT_BYTES] = "one salt of all";
static const struct key key = {{1, 2, 3}}, other_key = {{3, 2, 1}};
static char lost[CONTROL_MESSAGE_MAX]; /* what the first member was told of the second one's end */

static void note_gone(void *user, int rank, const char *words)
{
    (void)user;
    cr_expect_eq(rank, 1);
    snprintf(lost, sizeof lost, "%s", words);
}

static void note_joined(void *user, struct control_conn *conn)
{
    (void)user;
    (void)conn;
}

static const struct control_handlers handlers = {.gone = note_gone, .joined = note_joined};

/* Two members, of which the second one is to dial the first. */
static void open_two(struct control *pair[2])
{
    for (int rank = 0; rank < 2; rank++) {
        cr_assert_eq(control_open(rank, 2, "world", NULL, "127.0.0.1", &pair[rank]), TUTTI_OK);
        pair[rank]->encrypts = encrypted;
    }
    pair[0]->handlers = &handlers;
    pair[1]->members[0].address = pair[0]->address;
    pair[1]->members[0].address_size = pair[0]->address_size;
}

/* The first one's connection. */
static struct control_conn *await_connection(struct control *pair[2])
{
    int64_t end = clock_deadline_ms(SOON_MS);
    struct control_conn *conn;

    while (!(conn = control_conn_to(pair[0], 1)) && clock_now_ns() < end) {
        control_poll(pair[0]);
        control_poll(pair[1]);
        usleep(1000);
    }
    cr_assert_not_null(conn);
    return conn;
}

/* Two members that are connected; the first one's connection. */
static struct control_conn *connect_two(struct control *pair[2])
{
    open_two(pair);
    for (int rank = 0; rank < 2; rank++)
        cr_assert_eq(control_start(pair[rank], salt, &key), TUTTI_OK);
    return await_connection(pair);
}

static void close_two(struct control *pair[2])
{
    control_close(pair[0]);
    control_close(pair[1]);
}

/* Moves the first member until it knows that the second one is lost. */
static void await_loss(struct control *first)
{
    for (int64_t end = clock_deadline_ms(SOON_MS); !*lost && clock_now_ns() < end; usleep(1000))
        control_poll(first);
}

Test(control, the_keys_of_a_group_are_in_no_core_dump)
{
    struct control *pair[2];
    char flags[256];

    connect_two(pair);
    flags_of(pair[0]->group_key, flags);
    cr_expect(strstr(flags, " dd"), "%s", flags);
    flags_of(pair[0]->key, flags);
    cr_expect(strstr(flags, " dd"), "%s", flags);
    close_two(pair);
}

Test(control, a_reader_without_memory_does_not_blame_the_writer)
{
    struct control *pair[2];
    struct control_conn *conn = connect_two(pair);

    conn->in.size = conn->in.capacity = NO_MEMORY_BYTES;
    conn->in.limit = 2 * NO_MEMORY_BYTES;
    cr_assert_eq(control_send_up(pair[1], FRAME_REPORT, "", 1), TUTTI_OK);
    await_loss(pair[0]);
    cr_expect_str_eq(lost, "rank 1 was lost: rank 0 has no memory to read what it sent");
    close_two(pair);
}

/* ---- slow readers, and none -------------------------------------------------------------------- */

static uint8_t chunk[CHUNK];

static size_t waiting(const struct control_conn *conn)
{
    return conn->out_size - conn->out_at;
}

/* So that the kernel takes little of it. */
static void shrink(int fd)
{
    int bytes = CHUNK;

    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
}

PLAIN_AND_ENCRYPTED(the_largest_message_and_what_else_there_is_wait_for_one_that_computes)
{
    struct control *pair[2];
    struct control_conn *conn = connect_two(pair);
    const size_t largest = control_frame_limit(pair[0]) - FRAME_HEADER;
    uint8_t *roster = calloc(1, largest);

    shrink(conn->watch.fd);
    while (waiting(conn) + 2 * CHUNK < CONTROL_OUT_MAX)
        control_send_down(pair[0], FRAME_OUTCOME, chunk, CHUNK);
    control_send_down(pair[0], FRAME_ROSTER, roster, largest);
    cr_assert_not(conn->closing);
    for (int64_t end = clock_deadline_ms(SOON_MS); waiting(conn) && clock_now_ns() < end;) {
        control_poll(pair[1]);
        control_poll(pair[0]);
    }
    cr_expect_eq(waiting(conn), 0);
    cr_expect_str_empty(lost);
    free(roster);
    close_two(pair);
}

PLAIN_AND_ENCRYPTED(one_that_reads_slowly_costs_no_more_memory_than_what_waits_for_it)
{
    enum { TURNS = 2000, WAITING = 8 * CHUNK };
    struct control *pair[2];
    struct control_conn *conn = connect_two(pair);
    size_t sent = 0;

    shrink(conn->watch.fd);
    for (int turn = 0; turn < TURNS; turn++) {
        for (; waiting(conn) < WAITING; sent += CHUNK)
            control_send_down(pair[0], FRAME_OUTCOME, chunk, CHUNK);
        control_poll(pair[1]);
        control_poll(pair[0]);
    }
    cr_expect_gt(sent, 8 * WAITING, "%zu bytes", sent);
    cr_expect_leq(conn->out_capacity, 5 * WAITING, "%zu bytes of %zu", conn->out_capacity, sent);
    cr_expect_str_empty(lost);
    close_two(pair);
}

PLAIN_AND_ENCRYPTED(one_that_does_not_read_is_lost_in_words_before_memory_is)
{
    struct control *pair[2];
    struct control_conn *conn = connect_two(pair);
    const size_t bound = control_frame_limit(pair[0]) + CONTROL_OUT_MAX;
    int kib = 0;

    for (int i = 0; i < 1000 && !conn->closing; i++)
        control_send_down(pair[0], FRAME_OUTCOME, chunk, CHUNK);
    cr_assert(conn->closing);
    cr_expect_leq(conn->out_capacity, 4 * bound);
    await_loss(pair[0]);
    cr_assert_eq(sscanf(lost, "rank 1 was lost: it does not read; %d KiB wait for it", &kib), 1,
                 "«%s»", lost);
    cr_expect(kib * 1024 > CONTROL_OUT_MAX && (size_t)kib * 1024 <= bound, "%d KiB", kib);
    close_two(pair);
}

/* ---- without descriptors ------------------------------------------------------------------------- */

Test(control, a_listener_without_descriptors_does_not_spin_until_it_has_some)
{
    struct control *pair[2];
    struct rlimit before;

    open_two(pair);
    cr_assert_eq(control_start(pair[0], salt, &key), TUTTI_OK);
    cr_assert_eq(control_start(pair[1], salt, &key), TUTTI_OK);

    int next = dup(0); /* the first number that is free */

    close(next);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, before.rlim_max}), 0);
    control_poll(pair[0]);
    cr_expect(pair[0]->accept_warned && pair[0]->listener.retry_ns);
    cr_expect_null(pair[0]->connections);
    cr_expect_eq(epoll_wait(pair[0]->epoll_fd, &(struct epoll_event){0}, 1, 0), 0, "it spins");
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    await_connection(pair);
    close_two(pair);
}

/* ---- strangers --------------------------------------------------------------------------------- */

static int connect_to(const struct control *control)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&control->address, control->address_size), 0);
    return fd;
}

/* Moves the first member until so many are half open. */
static void await_half_open(struct control *first, int wanted)
{
    for (int64_t end = clock_deadline_ms(SOON_MS); first->half_open != wanted; usleep(1000)) {
        cr_assert(clock_now_ns() < end, "not %d half open", wanted);
        control_poll(first);
    }
}

/* Moves the first member until the stranger is closed, which has got at most `most` bytes. */
static void await_closed(struct control *first, int fd, ssize_t most)
{
    uint8_t bytes[256];

    for (int64_t end = clock_deadline_ms(SOON_MS);; usleep(1000)) {
        const ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);

        cr_expect_leq(n, most);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        cr_assert(clock_now_ns() < end, "it is not closed");
        control_poll(first);
    }
    close(fd);
}

PLAIN_AND_ENCRYPTED(a_hello_that_came_while_stopped_counts_after_its_deadline)
{
    struct control *pair[2];
    char byte;

    open_two(pair);
    cr_assert_eq(control_start(pair[0], salt, &key), TUTTI_OK);

    int silent = connect_to(pair[0]);

    /* It dials; its hello follows when it is polled. */
    cr_assert_eq(control_start(pair[1], salt, &key), TUTTI_OK);
    await_half_open(pair[0], 2);
    for (int i = 0; i < 2; i++)
        pair[0]->guests[i].deadline_ns = 1; /* as if the first member had been stopped since */

    int late = connect_to(pair[0]); /* is looked at before the hello, as it came first */

    control_poll(pair[1]);
    control_poll(pair[0]);
    cr_expect_eq(recv(silent, &byte, 1, MSG_DONTWAIT), 0);
    cr_expect_eq(recv(late, &byte, 1, MSG_DONTWAIT), -1); /* has its ten seconds */
    await_connection(pair);
    cr_expect_str_empty(lost);
    close(silent);
    close(late);
    close_two(pair);
}

PLAIN_AND_ENCRYPTED(a_member_with_another_key_is_not_let_in_and_says_so)
{
    struct control *pair[2];

    open_two(pair);
    cr_assert_eq(control_start(pair[0], salt, &key), TUTTI_OK);
    cr_assert_eq(control_start(pair[1], salt, &other_key), TUTTI_OK);
    for (int64_t end = clock_deadline_ms(SOON_MS); !pair[1]->members[0].dead; usleep(1000)) {
        cr_assert(clock_now_ns() < end);
        control_poll(pair[0]);
        control_poll(pair[1]);
    }
    cr_expect(strstr(pair[1]->members[0].unreachable, "not a member of the group"), "%s",
              pair[1]->members[0].unreachable);
    cr_expect_null(pair[0]->connections);
    cr_expect_str_empty(lost);
    close_two(pair);
}

/* Between both members: passes on what they say, and keeps what the dialer says. */
struct tap {
    int listener, dialer, to;
    uint8_t said[1024];
    size_t size;
};

static struct tap tap_between(struct control *pair[2])
{
    struct control_member *first = &pair[1]->members[0];
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct tap tap = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .dialer = -1};
    socklen_t size = sizeof own;

    cr_assert(!bind(tap.listener, (struct sockaddr *)&own, sizeof own) &&
              !listen(tap.listener, 16) &&
              !getsockname(tap.listener, (struct sockaddr *)&own, &size));
    memcpy(&first->address, &own, sizeof own);
    return tap;
}

/* Passes on in both directions what is there. */
static void tap_pass(struct tap *tap, const struct control *first)
{
    uint8_t bytes[1024];
    ssize_t n;

    if (tap->dialer < 0) {
        tap->dialer = accept4(tap->listener, NULL, NULL, SOCK_CLOEXEC);
        tap->to = connect_to(first);
    }
    n = recv(tap->dialer, tap->said + tap->size, sizeof tap->said - tap->size, MSG_DONTWAIT);
    if (n > 0) {
        cr_assert_eq(send(tap->to, tap->said + tap->size, (size_t)n, MSG_NOSIGNAL), n);
        tap->size += (size_t)n;
    }
    n = recv(tap->to, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0)
        cr_assert_eq(send(tap->dialer, bytes, (size_t)n, MSG_NOSIGNAL), n);
}

/* All bytes that a member of the group has sent, in any cut: they are worth nothing in another connection. */
PLAIN_AND_ENCRYPTED(a_recorded_connection_sent_again_changes_nothing)
{
    struct control *pair[2], *later[2];

    open_two(pair);
    struct tap tap = tap_between(pair);
    for (int rank = 0; rank < 2; rank++)
        cr_assert_eq(control_start(pair[rank], salt, &key), TUTTI_OK);
    cr_assert_eq(
        control_send_up(pair[1], FRAME_LEAVE, "123456789012345678901234567890123456789012", 40),
        TUTTI_OK);
    struct control_conn *dialed = control_conn_to(pair[1], 0);
    for (int64_t end = clock_deadline_ms(SOON_MS); dialed->stage != CONN_OPEN || waiting(dialed);
         usleep(1000)) {
        cr_assert(clock_now_ns() < end);
        tap_pass(&tap, pair[0]);
        control_poll(pair[0]);
        control_poll(pair[1]);
    }
    tap_pass(&tap, pair[0]);
    cr_assert_geq(tap.size, PROOF_HELLO_BYTES + PROOF_ANSWER_BYTES + FRAME_HEADER + 40);
    cr_assert_not_null(control_conn_to(pair[0], 1));

    open_two(later); /* another job of the same key */
    cr_assert_eq(control_start(later[0], salt, &key), TUTTI_OK);
    for (int job = 0; job < 2; job++) {
        struct control *first = job ? later[0] : pair[0];
        const struct control_conn *before = first->connections;

        for (size_t cut = 1; cut <= tap.size; cut += cut < 8 ? 1 : 13) {
            int fd = connect_to(first);

            cr_assert_eq(send(fd, tap.said, cut, MSG_NOSIGNAL), (ssize_t)cut);
            shutdown(fd, SHUT_WR);
            await_closed(first, fd, encrypted ? FLIGHT_BYTES : PROOF_CHALLENGE_BYTES);
        }
        cr_expect_eq(first->connections, before);
        cr_expect_eq(first->half_open, 0);
        cr_expect_not(first->members[1].left || first->members[1].dead);
    }
    cr_expect_str_empty(lost);
    close(tap.dialer);
    close(tap.to);
    close(tap.listener);
    close_two(pair);
    close_two(later);
}

/* A member that leaves tells those that do not look: its message counts, forged ones do not. */
PLAIN_AND_ENCRYPTED(a_farewell_counts_under_the_key_of_the_group_alone)
{
    struct control *pair[2];
    uint8_t farewell[FAREWELL_BYTES];

    open_two(pair);
    cr_assert_eq(control_start(pair[0], salt, &key), TUTTI_OK);
    cr_assert_eq(control_start(pair[1], salt, &other_key), TUTTI_OK);
    pair[1]->members[1].last = (struct announce){.sequence = 7};
    for (int forged = FAREWELL_BYTES; forged >= 0; forged--) {
        int fd = connect_to(pair[0]);

        cr_assert_eq(farewell_write(pair[forged == FAREWELL_BYTES], 1, farewell), TUTTI_OK);
        if (forged < FAREWELL_BYTES)
            farewell[forged] ^= 1;
        cr_assert_eq(send(fd, farewell, sizeof farewell, MSG_NOSIGNAL), sizeof farewell);
        await_closed(pair[0], fd, 0);
        cr_expect_not(pair[0]->members[1].left, "byte %d", forged);
    }
    int fd = connect_to(pair[0]);
    pair[0]->members[1].last = (struct announce){.sequence = 7};
    cr_assert_eq(farewell_write(pair[0], 1, farewell), TUTTI_OK);
    pair[0]->members[1].last = (struct announce){0};
    cr_assert_eq(send(fd, farewell, sizeof farewell, MSG_NOSIGNAL), sizeof farewell);
    shutdown(fd, SHUT_WR);
    await_closed(pair[0], fd, 0);
    cr_expect(pair[0]->members[1].left);
    cr_expect_eq(pair[0]->members[1].last.sequence, 7);
    close_two(pair);
}

/* The first member computes while the second one leaves and is gone. */
PLAIN_AND_ENCRYPTED(a_member_that_leaves_in_the_handshake_is_not_lost)
{
    struct control *pair[2];

    open_two(pair);
    for (int rank = 0; rank < 2; rank++)
        cr_assert_eq(control_start(pair[rank], salt, &key), TUTTI_OK);
    control_leave(pair[1], &(struct announce){.sequence = 5});
    control_close(pair[1]);
    for (int64_t end = clock_deadline_ms(SOON_MS); !pair[0]->members[1].left; usleep(1000)) {
        cr_assert(clock_now_ns() < end);
        control_poll(pair[0]);
    }
    cr_expect_eq(pair[0]->members[1].last.sequence, 5);
    cr_expect_str_eq(lost, "rank 1 left");
    control_close(pair[0]);
}

/* A process at the first member's address sends the dialer its own words back. */
Test(control, a_dialer_does_not_believe_its_own_words)
{
    struct control *pair[2];
    uint8_t bytes[256];
    ssize_t n = -1;

    open_two(pair);
    struct tap mirror = tap_between(pair);
    cr_assert_eq(control_start(pair[1], salt, &key), TUTTI_OK);
    mirror.dialer = accept4(mirror.listener, NULL, NULL, SOCK_CLOEXEC);
    for (int64_t end = clock_deadline_ms(SOON_MS); n < 0 && clock_now_ns() < end; usleep(1000)) {
        control_poll(pair[1]);
        n = recv(mirror.dialer, bytes, sizeof bytes, MSG_DONTWAIT);
    }
    cr_assert_eq(n, PROOF_HELLO_BYTES);
    memcpy(bytes + n, bytes, (size_t)n);
    cr_assert_eq(send(mirror.dialer, bytes, PROOF_CHALLENGE_BYTES, MSG_NOSIGNAL),
                 PROOF_CHALLENGE_BYTES);
    for (int64_t end = clock_deadline_ms(SOON_MS); !pair[1]->members[0].dead; usleep(1000)) {
        cr_assert(clock_now_ns() < end);
        control_poll(pair[1]);
    }
    cr_expect(strstr(pair[1]->members[0].unreachable, "not a member of the group"));
    cr_expect_eq(recv(mirror.dialer, bytes, sizeof bytes, 0), 0);
    close(mirror.dialer);
    close(mirror.listener);
    close_two(pair);
}

PLAIN_AND_ENCRYPTED(garbage_is_closed_at_its_first_byte_that_cannot_be_right)
{
    struct control *pair[2];
    uint8_t bytes[256];
    unsigned state = 1;

    open_two(pair);
    cr_assert_eq(control_start(pair[0], salt, &key), TUTTI_OK);
    for (int i = 0; i < 64; i++) {
        int fd = connect_to(pair[0]);

        for (size_t at = 0; at < sizeof bytes; at++)
            bytes[at] = (uint8_t)(state = state * 1103515245 + 12345);
        bytes[0] = (uint8_t)i; /* never that of the magic */
        cr_assert_gt(send(fd, bytes, 1 + (size_t)i * 4, MSG_NOSIGNAL), 0);
        await_closed(pair[0], fd, encrypted ? ALERT_BYTES : 0);
    }
    cr_expect_str_empty(lost);
    close_two(pair);
}

/* ---- a flood ------------------------------------------------------------------------------------- */

enum { FLOOD = 5000, OPEN_FILES = 2 * FLOOD };

static _Atomic int flooded; /* connections so far */
static _Atomic bool flood_ends;

/* Silent connections, each 16th with half a hello; the oldest end when there are FLOOD. */
static void *flood(void *user)
{
    static int fds[FLOOD];
    struct proof proof;
    uint8_t hello[PROOF_HELLO_BYTES];

    if (proof_hello(1, 0, &proof, hello))
        return NULL;
    if (encrypted)
        memcpy(hello, "\x16\x03\x01\x02", 4); /* a ClientHello of 512 bytes begins */
    for (int i = 0; !flood_ends; i++) {
        int *fd = &fds[i % FLOOD];

        if (i >= FLOOD)
            close(*fd);
        *fd = connect_to(user);
        if (i % 16 == 0)
            (void)send(*fd, hello, sizeof hello / 2, MSG_NOSIGNAL);
        flooded++;
    }
    for (int i = 0; i < FLOOD && i < flooded; i++)
        close(fds[i]);
    return NULL;
}

static void let_open_many_files(void)
{
    struct rlimit files;

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = OPEN_FILES;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0, "the test needs %d open files (ulimit -Hn)",
                 OPEN_FILES);
}

PLAIN_AND_ENCRYPTED(a_member_gets_in_during_a_flood_of_silent_connections)
{
    struct control *pair[2];
    pthread_t thread;

    let_open_many_files();
    open_two(pair);
    cr_assert_eq(control_start(pair[0], salt, &key), TUTTI_OK);
    cr_assert_eq(pthread_create(&thread, NULL, flood, pair[0]), 0);
    while (flooded < FLOOD)
        control_poll(pair[0]);
    cr_expect_eq(pair[0]->half_open, CONTROL_HALF_OPEN_MAX);

    /* Before the ten seconds of those that hold a slot are over; tells how long it took. */
    const int64_t start = clock_now_ns();
    cr_assert_eq(control_start(pair[1], salt, &key), TUTTI_OK);
    while (!control_conn_to(pair[0], 1)) {
        control_poll(pair[0]);
        control_poll(pair[1]);
        cr_assert(clock_now_ns() < start + CONTROL_HELLO_SECONDS * CLOCK_NS_PER_S / 2);
    }
    printf("a member came in after %lld us, %d connections so far\n",
           (long long)(clock_now_ns() - start) / 1000, flooded);
    flood_ends = true;
    /* the thread may wait for a place in the backlog */
    struct timespec soon;
    do {
        control_poll(pair[0]);
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_nsec = soon.tv_nsec < 990000000 ? soon.tv_nsec + 10000000 : soon.tv_nsec;
    } while (pthread_timedjoin_np(thread, NULL, &soon));
    cr_expect_str_empty(lost);
    close_two(pair);
}
