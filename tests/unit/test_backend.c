/* SPDX-License-Identifier: Apache-2.0 */
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
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct backend_choice choice;

        cr_assert_eq(backend_parse("backend", cases[i].words, &choice), TUTTI_OK);
        cr_expect_eq(choice.is_auto, cases[i].is_auto);
        cr_expect_str_eq(choice.local, cases[i].local);
        cr_expect_str_eq(choice.remote, cases[i].remote);
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
                                        "cpu:shm,cuda:nccl",
                                        "all_reduce=shm",
                                        "local=shm,remote",
                                        "abcdefghijklmnopqrstuvwxyzabcdefg"};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct backend_choice choice = {.local = "untouched"};

        cr_expect_eq(backend_parse("backend", cases[i], &choice), TUTTI_ERR_INVALID_ARGUMENT, "%s",
                     cases[i]);
        cr_expect_str_eq(choice.local, "untouched");
        cr_expect_not_null(strstr(tutti_last_error(), "write \"auto\", NAME or"));
    }
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
}
