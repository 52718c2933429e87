/* SPDX-License-Identifier: Apache-2.0 */
/* Coalesced batches: what is started together, waited for by one work, and what errors do. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "harness/rank.h"

enum { MANY = 200, LARGE = 1 << 20 };

static tutti_tensor word_of(int64_t *word, int64_t *shape)
{
    return tutti_tensor_1d(word, TUTTI_I64, shape, 1);
}

static int64_t calls_of(const tutti_group *group)
{
    tutti_group_info info = {.struct_size = sizeof info};

    require_ok(tutti_group_status(group, &info));
    return (int64_t)info.completed;
}

/* As torch's _coalescing_manager: many small ones, one wait. Every other round waits by a work. */
RANK_CASE(collectives_and_messages_of_a_batch_are_waited_for_together)
{
    tutti_group *world = rank_init(NULL);
    static int64_t sums[MANY], out[MANY], in[MANY], shapes[3 * MANY];
    int right = (rank + 1) % size, left = (rank - 1 + size) % size;

    for (int round = 0; round < 4; round++) {
        tutti_work *work = NULL;
        tutti_work_info info = {.struct_size = sizeof info};

        require_ok(tutti_batch_begin(world));
        for (int i = 0; i < MANY; i++) {
            tutti_tensor sum = word_of(&sums[i], &shapes[3 * i]);
            tutti_tensor to = word_of(&out[i], &shapes[3 * i + 1]);
            tutti_tensor from = word_of(&in[i], &shapes[3 * i + 2]);

            sums[i] = i + rank;
            out[i] = i * 10 + rank;
            in[i] = -1;
            /* Sends first: nothing waits here. */
            require_ok(tutti_send(world, &to, right, (uint64_t)i % 3, NULL));
            require_ok(i % 2 ? tutti_all_reduce(world, &sum, TUTTI_SUM, NULL, NULL)
                             : tutti_broadcast(world, &sum, i % size, NULL, NULL));
            require_ok(i % 2 ? tutti_irecv(world, &from, left, (uint64_t)i % 3, NULL, NULL)
                             : tutti_recv(world, &from, left, (uint64_t)i % 3, NULL, NULL));
        }
        check_eq(calls_of(world), round * MANY); /* nothing was started */
        check_eq(in[0], -1);
        if (round % 2) {
            require_ok(tutti_batch_end(world, NULL));
        } else {
            require_ok(tutti_batch_end(world, &work));
            check_status(tutti_work_cancel(work), TUTTI_ERR_BUSY);
            require_ok(tutti_work_wait(work, 0));
            require_ok(tutti_work_result(work, &info));
            check_eq(info.source, -1);
            tutti_work_free(work);
        }
        for (int i = 0; i < MANY; i++) {
            check_eq(sums[i], i % 2 ? (int64_t)i * size + size * (size - 1) / 2 : i + i % size);
            check_eq(in[i], i * 10 + left);
        }
        check_eq(calls_of(world), (round + 1) * MANY);
    }
    check_ok(tutti_group_destroy(world));
}

/* Calls over messages run beside each other, as far as that changes no result. */
RANK_CASE(a_call_of_a_batch_may_use_the_result_of_one_before)
{
    enum { LINKS = 30, ASIDE = 20 };
    tutti_group *world = rank_init(NULL);
    static int64_t word, copies[LINKS], halves[2], aside[ASIDE], shapes[3 * LINKS + ASIDE];
    int64_t power = 1;

    word = 1;
    halves[0] = halves[1] = rank + 5;
    require_ok(tutti_batch_begin(world));
    for (int i = 0; i < LINKS; i++) {
        tutti_tensor t = word_of(&word, &shapes[i]);
        tutti_tensor copy = word_of(&copies[i], &shapes[LINKS + i]);
        tutti_tensor both = tutti_tensor_1d(halves, TUTTI_I64, &shapes[2 * LINKS + i], 2);

        require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
        require_ok(tutti_all_reduce_into(world, &t, &copy, TUTTI_MAX, NULL, NULL));
        require_ok(tutti_broadcast(world, &both, i % size, NULL, NULL));
    }
    for (int i = 0; i < ASIDE; i++) { /* independent of those, and of each other */
        tutti_tensor t = word_of(&aside[i], &shapes[3 * LINKS + i]);

        aside[i] = i;
        require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
    }
    require_ok(tutti_batch_end(world, NULL));
    for (int i = 0; i < LINKS; i++) {
        power *= size;
        check_eq(copies[i], power);
    }
    check_eq(word, power);
    check_eq(halves[0] + halves[1], 10); /* of rank 0, which was first */
    for (int i = 0; i < ASIDE; i++)
        check_eq(aside[i], (int64_t)i * size);
    check_ok(tutti_group_destroy(world));
}

/* One rank has a batch, one has works, the others wait for each call. */
RANK_CASE(ranks_without_a_batch_take_part_in_that_of_another)
{
    tutti_group *world = rank_init(NULL);
    static int64_t sums[MANY], shapes[MANY];
    static tutti_work *works[MANY];

    for (int round = 0; round < 3; round++) {
        if (rank == 0)
            require_ok(tutti_batch_begin(world));
        for (int i = 0; i < MANY; i++) {
            tutti_tensor t = word_of(&sums[i], &shapes[i]);

            sums[i] = i * (rank + 1);
            require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, rank == 1 ? &works[i] : NULL));
        }
        if (rank == 0)
            require_ok(tutti_batch_end(world, NULL));
        for (int i = 0; i < MANY && rank == 1; i++) {
            require_ok(tutti_work_wait(works[i], 0));
            tutti_work_free(works[i]);
        }
        for (int i = 0; i < MANY; i++)
            check_eq(sums[i], (int64_t)i * size * (size + 1) / 2);
    }
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_mismatch_in_the_middle_of_a_batch_names_the_call)
{
    tutti_group *world = rank_init(NULL);
    static int64_t words[MANY][4], shapes[MANY];

    require_ok(tutti_batch_begin(world));
    for (int i = 0; i < 100; i++) {
        const int64_t count = i == 57 && rank == 1 ? 2 : 4;
        tutti_tensor t = tutti_tensor_1d(words[i], TUTTI_I64, &shapes[i], count);

        require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
    }
    check_status(tutti_batch_end(world, NULL), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "as #58");
    check_contains(tutti_last_error(), "rank 1: all_reduce 2 x i64, sum");
    tutti_group_destroy(world);
}

/* Rank 0 only sends. It is many calls ahead, and has announced more of them than rank 1 keeps. */
RANK_CASE(a_call_that_differs_from_a_rank_far_ahead_fails_at_once)
{
    tutti_group *world = rank_init(NULL);
    static int64_t words[MANY], shapes[MANY];
    tutti_status status = TUTTI_OK;
    int made = 0;

    if (rank == 0)
        require_ok(tutti_batch_begin(world));
    for (int i = 0; i < 100 && !status; i++, made++) {
        const tutti_dtype dtype = i == 57 && rank == 1 ? TUTTI_F64 : TUTTI_I64;
        tutti_tensor t = tutti_tensor_1d(&words[i], dtype, &shapes[i], 1);

        status = tutti_broadcast(world, &t, 0, NULL, NULL);
    }
    if (rank == 0)
        status = tutti_batch_end(world, NULL);
    if (rank == 1)
        check_eq(made, 58);
    if (!status)
        status = tutti_barrier(world, NULL, NULL);
    check_status(status, TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "as #58");
    check_contains(tutti_last_error(), "rank 1: broadcast 1 x f64, root 0");
    tutti_group_destroy(world);
}

/* With blocking sends of this size nobody would come to its receive. */
RANK_CASE(large_sends_of_a_batch_may_come_before_the_receives)
{
    tutti_group *world = rank_init(NULL);
    uint8_t *out = malloc(LARGE), *in = malloc(LARGE);
    int64_t shapes[2];

    require(out && in);
    memset(out, 10 + rank, LARGE);
    tutti_tensor to = tutti_tensor_1d(out, TUTTI_U8, &shapes[0], LARGE);
    tutti_tensor from = tutti_tensor_1d(in, TUTTI_U8, &shapes[1], LARGE);
    require_ok(tutti_batch_begin(world));
    require_ok(tutti_send(world, &to, (rank + 1) % size, 1, NULL));
    require_ok(tutti_recv(world, &from, (rank - 1 + size) % size, 1, NULL, NULL));
    require_ok(tutti_batch_end(world, NULL));
    check_eq(in[LARGE - 1], 10 + (rank - 1 + size) % size);

    memset(in, 0, LARGE); /* the same as an exchange, and to itself */
    require_ok(tutti_batch_begin(world));
    require_ok(tutti_sendrecv(world, &to, rank, 2, &from, rank, 2, NULL, NULL));
    require_ok(tutti_batch_end(world, NULL));
    check_eq(in[LARGE - 1], 10 + rank);
    check_ok(tutti_group_destroy(world));
    free(out);
    free(in);
}

/* Any rank may be first, and what it sends may be shorter. */
RANK_CASE(receives_of_a_batch_tell_their_source_and_size)
{
    enum { ROOM = 30000 };
    tutti_group *world = rank_init(NULL);
    static int64_t in[2][ROOM], out[ROOM];
    int64_t shapes[3];
    int32_t sources[2] = {-7, -7};
    uint64_t bytes[2] = {0};
    const int64_t count = rank == 1 ? 3 : ROOM;
    tutti_tensor t = tutti_tensor_1d(out, TUTTI_I64, &shapes[2], count);

    out[0] = 100 + rank;
    require_ok(tutti_batch_begin(world));
    for (int i = 0; i < 2 && !rank; i++) {
        tutti_tensor each = tutti_tensor_1d(in[i], TUTTI_I64, &shapes[i], ROOM);

        require_ok(
            tutti_recv_up_to(world, &each, TUTTI_ANY_SOURCE, 5, NULL, &sources[i], &bytes[i]));
        check_eq(sources[i], -7);
    }
    if (rank)
        require_ok(tutti_send(world, &t, 0, 5, NULL));
    require_ok(tutti_batch_end(world, NULL));
    if (!rank) {
        check_eq(sources[0] + sources[1], 1 + 2);
        for (int i = 0; i < 2; i++) {
            check_eq(in[i][0], 100 + sources[i]);
            check_eq(bytes[i], (sources[i] == 1 ? 3 : ROOM) * sizeof(int64_t));
        }
    }
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_refused_call_makes_its_batch_void)
{
    tutti_group *world = rank_init(NULL);
    int64_t word = 1, shape;
    tutti_tensor t = word_of(&word, &shape);
    tutti_work *work = NULL;

    check_status(tutti_batch_end(world, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    require_ok(tutti_batch_begin(world));
    check_status(tutti_batch_begin(world), TUTTI_ERR_BUSY);
    require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
    check_status(tutti_broadcast(world, &t, size, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_ok(tutti_barrier(world, NULL, NULL));
    check_status(tutti_send(world, &t, -3, 1, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_batch_end(world, &work), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "root"); /* the first */
    check(work == NULL);
    check_eq(word, 1);

    /* What asks for something that cannot be there yet. */
    require_ok(tutti_batch_begin(world));
    check_status(tutti_barrier(world, NULL, &work), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "one work for all");
    check_status(tutti_batch_end(world, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    require_ok(tutti_batch_begin(world));
    check_status(tutti_irecv(world, &t, 0, 1, NULL, &work), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_batch_end(world, NULL), TUTTI_ERR_INVALID_ARGUMENT);

    /* It is over in any case, nothing had a number, and an empty one is fine. */
    check_eq(calls_of(world), 0);
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_batch_end(world, NULL));
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_batch_end(world, &work));
    check_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    check_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
    check_eq(word, size);
    require_ok(tutti_batch_begin(world));
    require_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world)); /* with what was begun and never ended */
}

/* One part fails, the others end as they would, and the work waits for all of them. */
RANK_CASE(the_work_of_a_batch_has_the_first_failure_and_waits_for_all)
{
    tutti_group *world = rank_init(NULL);
    int64_t words[4] = {0}, shapes[4], two[2] = {1, 2}, shape;
    tutti_tensor sum = word_of(&words[0], &shapes[0]), from = word_of(&words[1], &shapes[1]);
    tutti_tensor late = word_of(&words[2], &shapes[2]),
                 longer = tutti_tensor_1d(two, TUTTI_I64, &shape, 2);
    tutti_work *work;

    words[0] = rank;
    if (rank == 1)
        require_ok(tutti_send(world, &longer, 0, 1, NULL));
    require_ok(tutti_batch_begin(world));
    if (rank == 0) {
        require_ok(tutti_recv(world, &from, 1, 1, NULL, NULL));
        require_ok(tutti_recv(world, &late, 1, 2, NULL, NULL));
    }
    require_ok(tutti_all_reduce(world, &sum, TUTTI_SUM, NULL, NULL));
    require_ok(tutti_batch_end(world, &work));
    if (rank == 0) {
        check_status(tutti_work_wait(work, 100), TUTTI_ERR_NOT_READY);
        require_ok(tutti_send(world, &sum, 1, 3, NULL));
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_MISMATCH);
        check_contains(tutti_last_error(), "16 bytes");
        check_contains(tutti_work_error(work), "16 bytes");
        check_eq(words[2], 42);
    } else {
        check_ok(tutti_work_wait(work, 0));
    }
    check_eq(words[0], size * (size - 1) / 2);
    if (rank == 1) {
        words[3] = 42;
        tutti_tensor answer = word_of(&words[3], &shapes[3]);

        require_ok(tutti_recv(world, &from, 0, 3, NULL, NULL));
        require_ok(tutti_send(world, &answer, 0, 2, NULL));
    }
    tutti_work_free(work);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_group_that_ends_ends_its_batches)
{
    tutti_group *world = rank_init(NULL), *outside = NULL;
    int64_t word = 0, shape;
    tutti_tensor t = word_of(&word, &shape);
    tutti_work *work;

    require_ok(tutti_group_new(world, NULL, 0, NULL, &outside));
    require_ok(tutti_batch_begin(world));
    require_ok(tutti_recv(world, &t, (rank + 1) % size, 1, NULL, NULL)); /* which never comes */
    require_ok(tutti_barrier(world, NULL, NULL));
    require_ok(tutti_batch_end(world, &work));
    require_ok(tutti_batch_begin(world)); /* to be ended later */
    require_ok(tutti_barrier(world, NULL, NULL));
    require_ok(tutti_barrier(outside, NULL, NULL)); /* all are as far */
    if (rank == 0)
        check_ok(tutti_group_abort(world, "enough"));
    check_status(tutti_work_wait(work, 0), TUTTI_ERR_ABORTED);
    check_contains(tutti_work_error(work), "enough");
    tutti_work_free(work);
    check_status(tutti_batch_end(world, &work), TUTTI_ERR_ABORTED);
    check_ok(tutti_group_destroy(outside));
    tutti_group_destroy(world);
}

/* ---- threads --------------------------------------------------------------------------------- */

struct caller {
    tutti_group *group;
    _Atomic int done;
    bool fine;
};

static void on_batch(tutti_work *work, tutti_status status, void *user)
{
    struct caller *caller = user;

    caller->fine &= !status;
    tutti_work_free(work);
    atomic_fetch_add(&caller->done, 1);
}

/* Batches of messages under a tag of its own, each ended by a callback. */
static void *batch_and_listen(void *user)
{
    enum { ROUNDS = 50, EACH = 8 };
    struct caller *caller = user;
    tutti_group *group = caller->group;
    int rank = tutti_group_rank(group), size = tutti_group_size(group);
    static int64_t out[ROUNDS * EACH], in[ROUNDS * EACH], shapes[2 * ROUNDS * EACH];
    tutti_work *work;

    caller->fine = true;
    for (int round = 0; round < ROUNDS; round++) {
        if (tutti_batch_begin(group))
            return NULL;
        for (int k = round * EACH; k < (round + 1) * EACH; k++) {
            tutti_tensor to = word_of(&out[k], &shapes[2 * k]);
            tutti_tensor from = word_of(&in[k], &shapes[2 * k + 1]);

            out[k] = k * size + rank;
            if (tutti_recv(group, &from, (rank + 1) % size, 9, NULL, NULL) ||
                tutti_send(group, &to, (rank - 1 + size) % size, 9, NULL))
                return NULL;
        }
        if (tutti_batch_end(group, &work) || tutti_work_then(work, on_batch, caller))
            return NULL;
    }
    for (int i = 0; i < 20000 && atomic_load(&caller->done) < ROUNDS; i++)
        rank_sleep_ms(1);
    for (int k = 0; k < ROUNDS * EACH; k++)
        caller->fine &= in[k] == k * size + (rank + 1) % size;
    caller->fine &= atomic_load(&caller->done) == ROUNDS;
    return NULL;
}

RANK_CASE(a_batch_is_of_its_thread_alone)
{
    tutti_group *world = rank_init(NULL);
    struct caller caller = {.group = world};
    int64_t word, shape;
    tutti_tensor t = word_of(&word, &shape);
    pthread_t thread;

    require(!pthread_create(&thread, NULL, batch_and_listen, &caller));
    for (int i = 0; i < 300; i++) { /* meanwhile, blocking calls of this one */
        word = i;
        require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
        check_eq(word, (int64_t)i * size);
    }
    pthread_join(thread, NULL);
    check(caller.fine);
    check_ok(tutti_group_destroy(world));
}

/* As ncclGroupStart over two communicators. Odd ranks end them in the other order. */
static void *begin_and_go(void *user)
{
    struct caller *caller = user;
    int64_t word = 1, shape;
    tutti_tensor t = word_of(&word, &shape);

    caller->fine = !tutti_batch_begin(caller->group) &&
                   !tutti_all_reduce(caller->group, &t, TUTTI_SUM, NULL, NULL);
    return NULL;
}

static void *call_alone(void *user)
{
    struct caller *caller = user;
    int64_t word = 1, shape;
    tutti_tensor t = word_of(&word, &shape);

    caller->fine = !tutti_all_reduce(caller->group, &t, TUTTI_SUM, NULL, NULL) &&
                   word == tutti_group_size(caller->group) &&
                   tutti_batch_end(caller->group, NULL) == TUTTI_ERR_INVALID_ARGUMENT;
    return NULL;
}

/* The second thread gets the first one's memory, with its thread-local variables. */
RANK_CASE(a_batch_of_a_thread_that_ended_takes_no_calls)
{
    struct caller caller = {.group = rank_init(NULL)};
    void *(*const each[])(void *) = {begin_and_go, call_alone};

    for (int i = 0; i < 2; i++) {
        pthread_t thread;

        require(!pthread_create(&thread, NULL, each[i], &caller));
        pthread_join(thread, NULL);
        check(caller.fine);
    }
    check_ok(tutti_group_destroy(caller.group));
}

RANK_CASE(one_thread_may_have_batches_of_two_groups)
{
    tutti_group *groups[2] = {rank_init(NULL)};
    tutti_work *works[2] = {NULL};
    int64_t words[2] = {1, rank}, shapes[2];

    require_ok(tutti_group_new(groups[0], NULL, 0, NULL, &groups[1]));
    for (int g = 0; g < 2; g++)
        require_ok(tutti_batch_begin(groups[g]));
    for (int g = 0; g < 2; g++) {
        tutti_tensor word = word_of(&words[g], &shapes[g]);

        require_ok(tutti_all_reduce(groups[g], &word, TUTTI_SUM, NULL, NULL));
    }
    for (int i = 0; i < 2; i++) {
        const int g = rank % 2 ? 1 - i : i;

        require_ok(tutti_batch_end(groups[g], &works[g]));
    }
    require_ok(tutti_work_wait_all(works, 2, 0, NULL));
    check_eq(words[0], size);
    check_eq(words[1], size * (size - 1) / 2);
    for (int g = 1; g >= 0; g--) {
        tutti_work_free(works[g]);
        check_ok(tutti_group_destroy(groups[g]));
    }
}
