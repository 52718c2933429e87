/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti trace`: files that are no dumps, wrong command lines, and how `tutti run` asks for dumps.
 * What it finds in the dumps of real ranks is in tests/fault/test_analyze.c.
 */
#include <criterion/criterion.h>
#include <json-glib/json-glib.h>
#include <signal.h>
#include <string.h>

#include "command.h"

#define CONTAINS(text, words)                                                                      \
    cr_assert_not_null(strstr(text, words), "no \"%s\" in:\n%s", words, text)

#define HEAD                                                                                       \
    "{\"schema\":\"tutti.trace/1\",\"cause\":\"signal\",\"run\":\"r\",\"attempt\":0,\"rank\":0,"   \
    "\"host\":\"h\",\"pid\":7,\"context\":0,\"wall_ns\":1,\"groups\":["
#define GROUP(members)                                                                             \
    "{\"name\":\"world\",\"id\":\"00000000000000aa\",\"rank\":0,\"size\":1,\"backend\":\"self\","  \
    "\"members\":[" members "],\"started\":1,\"completed\":1,\"unfinished\":[],\"records\":["
#define MEMBER "{\"host\":\"h\",\"pid\":7,\"layout\":0,\"world_rank\":0}"
#define RECORD(sequence)                                                                           \
    "{\"sequence\":" sequence ",\"operation\":\"barrier\",\"count\":0,\"state\":\"done\"}"
#define GOOD HEAD GROUP(MEMBER) RECORD("1") "]}]}"

static void put(const char *folder, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);

    cr_assert(g_file_set_contents(path, text, -1, NULL));
}

Test(trace, a_file_that_is_no_dump_is_left_out_in_words, .timeout = 60)
{
    g_autofree char *deep = g_strnfill(100000, '[');
    const struct {
        const char *text, *answer;
    } cases[] = {
        {"", "it is empty"},
        {"{\"traceEvents\":[]}", "schema is missing"},
        {"[1]", "is no object"},
        {"{\"schema\":\"tutti.trace/9\"}", "schema is 'tutti.trace/9', not tutti.trace/1"},
        {HEAD GROUP(MEMBER) RECORD("1"), "it is cut short, or no JSON"},
        {HEAD GROUP(MEMBER "," MEMBER) "]}]}", "members are not as many as size says"},
        {HEAD GROUP("7") "]}]}", "groups[0].members[0].it is no object"},
        {HEAD GROUP(MEMBER) RECORD("0") "]}]}",
         "groups[0].records[0].sequence is out of its range"},
        {HEAD GROUP(MEMBER) RECORD("\"1\"") "]}]}", "groups[0].records[0].sequence is no whole"},
        {HEAD "\"group\"]}", "groups[0].it is no object"},
        {"\xff\xfe", "it is no JSON that tutti writes"},
        {deep, "it is no JSON that tutti writes"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *folder = folder_new();

        put(folder, "bad.json", cases[i].text);
        struct ran alone = ran("$TUTTI trace analyze %s", folder);
        cr_expect_eq(alone.code, 1, "%s: %s", cases[i].answer, alone.out);
        CONTAINS(alone.err, cases[i].answer);
        CONTAINS(alone.err, "no dump could be read");
        ran_free(&alone);

        put(folder, "good.json", GOOD); /* the others are read all the same */
        struct ran both = ran("$TUTTI trace analyze %s", folder);
        cr_expect_eq(both.code, 0, "%s", both.err);
        CONTAINS(both.out, "group world: 1 member, self\n");
        CONTAINS(both.err, "bad.json is left out: ");
        ran_free(&both);
        folder_remove(folder);
    }
}

Test(trace, what_a_file_says_cannot_reach_the_terminal_as_control, .timeout = 20)
{
    char *folder = folder_new();

    put(folder, "a.json",
        HEAD "{\"name\":\"\\u001b[2Jworld\",\"id\":\"00000000000000aa\",\"rank\":0,\"size\":1,"
             "\"backend\":\"self\",\"members\":[" MEMBER "],\"started\":0,\"completed\":0,"
             "\"unfinished\":[],\"records\":[]}]}");
    struct ran r = ran("$TUTTI trace analyze %s", folder);
    cr_expect_eq(r.code, 0);
    CONTAINS(r.out, "group ?[2Jworld: ");
    cr_expect_null(strchr(r.out, '\033'));
    ran_free(&r);
    folder_remove(folder);
}

Test(trace, json_is_one_document, .timeout = 20)
{
    char *folder = folder_new();
    g_autoptr(JsonParser) parser = json_parser_new();

    put(folder, "good.json", GOOD);
    put(folder, "bad.json", "{}");
    struct ran r = ran("$TUTTI trace analyze --json %s", folder);
    cr_assert_eq(r.code, 0, "%s", r.err);
    cr_assert(json_parser_load_from_data(parser, r.out, -1, NULL), "%s", r.out);

    JsonObject *root = json_node_get_object(json_parser_get_root(parser));
    JsonObject *run = json_array_get_object_element(json_object_get_array_member(root, "runs"), 0);
    cr_expect_str_eq(json_object_get_string_member(root, "schema"), "tutti.analysis/1");
    cr_expect_str_eq(json_object_get_string_member(root, "verdict"), "fine");
    cr_expect_str_eq(json_object_get_string_member(run, "run"), "r");
    cr_expect_eq(json_array_get_length(json_object_get_array_member(run, "groups")), 1);
    cr_expect_eq(json_array_get_length(json_object_get_array_member(root, "unread")), 1);
    ran_free(&r);
    folder_remove(folder);
}

Test(trace, wrong_command_lines_are_answered_with_words, .timeout = 30)
{
    static const struct {
        const char *words, *answer;
    } cases[] = {
        {"", "Usage: tutti trace VERB"},
        {"analyse", "unknown verb 'analyse'; did you mean 'analyze'?"},
        {"analyze", "no folder with dumps given"},
        {"analyze --jsn /tmp", "did you mean --json?"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("$TUTTI trace %s", cases[i].words);

        cr_expect_eq(r.code, 2, "%s", cases[i].words);
        CONTAINS(r.err, cases[i].answer);
        ran_free(&r);
    }
    struct ran gone = ran("$TUTTI trace analyze /no/such/folder");
    cr_expect_eq(gone.code, 1);
    CONTAINS(gone.err, "/no/such/folder is left out: No such file or directory");
    ran_free(&gone);
}

/* A program below a shell, one that has no handler, and both go on. */
Test(trace, run_passes_the_signal_on_to_who_takes_it, .timeout = 60)
{
    char *folder = folder_new();
    g_autofree char *output = g_build_filename(folder, "output", NULL);
    g_autofree char *words =
        g_strdup_printf("run -n 2 -- sh -c 'cd %s; echo x > here$RANK; "
                        "test $RANK = 0 && { until test -e done; do sleep 0.05; done; exit 0; }; "
                        "sh -c \"trap \\\"echo asked; echo x > done; exit 0\\\" USR2; echo x > "
                        "ready; while :; do sleep 0.05; done\"; exit 0'",
                        folder);
    pid_t run = command_start(words, output);

    cr_assert(wait_for_file(folder, "here0", 20) && wait_for_file(folder, "ready", 20));
    kill(run, SIGUSR2);
    cr_expect_eq(command_wait(run, 20), 0);

    g_autofree char *printed = folder_read(folder, "output");
    CONTAINS(printed, "[1] asked");
    CONTAINS(printed, "rank 0 was not asked for a dump");
    folder_remove(folder);
}
