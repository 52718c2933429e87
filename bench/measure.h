/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How every library is measured here, the same way: each sample is the time of a call on the slowest
 * rank, the result is the median (and the minimum) of the samples. The time of a sample is the median of
 * its calls where each is timed by itself (touched, or with a root), otherwise the mean. A mean will not
 * do for short calls that are timed by themselves: 200 calls of 1 us take as long as one interruption by
 * the host.
 *
 * Bytes are those of the vector or message, or of each block where there is one for every rank. A ping-pong is
 * a message from rank 0 to rank 1 and back; «works» starts each and waits for it. «touched»: each
 * rank rewrites its input before each timed call, so that nothing stays in the cache of the rank
 * that reduced it last; «hot» leaves it alone.
 *
 * Operations with a root begin with a barrier: else a root that only sends, or a member that does,
 * would be calls ahead of the receivers, and the figure would be a rate. Their time is that from when
 * the first rank begins until the last one returns; the ranks share a clock. The slowest
 * rank's own time would not do: if the root begins first, the others find the data there
 * when they begin, and the call seems to take no time. Before a call that is timed by itself the ranks also exchange
 * flags in shared memory behind the barrier. Otherwise the time between the first and the last leave of the library's
 * barrier would be part of that of the call: the faster some ranks leave it, the more.
 *
 * With two ranks the link between their cores is probed before and after each sample, since a virtual
 * machine's cores may change their distance within seconds: a sample is tagged near or far (hand-over
 * of a cache line below or above 110 ns), and dropped when the probes disagree. With more ranks this is done on a
 * host of two CPUs: the first two ranks are bound to one each while they probe, and the others sleep.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* X(name, has a root, a block for every rank goes in): what a program may measure. */
#define MEASURE_LIST(X)                                                                            \
    X(all_reduce, 0, 0)                                                                            \
    X(broadcast, 1, 0)                                                                             \
    X(reduce, 1, 0)                                                                                \
    X(all_gather, 0, 0)                                                                            \
    X(reduce_scatter, 0, 1)                                                                        \
    X(gather, 1, 0)                                                                                \
    X(scatter, 1, 1)                                                                               \
    X(all_to_all, 0, 1)                                                                            \
    X(ping_pong, 0, 0)                                                                             \
    X(ping_pong_works, 0, 0)

enum {
#define MEASURE_ENUM(name, rooted, blocks) MEASURE_##name,
    MEASURE_LIST(MEASURE_ENUM)
#undef MEASURE_ENUM
        MEASURE_BARRIER,
    MEASURE_OPERATIONS = MEASURE_BARRIER
};

static const struct measured {
    const char *name;
    int rooted, blocks_in;
} measured[] = {
#define MEASURE_ROW(name, rooted, blocks) {#name, rooted, blocks},
    MEASURE_LIST(MEASURE_ROW)
#undef MEASURE_ROW
        {"barrier", 0, 0},
};

/* Of floats; `count` of the vector or of a block. Sums; root 0; all_reduce is in place. */
typedef void (*measure_fn)(float *in, float *out, size_t count);

/* The functions of these names, for subject.run. */
#define MEASURE_NAME(name, rooted, blocks) name,
#define MEASURE_RUN                                                                                \
    {                                                                                              \
        MEASURE_LIST(MEASURE_NAME)                                                                 \
    }

struct subject {
    const char *name; /* "tutti-shm", "openmpi" */
    int rank, size;
    void (*barrier)(void);
    double (*max)(double value); /* over the ranks */
    measure_fn run[MEASURE_OPERATIONS];
};

/* A call that is measured: buffers with room for a block of each rank. */
struct measure_call {
    int operation;
    float *in, *out;
    size_t count;
    int touched;
};

enum { MEASURE_SAMPLES = 15, MEASURE_CALLS = 20000, MEASURE_FAR_NS = 110 };

/* The fastest part of a probe counts: what interrupts the ranks is no part of the link. */
enum { PROBE_PARTS = 10, PROBE_ROUNDS = 100, PROBE_CPUS = 2, PROBE_SLEEP_US = 50 };

/* A mean that is less than so much of the one before has not settled. How many budgets a warm-up takes, and may take. */
static const double MEASURE_SETTLED = 0.8, MEASURE_WARM_UP_MIN = 10, MEASURE_WARM_UP_MAX = 100;

/* The exit code where the library has no such operation. */
enum { MEASURE_NOT_OFFERED = 77 };

/* A sample that counts: the time of a call, and of a hand-over between the cores (0: not probed). */
struct measure_sample {
    double us, link_ns;
};

/* A line of each rank in memory that all see, and how often flags have been exchanged there. */
enum { MEASURE_LINE_WORDS = 32 };
static _Atomic uint64_t *flags;
static uint64_t flags_round;

/* Whether the link is probed, and whether ranks that wait for flags leave the CPU to others. */
static int probes, yields;

static inline double measure_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int measure_compare(const void *a, const void *b)
{
    double x = ((const struct measure_sample *)a)->us, y = ((const struct measure_sample *)b)->us;

    return (x > y) - (x < y);
}

/* Whether the host has two CPUs, and this rank may use both. */
static int may_bind(const cpu_set_t *own)
{
    return sysconf(_SC_NPROCESSORS_ONLN) == PROBE_CPUS && CPU_ISSET(0, own) && CPU_ISSET(1, own);
}

/* The flags lie in the file BENCH_PROBE, which the comparing script makes. */
static void flags_open(const struct subject *s)
{
    const size_t bytes = (size_t)s->size * MEASURE_LINE_WORDS * sizeof *flags;
    const char *path = getenv("BENCH_PROBE");
    struct stat found;
    cpu_set_t own;

    if (!path)
        return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "cannot open the file of BENCH_PROBE, %s: %s\n", path, strerror(errno));
        exit(1);
    }
    if (fstat(fd, &found) || (size_t)found.st_size < bytes) {
        fprintf(stderr, "the file of BENCH_PROBE, %s, needs %zu bytes for %d ranks\n", path, bytes,
                s->size);
        exit(1);
    }
    void *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (words == MAP_FAILED) {
        fprintf(stderr, "cannot map the file of BENCH_PROBE, %s: %s\n", path, strerror(errno));
        exit(1);
    }
    flags = words;
    CPU_ZERO(&own);
    sched_getaffinity(0, sizeof own, &own);
    probes = s->size == 2 || may_bind(&own);
    yields = s->size > CPU_COUNT(&own);
    atomic_store(flags + MEASURE_LINE_WORDS * s->rank, 0);
    s->barrier();
}

static void raise_flag(int rank)
{
    atomic_store_explicit(flags + MEASURE_LINE_WORDS * rank, ++flags_round, memory_order_release);
}

static int flag_is_up(int rank)
{
    return atomic_load_explicit(flags + MEASURE_LINE_WORDS * rank, memory_order_acquire) >=
           flags_round;
}

/* Each of the first two ranks raises its flag, and goes on when it sees the other one's. */
static void exchange_flags(const struct subject *s)
{
    raise_flag(s->rank);
    while (!flag_is_up(!s->rank))
        ;
}

/* Seconds of one exchange of flags. */
static double exchange_time(const struct subject *s)
{
    double fastest = 1;

    exchange_flags(s); /* both are there */
    for (int part = 0; part < PROBE_PARTS; part++) {
        const double start = measure_now();

        for (int i = 0; i < PROBE_ROUNDS; i++)
            exchange_flags(s);
        const double time = (measure_now() - start) / PROBE_ROUNDS;
        fastest = time < fastest ? time : fastest;
    }
    return fastest;
}

/* One of the first two ranks, on a CPU of its own. */
static double exchange_time_bound(const struct subject *s)
{
    cpu_set_t before, own;

    CPU_ZERO(&own);
    CPU_SET(s->rank, &own);
    if (sched_getaffinity(0, sizeof before, &before) || sched_setaffinity(0, sizeof own, &own)) {
        perror("cannot bind a rank to a CPU to probe the link");
        exit(1);
    }
    const double time = exchange_time(s);
    sched_setaffinity(0, sizeof before, &before);
    return time;
}

/* Another rank, which leaves them the CPUs. */
static double sleep_while_probed(const struct subject *s)
{
    flags_round += 1 + PROBE_PARTS * PROBE_ROUNDS;
    for (int rank = 0; rank < 2; rank++)
        while (!flag_is_up(rank))
            usleep((useconds_t)(PROBE_SLEEP_US * s->size));
    return 0;
}

/* Nanoseconds of one exchange of flags; 0: not known. */
static double probe(const struct subject *s)
{
    double time;

    if (!probes)
        return 0;
    s->barrier();
    if (s->size == 2)
        time = exchange_time(s);
    else
        time = s->rank < 2 ? exchange_time_bound(s) : sleep_while_probed(s);
    return s->max(time * 1e9);
}

/* Before a call that is timed by itself. A rank may leave the library's barrier microseconds before another one. */
static void line_up(const struct subject *s)
{
    s->barrier();
    if (!flags)
        return;
    raise_flag(s->rank);
    for (int rank = 0; rank < s->size; rank++)
        while (!flag_is_up(rank))
            if (yields)
                sched_yield();
}

static void touch(const struct subject *s, const struct measure_call *call)
{
    const size_t blocks = measured[call->operation].blocks_in ? (size_t)s->size : 1;

    for (size_t i = 0; i < call->count * blocks; i++)
        call->in[i] = 1.0f + (float)s->rank;
    __asm__ volatile("" ::"r"(call->in) : "memory");
}

static void call_once(const struct subject *s, const struct measure_call *call)
{
    if (call->operation == MEASURE_BARRIER)
        s->barrier();
    else
        s->run[call->operation](call->in, call->out, call->count);
}

static int measure_compare_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double measure_median(double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof *seconds, measure_compare_seconds);
    return seconds[count / 2];
}

/* Seconds of a call with a root: median over `calls`, from the first rank's start to the last one's end. */
static double sample_rooted(const struct subject *s, const struct measure_call *call, int calls)
{
    static double starts[MEASURE_CALLS], ends[MEASURE_CALLS];

    for (int i = 0; i < calls; i++) {
        if (call->touched)
            touch(s, call);
        line_up(s);
        starts[i] = measure_now();
        call_once(s, call);
        ends[i] = measure_now();
    }
    for (int i = 0; i < calls; i++)
        ends[i] = s->max(ends[i]) + s->max(-starts[i]);
    return measure_median(ends, calls);
}

/* Seconds of a call whose input each rank rewrites before: median over `calls`, of the slowest rank. */
static double sample_touched(const struct subject *s, const struct measure_call *call, int calls)
{
    static double took[MEASURE_CALLS];

    for (int i = 0; i < calls; i++) {
        touch(s, call);
        line_up(s);

        const double start = measure_now();
        call_once(s, call);
        took[i] = measure_now() - start;
    }
    return s->max(measure_median(took, calls));
}

/* Seconds of a call: mean over `calls`, of the slowest rank. */
static double sample_hot(const struct subject *s, const struct measure_call *call, int calls)
{
    const double start = measure_now();

    for (int i = 0; i < calls; i++)
        call_once(s, call);
    return s->max((measure_now() - start) / calls);
}

static double sample(const struct subject *s, const struct measure_call *call, int calls)
{
    s->barrier();
    if (measured[call->operation].rooted)
        return sample_rooted(s, call, calls);
    return call->touched ? sample_touched(s, call, calls) : sample_hot(s, call, calls);
}

/*
 * How many calls take `budget` seconds. Calls twice as often until they do, and until calls no longer become faster: the
 * first ones may take milliseconds each, while ranks share a CPU or memory is touched for the first time. So
 * buffers, rings and windows have been written all over, and every list has its memory, before anything counts. All
 * ranks see the same means.
 */
static int warm_up(const struct subject *s, const struct measure_call *call, double budget)
{
    const int most = call->touched ? 200 : MEASURE_CALLS;
    int calls = 2;
    double mean = sample(s, call, calls), spent = mean * calls, before;

    do {
        before = mean;
        if (calls < most && mean * calls < budget)
            calls = 2 * calls < most ? 2 * calls : most;
        mean = sample(s, call, calls);
        spent += mean * calls;
    } while (spent < MEASURE_WARM_UP_MIN * budget ||
             (((calls < most && mean * calls < budget) || mean < before * MEASURE_SETTLED) &&
              spent < MEASURE_WARM_UP_MAX * budget));
    const double wanted = budget / (mean > 1e-9 ? mean : 1e-9);
    return (int)s->max(wanted < 2 ? 2 : wanted > most ? most : (int)wanted);
}

/*
 * A line: subject, operation, bytes, ranks, mode, regime, minimum, median, number of samples. With BENCH_SAMPLES in
 * the environment another field has each sample, «microseconds:nanoseconds of a hand-over», with blanks between.
 */
static void measure_report(const struct subject *s, const struct measure_call *call,
                           const char *regime, struct measure_sample *samples, int count)
{
    qsort(samples, (size_t)count, sizeof *samples, measure_compare);
    printf("%s\t%s\t%zu\t%d\t%s\t%s\t%.3f\t%.3f\t%d", s->name, measured[call->operation].name,
           call->count * sizeof(float), s->size, call->touched ? "touched" : "hot", regime,
           samples[0].us, samples[count / 2].us, count);
    for (int i = 0; i < count && getenv("BENCH_SAMPLES"); i++)
        printf("%c%.3f:%.0f", i ? ' ' : '\t', samples[i].us, samples[i].link_ns);
    printf("\n");
    fflush(stdout);
}

/* Reports each regime in which a sample counts. */
static void measure(const struct subject *s, const struct measure_call *call, double budget)
{
    static const char *const regimes[] = {"near", "far"};
    struct measure_sample samples[2][MEASURE_SAMPLES];
    int have[2] = {0, 0};
    const int calls = warm_up(s, call, budget);

    for (int i = 0; i < MEASURE_SAMPLES; i++) {
        const double before = probe(s);
        const double time = sample(s, call, calls);
        const double after = probe(s);
        const int far = after > MEASURE_FAR_NS;

        if (far == (before > MEASURE_FAR_NS))
            samples[far][have[far]++] =
                (struct measure_sample){.us = time * 1e6, .link_ns = (before + after) / 2};
    }
    for (int far = 0; far < 2 && s->rank == 0; far++)
        if (have[far])
            measure_report(s, call, probes ? regimes[far] : "-", samples[far], have[far]);
}

/* -1: no operation is called so. */
static int measure_operation(const char *name)
{
    for (int i = 0; i < MEASURE_OPERATIONS; i++)
        if (!strcmp(measured[i].name, name))
            return i;
    return -1;
}

/* Room for a block of `bytes` for each rank; NULL with a message. */
static float *measure_buffer(const struct subject *s, size_t bytes)
{
    const size_t room = (bytes * (size_t)s->size + 4095) / 4096 * 4096;
    float *data = aligned_alloc(4096, room);

    if (data)
        memset(data, 0, room);
    else
        fprintf(stderr, "no memory for %d x %zu bytes\n", s->size, bytes);
    return data;
}

/* Whether the text is a whole number and nothing else. */
static int measure_bytes(const char *text, size_t *ret_bytes)
{
    char *end;

    errno = 0;
    *ret_bytes = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

/* The largest of the sizes. 0, with a message: the arguments are wrong. */
static size_t measure_largest(int argc, char **argv)
{
    size_t largest = sizeof(float), bytes;

    if (argc < 3 || measure_operation(argv[1]) < 0) {
        fprintf(stderr, "usage: %s OPERATION BYTES …; the operations are", argv[0]);
        for (int i = 0; i < MEASURE_OPERATIONS; i++)
            fprintf(stderr, " %s", measured[i].name);
        fprintf(stderr, "\n");
        return 0;
    }
    for (int i = 2; i < argc; i++) {
        if (!measure_bytes(argv[i], &bytes)) {
            fprintf(stderr, "%s: '%s' is no number of bytes\n", argv[0], argv[i]);
            return 0;
        }
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

/*
 * Arguments: OPERATION BYTES … ; 0 bytes is the barrier, whatever the operation. Hot to 512 B and with
 * more than two ranks, else touched.
 */
static int measure_main(const struct subject *s, int argc, char **argv)
{
    const size_t largest = measure_largest(argc, argv);

    if (!largest)
        return 2;
    if (!s->run[measure_operation(argv[1])]) {
        fprintf(stderr, "%s does not offer %s\n", s->name, argv[1]);
        return MEASURE_NOT_OFFERED;
    }
    float *in = measure_buffer(s, largest), *out = measure_buffer(s, largest);
    if (!in || !out)
        return 1;
    flags_open(s);
    for (int i = 2; i < argc; i++) {
        size_t bytes;

        measure_bytes(argv[i], &bytes);
        measure(s,
                &(struct measure_call){.operation =
                                           bytes ? measure_operation(argv[1]) : MEASURE_BARRIER,
                                       .in = in,
                                       .out = out,
                                       .count = bytes / sizeof(float),
                                       .touched = bytes > 512 && s->size == 2},
                0.004);
    }
    free(in);
    free(out);
    return 0;
}
