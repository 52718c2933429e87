/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of a host's members, step by step: who gives, who reduces, and whom the others wait
 * for. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "algorithm/algorithm.h"
#include "reduce/reduce.h"
#include "schedule/runner.h"

enum { MEMBERS = 3 };

struct host {
    void *areas[MEMBERS];
    struct mapped mapped[MEMBERS];
    int reduced[MEMBERS]; /* rounds, by whom */
    uint64_t calls;
};

static const int ranks[MEMBERS] = {3, 8, 11};

static void host_open(struct host *host)
{
    *host = (struct host){0};
    for (int i = 0; i < MEMBERS; i++) {
        host->areas[i] =
            mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq(host->areas[i], MAP_FAILED);
    }
    for (int i = 0; i < MEMBERS; i++)
        cr_assert_eq(mapped_init(&host->mapped[i], MEMBERS, i, host->areas, ranks), TUTTI_OK);
}

static void host_close(struct host *host)
{
    for (int i = 0; i < MEMBERS; i++) {
        mapped_free(&host->mapped[i]);
        munmap(host->areas[i], MAPPED_BYTES);
    }
}

static void announce(struct host *host, int member, uint64_t sequence, uint64_t signature)
{
    static const struct call_fields fields = {.operation = OPERATION_BARRIER, .op = -1, .root = -1};
    const struct announce call = {sequence, signature, fields};

    cr_assert_eq(mapped_announce(&host->mapped[member], &call, NULL, 0), TUTTI_OK);
}

static void announce_all(struct host *host)
{
    host->calls++;
    for (int i = 0; i < MEMBERS; i++)
        announce(host, i, host->calls, host->calls);
}

static void count_reduction(const void *user, uint32_t piece)
{
    (void)piece;
    (*(int *)(uintptr_t)user)++;
}

static tutti_status take(struct host *host, int member)
{
    const struct round_work work = {count_reduction, &host->reduced[member], 1};

    return mapped_round(&host->mapped[member], &work);
}

Test(rounds, the_last_member_reduces_and_wakes_whoever_it_is, .timeout = 5)
{
    struct host host;

    host_open(&host);
    for (int round = 0; round < 2 * MEMBERS; round++) {
        const int last = round % MEMBERS;

        announce_all(&host);
        memset(host.reduced, 0, sizeof host.reduced);
        for (int i = 1; i < MEMBERS; i++)
            cr_expect_eq(take(&host, (last + i) % MEMBERS), TUTTI_ERR_NOT_READY);
        cr_expect_eq(take(&host, last), TUTTI_OK);
        cr_expect(host.mapped[last].finished);
        cr_expect_eq(host.reduced[last], 1);
        for (int i = 1; i < MEMBERS; i++) {
            cr_expect_eq(take(&host, (last + i) % MEMBERS), TUTTI_OK);
            cr_expect_not(host.mapped[(last + i) % MEMBERS].finished);
            cr_expect_eq(host.reduced[(last + i) % MEMBERS], 0);
        }
    }
    host_close(&host);
}

Test(rounds, a_member_that_went_on_waits_for_the_slow_ones_in_the_next_round, .timeout = 5)
{
    struct host host;

    host_open(&host);
    announce_all(&host);
    for (int i = 0; i < MEMBERS; i++)
        take(&host, i);
    cr_expect_eq(take(&host, 0), TUTTI_OK);
    for (int turn = 0; turn < 100; turn++)
        cr_expect_eq(take(&host, 0), TUTTI_ERR_NOT_READY, "1 of 3 is in round 2");
    cr_expect_eq(take(&host, 2), TUTTI_ERR_NOT_READY);
    cr_expect_eq(take(&host, 1), TUTTI_OK, "that is round 1");
    cr_expect_eq(take(&host, 1), TUTTI_OK, "and this is round 2");
    cr_expect_eq(host.reduced[2], 1);
    cr_expect_eq(host.reduced[1], 1);
    cr_expect_eq(host.reduced[0], 0);
    host_close(&host);
}

/* ---- pieces ---- */

enum { PIECES = 16 };

struct pieces {
    struct host *host;
    int member;
    int other; /* it comes while `member` reduces the first piece that it claims; -1: nobody */
    _Atomic int *reduced; /* [PIECES], by whomever */
    int mine;
};

static tutti_status take_pieces(struct pieces *p);

static void reduce_piece(const void *user, uint32_t piece)
{
    struct pieces *p = (struct pieces *)(uintptr_t)user;
    struct pieces other = {p->host, p->other, -1, p->reduced, 0};

    cr_assert_lt(piece, PIECES);
    p->reduced[piece]++;
    if (p->mine++ == 0 && p->other >= 0) {
        cr_expect_eq(take_pieces(&other), TUTTI_ERR_NOT_READY, "a piece is still in work");
        cr_expect_not(p->host->mapped[p->other].finished);
        cr_expect_eq(other.mine, PIECES - 1);
        cr_expect_eq(mapped_round_awaits(&p->host->mapped[p->other]), p->member, "it still works");
    }
}

static tutti_status take_pieces(struct pieces *p)
{
    const struct round_work work = {reduce_piece, p, PIECES};

    return mapped_round(&p->host->mapped[p->member], &work);
}

/* Member 0 waits, and comes when member 2, the last one, has claimed the first piece. */
Test(rounds, those_that_wait_reduce_pieces_that_nobody_has_claimed, .timeout = 5)
{
    struct host host;

    host_open(&host);
    for (int round = 0; round < 5; round++) {
        _Atomic int reduced[PIECES] = {0};
        struct pieces first = {&host, 0, -1, reduced, 0}, second = {&host, 1, -1, reduced, 0};
        struct pieces last = {&host, 2, 0, reduced, 0};

        announce_all(&host);
        cr_expect_eq(take_pieces(&first), TUTTI_ERR_NOT_READY);
        cr_expect_eq(take_pieces(&second), TUTTI_ERR_NOT_READY);
        cr_expect_eq(take_pieces(&last), TUTTI_OK);
        cr_expect(host.mapped[2].finished);
        cr_expect_eq(last.mine, 1);
        for (int i = 0; i < PIECES; i++)
            cr_expect_eq(reduced[i], 1, "piece %d", i);
        cr_expect_eq(take_pieces(&second), TUTTI_OK);
        cr_expect_eq(take_pieces(&first), TUTTI_OK);
        cr_expect_not(host.mapped[0].finished);
        cr_expect_eq(first.mine + second.mine, 0);
    }
    host_close(&host);
}

/* A helper claims all but one piece, and holds its last one until the opener rests. */
struct helper {
    struct host *host;
    _Atomic int reduced;
    _Atomic bool may_end;
};

static void hold_last_piece(const void *user, uint32_t piece)
{
    struct helper *h = (struct helper *)(uintptr_t)user;

    (void)piece;
    if (++h->reduced == PIECES - 1)
        while (!h->may_end)
            sched_yield();
}

static void *help(void *user)
{
    struct helper *h = user;
    const struct round_work work = {hold_last_piece, h, PIECES};

    while (mapped_round(&h->host->mapped[1], &work) == TUTTI_ERR_NOT_READY)
        sched_yield();
    cr_expect(h->host->mapped[1].finished);
    return NULL;
}

static void wait_for_helper(const void *user, uint32_t piece)
{
    const struct helper *h = user;

    (void)piece;
    while (h->reduced < PIECES - 1)
        sched_yield();
}

static void *let_end(void *user)
{
    struct helper *h = user;

    usleep(20000);
    h->may_end = true;
    return NULL;
}

Test(rounds, a_member_that_waited_may_end_the_round, .timeout = 5)
{
    struct host host;
    struct helper h = {.host = &host};
    const struct round_work opens = {wait_for_helper, &h, PIECES};
    pthread_t helper, later;
    uint64_t round;

    host_open(&host);
    announce_all(&host);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(take(&host, i), TUTTI_ERR_NOT_READY);
    cr_assert_eq(pthread_create(&helper, NULL, help, &h), 0);
    cr_expect_eq(mapped_round(&host.mapped[2], &opens), TUTTI_ERR_NOT_READY);
    cr_expect_not(host.mapped[2].finished);
    cr_expect_eq(mapped_round_awaits(&host.mapped[2]), 1, "it still works");
    cr_assert(mapped_round_is_given(&host.mapped[2], &round));
    cr_assert_eq(pthread_create(&later, NULL, let_end, &h), 0);
    cr_expect(mapped_round_rest(&host.mapped[2], round, 4000), "the helper wakes it");
    pthread_join(later, NULL);
    pthread_join(helper, NULL);
    cr_expect_eq(mapped_round(&host.mapped[2], &opens), TUTTI_OK);
    cr_expect_not(host.mapped[2].finished);
    host_close(&host);
}

enum { ROUNDS = 3000 };

/* All pieces of a round are reduced when any member leaves it, each once. */
static void *take_many(void *user)
{
    struct pieces *p = user;

    for (int round = 1; round <= ROUNDS; round++) {
        tutti_status status;

        announce(p->host, p->member, (uint64_t)round, (uint64_t)round);
        while ((status = take_pieces(p)) == TUTTI_ERR_NOT_READY)
            sched_yield();
        cr_expect_eq(status, TUTTI_OK);
        for (int i = 0; i < PIECES; i++)
            cr_expect_geq(p->reduced[i], round);
    }
    return NULL;
}

Test(rounds, members_on_several_cpus_reduce_each_piece_once, .timeout = 60)
{
    _Atomic int reduced[PIECES] = {0};
    struct pieces members[MEMBERS];
    pthread_t threads[MEMBERS];
    struct host host;

    host_open(&host);
    for (int i = 0; i < MEMBERS; i++) {
        members[i] = (struct pieces){&host, i, -1, reduced, 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, take_many, &members[i]), 0);
    }
    for (int i = 0; i < MEMBERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < PIECES; i++)
        cr_expect_eq(reduced[i], ROUNDS, "piece %d", i);
    host_close(&host);
}

/* ---- rest ---- */

static void *end_the_round(void *user)
{
    usleep(20000);
    cr_expect_eq(take(user, MEMBERS - 1), TUTTI_OK);
    return NULL;
}

Test(rounds, a_member_rests_until_the_round_is_done_or_its_time_is_over, .timeout = 5)
{
    struct host host;
    pthread_t last;
    uint64_t round;

    host_open(&host);
    announce_all(&host);
    cr_expect_not(mapped_round_is_given(&host.mapped[0], &round));
    for (int i = 0; i < MEMBERS - 1; i++)
        take(&host, i);
    cr_expect(mapped_round_is_given(&host.mapped[0], &round));
    cr_expect_not(mapped_round_rest(&host.mapped[0], round, 1), "a member is missing");
    cr_assert_eq(pthread_create(&last, NULL, end_the_round, &host), 0);
    cr_expect(mapped_round_rest(&host.mapped[0], round, 4000), "the last member wakes it");
    pthread_join(last, NULL);
    cr_expect(mapped_round_rest(&host.mapped[0], round, 4000), "it is done already");
    cr_expect_eq(take(&host, 0), TUTTI_OK);
    cr_expect_not(mapped_round_is_given(&host.mapped[0], &round));
    host_close(&host);
}

/* ---- missing members ---- */

struct waiter {
    const struct mapped *mapped;
    int awaited;
};

static void say_awaited(const void *user, uint32_t piece)
{
    const struct waiter *waiter = user;

    (void)piece;
    cr_expect_eq(mapped_round_awaits(waiter->mapped), waiter->awaited);
}

Test(rounds, a_missing_member_is_told_wherever_it_is, .timeout = 5)
{
    struct host host;

    host_open(&host);
    announce(&host, 0, 1, 1);
    cr_expect_eq(take(&host, 0), TUTTI_ERR_NOT_READY);
    cr_expect_eq(mapped_round_awaits(&host.mapped[0]), 1, "it has not called");
    announce(&host, 1, 1, 1);
    cr_expect_eq(take(&host, 1), TUTTI_ERR_NOT_READY);
    cr_expect_eq(mapped_round_awaits(&host.mapped[0]), 2);
    cr_expect_not(mapped_has_called(&host.mapped[0], 2));
    announce(&host, 2, 1, 1);
    cr_expect_eq(mapped_round_awaits(&host.mapped[0]), 2, "it has called, and not given");
    cr_expect(mapped_has_called(&host.mapped[0], 2));

    const struct waiter waiter = {&host.mapped[0], 2};
    const struct round_work work = {say_awaited, &waiter, 1};

    cr_expect_eq(mapped_round(&host.mapped[2], &work), TUTTI_OK, "while it works, it is named");
    cr_expect_eq(take(&host, 0), TUTTI_OK);
    cr_expect_eq(take(&host, 0), TUTTI_ERR_NOT_READY);
    cr_expect_neq(mapped_round_awaits(&host.mapped[0]), 0, "nobody waits for itself");
    host_close(&host);
}

Test(rounds, every_member_hears_of_a_local_peer_in_another_call, .timeout = 5)
{
    struct host host;
    tutti_status status[MEMBERS] = {TUTTI_ERR_NOT_READY, TUTTI_ERR_NOT_READY, TUTTI_ERR_NOT_READY};

    host_open(&host);
    for (int i = 0; i < MEMBERS; i++)
        announce(&host, i, 1, i == 1 ? 77 : 78);
    for (int turn = 0; turn < 100; turn++)
        for (int i = 0; i < MEMBERS; i++)
            if (status[i] == TUTTI_ERR_NOT_READY)
                status[i] = take(&host, i);
    for (int i = 0; i < MEMBERS; i++) {
        cr_expect_eq(status[i], TUTTI_ERR_MISMATCH);
        cr_expect_eq(host.mapped[i].culprit == 1, i != 1);
        cr_expect_eq(host.reduced[i], 0);
    }
    host_close(&host);
}

/* ---- the windows ---- */

static void expect_window(const uint64_t l2[MEMBERS], uint32_t pages)
{
    struct host host;

    host_open(&host);
    for (int i = 0; i < MEMBERS; i++)
        mapped_tell_l2(&host.mapped[i], l2[i]);
    for (int i = 0; i < MEMBERS; i++) {
        mapped_fit_cpus(&host.mapped[i], false);
        cr_expect_eq(host.mapped[i].few_pages, pages, "member %d", i);
    }
    host_close(&host);
}

/* Whether yields switch to the others. */
Test(rounds, members_know_whether_all_are_in_one_session, .timeout = 5)
{
    for (int others = 0; others < 2; others++) {
        struct host host;

        host_open(&host);
        for (int i = 0; i < MEMBERS; i++)
            mapped_tell_session(&host.mapped[i], i == MEMBERS - 1 && others ? 8 : 7);
        for (int i = 0; i < MEMBERS; i++) {
            mapped_fit_cpus(&host.mapped[i], true);
            cr_expect_eq(host.mapped[i].one_session, !others, "member %d", i);
        }
        host_close(&host);
    }
}

/* They find each other's chunks by it. */
Test(rounds, members_use_the_same_part_of_the_windows, .timeout = 5)
{
    expect_window((uint64_t[]){MAPPED_L2_MIN, MAPPED_L2_MIN, MAPPED_L2_MIN}, MAPPED_FEW_PAGES);
    expect_window((uint64_t[]){512 << 10, 512 << 10, 512 << 10}, MAPPED_FEW_OF_SMALL);
    expect_window((uint64_t[]){512 << 10, MAPPED_L2_MIN, 0}, MAPPED_FEW_OF_SMALL);
    expect_window((uint64_t[]){0, 512 << 10, 512 << 10}, MAPPED_FEW_PAGES); /* unknown */
}

/* ---- as steps ---- */

enum { FLOATS = ROUND_CHUNK_MAX / 4 };

static struct run_call call_of(struct host *host, int member, const struct schedule *sched,
                               const struct announce *mine, float *in, float *out)
{
    return (struct run_call){
        .schedule = sched,
        .mapped = &host->mapped[member],
        .announce = mine,
        .in = {.base = in},
        .out = {.base = out},
        .kernels = {.element_bytes = 4,
                    .members = MEMBERS,
                    .reduce = reduce_kernel(TUTTI_F32, TUTTI_AVG),
                    .many = reduce_many(TUTTI_F32, TUTTI_AVG),
                    .finish = reduce_finish(TUTTI_F32, TUTTI_AVG, MEMBERS)},
    };
}

static void check_waiting(const struct run *run, enum waiting_kind kind, int rank)
{
    const struct waiting waiting = run_waiting(run);

    cr_expect_eq(waiting.kind, kind, "%d instead of %d", waiting.kind, kind);
    cr_expect_eq(waiting.rank, rank);
    cr_expect(waiting.mapped_only);
}

Test(rounds, a_schedule_reduces_in_a_round_and_names_who_is_missing, .timeout = 5)
{
    static const struct announce mine = {1, 5, {.operation = OPERATION_ALL_REDUCE}};
    static float in[MEMBERS][FLOATS], out[MEMBERS][FLOATS];
    struct schedule sched[MEMBERS] = {0};
    struct run run[MEMBERS] = {0};
    struct host host;

    host_open(&host);
    for (int i = 0; i < MEMBERS; i++) {
        for (int k = 0; k < FLOATS; k++)
            in[i][k] = (float)(i * 3 + k);
        schedule_begin(&sched[i], &thresholds_standard, ranks[i], 12, MEMBERS, i, 4);
        schedule_copy(&sched[i], (struct place){.kind = PLACE_PART}, place_in_block(0, 0),
                      sizeof in[i]);
        schedule_round(&sched[i], sizeof in[i]);
        schedule_copy(&sched[i], place_out_block(0, 0), (struct place){.kind = PLACE_RESULT},
                      sizeof in[i]);

        const struct run_call call = call_of(&host, i, &sched[i], &mine, in[i], out[i]);

        cr_assert_eq(run_start(&run[i], &call), TUTTI_OK);
    }
    cr_expect_eq(run_advance(&run[0]), TUTTI_ERR_NOT_READY);
    check_waiting(&run[0], WAITING_CALL, 8);
    cr_expect_eq(run_advance(&run[1]), TUTTI_ERR_NOT_READY);
    check_waiting(&run[0], WAITING_CALL, 11);
    cr_assert_eq(mapped_announce(&host.mapped[2], &mine, NULL, 0), TUTTI_OK);
    run[2].announced = true;
    check_waiting(&run[0], WAITING_MAPPED, 11);
    for (int i = MEMBERS - 1; i >= 0; i--)
        cr_expect_eq(run_advance(&run[i]), TUTTI_OK);
    for (int i = 0; i < MEMBERS; i++)
        for (int k = 0; k < FLOATS; k++)
            cr_assert_eq(out[i][k], (float)(k + 3), "member %d, element %d", i, k);
    for (int i = 0; i < MEMBERS; i++) {
        run_free(&run[i]);
        schedule_free(&sched[i]);
    }
    host_close(&host);
}

/* The schedule of member 0, once all others have made the call. */
static void run_member_0(struct host *host, const struct schedule *sched, struct trial *trial,
                         const struct announce *mine, unsigned char *in, unsigned char *out)
{
    const struct run_call call = {.schedule = sched,
                                  .mapped = &host->mapped[0],
                                  .announce = mine,
                                  .trial = trial,
                                  .in = {.base = in},
                                  .out = {.base = out}};
    struct run run = {0};

    for (int i = 1; i < MEMBERS; i++)
        cr_assert_eq(mapped_announce(&host->mapped[i], mine, NULL, 0), TUTTI_OK);
    cr_assert_eq(run_start(&run, &call), TUTTI_OK);
    cr_assert_eq(run_advance(&run), TUTTI_OK);
    run_free(&run);
}

/* Caches that hold half of what the call touches, all of it, a little more, and much more. */
Test(rounds, an_output_gets_the_same_bytes_whatever_the_caches_hold, .timeout = 5)
{
    enum { BYTES = TUTTI_COPY_LONG + 77, ROOM = BYTES + 2 * TUTTI_COPY_LINE };
    static const unsigned parts[] = {1, 2, 4, 16};
    struct announce mine = {0, 5, {.operation = OPERATION_BROADCAST}};
    static unsigned char in[ROOM], out[ROOM];
    struct trial trial = {0};
    struct schedule sched = {0};
    struct host host;

    host_open(&host);
    for (size_t i = 0; i < ROOM; i++)
        in[i] = (unsigned char)(i * 31 + i / 256);
    for (unsigned from = 0; from < TUTTI_COPY_LINE; from += 21) {
        for (unsigned to = 0; to < TUTTI_COPY_LINE; to += 13) {
            mine.sequence++;
            memset(out, 0xee, sizeof out);
            schedule_begin(&sched, &thresholds_standard, ranks[0], 12, MEMBERS, 0, 1);
            schedule_copy(&sched, place_after(place_out_block(0, 0), to),
                          place_after(place_in_block(0, 0), from), BYTES);
            cr_assert_eq(sched.user_bytes, 2 * BYTES);
            mapped_tell_l3(&host.mapped[0], sched.user_bytes * parts[mine.sequence % 4] / 2);
            trial.way = mine.sequence / 4 % 2 ? TRIAL_OUTPUTS : 0;
            run_member_0(&host, &sched, &trial, &mine, in, out);
            cr_assert_arr_eq(out + to, in + from, BYTES);
            cr_assert_eq(out[to + BYTES], 0xee);
            cr_assert(!to || out[to - 1] == 0xee);
        }
    }
    schedule_free(&sched);
    host_close(&host);
}
