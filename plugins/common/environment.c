/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another thread may read the environment meanwhile, and glibc's getenv() does not lock. So nothing that it
 * may be reading is written to or freed: `environ` points to a larger array for the moment, and then to
 * the one before. The larger one is never freed, as a reader may be in it; UCX is loaded once a process.
 *
 * What others may see: a thread that reads one of the three variables in this moment finds it, and a
 * process that is started in it inherits it, which keeps a UCX there from taking signals and hooks. A
 * thread that calls setenv() in this moment changes the larger array, or one that it makes from it. That
 * array stays then, and the variables are taken out as unsetenv() does it, which no reader is safe from;
 * nor is it from that other thread's setenv().
 */
#include "environment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char lent_handlers[] = "UCX_HANDLE_ERRORS=none", lent_signal[] = "UCX_DEBUG_SIGNO=0",
            lent_hooks[] = "UCX_MEM_MMAP_HOOK_MODE=none";
static char *const variables[] = {lent_handlers, lent_signal, lent_hooks};

enum { VARIABLES = sizeof variables / sizeof variables[0] };

/* The latest array. Each keeps the one before it in its last entry. */
static char **kept;

static size_t count_of(char **list)
{
    size_t count = 0;

    while (list && list[count])
        count++;
    return count;
}

static bool is_set(const char *variable)
{
    char name[64] = "";

    memcpy(name, variable, strcspn(variable, "="));
    return getenv(name) != NULL;
}

bool environment_lend(struct environment *environment)
{
    return environment_lend_these(environment, variables, VARIABLES);
}

bool environment_lend_these(struct environment *environment, char *const *list, size_t length)
{
    char **before = environ;
    const size_t had = count_of(before);
    const size_t half = had + length + 1;
    char **lent = calloc(2 * half + 1, sizeof *lent);
    size_t added = 0;

    if (!lent)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_set(list[i]))
            lent[added++] = list[i];
    if (!added) {
        free(lent);
        return false;
    }
    if (had)
        memcpy(lent + added, before, had * sizeof *lent);
    *environment = (struct environment){.before = before,
                                        .lent = lent,
                                        .original = lent + half,
                                        .count = had + added,
                                        .list = list,
                                        .length = length};
    memcpy(environment->original, lent, environment->count * sizeof *lent);
    lent[2 * half] = (char *)(void *)kept;
    kept = lent;
    __atomic_store_n(&environ, lent, __ATOMIC_RELEASE);
    return true;
}

void environment_take_back(struct environment *environment)
{
    const size_t bytes = (environment->count + 1) * sizeof *environment->lent;
    const bool untouched = __atomic_load_n(&environ, __ATOMIC_ACQUIRE) == environment->lent &&
                           !memcmp(environment->lent, environment->original, bytes);
    char name[64];

    if (untouched) {
        __atomic_store_n(&environ, environment->before, __ATOMIC_RELEASE);
        return;
    }
    for (size_t i = 0; i < environment->length; i++) {
        char *variable = environment->list[i];
        const size_t length = strcspn(variable, "=");

        memcpy(name, variable, length);
        name[length] = 0;
        if (getenv(name) == variable + length + 1) /* ours, not one set meanwhile */
            unsetenv(name);
    }
}
