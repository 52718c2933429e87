/* SPDX-License-Identifier: Apache-2.0 */
/* Works and waiting: arrays of works, cancelling, several threads on one group. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "harness/rank.h"

static tutti_tensor word_of(int64_t *word, int64_t *shape)
{
    return tutti_tensor_1d(word, TUTTI_I64, shape, 1);
}

/* ---- arrays of works ------------------------------------------------------------------------- */

enum { MANY = 2000 };

RANK_CASE(wait_all_waits_for_thousands_of_collectives_and_messages)
{
    tutti_group *world = rank_init(NULL);
    static tutti_work *works[3 * MANY];
    static int64_t sums[MANY], out[MANY], in[MANY], shapes[3 * MANY];
    static tutti_status statuses[3 * MANY];
    int next = (rank + 1) % size, before = (rank - 1 + size) % size;

    for (int i = 0; i < MANY; i++) {
        tutti_tensor sum = word_of(&sums[i], &shapes[3 * i]);
        tutti_tensor to = word_of(&out[i], &shapes[3 * i + 1]);
        tutti_tensor from = word_of(&in[i], &shapes[3 * i + 2]);

        sums[i] = i + rank;
        out[i] = i * 10 + rank;
        require_ok(tutti_irecv(world, &from, before, (uint64_t)i % 7, NULL, &works[3 * i]));
        require_ok(tutti_all_reduce(world, &sum, TUTTI_SUM, NULL, &works[3 * i + 1]));
        require_ok(tutti_isend(world, &to, next, (uint64_t)i % 7, NULL, &works[3 * i + 2]));
    }
    require_ok(tutti_work_wait_all(works, 3 * MANY, 0, statuses));
    for (int i = 0; i < MANY; i++) {
        tutti_work_info info = {.struct_size = sizeof info};

        check_eq(sums[i], (int64_t)i * size + size * (size - 1) / 2);
        check_eq(in[i], i * 10 + before);
        check_ok(tutti_work_result(works[3 * i], &info));
        check_eq(info.source, before);
        check_eq(info.bytes, 8);
        check_eq(info.sequence, 0);
        check_ok(tutti_work_result(works[3 * i + 1], &info));
        check_eq(info.source, -1);
        check_eq(info.sequence, i + 1);
    }
    for (int i = 0; i < 3 * MANY; i++) {
        check_eq(statuses[i], TUTTI_OK);
        tutti_work_free(works[i]);
    }
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(wait_any_gives_each_work_once_in_the_order_of_completion)
{
    tutti_group *world = rank_init(NULL);
    tutti_work *works[8] = {NULL};
    int64_t words[8], shapes[8], order[] = {5, 1, 7, 3};
    int32_t index;

    for (int i = 0; i < 4 && rank; i++) {
        int64_t shape, word = order[i];
        tutti_tensor t = word_of(&word, &shape);

        require_ok(tutti_recv(world, &t, 0, 100, NULL, NULL)); /* when the one before was seen */
        word = order[i];
        require_ok(tutti_send(world, &t, 0, (uint64_t)order[i], NULL));
    }
    for (int i = 1; i < 8 && rank == 0; i += 2) {
        tutti_tensor t = word_of(&words[i], &shapes[i]);
        require_ok(tutti_irecv(world, &t, 1, (uint64_t)i, NULL, &works[i]));
    }
    if (rank == 0) {
        check_status(tutti_work_wait_any(works, 8, 20, &index), TUTTI_ERR_NOT_READY);
        check_eq(index, -1);
        check_contains(tutti_last_error(), "none of 8");
    }
    for (int i = 0; i < 4 && rank == 0; i++) {
        int64_t shape, word = 0;
        tutti_tensor t = word_of(&word, &shape);

        require_ok(tutti_send(world, &t, 1, 100, NULL));
        require_ok(tutti_work_wait_any(works, 8, 0, &index));
        require(index == order[i]);
        check_eq(words[index], index);
        tutti_work_free(works[index]);
        works[index] = NULL;
    }
    check_ok(tutti_work_wait_any(works, 8, 0, &index)); /* none is left */
    check_eq(index, -1);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(wait_all_tells_which_failed_and_which_are_not_complete)
{
    tutti_group *world = rank_init(NULL);
    tutti_work *works[4] = {NULL};
    tutti_status statuses[4];
    tutti_work_info info = {.struct_size = sizeof info};
    int64_t words[4], shapes[4], two[2] = {1, 2}, shape = 2;

    for (int i = 0; i < 4 && rank == 0; i++) {
        tutti_tensor t = word_of(&words[i], &shapes[i]);

        if (i != 1) /* NULL is skipped */
            require_ok(tutti_irecv(world, &t, 1, (uint64_t)i, NULL, &works[i]));
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    if (rank == 1) {
        tutti_tensor one = word_of(&words[0], &shapes[0]);
        tutti_tensor longer = tutti_tensor_1d(two, TUTTI_I64, &shape, 2);

        require_ok(tutti_send(world, &one, 0, 0, NULL));
        require_ok(tutti_send(world, &longer, 0, 2, NULL));
        require_ok(tutti_barrier(world, NULL, NULL));
        require_ok(tutti_send(world, &one, 0, 3, NULL));
    } else if (rank == 0) {
        check_status(tutti_work_wait(works[2], 0), TUTTI_ERR_MISMATCH);
        check_status(tutti_work_wait_all(works, 4, 20, statuses), TUTTI_ERR_MISMATCH);
        check_contains(tutti_last_error(), "work 2 of 4: a receive");
        check_contains(tutti_last_error(), "16 bytes");
        check_contains(tutti_work_error(works[2]), "16 bytes");
        check_eq(statuses[0], TUTTI_OK);
        check_eq(statuses[1], TUTTI_OK);
        check_eq(statuses[2], TUTTI_ERR_MISMATCH);
        check_eq(statuses[3], TUTTI_ERR_NOT_READY);
        check_str_eq(tutti_work_error(works[3]), "");
        check_status(tutti_work_result(works[3], &info), TUTTI_ERR_NOT_READY);
        check_status(tutti_work_result(works[2], &info), TUTTI_ERR_MISMATCH);
        tutti_work_free(works[2]);
        works[2] = NULL;
        check_status(tutti_work_wait_all(works, 4, 1, NULL), TUTTI_ERR_NOT_READY);
        check_contains(tutti_last_error(), "1 of 4");
        require_ok(tutti_barrier(world, NULL, NULL));
        check_ok(tutti_work_wait_all(works, 4, 0, statuses));
        tutti_work_free(works[0]);
        tutti_work_free(works[3]);
    }
    check_ok(tutti_group_destroy(world));
}

/* ---- cancel ---------------------------------------------------------------------------------- */

static void on_cancelled(tutti_work *work, tutti_status status, void *user)
{
    (void)work;
    atomic_store((_Atomic int *)user, status == TUTTI_ERR_ABORTED ? 1 : 2);
}

RANK_CASE(a_cancelled_receive_leaves_the_message_to_the_next_one)
{
    tutti_group *world = rank_init(NULL);
    int64_t words[2] = {0}, shapes[2];
    tutti_tensor first = word_of(&words[0], &shapes[0]), second = word_of(&words[1], &shapes[1]);
    static _Atomic int told;
    tutti_work *work;

    if (rank == 0) {
        require_ok(tutti_irecv(world, &first, TUTTI_ANY_SOURCE, 4, NULL, &work));
        require_ok(tutti_work_then(work, on_cancelled, &told));
        check_ok(tutti_work_cancel(work));
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_ABORTED);
        check_contains(tutti_work_error(work), "recv was cancelled");
        check_eq(tutti_work_source(work), -1);
        check_status(tutti_work_cancel(work), TUTTI_ERR_BUSY);
        for (int i = 0; i < 5000 && !atomic_load(&told); i++)
            rank_sleep_ms(1);
        check_eq(atomic_load(&told), 1);
        tutti_work_free(work);
    }
    require_ok(tutti_barrier(world, NULL, NULL));
    words[1] = 77;
    if (rank == 1)
        require_ok(tutti_send(world, &second, 0, 4, NULL));
    words[1] = 0;
    if (rank == 0)
        require_ok(tutti_recv(world, &second, 1, 4, NULL, NULL));
    if (rank == 0)
        check_eq(words[1], 77);
    check_eq(words[0], 0);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(what_is_under_way_or_collective_cannot_be_cancelled)
{
    enum { LARGE = 1 << 20 };
    tutti_group *world = rank_init(NULL);
    int64_t shape, words_shape, word = 1;
    uint8_t *large = calloc(1, LARGE);
    tutti_tensor big = tutti_tensor_1d(large, TUTTI_U8, &shape, LARGE);
    tutti_tensor small = word_of(&word, &words_shape);
    tutti_work *work;

    require(large);
    if (rank == 0) {
        require_ok(tutti_isend(world, &small, 1, 1, NULL, &work)); /* has left, as a copy */
        check_status(tutti_work_cancel(work), TUTTI_ERR_BUSY);
        check_ok(tutti_work_wait(work, 0));
        tutti_work_free(work);
        require_ok(tutti_isend(world, &big, 1, 2, NULL, &work));
        check_ok(tutti_work_wait(work, 0));
        check_status(tutti_work_cancel(work), TUTTI_ERR_BUSY);
        tutti_work_free(work);
    } else if (rank == 1) {
        require_ok(tutti_recv(world, &small, 0, 1, NULL, NULL));
        require_ok(tutti_recv(world, &big, 0, 2, NULL, NULL));
        rank_sleep_ms(20);
    }
    require_ok(tutti_barrier(world, NULL, &work));
    check_status(tutti_work_cancel(work), TUTTI_ERR_BUSY);
    check_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    check_ok(tutti_group_destroy(world));
    free(large);
}

/* ---- release --------------------------------------------------------------------------------- */

static atomic_int released, called_back, released_first;

static void count_release(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static void count_callback(tutti_work *work, tutti_status status, void *user)
{
    (void)work;
    (void)status;
    (void)user;
    atomic_fetch_add(&called_back, 1);
    atomic_fetch_add(&released_first, atomic_load(&released));
}

static void expect_released(int count)
{
    for (int i = 0; i < 20000 && atomic_load(&released) < count; i++)
        rank_sleep_ms(1);
    check_eq(atomic_load(&released), count);
}

/* However the operation ends, and whether or not the handle is still there. */
RANK_CASE(what_a_work_keeps_alive_is_let_go_exactly_once)
{
    tutti_group *world = rank_init(NULL), *failing;
    int64_t shape, word = 1, got = 0, got_shape;
    tutti_tensor t = word_of(&word, &shape), in = word_of(&got, &got_shape);
    tutti_work *work;

    require_ok(tutti_group_new(world, NULL, 0, NULL, &failing));
    require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, &work));
    check_ok(tutti_work_then(work, count_callback, NULL));
    check_ok(tutti_work_on_release(work, count_release, &released));
    check_status(tutti_work_on_release(work, count_release, &released), TUTTI_ERR_BUSY);
    check_ok(tutti_work_wait(work, 0));
    expect_released(1);
    check_eq(atomic_load(&called_back), 1);
    check_eq(atomic_load(&released_first), 0);
    tutti_work_free(work);

    require_ok(tutti_barrier(world, NULL, &work));
    check_ok(tutti_work_wait(work, 0));
    check_ok(tutti_work_on_release(work, count_release, &released)); /* it is complete */
    expect_released(2);
    tutti_work_free(work);

    require_ok(tutti_irecv(world, &in, (rank + 1) % size, 5, NULL, &work)); /* cancelled */
    check_ok(tutti_work_on_release(work, count_release, &released));
    rank_sleep_ms(20);
    check_eq(atomic_load(&released), 2);
    check_ok(tutti_work_cancel(work));
    tutti_work_free(work);
    expect_released(3);

    require_ok(tutti_batch_begin(world)); /* a batch, whose handle goes at once */
    require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
    require_ok(tutti_barrier(world, NULL, NULL));
    require_ok(tutti_batch_end(world, &work));
    check_ok(tutti_work_on_release(work, count_release, &released));
    tutti_work_free(work);
    expect_released(4);

    require_ok(
        tutti_irecv(failing, &in, (rank + 1) % size, 6, NULL, &work)); /* ends with its group */
    check_ok(tutti_work_on_release(work, count_release, &released));
    tutti_work_free(work);
    check_ok(tutti_barrier(world, NULL, NULL));
    if (!rank)
        check_ok(tutti_group_abort(failing, "the test is over"));
    expect_released(5);
    tutti_group_destroy(failing);
    check_ok(tutti_group_destroy(world));
    check_eq(atomic_load(&released), 5);
}

RANK_CASE(a_set_of_works_may_be_looked_at_without_waiting)
{
    tutti_group *world = rank_init(NULL);
    int64_t shapes[2], word = 7, got[2] = {0};
    tutti_tensor out = word_of(&word, &shapes[0]);
    tutti_work *works[3] = {NULL};
    int32_t index = 5;

    check_ok(tutti_work_test_any(works, 3, &index));
    check_eq(index, -1);
    if (rank == 0) {
        for (int i = 0; i < 2; i++) {
            tutti_tensor in = word_of(&got[i], &shapes[i]);

            require_ok(tutti_irecv(world, &in, 1, (uint64_t)i, NULL, &works[i + 1]));
        }
        check_ok(tutti_work_test_any(works, 3, &index));
        check_eq(index, -1);
        check_ok(tutti_barrier(world, NULL, NULL));
        do
            check_ok(tutti_work_test_any(works, 3, &index));
        while (index < 0);
        check_eq(index, 2);
        check_eq(got[1], 7);
        check_ok(tutti_work_cancel(works[1]));
        check_status(tutti_work_test_any(works, 3, &index), TUTTI_ERR_ABORTED);
        check_eq(index, 1);
        tutti_work_free(works[1]);
        tutti_work_free(works[2]);
    } else {
        check_ok(tutti_barrier(world, NULL, NULL));
        if (rank == 1)
            check_ok(tutti_send(world, &out, 0, 1, NULL));
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(wrong_arguments_about_works_are_refused_in_words)
{
    tutti_group *world = rank_init(NULL);
    tutti_work *work, *works[2] = {NULL};
    tutti_work_info info = {.struct_size = sizeof info};
    int32_t index;

    require_ok(tutti_barrier(world, NULL, &work));
    works[1] = work;
    check_status(tutti_work_wait_all(NULL, 2, 0, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_work_wait_all(works, 2, -1, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_work_wait_any(works, 2, 0, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_work_wait_any(works, 2, -1, &index), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_work_cancel(NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_work_result(work, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_work_result(NULL, &info), TUTTI_ERR_INVALID_ARGUMENT);
    check_ok(tutti_work_wait_all(NULL, 0, 0, NULL));
    check_ok(tutti_work_wait_all(works, 2, 0, NULL));
    check_ok(tutti_work_wait_any(works, 2, 0, &index));
    check_eq(index, 1);
    tutti_work_free(work);
    check_ok(tutti_group_destroy(world));
}

/* Ranks as threads: a context each, so the works of one array belong to several engines. */
RANK_CASE(wait_any_takes_works_of_several_contexts)
{
    tutti_context *contexts[2];
    tutti_group *groups[2];
    tutti_work *works[2];
    int64_t words[2] = {1, 2}, shapes[2];
    int32_t index, seen = 0;

    for (int i = 0; i < 2; i++) {
        tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

        require_ok(tutti_context_create(&contexts[i]));
        options.context = contexts[i];
        options.group_name = i ? "second" : "first";
        require_ok(tutti_init(&options, &groups[i]));
    }
    for (int i = 0; i < 2; i++) {
        tutti_tensor t = word_of(&words[i], &shapes[i]);
        require_ok(tutti_all_reduce(groups[i], &t, TUTTI_SUM, NULL, &works[i]));
    }
    for (int i = 0; i < 2; i++) {
        require_ok(tutti_work_wait_any(works, 2, 0, &index));
        seen |= 1 << index;
        tutti_work_free(works[index]);
        works[index] = NULL;
    }
    check_eq(seen, 3);
    for (int i = 0; i < 2; i++) {
        check_eq(words[i], (i + 1) * size);
        check_ok(tutti_group_destroy(groups[i]));
        check_ok(tutti_context_destroy(contexts[i]));
    }
}

/* ---- several threads ------------------------------------------------------------------------- */

enum { THREADS = 6, TURNS = 100, GROUPS = 2 };

struct talker {
    tutti_group *group;
    uint64_t tag;
    bool fine;
};

/* To the right and from the left, and a collective of its own group where it is the only thread. */
static void *talk(void *user)
{
    struct talker *talker = user;
    tutti_group *group = talker->group;
    int rank = tutti_group_rank(group), size = tutti_group_size(group);

    for (int64_t i = 0; i < TURNS; i++) {
        int64_t out = i * size + rank, in = -1, sum = rank, shapes[3];
        tutti_tensor to = word_of(&out, &shapes[0]), from = word_of(&in, &shapes[1]);
        tutti_tensor all = word_of(&sum, &shapes[2]);
        tutti_work *works[3] = {NULL};

        if (tutti_irecv(group, &from, (rank - 1 + size) % size, talker->tag, NULL, &works[0]) ||
            tutti_isend(group, &to, (rank + 1) % size, talker->tag, NULL, &works[1]) ||
            (talker->tag == 0 && tutti_all_reduce(group, &all, TUTTI_SUM, NULL, &works[2])) ||
            tutti_work_wait_all(works, 3, 0, NULL) || in != i * size + (rank - 1 + size) % size ||
            (talker->tag == 0 && sum != size * (size - 1) / 2))
            return NULL;
        for (int k = 0; k < 3; k++)
            tutti_work_free(works[k]);
    }
    talker->fine = true;
    return NULL;
}

RANK_CASE(threads_share_groups_and_each_waits_for_its_own)
{
    tutti_group *groups[GROUPS];
    struct talker talkers[THREADS];
    pthread_t threads[THREADS];

    for (int i = 0; i < GROUPS; i++) {
        tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

        options.group_name = i ? "second" : "first";
        require_ok(tutti_init(&options, &groups[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        talkers[i] = (struct talker){.group = groups[i % GROUPS], .tag = (uint64_t)(i / GROUPS)};
        require(!pthread_create(&threads[i], NULL, talk, &talkers[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        check(talkers[i].fine);
    }
    for (int i = 0; i < GROUPS; i++)
        check_ok(tutti_group_destroy(groups[i]));
}

/* ---- calls that are waited for next ---------------------------------------------------------- */

/* A sum whose work, if there is one, is waited for. */
static tutti_status sum_now(tutti_group *group, const tutti_tensor *tensor)
{
    const tutti_options options = {.struct_size = sizeof options, .flags = TUTTI_WAITS_NEXT};
    tutti_work *work = NULL;
    tutti_status status = tutti_all_reduce(group, tensor, TUTTI_SUM, &options, &work);

    if (work)
        status = tutti_work_wait(work, 0);
    tutti_work_free(work);
    return status;
}

RANK_CASE(a_call_waited_for_next_has_no_work_if_it_is_complete)
{
    tutti_group *world = rank_init(NULL), *alone;
    tutti_options options = TUTTI_OPTIONS_INIT;
    int64_t x = 7, word = 0, shape, word_shape;
    tutti_tensor sum = word_of(&x, &shape), token = word_of(&word, &word_shape);
    tutti_work *work = NULL;

    options.flags = TUTTI_WAITS_NEXT;
    require_ok(tutti_group_split(world, rank, 0, NULL, &alone));
    require_ok(tutti_all_reduce(alone, &sum, TUTTI_SUM, &options, &work));
    check(work == NULL && x == 7);
    for (int i = 0; i < MANY; i++) {
        x = i + rank;
        if (i % 3 == rank)
            require_ok(tutti_all_reduce(world, &sum, TUTTI_SUM, NULL, NULL));
        else
            require_ok(sum_now(world, &sum));
        check_eq(x, i * size + size * (size - 1) / 2);
    }

    /* The others begin when rank 0 has returned: it cannot be complete. */
    if (rank == 0) {
        require_ok(tutti_all_reduce(world, &sum, TUTTI_SUM, &options, &work));
        check(work != NULL);
        for (int other = 1; other < size; other++)
            require_ok(tutti_send(world, &token, other, 0, NULL));
        check_ok(tutti_work_wait(work, 0));
        tutti_work_free(work);
    } else {
        require_ok(tutti_recv(world, &token, 0, 0, NULL, NULL));
        require_ok(sum_now(world, &sum));
    }

    /* A batch has a work for all of its calls. */
    require_ok(tutti_batch_begin(alone));
    require_ok(tutti_all_reduce(alone, &sum, TUTTI_SUM, &options, NULL));
    require_ok(tutti_batch_end(alone, &work));
    check(work != NULL);
    check_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    options.flags = 4;
    check_status(tutti_barrier(alone, &options, NULL), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "options.flags 0x4");
    check_ok(tutti_group_destroy(alone));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(calls_waited_for_next_that_differ_are_a_mismatch)
{
    tutti_group *world = rank_init(NULL), *group;
    int64_t words[2] = {0}, shape;
    tutti_tensor sum = tutti_tensor_1d(words, TUTTI_I64, &shape, rank == 0 ? 2 : 1);
    tutti_status status;

    require_ok(tutti_group_new(world, NULL, 0, NULL, &group));
    while (!(status = sum_now(group, &sum)))
        ;
    check_status(status, TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "2 x i64");
    check_status(tutti_group_destroy(group), TUTTI_ERR_MISMATCH);
    check_ok(tutti_group_destroy(world));
}
