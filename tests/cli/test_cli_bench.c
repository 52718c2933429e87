/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti bench`: what it measures and prints, and what it says of wrong words and results. No test looks at
 * times. */
#include <criterion/criterion.h>
#include <json-glib/json-glib.h>
#include <string.h>

#include "command.h"
#include "harness/launch.h"
#include "harness/port.h"

/* Cells are measured for a moment only. Ranks that share one CPU have no link that could change. */
#define QUICK "--time 0.01"
#define ON_ONE_CPU                                                                                 \
    "env -u TUTTI_BACKEND taskset -c \"$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')\" "

static int lines_with(const char *text, const char *beginning)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    int count = 0;

    for (char **line = lines; *line; line++)
        count += g_str_has_prefix(*line, beginning);
    return count;
}

static JsonParser *parsed(const char *text)
{
    JsonParser *parser = json_parser_new();
    g_autoptr(GError) error = NULL;

    cr_assert(json_parser_load_from_data(parser, text, -1, &error), "%s in:\n%s",
              error ? error->message : "", text);
    return parser;
}

Test(bench, the_table_has_a_row_for_each_operation_and_size, .timeout = 60)
{
    struct ran r = ran("$TUTTI bench broadcast barrier --sizes 8,4K,64K " QUICK);

    cr_assert_eq(r.code, 0, "%s", r.err);
    CONTAINS(r.out, "# tutti ");
    CONTAINS(r.out, "2 ranks on 1 host over ");
    cr_expect_eq(lines_with(r.out, "operation "), 1, "%s", r.out);
    cr_expect_eq(lines_with(r.out, "broadcast "), 3, "%s", r.out);
    cr_expect_eq(lines_with(r.out, "barrier "), 1, "%s", r.out);
    CONTAINS(r.out, " 4096 touched ");
    CONTAINS(r.out, " 8 hot ");
    cr_expect_str_empty(r.err, "%s", r.err);
    ran_free(&r);
}

Test(bench, without_words_it_measures_all_reduce_from_8_bytes_to_16_mib, .timeout = 60)
{
    struct ran r = ran("$TUTTI bench --time 0.001");

    cr_assert_eq(r.code, 0, "%s", r.err);
    cr_expect_eq(lines_with(r.out, "all_reduce "), 8, "%s", r.out);
    CONTAINS(r.out, " 8 hot");
    CONTAINS(r.out, " 16777216 touched");
    ran_free(&r);
}

/* Of CSV, where nothing is compared: the field before the last two. */
static const char *wrong_of(char *line, char **ret_operation)
{
    g_auto(GStrv) fields = g_strsplit(line, ",", -1);
    const guint count = g_strv_length(fields);

    cr_assert_geq(count, 5, "%s", line);
    *ret_operation = g_strdup(fields[0]);
    return g_intern_string(fields[count - 4]);
}

/* Three ranks and odd sizes: blocks and parts of different lengths. */
Test(bench, every_operation_of_explain_is_measured_and_right, .timeout = 120)
{
    static const char *const ways[] = {"", "--async --dtype bf16", "--dtype i8 --op max --root 2"};
    struct ran names = ran("$TUTTI explain --help");
    char *list = strstr(names.out, "is one of: ");

    cr_assert_not_null(list);
    list += strlen("is one of: ");
    *strchr(list, '.') = 0;
    g_strdelimit(list, "\n", ' ');
    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        struct ran r = ran("$TUTTI bench all -n 3 --csv --sizes 13,4099 %s --time 0.002", ways[i]);
        g_auto(GStrv) lines = g_strsplit(g_strstrip(r.out), "\n", -1);
        g_auto(GStrv) operations = g_strsplit(list, ", ", -1);

        cr_assert_eq(r.code, 0, "%s: %s", ways[i], r.err);
        for (char **name = operations; *name; name++) {
            g_autofree char *beginning = g_strconcat(g_strstrip(*name), ",", NULL);
            const bool is_half = strcmp(*name, "send") == 0 || strcmp(*name, "recv") == 0;
            bool found = is_half;

            for (char **line = lines + 1; *line; line++)
                found = found || g_str_has_prefix(*line, beginning);
            cr_expect(found, "%s is not measured", *name);
        }
        for (char **line = lines + 1; *line; line++) {
            g_autofree char *operation = NULL;
            const char *wrong = wrong_of(*line, &operation);

            cr_expect_str_eq(wrong, strstr(operation, "barrier") ? "" : "0", "%s: %s", ways[i],
                             *line);
        }
        ran_free(&r);
    }
    ran_free(&names);
}

Test(bench, ranks_work_in_registered_memory, .timeout = 60)
{
    static const char *const kinds[] = {"allocated", "registered"};

    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        struct ran r =
            ran("$TUTTI bench all_reduce gather_v broadcast scatter ping_pong -n 3 --backend shm "
                "--sizes 60K,1M --time 0.02 --memory %s",
                kinds[i]);

        cr_assert_eq(r.code, 0, "%s", r.err);
        CONTAINS(r.out, "shm all_reduce_registered\n");
        CONTAINS(r.out, "shm gather_registered\n");
        CONTAINS(r.out, "shm broadcast_registered\n");
        ran_free(&r);
    }
}

Test(bench, json_and_csv_have_the_same_fields, .timeout = 60)
{
    struct ran csv = ran("$TUTTI bench burst --csv --sizes 8 " QUICK);
    struct ran json = ran("$TUTTI bench burst all_reduce --json --sizes 8,1M " QUICK);
    g_autoptr(JsonParser) parser = parsed(json.out);
    JsonObject *document = json_node_get_object(json_parser_get_root(parser));
    JsonArray *cells = json_object_get_array_member(document, "cells");
    g_auto(GStrv) fields = g_strsplit(csv.out, "\n", 2);
    g_auto(GStrv) names = g_strsplit(fields[0], ",", -1);

    cr_expect_eq(csv.code, 0, "%s", csv.err);
    cr_expect_eq(json.code, 0, "%s", json.err);
    cr_expect_str_eq(json_object_get_string_member(document, "schema"), "tutti.bench/1");
    cr_expect_eq(json_object_get_int_member(document, "ranks"), 2);
    cr_assert_eq(json_array_get_length(cells), 4);
    for (guint i = 0; i < json_array_get_length(cells); i++) {
        JsonObject *cell = json_array_get_object_element(cells, i);

        cr_expect_eq(json_object_get_size(cell), g_strv_length(names));
        for (char **name = names; *name; name++)
            cr_expect(json_object_has_member(cell, *name), "no %s in a cell", *name);
        cr_expect_gt(json_object_get_double_member(cell, "p50_us"), 0);
        cr_expect_geq(json_object_get_double_member(cell, "p99_us"),
                      json_object_get_double_member(cell, "p50_us"));
        cr_expect_eq(json_object_get_int_member(cell, "wrong"), 0);
        cr_expect_gt(json_object_get_int_member(cell, "samples"), 0);
    }
    cr_expect_eq(json_object_get_int_member(json_array_get_object_element(cells, 0), "window"), 64);
    ran_free(&csv);
    ran_free(&json);
}

Test(bench, wrong_words_are_answered, .timeout = 60)
{
    static const struct {
        const char *words, *answer;
    } cases[] = {
        {"all_redcue", "unknown operation 'all_redcue'; did you mean 'all_reduce'? Known: "},
        {"send", "a send is half of a message; measure one of its patterns: ping_pong"},
        {"--sizes 8x", "--sizes '8x' is not a size; write one such as 8, 4096, 64K or 1M"},
        {"--sizes 8,", "--sizes '' is not a size"},
        {"--sizes 8 --to 16", "--sizes lists all sizes: leave out --from, --to and --factor"},
        {"--from 4K --to 1K", "--from 4K is more than --to 1K"},
        {"--factor 1", "--factor '1': a number from 2 to "},
        {"--dtype f31", "unknown dtype 'f31'; did you mean 'f32'?"},
        {"--op summ", "unknown op 'summ'; did you mean 'sum'?"},
        {"--op band", "all_reduce: the op band does not take f32"},
        {"--memory shraed", "unknown memory 'shraed'; known: ordinary, allocated, registered"},
        {"--time 0", "--time '0': a number of seconds from 0.001 to 3600"},
        {"--root 2", "--root 2: the ranks of 2 are 0 to 1"},
        {"ping_pong --root 0", "--root 0: the messages of ping_pong go between rank 0 and another"},
        {"ping_pong -n 1", "ping_pong needs two ranks"},
        {"-n 0", "-n '0': the number of ranks is 1 to 4096"},
        {"--json --csv", "--json and --csv exclude each other"},
        {"--hot --touched", "--touched and --hot exclude each other"},
        {"--fail-above 5", "--fail-above needs --against FILE"},
        {"--tune tcp8.tuning",
         "unknown operation 'tcp8.tuning'; for a file of that name: --tune=tcp8.tuning"},
        {"--agianst x", "unknown option --agianst; did you mean --against?"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("$TUTTI bench %s", cases[i].words);

        cr_expect_eq(r.code, 2, "%s: %d", cases[i].words, r.code);
        cr_expect_not_null(strstr(r.err, cases[i].answer), "%s: %s", cases[i].words, r.err);
        cr_expect_str_empty(r.out);
        ran_free(&r);
    }
}

Test(bench, what_cannot_be_done_is_said_before_anything_is_measured, .timeout = 60)
{
    static const struct {
        const char *words, *answer;
    } cases[] = {
        {"--save /no/such/folder/x",
         "--save '/no/such/folder/x': files cannot be made in /no/such"},
        {"--save .", "--save '.' is not a regular file"},
        {"--against /no/file", "--against '/no/file' cannot be read: "},
        {"--against /dev/null",
         "--against '/dev/null' is not a file that `tutti bench --save` writes"},
        {"--sizes 1000000G", " GiB are available: take fewer ranks or smaller sizes"},
        {"ping_pong -n 3 --sizes 1000000G", "takes 4000000.0 GiB of memory in 3 ranks"},
        {"all_to_all -n 8 --sizes 2147483648G", "takes 274877906944.0 GiB of memory in 8 ranks"},
        {"--backend nosuch", "unknown backend \"nosuch\""},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("$TUTTI bench %s", cases[i].words);

        cr_expect_eq(r.code, 1, "%s: %d", cases[i].words, r.code);
        cr_expect_eq(count_of(r.err, cases[i].answer), 1, "%s: %s", cases[i].words, r.err);
        LACKS(r.err, "the job failed");
        cr_expect_str_empty(r.out);
        ran_free(&r);
    }
}

Test(bench, a_slower_cell_is_told_and_may_fail, .timeout = 60)
{
    char *folder = folder_new();
    struct ran save =
        ran(ON_ONE_CPU "$TUTTI bench barrier all_reduce --sizes 8 --save %s/a " QUICK, folder);
    /* What is compared with took a thousandth of the time. */
    struct ran edit =
        ran("sed -E 's/(p50[a-z_]*\" : )([0-9.e+]+)/\\11e-6/' %s/a > %s/b", folder, folder);
    struct ran told =
        ran(ON_ONE_CPU "$TUTTI bench all_reduce gather --sizes 8 --against %s/b " QUICK, folder);
    struct ran failed =
        ran(ON_ONE_CPU "$TUTTI bench all_reduce --sizes 8 --against %s/b --fail-above 10 " QUICK,
            folder);
    g_autofree char *text = folder_read(folder, "a");
    g_autoptr(JsonParser) parser = parsed(text);

    cr_expect_not_null(parser);
    cr_expect_eq(save.code, 0, "%s", save.err);
    cr_expect_eq(edit.code, 0, "%s", edit.err);
    cr_expect_eq(told.code, 0, "%s", told.err);
    CONTAINS(told.out, "    before  ratio\n");
    cr_expect_eq(count_of(told.out, "  slower\n"), 1, "%s", told.out);
    CONTAINS(told.out, ": 1 of 1 cells are slower and 0 faster");
    cr_expect_eq(failed.code, 1, "%s", failed.out);
    CONTAINS(failed.err, "all_reduce of 8 bytes is ");
    CONTAINS(failed.err, " % slower than in ");
    ran_free(&save);
    ran_free(&edit);
    ran_free(&told);
    ran_free(&failed);
    folder_remove(folder);
}

Test(bench, a_limit_fails_when_no_cell_could_be_compared, .timeout = 60)
{
    char *folder = folder_new();
    struct ran r = ran(ON_ONE_CPU "$TUTTI bench barrier --save %s/a " QUICK " && " ON_ONE_CPU
                                  "$TUTTI bench all_reduce --sizes 8 --against %s/a --fail-above "
                                  "10 " QUICK,
                       folder, folder);

    cr_expect_eq(r.code, 1, "%s", r.out);
    CONTAINS(r.err, "--fail-above: no cell could be compared, since ");
    ran_free(&r);
    folder_remove(folder);
}

Test(bench, runs_of_another_kind_are_told_apart, .timeout = 60)
{
    char *folder = folder_new();
    struct ran r =
        ran("$TUTTI bench --sizes 8 -n 3 --save %s/a " QUICK " && $TUTTI bench --sizes 8 "
            "--backend tcp --against %s/a " QUICK,
            folder, folder);

    cr_expect_eq(r.code, 0, "%s", r.err);
    CONTAINS(r.err, "is of another kind of run: ranks 3 then, 2 now");
    ran_free(&r);
    folder_remove(folder);
}

Test(bench, a_wrong_result_is_told_and_fails, .timeout = 60)
{
    struct ran r = ran("TUTTI_WRAP=fault TUTTI_FAULT='rank=0,op=broadcast:corrupt' " ON_ONE_CPU
                       "$TUTTI bench broadcast --sizes 4K --backend tcp " QUICK);

    cr_expect_eq(r.code, 1, "%s", r.err);
    cr_expect_eq(count_of(r.err,
                          "tutti bench: rank 1: wrong result of broadcast, 4096 bytes of f32: "
                          "element "),
                 1, "%s", r.err);
    cr_expect_eq(lines_with(r.out, "broadcast "), 1, "%s", r.out);
    ran_free(&r);
}

Test(bench, a_rank_that_dies_is_named_and_nothing_is_left, .timeout = 60)
{
    struct ran r = ran("TUTTI_WRAP=fault TUTTI_FAULT='rank=1,op=reduce:kill' $TUTTI bench reduce "
                       "--sizes 12344 -n 3 " QUICK);

    cr_expect_eq(r.code, 137, "%s", r.err);
    CONTAINS(r.err, "first    rank 1 (pid ");
    CONTAINS(r.err, "was ended by signal 9");
    cr_expect_eq(processes_with("12344"), 0);
    ran_free(&r);
}

Test(bench, closed_and_full_streams_do_not_hang_it, .timeout = 60)
{
    struct ran closed = ran("exec <&- >&- 2>&-; $TUTTI bench --sizes 8 " QUICK);
    struct ran full = ran("$TUTTI bench --sizes 8 " QUICK " > /dev/full");

    cr_expect_eq(closed.code, 0, "%d", closed.code);
    cr_expect_eq(full.code, 1, "%d", full.code);
    CONTAINS(full.err, "cannot write to stdout: No space left on device");
    ran_free(&closed);
    ran_free(&full);
}

Test(bench, the_processes_of_a_launcher_are_the_ranks, .timeout = 60)
{
    struct ran r = ran("$TUTTI run -n 3 -- $TUTTI bench --sizes 8 --csv " QUICK);
    struct ran again = ran("$TUTTI run -n 2 -- $TUTTI bench -n 2 --sizes 8");

    cr_expect_eq(r.code, 0, "%s", r.err);
    cr_expect_eq(count_of(r.out, "\n"), 2, "%s", r.out);
    cr_expect_eq(count_of(r.out, "[0] "), 2, "%s", r.out);
    cr_expect_eq(again.code, 2);
    CONTAINS(again.err, " says that this process is a rank already; leave -n out, or unset RANK");
    ran_free(&r);
    ran_free(&again);
}

/* Ranks of one job: were each alone, there would be as many tables. */
static void run_under(const char *family, const char *options)
{
    const char *lack = ranks_lack(family);

    if (lack)
        cr_skip_test("%s", lack);

    struct ran r = ran("unset TUTTI_BACKEND TUTTI_MPI; env '%s' timeout 40 mpirun.%s %s -n 2 "
                       "$TUTTI bench --sizes 8 " QUICK,
                       ranks_lsan_options(family), family, options);

    cr_expect_eq(r.code, 0, "%s", r.err);
    cr_expect_eq(count_of(r.out, "2 ranks on 1 host"), 1, "%s%s", r.out, r.err);
    cr_expect_eq(lines_with(r.out, "all_reduce "), 1, "%s", r.out);
    ran_free(&r);
}

Test(bench, it_runs_under_open_mpi, .timeout = 60)
{
    run_under("openmpi", "--allow-run-as-root --oversubscribe");
}

Test(bench, it_runs_under_mpich, .timeout = 60)
{
    run_under("mpich", "");
}

Test(bench, a_plot_has_a_curve_for_each_operation, .timeout = 60)
{
    char *folder = folder_new();
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    struct ran none = ran("PATH=/nonexistent; $TUTTI bench --plot '%s/none.svg'", folder);

    cr_expect_eq(none.code, 1);
    CONTAINS(none.err, "--plot needs gnuplot, which is not in PATH (Debian: gnuplot-nox)");
    if (!gnuplot)
        cr_skip_test("gnuplot is not installed");

    struct ran r = ran(
        "cd %s && $TUTTI bench all_reduce burst --sizes 8,4K --plot \"it's.svg\" " QUICK, folder);
    g_autofree char *svg = folder_read(folder, "it's.svg");

    cr_expect_eq(r.code, 0, "%s", r.err);
    CONTAINS(svg, "<svg");
    CONTAINS(svg, "all_reduce");
    CONTAINS(svg, "burst");
    CONTAINS(svg, ">4K<");
    ran_free(&none);
    ran_free(&r);
    folder_remove(folder);
}

/* ---- --tune ---- */

/* Three ranks over tcp have four thresholds; one operation keeps the test short. */
Test(bench, a_tuning_file_is_written_and_read_by_info_and_by_jobs, .timeout = 120)
{
    char *folder = folder_new();
    struct ran r =
        ran("cd %s && $TUTTI bench all_reduce --tune=new --backend tcp -n 3 " QUICK, folder);
    g_autofree char *file = folder_read(folder, "new");

    cr_assert_eq(r.code, 0, "%s", r.err);
    CONTAINS(r.out, "# all_reduce_recursive_doubling_max = ");
    /* Where recursive doubling has won at all sizes, which short measurements may find, no call depends on the ring's. */
    const char *unused = strstr(r.out, "# all_reduce_ring_min = ")
                             ? "# no call of these ranks depends on: inline_max, "
                               "staged_one_phase_max, rounds_max\n"
                             : "# no call of these ranks depends on: inline_max, "
                               "staged_one_phase_max, rounds_max, all_reduce_ring_min\n";
    CONTAINS(r.out, unused);
    LACKS(r.out, "broadcast");
    CONTAINS(r.out, "# wrote new; set TUTTI_TUNING to it on all ranks");
    CONTAINS(file, "3 ranks on 1 host over tcp; ");
    CONTAINS(file, "# f32, sum\n");
    CONTAINS(file, unused);
    ran_free(&r);
    r = ran("cd %s && echo 'all_reduce_recursive_doubling_max = 3K' >>new && "
            "sed -i '/^all_reduce_recursive_doubling_max = [0-9]*$/d' new && "
            "export TUTTI_TUNING=$PWD/new && $TUTTI info && "
            "$TUTTI bench all_reduce --sizes 2K,4K -n 4 --backend tcp " QUICK,
            folder);
    cr_assert_eq(r.code, 0, "%s", r.err);
    CONTAINS(r.out, "3072, default 16384, crowded 32768; ");
    CONTAINS(r.out, "  tcp all_reduce_recursive_doubling\n");
    CONTAINS(r.out, "  tcp all_reduce_halving_doubling\n");
    ran_free(&r);
    folder_remove(folder);
}

Test(bench, tuning_alone_writes_the_file_that_init_reads, .timeout = 120)
{
    char *folder = folder_new();
    /* What was there is not read, and stays if something goes wrong. */
    struct ran r = ran("cd %s && unset TUTTI_TUNING && export XDG_CONFIG_HOME=$PWD/config && "
                       "$TUTTI bench reduce --tune --backend tcp -n 3 " QUICK " && "
                       "$TUTTI info && echo wrong >config/tutti/tuning && "
                       "$TUTTI bench reduce --tune -n 3 --backend tcp " QUICK " && "
                       "grep -c reduce_parts_min config/tutti/tuning",
                       folder);

    cr_assert_eq(r.code, 0, "%s", r.err);
    CONTAINS(r.out, "/config/tutti/tuning, which tutti_init() reads");
    CONTAINS(r.out, "  found              yes\n");
    LACKS(r.out, "problem");
    ran_free(&r);
    r = ran("cd %s && echo old >file && $TUTTI bench --tune=file --backend nothing; cat file; "
            "$TUTTI bench --tune=/dev/null; test -c /dev/null",
            folder);
    cr_expect_eq(r.code, 0, "%s", r.err);
    CONTAINS(r.out, "old\n");
    CONTAINS(r.err, "--tune '/dev/null' is not a regular file");
    ran_free(&r);
    folder_remove(folder);
}

/* Rank 0 serves the store at MASTER_ADDR for its first world, and tuning makes more of them. */
Test(bench, ranks_without_a_launcher_can_tune, .timeout = 120)
{
    char *folder = folder_new();
    struct ran r = ran("cd %s && unset TUTTI_TUNING TUTTI_STORE && export MASTER_ADDR=127.0.0.1 "
                       "MASTER_PORT=%d WORLD_SIZE=3 && for rank in 1 2; do RANK=$rank "
                       "$TUTTI bench reduce --tune=file --backend tcp " QUICK " & done; "
                       "RANK=0 $TUTTI bench reduce --tune=file --backend tcp " QUICK
                       " && wait && grep -c reduce_parts_min file",
                       folder, port_reserve());

    cr_assert_eq(r.code, 0, "%s", r.err);
    CONTAINS(r.out, "# wrote file; ");
    ran_free(&r);
    folder_remove(folder);
}

Test(bench, wrong_words_for_tuning_are_told, .timeout = 60)
{
    static const struct {
        const char *words, *told;
    } cases[] = {
        {"--tune=file --sizes 8", "leave out --sizes"},
        {"--tune=file --json", "leave out --json"},
        {"--tune=file -n 1", "--tune needs two ranks or more"},
        {"--tune=file barrier", "no threshold decides about barrier"},
        {"--tune=/not/here/file", "'/not/here/file': files cannot be made in /not/here"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("$TUTTI bench %s", cases[i].words);

        cr_expect_neq(r.code, 0, "%s", cases[i].words);
        CONTAINS(r.err, cases[i].told);
        ran_free(&r);
    }
    struct ran r = ran("env -u HOME -u XDG_CONFIG_HOME -u TUTTI_TUNING $TUTTI bench --tune");

    cr_expect_eq(r.code, 2, "%s", r.err);
    CONTAINS(r.err, "name one: --tune=FILE");
    ran_free(&r);
}
