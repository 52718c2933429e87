/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of which one, TUTTI_TEST_VICTIM, has not the same engine as the others. Nothing but its surroundings
 * is different: TUTTI_TEST_ONE is a variable that is set for it alone before it begins.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rank_tell.h"

/* The plugin mpi asks its MPI for the version by this function, and the program's is found before the
 * library's, as nothing of a plugin is global. */
__attribute__((visibility("default"))) int MPI_Get_library_version(char *ret_words,
                                                                   int *ret_length);

int MPI_Get_library_version(char *ret_words, int *ret_length)
{
    const char *version = getenv("TUTTI_TEST_VERSION");

    strcpy(ret_words, version ? version : "");
    *ret_length = (int)strlen(ret_words);
    return 0;
}

/* Gloo makes its epoll sets by this function, which nobody else uses. */
__attribute__((visibility("default"))) int epoll_create(int size);

int epoll_create(int size)
{
    if (!getenv("TUTTI_TEST_EPOLL"))
        return epoll_create1(size > 0 ? 0 : -1);
    errno = EMFILE;
    return -1;
}

/* The dynamic linker reads some variables only as a program begins. */
static void be_different(char *case_name)
{
    char *assignment = getenv("TUTTI_TEST_ONE");

    if (!assignment)
        return;
    assignment = strdup(assignment);
    unsetenv("TUTTI_TEST_ONE");
    putenv(assignment);
    execv("/proc/self/exe", (char *const[]){"rank_engine", case_name, NULL});
    require(!"executed again");
}

RANK_CASE(no_group_is_made)
{
    tutti_group *world = NULL;

    if (rank == victim())
        be_different("no_group_is_made");
    tell(tutti_init(NULL, &world));
    check(!world);
}

/* ---- children ---- */

/* The children make worlds of their own, without the parents. */
static void make_worlds_in_child(void)
{
    tutti_group *world = NULL;

    setenv("TUTTI_RUN_ID", "children", 1);
    check_status(tutti_init(NULL, &world), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "this process was forked");
    check_contains(tutti_last_error(), "start it by exec, or use another backend");
    setenv("TUTTI_RUN_ID", "children of shm", 1);
    setenv("TUTTI_BACKEND", "shm", 1);
    world = rank_init(NULL);
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_forked_child_is_refused_by_the_engine)
{
    tutti_group *world = rank_init(NULL);
    int how = -1;

    require_ok(tutti_barrier(world, NULL, NULL));
    const pid_t child = fork();
    if (child == 0) {
        rank_search_no_leaks(); /* what threads hold that it has not looks like a leak */
        make_worlds_in_child();
        rank_end();
    }
    check_eq(waitpid(child, &how, 0), child);
    check(WIFEXITED(how) && !WEXITSTATUS(how));
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

/* ---- what engines print ---- */

enum { PRINTED_MAX = 64 << 10 };

/* What the process prints on a descriptor, until kept() gives it back. */
struct kept {
    int fd, before, memory;
};

static struct kept keep(int fd)
{
    const struct kept kept = {fd, fcntl(fd, F_DUPFD_CLOEXEC, 3),
                              memfd_create("printed", MFD_CLOEXEC)};

    require(kept.before >= 0 && kept.memory >= 0);
    fflush(NULL);
    require(dup2(kept.memory, fd) == fd);
    return kept;
}

static void kept(struct kept *kept, char ret_text[PRINTED_MAX])
{
    fflush(NULL);
    dup2(kept->before, kept->fd);
    const ssize_t bytes = pread(kept->memory, ret_text, PRINTED_MAX - 1, 0);
    ret_text[bytes > 0 ? bytes : 0] = 0;
    close(kept->memory);
    close(kept->before);
}

/* TUTTI_TEST_LINE is part of a line that the engine says, and TUTTI_TEST_LEVEL how tutti's log begins it. */
RANK_CASE(lines_of_the_engine_are_in_the_log_only)
{
    static char out[PRINTED_MAX], err[PRINTED_MAX];
    struct kept on_stdout = keep(STDOUT_FILENO), on_stderr = keep(STDERR_FILENO);
    tutti_group *world = NULL;
    char beginning[64];

    const tutti_status status = tutti_init(NULL, &world);
    const tutti_status end = status ? status : tutti_group_destroy(world);
    kept(&on_stderr, err);
    kept(&on_stdout, out);
    check_ok(status);
    check_ok(end);
    check_str_eq(out, "");
    snprintf(beginning, sizeof beginning, "tutti[%d] %s: ", rank, getenv("TUTTI_TEST_LEVEL"));
    for (const char *line = err; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (!strncmp(line, beginning, strlen(beginning)) &&
            memmem(line, strcspn(line, "\n"), getenv("TUTTI_TEST_LINE"),
                   strlen(getenv("TUTTI_TEST_LINE"))))
            return;
    rank_check(RANK_PLACE, false, "a line of the log with «%s» in: %s", getenv("TUTTI_TEST_LINE"),
               err);
}
