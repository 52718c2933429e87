/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaver WHO HOW: ranks that reduce; rank WHO ends after some calls, and the others do as examples/hello
 * does on failure: they print tutti_last_error() and return 1.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum { CALLS = 3, CODE = 3, CALLS_MAX = 1000000 };

static int failed(void)
{
    fprintf(stderr, "%s\n", tutti_last_error());
    if (getenv("LEAVER_MORE"))
        fprintf(stderr, "%s\n", getenv("LEAVER_MORE"));
    return 1;
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

/* The last call of all: WHO broadcasts from itself, the others from rank 0. */
static int broadcast_and_destroy(tutti_group *world, const tutti_tensor *tensor, int who)
{
    const int root = tutti_group_rank(world) == who ? who : 0;

    if (tutti_broadcast(world, tensor, root, NULL, NULL) || tutti_group_destroy(world))
        return failed();
    return 0;
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
    if (!strcmp(argv[2], "root"))
        return broadcast_and_destroy(world, &tensor, atoi(argv[1]));
    for (int i = 0; i < CALLS_MAX; i++) {
        if (i == CALLS && tutti_group_rank(world) == atoi(argv[1]))
            return end(world, argv[2]);
        if (tutti_all_reduce(world, &tensor, TUTTI_MAX, NULL, NULL))
            return failed();
    }
    return tutti_group_destroy(world) ? failed() : 0;
}
