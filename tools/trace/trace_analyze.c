/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti trace analyze`: reads dumps, judges each group, and tells it as text or as JSON. */
#include <errno.h>
#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "trace/trace.h"
#include "trace/trace_verdict.h"
#include "wrap.h"

enum { EXIT_TROUBLE = 3 };

static const char summary[] =
    "Finds the ranks that are late, stuck, dead, cut off or different, from the dumps of a "
    "job.\nPATH is a dump, or a folder with dumps. Ranks write dumps if TUTTI_DUMP_DIR is set, on "
    "SIGUSR2\nand when a group fails, and by tutti_recorder_dump(). Some dumps may be missing.";

static const char description[] =
    "Exit codes: 0 nothing is wrong; 1 no dump could be read; 2 the command line is wrong;\n"
    "3 something is wrong.\n\n"
    "Examples:\n"
    "  tutti trace analyze /tmp/dumps\n"
    "  tutti trace analyze --json node1/dumps node2/dumps\n";

struct unread {
    char *path, *words;
};

/* One attempt of one job. */
struct job {
    const struct trace_dump *dump; /* one of them: run and attempt */
    GPtrArray *verdicts;           /* struct trace_verdict */
};

struct analysis {
    GPtrArray *dumps;  /* struct trace_dump */
    GPtrArray *unread; /* struct unread */
    GPtrArray *jobs;   /* struct job */
};

/* ---- reading ---- */

static void unread_free(gpointer user)
{
    struct unread *unread = user;

    g_free(unread->path);
    g_free(unread->words);
    g_free(unread);
}

static void job_free(gpointer user)
{
    struct job *job = user;

    g_ptr_array_unref(job->verdicts);
    g_free(job);
}

static void read_path(struct analysis *a, const char *path)
{
    char *words = NULL;
    struct trace_dump *dump = trace_read_file(path, &words);

    if (dump) {
        g_ptr_array_add(a->dumps, dump);
        return;
    }
    struct unread *unread = g_new(struct unread, 1);
    *unread = (struct unread){g_strdup(path), words};
    g_ptr_array_add(a->unread, unread);
}

static int by_name(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Reads files that end in .json; dumps that are being written begin with a dot. */
static void read_folder(struct analysis *a, const char *folder, GDir *dir)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    const char *name;

    while ((name = g_dir_read_name(dir)))
        if (g_str_has_suffix(name, ".json") && name[0] != '.')
            g_ptr_array_add(names, g_build_filename(folder, name, NULL));
    g_ptr_array_sort(names, by_name);
    for (guint i = 0; i < names->len; i++)
        read_path(a, names->pdata[i]);
}

static void read_all(struct analysis *a, char *const *paths)
{
    for (; *paths; paths++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(GDir) dir = g_dir_open(*paths, 0, &error);

        if (dir)
            read_folder(a, *paths, dir);
        else
            read_path(a, *paths);
    }
}

/* ---- jobs and groups ---- */

static struct job *job_of(struct analysis *a, const struct trace_dump *dump)
{
    struct job *job;

    for (guint i = 0; i < a->jobs->len; i++) {
        job = a->jobs->pdata[i];
        if (trace_same_job(job->dump, dump))
            return job;
    }
    job = g_new(struct job, 1);
    *job = (struct job){dump, g_ptr_array_new_with_free_func((GDestroyNotify)trace_verdict_free)};
    g_ptr_array_add(a->jobs, job);
    return job;
}

static int by_identity(gconstpointer a, gconstpointer b)
{
    const struct trace_group *const *x = a, *const *y = b;

    if ((*x)->id != (*y)->id)
        return (*x)->id < (*y)->id ? -1 : 1;
    return (*x)->size - (*y)->size; /* a dump that lies about it is judged alone */
}

static int by_first_member(gconstpointer a, gconstpointer b)
{
    const struct trace_verdict *const *x = a, *const *y = b;

    return (*y)->size != (*x)->size ? (*y)->size - (*x)->size : strcmp((*x)->name, (*y)->name);
}

static void judge_all(struct analysis *a)
{
    g_autoptr(GPtrArray) groups = g_ptr_array_new();

    for (guint i = 0; i < a->dumps->len; i++) {
        const struct trace_dump *dump = a->dumps->pdata[i];

        for (guint g = 0; g < dump->groups->len; g++)
            g_ptr_array_add(groups, dump->groups->pdata[g]);
    }
    g_ptr_array_sort(groups, by_identity);
    for (guint i = 0; i < groups->len;) {
        g_autoptr(GPtrArray) same = g_ptr_array_new();
        guint first = i;

        for (; i < groups->len && by_identity(&groups->pdata[first], &groups->pdata[i]) == 0; i++)
            g_ptr_array_add(same, groups->pdata[i]);
        const struct trace_group *any = same->pdata[0];
        g_ptr_array_add(job_of(a, any->dump)->verdicts, trace_judge(same, a->dumps));
    }
    for (guint i = 0; i < a->dumps->len; i++) {
        const struct trace_dump *dump = a->dumps->pdata[i];

        if (trace_is_first_to_join(a->dumps, i))
            g_ptr_array_add(job_of(a, dump)->verdicts, trace_judge_joining(dump, a->dumps));
    }
    for (guint i = 0; i < a->jobs->len; i++)
        g_ptr_array_sort(((struct job *)a->jobs->pdata[i])->verdicts, by_first_member);
}

static enum trace_class worst(const struct analysis *a)
{
    enum trace_class class = TRACE_FINE;

    for (guint i = 0; i < a->jobs->len; i++) {
        const struct job *job = a->jobs->pdata[i];

        for (guint k = 0; k < job->verdicts->len; k++) {
            const struct trace_verdict *v = job->verdicts->pdata[k];

            if (v->findings->len)
                class = MIN(class, ((struct trace_finding *)v->findings->pdata[0])->class);
        }
    }
    return class;
}

/* ---- text ---- */

/* A sentence is filled to the width of a terminal, and further lines of it are indented by two more. Elsewhere it
 * is one line, which grep(1) finds whole. */
static void print_sentence(int indent, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void print_sentence(int indent, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args);
    va_end(args);
    printf("%*s", indent, "");
    if (isatty(STDOUT_FILENO))
        wrap_print(indent, indent + 2, text);
    else
        puts(text);
}

static void print_verdict(const struct trace_verdict *v)
{
    print_sentence(0, "group %s: %d member%s, %s", v->name, v->size, v->size == 1 ? "" : "s",
                   v->in_init ? "being made" : v->backend);
    if (v->waiting->len) {
        g_autofree char *ranks = trace_ranks_words(v->waiting);
        g_autofree char *call =
            v->in_init ? g_strdup("tutti_init()") : trace_call_words(v, v->sequence);
        g_autofree char *time =
            v->seconds > 0 ? g_strdup_printf(", for %.1f s", v->seconds) : g_strdup("");

        print_sentence(2, "%s wait%s in %s%s", ranks, v->waiting->len == 1 ? "s" : "", call, time);
    }
    for (guint i = 0; i < v->findings->len; i++) {
        const struct trace_finding *finding = v->findings->pdata[i];

        print_sentence(2, "%s: %s", trace_class_name(finding->class), finding->words);
    }
    if (!v->findings->len)
        print_sentence(2, "fine: no rank had waited for more than a second%s",
                       v->waiting->len ? "; if they still wait, ask for new dumps" : "");
    if (v->missing->len) {
        g_autofree char *ranks = trace_ranks_words(v->missing);

        print_sentence(2, "no dump of %s", ranks);
    }
    if (v->status)
        print_sentence(2, "the ranks say: %s: %s", v->status, v->status_words);
}

static void print_text(const struct analysis *a)
{
    for (guint i = 0; i < a->jobs->len; i++) {
        const struct job *job = a->jobs->pdata[i];

        print_sentence(0, "run %s, attempt %d", job->dump->run ? job->dump->run : "?",
                       job->dump->attempt);
        for (guint k = 0; k < job->verdicts->len; k++)
            print_verdict(job->verdicts->pdata[k]);
    }
    for (guint i = 0; i < a->dumps->len; i++) {
        const struct trace_dump *dump = a->dumps->pdata[i];

        if (!dump->groups->len && !dump->busy && !dump->joining)
            print_sentence(0, "process %d on %s was in no group when it dumped", dump->pid,
                           dump->host);
    }
    print_sentence(0, "verdict: %s", trace_class_name(worst(a)));
}

/* ---- JSON ---- */

static void build_ranks(JsonBuilder *builder, const char *name, const GArray *ranks)
{
    cli_json_array(builder, name);
    for (guint i = 0; i < ranks->len; i++)
        json_builder_add_int_value(builder, g_array_index(ranks, int, i));
    json_builder_end_array(builder);
}

static void build_finding(JsonBuilder *builder, const struct trace_verdict *v,
                          const struct trace_finding *finding)
{
    g_autofree char *call = finding->sequence ? trace_call_words(v, finding->sequence) : NULL;

    json_builder_begin_object(builder);
    cli_json_string(builder, "class", trace_class_name(finding->class));
    build_ranks(builder, "ranks", finding->ranks);
    cli_json_string(builder, "call", call);
    cli_json_string(builder, "words", finding->words);
    json_builder_end_object(builder);
}

static void build_verdict(JsonBuilder *builder, const struct trace_verdict *v)
{
    json_builder_begin_object(builder);
    cli_json_string(builder, "name", v->name);
    cli_json_int(builder, "size", v->size);
    cli_json_string(builder, "backend", v->backend);
    cli_json_string(builder, "status", v->status);
    cli_json_string(builder, "status_words", v->status_words);
    build_ranks(builder, "waiting", v->waiting);
    build_ranks(builder, "missing", v->missing);
    cli_json_array(builder, "findings");
    for (guint i = 0; i < v->findings->len; i++)
        build_finding(builder, v, v->findings->pdata[i]);
    json_builder_end_array(builder);
    json_builder_end_object(builder);
}

static void print_json(const struct analysis *a)
{
    g_autoptr(JsonBuilder) builder = json_builder_new();

    json_builder_begin_object(builder);
    cli_json_string(builder, "schema", "tutti.analysis/1");
    cli_json_string(builder, "verdict", trace_class_name(worst(a)));
    cli_json_array(builder, "runs");
    for (guint i = 0; i < a->jobs->len; i++) {
        const struct job *job = a->jobs->pdata[i];

        json_builder_begin_object(builder);
        cli_json_string(builder, "run", job->dump->run);
        cli_json_int(builder, "attempt", job->dump->attempt);
        cli_json_array(builder, "groups");
        for (guint k = 0; k < job->verdicts->len; k++)
            build_verdict(builder, job->verdicts->pdata[k]);
        json_builder_end_array(builder);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    cli_json_array(builder, "unread");
    for (guint i = 0; i < a->unread->len; i++) {
        const struct unread *unread = a->unread->pdata[i];

        json_builder_begin_object(builder);
        cli_json_string(builder, "path", unread->path);
        cli_json_string(builder, "words", unread->words);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    cli_print_json(builder);
}

/* ---- the call ---- */

/* One line where one file is the reason, and otherwise one for each and one for all. */
static int say_nothing_read(const struct analysis *a, char *const *paths)
{
    g_autofree char *where = g_strjoinv(" ", (char **)paths);
    const struct unread *only = a->unread->len == 1 ? a->unread->pdata[0] : NULL;

    if (only)
        cli_say("trace analyze", "no dump could be read: %s: %s", only->path, only->words);
    else
        cli_say("trace analyze",
                "no dump could be read in %s; ranks write dumps if TUTTI_DUMP_DIR is set, on "
                "SIGUSR2 and when a group fails",
                where);
    return EXIT_FAILED;
}

static int analyze(struct analysis *a, char *const *paths, bool json)
{
    read_all(a, paths);
    for (guint i = 0; i < a->unread->len && (a->dumps->len || a->unread->len > 1); i++) {
        const struct unread *unread = a->unread->pdata[i];

        cli_say("trace analyze", "%s is left out: %s", unread->path, unread->words);
    }
    if (!a->dumps->len)
        return say_nothing_read(a, paths);
    judge_all(a);
    if (json)
        print_json(a);
    else
        print_text(a);
    return worst(a) == TRACE_FINE ? EXIT_OK : EXIT_TROUBLE;
}

int trace_analyze_main(int argc, char **argv)
{
    gboolean json = FALSE;
    const GOptionEntry entries[] = {
        {"json", 0, 0, G_OPTION_ARG_NONE, &json, "Print one JSON document", NULL},
        {NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL}};

    if (!cli_parse("trace analyze", "PATH…", summary, description, entries, false, &argc, &argv))
        return EXIT_USAGE;
    if (argc == 0)
        return cli_usage("trace analyze", "no folder with dumps given");

    struct analysis a = {
        .dumps = g_ptr_array_new_with_free_func((GDestroyNotify)trace_dump_free),
        .unread = g_ptr_array_new_with_free_func(unread_free),
        .jobs = g_ptr_array_new_with_free_func(job_free),
    };
    int code = analyze(&a, argv, json);

    g_ptr_array_unref(a.jobs); /* before the dumps, which it points into */
    g_ptr_array_unref(a.dumps);
    g_ptr_array_unref(a.unread);
    return code;
}
