/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection of two members, both played by this process, where one reads too little or has
 * too little memory. tests/fault kills and stops real ones.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/inside.h"
#include "no_memory.h"

TestSuite(control, .timeout = 60);

enum { SOON_MS = 20000, CHUNK = 1 << 16 };

static const uint8_t token[CONTROL_TOKEN_BYTES] = "one token of all";
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
    for (int rank = 0; rank < 2; rank++)
        cr_assert_eq(control_open(rank, 2, "world", NULL, "127.0.0.1", &pair[rank]), TUTTI_OK);
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
        cr_assert_eq(control_start(pair[rank], token), TUTTI_OK);
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

Test(control, the_largest_message_and_what_else_there_is_wait_for_one_that_computes)
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

Test(control, one_that_reads_slowly_costs_no_more_memory_than_what_waits_for_it)
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

Test(control, one_that_does_not_read_is_lost_in_words_before_memory_is)
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
    cr_assert_eq(control_start(pair[0], token), TUTTI_OK);
    cr_assert_eq(control_start(pair[1], token), TUTTI_OK);

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

/* ---- stopped processes ------------------------------------------------------------------------- */

static int stranger(const struct control *control)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&control->address, control->address_size), 0);
    return fd;
}

/* Moves the first member until so many are half open. */
static void await_half_open(struct control *first, int wanted)
{
    for (int64_t end = clock_deadline_ms(SOON_MS); clock_now_ns() < end; usleep(1000)) {
        int count = 0;

        control_poll(first);
        for (const struct control_conn *c = first->connections; c; c = c->next)
            count += c->rank < 0;
        if (count == wanted)
            return;
    }
    cr_assert_fail("not %d half open", wanted);
}

Test(control, a_hello_that_came_while_stopped_counts_after_its_deadline)
{
    struct control *pair[2];
    char byte;

    open_two(pair);
    cr_assert_eq(control_start(pair[0], token), TUTTI_OK);

    int silent = stranger(pair[0]);

    /* It dials; its hello follows when it is polled. */
    cr_assert_eq(control_start(pair[1], token), TUTTI_OK);
    await_half_open(pair[0], 2);
    for (struct control_conn *c = pair[0]->connections; c; c = c->next)
        c->hello_deadline_ns = 1; /* as if the first member had been stopped since */

    int late = stranger(pair[0]); /* is looked at before the hello, as it came first */

    control_poll(pair[1]);
    control_poll(pair[0]);
    cr_expect_not_null(control_conn_to(pair[0], 1));
    cr_expect_eq(recv(silent, &byte, 1, MSG_DONTWAIT), 0);
    cr_expect_eq(recv(late, &byte, 1, MSG_DONTWAIT), -1); /* has its ten seconds */
    cr_expect_str_empty(lost);
    close(silent);
    close(late);
    close_two(pair);
}
