/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks in surroundings that are hostile, poor or oversubscribed. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rank_tell.h"

/* PER_CENT of a CPU is what a rank that waits may use; TUTTI_TEST_PER_CENT says another share, for instruments.
 * Asleep it takes 0.2 to 0.5, 2.4 beside four busy programs. A descriptor that stays readable took 13, spinning
 * takes 100. It looks around 50 times a second, which takes 0.3 %. With Gloo, 0.7 %: Gloo's own loop ends its
 * epoll_wait() every 10 ms, and three threads of the plugin wake up 20 times a second each. Beside other tests, when
 * caches are cold, the same has taken 2.4 %. */
enum { LARGE = 4 << 20, DROWSY_MS = 200, LATE_MS = 5000, PER_CENT = 5 };

static float memory[LARGE];

static bool sums_are_right(tutti_group *world, int size, int64_t count)
{
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(memory, TUTTI_F32, &shape, count);

    for (int64_t i = 0; i < count; i++)
        memory[i] = (float)(i % 3);
    if (!check_ok(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL)))
        return false;
    for (int64_t i = 0; i < count; i++)
        if (memory[i] != (float)(size * (int)(i % 3)))
            return check(!"a right sum");
    return true;
}

/* Rank 0 ends it for all when the test has said so: all of one more lap are right. */
RANK_CASE(calls_until_told)
{
    tutti_group *world = rank_init(NULL);
    int64_t shape;
    int32_t go_on = 1;
    tutti_tensor flag = tutti_tensor_1d(&go_on, TUTTI_I32, &shape, 1);

    rank_point("open");
    while (go_on) {
        if (!sums_are_right(world, size, 2) || !sums_are_right(world, size, 100000))
            break;
        go_on = rank ? 1 : !rank_heard("enough");
        if (!check_ok(tutti_all_reduce(world, &flag, TUTTI_MIN, NULL, NULL)))
            break;
    }
    check_ok(tutti_group_destroy(world));
}

/* 0: as many as there may be. */
static void allow_descriptors(int count)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = count ? (rlim_t)count : limit.rlim_max;
    check_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Whatever is lacking, each call returns, and says what it was. */
static void use_with_words(tutti_status status, tutti_group *world)
{
    for (int i = 0; i < 3 && !status; i++)
        status = tutti_barrier(world, NULL, NULL);
    if (status)
        check(strlen(tutti_last_error()) > 20);
    tell(status);
    check_status(tutti_group_destroy(world), world ? status : TUTTI_OK);
    allow_descriptors(0); /* a sanitizer that looks for leaks needs some */
}

RANK_CASE(one_has_few_descriptors)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world = NULL;

    options.timeout_ms = number_of("TUTTI_TEST_TIMEOUT_MS", 3000);
    if (rank == victim())
        allow_descriptors(number_of("TUTTI_TEST_DESCRIPTORS", 1024));
    rank_point("calling");
    tutti_status status = tutti_init(&options, &world);
    use_with_words(status, world);
}

RANK_CASE(one_runs_out_of_descriptors)
{
    tutti_group *world = rank_init(NULL);

    if (rank == victim())
        allow_descriptors(4);
    rank_point("calling");
    use_with_words(TUTTI_OK, world);
}

/* /dev/shm of TUTTI_TEST_SHM, or, with "none", a folder in which nothing can be made. */
RANK_CASE(dev_shm_is_small_or_missing)
{
    const char *what = getenv("TUTTI_TEST_SHM");
    bool none = !strcmp(what, "none");

    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", "/dev/shm", "tmpfs", none ? MS_RDONLY : 0, none ? NULL : what)) {
        rank_value("skipped", "%s", strerror(errno));
        return;
    }
    tutti_group *world = rank_init(NULL);
    sums_are_right(world, size, 2);
    sums_are_right(world, size, LARGE);
    check_ok(tutti_group_destroy(world));
}

/* Onto the n-th of the CPUs that this process may use. */
static bool pin(int n)
{
    cpu_set_t usable, one;
    int cpu = 0;

    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof usable, &usable) || n >= CPU_COUNT(&usable))
        return false;
    while (!CPU_ISSET(cpu, &usable) || n--)
        cpu++;
    CPU_SET(cpu, &one);
    return !sched_setaffinity(0, sizeof one, &one);
}

static void join_from(int cpu, int size)
{
    check(pin(cpu));
    tutti_group *world = rank_init(NULL);
    sums_are_right(world, size, 2);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(all_run_on_one_cpu)
{
    join_from(0, size);
}

RANK_CASE(each_runs_on_a_cpu_of_its_own)
{
    join_from(rank, size);
}

static double cpu_ms(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
}

struct use {
    int64_t at_ns;
    double cpu_ms;
};

static struct use use_now(void)
{
    return (struct use){rank_now_ns(), cpu_ms()};
}

/* What the others wait counts from here at the latest. */
static void be_late(void)
{
    rank_await("go");
    rank_sleep_ms(LATE_MS);
}

static void check_share(struct use before)
{
    const struct use now = use_now();
    const double waited = (double)(now.at_ns - before.at_ns) / 1e6;
    const double used = now.cpu_ms - before.cpu_ms;

    rank_value("share", "%.2f %% of one CPU in %.0f ms", 100 * used / waited, waited);
    check(waited >= LATE_MS);
    check(100 * used < number_of("TUTTI_TEST_PER_CENT", PER_CENT) * waited);
}

/* The last rank is late. */
RANK_CASE(waits_in_a_barrier)
{
    tutti_group *world = rank_init(NULL);

    check_ok(tutti_barrier(world, NULL, NULL));
    const struct use before = use_now();
    rank_point("waiting");
    if (rank == size - 1)
        be_late();
    check_ok(tutti_barrier(world, NULL, NULL));
    if (rank < size - 1)
        check_share(before);
    check_ok(tutti_group_destroy(world));
}

/* The last rank sends late. What has woken the others from a barrier before wakes them no more. */
RANK_CASE(waits_in_a_receive)
{
    tutti_group *world = rank_init(NULL);
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(memory, TUTTI_F32, &shape, 2);

    if (rank == size - 1)
        rank_sleep_ms(DROWSY_MS);
    check_ok(tutti_barrier(world, NULL, NULL));
    const struct use before = use_now();
    rank_point("waiting");
    if (rank == size - 1) {
        be_late();
        for (int r = 0; r < rank; r++)
            check_ok(tutti_send(world, &t, r, 0, NULL));
    } else {
        check_ok(tutti_recv(world, &t, size - 1, 0, NULL, NULL));
        check_share(before);
    }
    check_ok(tutti_group_destroy(world));
}

/* The last process says that it is the rank of the one before it. */
RANK_CASE(two_are_the_same_rank)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world = 0;

    options.world_size = size - 1;
    options.rank = rank == size - 1 ? rank - 1 : rank;
    options.timeout_ms = LATE_MS * 4;
    tutti_status status = tutti_init(&options, &world);
    tell(status);
    rank_point("told");
    if (status)
        return;
    rank_await("go"); /* until the other one has heard that it is not the one */
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}
