/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of a plugin's own, before any group is made. Every member asks `serves` for itself and
 * goes by the answer, so it must say the same in each process, however often and in whichever order
 * it is asked. What the collectives do is seen by the checks of ranks.
 */
#include "check/check.h"

#include <stdio.h>
#include <string.h>

#include <tutti/plugin_engine.h>
#include <tutti/tensor.h>

#include "check/plain_host.h"

enum { ANSWERS_MAX = 60000 }; /* what check_give() takes */

static char words[512]; /* of the last error() */

static void host_log(void *self, int32_t level, const char *text)
{
    (void)self;
    fprintf(stderr, "log %d: %s\n", level, text);
}

static tutti_status host_error(void *self, tutti_status status, int32_t system_errno,
                               const char *text)
{
    (void)self;
    g_snprintf(words, sizeof words, "%s%s%s", text ? text : "(no words)", system_errno ? ": " : "",
               system_errno ? g_strerror(system_errno) : "");
    return status;
}

static char library[64]; /* TUTTI_NAME, by which plugins are told which library to open */

/* Other options are not set. */
static const char *host_config(void *self, const char *key)
{
    (void)self;
    return *key ? NULL : g_getenv(library);
}

/* All that a plugin may use before it has a team. */
static const tutti_host host = {.struct_size = sizeof host,
                                .abi_minor = TUTTI_PLUGIN_ABI_MINOR,
                                .log = host_log,
                                .config = host_config,
                                .error = host_error};

static const tutti_collectives_ops *collectives_of(const struct check_subject *subject)
{
    const tutti_plugin *plugin = check_load(subject);
    g_autofree char *name = g_ascii_strup(plugin->name, -1);

    g_snprintf(library, sizeof library, "TUTTI_%s", g_strdelimit(name, "-.", '_'));
    for (uint32_t i = 0; i < plugin->provider_count; i++)
        if (plugin->providers[i]->kind == TUTTI_PROVIDER_COLLECTIVES)
            return plugin->providers[i]->ops;
    check_skips("it offers no collectives of its own");
}

/* ---- all that is asked ----------------------------------------------------------------------- */

static const char *const operations[] = {
    [TUTTI_COLLECTIVE_ALL_REDUCE] = "all_reduce",
    [TUTTI_COLLECTIVE_BROADCAST] = "broadcast",
    [TUTTI_COLLECTIVE_BARRIER] = "barrier",
    [TUTTI_COLLECTIVE_REDUCE] = "reduce",
    [TUTTI_COLLECTIVE_ALL_GATHER] = "all_gather",
    [TUTTI_COLLECTIVE_GATHER] = "gather",
    [TUTTI_COLLECTIVE_SCATTER] = "scatter",
    [TUTTI_COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
    [TUTTI_COLLECTIVE_ALL_TO_ALL] = "all_to_all",
};

static bool has_root(uint32_t operation)
{
    return operation == TUTTI_COLLECTIVE_BROADCAST || operation == TUTTI_COLLECTIVE_REDUCE ||
           operation == TUTTI_COLLECTIVE_GATHER || operation == TUTTI_COLLECTIVE_SCATTER;
}

static bool reduces(uint32_t operation)
{
    return operation == TUTTI_COLLECTIVE_ALL_REDUCE || operation == TUTTI_COLLECTIVE_REDUCE ||
           operation == TUTTI_COLLECTIVE_REDUCE_SCATTER;
}

static bool has_blocks(uint32_t operation)
{
    return operation >= TUTTI_COLLECTIVE_ALL_GATHER;
}

/* The calls of `kind`, which has operation, dtype and op, in several sizes; appended. */
static void add_sizes(GArray *calls, tutti_collective kind)
{
    static const uint64_t counts[] = {1, 1000, UINT64_C(1) << 20, UINT64_C(1) << 33};
    static const int32_t sizes[] = {2, 3, 16};

    for (size_t c = 0; c < G_N_ELEMENTS(counts); c++)
        for (size_t s = 0; s < G_N_ELEMENTS(sizes); s++)
            for (uint32_t uneven = 0; uneven <= has_blocks(kind.operation); uneven++) {
                const bool all_know = kind.operation == TUTTI_COLLECTIVE_ALL_GATHER ||
                                      kind.operation == TUTTI_COLLECTIVE_REDUCE_SCATTER;
                tutti_collective call = kind;

                call.size = sizes[s];
                call.root = has_root(kind.operation) ? call.size - 1 : -1;
                call.flags = uneven ? TUTTI_COLLECTIVE_UNEVEN : 0;
                call.count = uneven && !all_know ? 0 : counts[c];
                g_array_append_val(calls, call);
            }
}

static void add_dtype(GArray *calls, uint32_t operation, tutti_dtype dtype)
{
    tutti_collective kind = {.struct_size = sizeof kind,
                             .operation = operation,
                             .dtype = dtype,
                             .op = -1,
                             .element_bytes = (uint32_t)tutti_dtype_size(dtype)};

    if (!reduces(operation)) {
        add_sizes(calls, kind);
        return;
    }
    for (kind.op = TUTTI_SUM; kind.op <= TUTTI_BXOR; kind.op++)
        if (tutti_reduce_op_meaning(kind.op, dtype))
            add_sizes(calls, kind);
}

static GArray *calls_to_ask(void)
{
#define DTYPE(NAME, name, code, bits) TUTTI_##NAME,
    static const tutti_dtype dtypes[] = {TUTTI_DTYPE_LIST(DTYPE)};
#undef DTYPE
    GArray *calls = g_array_new(FALSE, FALSE, sizeof(tutti_collective));

    for (uint32_t o = TUTTI_COLLECTIVE_ALL_REDUCE; o < G_N_ELEMENTS(operations); o++) {
        if (o == TUTTI_COLLECTIVE_BARRIER) {
            const tutti_collective barrier = {.struct_size = sizeof barrier,
                                              .operation = o,
                                              .op = -1,
                                              .root = -1,
                                              .size = 4,
                                              .element_bytes = 1};
            g_array_append_val(calls, barrier);
            continue;
        }
        for (size_t d = 0; d < G_N_ELEMENTS(dtypes); d++)
            add_dtype(calls, o, dtypes[d]);
    }
    return calls;
}

static char *words_of(const tutti_collective *call)
{
    return g_strdup_printf(
        "%s%s of %llu %s%s%s by %d members", operations[call->operation],
        call->flags & TUTTI_COLLECTIVE_UNEVEN ? "_v" : "", (unsigned long long)call->count,
        call->dtype ? tutti_dtype_name(call->dtype) : "bytes", call->op >= 0 ? ", " : "",
        call->op >= 0 ? tutti_reduce_op_name(call->op) : "", call->size);
}

/* ---- the check ------------------------------------------------------------------------------- */

static void expect_engine(const tutti_collectives_ops *ops)
{
    tutti_engine_version version = {.struct_size = sizeof version};

    if (!TUTTI_HAS(ops, engine))
        return;
    check_doing("being asked which engine it drives");
    const tutti_status status = ops->engine(&host, NULL, &version);
    if (status)
        check_fails("engine says %s: %s", tutti_status_name(status), words);
    if (!*version.name || !memchr(version.name, 0, sizeof version.name))
        check_fails("engine gives no name of the engine that ends within %zu bytes",
                    sizeof version.name);
}

static bool serves(const tutti_collectives_ops *ops, const tutti_collective *call)
{
    const tutti_collective copy = *call;
    const bool answer = ops->serves(&host, NULL, &copy) != 0;

    if (memcmp(&copy, call, sizeof copy) != 0)
        check_fails("serves writes into its argument");
    return answer;
}

void check_serves(const struct check_member *member)
{
    const tutti_collectives_ops *ops = collectives_of(member->subject);
    g_autoptr(GArray) calls = calls_to_ask();
    g_autofree uint8_t *answers = g_malloc0(calls->len);
    guint served = 0;

    if (calls->len > ANSWERS_MAX)
        check_fails("%u calls are more than the check can ask for", calls->len);
    expect_engine(ops);
    check_doing("being asked what it serves");
    for (guint i = 0; i < calls->len; i++) { /* the second process asks in another order */
        const guint k = member->index ? calls->len - 1 - i : i;

        served += answers[k] = serves(ops, &g_array_index(calls, tutti_collective, k));
    }
    check_give(answers, calls->len);
    check_meet();
    uint64_t bytes;
    const uint8_t *theirs = check_take(1 - member->index, &bytes);
    for (guint i = 0; i < calls->len; i++) {
        const tutti_collective *call = &g_array_index(calls, tutti_collective, i);

        if (i < bytes && answers[i] == theirs[i] && serves(ops, call) == answers[i])
            continue;
        g_autofree char *what = words_of(call);
        check_fails("serves says both yes and no to %s; members choose by it without talking, so "
                    "it must depend on its arguments alone",
                    what);
    }
    if (!served)
        check_remarks("it serves none of the %u calls that it was asked for", calls->len);
}
