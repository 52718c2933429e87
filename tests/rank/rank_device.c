/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on GPUs, over host backends: collectives, messages, streams, refusals. */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/gpu.h"
#include "harness/rank.h"

enum { MANY = 3000 };

/* A vector on the device of this rank, filled with `value`. */
struct vector {
    int32_t *on_device, host[MANY];
    int64_t shape;
    tutti_tensor tensor;
};

static void vector_fill(struct vector *v, int64_t count, int32_t value)
{
    for (int64_t i = 0; i < count; i++)
        v->host[i] = value + (int32_t)i;
    gpu_write(v->on_device, v->host, (size_t)count * sizeof *v->host);
}

static void vector_make(struct vector *v, int64_t count, int32_t value)
{
    v->on_device = gpu_allocate((size_t)count * sizeof *v->host);
    v->tensor = tutti_tensor_1d(v->on_device, TUTTI_I32, &v->shape, count);
    v->tensor.device = gpu_device();
    vector_fill(v, count, value);
}

/* Reads it; whether element i is `value` + `step` * i. */
static void vector_check(struct vector *v, int64_t count, int32_t value, int32_t step)
{
    int64_t i = 0;

    gpu_read(v->host, v->on_device, (size_t)count * sizeof *v->host);
    while (i < count && v->host[i] == value + step * (int32_t)i)
        i++;
    rank_check(RANK_PLACE, i == count, "element %lld is %d instead of %d", (long long)i,
               i < count ? v->host[i] : 0, value + step * (int32_t)i);
}

static tutti_group *begin(int rank)
{
    gpu_use(rank % gpu_count());
    return rank_init(NULL);
}

static tutti_options on(void *stream)
{
    tutti_options options = TUTTI_OPTIONS_INIT;

    options.stream = stream;
    return options;
}

static int32_t sum_of_ranks(int size)
{
    return size * (size - 1) / 2;
}

RANK_CASE(an_all_reduce_of_tensors_on_gpus_gives_the_sum)
{
    tutti_group *world = begin(rank);
    struct vector v;
    void *stream = gpu_stream();
    tutti_options options = on(stream);

    vector_make(&v, MANY, rank);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, NULL, NULL));
    gpu_synchronize(NULL);
    vector_check(&v, MANY, sum_of_ranks(size), size);
    vector_fill(&v, MANY, rank);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_MAX, &options, NULL));
    gpu_synchronize(stream);
    vector_check(&v, MANY, size - 1, 1);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_work_is_complete_when_the_result_is_on_the_gpu)
{
    tutti_group *world = begin(rank);
    enum { WORKS = 20 };
    static struct vector v[WORKS];
    tutti_work *works[WORKS + 1] = {NULL};
    void *stream = gpu_stream();
    tutti_options options = on(stream);

    for (int i = 0; i < WORKS; i++) {
        vector_make(&v[i], 1 + i * 100, rank + i);
        require_ok(tutti_all_reduce(world, &v[i].tensor, TUTTI_SUM, &options, &works[i]));
    }
    require_ok(tutti_work_wait_all(works, WORKS, 0, NULL));
    for (int i = 0; i < WORKS; i++)
        vector_check(&v[i], 1 + i * 100, sum_of_ranks(size) + size * i, size);
    check_ok(rank_end_works(works, WORKS, TUTTI_OK));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_tensor_that_a_stream_writes_late_gives_the_right_sum)
{
    tutti_group *world = begin(rank);
    struct vector v;
    void *stream = gpu_stream();
    tutti_options options = on(stream);
    int32_t *late = gpu_allocate_pinned(MANY * sizeof *late);

    vector_make(&v, MANY, -1000000);
    for (int i = 0; i < MANY; i++)
        late[i] = rank + i;
    struct gpu_hold *hold = gpu_hold(stream);
    gpu_copy_on(stream, v.on_device, late, MANY * sizeof *late);
    tutti_work *work;
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, &work));
    rank_sleep_ms(100);
    gpu_let_go(hold);
    require_ok(tutti_work_wait(work, 0));
    vector_check(&v, MANY, sum_of_ranks(size), size);
    tutti_work_free(work);
    check_ok(tutti_group_destroy(world));
}

/* The hold is a wait for a word. A function of the driver that blocks would block until it is over, and the work would not
 * start at all. */
RANK_CASE(a_work_starts_at_once_while_its_stream_is_held)
{
    tutti_group *world = begin(rank);
    struct vector v;
    void *stream = gpu_stream();
    tutti_options options = on(stream);
    int64_t best = INT64_MAX;

    vector_make(&v, 256, rank);
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, NULL, NULL)); /* the device is open */
    for (int i = 0; i < 5; i++) {
        tutti_work *work;
        struct gpu_hold *hold = gpu_hold(stream);
        const int64_t before = rank_now_ns();

        require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, &work));
        const int64_t took = rank_now_ns() - before;
        int32_t done;
        rank_sleep_ms(200);
        check_ok(tutti_work_test(work, &done));
        check_eq(done, 0);
        gpu_let_go(hold);
        check_ok(tutti_work_wait(work, 0));
        tutti_work_free(work);
        best = took < best ? took : best;
    }
    rank_value("start_us", "%.1f", (double)best / 1e3);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_stream_waits_for_a_work_and_the_host_does_not)
{
    tutti_group *world = begin(rank);
    struct vector v;
    void *stream = gpu_stream(), *other = gpu_stream();
    tutti_options options = on(stream);
    int32_t *copy = gpu_allocate_pinned(MANY * sizeof *copy);
    tutti_work *work;

    vector_make(&v, MANY, rank);
    struct gpu_hold *hold = gpu_hold(stream);
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, &work));
    require_ok(tutti_work_wait_stream(work, other));
    require_ok(tutti_work_wait_stream(work, stream));
    gpu_copy_on(other, copy, v.on_device, MANY * sizeof *copy);
    rank_sleep_ms(20);
    check(!gpu_is_idle(other));
    gpu_let_go(hold);
    gpu_synchronize(other);
    gpu_synchronize(stream);
    for (int i = 0; i < MANY; i++)
        if (!check_eq(copy[i], sum_of_ranks(size) + size * i))
            break;
    check_ok(tutti_work_wait(work, 0));
    check_ok(tutti_work_wait_stream(work, other));
    tutti_work_free(work);
    check_ok(tutti_group_destroy(world));
}

/* Rank 0 by its options, the others by the variable; the local rank would give another. */
RANK_CASE(the_gpu_that_a_rank_names_is_used)
{
    tutti_init_options options = {.struct_size = sizeof options};
    const int number = (rank + 1) % gpu_count();
    tutti_group *world;
    struct vector v;
    char name[24];

    setenv("TUTTI_DEVICE", "cuda:none", 1);
    check_status(tutti_init(NULL, &world), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "a number from 0 to");
    snprintf(name, sizeof name, "cuda:%d", number);
    setenv("TUTTI_DEVICE", name, 1);
    if (rank == 0) {
        setenv("TUTTI_DEVICE", "cuda:7", 1);
        options.device = name;
    }
    gpu_use(number);
    world = rank_init(&options);
    vector_make(&v, 10, rank);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, NULL, NULL));
    gpu_synchronize(NULL);
    vector_check(&v, 10, sum_of_ranks(size), size);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(gpu_and_host_tensors_meet_in_one_call)
{
    tutti_group *world = begin(rank);
    struct vector v;
    int32_t host[64];
    int64_t shape;
    tutti_tensor on_host = tutti_tensor_1d(host, TUTTI_I32, &shape, 64);

    vector_make(&v, 64, rank);
    for (int i = 0; i < 64; i++)
        host[i] = rank + i;
    check_ok(tutti_all_reduce(world, rank % 2 ? &on_host : &v.tensor, TUTTI_SUM, NULL, NULL));
    gpu_synchronize(NULL);
    if (rank % 2)
        check_eq(host[63], sum_of_ranks(size) + 63 * size);
    else
        vector_check(&v, 64, sum_of_ranks(size), size);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(gpu_and_host_tensors_that_go_different_ways_are_a_mismatch)
{
    tutti_group *world = begin(rank);
    struct vector v;
    int32_t host[8] = {0};
    int64_t shape;
    tutti_tensor on_host = tutti_tensor_1d(host, TUTTI_I32, &shape, 8);

    vector_make(&v, 8, rank);
    check_status(tutti_all_reduce(world, rank ? &v.tensor : &on_host, TUTTI_SUM, NULL, NULL),
                 TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "tensors on a device");
    check_status(tutti_group_destroy(world), TUTTI_ERR_MISMATCH);
}

RANK_CASE(blocks_lists_and_strides_on_gpus_are_moved)
{
    tutti_group *world = begin(rank);
    struct vector own, all, turned;
    int64_t counts[16];
    int32_t *rows[16];
    tutti_tensor tensors[16];
    const tutti_tensor *list[16];

    vector_make(&own, 10, 1000 * rank);
    vector_make(&all, 10 * size, -1);
    check_ok(tutti_all_gather(world, &own.tensor, &all.tensor, NULL, NULL));
    gpu_synchronize(NULL);
    gpu_read(all.host, all.on_device, (size_t)size * 10 * sizeof(int32_t));
    for (int i = 0; i < 10 * size; i++)
        check_eq(all.host[i], 1000 * (i / 10) + i % 10);
    for (int r = 0; r < size; r++) {
        counts[r] = 10;
        rows[r] = gpu_allocate(10 * sizeof(int32_t));
        tensors[r] = own.tensor;
        tensors[r].data = rows[r];
        list[r] = &tensors[r];
    }
    check_ok(tutti_all_gather_list(world, &own.tensor, list, NULL, NULL));
    gpu_synchronize(NULL);
    gpu_read(all.host, rows[size - 1], 10 * sizeof(int32_t));
    check_eq(all.host[9], 1000 * (size - 1) + 9);
    check_ok(tutti_all_gather_v(world, &own.tensor, &all.tensor, counts, NULL, NULL, NULL));
    check_ok(tutti_all_to_all(world, &all.tensor, &all.tensor, NULL, NULL));
    check_ok(tutti_reduce_scatter(world, &all.tensor, &own.tensor, TUTTI_SUM, NULL, NULL));
    gpu_synchronize(NULL);
    /* A matrix of 5 x 2, as its transpose. */
    const int64_t extents[2] = {5, 2}, strides[2] = {1, 5};
    vector_make(&turned, 10, rank);
    tutti_tensor transposed = turned.tensor;
    transposed.ndim = 2;
    transposed.shape = extents;
    transposed.strides = strides;
    check_ok(tutti_all_reduce(world, &transposed, TUTTI_SUM, NULL, NULL));
    gpu_synchronize(NULL);
    vector_check(&turned, 10, sum_of_ranks(size), size);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(messages_between_gpus_keep_their_order_while_a_stream_is_held)
{
    tutti_group *world = begin(rank);
    struct vector first, second, in;
    int32_t host = -1;
    int64_t shape;
    tutti_tensor on_host = tutti_tensor_1d(&host, TUTTI_I32, &shape, 1);
    void *stream = gpu_stream();
    tutti_options options = on(stream);
    const int next = (rank + 1) % size, before = (rank - 1 + size) % size;
    tutti_work *works[8] = {NULL};

    vector_make(&first, MANY, rank);
    vector_make(&second, 1, 100 + rank);
    vector_make(&in, MANY, -1);
    struct gpu_hold *hold = gpu_hold(stream);
    require_ok(tutti_isend(world, &first.tensor, next, 5, &options, &works[0]));
    require_ok(tutti_isend(world, &second.tensor, next, 5, NULL, &works[1]));
    require_ok(tutti_irecv(world, &in.tensor, before, 5, NULL, &works[2]));
    require_ok(tutti_irecv(world, &on_host, before, 5, NULL, &works[3]));
    rank_sleep_ms(50);
    int32_t done;
    check_ok(tutti_work_test(works[3], &done));
    check_eq(done, 0);
    check_ok(tutti_barrier(world, NULL, NULL)); /* all streams are held until here */
    gpu_let_go(hold);
    check_ok(rank_end_works(works, 4, TUTTI_OK));
    vector_check(&in, MANY, before, 1);
    check_eq(host, 100 + before);
    if (rank == 0)
        check_ok(tutti_send(world, &first.tensor, next, 6, NULL));
    check_ok(tutti_recv(world, &in.tensor, before, 6, NULL, NULL));
    gpu_synchronize(NULL);
    vector_check(&in, MANY, 0, 1);
    if (rank)
        check_ok(tutti_send(world, &in.tensor, next, 6, NULL));
    check_ok(tutti_sendrecv(world, &second.tensor, next, 7, &on_host, before, 7, NULL, NULL));
    check_eq(host, 100 + before);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_batch_and_messages_to_oneself_take_gpu_tensors)
{
    tutti_group *world = begin(rank);
    struct vector a, b, c, d;
    tutti_work *work;

    vector_make(&a, 100, rank);
    vector_make(&b, 100, 2 * rank);
    vector_make(&c, 100, 7);
    vector_make(&d, 100, -1);
    require_ok(tutti_batch_begin(world));
    check_ok(tutti_all_reduce(world, &a.tensor, TUTTI_SUM, NULL, NULL));
    check_ok(tutti_all_reduce(world, &b.tensor, TUTTI_SUM, NULL, NULL));
    check_ok(tutti_send(world, &c.tensor, rank, 1, NULL));
    check_ok(tutti_recv(world, &d.tensor, rank, 1, NULL, NULL));
    require_ok(tutti_batch_end(world, &work));
    check_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    vector_check(&a, 100, sum_of_ranks(size), size);
    vector_check(&b, 100, 2 * sum_of_ranks(size), size);
    vector_check(&d, 100, 7, 1);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(premultiplied_sums_take_gpu_tensors_and_gpu_factors)
{
    tutti_group *world = begin(rank);
    struct vector v, factor;
    tutti_reduce_op op;

    vector_make(&v, 50, 1);
    vector_make(&factor, 1, 2 + rank);
    require_ok(tutti_reduce_op_premul(&factor.tensor, &op));
    check_ok(tutti_all_reduce(world, &v.tensor, op, NULL, NULL));
    gpu_synchronize(NULL);
    const int32_t factors = 2 * size + sum_of_ranks(size);
    vector_check(&v, 50, factors, factors);
    tutti_reduce_op_free(op);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(what_cannot_be_done_with_a_gpu_is_refused_in_words)
{
    tutti_group *world = begin(rank);
    struct vector v;
    int32_t host = 1;
    int64_t shape;
    tutti_tensor wrong = tutti_tensor_1d(&host, TUTTI_I32, &shape, 1);
    void *stream = gpu_stream();
    tutti_options options = on(stream);

    vector_make(&v, 8, rank);
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, NULL, NULL));
    check_status(tutti_all_reduce(world, &wrong, TUTTI_SUM, &options, NULL), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "options.stream is set, but the tensors are in host memory");
    wrong.device = gpu_device();
    check_status(tutti_all_reduce(world, &wrong, TUTTI_SUM, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "is no memory that its driver knows");
    wrong = v.tensor;
    wrong.device.id += 17;
    check_status(tutti_all_reduce(world, &wrong, TUTTI_SUM, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "TUTTI_DEVICE");
    wrong.device = (tutti_device){10, 0};
    check_status(tutti_all_reduce(world, &wrong, TUTTI_SUM, NULL, NULL), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "device of type 10");
    gpu_capture(stream);
    check_status(tutti_all_reduce(world, &v.tensor, TUTTI_BOR, &options, NULL),
                 TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "captured");
    gpu_capture_end(stream);
    gpu_synchronize(NULL); /* the first result is on it */
    void *context = gpu_context();
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL));
    check(gpu_context() == context);
    gpu_synchronize(stream);
    vector_check(&v, 8, size * sum_of_ranks(size), size * size);
    check_ok(tutti_group_destroy(world));
}

/* ---- what is told ---------------------------------------------------------------------------- */

/* The dump of this process, in TMPDIR; there is one file. */
static char *read_dump(void)
{
    static char text[1 << 16], path[512];
    const char *folder = getenv("TMPDIR");
    glob_t found;

    require(folder);
    snprintf(path, sizeof path, "%s/dump.%d", folder, (int)getpid());
    require_ok(tutti_recorder_dump(path));
    strcat(path, "/*.json");
    require(!glob(path, 0, NULL, &found) && found.gl_pathc == 1);
    FILE *file = fopen(found.gl_pathv[0], "re");
    require(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    globfree(&found);
    return text;
}

RANK_CASE(records_and_dumps_tell_the_gpu_and_the_stream_that_is_late)
{
    tutti_group *world = begin(rank);
    struct vector v;
    void *stream = gpu_stream();
    tutti_options options = on(stream);
    tutti_record records[3];
    tutti_work *work;
    uint32_t count;
    char name[32];

    vector_make(&v, 8, rank);
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, NULL, NULL));
    struct gpu_hold *hold = gpu_hold(stream);
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, &work));
    const char *dump = read_dump();
    snprintf(name, sizeof name, "\"device\":\"cuda:%d\"", gpu_device().id);
    check_contains(dump, name);
    check_contains(dump, "\"what\":\"stream\"");
    check_contains(dump, "\"staged\":true");
    gpu_let_go(hold);
    check_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    require_ok(tutti_recorder_read(world, records, sizeof *records, 3, &count));
    check_eq(count, 3);
    check_eq(records[0].flags, 0);
    check_eq(records[1].flags, TUTTI_RECORD_STAGED);
    check_eq(records[2].flags, TUTTI_RECORD_STAGED);
    check_ok(tutti_group_destroy(world));
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Rank 1 never calls; the others' streams wait for their works, and go on when the group fails. */
RANK_CASE(no_stream_waits_for_ever_when_a_rank_is_lost)
{
    tutti_group *world = begin(rank);
    struct vector v, sent;
    void *stream = gpu_stream();
    tutti_work *works[2];

    vector_make(&v, 100, rank);
    vector_make(&sent, MANY, rank);
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, NULL, NULL));
    gpu_synchronize(NULL);
    if (rank == 1) {
        rank_point("running");
        rank_sleep_ms(60000);
        return;
    }
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, NULL, &works[0]));
    require_ok(tutti_irecv(world, &sent.tensor, 1, 1, NULL, &works[1]));
    require_ok(tutti_work_wait_stream(works[0], stream));
    require_ok(tutti_work_wait_stream(works[1], stream));
    rank_point("running");
    gpu_synchronize(stream);
    for (int i = 0; i < 2; i++) {
        int32_t done;

        check_status(tutti_work_test(works[i], &done), TUTTI_ERR_PEER_LOST);
        check_contains(tutti_last_error(), "rank 1");
        tutti_work_free(works[i]);
    }
    check_status(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, NULL, NULL), TUTTI_ERR_PEER_LOST);
    check_status(tutti_group_destroy(world), TUTTI_ERR_PEER_LOST);
}

RANK_CASE(no_stream_waits_for_ever_when_a_rank_aborts)
{
    tutti_group *world = begin(rank);
    struct vector v;
    void *stream = gpu_stream();
    int32_t number = 0;
    int64_t shape;
    const tutti_tensor word = tutti_tensor_1d(&number, TUTTI_I32, &shape, 1);
    tutti_work *work;

    vector_make(&v, 100, rank);
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, NULL, NULL));
    if (rank == 1) {
        for (int others = 0; others < size - 1; others++)
            require_ok(tutti_recv(world, &word, TUTTI_ANY_SOURCE, 1, NULL, NULL));
        rank_sleep_ms(50);
        check_ok(tutti_group_abort(world, "enough"));
    } else {
        require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, NULL, &work));
        require_ok(tutti_work_wait_stream(work, stream));
        require_ok(tutti_send(world, &word, 1, 1, NULL));
        gpu_synchronize(stream);
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_ABORTED);
        tutti_work_free(work);
    }
    check_status(tutti_group_destroy(world), TUTTI_ERR_ABORTED);
}

RANK_CASE(no_stream_waits_for_ever_when_a_rank_never_calls)
{
    tutti_group *world = begin(rank);
    struct vector v;
    void *stream = gpu_stream();
    tutti_options options = TUTTI_OPTIONS_INIT;
    tutti_work *work;

    vector_make(&v, 100, rank);
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, NULL, NULL));
    options.timeout_ms = 300;
    if (rank == 0) {
        require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, &work));
        require_ok(tutti_work_wait_stream(work, stream));
        gpu_synchronize(stream);
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_TIMEOUT);
        check_contains(tutti_last_error(), "rank 1");
        tutti_work_free(work);
    } else {
        rank_sleep_ms(1000);
    }
    check_status(tutti_group_destroy(world), TUTTI_ERR_TIMEOUT);
}

/* The call's stream is held on rank 0 until its deadline is over. */
RANK_CASE(a_stream_that_never_comes_to_the_call_is_a_time_out)
{
    tutti_group *world = begin(rank);
    struct vector v;
    void *stream = gpu_stream();
    tutti_options options = on(stream);

    vector_make(&v, 100, rank);
    require_ok(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, NULL, NULL));
    gpu_synchronize(NULL);
    struct gpu_hold *hold = rank ? NULL : gpu_hold(stream);
    options.timeout_ms = rank ? 20000 : 300;
    check_status(tutti_all_reduce(world, &v.tensor, TUTTI_SUM, &options, NULL), TUTTI_ERR_TIMEOUT);
    check_contains(tutti_last_error(), "the stream of this rank's tensor");
    if (hold)
        gpu_let_go(hold);
    check_status(tutti_group_destroy(world), TUTTI_ERR_TIMEOUT);
}

/* The driver says at some moment that the device of rank 1 is lost. */
RANK_CASE(a_lost_gpu_is_told_to_all_in_the_drivers_words)
{
    tutti_group *world = begin(rank);
    struct vector v;
    tutti_status status = TUTTI_OK;

    vector_make(&v, 100, rank);
    for (int i = 0; i < 1000 && !status; i++)
        status = tutti_all_reduce(world, &v.tensor, TUTTI_MAX, NULL, NULL);
    check_status(status, TUTTI_ERR_SYSTEM);
    check_contains(tutti_last_error(), "cuda:");
    rank_value("words", "%s", tutti_last_error());
    check_status(tutti_group_destroy(world), TUTTI_ERR_SYSTEM);
}
