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
        {"[1]", "is not an object"},
        {"{\"schema\":\"tutti.trace/9\"}", "schema is 'tutti.trace/9', not tutti.trace/1"},
        {HEAD GROUP(MEMBER) RECORD("1"), "it is cut short, or not JSON"},
        {HEAD GROUP(MEMBER "," MEMBER) "]}]}", "members are not as many as size says"},
        {HEAD GROUP("7") "]}]}", "groups[0].members[0].it is not an object"},
        {HEAD GROUP(MEMBER) RECORD("0") "]}]}",
         "groups[0].records[0].sequence is out of its range"},
        {HEAD GROUP(MEMBER) RECORD("\"1\"") "]}]}", "groups[0].records[0].sequence is not a whole"},
        {HEAD "\"group\"]}", "groups[0].it is not an object"},
        {"\xff\xfe", "it is not JSON that tutti writes"},
        {deep, "it is not JSON that tutti writes"},
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

/* ---- dumps of several ranks ---- */

/* The dump of one rank; `lists` are the members "unfinished" and "records" of its group. `seen`: what it says
 * of rank 1 besides, "" nothing. */
static void put_dump_seeing(const char *folder, int rank, int size, int started, const char *lists,
                            const char *seen)
{
    g_autofree char *name = g_strdup_printf("rank%d.json", rank);
    g_autoptr(GString) text = g_string_new(NULL);

    g_string_printf(text,
                    "{\"schema\":\"tutti.trace/1\",\"cause\":\"signal\",\"run\":\"r\","
                    "\"attempt\":0,\"rank\":%d,\"host\":\"h\",\"pid\":%d,\"context\":0,"
                    "\"wall_ns\":1,\"groups\":[{\"name\":\"world\",\"id\":\"00000000000000aa\","
                    "\"rank\":%d,\"size\":%d,\"backend\":\"shm\",\"members\":[",
                    rank, 100 + rank, rank, size);
    for (int r = 0; r < size; r++)
        g_string_append_printf(text,
                               "%s{\"host\":\"h\",\"pid\":%d,\"layout\":0,\"world_rank\":%d%s}",
                               r ? "," : "", 100 + r, r, r == 1 ? seen : "");
    g_string_append_printf(text, "],\"started\":%d,\"completed\":0,%s}]}", started, lists);
    put(folder, name, text->str);
}

static void put_dump(const char *folder, int rank, int size, int started, const char *lists)
{
    put_dump_seeing(folder, rank, size, started, lists, "");
}

#define COLLECTIVE(operation, more)                                                                \
    "{\"sequence\":1,\"operation\":\"" operation "\",\"count\":0" more ",\"state\":\"started\"}"
#define BARRIER COLLECTIVE("barrier", "")
#define CALLED(operation) "\"records\":[" COLLECTIVE(operation, "") "]"
#define CALLED_NOTHING "\"unfinished\":[],\"records\":[]"
#define WAITS_SO(call, waits, what, waited)                                                        \
    "{" call ",\"seconds\":9,\"waited\":\"" waited "\",\"waits_for\":{\"rank\":" waits             \
    ",\"what\":\"" what "\",\"not_called\":[]}}"
#define WAITS(call, waits, what) WAITS_SO(call, waits, what, "yes")
#define IN_BARRIER(waits) WAITS("\"sequence\":1", waits, "message")
#define IN_BARRIER_BEFORE(waits) WAITS("\"sequence\":1", waits, "call")
#define IN_MESSAGE_SO(operation, peer, tag, waited)                                                \
    WAITS_SO("\"operation\":\"" operation "\",\"peer\":" peer ",\"tag\":" tag                      \
             ",\"bytes\":8,\"moved\":0",                                                           \
             peer, "message", waited)
#define IN_MESSAGE(operation, peer, tag) IN_MESSAGE_SO(operation, peer, tag, "yes")
#define IN_RECV(peer) IN_MESSAGE("recv", peer, "7")
#define UNFINISHED(calls) "\"unfinished\":[" calls "]," CALLED("barrier")
#define MESSAGE(number, operation, peer, tag, state)                                               \
    "{\"message\":" number ",\"operation\":\"" operation "\",\"count\":8,\"peer\":" peer           \
    ",\"tag\":" tag ",\"state\":\"" state "\"}"

static struct ran analyzed(const char *folder)
{
    struct ran r = ran("$TUTTI trace analyze %s", folder);

    cr_assert_eq(r.code, 3, "%d: %s%s", r.code, r.out, r.err);
    return r;
}

Test(trace, two_that_differ_are_told_although_rank_0_is_behind_them, .timeout = 20)
{
    char *folder = folder_new();

    put_dump(folder, 0, 3, 0, CALLED_NOTHING);
    put_dump(folder, 1, 3, 1, UNFINISHED(IN_BARRIER("0")));
    put_dump(folder, 2, 3, 1, "\"unfinished\":[" IN_BARRIER("0") "]," CALLED("broadcast"));
    struct ran r = analyzed(folder);
    CONTAINS(r.out, "  different: as #1 rank 1 called barrier; rank 2 called broadcast\n");
    CONTAINS(r.out, "  late: rank 0 (host h, pid 100) has not called #1 barrier");
    CONTAINS(r.out, "verdict: different\n");
    ran_free(&r);
    folder_remove(folder);
}

/* script(1) runs its command on a terminal of its own. */
Test(trace, sentences_fit_a_terminal_and_are_one_line_elsewhere, .timeout = 30)
{
    enum { COLUMNS = 90 };
    char *folder = folder_new();

    put_dump(folder, 1, 4, 1, UNFINISHED(IN_BARRIER("-1")));
    struct ran shown =
        ran("script -qec \"stty cols %d; $TUTTI trace analyze %s\" /dev/null </dev/null", COLUMNS,
            folder);
    struct ran piped = analyzed(folder);
    g_auto(GStrv) lines = g_strsplit(shown.out, "\r\n", -1);
    size_t longest = 0;

    for (char **line = lines; *line; line++)
        longest = MAX(longest, strlen(*line));
    cr_expect(longest > 80 && longest <= COLUMNS, "%s", shown.out);
    CONTAINS(shown.out, "\r\n  missing: cannot tell which rank holds up ");
    CONTAINS(shown.out, "\r\n    ");
    CONTAINS(piped.out, "there is no dump of ranks 0, 2 and 3: one of them is stopped, ");
    ran_free(&shown);
    ran_free(&piped);
    folder_remove(folder);
}

/* A rank that waits for data of another knows nothing of whom that one waits for. */
Test(trace, nobody_is_picked_out_of_several_that_gave_no_dump, .timeout = 20)
{
    static const struct {
        const char *waits, *answer;
    } cases[] = {
        {UNFINISHED(IN_BARRIER("-1")), "or files were not collected or never written\n"},
        {UNFINISHED(IN_BARRIER("3")), "; rank 1 waits for rank 3, which may be waiting itself\n"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *folder = folder_new();

        put_dump(folder, 1, 4, 1, cases[i].waits);
        struct ran r = analyzed(folder);
        CONTAINS(r.out, "  missing: cannot tell which rank holds up #1 barrier, since there is no "
                        "dump of ranks 0, 2 and 3: one of them is stopped, ");
        CONTAINS(r.out, cases[i].answer);
        CONTAINS(r.out, "  no dump of ranks 0, 2 and 3\nverdict: missing\n");
        ran_free(&r);
        folder_remove(folder);
    }
}

/* What the others saw of its process rules some of the reasons out. */
Test(trace, a_rank_without_a_dump_is_stopped_only_if_another_saw_it, .timeout = 30)
{
    static const struct {
        const char *seen, *answer, *verdict;
    } cases[] = {
        {"",
         "no dump of it: it is stopped, hangs with SIGUSR2 blocked, its host cannot be reached, "
         "or its file was not collected or never written\n",
         "verdict: missing\n"},
        {",\"process\":\"running\"",
         "no dump of it, though its process is not stopped (running, as rank 0 saw): it hangs with "
         "SIGUSR2 blocked, or its file was not collected or never written\n",
         "verdict: missing\n"},
        {",\"process\":\"sleeping\"", "its process is not stopped (sleeping, as rank 0 saw)",
         "verdict: missing\n"},
        {",\"process\":\"stopped\"",
         "  stopped: rank 1 (host h, pid 101) is stopped by a signal (SIGCONT lets it go on)\n",
         "verdict: stopped\n"},
        {",\"process\":\"dead\"",
         "  dead: rank 1 (host h, pid 101) ended without leaving the group\n", "verdict: dead\n"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *folder = folder_new();

        put_dump_seeing(folder, 0, 3, 1, UNFINISHED(IN_BARRIER_BEFORE("1")), cases[i].seen);
        struct ran r = analyzed(folder); /* rank 2 gave none either, but is not the one */
        CONTAINS(r.out, cases[i].answer);
        CONTAINS(r.out, cases[i].verdict);
        cr_expect(i > 2 || strstr(r.out, "  missing: rank 1 (host h, pid 101) has not called #1 "
                                         "barrier, and there is no dump of it"),
                  "%s", r.out);
        ran_free(&r);
        folder_remove(folder);
    }
}

/* Ranks 0 and 1 wait for each other in a call that rank 2 has not come to; rank 3 owes a message. */
Test(trace, a_rank_that_owes_a_message_is_told_beside_a_late_one, .timeout = 20)
{
    char *folder = folder_new();

    put_dump(folder, 0, 4, 1, UNFINISHED(IN_BARRIER("1") "," IN_RECV("3")));
    put_dump(folder, 1, 4, 1, UNFINISHED(IN_BARRIER("0")));
    put_dump(folder, 2, 4, 0, CALLED_NOTHING);
    struct ran r = analyzed(folder);
    CONTAINS(r.out, "  late: rank 2 (host h, pid 102) has not called #1 barrier: it has called "
                    "nothing yet and is outside of tutti\n");
    CONTAINS(r.out,
             "  missing: rank 3 (host h, pid 103) is waited for, and there is no dump of it");
    ran_free(&r);
    folder_remove(folder);
}

/* Rank 0 waits for a message of rank 2, which is in a barrier that rank 0 has not called;
 * rank 3 waits for one of them and is in no circle of its own. */
Test(trace, a_circle_over_a_message_and_a_collective_is_stuck, .timeout = 20)
{
    char *folder = folder_new();

    put_dump(folder, 0, 4, 0,
             "\"unfinished\":[" IN_RECV("2") "],\"records\":[" MESSAGE(
                 "1", "recv", "2", "5", "done") "," MESSAGE("2", "recv", "2", "7", "running") "]");
    put_dump(folder, 1, 4, 1, UNFINISHED(IN_BARRIER_BEFORE("0")));
    put_dump(folder, 2, 4, 1,
             "\"unfinished\":[" IN_BARRIER_BEFORE("0") "],\"records\":[" MESSAGE(
                 "1", "send", "0", "5", "done") "," MESSAGE("2", "send", "0", "6",
                                                            "done") "," BARRIER "]");
    put_dump(folder, 3, 4, 0, "\"unfinished\":[" IN_RECV("0") "],\"records\":[]");
    struct ran r = analyzed(folder);
    CONTAINS(r.out, "  stuck: they wait for each other; rank 0 in recv of 8 bytes, tag 7, from "
                    "rank 2; rank 2 in #1 barrier, which rank 0 has not called; rank 2 has sent "
                    "rank 0 tag 6, for which there is no receive yet\n");
    CONTAINS(r.out, "  late: rank 3 (host h, pid 103) has not called #1 barrier: it waits in recv");
    cr_expect_null(strstr(r.out, "late: rank 0"), "%s", r.out);
    ran_free(&r);
    folder_remove(folder);
}

/* Two in one message of two tags, while the others wait for both in a collective. */
Test(trace, a_send_and_a_receive_of_two_tags_are_a_circle, .timeout = 20)
{
    char *folder = folder_new();

    put_dump(folder, 0, 3, 0, "\"unfinished\":[" IN_MESSAGE("recv", "1", "5") "],\"records\":[]");
    put_dump(folder, 1, 3, 0, "\"unfinished\":[" IN_MESSAGE("send", "0", "6") "],\"records\":[]");
    put_dump(folder, 2, 3, 1, UNFINISHED(IN_BARRIER_BEFORE("0")));
    struct ran r = analyzed(folder);
    CONTAINS(r.out,
             "  stuck: they wait for each other; rank 0 in recv of 8 bytes, tag 5, from rank 1; "
             "rank 1 in send of 8 bytes, tag 6, to rank 0\nverdict: stuck\n");
    ran_free(&r);
    folder_remove(folder);
}

/* Rank 0 has posted its receive early and computes; only what a thread waits for makes a circle. */
Test(trace, a_rank_that_computes_with_a_receive_in_flight_is_late, .timeout = 20)
{
    static const struct {
        const char *receive, *activity;
    } cases[] = {
        {IN_MESSAGE_SO("recv", "1", "7", "no"),
         "it waits in no call, with recv of 8 bytes, tag 7, from rank 1 in flight\n"},
        {IN_MESSAGE_SO("recv", "1", "7", "any"), "it waits in recv of 8 bytes"},
        {"{\"operation\":\"recv\",\"peer\":1,\"tag\":7,\"bytes\":8,\"seconds\":9,"
         "\"waits_for\":{\"rank\":1,\"what\":\"message\",\"not_called\":[]}}",
         "it waits in recv of 8 bytes"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *folder = folder_new();
        g_autofree char *lists =
            g_strdup_printf("\"unfinished\":[%s],\"records\":[]", cases[i].receive);

        put_dump(folder, 0, 2, 0, lists);
        put_dump(folder, 1, 2, 1, UNFINISHED(IN_BARRIER_BEFORE("0")));
        struct ran r = analyzed(folder);
        CONTAINS(r.out, "  late: rank 0 (host h, pid 100) has not called #1 barrier: ");
        CONTAINS(r.out, cases[i].activity);
        CONTAINS(r.out, "verdict: late\n");
        cr_expect_null(strstr(r.out, "stuck"), "%s", r.out);
        ran_free(&r);
        folder_remove(folder);
    }
}

/* Rank 0 waits for rank 1, which it owes nothing: that takes a broadcast of rank 3, which computes. A barrier would
 * wait for rank 0 as well, and so does a broadcast whose next data is rank 0's. */
Test(trace, a_broadcast_waits_for_its_root_alone, .timeout = 20)
{
    static const struct {
        const char *lists;
        bool is_circle;
    } cases[] = {
        {"\"unfinished\":[" IN_BARRIER_BEFORE("3") "],\"records\":[" COLLECTIVE("broadcast",
                                                                                ",\"root\":3") "]",
         false},
        {"\"unfinished\":[" IN_BARRIER_BEFORE("3") "],\"records\":[" COLLECTIVE(
             "all_to_all", ",\"uneven\":true") "]",
         false},
        {"\"unfinished\":[" IN_BARRIER_BEFORE("0") "],\"records\":[" COLLECTIVE("broadcast",
                                                                                ",\"root\":0") "]",
         true},
        {UNFINISHED(IN_BARRIER_BEFORE("3")), true},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *folder = folder_new();

        put_dump(folder, 0, 4, 0, "\"unfinished\":[" IN_RECV("1") "],\"records\":[]");
        put_dump(folder, 1, 4, 1, cases[i].lists);
        put_dump(folder, 2, 4, 1, cases[i].lists);
        put_dump(folder, 3, 4, 0, CALLED_NOTHING);
        struct ran r = analyzed(folder);
        cr_expect_eq(strstr(r.out, "  stuck: they wait for each other; rank 0") != NULL,
                     cases[i].is_circle, "%zu: %s", i, r.out);
        CONTAINS(r.out, "  late: rank 3 (host h, pid 103) has not called #1");
        CONTAINS(r.out, "verdict: late\n");
        ran_free(&r);
        folder_remove(folder);
    }
}

Test(trace, a_rank_whose_stream_is_late_is_told, .timeout = 20)
{
    char *folder = folder_new();

    put_dump(folder, 0, 2, 1, UNFINISHED(IN_BARRIER_BEFORE("1")));
    put_dump(folder, 1, 2, 1, UNFINISHED(WAITS("\"sequence\":1", "-1", "stream")));
    struct ran r = analyzed(folder);
    CONTAINS(r.out, "  stuck: earlier work on the stream of a tensor of rank 1 (host h, pid 101) "
                    "is not done, and holds #1 barrier back");
    CONTAINS(r.out, "verdict: stuck\n");
    ran_free(&r);
    folder_remove(folder);
}

Test(trace, a_rank_whose_host_does_not_answer_is_cut_off, .timeout = 20)
{
    static const char cut[] = "  cut: rank 1 (host h, pid 101) does not answer on the network";
    static const char *const losses[][3] = {
        {"ended", "vanished", cut},
        {"vanished", "ended", cut},
        {"ended", "ended", "  dead: rank 1 (host h, pid 101) ended without leaving the group\n"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(losses); i++) {
        char *folder = folder_new();

        for (int k = 0; k < 2; k++) {
            g_autofree char *seen = g_strdup_printf(",\"lost\":\"%s\"", losses[i][k]);

            put_dump_seeing(folder, 2 * k, 3, 0, CALLED_NOTHING, seen);
        }
        struct ran r = analyzed(folder);
        CONTAINS(r.out, losses[i][2]);
        ran_free(&r);
        folder_remove(folder);
    }
}

Test(trace, a_dump_of_thousands_of_members_is_judged_in_seconds, .timeout = 60)
{
    char *folder = folder_new();

    put_dump(folder, 5, 4096, 1, UNFINISHED(IN_BARRIER_BEFORE("7")));
    struct ran r = analyzed(folder);
    cr_expect_lt(r.seconds, 20);
    CONTAINS(r.out, "  missing: rank 7 (host h, pid 107) has not called #1 barrier");
    CONTAINS(r.out, "  no dump of ranks 0-4 and 6-4095\n");
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
    CONTAINS(gone.err, "no dump could be read: /no/such/folder: No such file or directory");
    ran_free(&gone);
}

/* A program below a shell and one in a process group of its own, one that has no handler, and all go on. */
Test(trace, run_passes_the_signal_on_to_ranks_that_take_it, .timeout = 60)
{
    char *folder = folder_new();
    g_autofree char *output = g_build_filename(folder, "output", NULL);
    g_autofree char *words =
        g_strdup_printf("run -n 3 -- sh -c 'cd %s; echo x > here$RANK; test $RANK = 0 && "
                        "{ until test -e done1 -a -e done2; do sleep 0.05; done; exit 0; }; "
                        "test $RANK = 1 || own=\"timeout 60\"; "
                        "$own sh -c \"trap \\\"echo asked; echo x > done$RANK; exit 0\\\" USR2; "
                        "echo x > ready$RANK; while :; do sleep 0.05; done\"; exit 0'",
                        folder);
    pid_t run = command_start(words, output);

    cr_assert(wait_for_file(folder, "here0", 20) && wait_for_file(folder, "ready1", 20) &&
              wait_for_file(folder, "ready2", 20));
    kill(run, SIGUSR2);
    cr_expect_eq(command_wait(run, 20), 0);

    g_autofree char *printed = folder_read(folder, "output");
    CONTAINS(printed, "[1] asked");
    CONTAINS(printed, "[2] asked");
    CONTAINS(printed, "rank 0 was not asked for a dump");
    folder_remove(folder);
}

static bool wait_for_dumps(const char *folder, int count, double seconds)
{
    const gint64 until = g_get_monotonic_time() + (gint64)(seconds * G_USEC_PER_SEC);

    do {
        g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
        const char *name;
        int found = 0;

        while (dir && (name = g_dir_read_name(dir)))
            found += g_str_has_suffix(name, ".json");
        if (found >= count)
            return true;
        g_usleep(20000);
    } while (g_get_monotonic_time() < until);
    return false;
}

/* A stuck job is asked for its dumps and then ended. No rank may see another one go first: it would say
 * that it has lost it, in place of what its dump says of the rank that hangs. */
Test(trace, ending_a_stuck_job_keeps_the_dumps_that_name_the_late_rank, .timeout = 90)
{
    char *folder = folder_new();
    g_autofree char *output = g_build_filename(folder, "output", NULL),
                    *dumps = g_build_filename(folder, "dumps", NULL),
                    *words = g_strdup_printf("run -n 6 --backend shm %s/leaver 3 hang",
                                             TUTTI_TEST_PROGRAMS);

    g_setenv("TUTTI_DUMP_DIR", dumps, TRUE);
    g_setenv("TUTTI_STALL_WARNING", "2", TRUE);
    const pid_t run = command_start(words, output);
    g_unsetenv("TUTTI_DUMP_DIR");
    g_unsetenv("TUTTI_STALL_WARNING");
    for (int rank = 0; rank < 6; rank++) {
        g_autofree char *waits =
            g_strdup_printf("[%d] tutti[%d] warning: group world: #4 all_reduce", rank, rank);

        cr_expect(rank == 3 || wait_for_words(folder, "output", waits, 30), "rank %d", rank);
    }
    kill(run, SIGUSR2);
    cr_expect(wait_for_dumps(dumps, 6, 30));
    kill(run, SIGTERM);
    cr_expect_eq(command_wait(run, 20), 128 + SIGTERM);

    g_autofree char *printed = folder_read(folder, "output");
    LACKS(printed, "was lost");
    struct ran r = analyzed(dumps);
    CONTAINS(r.out, "  late: rank 3 (host ");
    CONTAINS(r.out, "verdict: late\n");
    LACKS(r.out, "dead: ");
    ran_free(&r);
    folder_remove(folder);
}
