/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From dumps to a verdict. Each rule looks for one kind of trouble, in the order in which one kind
 * explains the next: who died is not called late. The evidence, best first:
 *
 *   records     what each member called under a number; a difference needs nothing else
 *   losses      whom a member lost. Who was lost and has dumped a failure of its own lives: the
 *               network between the two is cut. Who was lost and is silent is dead, unless all that
 *               is known is that its host does not answer
 *   the kernel  how mates' processes were when others dumped: stopped, traced
 *   waits       the lowest collective that somebody waits in: who has called less is late; who gave
 *               no dump and is waited for is stopped or out of reach; if all have called it, what
 *               they wait for does not come
 *   messages    the same, with the peer; waits that lead back to where they began are a circle
 *
 * Dumps are not taken at one moment. A wait of less than a second may be one that was about to end,
 * and a dump that is much older than the newest counts as none.
 */
#include "trace_verdict.h"

#include <string.h>

#include "trace_judge.h"

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

/* ---- words ---- */

char *trace_ranks_words(const GArray *ranks)
{
    g_autoptr(GPtrArray) parts = g_ptr_array_new_with_free_func(g_free);
    GString *words = g_string_new(ranks->len == 1 ? "rank " : "ranks ");

    for (guint i = 0; i < ranks->len;) {
        int first = g_array_index(ranks, int, i), last = first;

        while (++i < ranks->len && g_array_index(ranks, int, i) == last + 1)
            last++;
        if (last > first + 1)
            g_ptr_array_add(parts, g_strdup_printf("%d-%d", first, last));
        else
            for (int r = first; r <= last; r++)
                g_ptr_array_add(parts, g_strdup_printf("%d", r));
    }
    for (guint i = 0; i < parts->len; i++)
        g_string_append_printf(words, "%s%s",
                               i == 0               ? ""
                               : i + 1 < parts->len ? ", "
                                                    : " and ",
                               (const char *)parts->pdata[i]);
    return g_string_free(words, FALSE);
}

const struct trace_group *judge_any(const struct trace_verdict *v)
{
    for (int r = 0; r < v->size; r++)
        if (v->by_rank[r])
            return v->by_rank[r];
    return NULL;
}

char *judge_who(const struct trace_verdict *v, int rank)
{
    const struct trace_member *member = &judge_any(v)->members[rank];

    if (!member->pid)
        return g_strdup_printf("rank %d", rank);
    return g_strdup_printf("rank %d (host %s, pid %d)", rank, member->host, member->pid);
}

char *trace_call_words(const struct trace_verdict *v, guint64 sequence)
{
    for (int r = 0; r < v->size; r++) {
        const struct trace_record *record =
            v->by_rank[r] ? trace_record_of(v->by_rank[r], sequence) : NULL;

        if (record)
            return g_strdup_printf("#%" G_GUINT64_FORMAT " %s", sequence, record->call);
    }
    return g_strdup_printf("#%" G_GUINT64_FORMAT, sequence);
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

/* What it called after the group had failed; NULL: nothing. */
static const struct trace_record *refused(const struct trace_group *group)
{
    for (guint i = group->records->len; i > 0; i--) {
        const struct trace_record *record = group->records->pdata[i - 1];

        if (record->refused)
            return record;
    }
    return NULL;
}

/* What its dump says that it does. */
char *judge_activity(const struct trace_verdict *v, int rank)
{
    const struct trace_group *group = v->by_rank[rank];
    const struct trace_dump *dump = group->dump;

    for (guint g = 0; g < dump->groups->len; g++) {
        const struct trace_group *other = dump->groups->pdata[g];
        const struct trace_call *call = other->unfinished->len ? other->unfinished->pdata[0] : NULL;

        if (!call)
            continue;
        g_autofree char *words = judge_call(other, call);
        g_autofree char *where =
            other == group ? g_strdup("") : g_strdup_printf(" of group %s", other->name);
        g_autofree char *whom = call->message || call->waits_rank < 0
                                    ? g_strdup("")
                                    : g_strdup_printf(" for rank %d", call->waits_rank);
        return g_strdup_printf("it waits in %s%s%s", words, where, whom);
    }
    const struct trace_record *call = refused(group);

    if (call)
        return g_strdup_printf("it called #%" G_GUINT64_FORMAT
                               " %s when the group had failed already",
                               call->sequence, call->call);
    if (!group->started)
        return g_strdup_printf("it %s and is outside of tutti", group->records->len
                                                                    ? "waits for nothing"
                                                                    : "has called nothing yet");
    return g_strdup_printf("it finished #%" G_GUINT64_FORMAT " and is outside of tutti",
                           group->completed);
}

char *judge_call(const struct trace_group *group, const struct trace_call *call)
{
    if (!call->message) {
        const struct trace_record *record = trace_record_of(group, call->sequence);

        return g_strdup_printf("#%" G_GUINT64_FORMAT "%s%s", call->sequence, record ? " " : "",
                               record ? record->call : "");
    }
    g_autofree char *peer =
        call->peer < 0 ? g_strdup("any rank") : g_strdup_printf("rank %d", call->peer);

    return g_strdup_printf("%s of %" G_GUINT64_FORMAT " bytes, tag %" G_GUINT64_FORMAT ", %s %s",
                           call->operation, call->bytes, call->tag,
                           strcmp(call->operation, "send") == 0 ? "to" : "from", peer);
}

/* ---- different calls ---- */

static bool is_different(const struct trace_record *a, const struct trace_record *b)
{
    if (a->has_signature && b->has_signature)
        return a->signature != b->signature;
    return strcmp(a->call, b->call) != 0;
}

/* The lowest number under which this member called something else than `reference`; 0: none. */
static guint64 first_difference(const struct trace_group *reference,
                                const struct trace_group *group)
{
    guint64 lowest = 0;

    for (guint i = 0; i < group->records->len; i++) {
        const struct trace_record *mine = group->records->pdata[i];
        const struct trace_record *theirs =
            mine->message ? NULL : trace_record_of(reference, mine->sequence);

        if (theirs && is_different(mine, theirs) && (!lowest || mine->sequence < lowest))
            lowest = mine->sequence;
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
    const struct trace_group *reference = judge_any(v);
    guint64 lowest = 0;

    for (int r = 0; r < v->size; r++) {
        guint64 found = v->by_rank[r] ? first_difference(reference, v->by_rank[r]) : 0;

        if (found && (!lowest || found < lowest))
            lowest = found;
    }
    if (lowest)
        add_difference(v, lowest);
    else if (v->status && strcmp(v->status, "TUTTI_ERR_MISMATCH") == 0)
        judge_add(v, TRACE_DIFFERENT, judge_ranks(-1), 0, g_strdup(v->status_words));
}

/* ---- who was lost ---- */

static const struct trace_member *as_seen_by(const struct trace_verdict *v, int by, int rank)
{
    return v->by_rank[by] && by != rank ? &v->by_rank[by]->members[rank] : NULL;
}

/* How a process is that does not run, as its mates saw it; NULL: none of them says so. */
static const char *halted(const struct trace_verdict *v, int rank)
{
    for (int by = 0; by < v->size; by++) {
        const struct trace_member *seen = as_seen_by(v, by, rank);

        if (!seen || !seen->process)
            continue;
        if (strcmp(seen->process, "stopped") == 0)
            return "is stopped by a signal (SIGCONT lets it go on)";
        if (strcmp(seen->process, "traced") == 0)
            return "is held by a debugger";
    }
    return NULL;
}

/* Who has left in order is not lost, whatever those say that had not heard of it. */
static bool has_left(const struct trace_verdict *v, int rank)
{
    for (int by = 0; by < v->size; by++) {
        const struct trace_member *seen = as_seen_by(v, by, rank);

        if (seen && seen->left_after >= 0)
            return true;
    }
    return false;
}

static bool lost_somebody(const struct trace_group *group)
{
    return group && group->verdict && group->culprit >= 0 &&
           strcmp(group->verdict, "TUTTI_ERR_PEER_LOST") == 0;
}

/* What others say of it, at worst. */
static enum trace_lost lost(const struct trace_verdict *v, int rank)
{
    enum trace_lost worst = TRACE_NOT_LOST;

    for (int by = 0; by < v->size && !has_left(v, rank); by++) {
        const struct trace_member *seen = as_seen_by(v, by, rank);

        if (!seen)
            continue;
        if (seen->process && strcmp(seen->process, "dead") == 0)
            return TRACE_ENDED;
        if (seen->lost != TRACE_NOT_LOST)
            worst = seen->lost;
        else if (worst == TRACE_NOT_LOST && lost_somebody(v->by_rank[by]) &&
                 v->by_rank[by]->culprit == rank)
            worst = TRACE_ENDED; /* heard from a member whose dump is not here */
    }
    return worst;
}

/* Those that have dumped a loss: in the words that `rank` heard, or in others. */
static GArray *side_of(const struct trace_verdict *v, int rank, bool other)
{
    const char *words = v->by_rank[rank]->verdict_words;
    GArray *side = judge_ranks(-1);

    for (int r = 0; r < v->size; r++)
        if (lost_somebody(v->by_rank[r]) &&
            (g_strcmp0(v->by_rank[r]->verdict_words, words) != 0) == other)
            g_array_append_val(side, r);
    return side;
}

/* Of who was lost and has dumped the loss of somebody else: both sides live, and do not reach each
 * other. False: it has not, or nobody else has. */
static bool add_cut(struct trace_verdict *v, int rank)
{
    if (!lost_somebody(v->by_rank[rank]) || v->by_rank[rank]->culprit == rank)
        return false;

    g_autoptr(GArray) here = side_of(v, rank, false), there = side_of(v, rank, true);
    g_autofree char *these = trace_ranks_words(here), *those = trace_ranks_words(there);
    g_autofree char *one = judge_who(v, rank), *two = judge_who(v, v->by_rank[rank]->culprit);

    if (there->len)
        judge_add(v, TRACE_CUT, g_array_copy(here->len <= there->len ? here : there), 0,
                  g_strdup_printf("%s and %s lost each other, and lived when they dumped: the "
                                  "network between %s and %s is cut",
                                  these, those, one, two));
    return there->len > 0;
}

static void add_lost(struct trace_verdict *v, int rank, enum trace_lost how)
{
    g_autofree char *who = judge_who(v, rank);

    if (how == TRACE_VANISHED)
        judge_add(v, TRACE_CUT, judge_ranks(rank), 0,
                  g_strdup_printf("%s does not answer on the network, and no dump of it tells of "
                                  "that: its host is cut off, or down",
                                  who));
    else
        judge_add(v, TRACE_DEAD, judge_ranks(rank), 0,
                  g_strdup_printf("%s ended without leaving the group", who));
}

static void find_losses(struct trace_verdict *v)
{
    bool cut = false;

    for (int r = 0; r < v->size && !cut; r++) /* told once, for both sides */
        cut = lost(v, r) != TRACE_NOT_LOST && add_cut(v, r);
    for (int r = 0; r < v->size; r++) {
        enum trace_lost how = lost(v, r);
        bool lives = how == TRACE_VANISHED && (v->by_rank[r] || halted(v, r));

        if (how != TRACE_NOT_LOST && !(cut && (lives || lost_somebody(v->by_rank[r]))))
            add_lost(v, r, how);
    }
}

static int by_class(gconstpointer a, gconstpointer b)
{
    const struct trace_finding *const *x = a, *const *y = b;

    return (int)(*x)->class - (int)(*y)->class;
}

/* ---- who left, and who ended it all ---- */

static void find_endings(struct trace_verdict *v)
{
    for (int r = 0; r < v->size; r++) {
        const struct trace_group *group = v->by_rank[r];
        int culprit = group && group->verdict ? group->culprit : -1;

        if (culprit < 0 || judge_has(v, culprit))
            continue;
        if (strcmp(group->verdict, "TUTTI_ERR_ABORTED") == 0)
            judge_add(v, TRACE_ABORTED, judge_ranks(culprit), 0, g_strdup(group->verdict_words));
        else if (strcmp(group->verdict, "TUTTI_ERR_PEER_LOST") == 0 &&
                 group->members[culprit].left_after >= 0)
            judge_add(v, TRACE_LEFT, judge_ranks(culprit),
                      (guint64)group->members[culprit].left_after + 1,
                      g_strdup(group->verdict_words));
    }
}

/* ---- processes that do not run ---- */

static void find_halted(struct trace_verdict *v)
{
    for (int r = 0; r < v->size; r++) {
        const char *how = halted(v, r);
        g_autofree char *who = judge_who(v, r);

        if (how)
            judge_add(v, TRACE_STOPPED, judge_ranks(r), 0, g_strdup_printf("%s %s", who, how));
    }
}

/* A process that dumped nothing of its groups, as something in tutti keeps them locked. */
static void find_busy(struct trace_verdict *v, const GPtrArray *dumps)
{
    for (int r = 0; r < v->size; r++) {
        const struct trace_member *member = &judge_any(v)->members[r];

        for (guint i = 0; i < dumps->len; i++) {
            const struct trace_dump *dump = dumps->pdata[i];
            g_autofree char *who = judge_who(v, r);

            if (!dump->busy || v->by_rank[r] || dump->pid != member->pid ||
                strcmp(dump->host, member->host) != 0)
                continue;
            judge_add(v, TRACE_STUCK, judge_ranks(r), 0,
                      g_strdup_printf("%s runs, but has been inside one call of tutti or of a "
                                      "plugin for 2 s or more",
                                      who));
        }
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

        if (group && newest - group->dump->wall_ns > OLD_NS)
            v->by_rank[r] = NULL;
        if (!v->by_rank[r])
            g_array_append_val(v->missing, r);
        else if (!v->status) {
            v->status = group->verdict;
            v->status_words = group->verdict_words;
        }
    }
}

struct trace_verdict *trace_judge(const GPtrArray *groups, const GPtrArray *dumps)
{
    const struct trace_group *first = groups->pdata[0];
    struct trace_verdict *v = g_new0(struct trace_verdict, 1);

    *v = (struct trace_verdict){.name = first->name,
                                .backend = first->backend,
                                .id = first->id,
                                .size = first->size,
                                .by_rank = g_new0(const struct trace_group *, first->size),
                                .missing = judge_ranks(-1),
                                .waiting = judge_ranks(-1),
                                .findings = g_ptr_array_new()};
    collect(v, groups);
    find_difference(v);
    find_losses(v);
    find_endings(v);
    find_halted(v);
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
    g_array_unref(v->missing);
    g_array_unref(v->waiting);
    g_free(v->by_rank);
    g_free(v);
}
