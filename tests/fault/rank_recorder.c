/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of the recorder, as the program that is dumped sees them. TUTTI_TEST_FOLDER: where to. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rank_tell.h"

enum { SOME_BYTES = 200, UNSEEN_MS = 100 };

static volatile sig_atomic_t heard;

static void note(int signal)
{
    (void)signal;
    heard++;
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    check_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

RANK_CASE(dumps_when_it_likes)
{
    const char *folder = getenv("TUTTI_TEST_FOLDER");
    tutti_group *world = 0;

    check_status(tutti_recorder_dump(folder), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "tutti_init()");
    world = rank_init(NULL);
    check_ok(tutti_barrier(world, NULL, NULL));
    check_status(tutti_recorder_dump(NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "TUTTI_DUMP_DIR");
    check_ok(tutti_recorder_dump(folder));

    check_status(tutti_recorder_dump("/dev/null/here"), TUTTI_ERR_SYSTEM);
    check_contains(tutti_last_error(), "/dev/null/here");
    signal(SIGXFSZ, SIG_IGN); /* a file that cannot grow stands for a full disk */
    limit_files(SOME_BYTES);
    check_status(tutti_recorder_dump(folder), TUTTI_ERR_SYSTEM);
    check_contains(tutti_last_error(), folder);
    limit_files(RLIM_INFINITY);

    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(has_a_handler_of_its_own)
{
    signal(SIGUSR2, note);
    tutti_group *world = rank_init(NULL);

    raise(SIGUSR2);
    check_eq(heard, 1);
    rank_sleep_ms(UNSEEN_MS);
    check_ok(tutti_group_destroy(world));
}

/* Its threads are outside of tutti all the time, and a child of it is no rank. */
RANK_CASE(computes_until_told)
{
    tutti_group *world = rank_init(NULL);
    int how = 0;

    check_ok(tutti_barrier(world, NULL, NULL));
    if (fork() == 0) {
        raise(SIGUSR2);
        _exit(3);
    }
    check(wait(&how) > 0 && WIFEXITED(how) && WEXITSTATUS(how) == 3);
    rank_sleep_ms(UNSEEN_MS);
    rank_point("open");
    rank_await("go");
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

/* What is left unread when the process exits is dumped too. */
RANK_CASE(fails_unnoticed)
{
    tutti_group *world = rank_init(NULL);

    rank_meet_beside(world);
    rank_point("open");
    if (rank == 0)
        check_ok(tutti_group_abort(world, "the tests want it"));
    rank_await("go");
    rank_end();
}

/* A busy disk: every file takes TUTTI_TEST_SLOW_MS. libtutti finds this one before that of libc. */
__attribute__((visibility("default"))) int rename(const char *from, const char *to)
{
    rank_sleep_ms(number_of("TUTTI_TEST_SLOW_MS", 0));
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

RANK_CASE(fails_and_ends)
{
    tutti_group *world = rank_init(NULL);

    rank_meet_beside(world);
    if (rank == 0)
        check_ok(tutti_group_abort(world, "the tests want it"));
    check_status(tutti_barrier(world, NULL, NULL), TUTTI_ERR_ABORTED);
    check_status(tutti_group_destroy(world), TUTTI_ERR_ABORTED);
}

/* None has called anything since the barrier when the group ends. */
RANK_CASE(calls_after_the_end)
{
    float values[2] = {0};
    tutti_group *world = rank_init(NULL);
    tutti_group_info info = {.struct_size = sizeof info};
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(values, TUTTI_F32, &shape, 2);

    check_ok(tutti_barrier(world, NULL, NULL));
    rank_point("open");
    rank_await("go");
    if (rank == 0)
        check_ok(tutti_group_abort(world, "the tests want it"));
    do
        check_ok(tutti_group_status(world, &info));
    while (info.state != TUTTI_GROUP_FAILED);
    if (rank == victim())
        check_status(tutti_barrier(world, NULL, NULL), TUTTI_ERR_ABORTED);
    else
        check_status(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL), TUTTI_ERR_ABORTED);
    check_status(tutti_barrier(world, NULL, NULL), TUTTI_ERR_ABORTED); /* is not recorded */
    check_ok(tutti_recorder_dump(getenv("TUTTI_TEST_FOLDER")));
    check_status(tutti_group_destroy(world), TUTTI_ERR_ABORTED);
}

/* Large messages, which wait for their receives: everybody sends first. */
RANK_CASE(sends_in_a_circle)
{
    enum { COUNT = 1 << 20 };
    static float mine[COUNT];
    tutti_group *world = rank_init(NULL);
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(mine, TUTTI_F32, &shape, COUNT);

    check_ok(tutti_barrier(world, NULL, NULL));
    rank_point("open");
    (void)tutti_send(world, &tensor, (rank + 1) % size, 7, NULL);
}

/* Rank 0 receives what nobody sends, as the victim's message has another tag; the others are further on. */
RANK_CASE(waits_for_another_tag)
{
    tutti_work *work;
    float value = 0;
    tutti_group *world = rank_init(NULL);
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(&value, TUTTI_F32, &shape, 1);

    check_ok(tutti_barrier(world, NULL, NULL));
    if (rank == 0) {
        check_ok(tutti_irecv(world, &tensor, victim(), 5, NULL, &work));
        (void)tutti_work_wait(work, 0);
    }
    if (rank == victim())
        check_ok(tutti_send(world, &tensor, 0, 6, NULL));
    (void)tutti_barrier(world, NULL, NULL);
}

/* The victim has posted its next receive early, and its source is in a barrier that the victim has not called. */
RANK_CASE(computes_with_a_receive_in_flight)
{
    float value = 0;
    tutti_work *work;
    tutti_group *world = rank_init(NULL);
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(&value, TUTTI_F32, &shape, 1);

    if (rank == victim())
        check_ok(tutti_irecv(world, &tensor, 0, 5, NULL, &work));
    check_ok(tutti_barrier(world, NULL, NULL));
    rank_point("open");
    if (rank == victim())
        rank_await("go");
    (void)tutti_barrier(world, NULL, NULL);
}
