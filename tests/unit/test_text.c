/* SPDX-License-Identifier: Apache-2.0 */
/* Text from outside that is shown to people: names, reasons, and what others say. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include <tutti/tutti.h>

#include "base/error.h"
#include "base/strings.h"
#include "base/text.h"

Test(text, what_is_no_printable_utf_8_becomes_question_marks, .timeout = 5)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"", ""},
        {"world", "world"},
        {"Gruppe «ä» 世界 \xf0\x9f\x8e\xb5", "Gruppe «ä» 世界 \xf0\x9f\x8e\xb5"},
        {"a\xff\x1b[31m\n\"b", "a??[31m?\"b"},
        {"\x7f\t", "??"},
        {"\xc2\x9b[2J", "??[2J"},          /* a CSI of one character */
        {"\xc2\xa0", "\xc2\xa0"},          /* the first behind those */
        {"cut \xe4\xb8", "cut ??"},        /* in the middle of a character */
        {"\xc0\xaf\xed\xa0\x80", "?????"}, /* overlong; a surrogate */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];

        strcpy(text, cases[i].text);
        cr_expect_eq(text_is_printable(text), strcmp(text, cases[i].shown) == 0, "case %zu", i);
        text_make_printable(text);
        cr_expect_str_eq(text, cases[i].shown);
        cr_expect(text_is_printable(text), "case %zu", i);
    }
}

Test(text, is_cut_between_characters, .timeout = 5)
{
    static const struct {
        const char *text;
        size_t most, size;
    } cases[] = {{"", 3, 0},   {"world", 0, 0}, {"world", 3, 3},     {"world", 9, 5}, {"aä", 2, 1},
                 {"aä", 3, 3}, {"世界", 5, 3},  {"a\xff\xff", 2, 2}, {"ä\xc3", 3, 3}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(text_cut(cases[i].text, cases[i].most), cases[i].size, "case %zu", i);
}

Test(text, of_an_error_is_printable_whatever_it_quotes, .timeout = 5)
{
    error_set(TUTTI_ERR_SYSTEM, "cannot read «%s»", "\x1b]0;x\a");
    cr_expect_str_eq(tutti_last_error(), "cannot read «?]0;x?»");
    error_set_errno(TUTTI_ERR_SYSTEM, ENOENT, "cannot read «%s»", "\xff");
    cr_expect_str_eq(tutti_last_error(), "cannot read «?»: No such file or directory");
    error_prefix("store file %s", "a\xff\n\x1b[31m");
    cr_expect_str_eq(tutti_last_error(),
                     "store file a???[31m: cannot read «?»: No such file or directory");
}

static tutti_group *alone(const char *name)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world = NULL;

    options.group_name = name;
    options.rank = 0;
    options.world_size = 1;
    cr_expect_eq(tutti_store_open_hash(&options.store), TUTTI_OK);
    (void)tutti_init(&options, &world);
    tutti_store_unref(options.store);
    return world;
}

Test(text, of_a_name_that_is_not_printable_is_refused, .timeout = 10)
{
    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;
    tutti_group *group = NULL;

    cr_expect_null(alone("a\xff\x1b[31m\n\"b"));
    cr_expect_str_eq(tutti_last_error(), "tutti_init: the group's name «a??[31m?\"b» has control "
                                         "characters or invalid UTF-8, shown here as '?'");

    tutti_group *world = alone("Gruppe «ä»");
    cr_assert_not_null(world, "%s", tutti_last_error());
    options.name = "pipe\tline";
    cr_expect_eq(tutti_group_new(world, NULL, 0, &options, &group), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(tutti_last_error(), "«pipe?line»"), "%s", tutti_last_error());
    cr_expect_eq(tutti_group_destroy(world), TUTTI_OK);
}

/* A group without a name of its own begins with that of the world. */
Test(text, of_a_long_name_is_cut_between_characters, .timeout = 10)
{
    tutti_group *world = alone("a-world-with-a-long-name-and-ääää"), *group = NULL;

    cr_assert_not_null(world, "%s", tutti_last_error());
    cr_assert_eq(tutti_group_new(world, NULL, 0, NULL, &group), TUTTI_OK, "%s", tutti_last_error());
    cr_expect_eq(tutti_group_abort(group, NULL), TUTTI_OK);
    cr_expect_eq(tutti_barrier(group, NULL, NULL), TUTTI_ERR_ABORTED);
    cr_expect_not_null(strstr(tutti_last_error(), "group a-world-with-a-long-name-and-{0}:"), "%s",
                       tutti_last_error());
    (void)tutti_group_destroy(group);
    (void)tutti_group_destroy(world);
}

Test(text, of_a_reason_to_abort_is_made_printable, .timeout = 10)
{
    tutti_group *world = alone("world");
    tutti_group_info info = {.struct_size = sizeof info};

    cr_assert_not_null(world, "%s", tutti_last_error());
    cr_expect_eq(tutti_group_abort(world, "\x1b[2Jlost\n«ä»"), TUTTI_OK);
    cr_expect_eq(tutti_group_status(world, &info), TUTTI_OK);
    cr_expect_not_null(strstr(info.words, "aborted by rank 0: ?[2Jlost?«ä»"), "%s", info.words);
    cr_expect_eq(tutti_barrier(world, NULL, NULL), TUTTI_ERR_ABORTED);
    cr_expect_not_null(strstr(tutti_last_error(), "?[2Jlost?«ä»"), "%s", tutti_last_error());
    (void)tutti_group_destroy(world);
}

Test(text, that_grows_in_a_buffer_is_cut_between_characters, .timeout = 5)
{
    char buffer[8];
    struct text text = text_in(buffer, sizeof buffer);

    text_add(&text, "%s-%d", "ab", 1);
    cr_expect_str_eq(buffer, "ab-1");
    text_add(&text, "ä%s", "世界");
    cr_expect_str_eq(buffer, "ab-1ä");
    text_add(&text, "z");
    cr_expect_str_eq(buffer, "ab-1ä", "nothing follows a cut");
    cr_expect_eq(text.used, strlen(buffer));
}

Test(text, a_list_of_strings_is_sorted_and_has_each_once, .timeout = 5)
{
    STRINGS_AUTO(list);

    for (int i = 0; i < 100; i++) {
        const char word[] = {(char)('c' - i % 3), (char)('0' + i % 2), 0};

        if (!strings_have(&list, word))
            strings_add(&list, "%s", word);
    }
    cr_assert(!list.failed && list.count == 6);
    cr_expect(strings_have(&list, "c1") && !strings_have(&list, "c2"));
    strings_sort(&list, 1);
    cr_expect_str_eq(list.at[0], "c0");
    strings_sort(&list, 0);
    for (size_t i = 1; i < list.count; i++)
        cr_expect_lt(strcmp(list.at[i - 1], list.at[i]), 0);
}
