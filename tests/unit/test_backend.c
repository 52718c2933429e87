/* SPDX-License-Identifier: Apache-2.0 */
/* TUTTI_BACKEND: what is understood, what is refused in which words, and which rule takes a call. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/backend.h"

Test(backend, choices_are_parsed, .timeout = 5)
{
    static const struct {
        const char *words;
        bool is_auto;
        const char *local, *remote;
    } cases[] = {
        {"auto", true, "", ""},
        {"shm", false, "shm", "shm"},
        {"my_own-2", false, "my_own-2", "my_own-2"},
        {"local=shm,remote=tcp", false, "shm", "tcp"},
        {"remote=tcp,local=shm", false, "shm", "tcp"},
        {"cpu:auto", true, "", ""},
        {"cpu:tcp", false, "tcp", "tcp"},
        {"cpu:local=a,remote=b;barrier=b", false, "a", "b"},
        {"auto;barrier=tcp", false, "shm", "tcp"},
        {"barrier=tcp", false, "shm", "tcp"},
        {"cuda:tcp", false, "tcp", "tcp"},
        {"cuda:local=shm,remote=tcp", false, "shm", "tcp"},
        {"cpu:auto,cuda:auto", true, "", ""},
        {"cpu:auto,cuda:tcp", false, "shm", "tcp"},
        {"cuda:tcp,cpu:local=a,remote=b", false, "a", "b"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct backend_choice choice;

        cr_assert_eq(backend_parse("backend", cases[i].words, &choice), TUTTI_OK);
        cr_expect_eq(choice.is_auto, cases[i].is_auto);
        cr_expect_str_eq(choice.local, cases[i].local);
        cr_expect_str_eq(choice.remote, cases[i].remote);
    }
}

Test(backend, tensors_on_devices_may_go_another_way, .timeout = 5)
{
    static const struct {
        const char *words, *rule; /* NULL: there is none */
        bool is_auto;
        const char *inside, *between;
    } cases[] = {
        {"auto", NULL, true, "", ""},
        {"tcp", NULL, false, "", ""},
        {"cuda:tcp", NULL, false, "", ""},
        {"cpu:tcp,cuda:tcp", NULL, false, "", ""},
        {"cpu:auto,cuda:auto", NULL, true, "", ""},
        {"cpu:auto,cuda:tcp", "cuda:tcp", false, "tcp", "tcp"},
        {"cuda:a,cpu:b", "cuda:a", false, "a", "a"},
        {"cpu:tcp,cuda:local=shm,remote=tcp", "cuda:local=shm,remote=tcp", false, "shm", "tcp"},
        {"cpu:tcp,cuda:auto", "cuda:auto", true, "shm", "tcp"},
    };
    const struct call_fields host = {.operation = OPERATION_ALL_REDUCE};
    const struct call_fields device = {.operation = OPERATION_ALL_REDUCE, .flags = CALL_ON_DEVICE};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct backend_choice choice;

        cr_assert_eq(backend_parse("backend", cases[i].words, &choice), TUTTI_OK, "%s",
                     cases[i].words);
        cr_expect_eq(choice.by_device, cases[i].rule != NULL, "%s", cases[i].words);
        cr_expect_eq(choice.device_is_auto, cases[i].is_auto, "%s", cases[i].words);
        cr_expect_null(backend_rule_of(&choice, &host, 8));
        const struct backend_rule *rule = backend_rule_of(&choice, &device, 8);
        if (!cases[i].rule) {
            cr_expect_null(rule, "%s", cases[i].words);
            continue;
        }
        cr_assert_not_null(rule, "%s", cases[i].words);
        cr_expect_str_eq(rule->words, cases[i].rule);
        cr_expect_str_eq(backend_name(&choice, rule->way.inside), cases[i].inside);
        cr_expect_str_eq(backend_name(&choice, rule->way.between), cases[i].between);
    }
}

Test(backend, other_words_are_errors_that_show_the_grammar, .timeout = 5)
{
    static const char *const cases[] = {"",
                                        " ",
                                        "shm ",
                                        "Shm",
                                        "1shm",
                                        "a/b",
                                        "=",
                                        ",",
                                        "local=",
                                        "local=shm",
                                        "remote=tcp",
                                        "local=shm,",
                                        "local=shm,local=tcp",
                                        "local=auto,remote=tcp",
                                        "local=shm,remote=tcp,",
                                        "local=shm,remote=tcp,local=shm",
                                        "local=shm;remote=tcp",
                                        "cpu:shm,cuda:",
                                        "cpu:shm,cpu:tcp",
                                        "cuda:shm,cuda:tcp",
                                        "cpu:shm,cuda:tcp,cpu:tcp",
                                        "cpu:shm,cuda:tcp;barrier=tcp",
                                        "tpu:shm",
                                        "cpu:",
                                        "cpu:cpu:shm",
                                        "cuda:",
                                        "shm;",
                                        "shm;all_reduce=shm",
                                        ";barrier=tcp",
                                        "local=shm,remote",
                                        "abcdefghijklmnopqrstuvwxyzabcdefg"};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct backend_choice choice = {.local = "untouched"};

        cr_expect_eq(backend_parse("backend", cases[i], &choice), TUTTI_ERR_INVALID_ARGUMENT, "%s",
                     cases[i]);
        cr_expect_str_eq(choice.local, "untouched");
        cr_expect_not_null(strstr(tutti_last_error(), "write \"auto\", NAME or"), "%s: %s",
                           cases[i], tutti_last_error());
    }
}

Test(backend, long_words_are_shown_as_far_as_whole_characters_go, .timeout = 5)
{
    struct backend_choice choice;
    char words[200] = "x";

    while (strlen(words) + sizeof "é" <= sizeof words)
        strcat(words, "é");
    cr_assert_eq(backend_parse("TUTTI_BACKEND", words, &choice), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not(strchr(tutti_last_error(), '?'), "%s", tutti_last_error());
    cr_expect_not_null(strstr(tutti_last_error(), "éé: "), "%s", tutti_last_error());
}

Test(backend, the_option_comes_before_the_variable, .timeout = 5)
{
    struct backend_choice choice;

    unsetenv("TUTTI_BACKEND");
    cr_assert_eq(backend_resolve(NULL, &choice), TUTTI_OK);
    cr_assert(choice.is_auto);
    setenv("TUTTI_BACKEND", "", 1);
    cr_assert_eq(backend_resolve(NULL, &choice), TUTTI_OK);
    cr_assert(choice.is_auto);
    setenv("TUTTI_BACKEND", "tcp", 1);
    cr_assert_eq(backend_resolve(NULL, &choice), TUTTI_OK);
    cr_assert_str_eq(choice.local, "tcp");
    cr_assert_eq(backend_resolve("shm", &choice), TUTTI_OK);
    cr_assert_str_eq(choice.local, "shm");
    setenv("TUTTI_BACKEND", "tcp:", 1);
    cr_assert_eq(backend_resolve(NULL, &choice), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert(!strncmp(tutti_last_error(), "TUTTI_BACKEND=tcp:: not a backend's name; ", 42), "%s",
              tutti_last_error());
    setenv("TUTTI_BACKEND", "TCP", 1);
    cr_assert_eq(backend_resolve(NULL, &choice), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert(strstr(tutti_last_error(), "not a backend's name: names have no capitals; "), "%s",
              tutti_last_error());
}

Test(backend, one_that_moves_no_host_memory_is_refused_for_it, .timeout = 5)
{
    static const char *const refused[] = {"cpu:nccl", "cpu:nccl,cuda:nccl", "cpu:nccl,cuda:tcp",
                                          "cpu:local=shm,remote=nccl"};
    static const char *const taken[] = {"nccl", "cuda:nccl", "cpu:auto,cuda:nccl",
                                        "cpu:tcp,cuda:nccl", "cpu:local=shm,remote=tcp"};
    struct backend_choice choice;

    setenv("TUTTI_PLUGIN_PATH", TUTTI_BINARY_DIR "/lib/tutti/0", 1);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cr_expect_eq(backend_resolve(refused[i], &choice), TUTTI_ERR_UNSUPPORTED, "%s", refused[i]);
        cr_expect(strstr(tutti_last_error(), "backend nccl moves no host memory, only that of "
                                             "devices: use cpu:auto,cuda:nccl"),
                  "%s", tutti_last_error());
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        cr_expect_eq(backend_resolve(taken[i], &choice), TUTTI_OK, "%s: %s", taken[i],
                     tutti_last_error());
}

Test(backend, a_fault_in_a_rule_is_shown_with_its_place, .timeout = 5)
{
    static const struct {
        const char *words, *answer;
    } cases[] = {
        {"all_reduce:0-4k=shm;all_reduc=tcp", "at byte 21, «all_reduc=tcp»: no collective begins "
                                              "here, nor *, send or recv; did you mean "
                                              "all_reduce?"},
        {"all_reduce:0-4k=shm;;barrier=tcp", "at byte 21, «;barrier=tcp»: no collective"},
        {"all_reduce=Shm", "at byte 12, «Shm»: no backend's name"},
        {"barrier=a;reduce=b;gather=c", "at byte 27, «c»: a group has four backends at most"},
        {"barrier:local=shm", "at byte 9, «local=shm»: no local=NAME,remote=NAME"},
        {"barrier:local=shm,tcp", "at byte 9, «local=shm,tcp»: no local=NAME,remote=NAME"},
        {"barrier:local=shm,remote=", "at byte 26, «»: no backend's name"},
        {"barrier:local=,remote=tcp", "at byte 15, «,remote=tcp»: no backend's name"},
        {"barrier=local=shm,remote=tcp", "at byte 9, «local=shm,remote=tcp»: no backend's name"},
        {"barrier:remote=tcp,local=shm", "at byte 9, «remote=tcp,local=shm»: no sizes"},
        {"auto;send:0-4k=tcp", "at byte 6, «send:0-4k=tcp»: messages keep their order"},
        {"send=tcp;recv=shm", "at byte 10, «recv=shm»: a message is sent and received by one"},
        {"all_reduce:4k=shm", "at byte 12, «4k=shm»: no sizes such as 0-4k"},
        {"all_reduce:-4k=shm", "at byte 12, «-4k=shm»: no sizes"},
        {"all_reduce:8-x=shm", "at byte 14, «x=shm»: no size after the '-'"},
        {"all_reduce:8k-4k=shm", "at byte 12, «8k-4k=shm»: it ends before it begins"},
        {"all_reduce:0-99999999999999999999=shm", "at byte 14"},
        {"all_reduce:0-4kb=shm", "at byte 16, «b=shm»: no '=' and backend follow"},
        {"all_reduce=", "at byte 12, «»: no backend's name"},
        {"auto;barrier", "at byte 13, «»: no '=' and backend follow"},
        {"auto;barrier;*=tcp", "at byte 13, «;*=tcp»: no '='"},
        {"auto;sent=tcp", "at byte 6, «sent=tcp»: no collective"},
        {"bariier=tcp", "or * before '='; did you mean barrier?"},
        {"sent=tcp", "a collective's name or * before '='"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct backend_choice choice = {.local = "untouched"};

        cr_expect_eq(backend_parse("backend", cases[i].words, &choice), TUTTI_ERR_INVALID_ARGUMENT,
                     "%s", cases[i].words);
        cr_expect_not_null(strstr(tutti_last_error(), cases[i].answer), "'%s' lacks '%s'",
                           tutti_last_error(), cases[i].answer);
        cr_expect_str_eq(choice.local, "untouched");
    }
    cr_expect_eq(backend_parse("backend",
                               "*=shm;*=shm;*=shm;*=shm;*=shm;*=shm;*=shm;*=shm;*=shm;"
                               "*=shm;*=shm;*=shm;*=shm;*=shm;*=shm;*=shm;*=shm",
                               &(struct backend_choice){0}),
                 TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(tutti_last_error(), "more than 16 rules"));
}

Test(backend, the_first_rule_that_fits_a_call_is_taken, .timeout = 5)
{
    static const struct {
        uint8_t operation, flags;
        uint64_t bytes;
        int rule; /* -1: none */
        int inside, between;
    } cases[] = {
        {OPERATION_ALL_REDUCE, 0, 0, 0, 0, 0},
        {OPERATION_ALL_REDUCE, 0, 4096, 0, 0, 0},
        {OPERATION_ALL_REDUCE, 0, 4097, 1, 1, 1},
        {OPERATION_ALL_GATHER, 0, 4096, -1, 0, 1},
        {OPERATION_ALL_GATHER, 0, (1 << 20) - 1, -1, 0, 1},
        {OPERATION_ALL_GATHER, 0, 1 << 20, 2, 1, 1},
        {OPERATION_ALL_GATHER, CALL_UNEVEN, 1 << 20, -1, 0, 1},
        {OPERATION_GATHER, CALL_UNEVEN, 0, 3, 0, 1},
        {OPERATION_SCATTER, 0, 8, 4, 2, 2},
        {OPERATION_REDUCE, 0, 64, 5, 0, 3},
        {OPERATION_REDUCE, 0, 65, -1, 0, 1},
        {OPERATION_BARRIER, 0, 0, -1, 0, 1},
    };
    struct backend_choice choice;

    cr_assert_eq(backend_parse("backend",
                               "all_reduce:0-4K=shm;all_reduce=tcp;*:1m-=tcp;gather=auto;"
                               "scatter=gloo;reduce:0-64:local=shm,remote=ucx;send=gloo;recv=gloo",
                               &choice),
                 TUTTI_OK, "%s", tutti_last_error());
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct call_fields fields = {.operation = cases[i].operation,
                                           .flags = cases[i].flags};
        const struct backend_rule *rule = backend_rule_of(&choice, &fields, cases[i].bytes);

        cr_expect_eq(rule ? rule - choice.rules : -1, cases[i].rule, "case %zu", i);
        if (rule)
            cr_expect(rule->way.inside == cases[i].inside && rule->way.between == cases[i].between,
                      "case %zu", i);
    }
    cr_expect_eq(backend_rule_of_messages(&choice), &choice.rules[6]);
    cr_expect_str_eq(backend_name(&choice, 2), "gloo");
    cr_expect_str_eq(backend_name(&choice, 3), "ucx");
}

/* What nobody's calls go by is not opened. */
Test(backend, of_a_way_only_the_part_that_the_hosts_need_is_used, .timeout = 5)
{
    static const struct {
        const char *words;
        int hosts, size;
        const char *used; /* a '1' for each number */
    } cases[] = {
        {"barrier=gloo", 1, 4, "1010"},
        {"barrier=gloo", 2, 4, "1110"},
        {"barrier=gloo", 4, 4, "0110"},
        {"barrier=auto", 1, 4, "1000"},
        {"barrier=tcp", 1, 4, "1100"},
        {"barrier:local=a,remote=b", 1, 4, "1010"},
        {"barrier:local=a,remote=b", 2, 4, "1111"},
        {"barrier:local=a,remote=b", 4, 4, "0101"},
        {"send=gloo", 1, 4, "1010"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct backend_choice choice;

        cr_assert_eq(backend_parse("backend", cases[i].words, &choice), TUTTI_OK);
        for (int n = 0; n < BACKEND_NAMES_MAX; n++)
            cr_expect_eq(backend_is_used(&choice, n, cases[i].hosts, cases[i].size),
                         cases[i].used[n] == '1', "%s, %d hosts: %d", cases[i].words,
                         cases[i].hosts, n);
    }
}
