/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call costs through tutti on top of what its engine takes for it: the same operation through tutti
 * and directly, in one program, in turns. Started by `tutti run`, see bench/README.md.
 *
 *     engine_overhead_NAME [ROUNDS [BYTES …]]
 *
 * A round times each form once: a millisecond of calls one after the other, two at least, the slowest rank's
 * mean. Rounds begin with another form in turn. The difference and the ratio are medians over the rounds, since what lies
 * close in time had the same machine under it; so they need not be those of the medians beside them.
 *
 * An engine on a stream: the time until all calls of a sample are done there.
 *
 *     engine_overhead_NAME count
 *
 * makes twenty all_reduces of 8 bytes through tutti and as many directly, for a tool that counts instructions:
 * bench/engine_overhead/count.
 *
 * broadcast: the root goes round, so that each call needs the one before. message: half of a way there and back
 * between ranks 0 and 1.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "direct.h"

enum { FORMS_MAX = 4, ROUNDS = 101, ROUNDS_MAX = 1000, CALLS_MAX = 20000 };
static const double sample_s = 0.001;

const struct direct_place *direct_place;
static tutti_options options = TUTTI_OPTIONS_INIT; /* the stream, if there is one */
static tutti_group *world;
static int rank, members;

static void check(tutti_status status)
{
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", tutti_status_name(status), tutti_last_error());
    exit(1);
}

/* ---- through tutti --------------------------------------------------------------------------- */

static tutti_tensor vector(const float *data, size_t count, int64_t *ret_shape)
{
    tutti_tensor tensor = tutti_tensor_1d((void *)data, TUTTI_F32, ret_shape, (int64_t)count);

    if (direct_place)
        tensor.device = direct_place->device;
    return tensor;
}

static const tutti_options *on_stream(void)
{
    return direct_place ? &options : NULL;
}

static void all_reduce(float *data, size_t count)
{
    int64_t shape;
    const tutti_tensor tensor = vector(data, count, &shape);

    check(tutti_all_reduce(world, &tensor, TUTTI_SUM, on_stream(), NULL));
}

static void broadcast(float *data, size_t count, int root)
{
    int64_t shape;
    const tutti_tensor tensor = vector(data, count, &shape);

    check(tutti_broadcast(world, &tensor, root, on_stream(), NULL));
}

static void send(const float *data, size_t count, int to)
{
    int64_t shape;
    const tutti_tensor tensor = vector(data, count, &shape);

    check(tutti_send(world, &tensor, to, 0, NULL));
}

static void recv(float *data, size_t count, int from)
{
    int64_t shape;
    const tutti_tensor tensor = vector(data, count, &shape);

    check(tutti_recv(world, &tensor, from, 0, NULL, NULL));
}

static const struct direct through_tutti = {"tutti", all_reduce, broadcast, send, recv};

static double slowest(double value)
{
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(&value, TUTTI_F64, &shape, 1);

    check(tutti_all_reduce(world, &tensor, TUTTI_MAX, NULL, NULL));
    return value;
}

/* ---- what is timed --------------------------------------------------------------------------- */

enum operation { ALL_REDUCE, BROADCAST, MESSAGE, OPERATIONS };
static const char *const names[OPERATIONS] = {"all_reduce", "broadcast", "message"};

static void call(const struct direct *form, enum operation operation, float *data, size_t count,
                 int i)
{
    switch (operation) {
    case ALL_REDUCE:
        form->all_reduce(data, count);
        break;
    case BROADCAST:
        form->broadcast(data, count, i % members);
        break;
    default: /* there, or back */
        if (rank == i % 2)
            form->send(data, count, !rank);
        else if (rank < 2)
            form->recv(data, count, !rank);
    }
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Microseconds of one call. */
static double sample(const struct direct *form, enum operation operation, float *data, size_t count,
                     int calls)
{
    check(tutti_barrier(world, NULL, NULL));
    const double start = now();
    for (int i = 0; i < calls; i++)
        call(form, operation, data, count, i);
    if (direct_place)
        direct_place->finish();
    return slowest((now() - start) / calls * 1e6);
}

static int calls_of(const struct direct *form, enum operation operation, float *data, size_t count)
{
    const double once = sample(form, operation, data, count, 8);
    const double wanted = slowest(sample_s * 1e6 / (once > 1e-3 ? once : 1e-3));

    return wanted < 2 ? 2 : wanted > CALLS_MAX ? CALLS_MAX : (int)wanted / 2 * 2;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void sort(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
}

static double times[FORMS_MAX][ROUNDS_MAX]; /* [0]: through tutti */

static void tell(enum operation operation, size_t bytes, int forms, int rounds)
{
    double difference[ROUNDS_MAX], ratio[ROUNDS_MAX];

    for (int r = 0; r < rounds; r++) {
        difference[r] = times[0][r] - times[1][r];
        ratio[r] = times[0][r] / times[1][r];
    }
    sort(difference, rounds);
    sort(ratio, rounds);
    printf("%-11s %9zu", names[operation], bytes);
    for (int f = 0; f < forms; f++) {
        sort(times[f], rounds);
        printf(" %12.3f %12.3f", times[f][0], times[f][rounds / 2]);
    }
    printf(" %10.3f %8.3f\n", difference[rounds / 2], ratio[rounds / 2]);
    fflush(stdout);
}

static void tell_head(const struct direct *const *forms, int count, int rounds)
{
    printf("%s, %d ranks, %d rounds; microseconds\n%-11s %9s", direct_backend, members, rounds,
           "operation", "bytes");
    for (int f = 0; f < count; f++)
        printf(" %12s %12s", forms[f]->form, "median");
    printf(" %10s %8s\n", "on top", "ratio");
}

/* Whole pages of zeros. */
static float *allocate(size_t bytes)
{
    const size_t pages = (bytes + 4095) / 4096 * 4096;
    float *data = direct_place ? direct_place->allocate(pages) : aligned_alloc(4096, pages);

    if (!data) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    if (!direct_place)
        memset(data, 0, pages);
    return data;
}

static void release(float *data)
{
    if (direct_place)
        direct_place->release(data);
    else
        free(data);
}

static void measure(const struct direct *const *forms, int count, enum operation operation,
                    size_t bytes, int rounds)
{
    const size_t elements = bytes / sizeof(float);
    float *data = allocate(bytes);

    for (int f = 0; f < count; f++) /* connections, plans, pages */
        (void)sample(forms[f], operation, data, elements, 8);
    const int calls = calls_of(forms[1], operation, data, elements);
    for (int r = 0; r < rounds; r++)
        for (int f = 0; f < count; f++) {
            const int form = (r + f) % count;

            times[form][r] = sample(forms[form], operation, data, elements, calls);
        }
    if (rank == 0)
        tell(operation, bytes, count, rounds);
    release(data);
}

/* ---- what is counted ------------------------------------------------------------------------- */

enum { COUNTED = 20, BEFORE = 100 };

static void make_calls(const struct direct *form, float *data, int calls)
{
    for (int i = 0; i < calls; i++)
        form->all_reduce(data, 2);
}

/* Neither inlined nor merged, so that the tool has a name for each. */
#ifdef __clang__
#define COUNTED_FUNCTION __attribute__((noinline)) static void
#else
#define COUNTED_FUNCTION __attribute__((noinline, noclone, no_icf)) static void
#endif

COUNTED_FUNCTION counted_tutti(const struct direct *form, float *data)
{
    make_calls(form, data, COUNTED);
}

COUNTED_FUNCTION counted_direct(const struct direct *form, float *data)
{
    make_calls(form, data, COUNTED);
}

static void count_instructions(const struct direct *const *forms)
{
    float *data = allocate(8);

    for (int f = 0; f < 2; f++) {
        make_calls(forms[f], data, BEFORE);
        if (direct_place)
            direct_place->finish();
        if (f == 0)
            counted_tutti(forms[f], data);
        else
            counted_direct(forms[f], data);
        if (direct_place)
            direct_place->finish();
    }
    release(data);
}

int main(int argc, char **argv)
{
    static const char *const default_sizes[] = {"8", "4096", "262144", "16777216"};
    const tutti_init_options init = {.struct_size = sizeof init, .backend = direct_backend};
    const bool counts = argc == 2 && !strcmp(argv[1], "count");
    const int rounds = argc > 1 && !counts ? atoi(argv[1]) : ROUNDS, own_sizes = argc - 2;
    const struct direct *forms[FORMS_MAX] = {&through_tutti};
    int count = 1;

    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: %s [count | ROUNDS [BYTES …]], 1 to %d rounds\n", argv[0],
                ROUNDS_MAX);
        return 2;
    }
    check(tutti_init(&init, &world));
    rank = tutti_group_rank(world);
    members = tutti_group_size(world);
    if (members < 2) {
        fprintf(stderr, "%s: there must be two ranks\n", argv[0]);
        return 2;
    }
    for (const struct direct *form = direct_open(world); form->form && count < FORMS_MAX; form++)
        forms[count++] = form;
    if (direct_place)
        options.stream = direct_place->stream;
    if (counts)
        count_instructions(forms);
    if (rank == 0 && !counts)
        tell_head(forms, count, rounds);
    const int first = forms[1]->all_reduce ? ALL_REDUCE : MESSAGE;
    const int end = forms[1]->send ? OPERATIONS : MESSAGE;
    for (int operation = first; operation < end && !counts; operation++)
        for (int i = 0; i < (own_sizes > 0 ? own_sizes : 4); i++)
            measure(forms, count, (enum operation)operation,
                    strtoull(own_sizes > 0 ? argv[2 + i] : default_sizes[i], NULL, 0), rounds);
    direct_close();
    check(tutti_group_destroy(world));
    return 0;
}
