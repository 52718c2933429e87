/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti explain`: what it says of a call, and what of a wrong question. */
#include <criterion/criterion.h>
#include <json-glib/json-glib.h>
#include <string.h>

#include "command.h"

#define STANDIN "TUTTI_UCC=" TUTTI_PLUGINS "/../../standin/libucc.so.1 "

Test(explain, the_chosen_candidate_comes_first_and_is_the_only_one, .timeout = 30)
{
    static const char *const questions[] = {"all_reduce --bytes 1M -n 4",
                                            "all_reduce --bytes 1K -n 4 --layout 2,2",
                                            "monitored_barrier -n 4",
                                            "all_to_all --bytes 1M -n 4",
                                            "reduce_scatter --bytes 64K -n 4 --layout 2,2",
                                            "broadcast --bytes 64K -n 8 --backend tcp",
                                            "barrier -n 3",
                                            "reduce --bytes 64K -n 4 --backend tcp --fixed-order",
                                            "gather_v --bytes 64K --layout 2,2 --root 3",
                                            "all_gather_v -b64K -n4",
                                            "scatter_v -b64K -n3 --backend tcp",
                                            "reduce_scatter_v --bytes=1K -n3",
                                            "all_to_all_v -b 1M -n 4",
                                            "send --bytes 8K",
                                            "recv --bytes 8K --layout 2,2 --root 3",
                                            "all_reduce --bytes 4K -n 1 --dtype bf16 --op max"};

    for (size_t i = 0; i < G_N_ELEMENTS(questions); i++) {
        struct ran r = ran("env -u TUTTI_BACKEND $TUTTI explain %s", questions[i]);
        g_auto(GStrv) lines = g_strsplit(g_strstrip(r.out), "\n", -1);

        cr_assert_eq(r.code, 0, "%s: %s", questions[i], r.err);
        cr_assert_geq(g_strv_length(lines), 2);
        for (guint j = 1; lines[j]; j++)
            cr_assert_eq(g_str_has_prefix(lines[j], "chosen  "), j == 1, "%s", r.out);
        ran_free(&r);
    }
}

/* More members than a host's staging has room for. */
Test(explain, thousands_of_members_on_hundreds_of_hosts_are_counted, .timeout = 60)
{
    static const char *const calls[] = {
        "all_reduce --bytes 64", "all_to_all --bytes 64", "barrier",          "gather --bytes 64",
        "scatter --bytes 64",    "reduce_scatter -b 1M",  "all_gather -b 64K"};
    g_autoptr(GString) layout = g_string_new("10");

    for (int host = 1; host < 500; host++)
        g_string_append(layout, ",10");
    for (size_t i = 0; i < G_N_ELEMENTS(calls); i++) {
        struct ran r =
            ran("env -u TUTTI_BACKEND $TUTTI explain %s --layout %s", calls[i], layout->str);

        cr_expect_eq(r.code, 0, "%s: %d, %s", calls[i], r.code, r.err);
        CONTAINS(r.out, "\nchosen  ");
        ran_free(&r);
    }
}

#define ON_ONE_CPU                                                                                 \
    "taskset -c $(taskset -cp $$ | sed 's/.*: *//; s/[,-].*//') env -u TUTTI_BACKEND "

/* A value of a tuning file holds there, too. */
Test(explain, members_that_outnumber_the_cpus_take_few_messages, .timeout = 60)
{
    static const char question[] = "$TUTTI explain broadcast --bytes 256K -n 4 --backend tcp";
    static const char file[] =
        "file=$(mktemp); echo 'broadcast_scatter_all_gather_min = 64K' >$file; ";
    struct ran few = ran(ON_ONE_CPU "TUTTI_TUNING=none %s", question);
    struct ran tuned = ran("%s" ON_ONE_CPU "TUTTI_TUNING=$file %s; rm $file", file, question);
    struct ran of_file = ran("%sTUTTI_TUNING=$file $TUTTI info; rm $file", file);
    struct ran without = ran("TUTTI_TUNING=none $TUTTI info");

    CONTAINS(few.out, "chosen  tcp   broadcast_binomial ");
    CONTAINS(tuned.out, "chosen  tcp   broadcast_scatter_all_gather ");
    CONTAINS(of_file.out, " 65536, default 32768, crowded 8388608; the shortest vector");
    CONTAINS(without.out, " 32768, crowded 8388608; the shortest vector");
    ran_free(&few);
    ran_free(&tuned);
    ran_free(&of_file);
    ran_free(&without);
}

/* What a question says, and what it must not say. */
Test(explain, the_answer_fits_the_question, .timeout = 60)
{
    static const struct {
        const char *words, *said, *unsaid;
    } cases[] = {
        {"barrier --layout 2,2,1", "5 members, layout 2,2,1", "2 members"},
        {"reduce -b64 -n4 --root 2", "(sum), root 2, 4 members", "root 0"},
        {"gather_v -b1K -n4", "gather_direct", "slower"},
        {"send -b1K -n4", "member 0 to 1", "chosen  tcp"},
        {"recv -b1K --layout 1,2 --root 2", "chosen  tcp  message", "chosen  shm"},
        {"send -b1K --root 0", "chosen  self", "tcp"},
        {"all_reduce -b1M -n4", "comes first by rule", "best for this size"},
        {"all_reduce -b2K -n4 --backend 'all_reduce:0-4k=shm;all_reduce=tcp'",
         "by rule all_reduce:0-4k=shm", "chosen  tcp"},
        {"all_reduce -b5K -n4 --backend 'all_reduce:0-4k=shm;all_reduce=tcp'",
         "by rule all_reduce=tcp", "chosen  shm"},
        {"broadcast -b5K -n4 --backend 'all_reduce:0-4k=shm;all_reduce=tcp'", "chosen  shm",
         "by rule"},
        {"all_reduce -b1M --layout 2,2 --backend 'auto;*=tcp'", "by rule *=tcp", "chosen  shm"},
        {"send -b1K -n4 --backend 'auto;send=tcp'", "by rule send=tcp", "chosen  shm"},
        {"recv -b1K -n4 --backend 'auto;send=tcp'", "chosen  tcp", "chosen  shm"},
        {"all_reduce -b1M -n4 --backend tcp", "        -     all_reduce_inline", "?"},
        {"all_reduce -b1M -n4 --backend shm", "all_reduce_composed", "shm+shm"},
        {"all_reduce -b2K -n4", "short enough for the announce line", "mapped memory is faster"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("COLUMNS=200 env -u TUTTI_BACKEND $TUTTI explain %s", cases[i].words);

        cr_assert_eq(r.code, 0, "%s: %s", cases[i].words, r.err);
        CONTAINS(r.out, cases[i].said);
        cr_expect_null(strstr(r.out, cases[i].unsaid), "'%s' in:\n%s", cases[i].unsaid, r.out);
        ran_free(&r);
    }
}

/* A machine without InfiniBand: no file of the kernel names a device. */
Test(explain, what_auto_would_need_for_ucx_between_hosts_is_said, .timeout = 60)
{
    static const char rule[] = "auto uses ucx between hosts if every member has a device for it "
                               "that is no plain socket, and ";
    static const struct {
        const char *words, *said;
    } cases[] = {
        {"explain send -b1K --layout 1,1", "this host has none"},
        {"explain all_reduce -b1M --layout 2,2", "this host has none"},
        {"explain all_reduce -b1M --layout 2,2 --backend auto", "this host has none"},
    };
    static const char *const silent[] = {"explain all_reduce -b1M -n4",
                                         "explain all_reduce -b1M --layout 2,2 --backend tcp",
                                         "explain send -b1K --layout 1,1 --backend tcp"};

    if (g_file_test("/sys/class/infiniband", G_FILE_TEST_EXISTS))
        cr_skip_test("this host may have such a device");
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("COLUMNS=300 env -u TUTTI_BACKEND $TUTTI %s", cases[i].words);

        cr_assert_eq(r.code, 0, "%s", r.err);
        CONTAINS(r.out, rule);
        CONTAINS(r.out, cases[i].said);
        ran_free(&r);
    }
    struct ran r = ran("COLUMNS=300 env -u TUTTI_BACKEND TUTTI_TLS=1 $TUTTI explain send -b1K "
                       "--layout 1,1");
    CONTAINS(r.out, "and not with TUTTI_TLS");
    ran_free(&r);
    for (size_t i = 0; i < G_N_ELEMENTS(silent); i++) {
        r = ran("COLUMNS=300 env -u TUTTI_BACKEND $TUTTI %s", silent[i]);
        cr_assert_eq(r.code, 0, "%s", r.err);
        cr_expect_null(strstr(r.out, "ucx"), "%s", r.out);
        ran_free(&r);
    }
}

Test(explain, the_score_map_of_ucc_is_shown, .timeout = 60)
{
    struct ran r = ran("COLUMNS=200 " STANDIN "$TUTTI explain all_gather_v -b4K -n4 "
                       "--backend ucc");

    cr_assert_eq(r.code, 0, "%s", r.err);
    CONTAINS(r.out, "chosen  ucc");
    CONTAINS(r.out, "UCC's score map for 4 members on one host: Allgatherv: Host: "
                    "{0..inf}:TL_STANDIN:10\n");
    cr_expect_str_eq(r.err, "");
    ran_free(&r);

    /* The core does it: then UCC is not asked. */
    r = ran(STANDIN "$TUTTI explain scatter -b4K -n4 --backend ucc");
    cr_assert_eq(r.code, 0, "%s", r.err);
    cr_expect_null(strstr(r.out, "score map"), "%s", r.out);
    ran_free(&r);

    r = ran(STANDIN "$TUTTI explain barrier -n4 --backend ucc --json");
    cr_assert_eq(r.code, 0, "%s", r.err);
    CONTAINS(r.out, "UCC's score map for 4 members on one host: Barrier: Host: ");
    ran_free(&r);
}

Test(explain, an_engine_that_cannot_say_how_is_answered_with_the_reason, .timeout = 60)
{
    static const struct {
        const char *variables, *said;
    } cases[] = {
        {"STANDIN_UCC_FAILS=context", "no score map of UCC: ucc_context_create of "},
        {"STANDIN_UCC_FAILS=team STANDIN_UCC_ONLY=2", "no score map of UCC: ucc_team_create of "},
        {"UCC_LOG_LEVEL=warn", "UCC tells no score map; it needs UCC_LOG_LEVEL=info"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("COLUMNS=600 " STANDIN "%s $TUTTI explain barrier -n4 "
                           "--backend ucc",
                           cases[i].variables);

        cr_assert_eq(r.code, 0, "%s: %s", cases[i].variables, r.err);
        CONTAINS(r.out, "chosen  ucc");
        CONTAINS(r.out, cases[i].said);
        ran_free(&r);
    }
}

/* Where a reason says that something is faster, a smaller figure stands beside it. */
Test(explain, no_reason_contradicts_the_estimates, .timeout = 60)
{
    static const char *const operations[] = {"all_reduce", "broadcast",     "reduce",
                                             "all_gather", "gather",        "scatter",
                                             "all_to_all", "reduce_scatter"};
    static const char *const others[] = {"1K -n4", "64K -n3", "1M -n 4", "16M -n8",
                                         "1M --layout 2,2"};

    for (size_t i = 0; i < G_N_ELEMENTS(operations) * G_N_ELEMENTS(others); i++) {
        struct ran r =
            ran("env -u TUTTI_BACKEND $TUTTI explain --json %s -b %s",
                operations[i % G_N_ELEMENTS(operations)], others[i / G_N_ELEMENTS(operations)]);
        g_autoptr(JsonParser) parser = json_parser_new();
        double first = 0;

        cr_assert(json_parser_load_from_data(parser, r.out, -1, NULL), "%s%s", r.out, r.err);

        JsonObject *root = json_node_get_object(json_parser_get_root(parser));
        JsonArray *rows = json_object_get_array_member(root, "candidates");

        for (guint j = 0; j < json_array_get_length(rows); j++) {
            JsonObject *row = json_array_get_object_element(rows, j);
            const char *reason = json_object_get_string_member(row, "reason");
            const double estimate = json_object_get_double_member(row, "estimated_us");

            if (!j)
                first = estimate;
            else if (estimate > 0 && !strstr(reason, "announce line") &&
                     !strstr(reason, "registered memory"))
                cr_expect_eq(estimate < first,
                             strstr(reason, "not by the cost model") != NULL ||
                                 strstr(reason, "not the cost model") != NULL,
                             "%s: %g beside %g: %s", operations[i % G_N_ELEMENTS(operations)],
                             estimate, first, reason);
        }
        ran_free(&r);
    }
}

Test(explain, json_repeats_the_question_and_lists_the_candidates, .timeout = 30)
{
    struct ran r = ran("$TUTTI explain --json all_reduce --bytes 1M -n 4 --backend tcp");
    g_autoptr(JsonParser) parser = json_parser_new();

    cr_assert_eq(r.code, 0);
    cr_assert(json_parser_load_from_data(parser, r.out, -1, NULL), "%s", r.out);

    JsonObject *root = json_node_get_object(json_parser_get_root(parser));
    JsonArray *rows = json_object_get_array_member(root, "candidates");
    JsonObject *first = json_array_get_object_element(rows, 0);

    cr_assert_str_eq(json_object_get_string_member(root, "schema"), "tutti.explain/1");
    cr_assert_eq(json_object_get_int_member(root, "bytes"), 1 << 20);
    cr_assert_eq(json_object_get_int_member(root, "members"), 4);
    cr_assert_str_eq(json_object_get_string_member(first, "provider"), "tcp");
    cr_assert(json_object_get_boolean_member(first, "chosen"));
    cr_assert_gt(json_object_get_double_member(first, "estimated_us"), 0);
    for (guint i = 0; i < json_array_get_length(rows); i++) {
        JsonNode *estimate =
            json_object_get_member(json_array_get_object_element(rows, i), "estimated_us");

        cr_expect(JSON_NODE_HOLDS_NULL(estimate) || json_node_get_double(estimate) > 0);
    }
    ran_free(&r);
}

Test(explain, the_fixed_order_may_be_asked_for_by_option_or_environment, .timeout = 30)
{
    static const char *const commands[] = {"$TUTTI explain %s --fixed-order",
                                           "env TUTTI_REPRODUCIBLE=1 $TUTTI explain %s"};

    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        struct ran r = ran(commands[i], "--backend tcp all_reduce --bytes 1M -n 4");

        cr_assert_eq(r.code, 0, "%s", r.err);
        CONTAINS(r.out, "(sum, fixed order)");
        CONTAINS(r.out, "all_reduce_direct");
        CONTAINS(strstr(r.out, "all_reduce_direct"),
                 "rounds intermediate sums, and the call asks for the fixed order");
        ran_free(&r);
    }
}

Test(explain, a_tuning_file_changes_the_choice_and_is_named_as_the_reason, .timeout = 60)
{
    char *folder = folder_new();
    struct ran r = ran("cd %s && echo 'all_reduce_recursive_doubling_max = 1K' >file && "
                       "export TUTTI_TUNING=file && "
                       "$TUTTI explain all_reduce --bytes 2K -n 4 --backend tcp && $TUTTI info",
                       folder);
    struct ran bad = ran("cd %s && echo 'inline_max = 1T' >file && export TUTTI_TUNING=file && "
                         "$TUTTI info && $TUTTI explain all_reduce --bytes 2K -n 4 --backend tcp",
                         folder);

    cr_assert_eq(r.code, 0, "%s", r.err);
    CONTAINS(r.out, "chosen  tcp   all_reduce_halving_doubling");
    CONTAINS(r.out, "all_reduce_recursive_doubling_max = 1024 as tuned)");
    CONTAINS(r.out, "1024, default 16384");
    cr_assert_eq(bad.code, 2, "%s", bad.err);
    CONTAINS(bad.out, "the tuning file file, line 1: ");
    CONTAINS(bad.err, "the tuning file file, line 1: inline_max = 1T is not valid");
    ran_free(&r);
    ran_free(&bad);
    folder_remove(folder);
}

Test(explain, tensors_on_gpus_are_said_to_be_staged, .timeout = 60)
{
    static const struct {
        const char *words, *provider;
    } cases[] = {
        {"all_reduce --bytes 1M -n 4 --backend cuda:tcp", "tcp"},
        {"all_reduce --bytes 1M -n 4 --backend auto", "shm"},
        {"all_reduce --bytes 1M -n 4 --backend cpu:auto,cuda:tcp", "tcp"},
        {"all_gather_v --bytes 1K -n 4 --backend cpu:tcp,cuda:shm", "shm"},
        {"send --bytes 8K --backend cpu:tcp,cuda:shm", "tcp"}, /* messages keep one order */
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *end = g_strdup_printf(
            "Tensors on cuda are copied to pinned host memory before the call, and results back "
            "behind it; %s carries that memory.\n",
            cases[i].provider);
        struct ran r = ran("env COLUMNS=200 $TUTTI explain %s --device cuda", cases[i].words);

        cr_assert_eq(r.code, 0, "%s", r.err);
        CONTAINS(r.out, ", tensors on cuda\n");
        CONTAINS(r.out, end);
        ran_free(&r);
        r = ran("$TUTTI explain --json %s --device cuda", cases[i].words);
        CONTAINS(r.out, "\"device\" : \"cuda\"");
        CONTAINS(r.out, "\"staging\" : \"pinned host memory\"");
        ran_free(&r);
    }

    struct ran host = ran("$TUTTI explain --json all_reduce -b 1M --backend cpu:shm,cuda:tcp");
    CONTAINS(host.out, "\"staging\" : null");
    CONTAINS(host.out, "\"provider\" : \"shm\"");
    ran_free(&host);
}

#define WITH_NCCL "TUTTI_NCCL=" TUTTI_PLUGINS "/../../standin/libnccl.so.2 "

Test(explain, long_messages_between_gpus_are_said_to_go_by_nccl, .timeout = 60)
{
    static const struct {
        const char *words, *first, *second;
    } cases[] = {
        {"send --bytes 64K --backend nccl",
         "chosen  nccl  message               sends and receives 64 KiB and more from device to "
         "device\n",
         "        shm   message               carries headers, and shorter messages by pinned host "
         "memory\n"},
        {"recv --bytes 1M --backend cpu:tcp,cuda:nccl --layout 1,1",
         "chosen  nccl  message               sends and receives 64 KiB and more from device to "
         "device\n",
         "        tcp   message               carries headers, and shorter messages by pinned host "
         "memory\n"},
        {"send --bytes 65532 --backend cuda:nccl",
         "chosen  shm   message               carries messages inside a host\n",
         "        nccl  message               only messages of 64 KiB and more\n"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r =
            ran("env COLUMNS=200 " WITH_NCCL "$TUTTI explain %s --device cuda", cases[i].words);

        cr_assert_eq(r.code, 0, "%s", r.err);
        CONTAINS(r.out, cases[i].first);
        CONTAINS(r.out, cases[i].second);
        cr_expect_eq(strstr(r.out, "Tensors on cuda are copied") != NULL, i == 2, "%s", r.out);
        ran_free(&r);
    }

    static const struct {
        const char *variable, *words;
    } by_host[] = {
        {"", ""}, /* in host memory */
        {"", "--device cuda --root 0"},
        {"NCCL_LAUNCH_ORDER_IMPLICIT=1", "--device cuda"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(by_host); i++) {
        struct ran r = ran("env " WITH_NCCL "%s $TUTTI explain send --bytes 1M --backend nccl %s",
                           by_host[i].variable, by_host[i].words);

        cr_assert_eq(r.code, 0, "%s", r.err);
        cr_expect_null(strstr(r.out, "nccl"), "%s", r.out);
        ran_free(&r);
    }
}

/* Without its library the answer is that for a new one. */
Test(explain, reductions_on_gpus_over_nccl_are_told, .timeout = 60)
{
    static const struct {
        const char *words, *algorithm;
    } cases[] = {
        {"all_reduce", "\"all_reduce_native\""},
        {"all_reduce --fixed-order", "\"all_reduce_kernels\""},
        {"reduce --op max", "\"reduce_kernels\""},
        {"reduce_scatter --op bxor --dtype i32", "\"reduce_scatter_kernels\""},
        {"reduce_scatter_v --op avg --dtype f16", "\"reduce_scatter_kernels\""},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran(WITH_NCCL "$TUTTI explain --json %s -b 1M -n 4 --device cuda "
                                     "--backend cpu:auto,cuda:nccl",
                           cases[i].words);
        const char *first = strstr(r.out, "\"algorithm\"");

        cr_assert_eq(r.code, 0, "%s", r.err);
        CONTAINS(r.out, "\"staging\" : null");
        cr_assert_not_null(first);
        cr_expect_eq(strstr(first, cases[i].algorithm), strchr(first + 12, '"'), "%s", first);
        ran_free(&r);
    }
}

Test(explain, wrong_questions_are_answered_with_words, .timeout = 60)
{
    static const struct {
        const char *words;
        int code;
        const char *answer;
    } cases[] = {
        {"", 2, "no operation given"},
        {"all_reduc --bytes 1", 2, "unknown operation 'all_reduc'; did you mean 'all_reduce'?"},
        {"broadcast", 2, "broadcast needs --bytes SIZE"},
        {"broadcast barrier --bytes 1", 2, "one operation only, not 'barrier' as well"},
        {"all_reduce --bytes 1X", 2,
         "--bytes '1X' is not a size; write one such as 4096, 64K, 1M or 2G"},
        {"all_reduce --bytes 99999999999G", 2, "is not a size"},
        {"all_reduce --bytes 1M -n 0", 2, "-n '0': the number of members is 1 to 65535"},
        {"all_reduce --bytes 1M --dtype f31", 2, "unknown dtype 'f31'; did you mean 'f32'?"},
        {"all_reduce --bytes 1M --op mux", 2, "unknown op 'mux'; did you mean 'max'?"},
        {"all_reduce --bytes 1M --op foo", 2,
         "unknown op 'foo'; known: sum, avg, product, min, max, band, bor"},
        {"all_reduce --bytes 1M --op something", 2, "known: sum, avg, product, min, max"},
        {"barrier_v", 2, "unknown operation 'barrier_v'"},
        {"barrier --root 1", 2, "barrier has no root"},
        {"reduce --bytes 1M -n4 --root 4", 2, "--root '4': the ranks of 4 members are 0 to 3"},
        {"all_reduce -b1X -n4", 2, "--bytes '1X' is not a size"},
        {"barrier --backend 'barrier=tpc'", 2, "unknown backend \"tpc\": did you mean \"tcp\"?"},
        {"barrier --backend 'local=shm,remote=tpc;barrier=tpc'", 2, "did you mean \"tcp\"?"},
        {"barrier --layout 2,2 --backend 'barrier=shm'", 1,
         "barrier=shm cannot be kept: shm reaches members of one host only"},
        {"send --bytes 4 --layout 1,1 --backend shm", 1, "shm reaches members of one host only"},
        {"barrier --layout 2,2 --backend shm", 1, "shm reaches members of one host only, and the"},
        {"barrier --backend check", 2, "check is a wrapper, not a backend; use TUTTI_WRAP=check"},
        {"barrier --bytes 1", 2, "barrier moves nothing, so it has no --bytes"},
        {"barrier --device cuda", 2, "barrier moves nothing, so it has no --device"},
        {"send -b4 --device gpu", 2, "device 'gpu': tensors lie in host memory, \"cpu\", or on"},
        {"broadcast -b4 --op max", 2, "broadcast reduces nothing, so it has no --op"},
        {"gather -b4 --fixed-order", 2, "gather reduces nothing, so it has no --fixed-order"},
        {"all_reduce --bytes 1M -n 4 --layout 2,3", 2, "layout"},
        {"all_reduce --byte 1M", 2, "unknown option --byte; did you mean --bytes?"},
        {"barrier --backend trase", 2, "unknown backend \"trase\"; known: "},
        {"barrier --backend tpc", 2, "unknown backend \"tpc\": did you mean \"tcp\"?"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("$TUTTI explain %s", cases[i].words);

        cr_assert_eq(r.code, cases[i].code, "'%s' gives %d", cases[i].words, r.code);
        CONTAINS(r.err, cases[i].answer);
        ran_free(&r);
    }
}
