/* SPDX-License-Identifier: Apache-2.0 */
/* What UCX does to the process that has a group over it, and what of that is left. */
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/rank.h"

extern char **environ;

enum { SIGNALS = 65, CODE_BYTES = 16, FUNCTIONS = 8, DESCRIPTORS_MAX = 128, WORDS_MAX = 200 };

static const char *const functions[FUNCTIONS] = {"mmap", "munmap",  "mremap", "brk",
                                                 "sbrk", "madvise", "shmat",  "shmdt"};

struct picture {
    void *handlers[SIGNALS];
    uint8_t code[FUNCTIONS][CODE_BYTES];
    char **environment;
    char *variables[2000];
    int threads, descriptors;
    char files[DESCRIPTORS_MAX][WORDS_MAX];
};

/* Calls fn with each entry of the folder that is a number. */
static void each_number(const char *folder, void (*fn)(int number, void *user), void *user)
{
    DIR *open = opendir(folder);

    require(open != NULL);
    for (const struct dirent *entry; (entry = readdir(open));)
        if (*entry->d_name != '.' && atoi(entry->d_name) != dirfd(open))
            fn(atoi(entry->d_name), user);
    closedir(open);
}

static void count(int number, void *user)
{
    (void)number;
    ++*(int *)user;
}

static void keep_descriptor(int fd, void *user)
{
    struct picture *picture = user;
    char link[64], target[WORDS_MAX - 16] = "";

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, target, sizeof target - 1) >= 0 && picture->descriptors < DESCRIPTORS_MAX)
        snprintf(picture->files[picture->descriptors++], WORDS_MAX, "%d %s", fd, target);
}

static void take(struct picture *picture)
{
    memset(picture, 0, sizeof *picture);
    for (int i = 1; i < SIGNALS; i++) {
        struct sigaction action;

        if (!sigaction(i, NULL, &action))
            memcpy(&picture->handlers[i], &action.sa_handler, sizeof picture->handlers[i]);
    }
    for (int i = 0; i < FUNCTIONS; i++) {
        const void *code = dlsym(RTLD_DEFAULT, functions[i]);

        require(code != NULL);
        memcpy(picture->code[i], code, CODE_BYTES);
    }
    picture->environment = environ;
    for (int i = 0; environ[i] && i < 2000; i++)
        picture->variables[i] = environ[i];
    each_number("/proc/self/task", count, &picture->threads);
    each_number("/proc/self/fd", keep_descriptor, picture);
}

static void compare(const struct picture *before, const struct picture *after)
{
    for (int i = 1; i < SIGNALS; i++)
        rank_check(RANK_PLACE, before->handlers[i] == after->handlers[i],
                   "the handler of signal %d", i);
    for (int i = 0; i < FUNCTIONS; i++)
        rank_check(RANK_PLACE, !memcmp(before->code[i], after->code[i], CODE_BYTES),
                   "the code of %s()", functions[i]);
    rank_check(RANK_PLACE, before->environment == after->environment,
               "the array of the environment");
    for (int i = 0; i < 2000; i++)
        rank_check(RANK_PLACE, before->variables[i] == after->variables[i],
                   "variable %d: %s and %s", i, before->variables[i], after->variables[i]);
    check_eq(after->threads, before->threads);
    check_eq(after->descriptors, before->descriptors);
    for (int i = 0; i < after->descriptors; i++)
        check_str_eq(after->files[i], before->files[i]);
}

static tutti_group *init_over(const char *backend)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

    options.backend = backend;
    return rank_init(&options);
}

static void sum_ranks(tutti_group *group, int rank, int size)
{
    int32_t sum = rank;
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(&sum, TUTTI_I32, &shape, 1);

    check_ok(tutti_all_reduce(group, &tensor, TUTTI_SUM, NULL, NULL));
    check_eq(sum, size * (size - 1) / 2);
}

/* The world over tcp makes what tutti keeps itself, for the time after the last world: two descriptors. The
 * first one over ucx loads UCX, and nothing of the process may change by that either. */
RANK_CASE(a_world_over_ucx_leaves_the_process_as_it_was)
{
    static struct picture before, after;

    require_ok(tutti_group_destroy(init_over("tcp")));
    take(&before);
    for (int i = 0; i < 2; i++) {
        tutti_group *world = init_over("ucx");

        sum_ranks(world, rank, size);
        check_ok(tutti_group_destroy(world));
        take(&after);
        compare(&before, &after);
    }
}

static uint64_t blocked_signals(int task)
{
    char path[64], line[200];
    unsigned long long blocked = 0;

    snprintf(path, sizeof path, "/proc/self/task/%d/status", task);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
            break;
    if (file)
        fclose(file);
    return blocked;
}

/* All but those that cannot be blocked, and the two that glibc keeps for itself. */
static void expect_blocked(int task, void *user)
{
    const uint64_t never = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1) |
                           UINT64_C(1) << 31 | UINT64_C(1) << 32;
    int *others = user;

    if (task == getpid())
        return;
    ++*others;
    rank_check(RANK_PLACE, (blocked_signals(task) | never) == UINT64_MAX,
               "thread %d blocks the signals %llx", task,
               (unsigned long long)blocked_signals(task));
}

RANK_CASE(threads_of_ucx_take_no_signals)
{
    int others = 0;
    tutti_group *world = init_over("ucx");

    sum_ranks(world, rank, size);
    each_number("/proc/self/task", expect_blocked, &others);
    check(others > 0);
    check_ok(tutti_group_destroy(world));
}

/* ---- descriptors and sockets ----------------------------------------------------------------- */

struct inherited {
    const struct picture *before;
    int listening, elsewhere;
};

static bool was_open(const struct picture *before, int fd)
{
    for (int i = 0; i < before->descriptors; i++)
        if (atoi(before->files[i]) == fd)
            return true;
    return false;
}

static void look_at_descriptor(int fd, void *user)
{
    struct inherited *inherited = user;
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at, of_flag = sizeof(int);
    int listens = 0;

    if (was_open(inherited->before, fd))
        return;
    rank_check(RANK_PLACE, fcntl(fd, F_GETFD) & FD_CLOEXEC, "descriptor %d is inherited", fd);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &of_flag) || !listens ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) || at.sin_family != AF_INET)
        return;
    inherited->listening++;
    inherited->elsewhere += at.sin_addr.s_addr != htonl(INADDR_LOOPBACK);
}

/* A connection that UCX has accepted is looked at when its peer is heard. */
static void hear_all(tutti_group *world, int rank, int size)
{
    for (int i = 1; i < size; i++) {
        int32_t out = rank, in = -1;
        int64_t shapes[2];
        const int to = (rank + i) % size, from = (rank + size - i) % size;
        const tutti_tensor sent = tutti_tensor_1d(&out, TUTTI_I32, &shapes[0], 1);
        const tutti_tensor received = tutti_tensor_1d(&in, TUTTI_I32, &shapes[1], 1);

        check_ok(tutti_sendrecv(world, &sent, to, 1, &received, from, 1, NULL, NULL));
        check_eq(in, from);
    }
}

/* The ranks meet at 127.0.0.1. One listener is the control plane's, the other one UCX's. */
RANK_CASE(sockets_of_ucx_are_on_one_interface_and_not_inherited)
{
    static struct picture before;
    struct inherited inherited = {.before = &before};

    take(&before);
    tutti_group *world = init_over("ucx");
    hear_all(world, rank, size);
    each_number("/proc/self/fd", look_at_descriptor, &inherited);
    check(inherited.listening > 0);
    check_eq(inherited.elsewhere, 0);
    check_ok(tutti_group_destroy(world));
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Rank 1 (of TUTTI_TEST_RANK: that one, "all": all) has the variable that TUTTI_TEST_SET names. */
static void set_variable(int rank)
{
    const char *which = getenv("TUTTI_TEST_RANK"), *given = getenv("TUTTI_TEST_SET");
    char name[200];

    require(given && strchr(given, '='));
    if (which && strcmp(which, "all") != 0 && atoi(which) != rank)
        return;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    require(!setenv(name, strchr(given, '=') + 1, 1));
}

/* TUTTI_TEST_WORDS are in the message of every rank. */
RANK_CASE(init_over_ucx_is_refused_in_words)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world = NULL;

    options.timeout_ms = 20000;
    set_variable(rank);
    check(tutti_init(&options, &world) != TUTTI_OK);
    check_contains(tutti_last_error(), getenv("TUTTI_TEST_WORDS"));
    if (world)
        check_ok(tutti_group_destroy(world));
}

/* A program that has loaded UCX itself, from TUTTI_TEST_UCX. */
RANK_CASE(init_beside_a_ucx_that_is_loaded_is_refused_in_words)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world = NULL;

    require(dlopen(getenv("TUTTI_TEST_UCX"), RTLD_NOW | RTLD_LOCAL) != NULL);
    set_variable(rank);
    check(tutti_init(&options, &world) != TUTTI_OK);
    check_contains(tutti_last_error(), getenv("TUTTI_TEST_UCX"));
    check_contains(tutti_last_error(), strchr(getenv("TUTTI_TEST_SET"), '=') + 1);
    check_contains(tutti_last_error(), "a process has one UCX");
    if (world)
        check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_world_over_ucx_uses_the_library_that_is_loaded)
{
    require(dlopen(getenv("TUTTI_TEST_UCX"), RTLD_NOW | RTLD_LOCAL) != NULL);
    tutti_group *world = init_over("ucx");
    sum_ranks(world, rank, size);
    check_ok(tutti_group_destroy(world));
}
