/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over NCCL that are started together: how many groups of NCCL's they are, late members, failures. */
#include "rank/nccl_counts.h"
#include "rank/nccl_messages.h"

enum { MESSAGES = 8 };

struct counts {
    int launches, groups;
};

static struct counts count_now(void)
{
    return (struct counts){nccl_launches(), nccl_groups()};
}

/* A real NCCL does not count. */
static void expect_counts(struct counts before, int launches, int groups)
{
    const struct counts now = count_now();

    if (now.launches < 0)
        return;
    check_eq(now.launches - before.launches, launches);
    check_eq(now.groups - before.groups, groups);
}

static void add(tutti_group *world, bool sends, struct twins *t, int peer, int tag,
                const tutti_options *options)
{
    if (sends)
        check_ok(tutti_isend(world, &t->device, peer, (uint64_t)tag, options, NULL));
    else
        check_ok(tutti_irecv(world, &t->device, peer, (uint64_t)tag, options, NULL));
}

/* A batch of messages to or from one member, with tags from 0 on. */
static tutti_work *start_batch(tutti_group *world, bool sends, struct twins *t, int count, int peer,
                               const tutti_options *options)
{
    tutti_work *work = NULL;

    require_ok(tutti_batch_begin(world));
    for (int i = 0; i < count; i++)
        add(world, sends, &t[i], peer, i, options);
    require_ok(tutti_batch_end(world, &work));
    return work;
}

static void expect_all(struct twins *t, int count, int salt, const char *what)
{
    for (int i = 0; i < count; i++)
        expect(&t[i], salt + i, what);
}

/* ---- how many launches ---- */

/* A communicator takes long to be made here, so all have met their receives when it is there. */
RANK_CASE(messages_of_a_batch_that_are_ready_together_are_one_launch)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins t[MESSAGES];
    tutti_work *work;

    make_all(t, MESSAGES, rank ? 500 : 0);
    const struct counts before = count_now();
    work = start_batch(world, rank == 0, t, MESSAGES, 1 - rank, &options);
    check_ok(rank_end_works(&work, 1, TUTTI_OK));
    expect_way(world, BY_NCCL);
    expect_counts(before, 1, 1);
    expect_all(t, MESSAGES, 0, "of one launch");
    for (int i = 0; i < 5; i++) { /* more or less together */
        const int salt = 10 * i;

        for (int m = 0; m < MESSAGES; m++)
            twins_fill(&t[m], rank ? 500 : salt + m);
        work = start_batch(world, rank == 0, t, MESSAGES, 1 - rank, &options);
        check_ok(rank_end_works(&work, 1, TUTTI_OK));
        expect_all(t, MESSAGES, salt, "of a later launch");
    }
    check(count_now().launches - before.launches <= 1 + 5 * MESSAGES);
    free_all(t, MESSAGES);
    check_ok(tutti_group_destroy(world));
}

/* Two lists, and two messages that belong to no other. A list is more than one launch where others come in between. */
RANK_CASE(messages_of_different_batches_are_launches_of_their_own)
{
    enum { EACH = 3, OWN = 2 };
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins t[2 * EACH + OWN];
    tutti_work *works[2 * EACH + OWN];

    make_all(t, 2 * EACH + OWN, rank ? 500 : 0);
    const struct counts before = count_now();
    for (int batch = 0; batch < 2; batch++) {
        tutti_p2p_op ops[EACH] = {0};

        for (int i = 0; i < EACH; i++)
            ops[i] = (tutti_p2p_op){.kind = rank ? TUTTI_P2P_RECV : TUTTI_P2P_SEND,
                                    .peer = 1 - rank,
                                    .tag = (uint64_t)(EACH * batch + i),
                                    .tensor = &t[EACH * batch + i].device};
        require_ok(
            tutti_batch_isend_irecv(world, ops, sizeof *ops, EACH, &options, &works[EACH * batch]));
    }
    for (int i = 2 * EACH; i < 2 * EACH + OWN; i++)
        if (rank == 0)
            require_ok(tutti_isend(world, &t[i].device, 1, (uint64_t)i, &options, &works[i]));
        else
            require_ok(tutti_irecv(world, &t[i].device, 0, (uint64_t)i, &options, &works[i]));
    check_ok(rank_end_works(works, 2 * EACH + OWN, TUTTI_OK));
    const int launches = count_now().launches - before.launches;
    check(before.launches < 0 || (launches >= 2 + OWN && launches <= 2 * EACH + OWN));
    expect_all(t, 2 * EACH + OWN, 0, "of several launches");
    free_all(t, 2 * EACH + OWN);
    check_ok(tutti_group_destroy(world));
}

/* The members call as they like: batches on one side meet calls one by one on the other. */
RANK_CASE(a_batch_of_messages_meets_calls_one_by_one)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins t[MESSAGES];
    tutti_work *works[MESSAGES];

    make_all(t, MESSAGES, rank ? 500 : 0);
    for (int turn = 0; turn < 4; turn++) {
        const bool sends = turn / 2 == rank, batches = turn % 2 == rank;
        const int peer = 1 - rank;

        for (int i = 0; i < MESSAGES; i++)
            twins_fill(&t[i], sends ? turn + i : 500);
        if (batches)
            works[0] = start_batch(world, sends, t, MESSAGES, peer, &options);
        for (int i = 0; i < MESSAGES && !batches; i++)
            if (sends)
                require_ok(
                    tutti_isend(world, &t[i].device, peer, (uint64_t)i, &options, &works[i]));
            else
                check_ok(tutti_recv(world, &t[i].device, peer, (uint64_t)i, &options, NULL));
        if (batches || sends)
            check_ok(rank_end_works(works, batches ? 1 : MESSAGES, TUTTI_OK));
        gpu_synchronize(options.stream);
        expect_all(t, MESSAGES, turn, "of a batch on one side");
    }
    free_all(t, MESSAGES);
    check_ok(tutti_group_destroy(world));
}

/* Rank 0 is stopped until the others have agreed to all that it sends. */
RANK_CASE(messages_to_several_ranks_that_are_ready_together_are_one_group)
{
    enum { EACH = 2, PEERS = 3 };
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins t[PEERS * EACH];
    tutti_work *work = NULL;

    require(size == PEERS + 1);
    for (int peer = 1; peer < size; peer++)
        make_all(&t[(peer - 1) * EACH], EACH, rank ? 500 : 10 * peer);
    for (int peer = 1; peer < size; peer++) /* so that the communicators are there */
        if (rank == 0)
            check_ok(tutti_send(world, &t[0].device, peer, 9, &options));
        else if (rank == peer)
            check_ok(tutti_recv(world, &t[0].device, 0, 9, &options, NULL));
    gpu_synchronize(options.stream);
    check_ok(tutti_barrier(world, NULL, NULL));
    const struct counts before = count_now();
    if (rank == 0) {
        require_ok(tutti_batch_begin(world));
        for (int i = 0; i < PEERS * EACH; i++)
            add(world, true, &t[i], 1 + i / EACH, i % EACH, &options);
        require_ok(tutti_batch_end(world, &work));
    } else {
        rank_await("receive");
        work = start_batch(world, false, t, EACH, 0, &options);
    }
    rank_point("posted");
    check_ok(rank_end_works(&work, 1, TUTTI_OK));
    if (rank == 0)
        expect_counts(before, PEERS, 1);
    else
        expect_all(t, EACH, 10 * rank, "of a group");
    free_all(t, PEERS * EACH);
    check_ok(tutti_group_destroy(world));
}

/* ---- everyone ---- */

enum { KINDS = 4, RANKS_MOST = 5 };

/* Message `kind` between two members: short ones go by pinned memory. */
static int64_t count_of(int from, int to, int kind)
{
    static const int64_t counts[KINDS] = {100, ELEMENTS, 3 * ELEMENTS + 1, ELEMENTS + 7};

    return counts[kind] + from + 2 * (int64_t)to;
}

static int salt_of(int from, int to, int kind, int round)
{
    return 1000 * round + 100 * from + 10 * to + kind;
}

/* Each sends to each, in an order of its own, with a sum between the messages; one work, or the call waits. */
static void everyone(tutti_group *world, int rank, int size, int round, struct twins *sum,
                     struct twins out[][KINDS], struct twins in[][KINDS],
                     const tutti_options *options)
{
    tutti_work *work = NULL;

    require_ok(tutti_batch_begin(world));
    for (int i = 0; i < size; i++) {
        const int to = (rank + round + i) % size, from = (rank + size - i) % size;

        for (int kind = 0; kind < KINDS; kind++) {
            if (to != rank)
                add(world, true, &out[to][kind], to, kind, options);
            if (from != rank)
                add(world, false, &in[from][KINDS - 1 - kind], from, KINDS - 1 - kind, options);
        }
        if (i == 0)
            check_ok(tutti_all_reduce(world, &sum->device, TUTTI_MAX, options, NULL));
    }
    require_ok(tutti_batch_end(world, round % 2 ? &work : NULL));
    if (work)
        check_ok(rank_end_works(&work, 1, TUTTI_OK));
    gpu_synchronize(options->stream);
}

RANK_CASE(batches_of_messages_between_all_bring_every_element)
{
    static struct twins out[RANKS_MOST][KINDS], in[RANKS_MOST][KINDS], sum;
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);

    twins_make(&sum, ELEMENTS, 3);
    for (int peer = 0; peer < size; peer++)
        for (int kind = 0; kind < KINDS; kind++) {
            twins_make(&out[peer][kind], count_of(rank, peer, kind), 0);
            twins_make(&in[peer][kind], count_of(peer, rank, kind), 0);
        }
    for (int round = 0; round < 6; round++) {
        for (int peer = 0; peer < size; peer++)
            for (int kind = 0; kind < KINDS; kind++) {
                twins_fill(&out[peer][kind], salt_of(rank, peer, kind, round));
                twins_fill(&in[peer][kind], 9999);
            }
        everyone(world, rank, size, round, &sum, out, in, &options);
        for (int peer = 0; peer < size; peer++)
            for (int kind = 0; kind < KINDS && peer != rank; kind++)
                expect(&in[peer][kind], salt_of(peer, rank, kind, round), "from another rank");
        expect(&sum, 3, "the maximum");
    }
    for (int peer = 0; peer < size; peer++) {
        free_all(out[peer], KINDS);
        free_all(in[peer], KINDS);
    }
    twins_free(&sum);
    check_ok(tutti_group_destroy(world));
}

/* ---- late members ---- */

/* Rank 1 receives the second message of a batch when its answer to the first has come, and rank 2 the third later. */
RANK_CASE(a_message_of_a_batch_does_not_wait_for_the_rest_of_it)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins t[3], answer;
    tutti_work *work;

    make_all(t, 3, rank ? 500 : 0);
    twins_make(&answer, ELEMENTS, rank);
    for (int turn = 0; turn < 3; turn++) {
        if (rank == 0) {
            require_ok(tutti_batch_begin(world));
            for (int i = 0; i < 3; i++)
                add(world, true, &t[i], i == 2 ? 2 : 1, i, &options);
            require_ok(tutti_batch_end(world, &work));
            check_ok(tutti_recv(world, &answer.device, 1, 5, &options, NULL));
            gpu_synchronize(options.stream);
        }
        if (rank == 1) {
            check_ok(tutti_recv(world, &t[0].device, 0, 0, &options, NULL));
            check_ok(tutti_send(world, &answer.device, 0, 5, &options));
        }
        check_ok(tutti_barrier(world, NULL, NULL));
        if (rank == 1)
            check_ok(tutti_recv(world, &t[1].device, 0, 1, &options, NULL));
        check_ok(tutti_barrier(world, NULL, NULL));
        if (rank == 2)
            check_ok(tutti_recv(world, &t[2].device, 0, 2, &options, NULL));
        if (rank == 0)
            check_ok(rank_end_works(&work, 1, TUTTI_OK));
        gpu_synchronize(options.stream);
    }
    for (int i = 0; i < 3; i++)
        if (rank == (i == 2 ? 2 : 1))
            expect(&t[i], i, "of a batch");
    if (rank == 0)
        expect(&answer, 1, "the answer");
    free_all(t, 3);
    twins_free(&answer);
    check_ok(tutti_group_destroy(world));
}

/* On a stream that is held nothing of the batch goes; other streams go on. What a receive does not take for long goes
 * by pinned memory, so sends to it may be complete. */
RANK_CASE(a_batch_of_messages_waits_for_its_stream)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    void *held = options.stream, *other = gpu_stream();
    struct twins t[3], sum;
    tutti_work *work;
    int32_t done;

    make_all(t, 3, rank ? 500 : 0);
    twins_make(&sum, ELEMENTS, 1);
    for (int holds = 0; holds < 2; holds++) {
        struct gpu_hold *hold = rank == holds ? gpu_hold(held) : NULL;

        options.stream = held;
        work = start_batch(world, rank == 0, t, 3, 1 - rank, &options);
        options.stream = other;
        check_ok(tutti_all_reduce(world, &sum.device, TUTTI_SUM, &options, NULL));
        gpu_synchronize(other);
        rank_sleep_ms(50);
        check_ok(tutti_work_test(work, &done));
        check(!done || (rank == 0 && !hold));
        check_ok(tutti_barrier(world, NULL, NULL)); /* both have looked */
        if (hold)
            gpu_let_go(hold);
        check_ok(rank_end_works(&work, 1, TUTTI_OK));
        expect_all(t, 3, 0, "behind what was held");
        check_ok(tutti_barrier(world, NULL, NULL));
        for (int i = 0; i < 3; i++)
            twins_fill(&t[i], rank ? 500 : i);
    }
    free_all(t, 3);
    twins_free(&sum);
    check_ok(tutti_group_destroy(world));
}

/* ---- what ends alone ---- */

RANK_CASE(a_message_of_a_list_that_is_cancelled_leaves_the_others)
{
    enum { ALL = 4, CANCELLED = 1 };
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins t[ALL];
    tutti_work *works[ALL] = {NULL};
    tutti_p2p_op ops[ALL] = {0};

    make_all(t, ALL, rank ? 500 : 0);
    for (int i = 0; i < ALL; i++)
        ops[i] = (tutti_p2p_op){.kind = rank ? TUTTI_P2P_RECV : TUTTI_P2P_SEND,
                                .peer = 1 - rank,
                                .tag = (uint64_t)i,
                                .tensor = &t[i].device};
    if (rank == 0) {
        require_ok(tutti_batch_isend_irecv(world, ops, sizeof *ops, ALL, &options, works));
        check_ok(tutti_work_cancel(works[CANCELLED]));
        check_status(tutti_work_wait(works[CANCELLED], 0), TUTTI_ERR_ABORTED);
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    if (rank == 1) {
        ops[CANCELLED] = ops[ALL - 1];
        require_ok(tutti_batch_isend_irecv(world, ops, sizeof *ops, ALL - 1, &options, works));
    }
    for (int i = 0; i < ALL; i++) {
        if (works[i] && !(rank == 0 && i == CANCELLED))
            check_ok(tutti_work_wait(works[i], 0));
        tutti_work_free(works[i]);
        if (i != CANCELLED)
            expect(&t[i], i, "not cancelled");
    }
    free_all(t, ALL);
    check_ok(tutti_group_destroy(world));
}

/* The second of three: the work of the batch has its error, and the others come. */
RANK_CASE(a_message_of_a_batch_that_is_too_long_fails_alone)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins t[3];
    tutti_work *work;

    twins_make(&t[0], ELEMENTS, rank ? 500 : 0);
    twins_make(&t[1], rank ? ELEMENTS : ELEMENTS + 1, rank ? 500 : 1);
    twins_make(&t[2], ELEMENTS + 2, rank ? 500 : 2);
    work = start_batch(world, rank == 0, t, 3, 1 - rank, &options);
    check_status(rank_end_works(&work, 1, TUTTI_OK), rank ? TUTTI_ERR_MISMATCH : TUTTI_OK);
    expect(&t[0], 0, "the first");
    expect(&t[1], rank ? 500 : 1, "that fails");
    expect(&t[2], 2, "the last");
    free_all(t, 3);
    check_ok(tutti_group_destroy(world));
}

/* ---- failures: rank 0 sends a batch to rank 1 and rank 2 ---- */

static void batch_and_fail(int rank, int size, int64_t timeout_ms, tutti_status expected,
                           const char *words)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins t[4];
    tutti_work *work = NULL;

    make_all(t, 4, rank);
    options.timeout_ms = timeout_ms;
    require_ok(tutti_batch_begin(world));
    for (int i = 0; i < 4; i++)
        if (rank == 0)
            add(world, true, &t[i], 1 + i % 2, i, &options);
        else if (rank == 1 + i % 2)
            add(world, false, &t[i], 0, i, &options);
    tutti_status status = tutti_batch_end(world, &work);
    if (rank != 2) /* which may come when rank 1 has failed */
        require_ok(status);
    (void)tutti_barrier(world, NULL, NULL); /* all are posted, unless it has ended already */
    rank_point("running");
    if (!status)
        status = tutti_work_wait(work, 0);
    check(status == expected || (rank == 2 && !status)); /* its messages may have come */
    if (status)
        check_contains(tutti_last_error(), words);
    tutti_work_free(work);
    if (rank == 2)
        check_status(tutti_barrier(world, NULL, NULL), expected);
    gpu_synchronize(options.stream);
    check_status(tutti_group_destroy(world), expected);
    check_contains(tutti_last_error(), words);
    rank_value("words", "%s", tutti_last_error());
    free_all(t, 4);
}

RANK_CASE(a_rank_that_is_killed_in_a_batch_of_messages_ends_it)
{
    batch_and_fail(rank, size, 20000, TUTTI_ERR_PEER_LOST, "rank 1");
}

RANK_CASE(a_batch_of_messages_that_does_not_end_times_out)
{
    batch_and_fail(rank, size, 2500, TUTTI_ERR_TIMEOUT, "timed out after 2500 ms on rank");
}

RANK_CASE(an_error_of_a_batch_of_messages_is_told_to_all)
{
    batch_and_fail(rank, size, 20000, TUTTI_ERR_PLUGIN, "rank 1");
}

RANK_CASE(a_call_of_a_batch_of_messages_that_nccl_refuses_ends_it)
{
    batch_and_fail(rank, size, 20000, TUTTI_ERR_PLUGIN, "rank 1");
}
