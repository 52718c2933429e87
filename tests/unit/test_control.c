/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection of two members, both played by this process, where one reads too little or has
 * too little memory. tests/fault kills and stops real ones.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/control.h"
#include "no_memory.h"

TestSuite(control, .timeout = 60);

enum { SOON_MS = 20000 };

static const uint8_t token[CONTROL_TOKEN_BYTES] = "one token of all";
static char lost[CONTROL_WORDS_MAX]; /* what the first member was told of the second one's end */

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

/* Two members that are connected; the first one's connection. */
static struct control_conn *connect_two(struct control *pair[2])
{
    int64_t end = clock_deadline_ms(SOON_MS);
    struct control_conn *conn;

    for (int rank = 0; rank < 2; rank++)
        cr_assert_eq(control_open(rank, 2, "world", NULL, "127.0.0.1", &pair[rank]), TUTTI_OK);
    pair[0]->handlers = &handlers;
    pair[1]->members[0].address = pair[0]->address;
    pair[1]->members[0].address_size = pair[0]->address_size;
    for (int rank = 0; rank < 2; rank++)
        cr_assert_eq(control_start(pair[rank], token), TUTTI_OK);
    while (!(conn = control_conn_to(pair[0], 1)) && clock_now_ns() < end) {
        control_poll(pair[0]);
        control_poll(pair[1]);
        usleep(1000);
    }
    cr_assert_not_null(conn);
    return conn;
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

Test(control, one_that_has_no_memory_to_read_does_not_blame_who_wrote)
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
