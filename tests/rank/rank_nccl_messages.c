/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages over NCCL: those of 64 KiB and more between GPUs, which communicators of two members move, and those that go by
 * pinned memory.
 */
#include "rank/nccl_messages.h"

/* ---- each side blocks ---- */

/* From rank 0 to rank 1, and back. */
static void ping_pong(tutti_group *world, int rank, int64_t count, const tutti_options *options)
{
    struct twins out, in;

    twins_make(&out, count, rank);
    twins_make(&in, count, 100);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == rank)
            check_ok(tutti_send(world, &out.device, 1 - rank, 5, options));
        else
            check_ok(tutti_recv(world, &in.device, 1 - rank, 5, options, NULL));
        expect_way(world, count >= ELEMENTS);
        gpu_synchronize(options->stream);
    }
    expect(&in, 1 - rank, "received");
    twins_free(&out);
    twins_free(&in);
}

RANK_CASE(messages_of_64_kib_and_more_go_over_nccl)
{
    static const int64_t counts[] = {1, ELEMENTS - 1, ELEMENTS, ELEMENTS + 1, LONG};
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        ping_pong(world, rank, counts[i], &options);
    options.stream = NULL;
    ping_pong(world, rank, LONG, &options);
    check_ok(tutti_group_destroy(world));
}

/* The call returns while what the message is behind is not done; what comes on the stream finds the message. */
RANK_CASE(later_work_on_the_stream_finds_a_message)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins from, out, in;

    twins_make(&from, LONG, 7);
    twins_make(&out, LONG, 8);
    twins_make(&in, LONG, 9);
    const size_t bytes = LONG * sizeof(float);
    for (int i = 0; i < 3 && rank == 0; i++) {
        gpu_copy_on(options.stream, out.on_device, from.on_device, bytes);
        check_ok(tutti_send(world, &out.device, 1, 1, &options));
        gpu_copy_on(options.stream, out.on_device, in.on_device,
                    bytes); /* not before it has left */
    }
    for (int i = 0; i < 3 && rank == 1; i++) {
        check_ok(tutti_recv(world, &in.device, 0, 1, &options, NULL));
        gpu_copy_on(options.stream, out.on_device, in.on_device, bytes);
        gpu_synchronize(options.stream);
        expect(&out, 7, "copied behind the receive");
    }
    gpu_synchronize(options.stream);
    check_ok(tutti_group_destroy(world));
    twins_free(&from);
    twins_free(&out);
    twins_free(&in);
}

/* ---- works ---- */

enum { MESSAGES = 4 };

/* All send four to the next rank, and receive them in another order, the last one from any source. */
RANK_CASE(tags_and_any_source_match_messages_over_nccl)
{
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    static const int order[MESSAGES] = {2, 0, 3, 1};
    struct twins out[MESSAGES], in[MESSAGES];
    tutti_work *works[2 * MESSAGES];
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);

    make_all(out, MESSAGES, 10 * rank);
    make_all(in, MESSAGES, 500);
    for (int i = 0; i < MESSAGES; i++)
        require_ok(tutti_isend(world, &out[i].device, next, (uint64_t)i, &options, &works[i]));
    check_ok(tutti_barrier(world, NULL, NULL)); /* they are all here before a receive is */
    for (int i = 0; i < MESSAGES; i++)
        require_ok(tutti_irecv(world, &in[order[i]].device, i == 3 ? TUTTI_ANY_SOURCE : before,
                               (uint64_t)order[i], &options, &works[MESSAGES + i]));
    check_ok(rank_end_works(works, 2 * MESSAGES, TUTTI_OK));
    expect_way(world, BY_NCCL);
    for (int i = 0; i < MESSAGES; i++)
        expect(&in[i], 10 * before + i, "received");
    free_all(out, MESSAGES);
    free_all(in, MESSAGES);
    check_ok(tutti_group_destroy(world));
}

/* Each with each, by one call each way and by a list; and sums of the group between them. */
RANK_CASE(messages_in_both_directions_go_over_nccl_beside_sums)
{
    const int other = 1 - rank;
    struct twins out[2], in[2], sum;
    tutti_work *works[5] = {NULL};
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);

    make_all(out, 2, rank);
    make_all(in, 2, 500);
    twins_make(&sum, LONG, 1);
    for (int i = 0; i < 3; i++) {
        const tutti_p2p_op ops[] = {
            {.kind = TUTTI_P2P_SEND, .peer = other, .tag = 1, .tensor = &out[0].device},
            {.kind = TUTTI_P2P_RECV_UP_TO, .peer = other, .tag = 2, .tensor = &in[1].device},
            {.kind = TUTTI_P2P_SEND, .peer = other, .tag = 2, .tensor = &out[1].device},
            {.kind = TUTTI_P2P_RECV, .peer = other, .tag = 1, .tensor = &in[0].device}};

        require_ok(tutti_all_reduce(world, &sum.device, TUTTI_SUM, &options, &works[4]));
        require_ok(tutti_batch_isend_irecv(world, ops, sizeof *ops, 4, &options, works));
        check_ok(rank_end_works(works, 5, TUTTI_OK));
        expect(&in[0], other, "received first");
        expect(&in[1], other + 1, "received as a part");
        twins_fill(&in[0], 500);
        check_ok(tutti_sendrecv(world, &out[0].device, other, 3, &in[0].device, other, 3, &options,
                                NULL));
        expect_way(world, BY_NCCL);
        gpu_synchronize(options.stream);
        expect(&in[0], other, "exchanged");
    }
    free_all(out, 2);
    free_all(in, 2);
    twins_free(&sum);
    check_ok(tutti_group_destroy(world));
}

/* In a batch with a sum, and in a plan that runs three times. */
RANK_CASE(batches_and_plans_have_messages_over_nccl)
{
    const int other = 1 - rank;
    struct twins out, in, sum;
    tutti_work *work;
    tutti_plan *plan;
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);

    twins_make(&out, ELEMENTS + 1, rank);
    twins_make(&in, ELEMENTS + 1, 500);
    twins_make(&sum, ELEMENTS, 1);
    for (int planned = 0; planned < 2; planned++) {
        require_ok(tutti_batch_begin(world));
        check_ok(tutti_all_reduce(world, &sum.device, TUTTI_MAX, &options, NULL));
        check_ok(tutti_irecv(world, &in.device, other, 1, &options, NULL));
        check_ok(tutti_isend(world, &out.device, other, 1, &options, NULL));
        if (planned)
            require_ok(tutti_plan_create(world, &plan));
        else
            require_ok(tutti_batch_end(world, &work));
        for (int run = 0; run < (planned ? 3 : 1); run++) {
            twins_fill(&in, 500);
            twins_fill(&out, rank + run);
            if (planned)
                require_ok(tutti_plan_run(plan, &work));
            check_ok(rank_end_works(&work, 1, TUTTI_OK));
            expect(&in, other + run, "of a batch");
            check_ok(tutti_barrier(world, NULL, NULL));
        }
    }
    tutti_plan_free(plan);
    twins_free(&out);
    twins_free(&in);
    twins_free(&sum);
    check_ok(tutti_group_destroy(world));
}

/* From rank 0 to rank 1, with tag 1. */
static tutti_work *start_message(tutti_group *world, int rank, struct twins *t,
                                 const tutti_options *options)
{
    tutti_work *work;

    if (rank == 0)
        require_ok(tutti_isend(world, &t->device, 1, 1, options, &work));
    else
        require_ok(tutti_irecv(world, &t->device, 0, 1, options, &work));
    return work;
}

/* The receive is posted late, so the other stream waits by a word at first, and by the message on the sender's. */
RANK_CASE(a_stream_waits_for_a_message_over_nccl)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    void *other = gpu_stream();
    struct twins t;

    twins_make(&t, LONG, rank);
    tutti_work *work = start_message(world, rank, &t, &options);
    check_ok(tutti_work_wait_stream(work, other));
    gpu_synchronize(other);
    expect(&t, 0, "behind the wait");
    check_ok(rank_end_works(&work, 1, TUTTI_OK));
    twins_free(&t);
    check_ok(tutti_group_destroy(world));
}

/* ---- by pinned memory ---- */

/* From `from` to `to`, each on the GPU or not. */
static void send_mixed(tutti_group *world, int rank, struct twins *t, const int on_gpu[2],
                       bool up_to, const tutti_options *options)
{
    const bool on_host = !on_gpu[rank];
    const tutti_tensor *tensor = on_host ? &t->host : &t->device;
    tutti_work *work;

    if (on_host)
        options = NULL;
    if (rank == 0)
        require_ok(tutti_isend(world, tensor, 1, 3, options, &work));
    else if (up_to)
        require_ok(tutti_irecv_up_to(world, tensor, 0, 3, options, &work));
    else
        require_ok(tutti_irecv(world, tensor, 0, 3, options, &work));
    check_ok(rank_end_works(&work, 1, TUTTI_OK));
    expect_way(world, false);
    if (on_host)
        gpu_write(t->on_device, t->on_host, (size_t)t->count * sizeof *t->on_host);
}

RANK_CASE(messages_between_gpus_and_host_memory_go_by_pinned_memory)
{
    static const int64_t counts[] = {ELEMENTS, ELEMENTS + 1, LONG};
    static const int on_gpu[2][2] = {{0, 1}, {1, 0}};
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);

    for (int i = 0; i < 12; i++) {
        struct twins t;

        twins_make(&t, counts[i / 4], 20 * rank + i);
        send_mixed(world, rank, &t, on_gpu[i % 2], i % 4 / 2, &options);
        expect(&t, i, "from the other memory");
        twins_free(&t);
    }
    check_ok(tutti_group_destroy(world));
}

/* A vector, received into every second element. */
RANK_CASE(a_message_into_strides_goes_by_pinned_memory)
{
    int64_t shape[1] = {ELEMENTS}, strides[1] = {2};
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins out, in;

    twins_make(&out, ELEMENTS, 3);
    twins_make(&in, (int64_t)2 * ELEMENTS, 4);
    tutti_tensor spread = in.device;
    spread.shape = shape;
    spread.strides = strides;
    if (rank == 0)
        check_ok(tutti_send(world, &out.device, 1, 1, &options));
    else
        check_ok(tutti_recv(world, &spread, 0, 1, &options, NULL));
    expect_way(world, false);
    gpu_synchronize(options.stream);
    for (int64_t i = 0; i < ELEMENTS && rank == 1; i++)
        in.on_host[2 * i] = out.on_host[i];
    twins_check(&in, "spread");
    twins_free(&out);
    twins_free(&in);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_message_to_oneself_goes_by_pinned_memory)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    tutti_work *works[2];
    struct twins out, in;

    twins_make(&out, LONG, rank);
    twins_make(&in, LONG, 500);
    for (int any = 0; any < 2; any++) {
        require_ok(
            tutti_irecv(world, &in.device, any ? TUTTI_ANY_SOURCE : rank, 1, &options, &works[0]));
        require_ok(tutti_isend(world, &out.device, rank, 1, &options, &works[1]));
        check_ok(rank_end_works(works, 2, TUTTI_OK));
        expect(&in, rank, "from this rank");
        twins_fill(&in, 500);
    }
    twins_free(&out);
    twins_free(&in);
    check_ok(tutti_group_destroy(world));
}

/* Rank 1's first receive is behind its second one, which rank 0 sends when the first has gone. */
RANK_CASE(a_receive_whose_stream_waits_for_a_later_message_holds_nobody_up)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins first, second;
    tutti_work *works[2];

    twins_make(&first, LONG, rank);
    twins_make(&second, LONG, 10 + rank);
    if (rank == 0) {
        check_ok(tutti_send(world, &first.device, 1, 1, &options));
        check_ok(tutti_send(world, &second.device, 1, 2, &options));
    } else {
        require_ok(tutti_irecv(world, &second.device, 0, 2, &options, &works[0]));
        check_ok(tutti_work_wait_stream(works[0], options.stream));
        require_ok(tutti_irecv(world, &first.device, 0, 1, &options, &works[1]));
        check_ok(rank_end_works(works, 2, TUTTI_OK));
        expect(&first, 0, "first");
        expect(&second, 10, "second");
    }
    gpu_synchronize(options.stream);
    twins_free(&first);
    twins_free(&second);
    check_ok(tutti_group_destroy(world));
}

/* Rank 1 is stopped for longer than a receive waits for its stream, and the stream goes on soon afterwards. */
RANK_CASE(a_rank_that_stood_still_takes_its_message_over_nccl)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct gpu_hold *hold = rank == 1 ? gpu_hold(options.stream) : NULL;
    struct twins t;

    twins_make(&t, LONG, rank);
    tutti_work *work = start_message(world, rank, &t, &options);
    rank_point("posted");
    if (hold) {
        rank_await("receive");
        gpu_let_go(hold);
    }
    check_ok(rank_end_works(&work, 1, TUTTI_OK));
    expect_way(world, BY_NCCL);
    expect(&t, 0, "after the stop");
    twins_free(&t);
    check_ok(tutti_group_destroy(world));
}

/* ---- what does not go at all, and leaves the group as it is ---- */

RANK_CASE(a_message_over_nccl_that_is_too_long_is_a_mismatch)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins t;

    twins_make(&t, LONG + rank, rank);
    for (int up_to = 0; up_to < 2; up_to++) {
        if (rank == 1)
            check_ok(tutti_send(world, &t.device, 0, 1, &options));
        else if (up_to)
            check_status(tutti_recv_up_to(world, &t.device, 1, 1, &options, NULL, &(uint64_t){0}),
                         TUTTI_ERR_MISMATCH);
        else
            check_status(tutti_recv(world, &t.device, 1, 1, &options, NULL), TUTTI_ERR_MISMATCH);
        if (rank == 0)
            check_contains(tutti_last_error(), "matched a message of 5200008 bytes from rank 1");
    }
    twins_free(&t);
    ping_pong(world, rank, ELEMENTS, &options);
    check_ok(tutti_group_destroy(world));
}

/* The first message is taken back, and a receive that is posted then gets the second. */
RANK_CASE(a_message_over_nccl_that_is_cancelled_is_not_received)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins t, other;
    tutti_work *work;

    twins_make(&t, LONG, rank);
    twins_make(&other, LONG, 10 + rank);
    if (rank == 0) {
        require_ok(tutti_isend(world, &t.device, 1, 1, &options, &work));
        check_ok(tutti_work_cancel(work));
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_ABORTED);
        tutti_work_free(work);
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    if (rank == 0) {
        check_ok(tutti_send(world, &other.device, 1, 1, &options));
    } else {
        require_ok(tutti_irecv(world, &t.device, 0, 9, &options, &work));
        check_ok(tutti_work_cancel(work));
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_ABORTED);
        tutti_work_free(work);
        check_ok(tutti_recv(world, &t.device, 0, 1, &options, NULL));
        gpu_synchronize(options.stream);
        expect(&t, 10, "the second");
    }
    gpu_synchronize(options.stream);
    twins_free(&t);
    twins_free(&other);
    check_ok(tutti_group_destroy(world));
}

/* Sends that are cancelled at any moment while receives wait: what is not cancelled comes, whole and in order. */
RANK_CASE(messages_over_nccl_that_are_cancelled_at_any_time_lose_nothing)
{
    enum { ROUNDS = 60 };
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins t;
    tutti_work *work;
    int went = 0;

    twins_make(&t, ELEMENTS + 1, rank);
    for (int i = 0; i < ROUNDS && rank == 0; i++) {
        require_ok(tutti_isend(world, &t.device, 1, 1, &options, &work));
        if (i % 3)
            rank_sleep_ms(i % 3 - 1);
        if (tutti_work_cancel(work)) {
            check_ok(tutti_work_wait(work, 0));
            went++;
        }
        tutti_work_free(work);
    }
    for (int i = went; i < ROUNDS && rank == 0; i++)
        check_ok(tutti_send(world, &t.device, 1, 1, &options));
    for (int i = 0; i < ROUNDS && rank == 1; i++) {
        twins_fill(&t, 9);
        check_ok(tutti_recv(world, &t.device, 0, 1, &options, NULL));
        gpu_synchronize(options.stream);
        expect(&t, 0, "received");
    }
    gpu_synchronize(options.stream);
    twins_free(&t);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_message_over_nccl_that_nobody_receives_times_out)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    struct twins t;

    twins_make(&t, LONG, rank);
    if (rank == 0) {
        options.timeout_ms = 300;
        check_status(tutti_send(world, &t.device, 1, 1, &options), TUTTI_ERR_TIMEOUT);
        check_contains(tutti_last_error(), "has no receive for it");
        options.timeout_ms = 0;
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    ping_pong(world, rank, LONG, &options);
    twins_free(&t);
    check_ok(tutti_group_destroy(world));
}

/* ---- failures: rank 0 sends to rank 1, and all hear how it ends ---- */

static void send_and_fail(int rank, int size, int64_t timeout_ms, tutti_status expected,
                          const char *words)
{
    tutti_options options;
    tutti_group *world = begin(rank, size, &options);
    tutti_work *work = NULL;
    struct twins t;

    twins_make(&t, LONG, rank);
    options.timeout_ms = timeout_ms;
    if (rank == 0)
        require_ok(tutti_isend(world, &t.device, 1, 1, &options, &work));
    if (rank == 1)
        require_ok(tutti_irecv(world, &t.device, 0, 1, &options, &work));
    (void)tutti_barrier(world, NULL, NULL); /* both are posted, unless it has ended already */
    if (work) {
        const tutti_status status = tutti_work_wait_stream(work, options.stream);

        check(!status || status == expected); /* the same */
        rank_point("running");
        check_status(tutti_work_wait(work, 0), expected);
        check_contains(tutti_last_error(), words);
    } else {
        rank_point("running");
        check_status(tutti_barrier(world, NULL, NULL), expected);
    }
    tutti_work_free(work);
    gpu_synchronize(options.stream);
    check_status(tutti_group_destroy(world), expected);
    check_contains(tutti_last_error(), words);
    rank_value("words", "%s", tutti_last_error());
    twins_free(&t);
}

RANK_CASE(a_rank_that_is_killed_in_a_message_over_nccl_ends_it)
{
    send_and_fail(rank, size, 20000, TUTTI_ERR_PEER_LOST, "rank 1");
}

RANK_CASE(a_message_over_nccl_that_does_not_end_times_out)
{
    send_and_fail(rank, size, 1500, TUTTI_ERR_TIMEOUT,
                  "bytes, tag 1 timed out after 1500 ms on rank");
}

RANK_CASE(a_communicator_for_messages_that_is_never_made_times_out)
{
    send_and_fail(rank, size, 1500, TUTTI_ERR_TIMEOUT,
                  "bytes, tag 1 timed out after 1500 ms on rank");
}

RANK_CASE(an_error_of_a_message_over_nccl_is_told_to_all)
{
    send_and_fail(rank, size, 20000, TUTTI_ERR_PLUGIN, "rank 1");
}

RANK_CASE(an_abort_ends_a_message_over_nccl)
{
    tutti_options options;

    if (rank != 2) {
        send_and_fail(rank, size, 20000, TUTTI_ERR_ABORTED, "enough");
        return;
    }
    tutti_group *world = begin(rank, size, &options);
    check_ok(tutti_barrier(world, NULL, NULL));
    rank_sleep_ms(200);
    check_ok(tutti_group_abort(world, "enough"));
    check_status(tutti_group_destroy(world), TUTTI_ERR_ABORTED);
    rank_value("words", "%s", tutti_last_error());
}
