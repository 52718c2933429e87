/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "base/ended.h"

static const struct ended killed = {
    .place = 2, .size = 4, .pid = 77, .signal = SIGKILL, .host = "h"};
static const struct ended failed = {.place = 0, .size = 4, .pid = 78, .code = 3, .host = "node-1"};

Test(ended, entries_are_read_one_after_the_other, .timeout = 10)
{
    uint8_t data[2 * ENDED_MAX];
    char where[ENDED_WORDS_MAX], how[ENDED_WORDS_MAX];
    struct ended one;
    size_t at = 0, size = ended_encode(&killed, data);

    size += ended_encode(&failed, data + size);
    cr_assert(ended_next(data, size, &at, &one));
    cr_expect_eq(one.place, 2);
    ended_where(&one, where, sizeof where);
    ended_how(&one, how, sizeof how);
    cr_expect_str_eq(where, "host h, pid 77");
    cr_expect_str_eq(how, "was ended by signal 9 (SIGKILL)");
    cr_assert(ended_next(data, size, &at, &one));
    ended_where(&one, where, sizeof where);
    ended_how(&one, how, sizeof how);
    cr_expect_str_eq(where, "host node-1, pid 78");
    cr_expect_str_eq(how, "exited with code 3");
    cr_expect(!ended_next(data, size, &at, &one));
}

Test(ended, what_is_cut_or_makes_no_sense_is_no_entry, .timeout = 10)
{
    uint8_t data[ENDED_MAX];
    struct ended one, bad = killed;
    size_t at = 0;

    for (size_t size = ended_encode(&killed, data); size > 0; size--)
        cr_expect(!ended_next(data, size - 1, &at, &one), "%zu bytes", size - 1);
    bad.place = bad.size;
    cr_expect(!ended_next(data, ended_encode(&bad, data), &at, &one));
    bad = killed;
    bad.signal = NSIG;
    cr_expect(!ended_next(data, ended_encode(&bad, data), &at, &one));
    cr_expect_eq(at, 0);
}
