/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of examples/train_digits. */
#include <criterion/criterion.h>
#include <string.h>

#include "options.h"

TestSuite(digits_options, .timeout = 10);

Test(digits_options, a_command_line_that_makes_no_sense_is_refused_in_words)
{
    static const struct {
        char *arguments[3];
        const char *words;
    } cases[] = {
        {{"--epochs", "0"}, "--epochs 0 is not within 1 .. 100000"},
        {{"--epochs", "3x"}, "--epochs takes a whole number, not '3x'"},
        {{"--epochs", " 3"}, "--epochs takes a whole number, not ' 3'"},
        {{"--epochs", "-3"}, "--epochs takes a whole number, not '-3'"},
        {{"--epochs", ""}, "--epochs takes a whole number, not ''"},
        {{"--batch=1e3"}, "--batch takes a whole number, not '1e3'"},
        {{"--batch", "4294967297"}, "--batch 4294967297 is not within"},
        {{"--seed", "18446744073709551616"}, "--seed 18446744073709551616 is not within"},
        {{"--seed"}, "--seed needs a value"},
        {{"--color"}, "--color is not an option"},
        {{"-x"}, "-x is not an option"},
        {{"--s", "1"}, "--s is not an option, or not a unique one"},
        {{"digits"}, "'digits' is not an option"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *argv[] = {"train_digits", cases[i].arguments[0], cases[i].arguments[1], NULL};
        struct failure why = {""};
        struct options options;

        cr_expect_not(options_parse(argv[2] ? 3 : 2, argv, &options, &why), "%s was taken",
                      argv[1]);
        cr_expect_not_null(strstr(why.words, cases[i].words), "'%s' does not say '%s'", why.words,
                           cases[i].words);
    }
}

Test(digits_options, all_options_are_taken)
{
    char *argv[] = {"train_digits",
                    "--epochs",
                    "3",
                    "--batch=16",
                    "--seed",
                    "18446744073709551615",
                    "--data",
                    "d",
                    "--heldout",
                    "h",
                    "--save-weights",
                    "w",
                    "--plot",
                    "p.svg",
                    "--shares",
                    "s",
                    "--quiet",
                    NULL};
    struct failure why;
    struct options o;

    cr_assert(options_parse(sizeof argv / sizeof argv[0] - 1, argv, &o, &why), "%s", why.words);
    cr_expect(o.epochs == 3 && o.batch == 16 && o.seed == UINT64_MAX && o.quiet && !o.help);
    cr_expect_str_eq(o.data, "d");
    cr_expect_str_eq(o.held_out, "h");
    cr_expect_str_eq(o.save_weights, "w");
    cr_expect_str_eq(o.plot, "p.svg");
    cr_expect_str_eq(o.shares, "s");
}
