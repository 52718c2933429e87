/* SPDX-License-Identifier: Apache-2.0 */
#include "run/report.h"

#include <glib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli.h"
#include "run/fold.h"
#include "run/output.h"
#include "run/records.h"

/* Reads a controller's file of this process: below the mount by our path or, if the path is not
 * visible (a container), at the mount itself. */
static char *read_cgroup_file(const char *controller, const char *file)
{
    g_autofree char *groups = NULL;

    if (!g_file_get_contents("/proc/self/cgroup", &groups, NULL, NULL))
        return NULL;

    g_auto(GStrv) lines = g_strsplit(groups, "\n", -1);

    for (char **line = lines; *line; line++) {
        g_auto(GStrv) fields = g_strsplit(*line, ":", 3); /* id:controllers:path */

        if (g_strv_length(fields) != 3)
            continue;

        g_auto(GStrv) names = g_strsplit(fields[1], ",", -1); /* none at all in version 2 */

        if (*controller ? !g_strv_contains((const char *const *)names, controller) : *names != NULL)
            continue;

        const char *paths[] = {fields[2], "/"};

        for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) {
            g_autofree char *path =
                g_build_filename("/sys/fs/cgroup", controller, paths[i], file, NULL);
            char *text = NULL;

            if (g_file_get_contents(path, &text, NULL, NULL))
                return text;
        }
    }
    return NULL;
}

/* The number behind `name` at the start of a line, -1 when there is none. */
static long long number_after(const char *text, const char *name)
{
    size_t length = strlen(name);

    for (; text && *text; text = strchr(text, '\n'), text = text ? text + 1 : NULL)
        if (strncmp(text, name, length) == 0 && text[length] == ' ')
            return g_ascii_strtoll(text + length, NULL, 10);
    return -1;
}

void oom_count_read(struct oom_count *ret_count)
{
    g_autofree char *v2 = read_cgroup_file("", "memory.events");
    g_autofree char *v1 = v2 ? NULL : read_cgroup_file("memory", "memory.oom_control");
    g_autofree char *host = NULL;

    g_file_get_contents("/proc/vmstat", &host, NULL, NULL);
    ret_count->in_cgroup = number_after(v2 ? v2 : v1, "oom_kill");
    ret_count->on_host = number_after(host, "oom_kill");
}

int report_exit_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static char *signal_words(int sig)
{
    const char *name = sigabbrev_np(sig);

    if (!name)
        return g_strdup_printf("signal %d", sig);
    return g_strdup_printf("signal %d (SIG%s, %s)", sig, name, sigdescr_np(sig));
}

static const char *who_killed(const struct report *report)
{
    struct oom_count now;

    oom_count_read(&now);
    if (now.in_cgroup > report->before.in_cgroup)
        return "out of memory: the control group's limit was reached and the kernel killed a "
               "process of it (oom_kill rose during the job)";
    if (now.on_host > report->before.on_host)
        return "perhaps out of memory: the kernel's out-of-memory killer was at work on this host "
               "during the job";
    return "sent by the rank or another process; not the launcher, not the OOM killer";
}

static bool launcher_ended_some(const struct report *report)
{
    for (int i = 0; i < report->count; i++)
        if (report->ranks[i].terminated)
            return true;
    return false;
}

/* How a rank ended that was not the first. */
static char *fate_of(const struct report *report, const struct rank *rank)
{
    int status = rank->wait_status;

    if (!rank->exited)
        return g_strdup("could not be ended, even by SIGKILL");
    if (rank->killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return g_strdup_printf("killed by the launcher: still there %.1f s after SIGTERM",
                               report->killed_after_s);
    if (rank->terminated && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM)
        return g_strdup("ended by the launcher (SIGTERM)");
    if (WIFSIGNALED(status)) {
        g_autofree char *words = signal_words(WTERMSIG(status));

        return g_strdup_printf("ended by %s", words);
    }
    if (WEXITSTATUS(status) == 0)
        return g_strdup("finished with code 0");
    return g_strdup_printf("exited with code %d%s", WEXITSTATUS(status),
                           rank->terminated              ? " while the launcher ended the job"
                           : launcher_ended_some(report) ? " before the launcher ended the job"
                                                         : "");
}

struct block {
    GString *text;
    const char *side;
};

static void block_line(const struct block *block, const char *label, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

static void block_line(const struct block *block, const char *label, const char *format, ...)
{
    va_list args;

    g_string_append_printf(block->text, "%s %-8s ", block->side, label);
    va_start(args, format);
    g_string_append_vprintf(block->text, format, args);
    va_end(args);
    g_string_append_c(block->text, '\n');
}

/* One line for all ranks that ended in the same way: `later` picks those after the first. */
static void describe_others(const struct report *report, const struct block *block, bool later)
{
    g_autoptr(GHashTable) by_fate =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_array_unref);
    g_autoptr(GPtrArray) fates = g_ptr_array_new(); /* in the order of the ranks */

    for (int i = 0; i < report->count; i++) {
        const struct rank *rank = &report->ranks[i];
        bool is_later = !rank->exited || rank->terminated || record_is_victim(rank) ||
                        rank->exit_order > report->first->exit_order;

        if (rank == report->first || is_later != later)
            continue;

        char *fate = fate_of(report, rank);
        GArray *members = g_hash_table_lookup(by_fate, fate);

        if (!members) {
            members = g_array_new(FALSE, FALSE, sizeof(int));
            g_hash_table_insert(by_fate, fate, members);
            g_ptr_array_add(fates, fate);
        } else {
            g_free(fate);
        }
        g_array_append_val(members, rank->index);
    }
    for (guint i = 0; i < fates->len; i++) {
        const GArray *members = g_hash_table_lookup(by_fate, fates->pdata[i]);
        g_autofree char *ranges = fold_ranges(members);

        if (i == 0)
            block_line(block, "others", later ? "after it:" : "before it:");
        block_line(block, "", "  rank%s %s: %s", members->len > 1 ? "s" : "", ranges,
                   (const char *)fates->pdata[i]);
    }
}

/* The line that several ranks have printed alike, with them. */
static void describe_fold(const struct block *block, const struct fold_line *line)
{
    g_autofree char *ranks = fold_ranks(line->ranks);
    g_autofree char *text = output_readable(line->text->str, line->text->len, line->text->len);

    block_line(block, "", "  ranks %s: %s", ranks, text);
}

static bool is_folded(const struct fold_line *line)
{
    return line->ranks->len > 1;
}

/* The line's number in report->folded, -1: no other rank has printed it. The first rank is among those
 * that have, also if the launcher did not know the message yet when its line came. */
static int find_folded(const struct report *report, const char *shown)
{
    for (guint i = 0; i < report->folded->len; i++) {
        const struct fold_line *line = report->folded->pdata[i];
        g_autofree char *text =
            output_readable(line->text->str, line->text->len, OUTPUT_TAIL_LINE_BYTES);

        if (strcmp(text, shown) != 0)
            continue;
        fold_add_rank(line, report->first->index);
        return is_folded(line) ? (int)i : -1;
    }
    return -1;
}

static void describe_stderr(const struct report *report, const struct block *block)
{
    const int lines = (int)g_strv_length((char **)report->tail), first = report->first->index;
    g_autofree bool *shown = g_new0(bool, report->folded->len + 1);
    bool more = false;

    if (lines == 1)
        block_line(block, "stderr", "the last line of rank %d:", first);
    else if (lines)
        block_line(block, "stderr", "the last %d lines of rank %d:", lines, first);
    else
        block_line(block, "stderr", "rank %d printed nothing on stderr", first);
    for (int i = 0; i < lines; i++) {
        const int folded = find_folded(report, report->tail[i]);

        if (folded < 0)
            block_line(block, "", "  %s", report->tail[i]);
        else if (!shown[folded])
            describe_fold(block, report->folded->pdata[folded]);
        if (folded >= 0)
            shown[folded] = true;
    }
    for (guint i = 0; i < report->folded->len; i++) {
        if (shown[i] || !is_folded(report->folded->pdata[i]))
            continue;
        if (!more)
            block_line(block, "", "several ranks printed the same:");
        more = true;
        describe_fold(block, report->folded->pdata[i]);
    }
}

/* The reason of a rank that exited with 0 and made others fail. */
static const char *why_zero(const struct report *report, const struct rank *first)
{
    if (record_never_joined(report->ranks, report->count, first))
        return " before it joined its group; the others failed because of this";
    return record_is_leaving(first)
               ? ", without leaving its group; the others failed because of this"
               : " while others still needed it; they failed because of this";
}

/* A rank that ran out of time names the one that it waited for, which may be the one to look at. */
static void describe_awaited(const struct rank *first, const struct block *block)
{
    const struct rank *awaited = record_awaited(first);

    if (awaited && (awaited->terminated || !awaited->exited))
        block_line(block, "", "it waited for rank %d (pid %d), which was %s", awaited->index,
                   awaited->pid,
                   awaited->stopped ? "stopped (SIGSTOP)" : "still running: it hung or was slow");
}

static void describe_first(const struct report *report, const struct block *block)
{
    const struct rank *first = report->first;
    int status = first->wait_status;

    if (first->terminated || !first->exited) {
        g_autofree char *fate = fate_of(report, first);

        block_line(block, "first",
                   "rank %d (pid %d) was exiting without tutti_group_destroy(); the others failed "
                   "because of this",
                   first->index, first->pid);
        block_line(block, "", "%s", fate);
    } else if (WIFSIGNALED(status)) {
        g_autofree char *words = signal_words(WTERMSIG(status));

        block_line(block, "first", "rank %d (pid %d) was ended by %s%s", first->index, first->pid,
                   words, WCOREDUMP(status) ? "; core dumped" : "");
        if (WTERMSIG(status) == SIGKILL)
            block_line(block, "", "%s", who_killed(report));
    } else {
        block_line(block, "first", "rank %d (pid %d) exited with code %d%s", first->index,
                   first->pid, WEXITSTATUS(status),
                   WEXITSTATUS(status) ? "" : why_zero(report, first));
    }
    describe_awaited(first, block);

    describe_stderr(report, block);
}

static void append_edge(GString *text, const char *corner, const char *dash)
{
    enum { WIDTH = 78 };

    g_string_append(text, corner);
    for (int i = 1; i < WIDTH; i++)
        g_string_append(text, dash);
}

char *report_text(const struct report *report)
{
    bool utf8 = cli_utf8();
    struct block block = {g_string_new(NULL), utf8 ? "│" : "|"};
    const char *dash = utf8 ? "─" : "-";

    if (report->color)
        g_string_append(block.text, "\033[31m");
    append_edge(block.text, utf8 ? "┌" : "+", dash);
    g_string_append(block.text, report->color ? "\033[0m\n" : "\n");
    block_line(&block, "tutti", "the job failed after %.1f s; exit code %d", report->seconds,
               report->exit_code);
    describe_first(report, &block);
    describe_others(report, &block, false);
    describe_others(report, &block, true);
    if (report->log_dir)
        block_line(&block, "logs", "%s", report->log_dir);
    append_edge(block.text, utf8 ? "└" : "+", dash);
    g_string_append_c(block.text, '\n');
    return g_string_free(block.text, FALSE);
}
