/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning file: what is read from it, what is refused in words, and what members compare. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tutti/group.h>

#include "base/environment.h"
#include "base/error.h"
#include "dispatch/tuning.h"

static char folder[] = "/tmp/tutti-tuning-XXXXXX";
static char path[192];

static void begin(void)
{
    clearenv();
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    setenv("TUTTI_TUNING", path, 1);
}

static void end(void)
{
    unlink(path);
    rmdir(folder);
}

TestSuite(tuning, .init = begin, .fini = end, .timeout = 10);

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");

    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static tutti_status read_text(const char *text, struct thresholds *ret_thresholds)
{
    write_file(text);
    return tuning_read(ret_thresholds);
}

Test(tuning, what_the_file_does_not_set_keeps_its_standard_value)
{
    struct thresholds t;

    cr_assert_eq(
        read_text("# of this host\n\n  inline_max = 1K # short\nall_reduce_ring_min=0", &t),
        TUTTI_OK);
    cr_expect_eq(t.bytes[THRESHOLD_INLINE_MAX], 1024);
    cr_expect_eq(t.bytes[THRESHOLD_RING_MIN], 0);
    cr_expect_eq(t.bytes[THRESHOLD_STAGED_CHUNK_MIN],
                 threshold_rows[THRESHOLD_STAGED_CHUNK_MIN].standard);
    setenv("TUTTI_TUNING", "none", 1);
    cr_assert_eq(tuning_read(&t), TUTTI_OK);
    cr_expect_arr_eq(&t, &thresholds_standard, sizeof t);
}

Test(tuning, what_the_file_sets_also_holds_where_members_outnumber_their_cpus)
{
    struct thresholds t;

    cr_assert_eq(read_text("broadcast_scatter_all_gather_min = 32K\n", &t), TUTTI_OK);
    thresholds_fit(&t, true);
    cr_expect_eq(t.bytes[THRESHOLD_BROADCAST_SCATTER_MIN], 32 << 10);
    cr_expect_eq(t.bytes[THRESHOLD_REDUCE_PARTS_MIN],
                 threshold_rows[THRESHOLD_REDUCE_PARTS_MIN].crowded);
    cr_expect_eq(t.bytes[THRESHOLD_MESSAGE_PIECE],
                 threshold_rows[THRESHOLD_MESSAGE_PIECE].standard);
    thresholds_fit(&t, false); /* a group on several hosts, made from it */
    cr_expect_eq(t.bytes[THRESHOLD_REDUCE_PARTS_MIN],
                 threshold_rows[THRESHOLD_REDUCE_PARTS_MIN].standard);
}

/* Members outnumber their CPUs: one without the file would take another value. */
Test(tuning, a_file_with_the_standard_value_is_not_the_same_as_none)
{
    char with[ENVIRONMENT_SETTINGS_MAX], without[ENVIRONMENT_SETTINGS_MAX];
    struct text text = text_in(with, sizeof with), other = text_in(without, sizeof without);
    struct thresholds t;

    cr_assert_eq(read_text("broadcast_scatter_all_gather_min = 32K\ninline_max = 4096\n", &t),
                 TUTTI_OK);
    tuning_settings(&t, &text);
    tuning_settings(&thresholds_standard, &other);
    cr_expect_not_null(
        strstr(with, "broadcast_scatter_all_gather_min (TUTTI_TUNING)=32768 from a file\n"));
    cr_expect_not_null(strstr(without, "broadcast_scatter_all_gather_min (TUTTI_TUNING)=32768\n"));
    cr_expect_not_null(strstr(with, "inline_max (TUTTI_TUNING)=4096\n"), "it has one value");
}

Test(tuning, the_users_own_file_is_read_and_may_be_absent)
{
    struct thresholds t;
    char inner[160];

    unsetenv("TUTTI_TUNING");
    setenv("XDG_CONFIG_HOME", folder, 1);
    cr_assert_eq(tuning_read(&t), TUTTI_OK);
    cr_expect_arr_eq(&t, &thresholds_standard, sizeof t);
    snprintf(inner, sizeof inner, "%s/tutti", folder);
    cr_assert_eq(mkdir(inner, 0700), 0);
    snprintf(path, sizeof path, "%s/tuning", inner);
    cr_expect_eq(read_text("inline_max = 64\n", &t), TUTTI_OK);
    cr_expect_eq(t.bytes[THRESHOLD_INLINE_MAX], 64);
    unlink(path);
    rmdir(inner);
}

Test(tuning, a_line_that_makes_no_sense_is_told_with_file_and_line)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"\ninline_mas = 1\n",
         ", line 2: there is no threshold «inline_mas»; did you mean inline_max?"},
        {"\x01 = 1\n", "line 1: there is no threshold «?»"},
        {"inline_max\n", "line 1: a line must be `name = value`"},
        {"inline_max = 1\ninline_max = 2\n", "line 2: the same threshold is set twice"},
        {"inline_max = 5000\n", "line 1: inline_max = 5000 is not valid: use bytes from 0 to 4096"},
        {"inline_max =\n", "inline_max =  is not valid"},
        {"inline_max = -1\n", "inline_max = -1 is not valid"},
        {"inline_max = 1kb\n", "inline_max = 1kb is not valid"},
        {"all_reduce_ring_min = 99999999999999999999999\n", "is not valid: use bytes from 0 to"},
        {"all_reduce_ring_min = 18446744073709551615G\n", "is not valid: use bytes from 0 to"},
        {"staged_chunk_min = 0\n", "staged_chunk_min = 0 is not valid: use bytes from 4096"},
        {"broadcast = ring\n", "broadcast = ring is not valid: use broadcast_composed "
                               "broadcast_scatter_all_gather broadcast_binomial"},
        {"broadcast = broadcast_mapped\n", "broadcast = broadcast_mapped is not valid"},
        {"reduce = reduce_parts\nreduce = reduce_parts\n",
         "line 2: the same operation is set twice"},
    };
    struct thresholds t = {.bytes = {7}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect_eq(read_text(cases[i].text, &t), TUTTI_ERR_INVALID_ARGUMENT, "%s", cases[i].text);
        cr_expect_not_null(strstr(tutti_last_error(), cases[i].words), "no \"%s\" in: %s",
                           cases[i].words, tutti_last_error());
        cr_expect_not_null(strstr(tutti_last_error(), path), "%s", tutti_last_error());
    }
    cr_expect_eq(t.bytes[0], 7, "nothing is written on failure");
}

Test(tuning, a_named_file_that_cannot_be_read_is_an_error)
{
    struct thresholds t;
    char *long_text = malloc(20001);

    cr_expect_eq(tuning_read(&t), TUTTI_ERR_SYSTEM);
    cr_expect_not_null(strstr(tutti_last_error(), "cannot be read"), "%s", tutti_last_error());
    memset(long_text, '#', 20000);
    long_text[20000] = 0;
    cr_expect_eq(read_text(long_text, &t), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(tutti_last_error(), "16 KiB"), "%s", tutti_last_error());
    setenv("TUTTI_TUNING", folder, 1);
    cr_expect_eq(tuning_read(&t), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(tutti_last_error(), "not a regular file"), "%s", tutti_last_error());
    free(long_text);
}

/* What has no room is left out, and would not be compared. */
Test(tuning, all_thresholds_fit_into_the_settings_that_members_compare)
{
    char settings[ENVIRONMENT_SETTINGS_MAX];
    struct thresholds t = {0};

    for (int i = 0; i < THRESHOLDS; i++) {
        t.bytes[i] = THRESHOLD_MOST;
        t.tuned[i] = true;
    }
    for (int i = 0; i < ALGORITHMS; i++) {
        const struct algorithm *row = algorithm_table[i], **fixed = &t.fixed[row->operation];

        if (row->kind == ALGORITHM_MESSAGES &&
            (!*fixed || strlen(row->name) > strlen((*fixed)->name)))
            *fixed = row;
    }
    environment_settings(settings);
    struct text text = text_after(settings, sizeof settings);
    tuning_settings(&t, &text);
    for (int i = THRESHOLD_NONE + 1; i < THRESHOLDS; i++) {
        char line[128];

        snprintf(line, sizeof line, "%s (TUTTI_TUNING)=1099511627776%s\n", threshold_rows[i].name,
                 threshold_rows[i].crowded ? " from a file" : "");
        cr_expect_not_null(strstr(settings, line), "%s", line);
    }
    cr_expect_not_null(strstr(settings, "algorithms (TUTTI_TUNING)="), "%s", settings);
    cr_expect_not_null(strstr(settings, t.fixed[OPERATION_ALL_TO_ALL]->name), "%s", settings);
    cr_expect_lt(strlen(settings), sizeof settings / 4 * 3, "room for options of plugins");
}

Test(tuning, a_threshold_decides_about_its_algorithm)
{
    struct thresholds t = thresholds_standard;
    char buffer[128];
    struct text words = text_in(buffer, sizeof buffer);

    t.bytes[THRESHOLD_RECURSIVE_DOUBLING_MAX] = 100;
    t.tuned[THRESHOLD_RECURSIVE_DOUBLING_MAX] = true;
    cr_expect_str_eq(algorithm_find(&t, OPERATION_ALL_REDUCE, ALGORITHM_MESSAGES, 4, 100, 0)->name,
                     "all_reduce_recursive_doubling");
    cr_expect_str_eq(algorithm_find(&t, OPERATION_ALL_REDUCE, ALGORITHM_MESSAGES, 4, 104, 0)->name,
                     "all_reduce_halving_doubling");
    tuning_words(&t, &all_reduce_recursive_doubling_algorithm, 4, &words);
    cr_expect_str_eq(buffer, "up to all_reduce_recursive_doubling_max = 100 as tuned");
}

Test(tuning, an_algorithm_that_the_file_names_is_taken_at_every_size)
{
    struct thresholds t;

    cr_assert_eq(read_text("all_reduce = all_reduce_ring\n", &t), TUTTI_OK);
    for (uint64_t bytes = 8; bytes <= 1 << 20; bytes *= 8)
        cr_expect_eq(algorithm_find(&t, OPERATION_ALL_REDUCE, ALGORITHM_MESSAGES, 4, bytes, 0),
                     &all_reduce_ring_algorithm);
    cr_expect_str_eq(algorithm_find(&t, OPERATION_ALL_REDUCE, ALGORITHM_MESSAGES, 4, 8,
                                    ALGORITHM_ROUNDS_ON_THE_WAY)
                         ->name,
                     "all_reduce_direct", "the fixed order comes first");
    cr_expect_str_eq(algorithm_find(&t, OPERATION_BROADCAST, ALGORITHM_MESSAGES, 4, 8, 0)->name,
                     "broadcast_binomial");
}
