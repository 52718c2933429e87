/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugins hear that the process exits.
 *
 * Exit handlers run in reverse order, and engines register some as they start: what MPICH (4.2 and later)
 * tells its launcher at MPI_Finalize leaves in such a handler, and a finalize after it counts as a crash.
 * So plugins are told by a handler that was registered once their engine had started, if all groups
 * have ended well by then. The core's own exit handler tells those that are left, with plugins_leave().
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "plugin/loaded.h"
#include "plugin/plugin.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Groups of several members that this process began to make, and that it destroyed without a verdict. */
static _Atomic uint32_t begun, ended_well;

void plugins_group_begins(void)
{
    atomic_fetch_add(&begun, 1);
}

void plugins_group_ended_well(void)
{
    atomic_fetch_add(&ended_well, 1);
}

static bool all_ended_well(void)
{
    return atomic_load(&begun) == atomic_load(&ended_well);
}

static void tell(bool clean)
{
    for (struct loaded *entry = loaded_first(); entry; entry = entry->next) {
        if (entry->left || entry->pid != getpid() || !TUTTI_HAS(entry->plugin, leave))
            continue;
        entry->left = true;
        entry->plugin->leave(clean);
    }
}

static void leave_before_engines(void)
{
    if (all_ended_well())
        tell(true);
}

void plugins_leave(void)
{
    tell(all_ended_well());
}

void plugin_started(const tutti_plugin *plugin, enum tutti_provider_kind kind)
{
    bool is_first = false;

    if (!TUTTI_HAS(plugin, leave))
        return;
    pthread_mutex_lock(&lock);
    for (struct loaded *entry = loaded_first(); entry; entry = entry->next)
        if (entry->plugin == plugin) {
            is_first = !(entry->started & 1U << kind);
            entry->started |= 1U << kind;
        }
    pthread_mutex_unlock(&lock);
    if (is_first)
        atexit(leave_before_engines);
}
