/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of which one, TUTTI_TEST_VICTIM, has not the same engine as the others. Nothing but its surroundings
 * is different: TUTTI_TEST_ONE is a variable that is set for it alone before it begins.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
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
