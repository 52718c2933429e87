/* SPDX-License-Identifier: Apache-2.0 */
/* What `tutti info` is made of: build, CPUs, limits, and plugins that are known without being opened. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/info.h>

#include "base/cgroup.h"
#include "base/cpu.h"
#include "info/info.h"

struct wanted {
    const char *section, *name;
    char value[256];
    int found;
};

static void look(const char *section, const char *name, const char *value, void *user)
{
    struct wanted *wanted = user;

    if (strcmp(section, wanted->section) == 0 && strcmp(name, wanted->name) == 0) {
        wanted->found++;
        snprintf(wanted->value, sizeof wanted->value, "%s", value);
    }
}

Test(info, each_section_has_the_rows_that_tools_rely_on, .timeout = 10)
{
    enum { DIRECTORIES = 1 };
    struct wanted rows[] = {
        {.section = "build", .name = "version"}, {.section = "build", .name = "plugin directory"},
        {.section = "cpu", .name = "usable"},    {.section = "cpu", .name = "kernels"},
        {.section = "net", .name = "chosen"},    {.section = "limits", .name = "open files"}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert_eq(tutti_info_list(look, &rows[i]), TUTTI_OK);
        /* There may be several directories, and one may be missing. */
        cr_assert(rows[i].found == 1 || (rows[i].found && i == DIRECTORIES), "%s: %s",
                  rows[i].section, rows[i].name);
        cr_assert_str_not_empty(rows[i].value);
    }
    cr_assert_eq(atoi(rows[2].value), cpu_usable());
}

Test(info, the_usable_cpus_follow_the_affinity_mask, .timeout = 10)
{
    cpu_set_t all, one;
    int first = 0;

    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    cr_assert_eq(cpu_affinity(), CPU_COUNT(&all));
    const int by_all = cpu_usable_by_all();
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    cr_assert_eq(cpu_affinity(), 1);
    cr_assert_eq(cpu_usable(), 1);
    cr_assert_eq(cpu_usable_by_all(), by_all);
}

Test(info, a_list_of_cpus_is_counted, .timeout = 10)
{
    cr_expect_eq(cpu_count_listed("0\n"), 1);
    cr_expect_eq(cpu_count_listed("0-7,64-71\n"), 16);
    cr_expect_eq(cpu_count_listed("0,2,4-5"), 4);
    cr_expect_eq(cpu_count_listed("3-1"), 1);
    cr_expect_eq(cpu_count_listed("\n"), 0);
}

static void expect_crowded(const struct cpu_share shares[3], bool crowded)
{
    cr_expect_eq(cpu_is_crowded(shares, 3), crowded, "sets %d %d %d", (int)shares[0].set,
                 (int)shares[1].set, (int)shares[2].set);
}

Test(info, processes_may_outnumber_their_cpus, .timeout = 10)
{
    expect_crowded((struct cpu_share[]){{5, 2}, {5, 2}, {5, 2}}, true);
    expect_crowded((struct cpu_share[]){{5, 3}, {5, 3}, {5, 3}}, false);
    expect_crowded((struct cpu_share[]){{5, 1}, {6, 1}, {7, 1}}, false); /* each bound to one */
    expect_crowded((struct cpu_share[]){{5, 1}, {6, 1}, {5, 1}}, true);
    expect_crowded((struct cpu_share[]){{5, 64}, {6, 1}, {6, 1}}, false); /* one of them is free */
    expect_crowded((struct cpu_share[]){{0, 1}, {0, 1}, {0, 1}}, false);  /* unknown */
}

Test(info, processes_share_the_caches, .timeout = 10)
{
    const uint64_t one = cpu_cache_share(1), many = cpu_cache_share(100000);

    cr_expect_geq(one, 64 << 10);
    cr_expect_leq(cpu_cache_share(2), one);
    cr_expect_lt(many, one);
    cr_expect_eq(cpu_cache_share(0), one);
    cr_expect_eq(cpu_cache_share_of_running(1), one);
    cr_expect_geq(cpu_cache_share_of_running(100000), many);
}

Test(info, limits_of_control_groups_are_never_absurd, .timeout = 10)
{
    struct cgroup_limits limits;

    cgroup_limits_read(&limits);
    cr_assert(limits.cpus >= 0 && limits.cpus < 1e6);
    cr_assert(limits.memory_bytes == 0 || limits.memory_bytes > 4096);
}

Test(info, sizes_are_said_in_units, .timeout = 10)
{
    static const struct {
        unsigned long long bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {1023, "1023 B"},
                 {1024, "1.0 KiB"},
                 {UINT64_C(3) << 29, "1.5 GiB"},
                 {UINT64_MAX, "16.0 EiB"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[INFO_SIZE_TEXT];

        cr_assert_str_eq(info_size(cases[i].bytes, text), cases[i].text);
    }
}

static void keep_plugin(const tutti_plugin_info *info, void *user)
{
    struct wanted *wanted = user;

    wanted->found++;
    if (!info->ready)
        snprintf(wanted->value, sizeof wanted->value, "%s", info->reason);
}

struct provided {
    char words[1024];
    int known;
};

static void note_provided(const tutti_plugin_info *info, void *user)
{
    struct provided *provided = user;
    const size_t n = strlen(provided->words);

    snprintf(provided->words + n, sizeof provided->words - n, "%s: %s; ", info->name,
             info->provides);
}

static void compare_provided(const tutti_plugin_info *info, void *user)
{
    struct provided *opened = user;
    char words[64];

    snprintf(words, sizeof words, "%s: %s; ", info->name, info->provides);
    if (!*info->provides)
        return;
    cr_expect_not_null(strstr(opened->words, words), "%s is not in %s", words, opened->words);
    opened->known++;
}

Test(info, plugins_of_ours_are_known_unopened_as_what_they_are, .timeout = 20)
{
    struct provided opened = {.known = 0};

    setenv("TUTTI_PLUGIN_PATH", TUTTI_BINARY_DIR "/lib/tutti/0", 1);
    cr_assert_eq(tutti_plugins_list(note_provided, &opened), TUTTI_OK);
    cr_assert_eq(tutti_plugin_files(compare_provided, &opened), TUTTI_OK);
    cr_expect_geq(opened.known, 6, "%s", opened.words); /* gloo is not in every build */
    cr_expect_not_null(strstr(opened.words, "trace: wrapper; "));
}

Test(info, a_single_plugin_is_opened_or_refused_with_the_reason, .timeout = 20)
{
    struct wanted good = {.found = 0}, bad = {.found = 0}, files = {.found = 0};

    cr_assert_eq(
        tutti_plugin_probe(TUTTI_BINARY_DIR "/tests/plugins/libtutti-good.so", keep_plugin, &good),
        TUTTI_OK);
    cr_assert_eq(good.found, 1);
    cr_assert_str_empty(good.value);
    cr_assert_eq(tutti_plugin_probe("/nowhere/libtutti-x.so", keep_plugin, &bad), TUTTI_OK);
    cr_assert_eq(bad.found, 1);
    cr_assert_not_null(strstr(bad.value, "cannot resolve its path: No such file"), "%s", bad.value);

    setenv("TUTTI_PLUGIN_PATH", TUTTI_BINARY_DIR "/tests/plugins", 1);
    cr_assert_eq(tutti_plugin_files(keep_plugin, &files), TUTTI_OK);
    cr_assert_geq(files.found, 1);
}

Test(info, null_arguments_are_refused, .timeout = 10)
{
    cr_assert_eq(tutti_info_list(NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_eq(tutti_plugin_files(NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_eq(tutti_plugin_probe(NULL, keep_plugin, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(tutti_last_error(), "path is NULL"));
}
