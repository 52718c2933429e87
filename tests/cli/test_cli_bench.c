/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti bench`: what it prints, what it refuses, and by whom its ranks may be started. No figure is looked at. */
#include <criterion/criterion.h>
#include <json-glib/json-glib.h>
#include <string.h>

#include "command.h"
#include "harness/launch.h"

TestSuite(bench, .timeout = 120);

#define BENCH "env -u TUTTI_BACKEND $TUTTI bench "

static JsonArray *cells_of(JsonParser *parser, const char *text)
{
    cr_assert(json_parser_load_from_data(parser, text, -1, NULL), "%s", text);
    JsonObject *root = json_node_get_object(json_parser_get_root(parser));

    cr_assert_str_eq(json_object_get_string_member(root, "schema"), "tutti.bench/1");
    return json_object_get_array_member(root, "cells");
}

Test(bench, every_operation_is_measured_and_checked)
{
    struct ran r = ran(BENCH "-n 3 all --bytes 12,40K --seconds 0.05 --csv");
    g_auto(GStrv) lines = g_strsplit(g_strstrip(r.out), "\n", -1);

    cr_assert_eq(r.code, 0, "%s", r.err);
    cr_assert_eq(g_strv_length(lines), 1 + 11 * 2 + 1, "%s", r.out);
    cr_assert(g_str_has_prefix(lines[0], "operation,bytes,count,"));
    for (guint i = 1; lines[i]; i++) {
        g_auto(GStrv) fields = g_strsplit(lines[i], ",", -1);

        cr_assert_eq(g_strv_length(fields), 22, "%s", lines[i]);
        cr_expect_str_eq(fields[20], "0", "wrong: %s", lines[i]);
        cr_expect_gt(g_ascii_strtod(fields[12], NULL), 0, "%s", lines[i]);
        cr_expect(g_str_has_prefix(fields[21], "shm "), "%s", lines[i]);
    }
    ran_free(&r);
}

/* Types and reductions whose results need not be exact. */
Test(bench, results_are_right_in_every_type)
{
    static const char *const words[] = {
        "--dtype u8 --op sum",  "--dtype i16 --op max", "--dtype u32 --op bxor",
        "--dtype i64 --op min", "--dtype f16 --op avg", "--dtype bf16 --op product",
        "--dtype f64 --op sum", "--dtype i8 --op avg",  "--dtype u64 --op band"};

    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        struct ran r = ran(BENCH "-n 2 all_reduce reduce reduce_scatter all_to_all --bytes 8K "
                                 "--seconds 0.02 %s %s",
                           words[i], i % 2 ? "--async" : "--hot");

        cr_expect_eq(r.code, 0, "%s: %s%s", words[i], r.out, r.err);
        LACKS(r.out, "WRONG");
        ran_free(&r);
    }
}

Test(bench, registered_memory_is_worked_in)
{
    static const char *const kinds[] = {"allocated", "registered"};

    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        struct ran r = ran(
            BENCH "-n 2 all_reduce all_gather --bytes 64K --seconds 0.02 --memory %s", kinds[i]);

        cr_assert_eq(r.code, 0, "%s", r.err);
        CONTAINS(r.out, "shm all_reduce_registered");
        CONTAINS(r.out, "shm all_gather_registered");
        ran_free(&r);
    }
}

Test(bench, what_was_saved_may_be_compared_with)
{
    char *folder = folder_new();
    g_autoptr(JsonParser) parser = json_parser_new(), printed = json_parser_new();
    struct ran r =
        ran("cd %s; " BENCH "-n 2 --bytes 8,64K --seconds 0.02 --save a.json --json", folder);
    g_autofree char *saved = folder_read(folder, "a.json");

    cr_assert_eq(r.code, 0, "%s", r.err);
    cr_expect_eq(json_array_get_length(cells_of(parser, saved)), 2);
    cr_expect_eq(json_array_get_length(cells_of(printed, r.out)), 2);
    ran_free(&r);

    r = ran("cd %s; " BENCH "-n 2 --bytes 64K --seconds 0.02 --against a.json", folder);
    cr_assert_eq(r.code, 0, "%s", r.err);
    CONTAINS(r.out, " against ");
    CONTAINS(r.out, "of 1 are slower");
    ran_free(&r);
    r = ran("cd %s; " BENCH "-n 2 --bytes 4K --seconds 0.02 --against a.json", folder);
    CONTAINS(r.out, "a.json has none of these cells");
    ran_free(&r);
    r = ran("cd %s; echo '{}' > b.json; " BENCH "-n 2 --against b.json", folder);
    cr_expect_eq(r.code, 1);
    CONTAINS(r.err, "b.json is no document of 'tutti bench --save'");
    ran_free(&r);
    r = ran(BENCH "-n 2 --bytes 8 --seconds 0.02 --save /nowhere/a.json");
    cr_expect_eq(r.code, 1);
    CONTAINS(r.err, "cannot write /nowhere/a.json");
    ran_free(&r);
    folder_remove(folder);
}

Test(bench, a_picture_is_drawn_by_gnuplot)
{
    char *folder = folder_new();
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    struct ran r =
        ran("cd %s; " BENCH "-n 2 all_reduce ping_pong --bytes 8,4K --seconds 0.02 --plot a.svg",
            folder);
    g_autofree char *picture = folder_read(folder, "a.svg");

    if (gnuplot) {
        cr_expect_eq(r.code, 0, "%s", r.err);
        CONTAINS(picture, "</svg>");
        CONTAINS(picture, "ping_pong");
    } else {
        cr_expect_eq(r.code, 2);
        CONTAINS(r.err, "gnuplot (Debian: gnuplot-nox)");
    }
    ran_free(&r);
    folder_remove(folder);
}

Test(bench, what_is_wrong_on_the_command_line_is_said_once)
{
    static const struct {
        const char *words, *said;
    } cases[] = {
        {"al_reduce", "did you mean 'all_reduce'?"},
        {"--bytes 1Q", "--bytes '1Q' is not a size"},
        {"--bytes 3", "3 bytes are no whole number of elements of f32"},
        {"--bytes 8 --to 16", "use one"},
        {"--from 1M --to 8", "at most --to"},
        {"--factor 1", "--factor '1'"},
        {"--dtype f33", "did you mean 'f32'?"},
        {"--dtype c64", "--dtype c64 is not measured"},
        {"--op band", "--op band does not take elements of f32"},
        {"--op premul_sum", "premul_sum is not measured"},
        {"--memory here", "there are ordinary, allocated, registered"},
        {"--seconds soon", "--seconds 'soon'"},
        {"--json --csv", "not both"},
        {"-n 0", "-n '0'"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran(BENCH "%s", cases[i].words);

        cr_expect_eq(r.code, 2, "%s: %d", cases[i].words, r.code);
        CONTAINS(r.err, cases[i].said);
        cr_expect_eq(count_of(r.err, cases[i].said), 1);
        cr_expect_str_eq(r.out, "");
        ran_free(&r);
    }
}

Test(bench, a_backend_that_is_not_there_is_said_to_be_missing)
{
    struct ran r = ran(BENCH "-n 2 --backend nowhere --bytes 8");

    cr_expect_neq(r.code, 0);
    CONTAINS(r.err, "nowhere");
    cr_expect_str_eq(r.out, "");
    ran_free(&r);
}

Test(bench, ranks_of_a_launcher_are_measured_with)
{
    static const char *const families[] = {"openmpi", "mpich"};
    struct ran r = ran("$TUTTI run -n 2 --no-prefix $TUTTI bench --bytes 8 --seconds 0.02 barrier");

    cr_expect_eq(r.code, 0, "%s", r.err);
    cr_expect_eq(count_of(r.out, "\nbarrier "), 1, "%s", r.out);
    ran_free(&r);
    r = ran("$TUTTI run -n 2 $TUTTI bench -n 2");
    cr_expect_eq(r.code, 2);
    CONTAINS(r.err, "RANK says that this process is a launcher's rank");
    ran_free(&r);
    for (size_t i = 0; i < G_N_ELEMENTS(families); i++) {
        if (ranks_lack(families[i]))
            continue;
        r = ran("cd /; %s TUTTI_MPI=%s OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                "mpirun.%s %s -n 2 $TUTTI bench --backend mpi all_reduce ping_pong --bytes 4K "
                "--seconds 0.02",
                ranks_lsan_options(families[i]), families[i], families[i],
                i ? "" : "--oversubscribe");
        cr_expect_eq(r.code, 0, "%s%s", r.out, r.err);
        cr_expect_eq(count_of(r.out, "\nall_reduce "), 1, "%s", r.out);
        CONTAINS(r.out, "mpi all_reduce_native");
        ran_free(&r);
    }
}

/* One rank, and messages that it has nobody for. */
Test(bench, a_rank_alone_is_measured)
{
    struct ran r = ran(BENCH "-n 1 all --bytes 8 --seconds 0.02");

    cr_expect_eq(r.code, 0, "%s", r.err);
    CONTAINS(r.out, "self all_reduce_alone");
    CONTAINS(r.err, "burst needs two ranks; it is left out");
    ran_free(&r);
}
