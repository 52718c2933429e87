/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of tensors on GPUs: long ones, which are copied in pieces while they are on their way, and those that come
 * before the stream of their receive does, or are shorter than its tensor. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "rank/twins.h"

enum { LONG = 1300001 }; /* elements: 4.96 MiB, no multiple of a line */

static tutti_options on(void *stream)
{
    tutti_options options = TUTTI_OPTIONS_INIT;

    options.stream = stream;
    return options;
}

/* What the twins of another rank begin with. */
static void expect_of(struct twins *t, int salt)
{
    float *on_device = t->on_device;

    t->on_device = gpu_allocate((size_t)t->count * sizeof *t->on_host);
    twins_fill(t, salt);
    gpu_free(t->on_device);
    t->on_device = on_device;
}

/* Around a ring: by works, with a stream or not, and blocking. Every second rank has its tensors in host memory where
 * `mixed`. */
static void pass_around(tutti_group *world, int rank, int size, bool mixed,
                        const tutti_options *options)
{
    const int next = (rank + 1) % size, before = (rank - 1 + size) % size;
    const bool on_host = mixed && rank % 2;
    struct twins out, in;
    tutti_work *works[2] = {NULL};

    twins_make(&out, LONG, rank);
    twins_make(&in, LONG, 1000 + rank);
    const tutti_tensor *from = on_host ? &out.host : &out.device;
    const tutti_tensor *to = on_host ? &in.host : &in.device;
    if (on_host)
        options = NULL;
    for (uint64_t tag = 0; tag < 2; tag++) {
        require_ok(tutti_isend(world, from, next, tag, options, &works[0]));
        require_ok(tutti_irecv(world, to, before, tag, options, &works[1]));
        check_ok(rank_end_works(works, 2, TUTTI_OK));
        check_ok(tutti_sendrecv(world, from, next, 7, to, before, 7, options, NULL));
        gpu_synchronize(options ? options->stream : NULL);
        if (on_host)
            gpu_write(in.on_device, in.on_host, (size_t)in.count * sizeof *in.on_host);
        expect_of(&in, before);
        twins_check(&in, "received");
        if (!on_host)
            twins_fill(&in, 1000 + rank);
    }
    twins_free(&out);
    twins_free(&in);
}

RANK_CASE(long_messages_between_gpus_and_hosts_bring_every_element)
{
    tutti_group *world = twins_begin(rank);
    const tutti_options options = on(gpu_stream());

    pass_around(world, rank, size, false, NULL);
    pass_around(world, rank, size, false, &options);
    pass_around(world, rank, size, true, &options);
    check_ok(tutti_group_destroy(world));
}

/* A matrix by its transpose: element (r, c) lies at r + c * ROWS. */
enum { ROWS = 1021, COLUMNS = 1300 };
static const int64_t extents[2] = {ROWS, COLUMNS}, strides[2] = {1, ROWS};

static tutti_tensor turned_of(const struct twins *t)
{
    tutti_tensor turned = t->device;

    turned.ndim = 2;
    turned.shape = extents;
    turned.strides = strides;
    return turned;
}

/* Received into a matrix by its transpose, which is sent on to oneself. */
RANK_CASE(long_messages_with_strides_and_to_oneself_are_right)
{
    tutti_group *world = twins_begin(rank);
    const int other = 1 - rank;
    struct twins out, in, again;
    tutti_work *works[2];

    twins_make(&out, (int64_t)ROWS * COLUMNS, rank);
    twins_make(&in, (int64_t)ROWS * COLUMNS, 5);
    twins_make(&again, (int64_t)ROWS * COLUMNS, 6);
    const tutti_tensor turned = turned_of(&in);
    require_ok(tutti_isend(world, &out.device, other, 1, NULL, &works[0]));
    require_ok(tutti_irecv(world, &turned, other, 1, NULL, &works[1]));
    check_ok(rank_end_works(works, 2, TUTTI_OK));
    require_ok(tutti_isend(world, &turned, rank, 2, NULL, &works[0]));
    require_ok(tutti_irecv(world, &again.device, rank, 2, NULL, &works[1]));
    check_ok(rank_end_works(works, 2, TUTTI_OK));
    expect_of(&again, other);
    twins_check(&again, "turned twice");
    twins_free(&out);
    twins_free(&in);
    twins_free(&again);
    check_ok(tutti_group_destroy(world));
}

/* ---- a receive is posted before its stream has come to it ---- */

static uint8_t byte_of(uint64_t at)
{
    return (uint8_t)(at % 251);
}

static void send_bytes(tutti_group *world, uint64_t bytes)
{
    uint8_t *data = malloc(bytes);
    int64_t shape;
    tutti_work *work;

    require(data);
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = byte_of(i);
    const tutti_tensor tensor = tutti_tensor_1d(data, TUTTI_U8, &shape, (int64_t)bytes);
    require_ok(tutti_isend(world, &tensor, 1, 1, NULL, &work));
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(rank_end_works(&work, 1, TUTTI_OK));
    free(data);
}

/* The message comes while the stream is held, and ends inside of an element. */
static void receive_bytes(tutti_group *world, struct twins *t, bool is_turned, uint64_t bytes)
{
    const tutti_tensor turned = turned_of(t);
    const tutti_options options = on(gpu_stream());
    tutti_work_info info = {.struct_size = sizeof info};
    tutti_work *work;

    struct gpu_hold *hold = gpu_hold(options.stream);
    require_ok(tutti_irecv_up_to(world, is_turned ? &turned : &t->device, 0, 1, &options, &work));
    check_ok(tutti_barrier(world, NULL, NULL));
    rank_sleep_ms(50);
    gpu_let_go(hold);
    check_ok(tutti_work_wait(work, 0));
    check_ok(tutti_work_result(work, &info));
    check_eq(info.bytes, bytes);
    tutti_work_free(work);
    for (uint64_t i = 0; i < bytes; i++) {
        const uint64_t k = i / sizeof *t->on_host;
        const uint64_t at = is_turned ? k / COLUMNS + k % COLUMNS * ROWS : k;

        ((uint8_t *)&t->on_host[at])[i % sizeof *t->on_host] = byte_of(i);
    }
    twins_check(t, "received");
}

RANK_CASE(a_shorter_message_leaves_the_rest_of_a_gpu_tensor_as_it_is)
{
    static const uint64_t lengths[] = {1003, (3 << 20) + 5};
    tutti_group *world = twins_begin(rank);
    struct twins t;

    twins_make(&t, (int64_t)ROWS * COLUMNS, rank);
    const tutti_tensor turned = turned_of(&t);
    require_ok(tutti_all_reduce(world, &turned, TUTTI_MIN, NULL, NULL)); /* loads kernels */
    gpu_synchronize(NULL);
    gpu_read(t.on_host, t.on_device, (size_t)t.count * sizeof *t.on_host);
    for (int i = 0; i < 4; i++) {
        if (rank == 1)
            receive_bytes(world, &t, i % 2, lengths[i / 2]);
        else
            send_bytes(world, lengths[i / 2]);
    }
    twins_free(&t);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_receive_into_pinned_memory_waits_for_its_stream)
{
    enum { COUNT = 1000 };
    tutti_group *world = twins_begin(rank);
    const tutti_options options = on(gpu_stream());
    int32_t *pinned = gpu_allocate_pinned(COUNT * sizeof *pinned);
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(pinned, TUTTI_I32, &shape, COUNT);
    tutti_work *work;

    tensor.device.type = TUTTI_DEVICE_CUDA_HOST;
    for (int i = 0; i < COUNT; i++)
        pinned[i] = 1000 * rank + i;
    struct gpu_hold *hold = gpu_hold(options.stream);
    if (rank)
        require_ok(tutti_irecv(world, &tensor, 0, 1, &options, &work));
    else
        require_ok(tutti_isend(world, &tensor, 1, 1, NULL, &work));
    check_ok(tutti_barrier(world, NULL, NULL));
    rank_sleep_ms(50);
    for (int i = 0; i < COUNT; i++)
        check_eq(pinned[i], 1000 * rank + i);
    gpu_let_go(hold);
    check_ok(rank_end_works(&work, 1, TUTTI_OK));
    for (int i = 0; i < COUNT; i++)
        check_eq(pinned[i], i);
    check_ok(tutti_group_destroy(world));
}

/* ---- failures ---- */

static void *die_soon(void *world)
{
    rank_sleep_ms(300);
    kill(getpid(), SIGKILL);
    return world;
}

static void *stop_soon(void *world)
{
    rank_sleep_ms(300);
    kill(getpid(), SIGSTOP);
    return world;
}

static void *abort_soon(void *world)
{
    rank_sleep_ms(300);
    check_ok(tutti_group_abort(world, "the loss of rank 1 is not finite"));
    return NULL;
}

/* Copies are slow, so rank 1 is lost in the middle of the message that it sends to all others. */
static void lose_in_a_message(int rank, int size, void *(*lose)(void *world), tutti_status status)
{
    tutti_group *world = twins_begin(rank);
    tutti_options options = TUTTI_OPTIONS_INIT;
    void *stream = gpu_stream();
    struct twins t;
    pthread_t killer;
    tutti_work *work;

    options.timeout_ms = status == TUTTI_ERR_TIMEOUT ? 1500 : 0;
    twins_make(&t, LONG, rank);
    if (rank == 1) {
        require_ok(tutti_barrier(world, NULL, NULL)); /* the receives are posted */
        require(!pthread_create(&killer, NULL, lose, world));
        for (int to = 0; to < size; to += to ? 1 : 2)
            (void)tutti_send(world, &t.device, to, 1, NULL);
        rank_sleep_ms(60000);
    }
    require_ok(tutti_irecv(world, &t.device, 1, 1, &options, &work));
    check_ok(tutti_work_wait_stream(work, stream));
    (void)tutti_barrier(world, NULL, NULL); /* rank 1 may be gone when it ends */
    gpu_synchronize(stream);
    check_status(tutti_work_wait(work, 0), status);
    check_contains(tutti_last_error(), "rank 1");
    tutti_work_free(work);
    /* A receive whose message has not begun times out alone, and the group then here. */
    check_status(tutti_barrier(world, &options, NULL), status);
    rank_value("words", "%s", tutti_last_error());
    twins_free(&t);
    check_status(tutti_group_destroy(world), status);
}

RANK_CASE(a_rank_that_is_killed_in_a_long_message_ends_it_on_all)
{
    lose_in_a_message(rank, size, die_soon, TUTTI_ERR_PEER_LOST);
}

RANK_CASE(a_rank_that_stops_in_a_long_message_ends_it_on_all)
{
    lose_in_a_message(rank, size, stop_soon, TUTTI_ERR_TIMEOUT);
}

RANK_CASE(a_rank_that_aborts_in_a_long_message_ends_it_on_all)
{
    lose_in_a_message(rank, size, abort_soon, TUTTI_ERR_ABORTED);
}

/* The device of one rank is lost while pieces are copied. */
RANK_CASE(a_gpu_that_is_lost_in_a_long_message_is_told_to_both)
{
    tutti_group *world = twins_begin(rank);
    struct twins t;
    tutti_status status = TUTTI_OK;

    twins_make(&t, LONG, rank);
    status = rank ? tutti_recv(world, &t.device, 0, 1, NULL, NULL)
                  : tutti_send(world, &t.device, 1, 1, NULL);
    if (!status)
        status = tutti_all_reduce(world, &t.device, TUTTI_MAX, NULL, NULL);
    check_status(status, TUTTI_ERR_SYSTEM);
    check_contains(tutti_last_error(), "CUDA_ERROR");
    free(t.on_host);
    free(t.read);
    check_status(tutti_group_destroy(world), TUTTI_ERR_SYSTEM);
}
