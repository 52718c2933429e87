/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti info`, `tutti help` and the manual pages. */
#include <criterion/criterion.h>
#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

Test(info, shows_build_cpus_interfaces_and_limits, .timeout = 30)
{
    struct ran r = ran("$TUTTI info");
    static const char *const words[] = {
        "tutti 0.",   "\nbuild\n",  "  compiler ",   "\ncpu\n",
        "  usable ",  "  kernels ", "\nnet\n",       "127.0.0.1/8 (this host only)",
        "  chosen ",  "\nlimits\n", "  open files ", "  /dev/shm ",
        "\nplugins\n"};

    cr_assert_eq(r.code, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        CONTAINS(r.out, words[i]);
    ran_free(&r);
}

Test(info, names_each_directory_of_plugins_in_order_and_says_which_is_missing, .timeout = 30)
{
    char *folder = folder_new();
    struct ran r =
        ran("TUTTI_PLUGIN_PATH=%s:%s/no $TUTTI info | sed -n 's/^  plugin directory *//p'", folder,
            folder);
    g_autofree char *begin = g_strdup_printf("%s\n%s/no (not there)\n", folder, folder);
    g_auto(GStrv) lines = g_strsplit(r.out, "\n", -1);

    cr_assert(g_str_has_prefix(r.out, begin), "%s", r.out);
    cr_assert_geq(g_strv_length(lines), 4);
    CONTAINS(lines[2], "/lib/tutti/0"); /* beside the library, where this build has its plugins */
    cr_assert_null(strstr(lines[2], "(not there)"), "%s", lines[2]);
    folder_remove(folder);
    ran_free(&r);
}

Test(info, chooses_the_address_by_the_route_to_the_rendezvous, .timeout = 30)
{
    static const struct {
        const char *environment, *words;
    } cases[] = {
        {"MASTER_ADDR=127.0.0.1", "127.0.0.1 on lo: the route to MASTER_ADDR=127.0.0.1\n"},
        {"MASTER_ADDR=no.such.host.invalid", "none: MASTER_ADDR=no.such.host.invalid cannot be"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("%s $TUTTI info", cases[i].environment);

        cr_assert_eq(r.code, 0);
        CONTAINS(r.out, cases[i].words);
        ran_free(&r);
    }
}

/* The object named `name` in an array of objects. */
static JsonObject *find(JsonArray *array, const char *name)
{
    for (guint i = 0; i < json_array_get_length(array); i++) {
        JsonObject *object = json_array_get_object_element(array, i);

        if (strcmp(json_object_get_string_member(object, "name"), name) == 0)
            return object;
    }
    cr_assert_fail("no %s", name);
    return NULL;
}

Test(info, a_plugin_that_harms_its_process_harms_nothing_else, .timeout = 60)
{
    struct ran r = ran("TUTTI_PLUGIN_PATH=%s $TUTTI info --json", TUTTI_HARMFUL_PLUGINS);
    g_autoptr(JsonParser) parser = json_parser_new();

    cr_assert_eq(r.code, 0);
    cr_assert(json_parser_load_from_data(parser, r.out, -1, NULL), "%s", r.out);

    JsonObject *root = json_node_get_object(json_parser_get_root(parser));
    JsonArray *plugins = json_object_get_array_member(root, "plugins");
    static const struct {
        const char *name, *reason;
    } cases[] = {
        {"crashes", "crashed while loading: signal 6 (Aborted)"},
        {"exits", "ended the process while loading: exit code 7"},
        {"hangs", "did not load within 10 s"},
        {"deaf", "did not load within 10 s"},
        {"prints", ""},
    };

    cr_assert_str_eq(json_object_get_string_member(root, "schema"), "tutti.info/1");
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        JsonObject *plugin = find(plugins, cases[i].name);

        cr_assert_str_eq(json_object_get_string_member(plugin, "reason"), cases[i].reason);
        cr_assert_eq(json_object_get_boolean_member(plugin, "ready"), !*cases[i].reason);
    }
    cr_assert_str_eq(json_object_get_string_member(find(plugins, "prints"), "version"), "1.0");
    JsonObject *usable = find(json_object_get_array_member(root, "cpu"), "usable");
    cr_assert_gt(g_ascii_strtoll(json_object_get_string_member(usable, "value"), NULL, 10), 0);
    ran_free(&r);
}

Test(info, a_plugin_that_another_one_hides_is_listed_with_the_reason, .timeout = 30)
{
    char *folder = folder_new();
    struct ran r = ran("mkdir %s/a %s/b && for d in a b; do echo words > %s/$d/libtutti-x.so; done;"
                       "COLUMNS=200 TUTTI_PLUGIN_PATH=%s/a:%s/b $TUTTI info",
                       folder, folder, folder, folder, folder);

    cr_assert_eq(r.code, 0);
    CONTAINS(r.out, "refused: not used: ");
    CONTAINS(r.out, "/a/libtutti-x.so comes first");
    folder_remove(folder);
    ran_free(&r);
}

/* The variables of `tutti info --env --json` under the given environment. */
static JsonArray *variables(JsonParser *parser, const char *environment)
{
    struct ran r = ran("%s $TUTTI info --env --json", environment);

    cr_assert_eq(r.code, 0, "%s", r.err);
    cr_assert(json_parser_load_from_data(parser, r.out, -1, NULL), "%s", r.out);
    ran_free(&r);
    JsonObject *root = json_node_get_object(json_parser_get_root(parser));
    cr_assert_str_eq(json_object_get_string_member(root, "schema"), "tutti.env/1");
    return json_object_get_array_member(root, "variables");
}

Test(info, env_tells_value_source_and_what_is_wrong, .timeout = 30)
{
    static const struct {
        const char *environment, *name, *value, *source, *problem;
    } cases[] = {
        {"TUTTI_BACKEND=tcp", "TUTTI_BACKEND", "tcp", "environment", ""},
        {"env -u TUTTI_BACKEND", "TUTTI_BACKEND", "auto", "default", ""},
        {"TORCHELASTIC_RUN_ID=job", "TUTTI_RUN_ID", "job", "TORCHELASTIC_RUN_ID", ""},
        {"TUTTI_DEBUG=loud", "TUTTI_DEBUG", "loud", "environment",
         "TUTTI_DEBUG=loud is not valid: use OFF"},
        {"TUTTI_DEBGU=INFO", "TUTTI_DEBGU", "INFO", "environment", "did you mean TUTTI_DEBUG?"},
        {"TUTTI_FAULT=drop", "TUTTI_FAULT", "drop", "environment",
         "TUTTI_WRAP does not name fault: nothing is injected"},
        {"TUTTI_WRAP=fault TUTTI_FAULT=drop", "TUTTI_FAULT", "drop", "environment", ""},
        {"TUTTI_BOOTSTRAP=zzz", "TUTTI_BOOTSTRAP", "zzz", "environment", "no plugin of this name"},
        {"NCCL_ALGO=Ring", "NCCL_ALGO", "Ring", "environment", ""},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(JsonParser) parser = json_parser_new();
        JsonObject *row = find(variables(parser, cases[i].environment), cases[i].name);

        cr_expect_str_eq(json_object_get_string_member(row, "value"), cases[i].value);
        cr_expect_str_eq(json_object_get_string_member(row, "source"), cases[i].source);
        const char *problem = json_object_get_string_member(row, "problem");
        CONTAINS(problem, cases[i].problem);
        cr_expect_eq(*problem != 0, *cases[i].problem != 0, "%s: %s", cases[i].name, problem);
    }

    struct ran r = ran("TUTTI_BAKEND=shm TUTTI_HOST=h $TUTTI info --env");

    cr_assert_eq(r.code, 0);
    CONTAINS(r.out, "TUTTI_HOST                   h (environment)\n    Ranks with different");
    CONTAINS(r.err,
             "tutti: TUTTI_BAKEND is set, but nothing reads it; did you mean TUTTI_BACKEND?");
    ran_free(&r);
}

/* An engine says where its library is; without one it says what is missing. The stand-in is built with the tests. */
Test(info, names_the_library_of_nccl_or_what_is_missing, .timeout = 60)
{
    static const struct {
        const char *library, *parts[2];
    } cases[] = {
        {TUTTI_PLUGINS "/../../standin/libnccl.so.2", {"NCCL 2.28.9, /", "for the GPUs of cuda"}},
        {"/nowhere/libnccl.so.2", {"TUTTI_NCCL=/nowhere/libnccl.so.2 cannot be", "install NCCL"}},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("COLUMNS=400 TUTTI_NCCL=%s $TUTTI info", cases[i].library);

        CONTAINS(r.out, cases[i].parts[0]);
        CONTAINS(r.out, cases[i].parts[1]);
        ran_free(&r);
    }
}

/* The one that TUTTI_NCCL names comes before the one that the process has already, and that before the linker's. */
Test(info, finds_the_library_of_nccl_in_the_documented_order, .timeout = 60)
{
    static const char *const cases[][2] = {
        {"LD_LIBRARY_PATH=linker", "linker/libnccl.so.2"},
        {"LD_LIBRARY_PATH=linker LD_PRELOAD=$PWD/process/libnccl.so.2", "process/libnccl.so.2"},
        {"LD_LIBRARY_PATH=linker LD_PRELOAD=$PWD/process/libnccl.so.2 "
         "TUTTI_NCCL=named/libnccl.so.2",
         "named/libnccl.so.2"},
    };

#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("AddressSanitizer wants to be loaded before what is preloaded");
#endif
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran(
            "folder=$(mktemp -d) && cd $folder && for f in linker process named; do mkdir $f && "
            "cp " TUTTI_PLUGINS "/../../standin/libnccl.so.2 $f/; done && "
            "COLUMNS=400 %s $TUTTI info; rm -rf $folder",
            cases[i][0]);

        CONTAINS(r.out, "NCCL 2.28.9, ");
        CONTAINS(r.out, cases[i][1]);
        ran_free(&r);
    }
}

/* A user who exports an option of a wrapper for the jobs of a shell gets no warning of it from
 * verbs. */
Test(info, what_is_idle_without_ranks_is_told_by_info_env_alone, .timeout = 60)
{
    static const char *const verbs[] = {"explain barrier", "completion bash",
                                        "trace merge /nowhere", "check /nowhere/libtutti-fault.so",
                                        "info"};

    for (size_t i = 0; i < G_N_ELEMENTS(verbs); i++) {
        struct ran r = ran("TUTTI_DEBUG=loud TUTTI_BAKEND=shm TUTTI_TRACE_DIR=/tmp/t "
                           "TUTTI_FAULT=drop $TUTTI %s",
                           verbs[i]);

        CONTAINS(r.err, "TUTTI_BAKEND is set");
        CONTAINS(r.err, "TUTTI_DEBUG=loud is not valid: use OFF");
        cr_expect_null(strstr(r.err, "TUTTI_TRACE_DIR"), "%s: %s", verbs[i], r.err);
        cr_expect_null(strstr(r.err, "TUTTI_FAULT"), "%s: %s", verbs[i], r.err);
        ran_free(&r);
    }
}

/* Paths, which nothing can break, stand on lines of their own. */
Test(info, lines_fit_80_columns_where_no_terminal_says_otherwise, .timeout = 60)
{
    static const char *const words[] = {"info",
                                        "info --env",
                                        "info --matrix",
                                        "info --help",
                                        "run --help",
                                        "explain --help",
                                        "trace --help",
                                        "trace analyze --help",
                                        "trace merge --help",
                                        "check --help",
                                        "completion --help",
                                        "--help",
                                        "explain all_reduce --bytes 1M -n 4",
                                        "explain all_reduce --bytes 64K --layout 4,4",
                                        "explain all_reduce --bytes 8 -n 4 --backend mpi"};

    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        struct ran r = ran("env -u COLUMNS -u TUTTI_BACKEND $TUTTI %s", words[i]);
        g_auto(GStrv) lines = g_strsplit(r.out, "\n", -1);

        cr_expect_eq(r.code, 0, "%s: %s", words[i], r.err);
        for (char **line = lines; *line; line++)
            cr_expect(g_utf8_strlen(*line, -1) <= 80 || !strchr(g_strchug(*line), ' '),
                      "tutti %s: %s", words[i], *line);
        cr_expect_null(strstr(r.out, "\u00a0"), "%s", words[i]);
        ran_free(&r);
    }
}

Test(info, a_wider_line_is_used_where_columns_says_so, .timeout = 30)
{
    struct ran r = ran("COLUMNS=200 $TUTTI explain all_reduce --bytes 64K -n 8 --layout 4,4");

    CONTAINS(r.out, " steps  memory inside hosts");
    ran_free(&r);
}

Test(info, backends_that_are_named_are_shown_alone, .timeout = 30)
{
    struct ran r = ran("$TUTTI info tcp shm");

    cr_assert_eq(r.code, 0);
    CONTAINS(r.out, "\n  shm ");
    CONTAINS(r.out, "\n  tcp ");
    cr_assert_null(strstr(r.out, "\nnet\n"), "%s", r.out);
    cr_assert_null(strstr(r.out, "\n  check "), "%s", r.out);
    ran_free(&r);
    r = ran("$TUTTI info --json tcp | grep -oE '\"(net|build|name)\" : .*'");
    cr_assert_str_eq(r.out, "\"name\" : \"tcp\",\n");
    ran_free(&r);
}

Test(info, help_lists_the_options_of_the_verb_before_help, .timeout = 30)
{
    struct ran r = ran("$TUTTI explain -h");

    CONTAINS(r.out, "--bytes=SIZE");
    CONTAINS(r.out, "-h, --help");
    cr_expect_lt(strstr(r.out, "--bytes=SIZE"), strstr(r.out, "-h, --help"), "%s", r.out);
    ran_free(&r);
}

Test(info, matrix_is_a_document_and_takes_backends_that_are_there, .timeout = 60)
{
    struct ran r = ran("$TUTTI info --matrix --json tcp"),
               all = ran("$TUTTI info --matrix --markdown");
    struct ran wrong = ran("$TUTTI info --matrix tpc"), both = ran("$TUTTI info --matrix --env");
    g_autoptr(JsonParser) parser = json_parser_new();

    cr_assert(json_parser_load_from_data(parser, r.out, -1, NULL), "%.200s", r.out);
    JsonObject *root = json_node_get_object(json_parser_get_root(parser));
    JsonObject *first =
        json_array_get_object_element(json_object_get_array_member(root, "cells"), 0);
    cr_expect_str_eq(json_object_get_string_member(root, "schema"), "tutti.matrix/1");
    cr_expect_str_eq(json_object_get_string_member(first, "backend"), "tcp");
    cr_expect_str_eq(json_object_get_string_member(first, "refusal"), "");

    cr_expect_eq(all.code, 0);
    CONTAINS(all.out, " | shm | tcp |");
    cr_expect_eq(wrong.code, 2);
    CONTAINS(wrong.err, "unknown backend \"tpc\": did you mean \"tcp\"?");
    cr_expect_eq(both.code, 2);
    CONTAINS(both.err, "one of --env and --matrix only");
    ran_free(&r);
    ran_free(&all);
    ran_free(&wrong);
    ran_free(&both);
}

Test(info, matrix_tells_what_an_engine_does_itself, .timeout = 60)
{
    struct ran r = ran("TUTTI_PLUGIN_PATH=%s $TUTTI info --matrix --markdown fake fakesolo",
                       TUTTI_FAKE_ENGINES);

    cr_assert_eq(r.code, 0, "%s", r.err);
    CONTAINS(
        r.out,
        "\n| all_reduce | fake itself, else fake: recursive_doubling, halving_doubling, direct | "
        "fakesolo itself, else shm: inline, staged, staged_parts |\n");
    CONTAINS(r.out, "\n| gather_v | fake: direct | shm: direct |\n");
    CONTAINS(r.out, "\n| all_reduce | refused: fake reaches members of one host only | "
                    "fakesolo itself, else tcp: recursive_doubling, halving_doubling, direct |\n");
    CONTAINS(r.out,
             "\n## What an engine does itself\n\n"
             "### all_reduce, reduce, reduce_scatter, reduce_scatter_v over fake, fakesolo\n");
    CONTAINS(r.out, "\n| bool | engine | – | core |");
    CONTAINS(r.out, "### barrier over fake, fakesolo\n\nAll of it.\n");
    ran_free(&r);
}

/* What this build does not have is not looked at, and said on stderr. */
Test(info, the_documents_have_what_the_tables_of_the_code_say, .timeout = 60)
{
    struct ran r = ran("%s/scripts/generate-docs --check $TUTTI", TUTTI_SOURCE_DIR);

    cr_assert_eq(r.code, 0, "%s%s", r.err, r.out);
    fputs(r.err, stderr);
    ran_free(&r);
}

/* The help has examples, and the manual page each option that the help has. */
static void expect_documented(const char *verb, const char *page)
{
    struct ran help = ran("$TUTTI %s --help", verb);
    struct ran missing =
        ran("for o in $($TUTTI %s --help | sed -n 's/^  \\(-., \\)*\\(--[a-z-]*\\).*/\\2/p'); do"
            " grep -qe \"\\*$o\\*\" %s/docs/man/tutti-%s.1.scd || echo $o; done",
            verb, TUTTI_SOURCE_DIR, page);

    cr_expect_eq(help.code, 0, "%s", verb);
    CONTAINS(help.out, "Examples:\n  ");
    cr_expect_str_empty(missing.out, "not in the manual of %s: %s", page, missing.out);
    ran_free(&help);
    ran_free(&missing);
}

Test(help, each_verb_has_help_with_examples_and_a_manual_page_with_every_option, .timeout = 60)
{
    struct ran list = ran("$TUTTI help | sed -n '/^Verbs/,/^  help/s/^  \\([a-z]*\\) .*/\\1/p'");
    g_auto(GStrv) verbs = g_strsplit(g_strstrip(list.out), "\n", -1);

    cr_assert_geq(g_strv_length(verbs), 4);
    for (char **verb = verbs; *verb; verb++) {
        if (strcmp(*verb, "help") == 0)
            continue;

        struct ran help = ran("$TUTTI %s --help", *verb), same = ran("$TUTTI help %s", *verb);

        cr_assert_str_eq(help.out, same.out);
        expect_documented(*verb, *verb);
        ran_free(&help);
        ran_free(&same);
    }
    expect_documented("trace analyze", "trace");
    expect_documented("trace merge", "trace");
    ran_free(&list);
}

/* scdoc writes paragraphs that mandoc finds empty; nothing else may be wrong. */
Test(help, the_manual_pages_are_clean, .timeout = 30)
{
    struct ran r = ran("set -- %s/*.[1-8]; [ $# -ge 5 ] && mandoc -T lint -W warning \"$@\" |"
                       " grep -v 'skipping paragraph macro'",
                       TUTTI_MANUALS);

    cr_assert_str_empty(r.out, "%s", r.out);
    cr_assert_str_empty(r.err, "%s", r.err);
    cr_assert_eq(r.code, 1, "no manual pages in %s", TUTTI_MANUALS);
    ran_free(&r);
}

Test(help, version_and_wrong_words_are_answered, .timeout = 30)
{
    static const struct {
        const char *words;
        int code;
        const char *answer;
    } cases[] = {
        {"--version", 0, "tutti 0."},
        {"help", 0, "Usage: tutti VERB"},
        {"help rnu", 2, "unknown verb 'rnu'; did you mean 'run'?"},
        {"--versoin", 2, "unknown option '--versoin'"},
        {"info --jsn", 2, "unknown option --jsn; did you mean --json?"},
        {"info --env words", 2, "unexpected argument 'words'"},
        {"info words", 2, "unknown backend 'words'; known: "},
        {"info --json tpc", 2, "unknown backend 'tpc'; did you mean 'tcp'? Known: "},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("$TUTTI %s 2>&1", cases[i].words);

        cr_assert_eq(r.code, cases[i].code, "'%s' gives %d", cases[i].words, r.code);
        CONTAINS(r.out, cases[i].answer);
        ran_free(&r);
    }
}

Test(help, a_command_whose_output_cannot_be_written_fails, .timeout = 60)
{
    static const char *const commands[] = {"--version", "help", "info", "completion bash",
                                           "explain barrier -n 2"};

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        struct ran r = ran("$TUTTI %s >/dev/full", commands[i]);

        cr_expect_eq(r.code, 1, "%s: %d", commands[i], r.code);
        CONTAINS(r.err, "the output could not be written: No space left on device");
        ran_free(&r);
    }
}
