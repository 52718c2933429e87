/* SPDX-License-Identifier: Apache-2.0 */
/* Programs in front of which wrappers stand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/rank.h"

enum { WORKS = 4, FEW = 8, MANY = 300000, MEMBERS = 3, PER = 3 };

/* The ring's messages, then works in flight at once, then calls that wait. */
RANK_CASE(calls_of_all_kinds)
{
    tutti_group *world = rank_init(NULL);
    int64_t extents[3];
    float *data = calloc(WORKS * MANY, sizeof *data), mine[FEW] = {0}, theirs[FEW];
    tutti_tensor out = tutti_tensor_1d(mine, TUTTI_F32, &extents[0], FEW);
    tutti_tensor in = tutti_tensor_1d(theirs, TUTTI_F32, &extents[1], FEW);
    tutti_work *sent, *works[WORKS];

    require_ok(tutti_isend(world, &out, (rank + 1) % size, 7, NULL, &sent));
    check_ok(tutti_recv(world, &in, TUTTI_ANY_SOURCE, 7, NULL, NULL));
    check_ok(tutti_work_wait(sent, 0));
    tutti_work_free(sent);
    for (int i = 0; i < WORKS; i++) {
        tutti_tensor t = tutti_tensor_1d(data + (size_t)i * MANY, TUTTI_F32, &extents[2], MANY);

        require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, &works[i]));
    }
    for (int i = 0; i < WORKS; i++) {
        check_ok(tutti_work_wait(works[i], 0));
        tutti_work_free(works[i]);
    }
    check_ok(tutti_broadcast(world, &out, size - 1, NULL, NULL));
    check_ok(tutti_barrier(world, NULL, NULL));
    rank_point("called");
    check_ok(tutti_group_destroy(world));
    free(data);
}

/* The status and words of init, when it must fail. */
RANK_CASE(init_is_refused)
{
    tutti_group *world = NULL;

    rank_value("status", "%s", tutti_status_name(tutti_init(NULL, &world)));
    rank_value("words", "%s", tutti_last_error());
    check(!world);
}

static bool without_waiting(void)
{
    const char *how = getenv("TUTTI_TEST_CALL");

    return how && !strcmp(how, "work");
}

static tutti_status sum(tutti_group *group, float *values, int64_t count)
{
    int64_t extent;
    tutti_tensor t = tutti_tensor_1d(values, TUTTI_F32, &extent, count);
    tutti_work *work = NULL;
    tutti_status status =
        tutti_all_reduce(group, &t, TUTTI_SUM, NULL, without_waiting() ? &work : NULL);

    if (!status && work)
        status = tutti_work_wait(work, 0);
    tutti_work_free(work);
    return status;
}

static void tell(tutti_status status)
{
    rank_value("status", "%s", tutti_status_name(status));
    rank_value("words", "%s", status ? tutti_last_error() : "");
}

/* In the third sum rank 1 gives what the variable says, at index 5. */
RANK_CASE(one_gives_no_number)
{
    tutti_group *world = rank_init(NULL);
    const char *value = getenv("TUTTI_TEST_VALUE");
    tutti_status status = TUTTI_OK;

    for (int i = 1; i <= 5 && !status; i++) {
        float values[FEW] = {0};

        if (rank == 1 && i == 3)
            values[5] = strtof(value ? value : "nan", NULL);
        status = sum(world, values, FEW);
    }
    tell(status);
    check_status(tutti_group_destroy(world), status);
}

/* Rank 1 multiplies its zeros with a factor that is not finite. */
RANK_CASE(one_factor_is_infinite)
{
    tutti_group *world = rank_init(NULL);
    float values[FEW] = {0}, number = rank == 1 ? INFINITY : 2;
    int64_t extents[2];
    tutti_tensor t = tutti_tensor_1d(values, TUTTI_F32, &extents[0], FEW);
    tutti_tensor factor = tutti_tensor_1d(&number, TUTTI_F32, &extents[1], 1);
    tutti_reduce_op op;

    require_ok(tutti_reduce_op_premul(&factor, &op));
    tutti_status status = tutti_all_reduce(world, &t, op, NULL, NULL);
    tell(status);
    check_status(tutti_group_destroy(world), status);
    tutti_reduce_op_free(op);
}

/* Sums in a group of all until one fails, for 20 seconds at most. */
RANK_CASE(sums_until_one_fails)
{
    tutti_group *world = rank_init(NULL), *all = NULL;
    int64_t began = rank_now_ns();
    static float values[MANY];
    tutti_status status = TUTTI_OK;

    require_ok(tutti_group_new(world, NULL, 0, NULL, &all));
    while (!status && rank_now_ns() - began < INT64_C(20000000000)) {
        memset(values, 0, sizeof values);
        status = sum(all, values, MANY);
        if (!status)
            status = sum(all, values, FEW);
    }
    tell(status);
    check_status(tutti_group_destroy(all), status);
    check_ok(tutti_group_destroy(world));
}

/* A block of PER or fewer elements for each of three members. */
struct pieces {
    int64_t counts[MEMBERS], offsets[MEMBERS], extents[MEMBERS];
    tutti_tensor tensors[MEMBERS];
    const tutti_tensor *list[MEMBERS];
};

static void cut(struct pieces *p, float *memory, const int64_t *counts)
{
    for (int i = 0; i < MEMBERS; i++) {
        p->counts[i] = counts[i];
        p->offsets[i] = (int64_t)i * PER;
        p->tensors[i] =
            tutti_tensor_1d(memory + p->offsets[i], TUTTI_F32, &p->extents[i], counts[i]);
        p->list[i] = &p->tensors[i];
    }
}

static bool is_form(const char *form)
{
    return !strcmp(getenv("TUTTI_TEST_FORM"), form);
}

/* One call in the form that the variable says: `in` and `out` have room for three blocks. "mixed" is a
 * list on all members but the first. */
static tutti_status call_in_form(tutti_group *group, int rank, float *in, float *out)
{
    static const int64_t even[] = {PER, PER, PER}, uneven[] = {1, 2, 3};
    const bool is_even = is_form("all_gather_list") || is_form("mixed");
    const int64_t *counts = is_even ? even : uneven, mine = counts[rank];
    const int64_t same[] = {mine, mine, mine};
    struct pieces ins, outs;
    int64_t extents[2], all = MEMBERS * PER;
    tutti_tensor whole_in = tutti_tensor_1d(in, TUTTI_F32, &all, all);
    tutti_tensor whole_out = tutti_tensor_1d(out, TUTTI_F32, &all, all);
    tutti_tensor one_in = tutti_tensor_1d(in, TUTTI_F32, &extents[0], mine);
    tutti_tensor one_out = tutti_tensor_1d(out, TUTTI_F32, &extents[1], mine);

    cut(&ins, in, counts);
    cut(&outs, out, is_form("all_to_all_list") || is_form("all_to_all_v") ? same : counts);
    if (is_form("scatter_v"))
        return tutti_scatter_v(group, &whole_in, ins.counts, ins.offsets, &one_out, 1, NULL, NULL);
    if (is_form("all_to_all_list"))
        return tutti_all_to_all_list(group, ins.list, outs.list, NULL, NULL);
    if (is_form("all_to_all_v"))
        return tutti_all_to_all_v(group, &whole_in, ins.counts, ins.offsets, &whole_out,
                                  outs.counts, outs.offsets, NULL, NULL);
    if (is_form("all_gather_v"))
        return tutti_all_gather_v(group, &one_in, &whole_out, outs.counts, outs.offsets, NULL,
                                  NULL);
    return is_form("mixed") && !rank ? tutti_all_gather(group, &one_in, &whole_out, NULL, NULL)
                                     : tutti_all_gather_list(group, &one_in, outs.list, NULL, NULL);
}

/* Rank 1 has no number as the second element for rank 2. */
RANK_CASE(one_block_holds_no_number)
{
    tutti_group *world = rank_init(NULL);
    float in[MEMBERS * PER] = {0}, out[MEMBERS * PER];

    if (rank == 1)
        in[2 * PER + 1] = NAN;
    tutti_status status = call_in_form(world, rank, in, out);
    tell(status);
    check_status(tutti_group_destroy(world), status);
}

/* Calls until one fails, for five seconds at most, or so many as the variable says. */
RANK_CASE(blocks_until_one_fails)
{
    tutti_group *world = rank_init(NULL);
    const char *most = getenv("TUTTI_TEST_CALLS");
    int64_t began = rank_now_ns();
    float in[MEMBERS * PER] = {0}, out[MEMBERS * PER];
    tutti_status status = TUTTI_OK;

    for (int i = 0; !status && rank_now_ns() - began < INT64_C(20000000000); i++) {
        if (most && i == atoi(most))
            break;
        status = call_in_form(world, rank, in, out);
    }
    tell(status);
    check_status(tutti_group_destroy(world), status);
}

/* One sum, and what destroy says. */
RANK_CASE(a_last_sum)
{
    tutti_group *world = rank_init(NULL);
    float values[FEW] = {0};

    check_ok(sum(world, values, FEW));
    tell(tutti_group_destroy(world));
}
