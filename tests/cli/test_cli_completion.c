/* SPDX-License-Identifier: Apache-2.0 */
/* What bash offers after some words of the command, and what the other shells are given. */
#include <criterion/criterion.h>
#include <string.h>

#include "command.h"

/* Runs the completion as bash would, with the cursor at the end of the last word. */
static char *offered(const char *words)
{
    struct ran r = ran("bash --norc -c 'source <($TUTTI completion bash); COMP_WORDS=(%s); "
                       "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tutti; echo \" ${COMPREPLY[*]} \"'",
                       words);

    cr_assert_eq(r.code, 0, "%s: %s", words, r.err);
    cr_assert_str_empty(r.err, "%s: %s", words, r.err);
    char *out = g_steal_pointer(&r.out);
    ran_free(&r);
    return out;
}

Test(completion, bash_offers_what_may_follow, .timeout = 60)
{
    static const struct {
        const char *words, *offered, *not_offered;
    } cases[] = {
        {"tutti \"\"", " explain ", " --json "},
        {"tutti ex", " explain ", " run "},
        {"tutti --ver", " --version ", " run "},
        {"tutti help r", " run ", " info "},
        {"tutti help \"\"", " info ", " --version "},
        {"tutti explain \"\"", " broadcast ", " --dtype "},
        {"tutti explain --", " --dtype ", " broadcast "},
        {"tutti explain --dtype b", " bf16 ", " f32 "},
        {"tutti explain --op = m", " max ", " sum "},
        {"tutti explain --op =", " sum ", " f32 "},
        {"tutti explain --members \"\"", "", " broadcast "},
        {"tutti run --backend \"\"", " shm ", " --tee "},
        {"tutti explain --backend \"\"", " tcp ", " trace "},
        {"tutti run --l", " --log-dir ", " --grace "},
        {"tutti run /bin/s", " /bin/sh ", " /bin/ls "},
        {"tutti run --log-dir /e", " /etc ", " /bin "},
        {"tutti info -", " --env ", " --bytes "},
        {"tutti bench p", " ping_pong ", " all_reduce "},
        {"tutti bench --against /et", " /etc ", " burst "},
        {"tutti completion f", " fish ", " bash "},
        {"tutti nothing \"\"", "", "run"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *out = offered(cases[i].words);

        cr_expect_not_null(strstr(out, cases[i].offered), "%s: no%sin:%s", cases[i].words,
                           cases[i].offered, out);
        cr_expect_null(strstr(out, cases[i].not_offered), "%s:%sin:%s", cases[i].words,
                       cases[i].not_offered, out);
    }
}

Test(completion, every_option_of_every_verb_is_known_to_every_shell, .timeout = 120)
{
    struct ran missing =
        ran("for verb in $($TUTTI help | sed -n '/^Verbs/,/^  help/s/^  \\([a-z]*\\) .*/\\1/p'); do"
            " [ $verb = help ] || for name in $verb $($TUTTI $verb --help |"
            " sed -n 's/^  \\(-., \\)*--\\([a-z-]*\\).*/\\2/p'); do for shell in bash zsh fish; do"
            " $TUTTI completion $shell | grep -qwe \"$name\" || echo $shell: $verb $name;"
            " done; done; done");

    cr_assert_str_empty(missing.out, "%s", missing.out);
    cr_assert_str_empty(missing.err, "%s", missing.err);
    ran_free(&missing);
}

Test(completion, wrong_words_are_answered, .timeout = 30)
{
    static const struct {
        const char *words, *answer;
    } cases[] = {
        {"completion", "no shell given"},
        {"completion tcsh", "unknown shell 'tcsh'; known: bash, zsh, fish"},
        {"completion bash zsh", "one shell only"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("$TUTTI %s", cases[i].words);

        cr_expect_eq(r.code, 2);
        cr_expect_not_null(strstr(r.err, cases[i].answer), "%s: %s", cases[i].words, r.err);
        ran_free(&r);
    }
}
