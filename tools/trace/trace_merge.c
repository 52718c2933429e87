/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti trace merge`: the files of all ranks become one, on one clock, which is shown. */
#include "trace/trace_merge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "trace/trace.h"
#include "wrap.h"

enum { INIT_PIDS = 10000000 /* between the numbers of a rank in one tutti_init() and the next */ };

static const char summary[] =
    "Merges the files of the wrapper trace (TUTTI_WRAP=trace) into one for Perfetto "
    "and\nchrome://tracing. PATH is a folder with tutti-trace.*.json, or such a file. Times of "
    "several\nhosts are converted to the clock of the lowest rank. The difference of the clocks is "
    "estimated\nfrom the calls, and printed with its error bound.";

static const char description[] =
    "Examples:\n"
    "  TUTTI_WRAP=trace TUTTI_TRACE_DIR=/tmp/t tutti run -n 4 ./train\n"
    "  tutti trace merge -o train.json /tmp/t\n"
    "  tutti trace merge node1/t node2/t\n";

/* ---- reading ---- */

static int by_rank(gconstpointer a, gconstpointer b)
{
    const struct timeline *x = *(struct timeline *const *)a, *y = *(struct timeline *const *)b;

    return x->init != y->init ? x->init - y->init : x->rank - y->rank;
}

static bool read_file(GPtrArray *timelines, const char *path)
{
    g_autofree char *words = NULL;
    struct timeline *t = timeline_read(path, &words);

    if (t)
        g_ptr_array_add(timelines, t);
    else
        cli_say("trace merge", "%s is left out: %s", path, words);
    return t != NULL;
}

static bool read_path(GPtrArray *timelines, const char *path)
{
    g_autoptr(GDir) folder = g_dir_open(path, 0, NULL);
    bool any = false;

    if (!folder)
        return read_file(timelines, path);
    for (const char *name; (name = g_dir_read_name(folder));) {
        g_autofree char *file = g_build_filename(path, name, NULL);

        if (g_str_has_prefix(name, "tutti-trace.") && g_str_has_suffix(name, ".json"))
            any |= read_file(timelines, file);
    }
    if (!any)
        cli_say("trace merge", "%s has no tutti-trace.*.json that could be read", path);
    return any;
}

/* Files of two jobs, or two files of one rank, would make a picture of something that never was. */
static bool belong_together(GPtrArray *timelines)
{
    g_ptr_array_sort(timelines, by_rank);
    for (guint i = 1; i < timelines->len; i++) {
        const struct timeline *a = timelines->pdata[i - 1], *b = timelines->pdata[i];

        if (strcmp(a->run, b->run) || a->size != b->size) {
            cli_say("trace merge",
                    "%s and %s are of different jobs: run %s of %d ranks, and run %s of %d; give "
                    "the files of one",
                    a->path, b->path, a->run, a->size, b->run, b->size);
            return false;
        }
        if (!by_rank(&a, &b)) {
            cli_say("trace merge", "%s and %s are both of rank %d; give one of them", a->path,
                    b->path, a->rank);
            return false;
        }
    }
    return true;
}

/* ---- writing ---- */

/* The earliest moment becomes 0: viewers, and numbers of limited precision, like small ones. */
static double earliest(GPtrArray *timelines)
{
    double first = INFINITY;

    for (guint i = 0; i < timelines->len; i++) {
        const struct timeline *t = timelines->pdata[i];
        guint count = json_array_get_length(json_node_get_array(t->root));

        for (guint k = 0; k < count; k++) {
            JsonObject *event = event_at(t->root, k);

            if (event && !strcmp(event_text(event, "ph"), "X"))
                first = MIN(first, event_number(event, "ts", INFINITY) + t->clock->offset_us);
        }
    }
    return isfinite(first) ? first : 0;
}

static void move_events(JsonArray *all, const struct timeline *t, double first)
{
    guint count = json_array_get_length(json_node_get_array(t->root));

    for (guint k = 0; k < count; k++) {
        JsonObject *event = event_at(t->root, k);

        if (!event)
            continue;
        if (!strcmp(event_text(event, "ph"), "X")) {
            double ns = (event_number(event, "ts", first) + t->clock->offset_us - first) * 1e3;

            json_object_set_double_member(event, "ts", round(ns) / 1e3);
        }
        json_object_set_int_member(event, "pid", t->rank + (gint64)(t->init - 1) * INIT_PIDS);
        json_array_add_object_element(all, json_object_ref(event));
    }
}

static JsonObject *describe_clocks(GPtrArray *timelines)
{
    JsonObject *about = json_object_new();
    JsonArray *ranks = json_array_new();

    for (guint i = 0; i < timelines->len; i++) {
        const struct timeline *t = timelines->pdata[i];
        JsonObject *one = json_object_new();

        json_object_set_int_member(one, "rank", t->rank);
        json_object_set_int_member(one, "init", t->init);
        json_object_set_string_member(one, "host", t->host);
        json_object_set_double_member(one, "clock_offset_us", t->clock->offset_us);
        if (t->clock->within_us >= 0)
            json_object_set_double_member(one, "clock_within_us", t->clock->within_us);
        else
            json_object_set_null_member(one, "clock_within_us");
        json_array_add_object_element(ranks, one);
    }
    json_object_set_string_member(about, "schema", "tutti.timeline.merged/1");
    json_object_set_string_member(about, "run_id", ((struct timeline *)timelines->pdata[0])->run);
    json_object_set_array_member(about, "ranks", ranks);
    return about;
}

static bool write_merged(GPtrArray *timelines, const char *path)
{
    g_autoptr(JsonObject) document = json_object_new();
    g_autoptr(JsonGenerator) generator = json_generator_new();
    g_autoptr(JsonNode) root = json_node_new(JSON_NODE_OBJECT);
    g_autoptr(GError) error = NULL;
    JsonArray *events = json_array_new();
    double first = earliest(timelines);

    for (guint i = 0; i < timelines->len; i++)
        move_events(events, timelines->pdata[i], first);
    json_object_set_string_member(document, "displayTimeUnit", "ns");
    json_object_set_array_member(document, "traceEvents", events);
    json_object_set_object_member(document, "otherData", describe_clocks(timelines));
    json_node_set_object(root, document);
    json_generator_set_root(generator, root);
    if (json_generator_to_file(generator, path, &error))
        return true;
    cli_say("trace merge", "%s", error->message);
    return false;
}

/* ---- telling ---- */

static char *offset_words(const struct timeline *t, const struct clock *reference)
{
    const struct clock *c = t->clock;

    if (c == reference)
        return g_strdup("0 us");
    if (c->drifts)
        return g_strdup_printf("%+.3f us, from %u collectives; the clocks drifted by %.3f us",
                               c->offset_us, c->calls, 2 * c->within_us);
    if (c->within_us >= 0)
        return g_strdup_printf("%+.3f us within %.3f us, from %u collectives", c->offset_us,
                               c->within_us, c->calls);
    return g_strdup_printf("%+.3f us, from the wall clocks: no collectives bound it", c->offset_us);
}

enum { CLOCKS = 34 }; /* the column where they begin */

static void say(GPtrArray *timelines, const char *path)
{
    const struct timeline *first = timelines->pdata[0];
    guint calls = 0;

    printf("%-6s %-16s %8s  %s\n", "rank", "host", "calls", "clock, to be added");
    for (guint i = 0; i < timelines->len; i++) {
        const struct timeline *t = timelines->pdata[i];
        g_autofree char *host = g_strescape(t->host, NULL);

        g_autofree char *offset = offset_words(t, first->clock);
        const int used = printf("%-6d %-16s %8u  ", t->rank, host, t->calls);

        wrap_print(used, CLOCKS, offset);
        if (t->cut)
            printf("%-6s the file ends in the middle: the rank was killed, or runs on\n", "");
        if (t->damaged)
            printf("%-6s the file is damaged: %u event%s left out\n", "", t->damaged,
                   t->damaged == 1 ? " is" : "s are");
        calls += t->calls;
    }
    for (int r = 0, missing = 0; r < first->size; r++) {
        bool here = false;

        for (guint i = 0; i < timelines->len && !here; i++)
            here = ((struct timeline *)timelines->pdata[i])->rank == r;
        if (!here && !missing++)
            printf("There is no file of rank %d%s.\n", r,
                   first->size - (int)timelines->len > 1 ? ", nor of others" : "");
    }
    printf("%u calls are in %s; open it in https://ui.perfetto.dev\n", calls, path);
}

int trace_merge_main(int argc, char **argv)
{
    g_autofree char *output = NULL;
    const GOptionEntry entries[] = {{"output", 'o', 0, G_OPTION_ARG_FILENAME, &output,
                                     "Write FILE, not tutti-timeline.json", "FILE"},
                                    {NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL}};

    if (!cli_parse("trace merge", "PATH…", summary, description, entries, false, &argc, &argv))
        return EXIT_USAGE;
    if (argc == 0)
        return cli_usage("trace merge", "no folder with files of the wrapper trace given");

    g_autoptr(GPtrArray) timelines = g_ptr_array_new_with_free_func((GDestroyNotify)timeline_free);
    const char *path = output ? output : "tutti-timeline.json";
    bool whole = true;

    for (int i = 0; i < argc; i++)
        whole &= read_path(timelines, argv[i]);
    if (!timelines->len || !belong_together(timelines))
        return EXIT_FAILED;
    g_autoptr(GPtrArray) clocks G_GNUC_UNUSED = clocks_estimate(timelines);
    if (!write_merged(timelines, path))
        return EXIT_FAILED;
    say(timelines, path);
    return whole ? EXIT_OK : EXIT_FAILED;
}
