/* SPDX-License-Identifier: Apache-2.0 */
/* PREMUL_SUM of tensors on GPUs over NCCL: products by kernels, on the stream, and then a sum. */
#include "nccl_twins.h"

enum { ODD = 37 };

static struct twin in, out, factors;

/* One factor, or one for each element. Its memory is overwritten at once. */
static tutti_reduce_op premul_of(const struct sample *s, int rank, int64_t count, bool exact)
{
    tutti_reduce_op op = -1;

    fill_twin(&factors, s, count, rank + 50, TUTTI_SUM, exact);
    require_ok(tutti_reduce_op_premul(rank % 2 ? &factors.host_tensor : &factors.gpu_tensor, &op));
    memset(factors.host, 0x7b, (size_t)count * s->element);
    gpu_write(factors.on_gpu, factors.host, (size_t)count * s->element);
    return op;
}

static void check_way(tutti_group *world, int size, const char *operation)
{
    char native[64], kernels[64];
    const char *served = rank_served_by(world);

    snprintf(native, sizeof native, "nccl %s_native", operation);
    snprintf(kernels, sizeof kernels, "nccl %s_kernels", operation);
    if (size > 1 && strcmp(served, native) != 0)
        check_str_eq(served, kernels);
}

/* All reductions, with tensors of `count` elements and the factors that this member has for them. */
static void compare_all(tutti_group *world, const tutti_options *options, const struct sample *s,
                        int64_t count, bool each)
{
    const int rank = tutti_group_rank(world), size = tutti_group_size(world), root = size - 1;
    const bool fixed = options->flags & TUTTI_FIXED_ORDER;
    tutti_options on_host = *options;
    tutti_reduce_op op = premul_of(s, rank, each ? count : 1, !fixed);

    on_host.stream = NULL;
    fill_twin(&in, s, count, rank, TUTTI_SUM, !fixed);
    describe(&out, s->dtype, count);
    check_ok(tutti_all_reduce_into(world, &in.gpu_tensor, &out.gpu_tensor, op, options, NULL));
    check_way(world, size, "all_reduce");
    check_ok(tutti_all_reduce_into(world, &in.host_tensor, &out.host_tensor, op, &on_host, NULL));
    compare(&out, options->stream, "premul all_reduce_into", s, TUTTI_SUM, count);

    check_ok(tutti_reduce(world, &in.gpu_tensor, op, root, options, NULL));
    check_way(world, size, "reduce");
    check_ok(tutti_reduce(world, &in.host_tensor, op, root, &on_host, NULL));
    compare(&in, options->stream, "premul reduce", s, TUTTI_SUM, count); /* of others: as it was */

    fill_twin(&in, s, count, rank, TUTTI_SUM, !fixed);
    check_ok(tutti_all_reduce(world, &in.gpu_tensor, op, options, NULL));
    check_ok(tutti_all_reduce(world, &in.host_tensor, op, &on_host, NULL));
    compare(&in, options->stream, "premul all_reduce", s, TUTTI_SUM, count);
    tutti_reduce_op_free(op);

    op = premul_of(s, rank, each ? count * size : 1, !fixed);
    fill_twin(&in, s, count * size, rank, TUTTI_SUM, !fixed);
    check_ok(tutti_reduce_scatter(world, &in.gpu_tensor, &out.gpu_tensor, op, options, NULL));
    check_way(world, size, "reduce_scatter");
    check_ok(tutti_reduce_scatter(world, &in.host_tensor, &out.host_tensor, op, &on_host, NULL));
    compare(&out, options->stream, "premul reduce_scatter", s, TUTTI_SUM, count);
    tutti_reduce_op_free(op);
}

/* Whether the order of operands changes the bits of a sum of small whole numbers. */
static bool is_small_float(const struct sample *s)
{
    return s->keep;
}

/* One member has one factor, another a factor for each element. */
RANK_CASE(premul_sums_give_the_bits_of_the_host)
{
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make_twin(&in);
    make_twin(&out);
    make_twin(&factors);
    for (int s = 0; s < SAMPLES; s++) {
        if (!tutti_reduce_op_meaning(TUTTI_PREMUL_SUM, samples[s].dtype))
            continue;
        for (int each = 0; each < 3; each++) {
            options.flags = is_small_float(&samples[s]) ? TUTTI_FIXED_ORDER : 0;
            compare_all(world, &options, &samples[s], ODD, each == 2 ? rank % 2 : each);
            options.flags = TUTTI_FIXED_ORDER;
            compare_all(world, &options, &samples[s], ODD, each == 2 ? rank % 2 : each);
        }
    }
    check_ok(tutti_group_destroy(world));
}

static tutti_reduce_op times(int32_t factor, int64_t count)
{
    int32_t each[COUNT];
    int64_t shape;
    tutti_reduce_op op = -1;

    for (int i = 0; i < COUNT; i++)
        each[i] = factor;
    const tutti_tensor tensor = tutti_tensor_1d(each, TUTTI_I32, &shape, count);
    require_ok(tutti_reduce_op_premul(&tensor, &op));
    return op;
}

/* The operation is freed while its products are on a stream that has not come to them. */
RANK_CASE(a_premul_sum_returns_while_its_stream_is_held)
{
    tutti_options options;
    static struct vector v, sum;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    make(&v, COUNT, 1);
    make(&sum, COUNT, -1);
    for (int i = 0; i < 2; i++) { /* the first loads kernels */
        tutti_reduce_op one = times(rank + 1, 1), each = times(2, COUNT);
        struct gpu_hold *hold = i ? gpu_hold(stream) : NULL;

        fill(&v, 1);
        check_ok(tutti_all_reduce_into(world, &v.tensor, &sum.tensor, one, &options, NULL));
        check_str_eq(rank_served_by(world), "nccl all_reduce_native");
        check_ok(tutti_reduce_into(world, &v.tensor, &sum.tensor, each, 0, &options, NULL));
        tutti_reduce_op_free(one);
        tutti_reduce_op_free(each);
        if (hold) {
            check(!gpu_is_idle(stream));
            gpu_let_go(hold);
        }
        check_eq(element(&sum, stream, COUNT - 1), rank ? size * (size + 1) / 2 : 2 * size);
        check_eq(element(&v, stream, 0), 1);
    }
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(premul_sums_take_strides_batches_and_refuse_plans)
{
    tutti_options options;
    static struct vector v, w;
    int64_t shape;
    void *stream;
    tutti_plan *plan;
    tutti_group *world = begin(rank, size, &stream, &options);
    const tutti_reduce_op op = times(3, 1);

    make(&v, COUNT, 1);
    make(&w, COUNT, 2);
    const tutti_tensor strided = every_second(&v, &shape);
    check_ok(tutti_all_reduce(world, &strided, op, &options, NULL));
    check_eq(element(&v, stream, 2), 3 * size);
    check_eq(element(&v, stream, 3), 1);
    fill(&v, 1);
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce(world, &v.tensor, op, &options, NULL));
    check_ok(tutti_reduce(world, &w.tensor, op, 0, &options, NULL));
    check_ok(tutti_batch_end(world, NULL));
    check_eq(element(&v, stream, COUNT - 1), 3 * size);
    check_eq(element(&w, stream, COUNT - 1), rank ? 2 : 6 * size);
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_reduce(world, &w.tensor, op, 0, &options, NULL));
    check_status(tutti_plan_create(world, &plan), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "multiplies by a factor");
    tutti_reduce_op_free(op);
    check_ok(tutti_group_destroy(world));
}

/* Earlier calls of a batch begin at its end, and see what tensors held then. */
RANK_CASE(a_premul_sum_changes_nothing_before_its_batch_ends)
{
    tutti_options options;
    static struct vector x, y, z;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    const tutti_reduce_op op = times(3, 1);

    make(&x, COUNT, 1);
    make(&y, COUNT, -1);
    make(&z, COUNT, 2);
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce_into(world, &x.tensor, &y.tensor, TUTTI_SUM, &options, NULL));
    check_ok(tutti_all_reduce(world, &x.tensor, op, &options, NULL));
    check_ok(tutti_batch_end(world, NULL));
    check_eq(element(&y, stream, 0), size);
    check_eq(element(&x, stream, 0), 3 * size);
    fill(&x, 1);
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce_into(world, &x.tensor, &y.tensor, TUTTI_SUM, &options, NULL));
    check_ok(tutti_all_reduce_into(world, &z.tensor, &y.tensor, op, &options, NULL));
    check_ok(tutti_batch_end(world, NULL));
    check_eq(element(&y, stream, COUNT - 1), 6 * size);
    tutti_reduce_op_free(op);
    check_ok(tutti_group_destroy(world));
}

/* A call that is refused has multiplied nothing. */
RANK_CASE(a_premul_sum_of_a_group_that_has_ended_changes_nothing)
{
    tutti_options options;
    static struct vector v;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    const tutti_reduce_op op = times(3, 1);

    call_once(world, &v, rank, TUTTI_SUM, &options);
    rank_meet_beside(world);
    check_ok(tutti_group_abort(world, "enough"));
    fill(&v, 5);
    check_status(tutti_all_reduce(world, &v.tensor, op, &options, NULL), TUTTI_ERR_ABORTED);
    check_eq(element(&v, stream, 0), 5);
    tutti_reduce_op_free(op);
    check_status(tutti_group_destroy(world), TUTTI_ERR_ABORTED);
}

static tutti_reduce_op counting(int64_t count)
{
    int32_t each[BLOCKS * BLOCKS];
    int64_t shape;
    tutti_reduce_op op = -1;

    for (int i = 0; i < BLOCKS * BLOCKS; i++)
        each[i] = i + 1;
    const tutti_tensor factor = tutti_tensor_1d(each, TUTTI_I32, &shape, count);
    require_ok(tutti_reduce_op_premul(&factor, &op));
    return op;
}

/* Blocks in a row, of which one is empty; blocks that lie apart. */
RANK_CASE(premul_sums_of_blocks_have_a_factor_for_each_element)
{
    tutti_options options;
    static struct vector from, part, piece[BLOCKS];
    const tutti_tensor *list[BLOCKS];
    int64_t counts[BLOCKS], total = 0, first = 0, two = 2;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    for (int r = 0; r < size; r++) {
        counts[r] = r == 1 ? 0 : r + 1;
        first = r == rank ? total : first;
        total += counts[r];
    }
    make(&from, total, 1);
    make(&part, BLOCKS, -1);
    tutti_tensor mine = part.tensor;
    mine.shape = &counts[rank];
    tutti_reduce_op op = counting(total);
    check_ok(tutti_reduce_scatter_v(world, &from.tensor, counts, NULL, &mine, op, &options, NULL));
    for (int64_t i = 0; i < counts[rank]; i++)
        check_eq(element(&part, stream, i), (int32_t)(size * (first + i + 1)));
    tutti_reduce_op_free(op);
    for (int r = size - 1; r >= 0; r--) {
        make(&piece[r], two, 1);
        list[r] = &piece[r].tensor;
    }
    mine.shape = &two;
    op = counting(two * size);
    check_ok(tutti_reduce_scatter_list(world, list, &mine, op, &options, NULL));
    check_eq(element(&part, stream, 0), size * (2 * rank + 1));
    check_eq(element(&part, stream, 1), size * (2 * rank + 2));
    tutti_reduce_op_free(op);
    check_ok(tutti_group_destroy(world));
}

/* The other side is in host memory: no kernel may touch that. */
RANK_CASE(a_premul_sum_of_host_and_gpu_memory_is_refused)
{
    tutti_options options;
    static struct vector v;
    int32_t host[COUNT] = {0};
    int64_t shape;
    tutti_tensor on_host = tutti_tensor_1d(host, TUTTI_I32, &shape, COUNT);
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    const tutti_reduce_op op = times(3, 1);

    make(&v, COUNT, 1);
    check_status(tutti_all_reduce_into(world, &v.tensor, &on_host, op, &options, NULL),
                 TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "another one in host memory");
    check_status(tutti_all_reduce_into(world, &on_host, &v.tensor, op, &options, NULL),
                 TUTTI_ERR_UNSUPPORTED);
    check_status(tutti_all_reduce(world, &v.tensor, TUTTI_PREMUL_SUM, &options, NULL),
                 TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "premul_sum needs a factor");
    check_status(tutti_all_reduce(world, &v.tensor, op + 1, &options, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_eq(element(&v, stream, 0), 1);
    check_eq(host[0], 0);
    check_ok(tutti_all_reduce(world, &v.tensor, op, &options, NULL));
    check_eq(element(&v, stream, 0), 3 * size);
    tutti_reduce_op_free(op);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_captured_premul_sum_multiplies_in_each_replay)
{
    tutti_options options;
    static struct vector v, part;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    const tutti_reduce_op one = times(rank + 1, 1), each = times(2, COUNT);

    make(&v, COUNT, 1);
    make(&part, COUNT / size, 1);
    check_ok(tutti_all_reduce(world, &v.tensor, one, &options, NULL)); /* connects, and loads */
    gpu_synchronize(stream);
    gpu_capture(stream);
    check_status(tutti_all_reduce(world, &v.tensor, each, &options, NULL), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "a factor for each element");
    check_status(tutti_reduce(world, &v.tensor, one, 0, &options, NULL), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "does not write all products");
    check_status(tutti_reduce_scatter(world, &v.tensor, &part.tensor, one, &options, NULL),
                 TUTTI_ERR_UNSUPPORTED);
    require_ok(tutti_batch_begin(world));
    check_status(tutti_all_reduce(world, &v.tensor, one, &options, NULL), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "a premul_sum in a batch");
    check_status(tutti_batch_end(world, NULL), TUTTI_ERR_UNSUPPORTED);
    check_ok(tutti_all_reduce(world, &v.tensor, one, &options, NULL));
    tutti_reduce_op_free(one);
    tutti_reduce_op_free(each);
    void *graph = gpu_graph(stream);
    for (int32_t value = 1; value < 4; value++) {
        fill(&v, value);
        gpu_replay(graph, stream);
        check_eq(element(&v, stream, COUNT - 1), value * size * (size + 1) / 2);
    }
    gpu_graph_free(graph);
    check_ok(tutti_group_destroy(world));
}
