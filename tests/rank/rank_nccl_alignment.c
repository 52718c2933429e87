/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions over NCCL of tensors that are not aligned to their elements. The stand-in of NCCL loses the device where
 * such a tensor comes to it.
 */
#include <string.h>

#include "nccl_rank.h"

enum { ODD_COUNT = 37, BYTES_MAX = 1 << 12 };

/* Small whole numbers, which each dtype has. */
static const struct kind {
    tutti_dtype dtype;
    size_t bytes;
} kinds[] = {{TUTTI_F32, 4}, {TUTTI_F64, 8}, {TUTTI_BF16, 2}, {TUTTI_I32, 4}, {TUTTI_C64, 8}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void put(const struct kind *kind, unsigned char *to, int number)
{
    const float f[2] = {(float)number, 0};
    const double d = number;
    const int32_t i = number;
    uint32_t bits;

    memcpy(&bits, f, sizeof bits);
    const uint16_t half = (uint16_t)(bits >> 16);
    memcpy(to,
           kind->dtype == TUTTI_F64    ? (const void *)&d
           : kind->dtype == TUTTI_BF16 ? (const void *)&half
           : kind->dtype == TUTTI_I32  ? (const void *)&i
                                       : f,
           kind->bytes);
}

/* A vector at an address of any alignment, between bytes that nobody may write. */
struct shifted {
    unsigned char *memory;
    int64_t shape;
    tutti_tensor tensor;
};

/* Element i is `first` + i % 5. */
static void place(struct shifted *s, const struct kind *kind, uint64_t offset, int64_t count,
                  int first)
{
    unsigned char host[BYTES_MAX];

    memset(host, 0xa5, sizeof host);
    for (int64_t i = 0; i < count; i++)
        put(kind, host + offset + (size_t)i * kind->bytes, first + (int)(i % 5));
    if (!s->memory)
        s->memory = gpu_allocate(BYTES_MAX);
    gpu_write(s->memory, host, sizeof host);
    s->tensor = tutti_tensor_1d(s->memory, kind->dtype, &s->shape, count);
    s->tensor.byte_offset = offset;
    s->tensor.device = gpu_device();
}

/* Element i is `base` + (i + skipped) % 5 * `times`, and nothing beside them has changed. */
static void expect(struct shifted *s, const struct kind *kind, void *stream, int base, int times,
                   int64_t skipped)
{
    unsigned char got[BYTES_MAX], wanted[BYTES_MAX];

    memset(wanted, 0xa5, sizeof wanted);
    for (int64_t i = 0; i < s->shape; i++)
        put(kind, wanted + s->tensor.byte_offset + (size_t)i * kind->bytes,
            base + (int)((i + skipped) % 5) * times);
    gpu_synchronize(stream);
    gpu_read(got, s->memory, sizeof got);
    check(memcmp(got, wanted, sizeof got) == 0);
}

static struct shifted in, out, block[BLOCKS];

static void reduce_all(tutti_group *world, const tutti_options *options, const struct kind *kind,
                       uint64_t offset)
{
    const int rank = tutti_group_rank(world), size = tutti_group_size(world);
    const int sum = size * (size - 1) / 2;

    place(&in, kind, offset, ODD_COUNT, rank);
    check_ok(tutti_all_reduce(world, &in.tensor, TUTTI_SUM, options, NULL));
    check_str_eq(rank_served_by(world), "nccl all_reduce_native");
    expect(&in, kind, options->stream, sum, size, 0);

    place(&in, kind, offset, ODD_COUNT, 2 * rank);
    place(&out, kind, kind->bytes - offset % kind->bytes, ODD_COUNT, -1);
    check_ok(tutti_all_reduce_into(world, &in.tensor, &out.tensor, TUTTI_AVG, options, NULL));
    expect(&in, kind, options->stream, 2 * rank, 1, 0);
    expect(&out, kind, options->stream, size - 1, 1, 0);

    place(&in, kind, offset, ODD_COUNT, rank);
    check_ok(tutti_reduce(world, &in.tensor, TUTTI_SUM, 0, options, NULL));
    check_str_eq(rank_served_by(world), "nccl reduce_native");
    expect(&in, kind, options->stream, rank ? rank : sum, rank ? 1 : size, 0);
}

static void scatter_lists(tutti_group *world, const tutti_options *options, const struct kind *kind,
                          uint64_t offset)
{
    const int rank = tutti_group_rank(world), size = tutti_group_size(world);
    const int sum = size * (size - 1) / 2;
    const tutti_tensor *blocks[BLOCKS];
    tutti_tensor in_a_row[BLOCKS];

    for (int r = 0; r < size; r++) { /* one block of the list, and on rank 0 none */
        place(&block[r], kind, r == 1 && rank ? offset : 0, ODD_COUNT, rank + r);
        blocks[r] = &block[r].tensor;
    }
    place(&out, kind, 0, ODD_COUNT, -1);
    check_ok(tutti_reduce_scatter_list(world, blocks, &out.tensor, TUTTI_SUM, options, NULL));
    check_str_eq(rank_served_by(world), "nccl reduce_scatter_native");
    expect(&out, kind, options->stream, sum + size * rank, size, 0);

    place(&in, kind, offset, (int64_t)size * ODD_COUNT, rank);
    for (int r = 0; r < size; r++) {
        in_a_row[r] = in.tensor;
        in_a_row[r].shape = &out.shape;
        in_a_row[r].byte_offset += (uint64_t)r * ODD_COUNT * kind->bytes;
        blocks[r] = &in_a_row[r];
    }
    check_ok(tutti_reduce_scatter_list(world, blocks, &out.tensor, TUTTI_SUM, options, NULL));
    expect(&out, kind, options->stream, sum, size, (int64_t)rank * ODD_COUNT);
}

static void reduce_and_scatter(tutti_group *world, const tutti_options *options,
                               const struct kind *kind, uint64_t offset)
{
    const int rank = tutti_group_rank(world), size = tutti_group_size(world);
    const int sum = size * (size - 1) / 2;
    int64_t counts[BLOCKS], before = 0, total = 0;

    place(&in, kind, offset, (int64_t)size * ODD_COUNT, rank);
    place(&out, kind, offset, ODD_COUNT, -1);
    check_ok(tutti_reduce_scatter(world, &in.tensor, &out.tensor, TUTTI_SUM, options, NULL));
    check_str_eq(rank_served_by(world), "nccl reduce_scatter_native");
    expect(&out, kind, options->stream, sum, size, (int64_t)rank * ODD_COUNT);

    for (int r = 0; r < size; r++) {
        counts[r] = r + 1;
        before += r < rank ? counts[r] : 0;
        total += counts[r];
    }
    place(&in, kind, offset, total, rank);
    place(&out, kind, 0, counts[rank], -1);
    check_ok(tutti_reduce_scatter_v(world, &in.tensor, counts, NULL, &out.tensor, TUTTI_SUM,
                                    options, NULL));
    expect(&out, kind, options->stream, sum, size, before);
}

RANK_CASE(reductions_over_nccl_take_addresses_of_any_alignment)
{
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    for (int k = 0; k < KINDS; k++)
        for (uint64_t offset = 0; offset <= 4; offset++) {
            reduce_all(world, &options, &kinds[k], offset);
            reduce_and_scatter(world, &options, &kinds[k], offset);
            scatter_lists(world, &options, &kinds[k], offset);
        }
    check_ok(tutti_group_destroy(world));
}

/* Others may have aligned tensors: what is copied is each rank's own affair. */
RANK_CASE(one_rank_alone_has_a_misaligned_tensor_over_nccl)
{
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);
    const int sum = size * (size - 1) / 2;

    place(&in, &kinds[0], rank == 1 ? 3 : 0, ODD_COUNT, rank);
    check_ok(tutti_all_reduce(world, &in.tensor, TUTTI_SUM, &options, NULL));
    expect(&in, &kinds[0], stream, sum, size, 0);
    require_ok(tutti_batch_begin(world));
    place(&in, &kinds[0], rank == 1 ? 2 : 0, ODD_COUNT, rank);
    place(&out, &kinds[1], rank == 0 ? 4 : 0, ODD_COUNT, rank);
    check_ok(tutti_all_reduce(world, &in.tensor, TUTTI_SUM, &options, NULL));
    check_ok(tutti_all_reduce(world, &out.tensor, TUTTI_SUM, &options, NULL));
    check_ok(tutti_batch_end(world, NULL));
    expect(&in, &kinds[0], stream, sum, size, 0);
    expect(&out, &kinds[1], stream, sum, size, 0);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(moves_over_nccl_and_kernels_take_misaligned_tensors_as_they_lie)
{
    tutti_options options;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    place(&in, &kinds[0], 3, ODD_COUNT, rank);
    gpu_capture(stream); /* where there would be no copy */
    check_ok(tutti_broadcast(world, &in.tensor, 1, &options, NULL));
    void *graph = gpu_graph(stream);
    gpu_replay(graph, stream);
    expect(&in, &kinds[0], stream, 1, 1, 0);
    gpu_graph_free(graph);
    place(&in, &kinds[0], 3, ODD_COUNT, rank);
    check_ok(tutti_all_reduce(world, &in.tensor, TUTTI_MAX, &options, NULL));
    check_str_eq(rank_served_by(world), "nccl all_reduce_kernels");
    expect(&in, &kinds[0], stream, size - 1, 1, 0);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(captures_and_plans_refuse_misaligned_tensors_over_nccl)
{
    tutti_options options;
    tutti_plan *plan;
    void *stream;
    tutti_group *world = begin(rank, size, &stream, &options);

    place(&in, &kinds[0], 1, ODD_COUNT, rank);
    gpu_capture(stream);
    check_status(tutti_all_reduce(world, &in.tensor, TUTTI_SUM, &options, NULL),
                 TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "a tensor that is not aligned to its elements needs a copy");
    gpu_capture_end(stream);
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce(world, &in.tensor, TUTTI_SUM, &options, NULL));
    check_status(tutti_plan_create(world, &plan), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "aligned");
    check_ok(tutti_group_destroy(world));
}
