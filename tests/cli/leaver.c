/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaver WHO HOW: ranks that reduce; rank WHO ends after some calls, and the others do as examples/hello
 * does on failure: they print tutti_last_error() and return 1. LEAVER_TIMEOUT_MS is the time-out of their calls.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum { CALLS = 3, CODE = 3, CALLS_MAX = 1000000, TAG = 7 };

static int failed(void)
{
    fprintf(stderr, "%s\n", tutti_last_error());
    if (getenv("LEAVER_MORE"))
        fprintf(stderr, "%s\n", getenv("LEAVER_MORE"));
    return 1;
}

static void hang(void)
{
    for (;;)
        pause();
}

static int end(tutti_group *world, const char *how)
{
    const tutti_tensor nothing = {.data = NULL};

    if (!strcmp(how, "exit"))
        exit(CODE);
    if (!strcmp(how, "zero"))
        exit(0);
    if (!strcmp(how, "_exit"))
        _exit(CODE);
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    if (!strcmp(how, "hang"))
        hang();
    if (!strcmp(how, "leave"))
        return tutti_group_destroy(world) ? failed() : 0;
    if (!strcmp(how, "stop"))
        raise(SIGSTOP);
    if (!strcmp(how, "argument") && tutti_all_reduce(world, &nothing, TUTTI_SUM, NULL, NULL)) {
        failed();
        return CODE;
    }
    if (!strcmp(how, "abort")) {
        tutti_group_abort(world, "no more data");
        return CODE;
    }
    return CODE;
}

/*
 * The last call of all: WHO broadcasts from itself, the others from rank 0. As they leave they stay for a short
 * while only. So WHO calls after rank 0, and nobody leaves before WHO has called; all wait for that in tutti.
 */
static tutti_status broadcast_and_destroy(tutti_group *world, const tutti_tensor *tensor, int who)
{
    const int rank = tutti_group_rank(world);
    tutti_status status = tutti_broadcast(world, tensor, 0, NULL, NULL); /* all are connected */

    if (!status)
        status = tutti_broadcast(world, tensor, who, NULL, NULL);
    if (!status && rank == who)
        status = tutti_recv(world, tensor, 0, TAG, NULL, NULL);
    if (!status)
        status = tutti_broadcast(world, tensor, rank == who ? who : 0, NULL, NULL);
    if (!status && rank == 0)
        status = tutti_send(world, tensor, who, TAG, NULL);
    for (int r = 0; r < tutti_group_size(world) && !status; r++)
        if (rank == who && r != who)
            status = tutti_send(world, tensor, r, TAG, NULL);
    if (!status && rank != who)
        status = tutti_recv(world, tensor, who, TAG, NULL, NULL);
    return status ? status : tutti_group_destroy(world);
}

/* WHO exits with 0 and leaves two groups behind. The others hear of it as they leave the smaller one, and then
 * exit without leaving the world. */
static int exit_beside_a_row(tutti_group *world, const tutti_tensor *tensor, int who)
{
    tutti_group *row;

    if (tutti_group_new(world, NULL, 0, NULL, &row))
        return failed();
    if (tutti_group_rank(world) == who)
        exit(0);
    if (tutti_barrier(row, NULL, NULL))
        failed();
    if (tutti_group_destroy(row))
        return 1;
    return tutti_all_reduce(world, tensor, TUTTI_MAX, NULL, NULL) ? failed() : 0;
}

/* WHO ends while the others are outside of tutti. They hear of it before their next call, and stay after it. */
static int call_afterwards(tutti_group *world, const tutti_tensor *tensor, int who)
{
    tutti_group_info info = {.struct_size = sizeof info};

    if (tutti_all_reduce(world, tensor, TUTTI_MAX, NULL, NULL))
        return failed();
    if (tutti_group_rank(world) == who)
        _exit(CODE);
    for (int i = 0; i < 100 && !info.verdict && !tutti_group_status(world, &info); i++)
        usleep(20000);
    if (tutti_all_reduce(world, tensor, TUTTI_MAX, NULL, NULL))
        failed();
    usleep(500000);
    return 1;
}

static void linger(void)
{
    sleep(1);
}

int main(int argc, char **argv)
{
    tutti_group *world;
    float number = 1;
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(&number, TUTTI_F32, &shape, 1);

    if (argc != 3)
        return 2;
    if (!strcmp(argv[2], "slow"))
        atexit(linger); /* after tutti's own handler */
    if (tutti_init(NULL, &world))
        return failed();
    if (getenv("LEAVER_TIMEOUT_MS") &&
        tutti_group_set_timeout(world, atoi(getenv("LEAVER_TIMEOUT_MS"))))
        return failed();
    if (!strcmp(argv[2], "root"))
        return broadcast_and_destroy(world, &tensor, atoi(argv[1])) ? failed() : 0;
    if (!strcmp(argv[2], "row"))
        return exit_beside_a_row(world, &tensor, atoi(argv[1]));
    if (!strcmp(argv[2], "away"))
        return call_afterwards(world, &tensor, atoi(argv[1]));
    for (int i = 0; i < CALLS_MAX; i++) {
        if (i == CALLS && tutti_group_rank(world) == atoi(argv[1]))
            return end(world, argv[2]);
        if (tutti_all_reduce(world, &tensor, TUTTI_MAX, NULL, NULL))
            return failed();
    }
    return tutti_group_destroy(world) ? failed() : 0;
}
