/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include <tutti/status.h>

#include "base/options.h"

struct known {
    uint32_t struct_size;
    int32_t a;
    int64_t b;
};

struct newer {
    struct known known;
    int64_t c;
};

Test(options, an_older_callers_missing_members_are_zero, .timeout = 5)
{
    struct known dst = {1, 2, 3};
    const struct known older = {8, 7, 99};

    cr_assert_eq(options_copy(&dst, sizeof dst, &older, "known"), TUTTI_OK);
    cr_assert_eq(dst.struct_size, sizeof dst);
    cr_assert_eq(dst.a, 7);
    cr_assert_eq(dst.b, 0);
    cr_assert_eq(options_copy(&dst, sizeof dst, NULL, "known"), TUTTI_OK);
    cr_assert_eq(dst.struct_size, sizeof dst);
    cr_assert_eq(dst.a, 0);
}

Test(options, a_newer_callers_zeros_are_fine_and_its_values_are_not, .timeout = 5)
{
    struct known dst = {1, 2, 3};
    struct newer newer = {{sizeof newer, 5, 6}, 0};

    cr_assert_eq(options_copy(&dst, sizeof dst, &newer, "known"), TUTTI_OK);
    cr_assert_eq(dst.b, 6);
    newer.c = INT64_MIN;
    dst.b = 4;
    cr_assert_eq(options_copy(&dst, sizeof dst, &newer, "known"), TUTTI_ERR_NEWER_CALLER);
    cr_assert_not_null(strstr(tutti_last_error(), "this libtutti knows 16 bytes"));
    cr_assert_eq(dst.b, 4);
}

Test(options, a_size_that_was_forgotten_or_is_absurd_is_an_error, .timeout = 5)
{
    static const uint32_t sizes[] = {0, 3, OPTIONS_SIZE_MAX + 1, UINT32_MAX};
    struct known dst;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct known src = {.struct_size = sizes[i]};

        cr_expect_eq(options_copy(&dst, sizeof dst, &src, "known"), TUTTI_ERR_INVALID_ARGUMENT);
        cr_expect_not_null(strstr(tutti_last_error(), "sizeof(known)"));
    }
}
