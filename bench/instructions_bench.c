/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a call that waits for nobody, a thousand times each, for a tool that counts instructions:
 * scripts/check-counts runs two ranks of this under callgrind. Rank 0 sends what rank 1 finds there when it
 * receives; the two tell each other so by files in the folder that is the argument, since a rank that waits in
 * a call would move messages.
 */
#include <tutti/tutti.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 1000, WAIT_S = 120 };

static tutti_group *world, *alone;
static tutti_plan *plan;
static double value;
static int64_t shape;
static tutti_tensor tensor;

static void check(tutti_status status)
{
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", tutti_status_name(status), tutti_last_error());
    exit(1);
}

static void finish(tutti_work *work)
{
    check(tutti_work_wait(work, 0));
    tutti_work_free(work);
}

/* Not inlined, so that callgrind has a name for each. */
#define COUNTED(name, ...)                                                                         \
    __attribute__((noinline)) static void counted_##name(void)                                     \
    {                                                                                              \
        for (int i = 0; i < CALLS; i++)                                                            \
            __VA_ARGS__                                                                            \
    }

COUNTED(send, { check(tutti_send(world, &tensor, 1, 7, NULL)); })
COUNTED(recv, { check(tutti_recv(world, &tensor, 0, 7, NULL, NULL)); })
COUNTED(isend, {
    tutti_work *work;
    check(tutti_isend(world, &tensor, 1, 7, NULL, &work));
    finish(work);
})
COUNTED(irecv, {
    tutti_work *work;
    check(tutti_irecv(world, &tensor, 0, 7, NULL, &work));
    finish(work);
})
COUNTED(all_reduce, { check(tutti_all_reduce(alone, &tensor, TUTTI_SUM, NULL, NULL)); })
COUNTED(plan_run, { check(tutti_plan_run(plan, NULL)); })
COUNTED(barrier, { check(tutti_barrier(alone, NULL, NULL)); })

static void tell(const char *what)
{
    int fd = open(what, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    if (fd < 0) {
        perror(what);
        exit(1);
    }
    close(fd);
}

static void wait_until_told(const char *what)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    for (int i = 0; access(what, F_OK) < 0; i++) {
        if (i > WAIT_S * 1000) {
            fprintf(stderr, "%s was not made within %d s\n", what, WAIT_S);
            exit(1);
        }
        nanosleep(&pause, NULL);
    }
}

/* Both ways are known, each side has heard of the other, and every list of free memory has something. */
static void warm_up(void)
{
    const int rank = tutti_group_rank(world);

    for (int i = 0; i < 20; i++) {
        tutti_work *work;

        if (i % 2 == rank) {
            check(tutti_send(world, &tensor, !rank, 7, NULL));
            check(tutti_isend(world, &tensor, !rank, 7, NULL, &work));
        } else {
            check(tutti_recv(world, &tensor, !rank, 7, NULL, NULL));
            check(tutti_irecv(world, &tensor, !rank, 7, NULL, &work));
        }
        finish(work);
        check(tutti_all_reduce(alone, &tensor, TUTTI_SUM, NULL, NULL));
        check(tutti_plan_run(plan, NULL));
        check(tutti_barrier(alone, NULL, NULL));
    }
    check(tutti_barrier(world, NULL, NULL));
}

int main(int argc, char **argv)
{
    if (argc != 2 || chdir(argv[1]) < 0) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    check(tutti_init(NULL, &world));
    const int32_t rank = tutti_group_rank(world);
    check(tutti_group_split(world, rank, 0, NULL, &alone));
    tensor = tutti_tensor_1d(&value, TUTTI_F64, &shape, 1);
    check(tutti_batch_begin(alone));
    check(tutti_all_reduce(alone, &tensor, TUTTI_SUM, NULL, NULL));
    check(tutti_plan_create(alone, &plan));
    warm_up();
    if (rank == 0) {
        counted_all_reduce();
        counted_plan_run();
        counted_barrier();
        wait_until_told("rank-1-waits");
        counted_send();
        counted_isend();
        tell("rank-0-has-sent");
    } else {
        tell("rank-1-waits");
        wait_until_told("rank-0-has-sent");
        counted_recv();
        counted_irecv();
    }
    check(tutti_barrier(world, NULL, NULL));
    tutti_plan_free(plan);
    check(tutti_group_destroy(alone));
    check(tutti_group_destroy(world));
    return 0;
}
