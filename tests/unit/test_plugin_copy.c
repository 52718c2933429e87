/* SPDX-License-Identifier: Apache-2.0 */
/* Copies into memory that a local peer reads: the same bytes in both ways, and the choice between them by what they cost. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/plugin_copy.h>

enum { CHUNK = 64 * 1024, KIB = CHUNK / 1024, WINDOW = 2 << 20 };

/* A machine on which 1024 bytes cost so many ticks. */
struct costs {
    uint64_t plain, streaming;
};

static uint64_t now = 1;

/* One copy by the machine's clock; returns whether it is streaming. */
static uint32_t copy_once(tutti_copy *copy, struct costs costs)
{
    const tutti_copy_turn turn = tutti_copy_begin_at(copy, tutti_copy_is_timed(copy) ? now : 0);

    now += KIB * (turn.streams ? costs.streaming : costs.plain);
    tutti_copy_end_at(copy, turn, CHUNK, now);
    return turn.streams;
}

/* How many of so many copies are streaming. */
static unsigned count_streaming(tutti_copy *copy, struct costs costs, unsigned copies)
{
    unsigned streaming = 0;

    for (unsigned i = 0; i < copies; i++)
        streaming += copy_once(copy, costs);
    return streaming;
}

static const struct costs near = {60, 100}, near_long = {160, 180}, far = {700, 100};

Test(plugin_copy, plain_stores_stay_where_they_are_fast)
{
    tutti_copy copy = {.window_bytes = WINDOW};

    cr_assert_eq(count_streaming(&copy, near, 10000), 0);
}

Test(plugin_copy, streaming_stores_are_tried_rarely_where_memory_is_slow)
{
    tutti_copy copy = {.window_bytes = WINDOW};

    cr_assert_leq(count_streaming(&copy, near_long, 10000), 10000 / 200);
}

Test(plugin_copy, slow_plain_stores_give_way_to_streaming_ones)
{
    tutti_copy copy = {.window_bytes = WINDOW};

    count_streaming(&copy, far, 100);
    cr_assert_geq(count_streaming(&copy, far, 100000), 95000);
}

Test(plugin_copy, streaming_stores_must_be_faster_by_half_or_by_what_the_caller_says)
{
    static const struct costs by_less = {190, 130}, by_more = {220, 130};
    tutti_copy less = {.window_bytes = WINDOW}, more = {.window_bytes = WINDOW},
               crowded = {.window_bytes = WINDOW, .wins_by = TUTTI_COPY_WINS_BY};

    cr_assert_leq(count_streaming(&less, by_less, 10000), 10000 / 200);
    count_streaming(&more, by_more, 100);
    cr_assert_geq(count_streaming(&more, by_more, 100000), 95000);
    cr_assert_leq(count_streaming(&crowded, by_more, 10000), 10000 / 200);
}

Test(plugin_copy, a_streaming_copy_that_is_faster_than_memory_is_not_believed)
{
    static const struct costs on_its_way = {180, 40};
    tutti_copy copy = {.window_bytes = WINDOW};

    cr_assert_leq(count_streaming(&copy, on_its_way, 10000), 10000 / 200);

    /* With a factor that bound is not multiplied. */
    static const struct costs across = {430, 80};
    tutti_copy crowded = {.window_bytes = WINDOW, .wins_by = TUTTI_COPY_WINS_BY};

    count_streaming(&crowded, across, 100);
    cr_assert_geq(count_streaming(&crowded, across, 100000), 95000);
}

Test(plugin_copy, the_choice_follows_when_the_link_changes)
{
    tutti_copy copy = {.window_bytes = WINDOW};

    count_streaming(&copy, near, 1000);
    count_streaming(&copy, far, 500);
    cr_assert_geq(count_streaming(&copy, far, 1000), 900);
    for (uint64_t end = now + TUTTI_COPY_RETRY_MAX; now < end;)
        copy_once(&copy, near);
    cr_assert_eq(count_streaming(&copy, near, 1000), 0);
}

Test(plugin_copy, a_copy_that_is_interrupted_once_changes_nothing)
{
    tutti_copy copy = {.window_bytes = WINDOW};

    count_streaming(&copy, near, 1000);
    tutti_copy_took(&copy, 0, CHUNK, 10000000, now);
    cr_assert_eq(count_streaming(&copy, near, 1000), 0);
}

/* Dozens of copies in a row are slow where the peer looks for what is written, but not all of them. */
Test(plugin_copy, slow_copies_in_a_row_change_nothing)
{
    const struct costs met = {8 * near.plain, near.streaming};
    tutti_copy copy = {.window_bytes = WINDOW};

    count_streaming(&copy, near, 1000);
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(count_streaming(&copy, met, 8 * 20), 0);
        cr_assert_eq(count_streaming(&copy, near, 8), 0);
    }
}

Test(plugin_copy, as_many_samples_as_the_caller_wants_come_before_a_judgement)
{
    tutti_copy few = {.window_bytes = CHUNK}, many = {.window_bytes = CHUNK, .judged_after = 16};

    count_streaming(&few, far, 10 * TUTTI_COPY_TIMED_EVERY);
    count_streaming(&many, far, 10 * TUTTI_COPY_TIMED_EVERY);
    cr_assert(few.streams && !many.streams);
    count_streaming(&many, far, 10 * TUTTI_COPY_TIMED_EVERY);
    cr_assert(many.streams);
}

Test(plugin_copy, both_ways_copy_all_bytes_and_no_others)
{
    enum { MOST = 3 * 64 + 70, ROOM = MOST + 256 };
    static const size_t lengths[] = {0, 1, 63, 64, 65, 127, 128, 129, 191, 192, 193, MOST};
    unsigned char from[ROOM], to[ROOM];

    for (size_t i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i % 250 + 1);
    for (size_t shift = 0; shift < 128; shift++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            memset(to, 0, sizeof to);
            tutti_copy_stream(to + shift, from + shift % 5, lengths[i]);
            cr_assert(!memcmp(to + shift, from + shift % 5, lengths[i]));
            for (size_t k = 0; k < ROOM; k++)
                cr_assert(to[k] == 0 || (k >= shift && k < shift + lengths[i]));
        }
}

#if defined(__x86_64__)
Test(plugin_copy, lines_are_streamed_alike_without_avx)
{
    enum { LINES = 5 * TUTTI_COPY_LINE };
    static unsigned char from[LINES + TUTTI_COPY_LINE];
    static _Alignas(TUTTI_COPY_LINE) unsigned char to[LINES + TUTTI_COPY_LINE];

    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i % 250 + 1);
    tutti_copy_stream_quarters(to, from + 7, LINES);
    cr_assert(!memcmp(to, from + 7, LINES));
    for (size_t k = LINES; k < sizeof to; k++)
        cr_assert_eq(to[k], 0);
}
#endif

Test(plugin_copy, short_copies_are_whole_and_no_longer)
{
    enum { MOST = 2 * TUTTI_COPY_SHORT + 1, SHIFTS = 9, ROOM = MOST + SHIFTS + 16 };
    unsigned char from[ROOM], to[ROOM];

    for (size_t i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i + 1);
    for (size_t shift = 0; shift < SHIFTS; shift++)
        for (size_t bytes = 0; bytes <= MOST; bytes++) {
            memset(to, 0, sizeof to);
            tutti_copy_plain(to + shift, from + 3, bytes);
            cr_assert(!memcmp(to + shift, from + 3, bytes), "%zu bytes", bytes);
            for (size_t k = 0; k < ROOM; k++)
                cr_assert(to[k] == 0 || (k >= shift && k < shift + bytes), "%zu bytes", bytes);
        }
    tutti_copy_plain(NULL, NULL, 0);
}

/* Modulo 32 and a page the target is before, at and behind the source. */
Test(plugin_copy, plain_copies_are_whole_wherever_the_target_lies)
{
    enum { MOST = 3 * TUTTI_COPY_LOOP, ROOM = MOST + 256, PAGE = 4096 };
    static const size_t lengths[] = {0, 63, TUTTI_COPY_LOOP - 1, TUTTI_COPY_LOOP, MOST - 1, MOST};
    unsigned char *from = aligned_alloc(PAGE, 2 * PAGE), *to = aligned_alloc(PAGE, 2 * PAGE);

    cr_assert(from && to);
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i % 250 + 1);
    for (size_t shift = 0; shift < 2 * TUTTI_COPY_VECTOR; shift++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            memset(to, 0, ROOM);
            tutti_copy_plain(to + shift, from + 5, lengths[i]);
            cr_assert(!memcmp(to + shift, from + 5, lengths[i]));
            for (size_t k = 0; k < ROOM; k++)
                cr_assert(to[k] == 0 || (k >= shift && k < shift + lengths[i]));
        }
    free(from);
    free(to);
}

Test(plugin_copy, real_copies_are_timed)
{
    tutti_copy copy = {.window_bytes = WINDOW};
    unsigned char *from = malloc(CHUNK), *to = malloc(CHUNK);

    cr_assert(from && to);
    memset(from, 1, CHUNK);
    for (int i = 0; i < 1000; i++) {
        const tutti_copy_turn turn = tutti_copy_begin(&copy, CHUNK);

        if (turn.streams)
            tutti_copy_stream(to, from, CHUNK);
        else
            tutti_copy_plain(to, from, CHUNK);
        tutti_copy_end(&copy, turn, CHUNK);
    }
#if defined(__x86_64__)
    cr_assert_gt(copy.plain, 0);
    cr_assert_eq(copy.count, 1000);
#endif
    free(from);
    free(to);
}
