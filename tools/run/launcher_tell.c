/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells ranks in the store of others that have ended (base/ended.h), so that no rank waits in tutti_init()
 * for one that is gone. Ranks whose world is there hear of it in their own way, and do not look.
 *
 * A rank that failed is told at once. One that exited with 0 may have left the program running behind it
 * (sh -c 'program &'): it is told once every process of the job is a rank, or a rank's child, and
 * not at all where the job ends before.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/status.h>
#include <tutti/store.h>

#include "base/codec.h"
#include "base/ended.h"
#include "run/guard.h"
#include "run/launcher_inside.h"

enum {
    STORE_MS = 1000, /* the store is in this process */
    QUIET_LOOK_MS = 300
};

static void add_entry(struct launcher *l, const struct rank *rank)
{
    const int status = rank->wait_status;
    uint8_t data[ENDED_MAX], seal[SEAL_BYTES], length[4];
    struct ended ended = {.place = (uint32_t)rank->index,
                          .size = (uint32_t)l->options->ranks,
                          .pid = rank->pid,
                          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                          .code = WIFEXITED(status) ? WEXITSTATUS(status) : 0};

    if (gethostname(ended.host, sizeof ended.host - 1) < 0)
        g_strlcpy(ended.host, "?", sizeof ended.host);

    const size_t size = ended_encode(&ended, data);

    if (!launcher_seal(l, data, size, seal))
        return;
    uint_to_bytes(length, size, sizeof length);
    g_byte_array_append(l->ended, length, sizeof length);
    g_byte_array_append(l->ended, data, (guint)size);
    g_byte_array_append(l->ended, seal, sizeof seal);
}

/* Appends what was added; a store that does not take it leaves the ranks to their deadlines. */
static void write_entries(struct launcher *l)
{
    tutti_store *store;

    if (!l->ended->len || tutti_store_open_tcp("127.0.0.1", tutti_store_server_port(l->store),
                                               STORE_MS, &store) != TUTTI_OK)
        return;
    (void)tutti_store_append(store, ENDED_KEY, l->ended->data, l->ended->len, STORE_MS);
    tutti_store_unref(store);
    g_byte_array_set_size(l->ended, 0);
}

/* A rank, or what keeps the ranks' places in an MPI job. */
static bool note_orphan(int pid, void *user)
{
    struct launcher *l = user;

    l->orphans |= !launcher_is_spared(pid, l);
    return true;
}

static gboolean tell_quiet(gpointer user)
{
    struct launcher *l = user;

    l->orphans = false;
    if (l->phase == RUNNING)
        guard_signal_children(0, note_orphan, l);
    if (l->orphans)
        return G_SOURCE_CONTINUE;
    for (int i = 0; i < l->started && l->phase == RUNNING; i++)
        if (l->ranks[i].exited && l->ranks[i].untold)
            add_entry(l, &l->ranks[i]);
    for (int i = 0; i < l->started; i++)
        l->ranks[i].untold = false;
    write_entries(l);
    l->quiet_timer = 0;
    return G_SOURCE_REMOVE;
}

void launcher_tell_begin(struct launcher *l)
{
    l->ended = g_byte_array_new();
}

void launcher_tell_end(struct launcher *l)
{
    if (l->quiet_timer)
        g_source_remove(l->quiet_timer);
    g_byte_array_unref(l->ended);
}

void launcher_tell_exited(struct launcher *l, struct rank *rank)
{
    if (l->phase >= ENDING)
        return;
    if (rank_failed(rank)) {
        add_entry(l, rank);
        return;
    }
    rank->untold = true;
    if (!l->quiet_timer)
        l->quiet_timer = g_timeout_add(QUIET_LOOK_MS, tell_quiet, l);
}

void launcher_tell_failures(struct launcher *l)
{
    if (l->phase < ENDING && l->exited < l->started)
        write_entries(l);
}
