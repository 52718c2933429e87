/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that call different things. A call is written as the errors say it: "barrier",
 * "all_reduce 8 x f32, sum", "broadcast 2 x i64, root 1", "group_split".
 */
#include <stdlib.h>
#include <string.h>

#include "rank_tell.h"

enum { BYTES = 4 << 20, COUNT = 3000, SIZES = 3 };

static _Alignas(64) char memory[BYTES + 64], other[BYTES + 64];

static tutti_reduce_op op_called(const char *name)
{
#define KNOWN(NAME, words, number)                                                                 \
    if (!strcmp(name, words))                                                                      \
        return TUTTI_##NAME;
    TUTTI_REDUCE_OP_LIST(KNOWN)
#undef KNOWN
    return -1;
}

static tutti_status call_as_written(tutti_group *world, const char *text)
{
    char dtype[16], last[16];
    long long count;
    int root;
    int64_t shape;

    if (sscanf(text, "all_reduce %lld x %15[a-z0-9], %15s", &count, dtype, last) == 3) {
        tutti_tensor t = tutti_tensor_1d(memory, tutti_dtype_parse(dtype), &shape, count);

        return tutti_all_reduce(world, &t, op_called(last), NULL, NULL);
    }
    if (sscanf(text, "broadcast %lld x %15[a-z0-9], root %d", &count, dtype, &root) == 3) {
        tutti_tensor t = tutti_tensor_1d(memory, tutti_dtype_parse(dtype), &shape, count);

        return tutti_broadcast(world, &t, root, NULL, NULL);
    }
    if (sscanf(text, "reduce %lld x %15[a-z0-9], %15[a-z], root %d", &count, dtype, last, &root) ==
        4) {
        tutti_tensor t = tutti_tensor_1d(memory, tutti_dtype_parse(dtype), &shape, count);

        return tutti_reduce(world, &t, op_called(last), root, NULL, NULL);
    }
    if (strcmp(text, "group_split") == 0) {
        tutti_group *part = NULL;
        tutti_status status = tutti_group_split(world, 0, 0, NULL, &part);

        return status ? status : tutti_group_destroy(part);
    }
    if (strcmp(text, "sums") == 0)
        for (tutti_status status = TUTTI_OK;;)
            if ((status = call_as_written(world, "all_reduce 8 x f32, sum")))
                return status;
    return tutti_barrier(world, NULL, NULL);
}

/* The victim comes later, with another call. A rank that has returned by then learns it in the
 * barrier. */
RANK_CASE(one_calls_something_else)
{
    tutti_group *world = rank_init(NULL);

    require_ok(tutti_barrier(world, NULL, NULL));
    if (rank == victim())
        rank_sleep_ms(100);
    rank_point("calling");
    tutti_status status =
        call_as_written(world, getenv(rank == victim() ? "TUTTI_TEST_OTHER" : "TUTTI_TEST_CALL"));
    if (!status)
        status = tutti_barrier(world, NULL, NULL);
    tell(status);
    check_status(tutti_group_destroy(world), status);
}

/* Rank by rank, the root of each in its last call. Those that only send learn it as they leave. */
RANK_CASE(last_broadcasts_differ)
{
    tutti_group *world = rank_init(NULL);
    const int count = number_of("TUTTI_TEST_COUNT", 8);
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(memory, TUTTI_F32, &shape, count);

    rank_point("calling"); /* not between the two calls, which it would take apart */
    require_ok(tutti_barrier(world, NULL, NULL));
    tutti_status status =
        tutti_broadcast(world, &t, getenv("TUTTI_TEST_ROOTS")[rank] - '0', NULL, NULL);
    tutti_status left = tutti_group_destroy(world);
    if (status)
        check_status(left, status);
    tell(left);
}

RANK_CASE(one_asks_for_another_backend)
{
    tutti_group *world = NULL;

    if (rank == victim())
        setenv("TUTTI_BACKEND", getenv("TUTTI_TEST_OTHER"), 1);
    rank_point("calling");
    tell(tutti_init(NULL, &world));
}

static tutti_status reduce_in_a_way(tutti_group *world, int way, float *in, float *out,
                                    int64_t count)
{
    int64_t shape_in, shape_out;
    tutti_tensor from = tutti_tensor_1d(in, TUTTI_F32, &shape_in, count);
    tutti_tensor to = tutti_tensor_1d(out, TUTTI_F32, &shape_out, count);
    tutti_work *work = NULL;
    tutti_status status;

    switch (way) {
    case 0:
        memcpy(out, in, (size_t)count * sizeof *in);
        return tutti_all_reduce(world, &to, TUTTI_SUM, NULL, NULL);
    case 1:
        return tutti_all_reduce_into(world, &from, &to, TUTTI_SUM, NULL, NULL);
    default:
        status = tutti_all_reduce_into(world, &from, &to, TUTTI_SUM, NULL, &work);
        if (!status)
            status = tutti_work_wait(work, 0);
        tutti_work_free(work);
        return status;
    }
}

/* Blocking or not, in place or not, aligned or not: that is nobody else's business. */
RANK_CASE(members_differ_in_local_facts)
{
    static const int64_t counts[SIZES] = {2, COUNT, (BYTES / 4) - 3};
    tutti_group *world = rank_init(NULL);

    for (int i = 0; i < 3 * SIZES; i++) {
        int way = (rank + i) % 3;
        float *in = (float *)(void *)(memory + (rank % 2 ? 4 : 0));
        float *out = (float *)(void *)(other + (i % 2 ? 12 : 0));
        int64_t count = counts[i % SIZES], wrong = 0;

        for (int64_t k = 0; k < count; k++)
            in[k] = (float)(rank + k % 5);
        require_ok(reduce_in_a_way(world, way, in, out, count));
        for (int64_t k = 0; k < count; k++)
            wrong += out[k] != (float)(size * (size - 1) / 2 + size * (int)(k % 5));
        check_eq(wrong, 0);
    }
    check_ok(tutti_group_destroy(world));
}

/* Rank by rank, between bars, what each calls after a barrier; "compute": nothing for long. */
RANK_CASE(each_has_its_part)
{
    tutti_group *world = rank_init(NULL);
    char *parts = strdup(getenv("TUTTI_TEST_PARTS")), *rest = parts, *mine = NULL;

    require(parts != NULL);
    for (int r = 0; r <= rank; r++)
        mine = strsep(&rest, "|");
    require(mine != NULL);
    require_ok(tutti_barrier(world, NULL, NULL));
    rank_point("open");
    if (!strcmp(mine, "compute"))
        rank_await("never");
    tell(call_as_written(world, mine));
    (void)tutti_group_destroy(world);
    free(parts);
}
