/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers over the control connections, of members that this process plays all: what each one gets, and how
 * a gather ends that cannot be completed. tests/fault has real ranks.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "base/clock.h"
#include "base/error.h"
#include "control/inside.h"

TestSuite(gather, .timeout = 60);

enum { CROWD = 20 /* rank 1 has members below it */, SOON_MS = 20000, LATE_MS = 300, PLACE = 2 };

static const uint8_t salt[CONTROL_SALT_BYTES] = "one salt of all";
static const struct key key = {{1, 2, 3}};
static struct control *crowd[CROWD];
static struct gather *gathers[CROWD];

static void open_crowd(int size)
{
    for (int r = 0; r < size; r++)
        cr_assert_eq(control_open(r, size, "world", NULL, "127.0.0.1", &crowd[r]), TUTTI_OK);
    for (int r = 0; r < size; r++) {
        for (int other = 0; other < size; other++) {
            crowd[r]->members[other].address = crowd[other]->address;
            crowd[r]->members[other].address_size = crowd[other]->address_size;
        }
        gathers_begin(crowd[r], 1);
        cr_assert_eq(control_start(crowd[r], salt, &key), TUTTI_OK);
    }
}

static void close_crowd(int size)
{
    for (int r = 0; r < size; r++)
        control_close(crowd[r]);
}

static tutti_status start(int rank, const void *bytes, uint64_t count, int ms)
{
    return gather_start(crowd[rank], PLACE, "some", bytes, count, clock_deadline_ms(ms),
                        &gathers[rank]);
}

/* Until it has ended on that member, while all others are moved. */
static tutti_status finish(int rank, int size, void *ret_all)
{
    tutti_status status;

    while ((status = gather_test(crowd[rank], gathers[rank], ret_all)) == TUTTI_ERR_NOT_READY) {
        for (int r = 0; r < size; r++)
            control_poll(crowd[r]);
        usleep(200);
    }
    return status;
}

static void expect_words(const char *words)
{
    cr_expect_not_null(strstr(tutti_last_error(), words), "%s", tutti_last_error());
}

Test(gather, every_member_gets_the_bytes_of_all_in_the_order_of_ranks)
{
    static uint64_t mine[CROWD], all[CROWD][CROWD];

    open_crowd(CROWD);
    for (unsigned lap = 0; lap < 5; lap++) {
        for (int i = 0; i < CROWD; i++) {
            const int r = lap % 2 ? i : CROWD - 1 - i;

            mine[r] = (uint64_t)r * 100 + lap;
            cr_assert_eq(start(r, &mine[r], sizeof mine[r], SOON_MS), TUTTI_OK);
            mine[r] = 7; /* it is the caller's again */
        }
        for (int r = 0; r < CROWD; r++) {
            cr_assert_eq(finish(r, CROWD, all[r]), TUTTI_OK, "%s", tutti_last_error());
            for (unsigned other = 0; other < CROWD; other++)
                cr_assert_eq(all[r][other], other * 100 + lap);
        }
    }
    close_crowd(CROWD);
}

Test(gather, the_largest_gather_and_one_without_bytes_work)
{
    uint8_t *mine = malloc(GATHER_BYTES_MAX), *all = malloc((size_t)CROWD * GATHER_BYTES_MAX);

    cr_assert(mine && all);
    open_crowd(CROWD);
    for (int r = 0; r < CROWD; r++) {
        memset(mine, r + 1, GATHER_BYTES_MAX);
        cr_assert_eq(start(r, mine, GATHER_BYTES_MAX, SOON_MS), TUTTI_OK);
    }
    for (int r = 0; r < CROWD; r++) {
        cr_assert_eq(finish(r, CROWD, all), TUTTI_OK, "%s", tutti_last_error());
        for (size_t i = 0; i < (size_t)CROWD * GATHER_BYTES_MAX; i += 4095)
            cr_assert_eq(all[i], i / GATHER_BYTES_MAX + 1);
    }
    for (int r = 0; r < CROWD; r++)
        cr_assert_eq(start(r, NULL, 0, SOON_MS), TUTTI_OK);
    for (int r = 0; r < CROWD; r++)
        cr_assert_eq(finish(r, CROWD, NULL), TUTTI_OK);
    cr_expect_eq(start(0, mine, GATHER_BYTES_MAX + 1, SOON_MS), TUTTI_ERR_INVALID_ARGUMENT);
    expect_words("some gathers 65537 bytes of each member: at most 65536 are allowed");
    close_crowd(CROWD);
    free(mine);
    free(all);
}

Test(gather, a_fast_member_may_begin_the_next_gather)
{
    uint32_t mine[3] = {1, 2, 3}, all[3];

    open_crowd(3);
    for (int r = 0; r < 3; r++)
        cr_assert_eq(start(r, &mine[r], sizeof mine[r], SOON_MS), TUTTI_OK);
    for (int r = 1; r < 3; r++) {
        cr_assert_eq(finish(r, 3, all), TUTTI_OK);
        mine[r] += 10;
        cr_assert_eq(start(r, &mine[r], sizeof mine[r], SOON_MS), TUTTI_OK);
    }
    for (int i = 0; i < 100; i++, usleep(200))
        for (int r = 0; r < 3; r++)
            control_poll(crowd[r]);
    cr_assert_eq(finish(0, 3, all), TUTTI_OK);
    cr_expect(all[0] == 1 && all[1] == 2 && all[2] == 3);
    cr_assert_eq(start(0, &mine[0], sizeof mine[0], SOON_MS), TUTTI_OK);
    for (int r = 0; r < 3; r++) {
        cr_assert_eq(finish(r, 3, all), TUTTI_OK);
        cr_expect(all[0] == 1 && all[1] == 12 && all[2] == 13);
    }
    close_crowd(3);
}

Test(gather, a_second_one_at_a_time_is_refused_in_words)
{
    open_crowd(2);
    cr_assert_eq(start(0, "a", 1, SOON_MS), TUTTI_OK);
    cr_expect_eq(start(0, "a", 1, SOON_MS), TUTTI_ERR_INVALID_ARGUMENT);
    expect_words("some starts a gather while another is under way: call gather_test until");
    close_crowd(2);
}

Test(gather, a_member_that_never_comes_is_named_at_the_deadline)
{
    uint8_t all[CROWD];

    open_crowd(CROWD);
    for (int r = 0; r < CROWD; r++)
        if (r != 18)
            cr_assert_eq(start(r, "a", 1, LATE_MS), TUTTI_OK);
    cr_expect_eq(finish(0, CROWD, all), TUTTI_ERR_TIMEOUT);
    expect_words("some: rank 0 timed out gathering 1 bytes of all members: no answer from rank 1");
    cr_expect_eq(finish(1, CROWD, all), TUTTI_ERR_TIMEOUT);
    expect_words("no answer from rank 18");
    cr_expect_eq(finish(17, CROWD, all), TUTTI_ERR_TIMEOUT);
    expect_words("no answer from rank 1");
    cr_expect(gather_tell_failure(crowd[17], PLACE, TUTTI_ERR_TIMEOUT));
    cr_expect(!gather_tell_failure(crowd[17], PLACE, TUTTI_ERR_MISMATCH));
    cr_expect(!gather_tell_failure(crowd[17], PLACE + 1, TUTTI_ERR_TIMEOUT));
    close_crowd(CROWD);
}

Test(gather, members_that_gather_different_numbers_of_bytes_are_named)
{
    static const uint8_t bytes[64];
    uint8_t all[3 * 64];

    open_crowd(3);
    cr_assert_eq(start(0, bytes, 8, SOON_MS), TUTTI_OK);
    cr_assert_eq(start(2, bytes, 64, SOON_MS), TUTTI_OK);
    cr_expect_eq(finish(0, 3, all), TUTTI_ERR_MISMATCH);
    expect_words("some: rank 2 gathers 64 bytes where rank 0 gathers 8");
    close_crowd(3);

    open_crowd(3); /* the other comes first, and has more */
    cr_assert_eq(start(2, bytes, 8, SOON_MS), TUTTI_OK);
    for (int i = 0; i < 200; i++, usleep(200))
        for (int r = 0; r < 3; r++)
            control_poll(crowd[r]);
    cr_assert_eq(start(0, bytes, 64, SOON_MS), TUTTI_OK);
    cr_assert_eq(start(1, bytes, 64, SOON_MS), TUTTI_OK);
    cr_expect_eq(finish(0, 3, all), TUTTI_ERR_MISMATCH);
    expect_words("rank 2 gathers 8 bytes where rank 0 gathers 64");
    close_crowd(3);
}

Test(gather, the_verdict_of_the_group_ends_a_gather)
{
    uint8_t all[3];

    open_crowd(3);
    for (int r = 0; r < 3; r++)
        crowd[r]->ready = true;
    cr_assert_eq(start(1, "a", 1, SOON_MS), TUTTI_OK);
    control_propose(crowd[2], TUTTI_ERR_ABORTED, 2, "rank 2 has had enough");
    cr_expect_eq(finish(1, 3, all), TUTTI_ERR_ABORTED);
    expect_words("rank 2 has had enough");
    close_crowd(3);
}

Test(gather, a_member_that_has_left_gives_no_bytes_any_more)
{
    static const struct announce none;
    uint8_t all[2];

    open_crowd(2);
    for (int r = 0; r < 2; r++)
        crowd[r]->ready = true;
    cr_assert_eq(start(0, "a", 1, SOON_MS), TUTTI_OK);
    control_leave(crowd[1], &none);
    const int64_t began = clock_now_ns();
    cr_expect_eq(finish(0, 2, all), TUTTI_ERR_PEER_LOST);
    cr_expect_lt(clock_now_ns() - began, 5000 * CLOCK_NS_PER_MS);
    expect_words("some: rank 1 has left the group, and gives no bytes for a gather any more");
    close_crowd(2);
}

Test(gather, a_later_round_forgets_what_an_earlier_one_has_begun)
{
    uint8_t all[2];

    open_crowd(2);
    cr_assert_eq(start(1, "a", 1, SOON_MS), TUTTI_OK);
    gathers_begin(crowd[1], 2);
    cr_assert_eq(start(1, "b", 1, SOON_MS), TUTTI_OK); /* before the other is in that round */
    for (int i = 0; i < 200; i++, usleep(200))
        for (int r = 0; r < 2; r++)
            control_poll(crowd[r]);
    gathers_begin(crowd[0], 2);
    cr_assert_eq(start(0, "c", 1, SOON_MS), TUTTI_OK);
    for (int r = 0; r < 2; r++) {
        cr_assert_eq(finish(r, 2, all), TUTTI_OK);
        cr_expect(all[0] == 'c' && all[1] == 'b');
    }
    close_crowd(2);
}

/* ---- frames that no member of ours sends ---- */

static void send_raw(uint32_t round, uint32_t place, uint64_t number, uint32_t count,
                     const uint32_t *ranks, int ranks_count)
{
    uint8_t body[256];
    struct writer w = {.data = body, .capacity = sizeof body};

    write_u32(&w, round);
    write_u32(&w, place);
    write_u64(&w, number);
    write_u32(&w, count);
    for (int i = 0; i < ranks_count; i++) {
        write_u32(&w, ranks[i]);
        write_u8(&w, (uint8_t)'x');
    }
    cr_assert_eq(control_send_up(crowd[1], FRAME_GATHER, body, w.size), TUTTI_OK);
}

Test(gather, frames_for_no_gather_are_dropped_and_held_by_nobody)
{
    static const uint32_t one[] = {1}, others[] = {0, 2, 77, UINT32_MAX};
    uint8_t all[3];

    open_crowd(3);
    send_raw(1, GATHER_PLACES, 1, 1, one, 1);
    send_raw(1, PLACE, 3, 1, one, 1);
    send_raw(1, PLACE, 0, 1, one, 1);
    send_raw(0, PLACE, 1, 1, one, 1);
    send_raw(3, PLACE, 1, 1, one, 1);
    send_raw(1, PLACE, 1, GATHER_BYTES_MAX + 1, one, 1);
    send_raw(1, PLACE, 1, 1, others,
             4); /* a gather, but the bytes of ranks that are not below it */
    for (int i = 0; i < 200; i++, usleep(200))
        for (int r = 0; r < 3; r++)
            control_poll(crowd[r]);
    cr_assert_eq(start(0, "a", 1, SOON_MS), TUTTI_OK);
    cr_assert_not_null(crowd[0]->gathers.first);
    cr_expect_eq(crowd[0]->gathers.first, gathers[0]);
    cr_assert_eq(start(1, "b", 1, SOON_MS), TUTTI_OK);
    cr_assert_eq(start(2, "c", 1, SOON_MS), TUTTI_OK);
    cr_assert_eq(finish(0, 3, all), TUTTI_OK);
    cr_expect(!memcmp(all, "abc", 3));
    cr_expect_null(crowd[0]->gathers.first);
    close_crowd(3);
}
