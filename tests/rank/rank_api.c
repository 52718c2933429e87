/* SPDX-License-Identifier: Apache-2.0 */
/* What the public API promises beside the values of collectives, which tests/conformance checks. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/rank.h"

enum { RING_BYTES = 8 << 20, MANY = 500 };

static tutti_tensor tensor_of(void *data, tutti_dtype dtype, int64_t *shape, int64_t count)
{
    return tutti_tensor_1d(data, dtype, shape, count);
}

/* The ring that tutorials write by hand: send to the right, receive from the left, then wait. */
/* Structs of 16 bytes through everything that moves them. */
struct sixteen {
    uint64_t index, bits;
};

enum { SIXTEENS = 9000 };

static struct sixteen sixteen_of(int from, int to, int64_t i)
{
    const uint64_t index = (uint64_t)from << 40 | (uint64_t)to << 32 | (uint64_t)i;

    return (struct sixteen){index, ~index * UINT64_C(0x9e3779b97f4a7c15)};
}

static void check_sixteens(const struct sixteen *at, int from, int to, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const struct sixteen want = sixteen_of(from, to, i);

        if (at[i].index != want.index || at[i].bits != want.bits) {
            check(!"the element as it was sent");
            return;
        }
    }
}

static void move_sixteens(tutti_group *world, int rank, int size, int64_t count)
{
    static struct sixteen in[4 * SIXTEENS], out[4 * SIXTEENS];
    int64_t shapes[3];
    tutti_tensor one = tensor_of(in, TUTTI_BITS128, &shapes[0], count);
    tutti_tensor all = tensor_of(out, TUTTI_BITS128, &shapes[1], count * size);
    tutti_tensor each = tensor_of(in, TUTTI_BITS128, &shapes[2], count * size);
    tutti_tensor own = one;

    for (int to = 0; to < size; to++)
        for (int64_t i = 0; i < count; i++)
            in[to * count + i] = sixteen_of(rank, to, i);
    require_ok(tutti_all_gather(world, &one, &all, NULL, NULL));
    for (int from = 0; from < size; from++)
        check_sixteens(out + from * count, from, 0, count);
    require_ok(tutti_all_to_all(world, &each, &all, NULL, NULL));
    for (int from = 0; from < size; from++)
        check_sixteens(out + from * count, from, rank, count);
    memset(out, 0, sizeof out);
    require_ok(tutti_gather(world, &one, &all, 1, NULL, NULL));
    for (int from = 0; from < size && rank == 1; from++)
        check_sixteens(out + from * count, from, 0, count);
    own.data = out;
    require_ok(tutti_scatter(world, &each, &own, 1, NULL, NULL));
    check_sixteens(out, 1, rank, count);
    require_ok(tutti_sendrecv(world, &one, (rank + 1) % size, 3, &own, (rank + size - 1) % size, 3,
                              NULL, NULL));
    check_sixteens(out, (rank + size - 1) % size, 0, count);
    require_ok(tutti_broadcast(world, &one, 1, NULL, NULL));
    check_sixteens(in, 1, 0, count);
}

/* The element with the larger index, as MPI_MAXLOC. */
static void larger(void *dst, const void *a, const void *b, uint64_t count, tutti_dtype dtype,
                   void *user)
{
    const struct sixteen *x = a, *y = b;
    struct sixteen *d = dst;

    (void)user;
    check_eq(dtype, TUTTI_BITS128);
    for (uint64_t i = 0; i < count; i++)
        d[i] = x[i].index > y[i].index ? x[i] : y[i];
}

RANK_CASE(elements_of_no_known_dtype_are_moved_and_not_reduced)
{
    tutti_group *world = rank_init(NULL);
    static _Alignas(16) struct sixteen x[3];
    tutti_reduce_op op;
    int64_t shape;
    tutti_tensor t = tensor_of(x, TUTTI_BITS128, &shape, 3);

    move_sixteens(world, rank, size, 1);
    move_sixteens(world, rank, size, 50);
    move_sixteens(world, rank, size, SIXTEENS);
    for (int i = 0; i < 3; i++)
        x[i] = sixteen_of(rank, 0, i);
    check_status(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(),
                   "elements of bits128 are only moved: sum does not take them");
    require_ok(tutti_reduce_op_create("larger", larger, TUTTI_REDUCE_OP_COMMUTATIVE, NULL, &op));
    require_ok(tutti_all_reduce(world, &t, op, NULL, NULL));
    check_sixteens(x, size - 1, 0, 3);
    tutti_reduce_op_free(op);
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(ring_by_hand_with_large_messages)
{
    tutti_group *world = rank_init(NULL);
    uint8_t *send = malloc(RING_BYTES), *recv = malloc(RING_BYTES);
    int64_t shape[2];
    int right = (rank + 1) % size, left = (rank - 1 + size) % size;

    require(send && recv);
    tutti_tensor out = tensor_of(send, TUTTI_U8, &shape[0], RING_BYTES);
    tutti_tensor in = tensor_of(recv, TUTTI_U8, &shape[1], RING_BYTES);
    memset(send, rank, RING_BYTES);
    for (int step = 0; step < size; step++) {
        tutti_work *work;
        int32_t source = -1;

        require_ok(tutti_isend(world, &out, right, 7, NULL, &work));
        require_ok(tutti_recv(world, &in, left, 7, NULL, &source));
        require_ok(tutti_work_wait(work, 0));
        tutti_work_free(work);
        check_eq(source, left);
        memcpy(send, recv, RING_BYTES);
    }
    for (int i = 0; i < RING_BYTES; i++)
        if (send[i] != rank)
            require(!"the ring brought back what it was given");
    check_ok(tutti_group_destroy(world));
    free(send);
    free(recv);
}

RANK_CASE(a_small_message_overtakes_a_large_one_that_nobody_receives)
{
    tutti_group *world = rank_init(NULL);
    uint8_t *large = calloc(1, RING_BYTES);
    int64_t shape[2];
    int32_t word = 40 + rank;
    tutti_tensor big = tensor_of(large, TUTTI_U8, &shape[0], RING_BYTES);
    tutti_tensor small = tensor_of(&word, TUTTI_I32, &shape[1], 1);

    if (rank == 0) {
        tutti_work *work;

        require_ok(tutti_isend(world, &big, 1, 1, NULL, &work));
        require_ok(tutti_send(world, &small, 1, 2, NULL));
        require_ok(tutti_work_wait(work, 0));
        tutti_work_free(work);
    } else if (rank == 1) {
        require_ok(tutti_recv(world, &small, 0, 2, NULL, NULL));
        check_eq(word, 40);
        require_ok(tutti_recv(world, &big, 0, 1, NULL, NULL));
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
    free(large);
}

RANK_CASE(what_was_sent_arrives_although_the_sender_leaves_at_once)
{
    tutti_group *world = rank_init(NULL);
    int64_t shape;
    int32_t word = rank;
    tutti_tensor t = tensor_of(&word, TUTTI_I32, &shape, 1);

    if (rank) {
        for (int i = 0; i < 20; i++)
            require_ok(tutti_send(world, &t, 0, 3, NULL));
    } else {
        rank_sleep_ms(50);
        for (int i = 0; i < 20 * (size - 1); i++)
            require_ok(tutti_recv(world, &t, TUTTI_ANY_SOURCE, 3, NULL, NULL));
        /* and now no rank is left that could send */
        check_status(tutti_recv(world, &t, TUTTI_ANY_SOURCE, 3, NULL, NULL), TUTTI_ERR_PEER_LOST);
        check_contains(tutti_last_error(), "every other member left");
        check_status(tutti_barrier(world, NULL, NULL), TUTTI_ERR_PEER_LOST);
        check_contains(tutti_last_error(), "left after #0");
    }
    tutti_group_destroy(world);
}

RANK_CASE(messages_of_another_size_are_an_error_of_that_receive_alone)
{
    tutti_group *world = rank_init(NULL);
    int64_t shape;
    int32_t words[4] = {1, 2, 3, 4};
    tutti_tensor four = tensor_of(words, TUTTI_I32, &shape, 4);

    if (rank == 0) {
        require_ok(tutti_send(world, &four, 1, 1, NULL));
        require_ok(tutti_send(world, &four, 1, 1, NULL));
    } else if (rank == 1) {
        int64_t other;
        tutti_tensor two = tensor_of(words, TUTTI_I32, &other, 2);

        check_status(tutti_recv(world, &two, 0, 1, NULL, NULL), TUTTI_ERR_MISMATCH);
        check_contains(tutti_last_error(), "16");
        check_contains(tutti_last_error(), "8");
        check_ok(tutti_recv(world, &four, 0, 1, NULL, NULL));
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_receive_that_times_out_leaves_the_group_alone)
{
    tutti_group *world = rank_init(NULL);
    tutti_options options = TUTTI_OPTIONS_INIT;
    int64_t shape;
    int32_t word = rank;
    tutti_tensor t = tensor_of(&word, TUTTI_I32, &shape, 1);

    options.timeout_ms = 100;
    if (rank == 0) {
        check_status(tutti_recv(world, &t, 1, 9, &options, NULL), TUTTI_ERR_TIMEOUT);
        check_contains(tutti_last_error(), "rank 1");
    }
    check_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
    check_eq(word, size * (size - 1) / 2);
    check_ok(tutti_group_destroy(world));
}

/* Many collectives in flight, waited for in another order than they were started. */
RANK_CASE(many_works_in_flight_complete_in_any_order_of_waiting)
{
    tutti_group *world = rank_init(NULL);
    static tutti_work *works[MANY];
    static int64_t values[MANY], shapes[MANY];

    for (int i = 0; i < MANY; i++) {
        values[i] = i + rank;
        tutti_tensor t = tensor_of(&values[i], TUTTI_I64, &shapes[i], 1);
        require_ok(tutti_all_reduce(world, &t, i % 3 ? TUTTI_SUM : TUTTI_MAX, NULL, &works[i]));
    }
    for (int k = 0; k < MANY; k++) {
        int i = (k * 7 + rank * 13) % MANY;
        int32_t done = 0;

        while (k % 5 == 0 && !done)
            require_ok(tutti_work_test(works[i], &done));
        require_ok(tutti_work_wait(works[i], 0));
        check_str_eq(tutti_work_error(works[i]), "");
    }
    for (int i = 0; i < MANY; i++) {
        check_eq(values[i], i % 3 ? (int64_t)i * size + size * (size - 1) / 2 : i + size - 1);
        tutti_work_free(works[i]);
    }
    check_ok(tutti_group_destroy(world));
}

static _Atomic int called;
static _Atomic int wrong_thread;
static pthread_t main_thread;

static void on_done(tutti_work *work, tutti_status status, void *user)
{
    (void)status;
    if (pthread_equal(pthread_self(), main_thread))
        atomic_fetch_add(&wrong_thread, 1);
    atomic_fetch_add(&called, *(int *)user);
    tutti_work_free(work);
}

/* Nobody waits: the engine thread goes on, and calls back once. */
RANK_CASE(callbacks_come_once_and_need_no_waiter)
{
    tutti_group *world = rank_init(NULL);
    int64_t shape;
    int32_t word = 1;
    int one = 1, thousand = 1000;
    tutti_tensor t = tensor_of(&word, TUTTI_I32, &shape, 1);
    tutti_work *work;

    main_thread = pthread_self();
    require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, &work));
    require_ok(tutti_work_then(work, on_done, &one));
    for (int i = 0; i < 5000 && atomic_load(&called) != 1; i++)
        rank_sleep_ms(1);
    check_eq(atomic_load(&called), 1);
    check_eq(word, size);

    require_ok(tutti_barrier(world, NULL, &work));
    require_ok(tutti_work_wait(work, 0));
    require_ok(tutti_work_then(work, on_done, &thousand)); /* it is complete already */
    for (int i = 0; i < 5000 && atomic_load(&called) != 1001; i++)
        rank_sleep_ms(1);
    check_eq(atomic_load(&called), 1001);
    check_eq(atomic_load(&wrong_thread), 0);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(the_event_descriptor_tells_of_completion)
{
    tutti_group *world = rank_init(NULL);
    tutti_work *work;
    int fd = -1;
    int32_t done = 0;

    require_ok(tutti_context_fd(NULL, &fd));
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    check_eq(poll(&wait, 1, 0), 0);
    if (rank == 0)
        rank_sleep_ms(30);
    require_ok(tutti_barrier(world, NULL, &work));
    require_ok(tutti_work_watch(work));
    while (!done) {
        require(poll(&wait, 1, 10000) == 1);
        require_ok(tutti_dispatch(NULL));
        require_ok(tutti_work_test(work, &done));
    }
    check_eq(poll(&wait, 1, 0), 0);
    tutti_work_free(work);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_wait_that_ends_early_changes_nothing)
{
    tutti_group *world = rank_init(NULL);
    int32_t word = rank;
    int64_t shape;
    tutti_tensor t = tensor_of(&word, TUTTI_I32, &shape, 1);
    tutti_work *work;

    for (int r = 1; rank == 0 && r < size; r++) /* stays away until all others have timed out */
        require_ok(tutti_recv(world, &t, r, 1, NULL, NULL));
    require_ok(tutti_barrier(world, NULL, &work));
    if (rank) {
        check_status(tutti_work_wait(work, 20), TUTTI_ERR_NOT_READY);
        require_ok(tutti_send(world, &t, 0, 1, NULL));
    }
    check_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_work_may_outlive_its_group_and_a_handle_its_use)
{
    tutti_group *world = rank_init(NULL);
    tutti_work *kept, *dropped;
    int32_t done = 0;

    require_ok(tutti_barrier(world, NULL, &kept));
    require_ok(tutti_barrier(world, NULL, &dropped));
    tutti_work_free(dropped); /* detached: it goes on */
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
    check_ok(tutti_work_test(kept, &done));
    check_eq(done, 1);
    check_ok(tutti_work_wait(kept, 0));
    tutti_work_free(kept);
}

/* Groups one after the other in one process, each with what it needs of its own. */
RANK_CASE(init_and_destroy_again_and_again)
{
    for (int i = 0; i < 5; i++) {
        tutti_group *world = rank_init(NULL);
        int64_t shape;
        double value = rank;
        tutti_tensor t = tensor_of(&value, TUTTI_F64, &shape, 1);

        check_ok(tutti_all_reduce(world, &t, TUTTI_AVG, NULL, NULL));
        check_near(value, (size - 1) / 2.0, 1e-12);
        check_ok(tutti_group_destroy(world));
    }
}

/* Ends with broadcasts, so that members leave while what they sent is still on its way to others,
 * which send credit to members that have left. TUTTI_TEST_ROUNDS groups, one after the other. */
static void broadcast_and_leave(int rank, uint32_t *values)
{
    enum { BROADCASTS = 5, ELEMENTS = 300000 };
    tutti_group *world = rank_init(NULL);
    int64_t shape;
    uint32_t one = (uint32_t)rank;
    tutti_tensor large = tensor_of(values, TUTTI_U32, &shape, ELEMENTS);

    for (uint32_t b = 0; b < BROADCASTS; b++) {
        for (uint32_t i = 0; i < ELEMENTS; i++)
            values[i] = rank ? 0 : b * ELEMENTS + i;
        require_ok(tutti_broadcast(world, &large, 0, NULL, NULL));
        check_eq(values[0], b * ELEMENTS);
        check_eq(values[ELEMENTS - 1], (b + 1) * ELEMENTS - 1);
    }
    int64_t shape_of_one;
    tutti_tensor t = tensor_of(&one, TUTTI_U32, &shape_of_one, 1);
    require_ok(tutti_all_reduce(world, &t, TUTTI_MAX, NULL, NULL));
    require_ok(tutti_broadcast(world, &large, 0, NULL, NULL));
    require_ok(tutti_group_destroy(world));
}

RANK_CASE(last_broadcasts_arrive_although_members_leave_at_once)
{
    const char *rounds = getenv("TUTTI_TEST_ROUNDS");
    uint32_t *values = malloc(300000 * sizeof *values);

    require(values != NULL);
    for (int i = rounds ? atoi(rounds) : 1; i > 0; i--)
        broadcast_and_leave(rank, values);
    free(values);
}

/* One thread waits in a collective while another exchanges messages on the same group. */
static void *talk(void *argument)
{
    tutti_group *world = argument;
    int rank = tutti_group_rank(world), size = tutti_group_size(world);
    static _Atomic int ok;

    for (int i = 0; i < 200; i++) {
        int64_t shapes[2];
        int32_t out = i, in = -1;
        tutti_tensor s = tensor_of(&out, TUTTI_I32, &shapes[0], 1);
        tutti_tensor r = tensor_of(&in, TUTTI_I32, &shapes[1], 1);
        tutti_work *work;

        if (tutti_isend(world, &s, (rank + 1) % size, (uint64_t)i, NULL, &work) ||
            tutti_recv(world, &r, (rank - 1 + size) % size, (uint64_t)i, NULL, NULL) ||
            tutti_work_wait(work, 0) || in != i)
            return NULL;
        tutti_work_free(work);
    }
    return &ok;
}

RANK_CASE(threads_share_a_group)
{
    tutti_group *world = rank_init(NULL);
    pthread_t thread;
    void *result = NULL;
    int64_t shape;
    int32_t word;
    tutti_tensor t = tensor_of(&word, TUTTI_I32, &shape, 1);

    require(!pthread_create(&thread, NULL, talk, world));
    for (int i = 0; i < 300; i++) {
        word = i;
        require_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL));
        check_eq(word, i * size);
    }
    pthread_join(thread, &result);
    check(result != NULL);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(wrong_arguments_are_refused_in_words)
{
    tutti_group *world = rank_init(NULL);
    tutti_options options = TUTTI_OPTIONS_INIT;
    int64_t shape, strides = 0;
    float data[8] = {0};
    tutti_tensor t = tensor_of(data, TUTTI_F32, &shape, 4), bad = t;

    check_status(tutti_all_reduce(NULL, &t, TUTTI_SUM, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_all_reduce(world, NULL, TUTTI_SUM, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_all_reduce(world, &t, 63, NULL, NULL), TUTTI_ERR_UNSUPPORTED);
    check_status(tutti_all_reduce(world, &t, 99, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    bad.dtype = 0x1234;
    check_status(tutti_all_reduce(world, &bad, TUTTI_SUM, NULL, NULL), TUTTI_ERR_UNSUPPORTED);
    bad = t;
    bad.strides = &strides;
    check_status(tutti_all_reduce(world, &bad, TUTTI_SUM, NULL, NULL), TUTTI_ERR_UNSUPPORTED);
    bad = t;
    bad.device.type = 10; /* no device that tutti knows */
    check_status(tutti_all_reduce(world, &bad, TUTTI_SUM, NULL, NULL), TUTTI_ERR_UNSUPPORTED);
    check_status(tutti_broadcast(world, &t, size, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "root");
    check_status(tutti_broadcast(world, &t, -1, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_send(world, &t, size, 0, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_recv(world, &t, 0, UINT64_MAX, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    options.timeout_ms = -1;
    check_status(tutti_barrier(world, &options, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    options.timeout_ms = 0;
    options.struct_size = 0;
    check_status(tutti_barrier(world, &options, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    bad = t;
    bad.data = data + 1;
    check_status(tutti_all_reduce_into(world, &t, &bad, TUTTI_SUM, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "overlap");
    /* None of them had a number: the group is as it was. */
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(the_recorder_and_the_counters_tell_what_happened)
{
    tutti_group *world = rank_init(NULL);
    tutti_record records[8];
    uint32_t count = 0;
    int64_t shape;
    float data[16] = {0};
    tutti_tensor t = tensor_of(data, TUTTI_F32, &shape, 16);
    tutti_traffic traffic = {.struct_size = sizeof traffic};
    tutti_group_info info = {.struct_size = sizeof info};

    require_ok(tutti_all_reduce(world, &t, TUTTI_MAX, NULL, NULL));
    require_ok(tutti_broadcast(world, &t, 1, NULL, NULL));
    require_ok(tutti_barrier(world, NULL, NULL));
    require_ok(tutti_recorder_read(world, records, sizeof *records, 8, &count));
    require(count == 3);
    check_str_eq(records[0].operation, "all_reduce");
    check_eq(records[0].sequence, 1);
    check_eq(records[0].count, 16);
    check_eq(records[0].bytes, 64);
    check_eq(records[0].op, TUTTI_MAX);
    check_eq(records[0].state, 2);
    check_str_eq(records[1].operation, "broadcast");
    check_eq(records[1].peer, 1);
    check_str_eq(records[2].operation, "barrier");
    check_str_eq(records[0].provider, tutti_group_backend(world));
    require_ok(tutti_recorder_read(world, records, sizeof *records, 1, &count));
    check_eq(count, 1);
    check_eq(records[0].sequence, 3);

    require_ok(tutti_group_traffic(world, &traffic));
    if (!strcmp(tutti_group_backend(world), "tcp"))
        check(traffic.sent_bytes >= 64 && traffic.sent_messages >= 1 && !traffic.mapped_bytes);
    else if (!strcmp(tutti_group_backend(world), "shm"))
        check(traffic.mapped_bytes >= 64);
    require_ok(tutti_group_status(world, &info));
    check_eq(info.state, TUTTI_GROUP_READY);
    check_eq(info.completed, 3);
    check_eq(info.culprit, -1);
    check_ok(tutti_group_destroy(world));
}
