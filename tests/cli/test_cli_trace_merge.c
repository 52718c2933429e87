/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti trace merge`: clocks that are apart come together, and what does not belong is refused. */
#include <criterion/criterion.h>
#include <json-glib/json-glib.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"

TestSuite(trace_merge, .timeout = 60);

static char *folder;

static void make_folder(void)
{
    folder = folder_new();
}

static void remove_folder(void)
{
    folder_remove(folder);
}

/* What a rank says of itself; its clock is the host's. */
static GString *begin(int rank, int size, const char *host, double wall_us)
{
    GString *text = g_string_new(NULL);

    g_string_append_printf(
        text,
        "[\n{\"ph\":\"M\",\"name\":\"tutti_rank\",\"pid\":%d,\"tid\":0,\"ts\":0,\"args\":{"
        "\"schema\":\"tutti.timeline/1\",\"rank\":%d,\"size\":%d,\"init\":1,\"pid\":1,\"host\":"
        "\"%s\",\"run_id\":\"r\",\"clock\":\"%s\",\"wall_minus_monotonic_ns\":%.0f}}",
        rank, rank, size, host, host, wall_us * 1e3);
    return text;
}

static void add(GString *text, int rank, const char *operation, int sequence, double ts, double dur,
                const char *more)
{
    g_string_append_printf(
        text,
        ",\n{\"ph\":\"X\",\"cat\":\"collectives\",\"name\":\"%s\",\"pid\":%d,\"tid\":1,\"ts\":%.3f,"
        "\"dur\":%.3f,\"args\":{\"group\":\"world\",\"rank\":%d,\"size\":2,\"sequence\":%d,"
        "\"bytes\":4,\"status\":\"TUTTI_OK\"%s}}",
        operation, rank, ts, dur, rank, sequence, more);
}

static void write_file(int rank, GString *text, const char *end)
{
    g_autofree char *name = g_strdup_printf("tutti-trace.%d.json", rank);
    g_autofree char *path = g_build_filename(folder, name, NULL);

    g_string_append(text, end);
    cr_assert(g_file_set_contents(path, text->str, (gssize)text->len, NULL));
    g_string_free(text, TRUE);
}

static JsonParser *merged(void)
{
    g_autofree char *path = g_build_filename(folder, "out.json", NULL);
    JsonParser *parser = json_parser_new();
    g_autoptr(GError) error = NULL;

    cr_assert(json_parser_load_from_file(parser, path, &error), "%s", error ? error->message : "?");
    return parser;
}

static JsonObject *about(JsonParser *parser, int rank)
{
    JsonObject *root = json_node_get_object(json_parser_get_root(parser));
    JsonObject *other = json_object_get_object_member(root, "otherData");

    return json_array_get_object_element(json_object_get_array_member(other, "ranks"), (guint)rank);
}

/* Rank 1's clock is 5,000 us ahead of rank 0's. */
Test(trace_merge, clocks_that_are_apart_are_put_together_and_the_error_is_told, .init = make_folder,
     .fini = remove_folder)
{
    GString *zero = begin(0, 2, "a", 1e9), *one = begin(1, 2, "b", 1e9);

    /* True times: 0 waits for 1 in the first, 1 for 0 in the second. */
    add(zero, 0, "barrier", 1, 1000, 110, "");
    add(one, 1, "barrier", 1, 6100, 10, "");
    add(zero, 0, "all_reduce", 2, 2100, 30, "");
    add(one, 1, "all_reduce", 2, 7000, 130, "");
    add(zero, 0, "broadcast", 3, 3000, 1, ",\"root\":0");
    add(one, 1, "broadcast", 3, 8050, 9, ",\"root\":0"); /* the root waited for nobody */
    add(zero, 0, "send", 1, 10, 1, "");
    write_file(0, zero, "\n]\n");
    write_file(1, one, "\n]\n");

    struct ran r = ran("$TUTTI trace merge -o %s/out.json %s", folder, folder);
    cr_assert_eq(r.code, 0, "%s", r.err);
    ran_free(&r);
    g_autoptr(JsonParser) parser = merged();
    double offset = json_object_get_double_member(about(parser, 1), "clock_offset_us");
    double within = json_object_get_double_member(about(parser, 1), "clock_within_us");

    cr_expect_eq(json_object_get_double_member(about(parser, 0), "clock_offset_us"), 0);
    cr_expect(within > 0 && within <= 30, "within %f us", within);
    cr_expect(offset - within <= -5000 && -5000 <= offset + within, "%f us within %f", offset,
              within);
}

Test(trace_merge, what_the_ranks_really_wrote_becomes_one_timeline, .init = make_folder,
     .fini = remove_folder)
{
    struct ran r = ran("TUTTI_WRAP=trace TUTTI_TRACE_DIR=%s $TUTTI run -n 3 %s/hello && "
                       "$TUTTI trace merge -o %s/out.json %s",
                       folder, TUTTI_TEST_PROGRAMS, folder, folder);
    cr_assert_eq(r.code, 0, "%s", r.err);
    cr_expect_not_null(strstr(r.out, "open it in https://ui.perfetto.dev"));
    ran_free(&r);

    g_autoptr(JsonParser) parser = merged();
    JsonObject *root = json_node_get_object(json_parser_get_root(parser));
    JsonArray *events = json_object_get_array_member(root, "traceEvents");
    int calls[3] = {0};

    for (guint i = 0; i < json_array_get_length(events); i++) {
        JsonObject *event = json_array_get_object_element(events, i);
        gint64 pid = json_object_get_int_member(event, "pid");

        cr_assert(pid >= 0 && pid < 3);
        if (strcmp(json_object_get_string_member(event, "ph"), "X"))
            continue;
        calls[pid]++;
        cr_expect_geq(json_object_get_double_member(event, "ts"), 0);
    }
    for (int rank = 0; rank < 3; rank++) {
        cr_expect_geq(calls[rank], 1);
        cr_expect_eq(json_object_get_double_member(about(parser, rank), "clock_offset_us"), 0);
    }
}

Test(trace_merge, a_killed_ranks_file_is_read_as_far_as_it_goes, .init = make_folder,
     .fini = remove_folder)
{
    GString *zero = begin(0, 3, "a", 1e9), *one = begin(1, 3, "a", 1e9);

    add(zero, 0, "barrier", 1, 1000, 110, "");
    add(one, 1, "barrier", 1, 1100, 10, "");
    write_file(0, zero, "\n]\n");
    write_file(1, one, ",\n{\"ph\":\"X\",\"na");
    struct ran r = ran("$TUTTI trace merge -o %s/out.json %s", folder, folder);

    cr_expect_eq(r.code, 0, "%s", r.err);
    cr_expect_not_null(strstr(r.out, "the file ends in the middle"), "%s", r.out);
    cr_expect_not_null(strstr(r.out, "There is no file of rank 2."), "%s", r.out);
    cr_expect_not_null(strstr(r.out, "2 calls are in"), "%s", r.out);
    ran_free(&r);
}

/* What the parser takes and JSON does not have: it would come out as it went in. */
Test(trace_merge, damaged_events_are_left_out_and_the_result_is_json, .init = make_folder,
     .fini = remove_folder)
{
    static const char *const damaged[] = {
        ",\"root\":1e999",
        ",\"x\":\"\\ud800 in\"",
        ",\"x\":[\"\\u001f\"]",
        ",\"\\udc00 in\":0",
    };
    GString *zero = begin(0, 1, "a", 1e9);
    g_autofree char *path = g_build_filename(folder, "out.json", NULL), *text = NULL;

    add(zero, 0, "barrier", 1, 1000, 110, "");
    for (size_t i = 0; i < G_N_ELEMENTS(damaged); i++)
        add(zero, 0, "barrier", (int)i + 2, 2000, 110, damaged[i]);
    write_file(0, zero, "\n]\n");
    struct ran r = ran("$TUTTI trace merge -o %s %s", path, folder);

    cr_expect_eq(r.code, 0, "%s", r.err);
    cr_expect_not_null(strstr(r.out, "the file is damaged: 4 events are left out"), "%s", r.out);
    cr_expect_not_null(strstr(r.out, "1 calls are in"), "%s", r.out);
    ran_free(&r);
    cr_assert(g_file_get_contents(path, &text, NULL, NULL));
    cr_expect(g_utf8_validate(text, -1, NULL) && !strchr(text, '\x1f') && !strstr(text, "inf"),
              "%s", text);
    g_object_unref(merged());
}

Test(trace_merge, clocks_without_a_bound_are_told_from_the_wall_clocks, .init = make_folder,
     .fini = remove_folder)
{
    GString *zero = begin(0, 2, "a", 1e9), *one = begin(1, 2, "b", 1e9 + 250);

    add(zero, 0, "send", 1, 1000, 1, "");
    add(one, 1, "recv", 1, 1000, 1, "");
    write_file(0, zero, "\n]\n");
    write_file(1, one, "\n]\n");
    struct ran r = ran("$TUTTI trace merge -o %s/out.json %s", folder, folder);

    cr_expect_eq(r.code, 0, "%s", r.err);
    cr_expect_not_null(strstr(r.out, "+250.000 us, from the wall clocks"), "%s", r.out);
    ran_free(&r);
}

Test(trace_merge, what_does_not_belong_together_is_refused_in_words, .init = make_folder,
     .fini = remove_folder)
{
    static const struct {
        const char *script, *words;
    } cases[] = {
        {"$TUTTI trace merge", "no folder"},
        {"$TUTTI trace merge /no/such/place", "is left out"},
        {"$TUTTI trace merge %1$s/empty", "has no tutti-trace.*.json"},
        {"$TUTTI trace merge %1$s/text.json", "text.json is left out: "},
        {"$TUTTI trace merge %1$s/object.json", "it is not an array of events"},
        {"$TUTTI trace merge %1$s/deep.json", "deep.json is left out: it is not JSON"},
        {"$TUTTI trace merge %1$s/pipe.json", "pipe.json is left out: it is not a file of at most"},
        {"$TUTTI trace merge %1$s/other.json", "was not written by the wrapper trace"},
        {"$TUTTI trace merge %1$s/large.json", "its rank and size are not valid"},
        {"$TUTTI trace merge %1$s/tutti-trace.0.json %1$s/tutti-trace.0.json",
         "are both of rank 0"},
        {"$TUTTI trace merge %1$s/tutti-trace.0.json %1$s/job.json", "are of different jobs"},
        {"$TUTTI trace merge -o /no/such/place/x %1$s/tutti-trace.0.json", "/no/such/place"},
    };
    static const char *const files[][2] = {
        {"text.json", "hello"},
        {"object.json", "{}"},
        {"other.json", "[{\"ph\":\"X\"},7]"},
        {"large.json", "[{\"name\":\"tutti_rank\",\"args\":{\"schema\":\"tutti.timeline/1\","
                       "\"rank\":3,\"size\":3}}]"},
        {"job.json", "[{\"name\":\"tutti_rank\",\"args\":{\"schema\":\"tutti.timeline/1\","
                     "\"rank\":1,\"size\":2,\"run_id\":\"other\"}}]"},
    };
    g_autofree char *empty = g_build_filename(folder, "empty", NULL);
    g_autofree char *pipe = g_build_filename(folder, "pipe.json", NULL);
    g_autofree char *deep = g_build_filename(folder, "deep.json", NULL);
    g_autofree char *brackets = g_strnfill(1000000, '[');

    cr_assert_eq(g_mkdir_with_parents(empty, 0700), 0);
    cr_assert_eq(mkfifo(pipe, 0600), 0);
    cr_assert(g_file_set_contents(deep, brackets, -1, NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autofree char *path = g_build_filename(folder, files[i][0], NULL);
        cr_assert(g_file_set_contents(path, files[i][1], -1, NULL));
    }
    write_file(0, begin(0, 2, "a", 1e9), "\n]\n");
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_auto(GStrv) parts = g_strsplit(cases[i].script, "%1$s", -1);
        g_autofree char *script = g_strjoinv(folder, parts);
        struct ran r = ran("%s", script);

        cr_expect(r.code == 1 || r.code == 2, "%s: %d", script, r.code);
        cr_expect_not_null(strstr(r.err, cases[i].words), "%s: %s", script, r.err);
        ran_free(&r);
    }
}
