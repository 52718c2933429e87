/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank's side of the harness: what a program that is started once per rank is written with.
 *
 *     RANK_CASE(barrier_returns)
 *     {
 *         tutti_group *world = rank_init(NULL);
 *
 *         rank_point("in_barrier");
 *         check_ok(tutti_barrier(world, NULL, NULL));
 *         check_ok(tutti_group_destroy(world));
 *     }
 *
 * A body sees `rank` and `size`. A failed check_… is reported and the case goes on; a failed
 * require_… ends it. The program links the public libtutti and no test framework, so it runs under
 * ThreadSanitizer, valgrind, a debugger, `tutti run`, or by hand:
 *
 *     RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=29500 bin/rank_harness barrier_returns
 *
 * main() is here. The exit code is 0 when the case passed, 1 when a check failed, 2 when there is
 * no such case. What the test that started it wants to know goes to stdout, one write(2) a line:
 *
 *     @tutti fail FILE:LINE WORDS
 *     @tutti point NAME NANOSECONDS DELAY       CLOCK_MONOTONIC; how long its threads waited for a CPU
 *     @tutti value NAME WORDS
 *     @tutti verdict pass|fail CASE CHECKS FAILURES
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tutti/tutti.h>

typedef void (*rank_case_fn)(int rank, int size);

struct rank_case {
    const char *name;
    rank_case_fn body;
    struct rank_case *next;
};

#define RANK_CASE(case_name)                                                                       \
    static void rank_body_##case_name(int rank, int size);                                         \
    __attribute__((constructor)) static void rank_add_##case_name(void)                            \
    {                                                                                              \
        static struct rank_case one = {#case_name, rank_body_##case_name, 0};                      \
        rank_add(&one);                                                                            \
    }                                                                                              \
    static void rank_body_##case_name(__attribute__((unused)) int rank,                            \
                                      __attribute__((unused)) int size)

void rank_add(struct rank_case *one);

/* Tells the test that this rank has come to a point, and when. `name` is one word. */
void rank_point(const char *name);
/* Tells the test something in words. `name` is one word. */
void rank_value(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Waits until the test says `word` (ranks_tell(), or typed by hand); 60 s at most. */
void rank_await(const char *word);
/* Whether the test has said `word` by now; other words before it are dropped. */
bool rank_heard(const char *word);
/* CLOCK_MONOTONIC. */
int64_t rank_now_ns(void);
/* Sleeps; signals do not end it. */
void rank_sleep_ms(int ms);
/* LeakSanitizer does not look at the end of this process. */
void rank_search_no_leaks(void);

/* Waits for those that were begun, up to the first NULL, and frees them; `status`, or the first failure. */
tutti_status rank_end_works(tutti_work *const *works, int count, tutti_status status);
/* Ends the case where it is; it fails when a check has failed. */
_Noreturn void rank_end(void);

/* ---- checks ---------------------------------------------------------------------------------- */

struct rank_place {
    const char *file;
    int line;
};
#define RANK_PLACE ((struct rank_place){__FILE__, __LINE__})

/* Each returns whether it held; the macros say where it was written. */
bool rank_check(struct rank_place place, bool held, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool rank_check_eq(struct rank_place place, int64_t a, int64_t b, const char *a_words,
                   const char *b_words);
bool rank_check_near(struct rank_place place, double a, double b, double tolerance,
                     const char *a_words, const char *b_words);
bool rank_check_str_eq(struct rank_place place, const char *a, const char *b, const char *a_words);
bool rank_check_contains(struct rank_place place, const char *text, const char *part);
bool rank_check_status(struct rank_place place, tutti_status status, tutti_status expected,
                       const char *words);

#define check(condition) rank_check(RANK_PLACE, (condition), "%s", #condition)
#define check_eq(a, b) rank_check_eq(RANK_PLACE, (int64_t)(a), (int64_t)(b), #a, #b)
#define check_near(a, b, tolerance) rank_check_near(RANK_PLACE, (a), (b), (tolerance), #a, #b)
#define check_str_eq(a, b) rank_check_str_eq(RANK_PLACE, (a), (b), #a)
#define check_contains(text, part) rank_check_contains(RANK_PLACE, (text), (part))
/* Prints the status by name, and tutti_last_error(). */
#define check_status(call, expected) rank_check_status(RANK_PLACE, (call), (expected), #call)
#define check_ok(call) check_status(call, TUTTI_OK)

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!check(condition))                                                                     \
            rank_end();                                                                            \
    } while (0)
#define require_ok(call)                                                                           \
    do {                                                                                           \
        if (!check_ok(call))                                                                       \
            rank_end();                                                                            \
    } while (0)

/* tutti_init() that has to succeed; the case ends here otherwise. */
static inline tutti_group *rank_init(const tutti_init_options *options)
{
    tutti_group *world = 0;

    require_ok(tutti_init(options, &world));
    return world;
}

/* A barrier by another group: none is still in it when one of them then aborts this group. */
static inline void rank_meet_beside(tutti_group *group)
{
    tutti_group *beside = 0;

    require_ok(tutti_group_new(group, 0, 0, 0, &beside));
    require_ok(tutti_barrier(beside, 0, 0));
    check_ok(tutti_group_destroy(beside));
}

/* What carried the group's last call, and how: "shm all_reduce_inline". */
static inline const char *rank_served_by(tutti_group *group)
{
    static char words[128];
    tutti_record record = {0};
    uint32_t count = 0;

    require_ok(tutti_recorder_read(group, &record, sizeof record, 1, &count));
    snprintf(words, sizeof words, "%s %s", record.provider, record.algorithm);
    return words;
}
