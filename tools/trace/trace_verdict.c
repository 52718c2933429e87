/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From dumps to a verdict. Each rule looks for one kind of trouble, in the order in which one kind
 * explains the next: a dead rank is not called late. The evidence, best first:
 *
 *   records     what each member called under a number; a difference needs nothing else
 *   losses the peers that a member lost. A lost rank that has dumped a failure of its own lives:
 *   the network between the two is cut. A lost rank that is silent is dead, unless its host is
 *   known not to answer the kernel how local peers' processes were when others dumped: stopped,
 *   traced waits the lowest collective in which a rank waits. A rank that has called less is late.
 *   An awaited rank without a dump is missing, for whatever reason. If all have called it, what
 *   they wait for does not come messages the same, with the peer; waits that lead back to where
 *   they began, over messages and
 *               collectives, are a circle
 *
 * Dumps are not taken at one moment. A wait of less than a second may be one that was about to end,
 * and a dump that is much older than the newest counts as none, unless its group had failed: nothing changes
 * in such a one, and a process that was stopped dumps the failure when it goes on.
 */
#include "trace/trace_verdict.h"

#include <string.h>

#include "trace/trace_judge.h"

static const gint64 OLD_NS = 10 * G_GINT64_CONSTANT(1000000000);

const char *trace_class_name(enum trace_class class)
{
    static const char *const names[] = {
#define TRACE_CLASS_NAME(NAME, name, meaning) name,
        TRACE_CLASS_LIST(TRACE_CLASS_NAME)
#undef TRACE_CLASS_NAME
    };

    return names[class];
}

const struct trace_group *judge_any(const struct trace_verdict *v)
{
    return v->groups->pdata[0];
}

void judge_add(struct trace_verdict *v, enum trace_class class, GArray *ranks, guint64 sequence,
               char *words)
{
    struct trace_finding *finding = g_new0(struct trace_finding, 1);

    *finding = (struct trace_finding){class, ranks, sequence, words};
    g_ptr_array_add(v->findings, finding);
}

bool judge_has(const struct trace_verdict *v, int rank)
{
    for (guint i = 0; i < v->findings->len; i++) {
        const struct trace_finding *finding = v->findings->pdata[i];

        for (guint k = 0; k < finding->ranks->len; k++)
            if (g_array_index(finding->ranks, int, k) == rank)
                return true;
    }
    return false;
}

GArray *judge_ranks(int rank)
{
    GArray *ranks = g_array_new(FALSE, FALSE, sizeof(int));

    if (rank >= 0)
        g_array_append_val(ranks, rank);
    return ranks;
}

/* ---- different calls ---- */

static bool is_different(const struct trace_record *a, const struct trace_record *b)
{
    if (a->has_signature && b->has_signature)
        return a->signature != b->signature;
    return strcmp(a->call, b->call) != 0;
}

/* The lowest number under which two members called different things; 0: none. */
static guint64 first_difference(const struct trace_verdict *v)
{
    g_autoptr(GHashTable) known = g_hash_table_new(g_int64_hash, g_int64_equal);
    guint64 lowest = 0;

    for (guint g = 0; g < v->groups->len; g++) {
        const struct trace_group *group = v->groups->pdata[g];

        for (guint i = 0; i < group->records->len; i++) {
            struct trace_record *mine = group->records->pdata[i];
            const struct trace_record *theirs = g_hash_table_lookup(known, &mine->sequence);

            if (mine->message)
                continue;
            if (!theirs)
                g_hash_table_insert(known, &mine->sequence, mine);
            else if (is_different(mine, theirs) && (!lowest || mine->sequence < lowest))
                lowest = mine->sequence;
        }
    }
    return lowest;
}

/* The call that most members made under this number. */
static const char *common_call(const struct trace_verdict *v, guint64 sequence)
{
    g_autoptr(GHashTable) counts = g_hash_table_new(g_str_hash, g_str_equal);
    const char *common = NULL;
    int most = 0;

    for (int r = 0; r < v->size; r++) {
        const struct trace_record *record =
            v->by_rank[r] ? trace_record_of(v->by_rank[r], sequence) : NULL;

        if (!record)
            continue;
        int count = GPOINTER_TO_INT(g_hash_table_lookup(counts, record->call)) + 1;
        g_hash_table_insert(counts, record->call, GINT_TO_POINTER(count));
        if (count > most) {
            most = count;
            common = record->call;
        }
    }
    return common;
}

static void add_difference(struct trace_verdict *v, guint64 sequence)
{
    const char *common = common_call(v, sequence);
    g_autoptr(GArray) same = judge_ranks(-1);
    GArray *others = judge_ranks(-1);
    GString *words = g_string_new(NULL);

    for (int r = 0; r < v->size; r++) {
        const struct trace_record *record =
            v->by_rank[r] ? trace_record_of(v->by_rank[r], sequence) : NULL;

        if (!record)
            continue;
        if (strcmp(record->call, common) == 0) {
            g_array_append_val(same, r);
            continue;
        }
        g_array_append_val(others, r);
        g_string_append_printf(words, "; rank %d called %s", r, record->call);
    }

    g_autofree char *most = trace_ranks_words(same);
    char *all = g_strdup_printf("as #%" G_GUINT64_FORMAT " %s called %s%s%s", sequence, most,
                                common, words->str,
                                others->len ? "" : ", but not all calls before it were the same");

    g_string_free(words, TRUE);
    judge_add(v, TRACE_DIFFERENT, others, sequence, all);
}

static void find_difference(struct trace_verdict *v)
{
    guint64 lowest = first_difference(v);

    if (lowest)
        add_difference(v, lowest);
    else if (v->status && strcmp(v->status, "TUTTI_ERR_MISMATCH") == 0)
        judge_add(v, TRACE_DIFFERENT, judge_ranks(-1), 0, g_strdup(v->status_words));
}

static int by_class(gconstpointer a, gconstpointer b)
{
    const struct trace_finding *const *x = a, *const *y = b;

    return (int)(*x)->class - (int)(*y)->class;
}

/* ---- processes that hold their groups ---- */

/* A process that dumped nothing of its groups, as something in tutti keeps them locked. */
static void add_busy(struct trace_verdict *v, const struct trace_dump *dump)
{
    for (guint i = 0; i < v->missing->len; i++) {
        int rank = g_array_index(v->missing, int, i);
        const struct trace_member *member = &judge_any(v)->members[rank];

        if (dump->pid != member->pid || strcmp(dump->host, member->host) != 0)
            continue;
        g_autofree char *who = judge_who(v, rank);
        judge_add(
            v, TRACE_STUCK, judge_ranks(rank), 0,
            g_strdup_printf("%s runs, but has been inside one call of tutti or of a plugin for "
                            "2 s or more",
                            who));
    }
}

static void find_busy(struct trace_verdict *v, const GPtrArray *dumps)
{
    for (guint i = 0; i < dumps->len; i++) {
        const struct trace_dump *dump = dumps->pdata[i];

        if (dump->busy)
            add_busy(v, dump);
    }
}

/* ---- the whole ---- */

/* The newest dump of each rank; those that are too old to speak of the same moment are dropped. */
static void collect(struct trace_verdict *v, const GPtrArray *groups)
{
    gint64 newest = 0;

    for (guint i = 0; i < groups->len; i++) {
        const struct trace_group *group = groups->pdata[i];
        const struct trace_group **place = &v->by_rank[group->rank];

        newest = MAX(newest, group->dump->wall_ns);
        if (!*place || (*place)->dump->wall_ns < group->dump->wall_ns)
            *place = group;
    }
    for (int r = 0; r < v->size; r++) {
        const struct trace_group *group = v->by_rank[r];

        if (group && !group->verdict && newest - group->dump->wall_ns > OLD_NS)
            group = v->by_rank[r] = NULL;
        if (!group) {
            g_array_append_val(v->missing, r);
            continue;
        }
        g_ptr_array_add(v->groups, (gpointer)group);
        if (!v->status) {
            v->status = group->verdict;
            v->status_words = group->verdict_words;
        }
    }
}

struct trace_verdict *judge_new(const char *name, int size)
{
    struct trace_verdict *v = g_new(struct trace_verdict, 1);

    *v = (struct trace_verdict){.name = name,
                                .size = size,
                                .by_rank = g_new0(const struct trace_group *, size),
                                .groups = g_ptr_array_new(),
                                .missing = judge_ranks(-1),
                                .waiting = judge_ranks(-1),
                                .findings = g_ptr_array_new()};
    return v;
}

struct trace_verdict *trace_judge(const GPtrArray *groups, const GPtrArray *dumps)
{
    const struct trace_group *first = groups->pdata[0];
    struct trace_verdict *v = judge_new(first->name, first->size);

    v->backend = first->backend;
    v->id = first->id;
    collect(v, groups);
    find_difference(v);
    judge_losses(v);
    judge_endings(v);
    judge_halted(v);
    find_busy(v, dumps);
    judge_waits(v);
    judge_messages(v);
    if (v->status && !v->findings->len)
        judge_add(v, TRACE_FAILED, judge_ranks(-1), 0, g_strdup(v->status_words));
    g_ptr_array_sort(v->findings, by_class);
    return v;
}

void trace_verdict_free(struct trace_verdict *v)
{
    for (guint i = 0; i < v->findings->len; i++) {
        struct trace_finding *finding = v->findings->pdata[i];

        g_array_unref(finding->ranks);
        g_free(finding->words);
        g_free(finding);
    }
    g_ptr_array_unref(v->findings);
    g_ptr_array_unref(v->groups);
    g_array_unref(v->missing);
    g_array_unref(v->waiting);
    g_free(v->by_rank);
    g_free(v);
}
