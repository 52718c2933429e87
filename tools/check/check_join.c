/* SPDX-License-Identifier: Apache-2.0 */
#include "check/check_join.h"

#include <stdlib.h>
#include <unistd.h>

enum { TIMEOUT_MS = 8000 };

void rank_expect_ok(const struct rank *rank, tutti_status status, const char *what)
{
    if (status)
        check_fails("rank %d: %s says %s: %s", rank->rank, what, tutti_status_name(status),
                    tutti_last_error());
}

static float *memory(void)
{
    float *data = calloc(RANK_FLOATS, sizeof *data);

    if (!data)
        check_fails("no memory to try it");
    return data;
}

/* The backend to run with. A plugin with collectives alone is a backend, too: the core carries the
 * rest by shm and tcp. A wrapper stands in front of another plugin's calls. */
static const char *backend_of(const struct check_subject *subject, bool *ret_wrapped)
{
    const tutti_plugin *plugin = check_load(subject);
    bool wraps = false;

    for (uint32_t i = 0; i < plugin->provider_count; i++) {
        const uint32_t kind = plugin->providers[i]->kind;

        if (kind == TUTTI_PROVIDER_TRANSPORT || kind == TUTTI_PROVIDER_COLLECTIVES)
            return subject->name;
        wraps |= kind == TUTTI_PROVIDER_WRAPPER;
    }
    if (!wraps)
        check_skips("it offers no transport, no collectives and no wrapper");
    *ret_wrapped = true;
    g_setenv("TUTTI_WRAP", subject->name, TRUE);
    return "tcp";
}

struct rank rank_join(const struct check_member *member)
{
    bool wrapped = false;
    const char *backend = backend_of(member->subject, &wrapped);

    return rank_join_over(member, backend, wrapped);
}

struct rank rank_join_over(const struct check_member *member, const char *backend, bool wrapped)
{
    g_autofree char *url = g_strdup_printf("file://%s/store", member->folder);
    const char *path = g_getenv("TUTTI_PLUGIN_PATH");
    g_autofree char *folders =
        g_strdup_printf("%s%s%s", member->subject->folder, path ? ":" : "", path ? path : "");
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    struct rank rank = {.rank = member->index,
                        .size = member->count,
                        .wrapped = wrapped,
                        .launched = member->subject->launcher != NULL};

    g_setenv("TUTTI_PLUGIN_PATH", folders, TRUE);
    options.backend = backend;
    options.init_url = url;
    options.rank = member->index;
    options.world_size = member->count;
    options.timeout_ms = TIMEOUT_MS;
    if (chdir(member->folder)) /* for what a wrapper writes */
        check_fails("cannot go to %s", member->folder);
    check_remember();
    check_doing("making a group");
    rank_expect_ok(&rank, tutti_init(&options, &rank.world), "tutti_init");
    rank.in = memory();
    rank.out = memory();
    return rank;
}

void rank_leave(struct rank *rank)
{
    check_doing("leaving the group");
    rank_expect_ok(rank, tutti_group_destroy(rank->world), "tutti_group_destroy");
    if (!rank->launched)
        check_same("after a group was made, used and destroyed");
    free(rank->in);
    free(rank->out);
}
