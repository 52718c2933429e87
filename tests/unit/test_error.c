/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

Test(error, words_and_fields_of_the_last_failure_are_kept, .timeout = 5)
{
    cr_assert_eq(error_set_errno(TUTTI_ERR_SYSTEM, ENOSPC, "cannot write %s", "f"),
                 TUTTI_ERR_SYSTEM);
    error_where(1, 2, 41, "all_reduce");
    cr_assert_str_eq(tutti_last_error(), "cannot write f: No space left on device");

    tutti_error_info info = {.struct_size = sizeof info};
    cr_assert_eq(tutti_last_error_info(&info), TUTTI_OK);
    cr_assert_eq(info.system_errno, ENOSPC);
    cr_assert_eq(info.peer, 2);
    cr_assert_eq(info.sequence, 41);
    cr_assert_str_eq(info.operation, "all_reduce");
}

Test(error, a_message_that_is_too_long_is_cut_and_says_so, .timeout = 5)
{
    char long_words[3 * ERROR_MESSAGE_MAX];

    memset(long_words, 'x', sizeof long_words - 1);
    long_words[sizeof long_words - 1] = 0;
    error_set(TUTTI_ERR_INTERNAL, "%s", long_words);
    cr_assert_eq(strlen(tutti_last_error()), ERROR_MESSAGE_MAX - 1);
    cr_assert_not_null(strstr(tutti_last_error(), "…"));
}

Test(error, words_are_cut_between_characters, .timeout = 5)
{
    enum { BYTES = 4 };
    char words[ERROR_MESSAGE_MAX + BYTES + 1];

    for (size_t ahead = 0; ahead < BYTES; ahead++) { /* the cut falls on each byte of a character */
        memset(words, 'x', ahead);
        words[ahead] = 0;
        while (strlen(words) < ERROR_MESSAGE_MAX)
            strcat(words, "𝄞");
        error_set(TUTTI_ERR_INTERNAL, "%s", words);
        cr_expect_not(strchr(tutti_last_error(), '?'), "%s", tutti_last_error());
        cr_expect_geq(strlen(tutti_last_error()), ERROR_MESSAGE_MAX - BYTES);
        error_set(TUTTI_ERR_INTERNAL, "«%.*s»", TEXT_CUT(words, 80));
        cr_expect_not(strchr(tutti_last_error(), '?'), "%s", tutti_last_error());
    }
}

Test(error, every_status_has_a_name_and_words, .timeout = 5)
{
#define CHECK(name, number, words)                                                                 \
    cr_assert_str_eq(tutti_status_name(number), "TUTTI_" #name);                                   \
    cr_assert_str_eq(tutti_status_string(number), words);
    TUTTI_STATUS_LIST(CHECK)
    cr_assert_str_eq(tutti_status_name(12345), "TUTTI_ERR_?");
}
