/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often this process has met in a store under a name before.
 *
 * The count is part of the keys of a world, so that worlds which follow each other in one store do not
 * read each other's. It is kept in the store, under the rank, with the process that wrote it: so it
 * outlives handles, contexts and this library's code, and ends with the store. All members of a job do
 * the same things, so they count alike.
 *
 * Invariant: only the process that wrote the count raises it. Another process with that rank takes the
 * place of the one before, or is a second one by mistake; both have to see that the keys are taken.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "bootstrap/bootstrap.h"

enum {
    PROCESS_ROOM = 128,
    VALUE_ROOM = PROCESS_ROOM + 64,
    KEY_ROOM = 512,
    NONCE_ROOM = 17,
    TRIES = 1000
};

/* No two processes have the same, not even one after the other: boot, id and start. False: `pid` does not run. */
static bool describe_process(pid_t pid, char ret_process[PROCESS_ROOM])
{
    char boot[BOOT_ID_ROOM], path[64] = "/proc/self/stat", stat[1024] = "", state = 'Z';
    unsigned long long start = 0;

    if (pid != getpid())
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");

    boot_id(boot);
    if (file) {
        const char *after = fgets(stat, sizeof stat, file) ? strrchr(stat, ')') : NULL;

        /* The fields after the name are the 3rd and later ones: the state, and the start as the 22nd. */
        if (after)
            (void)sscanf(after + 1,
                         " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                         "%*s %llu",
                         &state, &start);
        fclose(file);
    }
    (void)snprintf(ret_process, PROCESS_ROOM, "%s/%d/%llu", boot, (int)pid, start);
    return start && state != 'Z' && state != 'X';
}

/* Two processes with one rank: the other one runs, too. Processes of other hosts or PID namespaces are not found. */
static void warn_of_twin(int rank, const char *process)
{
    char found[PROCESS_ROOM];
    const char *slash = strchr(process, '/');
    const int pid = slash ? atoi(slash + 1) : 0;

    if (pid > 0 && pid != getpid() && describe_process(pid, found) && !strcmp(found, process))
        log_line(
            LOG_WARN, rank,
            "rank %d was started twice: process %d and process %d (this one) both run; give each "
            "process its own RANK",
            rank, pid, (int)getpid());
}

/* "COUNT PROCESS NONCE", the last so that no two writes are alike. */
static bool read_value(const tutti_store_value *value, int64_t *ret_count,
                       char ret_process[PROCESS_ROOM])
{
    char text[VALUE_ROOM];
    char *space, *last;

    if (!value->size || value->size >= sizeof text)
        return false;
    memcpy(text, value->data, value->size);
    text[value->size] = 0;
    space = strchr(text, ' ');
    last = strrchr(text, ' ');
    if (!space || space == last || last - space > PROCESS_ROOM)
        return false;
    *space = *last = 0;
    strcpy(ret_process, space + 1);
    return text_number(text, 0, INT64_MAX - 1, ret_count);
}

static bool ends_with(const tutti_store_value *value, const char *text)
{
    const size_t size = strlen(text);

    return value->size >= size &&
           !memcmp((const char *)value->data + value->size - size, text, size);
}

tutti_status bootstrap_count(struct bootstrap *bootstrap, const char *name)
{
    static _Atomic bool has_met;
    char key[KEY_ROOM], own[PROCESS_ROOM], process[PROCESS_ROOM], text[VALUE_ROOM];
    tutti_store_value expected = {0}, found = {0};
    char nonce[NONCE_ROOM];
    int64_t count = 0;
    tutti_status status = TUTTI_OK;

    /* A store that ends before it has answered may be the one that was left. */
    bootstrap->was_here = atomic_load(&has_met);
    /* A write whose answer was lost is known by its nonce when the count is asked for again. */
    if (!bootstrap->nonce &&
        getrandom(&bootstrap->nonce, sizeof bootstrap->nonce, 0) != sizeof bootstrap->nonce)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "no random numbers");
    snprintf(nonce, sizeof nonce, "%016" PRIx64, bootstrap->nonce);
    (void)describe_process(getpid(), own);
    snprintf(key, sizeof key, "tutti/%s/%d/met/%s/%d", bootstrap->run_id, bootstrap->restart, name,
             bootstrap->rank);
    for (int i = 0; i < TRIES && !status; i++) {
        const int64_t left = clock_left_ms(bootstrap->deadline_ns, INT_MAX);
        const int n = snprintf(text, sizeof text, "%" PRId64 " %s %s", count, own, nonce);

        status = tutti_store_compare_set(bootstrap->store, key, expected.data, expected.size, text,
                                         (size_t)n, left ? left : 1, &found);
        tutti_store_value_free(&expected);
        if (status)
            break;
        const bool is_own = ends_with(&found, nonce);
        if (!read_value(&found, &count, process))
            status = error_set(TUTTI_ERR_STORE, "the key \"/%s\" in the store is damaged", key);
        else if (!is_own && !strcmp(process, own))
            count++;
        else if (!is_own)
            warn_of_twin(bootstrap->rank, process);
        bootstrap->was_here = i > 0 || !is_own || count;
        if (is_own && !status) {
            tutti_store_value_free(&found);
            bootstrap->earlier = count;
            bootstrap->nonce = 0;
            atomic_store(&has_met, true);
            return TUTTI_OK;
        }
        expected = found;
        found = (tutti_store_value){0};
    }
    tutti_store_value_free(&expected);
    return status ? status
                  : error_set(TUTTI_ERR_STORE, "the key \"/%s\" in the store keeps changing", key);
}
