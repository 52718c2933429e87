/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules, the runner and mapped memory at their edges; what they compute is the simulator's. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "algorithm/algorithm.h"
#include "schedule/mapped_waits.h"
#include "schedule/runner.h"

/* ---- two local peers --------------------------------------------------------------------------------
 */

struct pair {
    void *areas[2];
    struct mapped mapped[2];
};

static void pair_open(struct pair *pair)
{
    const int ranks[2] = {3, 8};

    for (int i = 0; i < 2; i++) {
        pair->areas[i] =
            mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq(pair->areas[i], MAP_FAILED);
    }
    for (int i = 0; i < 2; i++)
        cr_assert_eq(mapped_init(&pair->mapped[i], 2, i, pair->areas, ranks), TUTTI_OK);
}

static void pair_close(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        mapped_free(&pair->mapped[i]);
        munmap(pair->areas[i], MAPPED_BYTES);
    }
}

static tutti_status announce(struct mapped *mapped, uint64_t sequence, uint64_t signature)
{
    static const struct call_fields fields = {.operation = OPERATION_BARRIER, .op = -1, .root = -1};
    const struct announce call = {sequence, signature, fields};

    return mapped_announce(mapped, &call, NULL, 0);
}

Test(mapped, an_area_is_an_odd_number_of_pages, .timeout = 5)
{
    cr_expect_eq(MAPPED_BYTES % MAPPED_PAGE, 0);
    cr_expect_eq(MAPPED_BYTES / MAPPED_PAGE % 2, 1);
    cr_expect_eq(offsetof(struct mapped_area, in) % MAPPED_PAGE, 0);
    cr_expect_eq(sizeof(struct step), 64);
}

Test(mapped, a_member_runs_three_calls_ahead_of_a_local_peer_and_no_further, .timeout = 5)
{
    struct pair pair;

    pair_open(&pair);
    for (uint64_t k = 1; k <= 3; k++)
        cr_expect_eq(announce(&pair.mapped[0], k, k), TUTTI_OK);
    cr_expect_eq(announce(&pair.mapped[0], 4, 4), TUTTI_ERR_NOT_READY);
    cr_expect_eq(pair.mapped[0].culprit, 1);
    cr_expect_eq(announce(&pair.mapped[1], 1, 1), TUTTI_OK);
    cr_expect_eq(announce(&pair.mapped[0], 4, 4), TUTTI_OK);
    cr_expect_eq(announce(&pair.mapped[0], 5, 5), TUTTI_ERR_NOT_READY);
    cr_expect_eq(mapped_meet_all(&pair.mapped[1]), TUTTI_OK, "the line of #1 is still there");
    pair_close(&pair);
}

/* ---- registered memory ---- */

/* Member 1 shows `references` to a member 0 that has mapped 100 bytes of it as memory 5. */
static tutti_status resolve(struct pair *pair, struct mapped_references references, uint64_t in,
                            uint64_t out)
{
    static unsigned char memory[100];
    static unsigned char *bases[2] = {memory, memory};
    static uint64_t bytes[2] = {sizeof memory, sizeof memory};
    const struct announce call = {1, 1, {.operation = OPERATION_BARRIER, .op = -1, .root = -1}};

    pair_open(pair);
    pair->mapped[0].memories = calloc(MAPPED_MEMORIES, sizeof(struct mapped_memory));
    cr_assert_not_null(pair->mapped[0].memories);
    pair->mapped[0].memories[5] = (struct mapped_memory){5, bases, bytes};
    cr_assert_eq(announce(&pair->mapped[0], 1, 1), TUTTI_OK);
    cr_assert_eq(mapped_announce_references(&pair->mapped[1], &call, &references), TUTTI_OK);
    cr_assert_eq(mapped_meet(&pair->mapped[0], 1), TUTTI_OK);
    cr_assert(mapped_shows_references(&pair->mapped[0], 1));
    cr_assert(!mapped_shows_references(&pair->mapped[0], 0));
    return mapped_resolve(&pair->mapped[0], 1, NULL, &(struct mapped_reach){in, out, false});
}

static void expect_refused(struct mapped_references references, uint64_t in, uint64_t out)
{
    struct pair pair;

    cr_expect_eq(resolve(&pair, references, in, out), TUTTI_ERR_INTERNAL);
    cr_expect_eq(pair.mapped[0].culprit, 1);
    pair_close(&pair);
}

Test(mapped, references_out_of_registered_memory_are_refused, .timeout = 5)
{
    const struct mapped_reference good = {.memory = 5, .offset = 60};
    struct pair pair;

    cr_expect_eq(resolve(&pair, (struct mapped_references){good, good}, 40, 40), TUTTI_OK);
    cr_expect_eq(pair.mapped[0].places[1].out - pair.mapped[0].places[1].in, 0);
    pair_close(&pair);
    expect_refused((struct mapped_references){good, good}, 41, 0);
    expect_refused((struct mapped_references){good, good}, 0, 41);
    expect_refused((struct mapped_references){.in = {.memory = 5, .offset = 101}}, 1, 0);
    expect_refused((struct mapped_references){.in = {.memory = 5, .offset = UINT64_MAX}}, 2, 0);
    expect_refused((struct mapped_references){.in = {.memory = 0}}, 1, 0);
    expect_refused((struct mapped_references){.in = {.memory = 4}}, 1, 0);
    expect_refused((struct mapped_references){.in = {.memory = 5 + MAPPED_MEMORIES}}, 1, 0);
}

/* Nobody has found out that peers can read each other. */
Test(mapped, addresses_that_may_not_be_shown_are_refused, .timeout = 5)
{
    expect_refused((struct mapped_references){.in = {.memory = MAPPED_OWN_MEMORY, .offset = 8}}, 1,
                   0);
}

/* Member 0's block is the first, so only a table can lead it astray. */
Test(mapped, blocks_of_a_table_are_checked, .timeout = 5)
{
    const struct mapped_references table = {.in = {.memory = 5, .shape = SHAPE_TABLE}};
    struct pair pair;

    cr_expect_eq(resolve(&pair, table, 0, 0), TUTTI_OK, "an empty table has empty blocks");
    ((struct mapped_area *)pair.areas[1])->blocks[0] =
        (struct mapped_block){.offset = 90, .bytes = 10};
    cr_expect_eq(mapped_resolve(&pair.mapped[0], 1, NULL, &(struct mapped_reach){10, 0, false}),
                 TUTTI_OK);
    cr_expect_eq(mapped_resolve(&pair.mapped[0], 1, NULL, &(struct mapped_reach){9, 0, false}),
                 TUTTI_ERR_MISMATCH);
    cr_expect_not_null(strstr(tutti_last_error(), "rank 8"), "%s", tutti_last_error());
    ((struct mapped_area *)pair.areas[1])->blocks[0].offset = UINT64_MAX - 5;
    cr_expect_eq(mapped_resolve(&pair.mapped[0], 1, NULL, &(struct mapped_reach){10, 0, false}),
                 TUTTI_ERR_INTERNAL);
    pair_close(&pair);
}

Test(mapped, calls_that_take_no_turn_leave_no_gap, .timeout = 5)
{
    static const uint64_t sequences[] = {1, 2, 40, 41, 90, 97, 200};
    struct pair pair;

    pair_open(&pair);
    for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++)
        for (int member = 0; member < 2; member++)
            cr_expect_eq(announce(&pair.mapped[member], sequences[i], sequences[i]), TUTTI_OK);
    cr_expect_eq(mapped_meet_all(&pair.mapped[0]), TUTTI_OK);
    announce(&pair.mapped[0], 300, 1);
    announce(&pair.mapped[1], 300, 2);
    cr_expect_eq(mapped_meet_all(&pair.mapped[0]), TUTTI_ERR_MISMATCH);
    cr_expect_eq(pair.mapped[0].culprit_sequence, 300);
    pair_close(&pair);
}

Test(mapped, a_different_call_names_the_local_peer_and_its_record, .timeout = 5)
{
    struct pair pair;
    struct announce theirs;

    pair_open(&pair);
    announce(&pair.mapped[0], 1, 77);
    cr_expect_eq(mapped_meet_all(&pair.mapped[0]), TUTTI_ERR_NOT_READY);
    cr_expect_not(mapped_has_called(&pair.mapped[0], 1));
    announce(&pair.mapped[1], 1, 78);
    cr_expect(mapped_has_called(&pair.mapped[0], 1));
    cr_expect_eq(mapped_meet_all(&pair.mapped[0]), TUTTI_ERR_MISMATCH);
    cr_expect_eq(pair.mapped[0].culprit, 1);
    cr_expect_eq(pair.mapped[0].culprit_sequence, 1);
    cr_expect_eq(pair.mapped[0].culprit_signature, 78);
    cr_expect(mapped_record(&pair.mapped[0], 1, 1, &theirs));
    cr_expect_eq(theirs.signature, 78);
    cr_expect_eq(theirs.fields.operation, OPERATION_BARRIER);
    cr_expect_not(mapped_record(&pair.mapped[0], 1, 2, &theirs));
    cr_expect_not(mapped_record(&pair.mapped[0], 1, 0, &theirs), "no call has number 0");
    pair_close(&pair);
}

Test(mapped, rubbish_in_a_local_peers_memory_is_an_error_and_never_an_index, .timeout = 5)
{
    struct pair pair;

    pair_open(&pair);
    memset(pair.areas[1], 0xff, MAPPED_BYTES);
    announce(&pair.mapped[0], 1, 1);
    cr_expect_eq(mapped_meet_all(&pair.mapped[0]), TUTTI_ERR_INTERNAL);
    cr_expect_eq(pair.mapped[0].culprit, 1);
    pair_close(&pair);
}

Test(mapped, a_sleeper_is_spared_until_the_counters_it_waits_for_have_come, .timeout = 5)
{
    struct pair pair;

    pair_open(&pair);
    struct mapped_area *own = pair.areas[0], *other = pair.areas[1];

    cr_expect(!mapped_still_waits(&pair.mapped[0], 1), "it may wait for anything");
    for (int whose = -1; whose <= 0; whose++) {
        own->words[WORD_IN_READY].value = 9;
        mapped_waits(&pair.mapped[1], whose, WORD_IN_READY, 10);
        cr_expect(mapped_still_waits(&pair.mapped[0], 1));
        own->words[WORD_IN_READY].value = 10;
        cr_expect(!mapped_still_waits(&pair.mapped[0], 1));
    }
    mapped_waits(&pair.mapped[1], 0, WORD_OUT_USED, UINT64_MAX / 2 << 32 | 3);
    cr_expect(mapped_still_waits(&pair.mapped[0], 1));
    mapped_waits_no_more(&pair.mapped[1]);
    cr_expect(!mapped_still_waits(&pair.mapped[0], 1));
    other->awaits.value = UINT64_MAX & ~UINT64_C(2);
    cr_expect(!mapped_still_waits(&pair.mapped[0], 1), "rubbish: it is woken");
    pair_close(&pair);
}

Test(mapped, more_local_peers_than_slots_can_serve_are_refused, .timeout = 5)
{
    struct mapped mapped;

    cr_expect_eq(mapped_init(&mapped, 0, 0, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_eq(mapped_init(&mapped, 2, 2, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_eq(mapped_init(&mapped, MAPPED_LOCAL_MAX + 1, 0, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
}

/* ---- a wire that does as it is told ------------------------------------------------------------
 */

struct wire_state {
    tutti_status start, test;
    int started, cancelled;
};

static tutti_status wire_send(void *user, int peer, void *ticket, const void *data, uint64_t bytes)
{
    struct wire_state *state = user;

    (void)peer;
    (void)ticket;
    (void)data;
    (void)bytes;
    state->started += state->start == TUTTI_OK;
    return state->start;
}

static tutti_status wire_recv(void *user, int peer, void *ticket, void *data, uint64_t bytes)
{
    return wire_send(user, peer, ticket, data, bytes);
}

static tutti_status wire_test(void *user, void *ticket)
{
    (void)ticket;
    return ((struct wire_state *)user)->test;
}

static void wire_cancel(void *user, void *ticket)
{
    (void)ticket;
    ((struct wire_state *)user)->cancelled++;
}

static const struct wire wire = {100, wire_send, wire_recv, wire_test, wire_cancel};

static void check_waiting(const struct run *run, enum waiting_kind kind, int rank, bool mapped_only)
{
    const struct waiting waiting = run_waiting(run);

    cr_expect_eq(waiting.kind, kind, "%d instead of %d", waiting.kind, kind);
    cr_expect_eq(waiting.rank, rank);
    cr_expect_eq(waiting.mapped_only, mapped_only);
}

Test(runner, missing_members_are_told_by_rank_and_kind, .timeout = 5)
{
    static const struct announce mine = {1, 5, {.operation = OPERATION_ALL_REDUCE}};
    struct wire_state state = {TUTTI_ERR_NOT_READY, TUTTI_ERR_NOT_READY, 0, 0};
    struct schedule sched = {0};
    struct run run = {0};
    struct pair pair;
    unsigned char data[8] = {0};

    pair_open(&pair);
    schedule_begin(&sched, &thresholds_standard, 3, 9, 2, 0, 4);
    schedule_meet_all(&sched);
    schedule_await(&sched, 1, WORD_IN_READY, 1);
    schedule_recv(&sched, 5, place_out_block(0, 0), 8);
    schedule_await_all(&sched, WORD_IN_READY, 2);
    schedule_send(&sched, 6, place_out_block(0, 0), 8);
    schedule_fence(&sched);
    const struct run_call call = {.schedule = &sched,
                                  .mapped = &pair.mapped[0],
                                  .announce = &mine,
                                  .wire = &wire,
                                  .wire_user = &state,
                                  .in = {.base = data},
                                  .out = {.base = data}};

    cr_assert_eq(run_start(&run, &call), TUTTI_OK);
    cr_expect_eq(run_advance(&run), TUTTI_ERR_NOT_READY);
    check_waiting(&run, WAITING_CALL, 8, true);
    announce(&pair.mapped[1], 1, 5);
    cr_expect_eq(run_advance(&run), TUTTI_ERR_NOT_READY);
    check_waiting(&run, WAITING_MAPPED, 8, true);
    pair.mapped[0].areas[1]->words[WORD_IN_READY].value = 1;
    cr_expect_eq(run_advance(&run), TUTTI_ERR_NOT_READY);
    check_waiting(&run, WAITING_RECEIVE, 5, false);
    state.start = TUTTI_OK;
    cr_expect_eq(run_advance(&run), TUTTI_ERR_NOT_READY);
    check_waiting(&run, WAITING_MAPPED, 8, false);
    pair.mapped[0].areas[1]->words[WORD_IN_READY].value = 2;
    cr_expect_eq(run_advance(&run), TUTTI_ERR_NOT_READY);
    check_waiting(&run, WAITING_RECEIVE, 5, false);
    cr_expect_eq(state.started, 2);

    state.test = TUTTI_ERR_PEER_LOST;
    cr_expect_eq(run_advance(&run), TUTTI_ERR_PEER_LOST);
    run_abandon(&run);
    cr_expect_eq(state.cancelled, 1, "what has failed needs no cancelling, what is left does");
    run_free(&run);
    schedule_free(&sched);
    pair_close(&pair);
}

Test(runner, a_long_copy_lets_the_caller_look_up_now_and_then, .timeout = 20)
{
    const uint64_t bytes = 5 * (uint64_t)RUN_BUDGET_BYTES + 3;
    unsigned char *in = malloc(bytes), *out = calloc(1, bytes);
    struct schedule sched = {0};
    struct run run = {0};
    int turns = 0;

    memset(in, 7, bytes);
    schedule_begin(&sched, &thresholds_standard, 0, 1, 1, 0, 1);
    schedule_copy(&sched, place_out_block(0, 0), place_in_block(0, 0), bytes);
    const struct run_call call = {.schedule = &sched, .in = {.base = in}, .out = {.base = out}};

    cr_assert_eq(run_start(&run, &call), TUTTI_OK);
    while (run_advance(&run) == TUTTI_ERR_NOT_READY) {
        check_waiting(&run, WAITING_NOTHING, -1, false);
        turns++;
    }
    cr_expect_eq(turns, 5);
    cr_expect_arr_eq(in, out, bytes);
    run_free(&run);
    schedule_free(&sched);
    free(in);
    free(out);
}

Test(schedule, a_schedule_that_is_emitted_again_needs_no_memory, .timeout = 5)
{
    const struct algorithm *const algorithms[] = {&all_reduce_ring_algorithm,
                                                  &all_reduce_halving_doubling_algorithm,
                                                  &broadcast_scatter_all_gather_algorithm};
    const struct request req = {
        .in = place_in_block(0, 0), .out = place_out_block(0, 0), .bytes = 1 << 20};
    struct wire_state state = {TUTTI_OK, TUTTI_OK, 0, 0};
    struct schedule sched = {0}, before = {0};
    struct run run = {0}, first = {0};
    unsigned char *data = calloc(1, 1 << 20);

    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3; i++) {
            schedule_begin(&sched, &thresholds_standard, 5, 12, 1, 0, 4);
            algorithm_emit(algorithms[i], &sched, &req);
            cr_assert_eq(sched.status, TUTTI_OK);
            const struct run_call call = {.schedule = &sched,
                                          .wire = &wire,
                                          .wire_user = &state,
                                          .in = {.base = data},
                                          .out = {.base = data}};

            cr_assert_eq(run_start(&run, &call), TUTTI_OK);
            if (round == 0) {
                before = sched;
                first = run;
            }
        }
    cr_expect_eq(sched.steps, before.steps);
    cr_expect_eq(sched.free_tickets, before.free_tickets);
    cr_expect_eq(run.scratch, first.scratch);
    cr_expect_eq(run.ticket_memory, first.ticket_memory);
    run_free(&run);
    schedule_free(&sched);
    free(data);
}

Test(schedule, a_view_names_peers_by_position, .timeout = 5)
{
    const int members[] = {2, 9, 4};
    struct schedule sched = {0};

    schedule_begin(&sched, &thresholds_standard, 9, 12, 1, 0, 1);
    schedule_view(&sched, 1, 3, members);
    schedule_send(&sched, 2, place_out_block(0, 0), 1);
    schedule_view(&sched, 9, 12, NULL);
    schedule_send(&sched, 2, place_out_block(0, 0), 1);
    cr_expect_eq(sched.steps[0].peer, 4);
    cr_expect_eq(sched.steps[1].peer, 2);
    cr_expect_eq(sched.sent_bytes, 2);
    schedule_free(&sched);
}
