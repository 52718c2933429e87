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
 * place of the one before, or is a second one by mistake; both have to see that the keys are taken. A count
 * without the seal of this job's secret is nobody's.
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
#include "secret/seal.h"

enum {
    PROCESS_ROOM = 128,
    VALUE_ROOM = PROCESS_ROOM + 64,
    SEALED_ROOM = VALUE_ROOM + SEAL_BYTES,
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

/* "COUNT PROCESS NONCE", the last so that no two writes are alike, with a seal behind it. */
static tutti_status seal_text(const struct secret *secret, const char *key, char text[SEALED_ROOM],
                              size_t *ret_size)
{
    const size_t size = strlen(text);

    *ret_size = size + SEAL_BYTES;
    return seal_make(secret, &secret->record, key, text, size, (uint8_t *)text + size);
}

/* The text without its seal. */
static tutti_status open_text(const struct secret *secret, const char *key,
                              const tutti_store_value *value, char ret_text[VALUE_ROOM])
{
    struct seal seal;
    enum seal_state state;
    char id[SECRET_ID_SHORT];
    tutti_status status =
        seal_check(secret, &secret->record, key, value->data, value->size, &seal, &state);

    if (status)
        return status;
    if (state == SEAL_GOOD && value->size - SEAL_BYTES < VALUE_ROOM) {
        memcpy(ret_text, value->data, value->size - SEAL_BYTES);
        ret_text[value->size - SEAL_BYTES] = 0;
        return TUTTI_OK;
    }
    secret_id_text(secret->id, id);
    return error_set(
        TUTTI_ERR_STORE,
        "the key \"/%s\" in the store was not written with this rank's secret (%s, id "
        "%s): %s; give each job a store or a run id of its own, and the same secret to "
        "all its ranks",
        key, secret_source_words(secret->source), id,
        state == SEAL_FOREIGN ? "the secret was replaced since, or another job uses this store"
                              : "somebody who is no member, or another job, writes to this store");
}

static bool read_value(const char *value, int64_t *ret_count, char ret_process[PROCESS_ROOM])
{
    char text[VALUE_ROOM];
    char *space, *last;

    snprintf(text, sizeof text, "%s", value);
    space = strchr(text, ' ');
    last = strrchr(text, ' ');
    if (!space || space == last || last - space > PROCESS_ROOM)
        return false;
    *space = *last = 0;
    strcpy(ret_process, space + 1);
    return text_number(text, 0, INT64_MAX - 1, ret_count);
}

static bool ends_with(const char *value, const char *text)
{
    const size_t size = strlen(text), length = strlen(value);

    return length >= size && !strcmp(value + length - size, text);
}

tutti_status bootstrap_count(struct bootstrap *bootstrap, const char *name)
{
    static _Atomic bool has_met;
    char key[KEY_ROOM], own[PROCESS_ROOM], process[PROCESS_ROOM], text[SEALED_ROOM];
    char there[VALUE_ROOM];
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
        size_t size = 0;

        snprintf(text, VALUE_ROOM, "%" PRId64 " %s %s", count, own, nonce);
        status = seal_text(bootstrap->secret, key, text, &size);
        if (!status)
            status = tutti_store_compare_set(bootstrap->store, key, expected.data, expected.size,
                                             text, size, left ? left : 1, &found);
        tutti_store_value_free(&expected);
        if (!status)
            status = open_text(bootstrap->secret, key, &found, there);
        if (status)
            break;
        const bool is_own = ends_with(there, nonce);
        if (!read_value(there, &count, process))
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
    tutti_store_value_free(&found);
    return status ? status
                  : error_set(TUTTI_ERR_STORE, "the key \"/%s\" in the store keeps changing", key);
}
