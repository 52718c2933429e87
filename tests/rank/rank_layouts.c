/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations whose members keep their tensors in different layouts: every member draws its own shape
 * and strides for each tensor of each call, from the same number of elements. What counts is element
 * k in row-major order; what lies between the elements must stay as it was.
 */
#include <stdlib.h>
#include <string.h>

#include "conformance/random.h"
#include "harness/rank.h"

enum { DIMENSIONS = 6, SPACE = 1 << 16, RANKS = 3, TENSORS = 2 * RANKS, CALLS = 400 };

struct laid {
    tutti_tensor tensor; /* as the call sees it; all of it may go afterwards */
    int32_t ndim;
    int64_t given_shape[DIMENSIONS], given_strides[DIMENSIONS];
    int64_t shape[DIMENSIONS], strides[DIMENSIONS];
    int32_t memory[SPACE], expected[SPACE];
};

static struct laid laid[TENSORS];
static uint64_t seed; /* of this rank, for what only it knows */

/* Some inputs are a single number that strides of 0 repeat; everybody knows which. */
static bool repeats(int call, int rank)
{
    return random_mix((uint64_t)call << 8 | (uint64_t)rank) % 6 == 0;
}

static int32_t value(int call, int rank, int64_t k, bool input)
{
    return (int32_t)((input && repeats(call, rank) ? 0 : k) * 31 + rank * 100003 + call);
}

static int32_t sum(int call, int size, int64_t k, bool input)
{
    int32_t all = 0;

    for (int r = 0; r < size; r++)
        all += value(call, r, k, input);
    return all;
}

/* Any factors of the count, in any order, with extents of 1 among them. */
static int32_t draw_shape(int64_t count, int64_t *ret_shape)
{
    int32_t n = 0;

    if (count == 0 || count == 1)
        ret_shape[n++] = count;
    while (count > 1 && n < DIMENSIONS - 1) {
        int64_t factor = 1 + random_below(&seed, 7);

        if (count % factor)
            continue;
        ret_shape[n++] = factor;
        count /= factor;
    }
    if (count > 1)
        ret_shape[n++] = count;
    return n == 1 && ret_shape[0] == 1 && random_below(&seed, 2) ? 0 : n;
}

/* Returns where the first element lies. Style 1 is dense, 2 has gaps, 3 is flipped here and there. */
static int64_t draw_strides(int32_t ndim, const int64_t *shape, unsigned style,
                            int64_t *ret_strides)
{
    int order[DIMENSIONS];
    int64_t step = 1, first = 0;

    for (int i = 0; i < ndim; i++) {
        const int k = (int)random_below(&seed, (unsigned)i + 1);

        order[i] = order[k];
        order[k] = i;
    }
    for (int i = 0; i < ndim; i++) {
        const int d = order[i];

        if (style > 1)
            step += random_below(&seed, 3);
        ret_strides[d] = step;
        step *= shape[d];
        if (style > 2 && random_below(&seed, 2)) {
            first += ret_strides[d] * (shape[d] - 1);
            ret_strides[d] = -ret_strides[d];
        }
    }
    return first;
}

static struct laid *lay(int index, int64_t count, bool repeat)
{
    struct laid *l = &laid[index];
    const unsigned style = random_below(&seed, 4);
    int64_t first = 0;

    l->tensor = tutti_tensor_1d(l->memory, TUTTI_I32, l->shape, count);
    l->strides[0] = !repeat;
    if (style > 0 && !repeat) {
        l->tensor.ndim = draw_shape(count, l->shape);
        first = draw_strides(l->tensor.ndim, l->shape, style, l->strides);
    }
    if (style > 0 || repeat)
        l->tensor.strides = memcpy(l->given_strides, l->strides, sizeof l->strides);
    l->ndim = l->tensor.ndim;
    l->tensor.shape = memcpy(l->given_shape, l->shape, sizeof l->shape);
    l->tensor.byte_offset = (uint64_t)(first + random_below(&seed, 9)) * sizeof *l->memory;
    for (int i = 0; i < SPACE; i++)
        l->memory[i] = l->expected[i] = (int32_t)random_mix((uint64_t)i);
    return l;
}

static int64_t place(const struct laid *l, int64_t k)
{
    int64_t at = (int64_t)(l->tensor.byte_offset / sizeof *l->memory);

    for (int i = l->ndim - 1; i >= 0; i--) {
        at += k % l->shape[i] * l->strides[i];
        k /= l->shape[i];
    }
    return at;
}

static void put(struct laid *l, int64_t k, int32_t element)
{
    l->memory[place(l, k)] = l->expected[place(l, k)] = element;
}

static void expect(struct laid *l, int64_t k, int32_t element)
{
    l->expected[place(l, k)] = element;
}

static struct laid *input(int index, int call, int rank, int64_t count)
{
    struct laid *l = lay(index, count, count > 0 && repeats(call, rank));

    for (int64_t k = 0; k < count; k++)
        put(l, k, value(call, rank, k, true));
    return l;
}

static struct laid *both(int index, int call, int rank, int64_t count)
{
    struct laid *l = lay(index, count, false);

    for (int64_t k = 0; k < count; k++)
        put(l, k, value(call, rank, k, false));
    return l;
}

static void check_laid(const struct laid *l, int call, const char *what)
{
    if (memcmp(l->memory, l->expected, sizeof l->memory) == 0)
        return;
    for (int i = 0; i < SPACE; i++)
        if (l->memory[i] != l->expected[i]) {
            rank_check(RANK_PLACE, false, "call %d, %s: %d and not %d lies at %d", call, what,
                       l->memory[i], l->expected[i], i);
            break;
        }
    rank_end();
}

/* Also where a work is waited for: a call keeps nothing of the descriptors. */
static void finish(struct laid *const *used, int count, tutti_status status, tutti_work *work)
{
    for (int i = 0; i < count; i++) {
        memset(used[i]->given_shape, 0x55, sizeof used[i]->given_shape);
        memset(used[i]->given_strides, 0x55, sizeof used[i]->given_strides);
        memset(&used[i]->tensor.ndim, 0x55, sizeof used[i]->tensor.ndim);
    }
    require_ok(status);
    if (work)
        require_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
}

/* ---- the operations -------------------------------------------------------------------------- */

struct turn {
    tutti_group *world;
    int rank, size, call, root;
    int64_t count;
    tutti_work *work, **ret_work; /* blocking here and not there: a local fact, too */
};

static void all_reduce(struct turn *t)
{
    struct laid *l = both(0, t->call, t->rank, t->count);
    tutti_status status = tutti_all_reduce(t->world, &l->tensor, TUTTI_SUM, NULL, t->ret_work);

    finish(&l, 1, status, t->work);
    for (int64_t k = 0; k < t->count; k++)
        expect(l, k, sum(t->call, t->size, k, false));
    check_laid(l, t->call, "all_reduce");
}

static void all_reduce_into(struct turn *t)
{
    struct laid *l[] = {input(0, t->call, t->rank, t->count), lay(1, t->count, false)};
    tutti_status status =
        tutti_all_reduce_into(t->world, &l[0]->tensor, &l[1]->tensor, TUTTI_SUM, NULL, t->ret_work);

    finish(l, 2, status, t->work);
    for (int64_t k = 0; k < t->count; k++)
        expect(l[1], k, sum(t->call, t->size, k, true));
    check_laid(l[0], t->call, "all_reduce_into, input");
    check_laid(l[1], t->call, "all_reduce_into");
}

static void broadcast(struct turn *t)
{
    struct laid *l =
        t->rank == t->root ? input(0, t->call, t->rank, t->count) : lay(0, t->count, false);
    tutti_status status = tutti_broadcast(t->world, &l->tensor, t->root, NULL, t->ret_work);

    finish(&l, 1, status, t->work);
    for (int64_t k = 0; k < t->count; k++)
        expect(l, k, value(t->call, t->root, k, true));
    check_laid(l, t->call, "broadcast");
}

static void reduce(struct turn *t)
{
    struct laid *l = both(0, t->call, t->rank, t->count);
    tutti_status status = tutti_reduce(t->world, &l->tensor, TUTTI_SUM, t->root, NULL, t->ret_work);

    finish(&l, 1, status, t->work);
    for (int64_t k = 0; k < t->count && t->rank == t->root; k++)
        expect(l, k, sum(t->call, t->size, k, false));
    check_laid(l, t->call, "reduce");
}

static void all_gather(struct turn *t)
{
    struct laid *l[] = {input(0, t->call, t->rank, t->count), lay(1, t->size * t->count, false)};
    tutti_status status =
        tutti_all_gather(t->world, &l[0]->tensor, &l[1]->tensor, NULL, t->ret_work);

    finish(l, 2, status, t->work);
    for (int64_t k = 0; k < t->size * t->count; k++)
        expect(l[1], k, value(t->call, (int)(k / t->count), k % t->count, true));
    check_laid(l[1], t->call, "all_gather");
}

static void gather_list(struct turn *t)
{
    struct laid *l[RANKS + 1];
    const tutti_tensor *list[RANKS];

    l[RANKS] = input(RANKS, t->call, t->rank, t->count);
    for (int r = 0; r < RANKS; r++) {
        l[r] = lay(r, t->count, false);
        list[r] = &l[r]->tensor;
    }
    tutti_status status =
        tutti_gather_list(t->world, &l[RANKS]->tensor, list, t->root, NULL, t->ret_work);
    finish(l, RANKS + 1, status, t->work);
    for (int r = 0; r < RANKS; r++) {
        for (int64_t k = 0; k < t->count && t->rank == t->root; k++)
            expect(l[r], k, value(t->call, r, k, true));
        check_laid(l[r], t->call, "gather_list");
    }
}

static void scatter(struct turn *t)
{
    struct laid *l[] = {input(0, t->call, t->rank, t->size * t->count), lay(1, t->count, false)};
    tutti_status status =
        tutti_scatter(t->world, &l[0]->tensor, &l[1]->tensor, t->root, NULL, t->ret_work);

    finish(l, 2, status, t->work);
    for (int64_t k = 0; k < t->count; k++)
        expect(l[1], k, value(t->call, t->root, t->rank * t->count + k, true));
    check_laid(l[1], t->call, "scatter");
}

static void reduce_scatter(struct turn *t)
{
    struct laid *l[] = {input(0, t->call, t->rank, t->size * t->count), lay(1, t->count, false)};
    tutti_status status =
        tutti_reduce_scatter(t->world, &l[0]->tensor, &l[1]->tensor, TUTTI_SUM, NULL, t->ret_work);

    finish(l, 2, status, t->work);
    for (int64_t k = 0; k < t->count; k++)
        expect(l[1], k, sum(t->call, t->size, t->rank * t->count + k, true));
    check_laid(l[1], t->call, "reduce_scatter");
}

/* One element between the blocks that come from two members. */
static void all_to_all_v(struct turn *t)
{
    struct laid *l[] = {input(0, t->call, t->rank, t->size * t->count),
                        lay(1, t->size * (t->count + 1), false)};
    int64_t counts[RANKS], offsets[RANKS];

    for (int r = 0; r < RANKS; r++) {
        counts[r] = t->count;
        offsets[r] = r * (t->count + 1);
    }
    tutti_status status = tutti_all_to_all_v(t->world, &l[0]->tensor, counts, NULL, &l[1]->tensor,
                                             counts, offsets, NULL, t->ret_work);
    finish(l, 2, status, t->work);
    for (int r = 0; r < RANKS; r++)
        for (int64_t k = 0; k < t->count; k++)
            expect(l[1], offsets[r] + k, value(t->call, r, t->rank * t->count + k, true));
    check_laid(l[1], t->call, "all_to_all_v");
}

static void messages(struct turn *t)
{
    const int left = (t->rank + t->size - 1) % t->size, right = (t->rank + 1) % t->size;
    struct laid *l[] = {input(0, t->call, t->rank, t->count), lay(1, t->count, false)};
    tutti_work *sent;

    tutti_status status =
        tutti_isend(t->world, &l[0]->tensor, right, (uint64_t)t->call, NULL, &sent);
    if (!status)
        status =
            t->ret_work
                ? tutti_irecv(t->world, &l[1]->tensor, left, (uint64_t)t->call, NULL, t->ret_work)
                : tutti_recv(t->world, &l[1]->tensor, left, (uint64_t)t->call, NULL, NULL);
    finish(l, 2, status, t->work);
    require_ok(tutti_work_wait(sent, 0));
    tutti_work_free(sent);
    for (int64_t k = 0; k < t->count; k++)
        expect(l[1], k, value(t->call, left, k, true));
    check_laid(l[1], t->call, "isend and irecv");
}

static void sendrecv(struct turn *t)
{
    const int left = (t->rank + t->size - 1) % t->size, right = (t->rank + 1) % t->size;
    struct laid *l[] = {input(0, t->call, t->rank, t->count), lay(1, t->count, false)};
    const uint64_t tag = (uint64_t)t->call;

    finish(
        l, 2,
        tutti_sendrecv(t->world, &l[0]->tensor, right, tag, &l[1]->tensor, left, tag, NULL, NULL),
        NULL);
    for (int64_t k = 0; k < t->count; k++)
        expect(l[1], k, value(t->call, left, k, true));
    check_laid(l[1], t->call, "sendrecv");
}

/* Half of it comes: the rest is as it was. */
static void batch_up_to(struct turn *t)
{
    const int left = (t->rank + t->size - 1) % t->size, right = (t->rank + 1) % t->size;
    struct laid *l[] = {input(0, t->call, t->rank, t->count), lay(1, 2 * t->count, false)};
    const tutti_p2p_op ops[] = {
        {TUTTI_P2P_SEND, right, (uint64_t)t->call, &l[0]->tensor},
        {TUTTI_P2P_RECV_UP_TO, left, (uint64_t)t->call, &l[1]->tensor},
    };
    tutti_work *works[2];

    finish(l, 2, tutti_batch_isend_irecv(t->world, ops, sizeof ops[0], 2, NULL, works), NULL);
    for (int i = 0; i < 2; i++) {
        require_ok(tutti_work_wait(works[i], 0));
        tutti_work_free(works[i]);
    }
    for (int64_t k = 0; k < t->count; k++)
        expect(l[1], k, value(t->call, left, k, true));
    check_laid(l[1], t->call, "batch_isend_irecv");
}

RANK_CASE(members_may_differ_in_shape_and_strides)
{
    static void (*const operations[])(struct turn *) = {
        all_reduce, all_reduce_into, broadcast,    reduce,   all_gather, gather_list,
        scatter,    reduce_scatter,  all_to_all_v, messages, sendrecv,   batch_up_to};
    static const int64_t counts[] = {0, 1, 6, 60, 840, 2520};
    struct turn turn = {.world = rank_init(NULL), .rank = rank, .size = size};

    require(size == RANKS);
    seed = random_mix((uint64_t)rank);
    for (turn.call = 0; turn.call < CALLS; turn.call++) {
        const uint64_t shared = random_mix((uint64_t)turn.call + 77);

        turn.count = counts[shared % 6];
        turn.root = (int)(shared / 6 % RANKS);
        turn.work = NULL;
        turn.ret_work = random_below(&seed, 2) ? &turn.work : NULL;
        operations[shared / 18 % (sizeof operations / sizeof operations[0])](&turn);
    }
    check_ok(tutti_group_destroy(turn.world));
}

/* ---- what is refused ------------------------------------------------------------------------ */

/* A refusal is this member's alone, and before anything was told to the others. */
RANK_CASE(outputs_that_cannot_be_written_are_refused_in_words)
{
    tutti_group *world = rank_init(NULL);
    int32_t numbers[4] = {1, 2, 3, 4}, results[4] = {0};
    int64_t shape[] = {4}, zero[] = {0}, one[] = {1};
    tutti_tensor t = tutti_tensor_1d(numbers, TUTTI_I32, shape, 4);
    tutti_tensor out = tutti_tensor_1d(results, TUTTI_I32, shape, 4);
    tutti_work *work = NULL;

    t.strides = zero;
    check_status(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "the tensor is written, but by its strides");
    check_status(tutti_broadcast(world, &t, !rank, NULL, &work), TUTTI_ERR_UNSUPPORTED);
    check_status(tutti_irecv(world, &t, !rank, 0, NULL, &work), TUTTI_ERR_UNSUPPORTED);
    check_ok(tutti_all_reduce_into(world, &t, &out, TUTTI_SUM, NULL, NULL));
    check_eq(results[3], 2);

    t.strides = one;
    t.device.type |= TUTTI_DEVICE_READ_ONLY;
    check_status(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "the tensor is read-only, but the operation writes it here");
    check_status(tutti_recv(world, &t, !rank, 0, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_ok(tutti_all_reduce_into(world, &t, &out, TUTTI_SUM, NULL, NULL));
    check_eq(results[3], 8);
    check_ok(tutti_broadcast(world, rank == 0 ? &t : &out, 0, NULL, NULL));
    check_eq(results[3], rank == 0 ? 8 : 4);
    check_ok(tutti_group_destroy(world));
}

/* A stand-in is its call's, and goes with it: AddressSanitizer tells of one that stays. */
RANK_CASE(calls_that_fail_leave_the_tensor_alone)
{
    tutti_group *world = rank_init(NULL);
    int32_t numbers[4] = {1, 2, 3, 4};
    int64_t shape[] = {2}, strides[] = {3};
    tutti_options options = TUTTI_OPTIONS_INIT;
    tutti_tensor t = tutti_tensor_1d(numbers, TUTTI_I32, shape, 2);
    tutti_work *work = NULL;

    t.strides = strides;
    options.timeout_ms = 50;
    check_status(tutti_broadcast(world, &t, 7, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_send(world, &t, 7, 0, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_isend(world, &t, !rank, 0, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_recv(world, &t, !rank, 0, &options, NULL), TUTTI_ERR_TIMEOUT);
    check_eq(numbers[3], 4);
    if (rank == 0)
        check_ok(tutti_irecv(world, &t, 1, 1, NULL, &work));
    rank_meet_beside(world);
    if (rank == 1)
        check_ok(tutti_group_abort(world, "enough"));
    check_status(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL), TUTTI_ERR_ABORTED);
    if (work)
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_ABORTED);
    tutti_work_free(work);
    check_eq(numbers[1], 2);
    tutti_group_destroy(world);
}
