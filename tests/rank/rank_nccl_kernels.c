/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of tensors on GPUs that NCCL lacks, or means otherwise: kernels between its operations, compared with the bits
 * of the same calls in host memory.
 */
#include <stdlib.h>
#include <string.h>

#include "nccl_twins.h"

enum { ODD = 37 };

static struct twin in, out;

/* The three reductions, of `count` elements or blocks, on the GPU and on the host. */
static void compare_all(tutti_group *world, const tutti_options *options, const struct sample *s,
                        tutti_reduce_op op, int64_t count)
{
    const int rank = tutti_group_rank(world), size = tutti_group_size(world), root = size - 1;
    const bool fixed = options->flags & TUTTI_FIXED_ORDER;
    const bool by_kernels = size > 1 && count;
    tutti_options on_host = *options;

    on_host.stream = NULL;
    fill_twin(&in, s, count, rank, op, !fixed);
    describe(&out, s->dtype, count);
    check_ok(tutti_all_reduce_into(world, &in.gpu_tensor, &out.gpu_tensor, op, options, NULL));
    if (by_kernels)
        check_str_eq(rank_served_by(world), "nccl all_reduce_kernels");
    check_ok(tutti_all_reduce_into(world, &in.host_tensor, &out.host_tensor, op, &on_host, NULL));
    compare(&out, options->stream, "all_reduce", s, op, count);

    check_ok(tutti_reduce(world, &in.gpu_tensor, op, root, options, NULL));
    if (by_kernels)
        check_str_eq(rank_served_by(world), "nccl reduce_kernels");
    check_ok(tutti_reduce(world, &in.host_tensor, op, root, &on_host, NULL));
    compare(&in, options->stream, "reduce", s, op, count);

    fill_twin(&in, s, count * size, rank, op, !fixed);
    check_ok(tutti_reduce_scatter(world, &in.gpu_tensor, &out.gpu_tensor, op, options, NULL));
    if (by_kernels)
        check_str_eq(rank_served_by(world), "nccl reduce_scatter_kernels");
    check_ok(tutti_reduce_scatter(world, &in.host_tensor, &out.host_tensor, op, &on_host, NULL));
    compare(&out, options->stream, "reduce_scatter", s, op, count);
}

static tutti_group *begin_with_twins(int rank, int size, tutti_options *options)
{
    void *stream;
    tutti_group *world = begin(rank, size, &stream, options);

    make_twin(&in);
    make_twin(&out);
    return world;
}

static bool nccl_does(tutti_dtype dtype, tutti_reduce_op op)
{
    const bool integer = dtype == TUTTI_U8 || dtype == TUTTI_I8 || dtype == TUTTI_U32 ||
                         dtype == TUTTI_I32 || dtype == TUTTI_U64 || dtype == TUTTI_I64;
    const bool complex = dtype == TUTTI_C64 || dtype == TUTTI_C128;

    if (dtype == TUTTI_BOOL || dtype == TUTTI_U16 || dtype == TUTTI_I16 ||
        dtype == TUTTI_F8E4M3FN || dtype == TUTTI_F8E5M2)
        return false;
    return op == TUTTI_SUM || (op == TUTTI_AVG && dtype != TUTTI_F16) ||
           (op == TUTTI_PRODUCT && !complex) || ((op == TUTTI_MIN || op == TUTTI_MAX) && integer);
}

RANK_CASE(kernels_give_the_bits_of_the_host)
{
    tutti_options options;
    tutti_group *world = begin_with_twins(rank, size, &options);

    for (int s = 0; s < SAMPLES; s++)
        for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_BXOR; op++)
            if (tutti_reduce_op_meaning(op, samples[s].dtype) && !nccl_does(samples[s].dtype, op))
                compare_all(world, &options, &samples[s], op, ODD);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(kernels_give_the_bits_of_the_host_in_fixed_order)
{
    tutti_options options;
    tutti_group *world = begin_with_twins(rank, size, &options);

    options.flags = TUTTI_FIXED_ORDER;
    for (int s = 0; s < SAMPLES; s++)
        for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_BXOR; op++)
            if (tutti_reduce_op_meaning(op, samples[s].dtype))
                compare_all(world, &options, &samples[s], op, ODD);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(any_count_goes_by_kernels)
{
    static const int64_t counts[] = {0, 1, 2, 3, 4, 5, 7, 16, 64, 101, 512, 1000};
    tutti_options options;
    tutti_group *world = begin_with_twins(rank, size, &options);

    options.flags = TUTTI_FIXED_ORDER;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int s = 0; s < SAMPLES; s++)
            if (samples[s].dtype == TUTTI_F32 || samples[s].dtype == TUTTI_F16 ||
                samples[s].dtype == TUTTI_C128)
                compare_all(world, &options, &samples[s], TUTTI_SUM, counts[i]);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(blocks_of_different_sizes_go_by_kernels)
{
    int64_t counts[BLOCKS], none[BLOCKS] = {0}, total = 0;
    tutti_options options;
    tutti_group *world = begin_with_twins(rank, size, &options);
    tutti_options on_host = {.struct_size = sizeof on_host, .flags = TUTTI_FIXED_ORDER};

    options.flags = TUTTI_FIXED_ORDER;
    for (int r = 0; r < size; r++) {
        counts[r] = r == 1 ? 0 : 11 * r + 3;
        total += counts[r];
    }
    for (int s = 0; s < SAMPLES; s++) {
        fill_twin(&in, &samples[s], total, rank, TUTTI_PRODUCT, false);
        describe(&out, samples[s].dtype, counts[rank]);
        check_ok(tutti_reduce_scatter_v(world, &in.gpu_tensor, counts, NULL, &out.gpu_tensor,
                                        TUTTI_PRODUCT, &options, NULL));
        check_str_eq(rank_served_by(world), "nccl reduce_scatter_kernels");
        check_ok(tutti_reduce_scatter_v(world, &in.host_tensor, counts, NULL, &out.host_tensor,
                                        TUTTI_PRODUCT, &on_host, NULL));
        compare(&out, options.stream, "reduce_scatter_v", &samples[s], TUTTI_PRODUCT, counts[rank]);
    }
    describe(&in, TUTTI_I32, 0);
    describe(&out, TUTTI_I32, 0);
    check_ok(tutti_reduce_scatter_v(world, &in.gpu_tensor, none, NULL, &out.gpu_tensor, TUTTI_BOR,
                                    &options, NULL));
    check_ok(tutti_group_destroy(world));
}

/* ---- long tensors ---------------------------------------------------------------------------- */

/* More than a piece. ThreadSanitizer does not look at the bytes, and all go by tables: tests run on crowded machines. */
enum { LONG_MIB = 34, PERIOD = 65521 }; /* a prime: what is moved to a wrong place differs */
#define OWN_MEMORY __attribute__((no_sanitize("thread")))

/* A period of the input of one rank, or of the sum of those of several. */
OWN_MEMORY static void make_period(uint8_t period[static PERIOD], int first_rank, int end_rank)
{
    memset(period, 0, PERIOD);
    for (int r = first_rank; r < end_rank; r++)
        for (size_t i = 0; i < PERIOD; i++)
            period[i] ^= (uint8_t)(i * 7 + i / 251 + (size_t)r * 31);
}

OWN_MEMORY static void fill_long(uint8_t *on_gpu, uint8_t *host, size_t bytes, int rank)
{
    static uint8_t period[PERIOD];

    make_period(period, rank, rank + 1);
    for (size_t at = 0; at < bytes; at += PERIOD)
        memcpy(host + at, period, bytes - at < PERIOD ? bytes - at : PERIOD);
    gpu_write(on_gpu, host, bytes);
}

/* Bytes from `first` on of the exclusive or of all inputs. */
OWN_MEMORY static void check_long(const uint8_t *on_gpu, uint8_t *host, size_t bytes, size_t first,
                                  int size)
{
    static uint8_t period[PERIOD];
    size_t wrong = 0, part;

    make_period(period, 0, size);
    gpu_read(host, on_gpu, bytes);
    for (size_t at = 0; at < bytes; at += part) {
        const size_t phase = (first + at) % PERIOD;

        part = bytes - at < PERIOD - phase ? bytes - at : PERIOD - phase;
        wrong += memcmp(host + at, period + phase, part) != 0;
    }
    check_eq(wrong, 0);
}

RANK_CASE(long_tensors_are_reduced_in_pieces)
{
    const size_t bytes = ((size_t)LONG_MIB << 20) + 5, block = bytes / (size_t)size;
    int64_t shape, block_shape, counts[BLOCKS];
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    uint8_t *host = malloc(bytes), *on_gpu = gpu_allocate(bytes), *part = gpu_allocate(bytes);
    tutti_tensor t = tutti_tensor_1d(on_gpu, TUTTI_U8, &shape, (int64_t)bytes);
    tutti_tensor own = tutti_tensor_1d(part, TUTTI_U8, &block_shape, (int64_t)block);

    t.device = own.device = gpu_device();
    fill_long(on_gpu, host, bytes, rank);
    check_ok(tutti_all_reduce(world, &t, TUTTI_BXOR, &options, NULL));
    gpu_synchronize(stream);
    check_long(on_gpu, host, bytes, 0, size);

    fill_long(on_gpu, host, bytes, rank);
    check_ok(tutti_reduce(world, &t, TUTTI_BXOR, 0, &options, NULL));
    gpu_synchronize(stream);
    if (rank == 0)
        check_long(on_gpu, host, bytes, 0, size);

    fill_long(on_gpu, host, bytes, rank);
    shape = (int64_t)(block * (size_t)size);
    check_ok(tutti_reduce_scatter(world, &t, &own, TUTTI_BXOR, &options, NULL));
    gpu_synchronize(stream);
    check_long(part, host, block, block * (size_t)rank, size);

    for (int r = 0; r < size; r++)
        counts[r] = r == size - 1 ? (int64_t)bytes - (size - 1) * 1001 : 1001;
    shape = (int64_t)bytes;
    block_shape = counts[rank];
    check_ok(tutti_reduce_scatter_v(world, &t, counts, NULL, &own, TUTTI_BXOR, &options, NULL));
    gpu_synchronize(stream);
    check_long(part, host, (size_t)counts[rank], (size_t)rank * 1001, size);
    free(host);
    check_ok(tutti_group_destroy(world));
}

/* ---- streams and works ----------------------------------------------------------------------- */

RANK_CASE(a_call_by_kernels_returns_while_its_stream_is_held)
{
    tutti_options options;
    static struct vector v;
    struct gpu_hold *hold;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, 1 << rank);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_BOR, &options, NULL)); /* loads the kernels */
    gpu_synchronize(stream);
    fill(&v, 1 << rank);
    hold = gpu_hold(stream);
    for (int i = 0; i < 100; i++)
        require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_BOR, &options, NULL));
    check_str_eq(rank_served_by(world), "nccl all_reduce_kernels");
    check(!gpu_is_idle(stream));
    gpu_let_go(hold);
    check_eq(element(&v, stream, COUNT - 1), (1 << size) - 1);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(streams_wait_for_works_by_kernels)
{
    tutti_options options;
    static struct vector v, w;
    struct gpu_hold *hold;
    tutti_work *work[2];
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    void *other = gpu_stream();

    make(&v, COUNT, 1 << rank);
    make(&w, COUNT, rank);
    check_ok(tutti_all_reduce(world, &w.tensor, TUTTI_BXOR, &options, NULL));
    gpu_synchronize(stream);
    hold = gpu_hold(stream);
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_BOR, &options, &work[0]));
    options.flags = TUTTI_FIXED_ORDER;
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, &work[1]));
    check_status(tutti_work_wait(work[0], 1), TUTTI_ERR_NOT_READY);
    check_ok(tutti_work_wait_stream(work[1], other));
    check(!gpu_is_idle(other));
    gpu_let_go(hold);
    check_ok(tutti_work_wait(work[0], 0));
    check_ok(tutti_work_wait(work[1], 0));
    check_eq(element(&v, other, 0), size * ((1 << size) - 1));
    tutti_work_free(work[0]);
    tutti_work_free(work[1]);
    check_ok(tutti_group_destroy(world));
}

/* Memory that the held stream is to use is not given to another one. */
RANK_CASE(a_held_stream_holds_up_no_kernels_of_another_group)
{
    tutti_options options;
    static struct vector v, w;
    struct gpu_hold *hold;
    tutti_group *group;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_options on_other = options;

    on_other.stream = gpu_stream();
    make(&v, COUNT, 1 << rank);
    make(&w, COUNT, 1 << rank);
    check_ok(tutti_group_new(world, NULL, 0, NULL, &group));
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_BXOR, &options, NULL));
    check_ok(tutti_all_reduce(group, &w.tensor, TUTTI_BXOR, &on_other, NULL));
    gpu_synchronize(stream);
    gpu_synchronize(on_other.stream);
    fill(&w, 1 << rank);
    hold = gpu_hold(stream);
    for (int i = 0; i < 3; i++)
        check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_BOR, &options, NULL));
    check_ok(tutti_all_reduce(group, &w.tensor, TUTTI_BOR, &on_other, NULL));
    check_eq(element(&w, on_other.stream, COUNT - 1), (1 << size) - 1);
    check(!gpu_is_idle(stream));
    gpu_let_go(hold);
    check_eq(element(&v, stream, 0), (1 << size) - 1);
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(group));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(batches_and_plans_have_calls_by_kernels)
{
    tutti_options options;
    static struct vector v, w;
    tutti_plan *plan;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, 1 << rank);
    make(&w, COUNT, rank + 1);
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce(world, &w.tensor, TUTTI_MAX, &options, NULL));
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_BOR, &options, NULL));
    check_ok(tutti_all_reduce(world, &w.tensor, TUTTI_SUM, &options, NULL));
    check_ok(tutti_batch_end(world, NULL));
    check_eq(element(&v, stream, 0), (1 << size) - 1);
    check_eq(element(&w, stream, 0), size * size);
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_BXOR, &options, NULL));
    require_ok(tutti_plan_create(world, &plan));
    for (int i = 0; i < 3; i++) {
        fill(&v, 1 << rank);
        check_ok(tutti_plan_run(plan, NULL));
        check_str_eq(rank_served_by(world), "nccl all_reduce_kernels");
        check_eq(element(&v, stream, COUNT - 1), (1 << size) - 1);
    }
    gpu_capture(stream);
    check_status(tutti_plan_run(plan, NULL), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "captured");
    check_status(tutti_all_reduce(world, &v.tensor, TUTTI_BXOR, &options, NULL),
                 TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "captured");
    gpu_capture_end(stream);
    check_ok(tutti_plan_run(plan, NULL));
    gpu_synchronize(stream);
    tutti_plan_free(plan);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(tensors_with_strides_go_by_kernels)
{
    tutti_options options;
    static struct vector v;
    int64_t shape;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, 1 << rank);
    const tutti_tensor strided = every_second(&v, &shape);
    check_ok(tutti_all_reduce(world, &strided, TUTTI_BOR, &options, NULL));
    check_str_eq(rank_served_by(world), "nccl all_reduce_kernels");
    check_eq(element(&v, stream, 0), (1 << size) - 1);
    check_eq(element(&v, stream, 1), 1 << rank);
    check_ok(tutti_group_destroy(world));
}

/* ---- failures -------------------------------------------------------------------------------- */

RANK_CASE(a_rank_that_is_killed_ends_a_call_by_kernels)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    call_once(world, &v, rank, TUTTI_BOR, &options);
    outlive_rank_1(rank);
    (void)tutti_all_reduce(world, &v.tensor, TUTTI_BOR, &options, NULL);
    expect_end(world, stream, TUTTI_ERR_PEER_LOST, "rank 1");
}

/* A member that left before would be another reason. */
static void await_verdict(const tutti_group *world)
{
    const int64_t until = rank_now_ns() + INT64_C(60000000000);
    tutti_group_info info = {.struct_size = sizeof info};

    while (!tutti_group_status(world, &info) && !info.verdict && rank_now_ns() < until)
        rank_sleep_ms(10);
}

RANK_CASE(kernels_that_wait_for_a_rank_end_at_their_deadline)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    call_once(world, &v, rank, TUTTI_BOR, &options);
    options.timeout_ms = 500;
    if (rank == 1)
        await_verdict(world);
    else
        (void)tutti_all_reduce(world, &v.tensor, TUTTI_BOR, &options, NULL);
    expect_end(world, stream, TUTTI_ERR_TIMEOUT, "all_reduce");
}

RANK_CASE(the_fixed_order_on_one_rank_alone_is_a_mismatch)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    options.flags = rank == 1 ? TUTTI_FIXED_ORDER : 0;
    (void)tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL);
    expect_end(world, stream, TUTTI_ERR_MISMATCH, "fixed order");
}

/* The devices have 8 MiB. */
RANK_CASE(a_rank_without_memory_for_kernels_ends_the_group)
{
    enum { BYTES = 2 << 20 };
    tutti_options options;
    int64_t shape;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    tutti_tensor t = tutti_tensor_1d(gpu_allocate(BYTES), TUTTI_U8, &shape, BYTES);

    t.device = gpu_device();
    if (rank == 1)
        (void)gpu_allocate(5 << 20);
    const tutti_status status = tutti_all_reduce(world, &t, TUTTI_BOR, &options, NULL);
    if (rank == 1)
        check_eq(status, TUTTI_ERR_NO_MEMORY);
    expect_end(world, stream, TUTTI_ERR_NO_MEMORY, "rank 1");
}

/* NCCL fails on rank 1 in the second step of its first call. */
RANK_CASE(an_error_between_kernels_is_told_to_all)
{
    tutti_options options;
    static struct vector v;
    tutti_work *work;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, rank);
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_BOR, &options, &work));
    check_status(tutti_work_wait(work, 0), TUTTI_ERR_PLUGIN);
    check_contains(tutti_last_error(), "rank 1");
    tutti_work_free(work);
    expect_end(world, stream, TUTTI_ERR_PLUGIN, "rank 1");
}
