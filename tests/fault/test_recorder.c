/* SPDX-License-Identifier: Apache-2.0 */
/* When dumps are made, when not, and what a program hears of them. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"

enum { RANKS = 3, FILES_MS = 5000, PATH_BYTES = 400 };

struct folder {
    char path[64], dump_dir[96], test_folder[96]; /* the latter two as in the environment */
};

static struct folder folder_new(void)
{
    struct folder f = {.path = "/tmp/tutti-dumps-XXXXXX"};

    cr_assert_not_null(mkdtemp(f.path));
    snprintf(f.dump_dir, sizeof f.dump_dir, "TUTTI_DUMP_DIR=%s", f.path);
    snprintf(f.test_folder, sizeof f.test_folder, "TUTTI_TEST_FOLDER=%s", f.path);
    return f;
}

/* Files in it whose names end so. */
static int files(const struct folder *f, const char *end)
{
    DIR *dir = opendir(f->path);
    int count = 0;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t length = strlen(e->d_name);

        count += length > strlen(end) && !strcmp(e->d_name + length - strlen(end), end);
    }
    if (dir)
        closedir(dir);
    return count;
}

static bool await_files(const struct folder *f, int count)
{
    int64_t until = fault_now_ns() + FILES_MS * 1000000LL;

    while (files(f, ".json") < count && fault_now_ns() < until)
        usleep(5000);
    return files(f, ".json") == count;
}

static void folder_remove(struct folder *f)
{
    char path[PATH_BYTES];
    DIR *dir = opendir(f->path);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", f->path, e->d_name);
        if (e->d_name[0] != '.' || e->d_name[1] == 't')
            unlink(path);
    }
    if (dir)
        closedir(dir);
    cr_expect_eq(rmdir(f->path), 0, "something else is left in %s", f->path);
}

static struct ranks *start(const char *case_name, const char *env)
{
    return fault_start(&fault_shm, "rank_recorder", case_name, RANKS, (const char *[]){env, NULL});
}

/* Every dump contains the words. */
static void expect_in_each(const struct folder *f, const char *words)
{
    char path[PATH_BYTES], text[65536];
    DIR *dir = opendir(f->path);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", f->path, e->d_name);
        FILE *file = strstr(e->d_name, ".json") ? fopen(path, "re") : NULL;
        if (!file)
            continue;
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
        cr_expect_not_null(strstr(text, words), "%s lacks «%s»: %s", e->d_name, words, text);
    }
    if (dir)
        closedir(dir);
}

Test(recorder, a_dump_on_request_is_whole_or_an_error_in_words, .timeout = FAULT_TEST_S)
{
    struct folder f = folder_new();
    struct ranks *ranks = start("dumps_when_it_likes", f.test_folder);

    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    cr_expect_eq(files(&f, ".json"), RANKS);
    cr_expect_eq(files(&f, ".part"), 0);
    expect_in_each(&f, "\"cause\":\"request\"");
    expect_in_each(&f, "\"operation\":\"barrier\"");
    fault_finish(ranks);
    folder_remove(&f);
}

Test(recorder, a_signal_dumps_a_program_that_computes_and_changes_nothing, .timeout = FAULT_TEST_S)
{
    struct folder f = folder_new();
    struct ranks *ranks = start("computes_until_told", f.dump_dir);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    cr_expect_eq(files(&f, ".json"), 0, "a forked child has dumped its parent");
    for (int r = 0; r < RANKS; r++)
        ranks_signal(ranks, r, SIGUSR2);
    cr_expect(await_files(&f, RANKS));
    ranks_tell(ranks, RANKS_ALL, "go");
    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    expect_in_each(&f, "\"cause\":\"signal\"");
    fault_finish(ranks);
    folder_remove(&f);
}

Test(recorder, a_handler_of_the_program_is_left_alone, .timeout = FAULT_TEST_S)
{
    struct folder f = folder_new();
    struct ranks *ranks = start("has_a_handler_of_its_own", f.dump_dir);

    cr_expect(ranks_wait(ranks) && ranks_passed(ranks));
    cr_expect_eq(files(&f, ".json"), 0);
    cr_expect_not_null(strstr(ranks_result(ranks, 0)->err, "SIGUSR2 is the program's"));
    fault_finish(ranks);
    folder_remove(&f);
}

Test(recorder, a_failure_is_dumped_where_nobody_calls, .timeout = FAULT_TEST_S)
{
    struct folder f = folder_new();
    struct ranks *ranks = start("fails_unnoticed", f.dump_dir);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    cr_expect(await_files(&f, RANKS), "while they compute");
    expect_in_each(&f, "\"cause\":\"error\"");
    expect_in_each(&f, "the tests want it");
    ranks_tell(ranks, RANKS_ALL, "go");
    cr_expect(ranks_wait(ranks));
    fault_finish(ranks);
    folder_remove(&f);
}

Test(recorder, a_folder_that_cannot_be_written_loses_nothing_else, .timeout = FAULT_TEST_S)
{
    struct ranks *ranks = fault_start(
        &fault_shm, "rank_fault", "calls_for_ever", RANKS,
        (const char *[]){"TUTTI_DUMP_DIR=/dev/null/here", "TUTTI_TEST_CALL=small", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
    int64_t killed = ranks_signal(ranks, 1, SIGKILL);
    fault_expect(ranks, &(struct fault_expected){.size = RANKS,
                                                 .gone = 1u << 1,
                                                 .status = "TUTTI_ERR_PEER_LOST",
                                                 .parts = {"rank 1 ("},
                                                 .from_ns = killed,
                                                 .budget_ms = FAULT_BUDGET_MS});
    cr_expect_not_null(strstr(ranks_result(ranks, 0)->err, "no dump of its failure"));
    cr_expect_not_null(strstr(ranks_result(ranks, 0)->err, "/dev/null/here"));
    fault_finish(ranks);
}

/* Each way, collectives and a message: who is missing is named after the time that was asked for. */
FAULT_TEST(recorder, a_stall_warning_names_who_is_missing)
{
    enum { MEMBERS = 4, CALLS = 3 };
    static const char *const calls[CALLS] = {"TUTTI_TEST_CALL=small", "TUTTI_TEST_CALL=large",
                                             "TUTTI_TEST_CALL=message"};
    struct ranks *ranks[CALLS];

    for (int i = 0; i < CALLS; i++)
        ranks[i] = fault_start(way, "rank_fault", "one_computes", MEMBERS,
                               (const char *[]){calls[i], "TUTTI_TEST_VICTIM=2",
                                                "TUTTI_TEST_PAUSE_MS=2000", "TUTTI_STALL_WARNING=1",
                                                NULL});
    for (int i = 0; i < CALLS; i++) {
        bool named = false;

        cr_expect(ranks_wait(ranks[i]) && ranks_passed(ranks[i]), "%s", calls[i]);
        for (int r = 0; r < MEMBERS; r++)
            named |=
                strstr(ranks_result(ranks[i], r)->err, "has waited for 1 s for rank 2 (") != NULL;
        cr_expect(named, "%s: %s", calls[i], ranks_result(ranks[i], 0)->err);
        fault_finish(ranks[i]);
    }
}
