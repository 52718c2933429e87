/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many operations at once: batches of messages, waiting for all or any of several works, a cancelled
 * receive, messages of unknown length, a callback, and several collectives with one work.
 *
 *     cc works.c $(pkg-config --cflags --libs tutti) -o works
 *     tutti run -n 3 ./works
 */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include <tutti/tutti.h>

static void must(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

/* Everybody passes its rank on to the right. */
static void batch_of_messages(tutti_group *world)
{
    const int rank = tutti_group_rank(world), size = tutti_group_size(world);
    int32_t mine = rank, theirs = -1;
    int64_t shapes[2];
    const tutti_tensor out = tutti_tensor_1d(&mine, TUTTI_I32, &shapes[0], 1);
    const tutti_tensor in = tutti_tensor_1d(&theirs, TUTTI_I32, &shapes[1], 1);
    const tutti_p2p_op ops[] = {
        {.kind = TUTTI_P2P_SEND, .peer = (rank + 1) % size, .tensor = &out},
        {.kind = TUTTI_P2P_RECV, .peer = (rank + size - 1) % size, .tensor = &in},
    };
    tutti_work *works[2];

    must(tutti_batch_isend_irecv(world, ops, sizeof ops[0], 2, NULL, works));
    must(tutti_work_wait_all(works, 2, 0, NULL));
    printf("rank %d has %d from its left\n", rank, theirs);
    for (int i = 0; i < 2; i++)
        tutti_work_free(works[i]);

    must(tutti_sendrecv(world, &out, (rank + size - 1) % size, 0, &in, (rank + 1) % size, 0, NULL,
                        NULL));
    printf("rank %d has %d from its right\n", rank, theirs);
}

/* Rank 0 takes messages as they come, of whatever length up to 8 numbers. */
static void any_of_several(tutti_group *world)
{
    enum { ROOM = 8, SENDERS_MAX = 64 };
    const int rank = tutti_group_rank(world), senders = tutti_group_size(world) - 1;
    int32_t numbers[SENDERS_MAX][ROOM] = {{0}};
    int64_t shapes[SENDERS_MAX];
    tutti_work *works[SENDERS_MAX];

    if (senders > SENDERS_MAX)
        return;
    if (rank != 0) {
        const tutti_tensor out = tutti_tensor_1d(numbers[0], TUTTI_I32, &shapes[0], rank % ROOM);

        must(tutti_send(world, &out, 0, 1, NULL));
        return;
    }
    for (int i = 0; i < senders; i++) {
        const tutti_tensor in = tutti_tensor_1d(numbers[i], TUTTI_I32, &shapes[i], ROOM);

        must(tutti_irecv_up_to(world, &in, TUTTI_ANY_SOURCE, 1, NULL, &works[i]));
    }
    for (int i = 0; i < senders; i++) {
        tutti_work_info info = {.struct_size = sizeof info};
        int32_t index;

        /* A program with other work does that when none is complete, and looks again. */
        must(tutti_work_test_any(works, (uint32_t)senders, &index));
        if (index < 0)
            must(tutti_work_wait_any(works, (uint32_t)senders, 0, &index));
        must(tutti_work_result(works[index], &info));
        printf("rank 0 has %d bytes from rank %d\n", (int)info.bytes, info.source);
        tutti_work_free(works[index]);
        works[index] = NULL; /* not to be waited for again */
    }
}

/* Rank 1 knows how much it sends, rank 0 only how much there can be. */
static void of_unknown_length(tutti_group *world)
{
    int32_t numbers[8] = {7, 8};
    int64_t shape;

    if (tutti_group_rank(world) == 1) {
        const tutti_tensor out = tutti_tensor_1d(numbers, TUTTI_I32, &shape, 2);

        must(tutti_send(world, &out, 0, 2, NULL));
    } else if (tutti_group_rank(world) == 0) {
        const tutti_tensor in = tutti_tensor_1d(numbers, TUTTI_I32, &shape, 8);
        uint64_t bytes;
        int32_t source;

        must(tutti_recv_up_to(world, &in, TUTTI_ANY_SOURCE, 2, NULL, &source, &bytes));
        printf("rank 0 received %d numbers from rank %d\n", (int)(bytes / sizeof numbers[0]),
               source);
    }
}

static void completed(tutti_work *work, tutti_status status, void *user)
{
    (void)work;
    (void)status; /* tutti_work_wait() would return it, too */
    sem_post(user);
}

/* Called by tutti's own thread when the operation is complete; a program with a loop watches
 * tutti_work_watch() instead. */
static void by_callback(tutti_group *world)
{
    float number = 2;
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(&number, TUTTI_F32, &shape, 1);
    tutti_work *work;
    sem_t done;

    sem_init(&done, 0, 0);
    must(tutti_all_reduce(world, &tensor, TUTTI_PRODUCT, NULL, &work));
    must(tutti_work_then(work, completed, &done));
    while (sem_wait(&done))
        continue;
    must(tutti_work_wait(work, 0));
    tutti_work_free(work);
    sem_destroy(&done);
    if (tutti_group_rank(world) == 0)
        printf("rank 0 was called back: the product is %g\n", number);
}

/* No rank sends this message. */
static void take_back(tutti_group *world)
{
    int32_t number;
    int64_t shape;
    const tutti_tensor in = tutti_tensor_1d(&number, TUTTI_I32, &shape, 1);
    tutti_work *work;

    must(tutti_irecv(world, &in, TUTTI_ANY_SOURCE, 99, NULL, &work));
    must(tutti_work_cancel(work));
    if (tutti_work_wait(work, 0) == TUTTI_ERR_ABORTED && tutti_group_rank(world) == 0)
        printf("rank 0 took its receive back: %s\n", tutti_work_error(work));
    tutti_work_free(work);
}

/* As torch's _coalescing_manager: started together, one work for all. */
static void behind_one_work(tutti_group *world)
{
    enum { TENSORS = 3 };
    float values[TENSORS] = {1, 2, 3};
    int64_t shapes[TENSORS];
    tutti_work *work;

    must(tutti_batch_begin(world));
    for (int i = 0; i < TENSORS; i++) {
        const tutti_tensor tensor = tutti_tensor_1d(&values[i], TUTTI_F32, &shapes[i], 1);

        must(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL));
    }
    must(tutti_batch_end(world, &work));
    must(tutti_work_wait(work, 0));
    tutti_work_free(work);
    if (tutti_group_rank(world) == 0)
        printf("rank 0 has the sums %g %g %g\n", values[0], values[1], values[2]);
}

int main(void)
{
    tutti_group *world;

    must(tutti_init(NULL, &world));
    batch_of_messages(world);
    any_of_several(world);
    of_unknown_length(world);
    by_callback(world);
    take_back(world);
    behind_one_work(world);
    must(tutti_group_destroy(world));
    return 0;
}
