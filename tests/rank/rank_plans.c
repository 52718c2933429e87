/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: calls that run again with what is in their tensors then, beside members that make the calls one by one. */
#include <string.h>

#include "harness/rank.h"

enum { ROUNDS = 30, LONG = 3 << 16 };

static tutti_tensor words_of(int64_t *words, int64_t *shape, int64_t count)
{
    return tutti_tensor_1d(words, TUTTI_I64, (*shape = count, shape), count);
}

/* Runs the plan, by a work in every other round. */
static void run(tutti_plan *plan, int round)
{
    tutti_work *work = NULL;

    require_ok(tutti_plan_run(plan, round % 2 ? &work : NULL));
    if (work) {
        require_ok(tutti_work_wait(work, 0));
        tutti_work_free(work);
    }
}

RANK_CASE(a_plan_of_one_call_runs_again_with_what_its_tensor_holds)
{
    tutti_group *world = rank_init(NULL);
    static int64_t words[LONG];
    const int64_t counts[] = {1, 100, LONG};
    const bool plans = rank != 1; /* the others need not know */

    for (int c = 0; c < 3; c++) {
        tutti_plan *plan = NULL;
        int64_t shape;

        if (plans) {
            tutti_tensor t = words_of(words, &shape, counts[c]);

            words[0] = -1;
            require_ok(tutti_batch_begin(world));
            require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
            require_ok(tutti_plan_create(world, &plan));
            check_eq(words[0], -1);
            memset(&t, 0xff, sizeof t); /* the program's descriptors are not needed any more */
            shape = -7;
        }
        for (int round = 0; round < ROUNDS; round++) {
            for (int64_t i = 0; i < counts[c]; i++)
                words[i] = i + round * (rank + 1);
            if (plans) {
                run(plan, round);
            } else {
                tutti_tensor t = words_of(words, &shape, counts[c]);

                require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
            }
            for (int64_t i = 0; i < counts[c]; i += counts[c] / 3 + 1)
                check_eq(words[i], i * size + round * size * (size + 1) / 2);
        }
        tutti_plan_free(plan);
    }
    check_ok(tutti_group_destroy(world));
}

static void largest_of(void *dst, const void *a, const void *b, uint64_t count, tutti_dtype dtype,
                       void *user)
{
    const int64_t *x = a, *y = b;
    int64_t *to = dst;

    (void)dtype;
    (void)user;
    for (uint64_t i = 0; i < count; i++)
        to[i] = x[i] > y[i] ? x[i] : y[i];
}

/* Uneven blocks, a list, messages and a reduction of the program, of which nothing but the memory stays. */
RANK_CASE(a_plan_of_several_calls_keeps_all_but_the_memory)
{
    tutti_group *world = rank_init(NULL);
    const int right = (rank + 1) % size, left = (rank - 1 + size) % size;
    static int64_t own[8], blocks[64], lists[8][2], got, sent, most;
    static int32_t source;
    static uint64_t bytes;
    tutti_plan *plan;
    tutti_work *work;

    {
        int64_t shapes[16], counts[8], total = 0;
        tutti_tensor parts[8];
        const tutti_tensor *list[8];
        tutti_reduce_op op;

        for (int r = 0; r < size; r++) {
            counts[r] = r + 1;
            total += r + 1;
            parts[r] = words_of(lists[r], &shapes[r], 2);
            list[r] = &parts[r];
        }
        tutti_tensor in = words_of(own, &shapes[8], rank + 1);
        tutti_tensor pair = words_of(own, &shapes[9], 2);
        tutti_tensor out = words_of(blocks, &shapes[10], total);
        tutti_tensor to = words_of(&sent, &shapes[11], 1), from = words_of(&got, &shapes[12], 1);
        tutti_tensor largest = words_of(&most, &shapes[13], 1);

        require_ok(
            tutti_reduce_op_create("largest", largest_of, TUTTI_REDUCE_OP_COMMUTATIVE, NULL, &op));
        require_ok(tutti_batch_begin(world));
        require_ok(tutti_all_gather_v(world, &in, &out, counts, NULL, NULL, NULL));
        require_ok(tutti_send(world, &to, right, 5, NULL));
        require_ok(tutti_all_gather_list(world, &pair, list, NULL, NULL));
        require_ok(tutti_recv_up_to(world, &from, TUTTI_ANY_SOURCE, 5, NULL, &source, &bytes));
        require_ok(tutti_all_reduce(world, &largest, op, NULL, NULL));
        require_ok(tutti_plan_create(world, &plan));
        tutti_reduce_op_free(op);
        memset(shapes, 0xff, sizeof shapes);
        memset(counts, 0xff, sizeof counts);
    }
    for (int round = 0; round < ROUNDS; round++) {
        const bool last = round == ROUNDS - 1;

        for (int i = 0; i <= rank || i < 2; i++)
            own[i] = round * 100 + rank * 10 + i;
        sent = round + rank;
        most = round * rank;
        source = -1;
        bytes = 0;
        if (last) { /* what runs needs the plan no more */
            require_ok(tutti_plan_run(plan, &work));
            tutti_plan_free(plan);
            require_ok(tutti_work_wait(work, 0));
            tutti_work_free(work);
        } else {
            run(plan, round);
        }
        for (int r = 0, at = 0; r < size; at += ++r) {
            check_eq(blocks[at + r], round * 100 + r * 10 + r);
            check_eq(lists[r][1], round * 100 + r * 10 + 1);
        }
        check_eq(got, round + left);
        check_eq(source, left);
        check_eq((int64_t)bytes, 8);
        check_eq(most, round * (size - 1));
    }
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(plans_refuse_in_words_what_they_cannot_repeat)
{
    tutti_group *world = rank_init(NULL);
    int64_t words[8] = {0}, shape, strides = 2;
    tutti_tensor t = words_of(words, &shape, 4), strided = t;
    tutti_plan *plan = NULL;
    tutti_work *work = NULL;

    strided.strides = &strides;
    check_status(tutti_plan_create(world, &plan), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "tutti_batch_begin");
    check_status(tutti_plan_run(NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "plan is NULL");
    tutti_plan_free(NULL);

    require_ok(tutti_batch_begin(world));
    require_ok(tutti_barrier(world, NULL, NULL));
    require_ok(tutti_all_reduce(world, &strided, TUTTI_SUM, NULL, NULL));
    check_status(tutti_plan_create(world, &plan), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(),
                   "call 2 of the plan, tutti_all_reduce, has a tensor that is not contiguous");
    check_status(tutti_batch_end(world, NULL), TUTTI_ERR_INVALID_ARGUMENT); /* it is over */

    t.shape = (const int64_t[]){size};
    require_ok(tutti_batch_begin(world)); /* in place, which takes a copy of the input */
    require_ok(tutti_all_to_all(world, &t, &t, NULL, NULL));
    check_status(tutti_plan_create(world, &plan), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "copies its input when it is made");
    t.shape = &shape;

    require_ok(tutti_batch_begin(world));
    check_status(tutti_broadcast(world, &t, size, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_plan_create(world, &plan), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "root");
    check(plan == NULL);

    require_ok(tutti_batch_begin(world)); /* without calls */
    require_ok(tutti_plan_create(world, &plan));
    require_ok(tutti_plan_run(plan, NULL));
    require_ok(tutti_batch_begin(world));
    check_status(tutti_plan_run(plan, &work), TUTTI_ERR_BUSY);
    require_ok(tutti_batch_end(world, NULL));
    check(work == NULL);
    check_ok(tutti_group_destroy(world));
    tutti_plan_free(plan); /* after its group */
}

RANK_CASE(a_plan_that_differs_is_a_mismatch_in_the_run_that_differs)
{
    tutti_group *world = rank_init(NULL);
    int64_t words[2] = {1, 1}, shape;
    tutti_tensor t = words_of(words, &shape, 1);
    tutti_plan *plan;

    require_ok(tutti_batch_begin(world));
    require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
    require_ok(tutti_plan_create(world, &plan));
    for (int i = 0; i < 3; i++)
        require_ok(tutti_plan_run(plan, NULL));
    if (rank == 1) {
        tutti_tensor other = words_of(words, &shape, 2);

        check_status(tutti_all_reduce(world, &other, TUTTI_SUM, NULL, NULL), TUTTI_ERR_MISMATCH);
    } else {
        check_status(tutti_plan_run(plan, NULL), TUTTI_ERR_MISMATCH);
    }
    check_contains(tutti_last_error(), "as #4");
    check_status(tutti_plan_run(plan, NULL), TUTTI_ERR_MISMATCH);
    check_eq(tutti_group_destroy(world), TUTTI_ERR_MISMATCH);
    tutti_plan_free(plan);
}
