/* SPDX-License-Identifier: Apache-2.0 */
/* The wrapper trace: what it writes is what viewers read, and what the program called. */
#include <criterion/criterion.h>
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>

#include "harness/launch.h"

TestSuite(trace, .timeout = 400);

enum { RANKS = 3, WORKS = 4 };

static char *folder, *variable;

static void make_folder(void)
{
    folder = g_dir_make_tmp("tutti-trace-XXXXXX", NULL);
    cr_assert_not_null(folder);
    variable = g_strdup_printf("TUTTI_TRACE_DIR=%s", folder);
}

static void remove_folder(void)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);

    for (const char *name; dir && (name = g_dir_read_name(dir));) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        g_remove(path);
    }
    g_rmdir(folder);
    g_free(folder);
    g_free(variable);
}

static JsonParser *load(int rank)
{
    g_autofree char *name = g_strdup_printf("tutti-trace.%d.json", rank);
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_autoptr(GError) error = NULL;
    JsonParser *parser = json_parser_new_immutable();

    cr_assert(json_parser_load_from_file(parser, path, &error), "%s", error ? error->message : "?");
    cr_assert(JSON_NODE_HOLDS_ARRAY(json_parser_get_root(parser)));
    return parser;
}

static gint64 number(JsonObject *event, const char *member)
{
    cr_assert(json_object_has_member(event, member), "no %s", member);
    return json_object_get_int_member(event, member);
}

/* The complete events of one operation must be so many, each with what the call was. */
static int count_calls(JsonArray *events, const char *operation, int rank)
{
    int count = 0;

    for (guint i = 0; i < json_array_get_length(events); i++) {
        JsonObject *event = json_array_get_object_element(events, i);

        if (strcmp(json_object_get_string_member(event, "ph"), "X") ||
            strcmp(json_object_get_string_member(event, "name"), operation))
            continue;
        JsonObject *args = json_object_get_object_member(event, "args");

        cr_expect_eq(number(event, "pid"), rank);
        cr_expect_geq(json_object_get_double_member(event, "dur"), 0);
        cr_expect_eq(number(args, "size"), RANKS);
        cr_expect_geq(number(args, "sequence"), 1);
        cr_expect_str_eq(json_object_get_string_member(args, "status"), "TUTTI_OK");
        cr_expect_str_eq(json_object_get_string_member(args, "group"), "world");
        cr_expect_str_neq(json_object_get_string_member(args, "provider"), "");
        if (!strcmp(operation, "recv"))
            cr_expect_eq(number(args, "peer"), (rank + RANKS - 1) % RANKS, "any source is told");
        if (!strcmp(operation, "broadcast"))
            cr_expect_eq(number(args, "root"), RANKS - 1);
        count++;
    }
    return count;
}

/* Viewers draw the events of one track right only when they nest; here they never overlap. */
static void expect_no_overlap(JsonArray *events)
{
    for (guint i = 0; i < json_array_get_length(events); i++) {
        JsonObject *a = json_array_get_object_element(events, i);

        for (guint k = 0; k < i; k++) {
            JsonObject *b = json_array_get_object_element(events, k);

            if (strcmp(json_object_get_string_member(a, "ph"), "X") ||
                strcmp(json_object_get_string_member(b, "ph"), "X") ||
                number(a, "tid") != number(b, "tid"))
                continue;
            cr_expect_geq(json_object_get_double_member(a, "ts") + 1e-6,
                          json_object_get_double_member(b, "ts") +
                              json_object_get_double_member(b, "dur"));
        }
    }
}

static void expect_introduction(JsonArray *events, int rank)
{
    for (guint i = 0; i < json_array_get_length(events); i++) {
        JsonObject *event = json_array_get_object_element(events, i);

        if (strcmp(json_object_get_string_member(event, "name"), "tutti_rank"))
            continue;
        JsonObject *args = json_object_get_object_member(event, "args");

        cr_expect_str_eq(json_object_get_string_member(event, "ph"), "M");
        cr_expect_eq(number(args, "rank"), rank);
        cr_expect_gt(number(args, "wall_minus_monotonic_ns"), 0);
        cr_expect_str_neq(json_object_get_string_member(args, "clock"), "");
        return;
    }
    cr_expect(false, "rank %d does not say who it is", rank);
}

Test(trace, each_rank_writes_its_calls_in_the_trace_event_format, .init = make_folder,
     .fini = remove_folder)
{
    const char *const env[] = {"TUTTI_WRAP=trace", variable, NULL};

    cr_assert(ranks_run(&(struct ranks_options){.program = "rank_wrappers",
                                                .case_name = "calls_of_all_kinds",
                                                .size = RANKS,
                                                .backend = "shm,tcp",
                                                .env = env}));
    for (int r = 0; r < RANKS; r++) {
        g_autoptr(JsonParser) parser = load(r);
        JsonArray *events = json_node_get_array(json_parser_get_root(parser));

        expect_introduction(events, r);
        cr_expect_eq(count_calls(events, "all_reduce", r), WORKS);
        cr_expect_eq(count_calls(events, "broadcast", r), 1);
        cr_expect_eq(count_calls(events, "barrier", r), 1);
        cr_expect_eq(count_calls(events, "send", r), 1);
        cr_expect_eq(count_calls(events, "recv", r), 1);
        expect_no_overlap(events);
    }
}

struct refusal {
    const char *wrap, *dir, *status, *words;
};

Test(trace, a_wrapper_that_cannot_be_fails_init_on_every_rank_in_words, .init = make_folder,
     .fini = remove_folder)
{
    static const struct refusal cases[] = {
        {"trace,nosuch", NULL, "TUTTI_ERR_INVALID_ARGUMENT", "unknown wrapper \"nosuch\""},
        {"trace,,x", NULL, "TUTTI_ERR_INVALID_ARGUMENT", "at byte 6 is not a wrapper's name"},
        {"trace,trace", NULL, "TUTTI_ERR_INVALID_ARGUMENT", "wrapper trace is named twice"},
        {"tcp", NULL, "TUTTI_ERR_PLUGIN", "plugin tcp is not a wrapper"},
        {"trace", "/proc/none", "TUTTI_ERR_SYSTEM", "cannot write /proc/none/tutti-trace."},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *wrap = g_strdup_printf("TUTTI_WRAP=%s", cases[i].wrap);
        g_autofree char *dir =
            cases[i].dir ? g_strdup_printf("TUTTI_TRACE_DIR=%s", cases[i].dir) : g_strdup(variable);
        const char *const env[] = {wrap, dir, NULL};
        struct ranks *ranks = ranks_start(&(struct ranks_options){.program = "rank_wrappers",
                                                                  .case_name = "init_is_refused",
                                                                  .size = 2,
                                                                  .backend = "tcp",
                                                                  .env = env});

        cr_assert_not_null(ranks);
        cr_expect(ranks_wait(ranks));
        for (int r = 0; r < 2; r++) {
            char status[64] = "", words[1024] = "";

            cr_expect(ranks_value(ranks, r, "status", status, sizeof status));
            cr_expect(ranks_value(ranks, r, "words", words, sizeof words));
            cr_expect_str_eq(status, cases[i].status);
            cr_expect_not_null(strstr(words, cases[i].words), "rank %d: %s", r, words);
        }
        cr_expect(ranks_passed(ranks));
        ranks_free(ranks);
    }
}
