/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti explain`: what it says of a call, and what of a wrong question. */
#include <criterion/criterion.h>
#include <json-glib/json-glib.h>
#include <string.h>

#include "command.h"

#define CONTAINS(text, words)                                                                      \
    cr_assert_not_null(strstr(text, words), "no \"%s\" in:\n%s", words, text)

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

Test(explain, json_repeats_the_question_and_lists_the_candidates, .timeout = 30)
{
    struct ran r = ran("$TUTTI explain --json all_reduce --bytes 1M -n 4 --backend tcp");
    g_autoptr(JsonParser) parser = json_parser_new();

    cr_assert_eq(r.code, 0);
    cr_assert(json_parser_load_from_data(parser, r.out, -1, NULL), "%s", r.out);

    JsonObject *root = json_node_get_object(json_parser_get_root(parser));
    JsonObject *first =
        json_array_get_object_element(json_object_get_array_member(root, "candidates"), 0);

    cr_assert_str_eq(json_object_get_string_member(root, "schema"), "tutti.explain/1");
    cr_assert_eq(json_object_get_int_member(root, "bytes"), 1 << 20);
    cr_assert_eq(json_object_get_int_member(root, "members"), 4);
    cr_assert_str_eq(json_object_get_string_member(first, "provider"), "tcp");
    cr_assert(json_object_get_boolean_member(first, "chosen"));
    cr_assert_gt(json_object_get_double_member(first, "estimated_us"), 0);
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
        CONTAINS(strstr(r.out, "all_reduce_direct"), "rounds on the way, and the order is fixed");
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
        {"all_reduce --bytes 1X", 2, "--bytes '1X' is no size such as 4096, 64K, 1M, 2G"},
        {"all_reduce --bytes 99999999999G", 2, "is no size"},
        {"all_reduce --bytes 1M -n 0", 2, "-n '0': the number of members is 1 to 65535"},
        {"all_reduce --bytes 1M --dtype f31", 2, "unknown dtype 'f31'; did you mean 'f32'?"},
        {"all_reduce --bytes 1M --op mux", 2, "unknown op 'mux'; did you mean 'max'?"},
        {"all_reduce --bytes 1M -n 4 --layout 2,3", 2, "layout"},
        {"all_reduce --byte 1M", 2, "unknown option --byte; did you mean --bytes?"},
        {"barrier --backend tpc", 2, "unknown backend \"tpc\": did you mean \"tcp\"?"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("$TUTTI explain %s", cases[i].words);

        cr_assert_eq(r.code, cases[i].code, "'%s' gives %d", cases[i].words, r.code);
        CONTAINS(r.err, cases[i].answer);
        ran_free(&r);
    }
}
