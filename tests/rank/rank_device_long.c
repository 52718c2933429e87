/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long tensors on GPUs, whose copies and operation overlap: each operation has the bits that the same one has for
 * tensors in host memory.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/gpu.h"
#include "harness/rank.h"
#include "rank/twins.h"

enum { EACH = 433333 }; /* elements of a block: 1.65 MiB, no multiple of a line */

struct operation {
    const char *name;
    tutti_status (*run)(tutti_group *world, const tutti_tensor *in, const tutti_tensor *out,
                        const tutti_options *options, tutti_work **work);
    bool short_in, short_out; /* one block, where the other side has one for each member */
};

static tutti_status all_reduce(tutti_group *world, const tutti_tensor *in, const tutti_tensor *out,
                               const tutti_options *options, tutti_work **work)
{
    (void)in;
    return tutti_all_reduce(world, out, TUTTI_SUM, options, work);
}

static tutti_status all_reduce_into(tutti_group *world, const tutti_tensor *in,
                                    const tutti_tensor *out, const tutti_options *options,
                                    tutti_work **work)
{
    return tutti_all_reduce_into(world, in, out, TUTTI_AVG, options, work);
}

static tutti_status reduce(tutti_group *world, const tutti_tensor *in, const tutti_tensor *out,
                           const tutti_options *options, tutti_work **work)
{
    (void)in;
    return tutti_reduce(world, out, TUTTI_SUM, 1, options, work);
}

static tutti_status broadcast(tutti_group *world, const tutti_tensor *in, const tutti_tensor *out,
                              const tutti_options *options, tutti_work **work)
{
    (void)in;
    return tutti_broadcast(world, out, 1, options, work);
}

static tutti_status reduce_scatter(tutti_group *world, const tutti_tensor *in,
                                   const tutti_tensor *out, const tutti_options *options,
                                   tutti_work **work)
{
    return tutti_reduce_scatter(world, in, out, TUTTI_SUM, options, work);
}

static tutti_status all_gather(tutti_group *world, const tutti_tensor *in, const tutti_tensor *out,
                               const tutti_options *options, tutti_work **work)
{
    return tutti_all_gather(world, in, out, options, work);
}

static tutti_status all_to_all(tutti_group *world, const tutti_tensor *in, const tutti_tensor *out,
                               const tutti_options *options, tutti_work **work)
{
    return tutti_all_to_all(world, in, out, options, work);
}

static tutti_status all_to_all_in_place(tutti_group *world, const tutti_tensor *in,
                                        const tutti_tensor *out, const tutti_options *options,
                                        tutti_work **work)
{
    (void)in;
    return tutti_all_to_all(world, out, out, options, work);
}

static const struct operation operations[] = {
    {"all_reduce", all_reduce, false, false},
    {"all_reduce_into", all_reduce_into, false, false},
    {"reduce", reduce, false, false},
    {"broadcast", broadcast, false, false},
    {"reduce_scatter", reduce_scatter, false, true},
    {"all_gather", all_gather, true, false},
    {"all_to_all", all_to_all, false, false},
    {"all_to_all in place", all_to_all_in_place, false, false},
};

/* The same operation on the GPU, then on the host; blocking, and by a work. */
static void compare(tutti_group *world, const struct operation *operation, struct twins *in,
                    struct twins *out, void *stream)
{
    tutti_options options = TUTTI_OPTIONS_INIT;

    options.stream = stream;
    for (int asynchronous = 0; asynchronous < 2; asynchronous++) {
        tutti_work *work = NULL;

        require_ok(operation->run(world, &in->device, &out->device, &options,
                                  asynchronous ? &work : NULL));
        if (asynchronous) {
            check_ok(tutti_work_wait(work, 0));
            tutti_work_free(work);
        } else {
            gpu_synchronize(stream);
        }
        require_ok(operation->run(world, &in->host, &out->host, NULL, NULL));
        twins_check(out, operation->name);
    }
}

RANK_CASE(long_tensors_on_gpus_get_the_bits_of_host_tensors)
{
    tutti_group *world = twins_begin(rank);
    void *stream = gpu_stream();

    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        const struct operation *operation = &operations[i];
        struct twins in, out;

        twins_make(&in, (int64_t)EACH * (operation->short_in ? 2 : 2 * size), rank);
        twins_make(&out, (int64_t)EACH * (operation->short_out ? 2 : 2 * size), 100 + rank);
        compare(world, operation, &in, &out, stream);
        twins_free(&in);
        twins_free(&out);
    }
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(long_tensors_of_gpus_and_hosts_meet)
{
    tutti_group *world = twins_begin(rank);
    struct twins t;

    twins_make(&t, (int64_t)EACH * 4, rank);
    check_ok(tutti_all_reduce(world, rank % 2 ? &t.host : &t.device, TUTTI_SUM, NULL, NULL));
    gpu_synchronize(NULL);
    if (rank % 2)
        gpu_write(t.on_device, t.on_host, (size_t)t.count * sizeof *t.on_host);
    else
        gpu_read(t.on_host, t.on_device, (size_t)t.count * sizeof *t.on_host);
    check_ok(tutti_broadcast(world, &t.host, 0, NULL, NULL)); /* what rank 0 got */
    twins_check(&t, "all_reduce");
    twins_free(&t);
    check_ok(tutti_group_destroy(world));
}

/* A long matrix, as its transpose. */
RANK_CASE(long_tensors_with_strides_are_moved_in_pieces)
{
    tutti_group *world = twins_begin(rank);
    struct twins t;
    const int64_t extents[2] = {1021, 1900}, strides[2] = {1, 1021};

    twins_make(&t, extents[0] * extents[1], rank);
    tutti_tensor on_device = t.device, on_host = t.host;
    on_device.ndim = on_host.ndim = 2;
    on_device.shape = on_host.shape = extents;
    on_device.strides = on_host.strides = strides;
    check_ok(tutti_all_reduce(world, &on_device, TUTTI_SUM, NULL, NULL));
    gpu_synchronize(NULL);
    check_ok(tutti_all_reduce(world, &on_host, TUTTI_SUM, NULL, NULL));
    twins_check(&t, "all_reduce");
    twins_free(&t);
    check_ok(tutti_group_destroy(world));
}

/* Kernels for strides are needed first while a stream waits for a message, on each rank from itself. */
RANK_CASE(kernels_are_loaded_once_no_stream_waits_for_a_work)
{
    const int64_t extents[2] = {30, 20}, strides[2] = {1, 30};
    tutti_group *world = twins_begin(rank);
    tutti_options options = TUTTI_OPTIONS_INIT;
    void *stream = gpu_stream();
    struct twins message, t;
    tutti_work *work;

    twins_make(&message, 4, rank);
    twins_make(&t, extents[0] * extents[1], rank);
    tutti_tensor transposed = t.device;
    transposed.ndim = 2;
    transposed.shape = extents;
    transposed.strides = strides;
    require_ok(tutti_irecv(world, &message.device, rank, 1, NULL, &work));
    check_ok(tutti_work_wait_stream(work, stream));
    options.timeout_ms = 100;
    check_status(tutti_all_reduce(world, &transposed, TUTTI_SUM, &options, NULL),
                 TUTTI_ERR_TIMEOUT);
    check_contains(tutti_last_error(), "a stream waits for a work");
    check_ok(tutti_send(world, &message.device, rank, 1, NULL));
    check_ok(rank_end_works(&work, 1, TUTTI_OK));
    check_ok(tutti_all_reduce(world, &transposed, TUTTI_SUM, NULL, NULL));
    gpu_synchronize(NULL);
    check_ok(tutti_all_reduce(world, &t.host, TUTTI_SUM, NULL, NULL));
    twins_check(&t, "all_reduce of a transposed matrix");
    twins_free(&message);
    twins_free(&t);
    check_ok(tutti_group_destroy(world));
}

/* More streams than the GPU has hardware queues: those for which there is none wait on the host. */
RANK_CASE(more_streams_than_queues_wait_for_a_work)
{
    enum { STREAMS = 12 };
    tutti_group *world = twins_begin(rank);
    struct twins t;
    void *streams[STREAMS];
    tutti_work *work;

    twins_make(&t, EACH, 1);
    require_ok(tutti_all_reduce(world, &t.device, TUTTI_MAX, NULL, NULL));
    gpu_synchronize(NULL);
    if (rank == 0) {
        memset(t.read, 0, EACH * sizeof *t.read);
        gpu_write(t.on_device, t.read, EACH * sizeof *t.read);
        require_ok(tutti_irecv(world, &t.device, 1, 1, NULL, &work));
        for (int i = 0; i < STREAMS; i++) {
            streams[i] = gpu_stream();
            require_ok(tutti_work_wait_stream(work, streams[i]));
        }
        for (int i = 0; i < STREAMS; i++)
            gpu_synchronize(streams[i]);
        check_ok(tutti_work_wait(work, 0));
        tutti_work_free(work);
        twins_check(&t, "received");
    } else {
        rank_sleep_ms(300);
        check_ok(tutti_send(world, &t.device, 0, 1, NULL));
    }
    twins_free(&t);
    check_ok(tutti_group_destroy(world));
}

/* ---- pinned memory, of which calls may use 4 MiB ---- */

RANK_CASE(calls_wait_for_pinned_memory_that_others_use)
{
    enum { WORKS = 6, COUNT = 1 << 19 }; /* of 2 MiB */
    tutti_group *world = twins_begin(rank);
    struct twins t[WORKS], longer;
    tutti_work *works[WORKS];

    for (int i = 0; i < WORKS; i++) {
        twins_make(&t[i], COUNT, rank + i);
        require_ok(tutti_all_reduce(world, &t[i].device, TUTTI_MAX, NULL, &works[i]));
    }
    for (int i = 0; i < WORKS; i++) {
        check_ok(tutti_work_wait(works[i], 0));
        tutti_work_free(works[i]);
        require_ok(tutti_all_reduce(world, &t[i].host, TUTTI_MAX, NULL, NULL));
        twins_check(&t[i], "all_reduce");
        twins_free(&t[i]);
    }
    twins_make(&longer, 4 * COUNT, rank);
    check_status(rank ? tutti_recv(world, &longer.device, 0, 1, NULL, NULL)
                      : tutti_send(world, &longer.device, 1, 1, NULL),
                 TUTTI_ERR_NO_MEMORY);
    check_contains(tutti_last_error(), "takes 8 MiB of pinned memory, more than calls may use");
    check_ok(tutti_barrier(world, NULL, NULL)); /* nothing was exchanged */
    check_status(tutti_all_reduce(world, &longer.device, TUTTI_MAX, NULL, NULL),
                 TUTTI_ERR_NO_MEMORY);
    check_contains(tutti_last_error(), "TUTTI_PINNED_MIB");
    twins_free(&longer);
    check_status(tutti_group_destroy(world), TUTTI_ERR_NO_MEMORY);
}

/* ---- failure ---- */

/* Rank 1 stops while the others wait for it; what they hear must be the same. */
RANK_CASE(no_stream_waits_for_ever_when_a_rank_is_stopped)
{
    tutti_group *world = twins_begin(rank);
    void *stream = gpu_stream();
    tutti_options options = TUTTI_OPTIONS_INIT;
    tutti_work *works[2];
    struct twins t, in;

    twins_make(&t, EACH, rank);
    twins_make(&in, EACH, rank);
    require_ok(tutti_all_reduce(world, &t.device, TUTTI_MAX, NULL, NULL));
    gpu_synchronize(NULL);
    if (rank == 1)
        raise(SIGSTOP);
    options.timeout_ms = 1500;
    require_ok(tutti_all_reduce(world, &t.device, TUTTI_MAX, &options, &works[0]));
    require_ok(tutti_irecv(world, &in.device, 1, 1, &options, &works[1]));
    for (int i = 0; i < 2; i++)
        check_ok(tutti_work_wait_stream(works[i], stream));
    gpu_synchronize(stream);
    for (int i = 0; i < 2; i++) {
        check_status(tutti_work_wait(works[i], 0), TUTTI_ERR_TIMEOUT);
        check_contains(tutti_last_error(), "rank 1");
        tutti_work_free(works[i]);
    }
    check_status(tutti_all_reduce(world, &t.device, TUTTI_MAX, NULL, NULL), TUTTI_ERR_TIMEOUT);
    rank_value("words", "%s", tutti_last_error());
    twins_free(&t);
    twins_free(&in);
    check_status(tutti_group_destroy(world), TUTTI_ERR_TIMEOUT);
}

static void *lose_soon(void *path)
{
    rank_sleep_ms(300);
    FILE *file = fopen(path, "we");
    require(file);
    fclose(file);
    return NULL;
}

/* Copies are slow: those back of two broadcasts still take all the memory when the third one is called. */
RANK_CASE(a_call_that_waits_for_pinned_memory_hears_of_a_lost_gpu)
{
    enum { CALLS = 3, COUNT = 1 << 19 }; /* of 2 MiB */
    static float host[COUNT];
    char path[512];
    tutti_status status = TUTTI_OK;
    pthread_t loser;
    int64_t shape;

    require(getenv("TMPDIR"));
    snprintf(path, sizeof path, "%s/lost", getenv("TMPDIR"));
    setenv("STANDIN_CUDA_LOST_FILE", path, 1);
    tutti_group *world = twins_begin(rank);
    for (int i = 0; i < CALLS && !status; i++) {
        tutti_tensor tensor = tutti_tensor_1d(host, TUTTI_F32, &shape, COUNT);

        if (rank) {
            tensor.data = gpu_allocate(sizeof host);
            tensor.device = gpu_device();
        }
        if (rank && i == CALLS - 1)
            require(!pthread_create(&loser, NULL, lose_soon, path));
        const int64_t before = rank_now_ns();
        status = tutti_broadcast(world, &tensor, 0, NULL, NULL);
        rank_value("ms", "%lld", (long long)((rank_now_ns() - before) / 1000000));
        if (!rank && i == CALLS - 1) /* it only gives */
            status = tutti_barrier(world, NULL, NULL);
    }
    check_status(status, TUTTI_ERR_SYSTEM);
    check_contains(tutti_last_error(), "CUDA_ERROR");
    if (rank)
        pthread_join(loser, NULL);
    check_status(tutti_group_destroy(world), TUTTI_ERR_SYSTEM);
}

static void *die_soon(void *unused)
{
    rank_sleep_ms(200);
    kill(getpid(), SIGKILL);
    return unused;
}

/* Rank 1 kills itself while all reduce long tensors, and streams wait for that. */
RANK_CASE(a_rank_that_is_killed_in_an_all_reduce_ends_it_on_all)
{
    tutti_group *world = twins_begin(rank);
    void *stream = gpu_stream(), *other = gpu_stream();
    tutti_options options = TUTTI_OPTIONS_INIT;
    tutti_status status = TUTTI_OK;
    struct twins t;
    pthread_t killer;

    options.stream = stream;
    twins_make(&t, (int64_t)EACH * 6, rank);
    require_ok(tutti_all_reduce(world, &t.device, TUTTI_MAX, &options, NULL));
    gpu_synchronize(stream);
    if (rank == 1)
        require(!pthread_create(&killer, NULL, die_soon, NULL));
    for (int i = 0; i < 100000 && !status; i++) {
        tutti_work *work = NULL;

        status = tutti_all_reduce(world, &t.device, TUTTI_MAX, &options, i % 2 ? &work : NULL);
        if (!work)
            continue;
        check_ok(tutti_work_wait_stream(work, other));
        gpu_synchronize(other);
        status = tutti_work_wait(work, 0);
        tutti_work_free(work);
    }
    check_status(status, TUTTI_ERR_PEER_LOST);
    check_contains(tutti_last_error(), "rank 1");
    check_status(tutti_all_reduce(world, &t.device, TUTTI_MAX, NULL, NULL), TUTTI_ERR_PEER_LOST);
    rank_value("words", "%s", tutti_last_error());
    gpu_synchronize(stream);
    gpu_synchronize(other);
    check_status(tutti_group_destroy(world), TUTTI_ERR_PEER_LOST);
    twins_free(&t);
}
