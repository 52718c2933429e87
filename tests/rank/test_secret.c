/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks prove themselves by a secret: who is refused, in which words, and what nobody else can write. */
#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/launch.h"
#include "harness/net.h"

#define SECRET "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f91"

TestSuite(secret, .timeout = 120);

/* A folder for the files of a case: XDG_CONFIG_HOME and TUTTI_TEST_FOLDER. */
struct folder {
    char path[64], config[96], above[96];
};

static void folder_make(struct folder *folder)
{
    strcpy(folder->path, "/tmp/tutti-secret-XXXXXX");
    cr_assert_not_null(mkdtemp(folder->path));
    snprintf(folder->config, sizeof folder->config, "XDG_CONFIG_HOME=%s", folder->path);
    snprintf(folder->above, sizeof folder->above, "TUTTI_TEST_FOLDER=%s", folder->path);
}

static int remove_one(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

static void folder_remove(const struct folder *folder)
{
    (void)nftw(folder->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void run_sized(const char *case_name, int size)
{
    struct folder folder;

    folder_make(&folder);
    cr_expect(ranks_run(&(struct ranks_options){
        .program = "rank_secret",
        .case_name = case_name,
        .size = size,
        .backend = "auto",
        .env = (const char *[]){folder.config, folder.above, NULL},
    }));
    folder_remove(&folder);
}

#define CASE(name, size)                                                                           \
    Test(secret, name)                                                                             \
    {                                                                                              \
        run_sized(#name, size);                                                                    \
    }

CASE(a_rank_with_another_secret_is_named_on_all, 4)
CASE(a_rank_without_the_explicit_secret_is_named_on_all, 3)
CASE(rank_0_without_the_explicit_secret_is_named_on_all, 3)
CASE(a_rank_with_an_unusable_secret_is_named_on_all, 3)
CASE(rank_0_with_an_unusable_secret_is_named_on_all, 3)
CASE(an_unusable_secret_of_rank_0_is_named_where_it_serves_the_store, 3)
CASE(unusable_secrets_are_told_by_each_rank, 2)
CASE(an_explicit_secret_proves_all, 3)
CASE(ranks_make_their_users_file_together, 8)
CASE(different_files_on_one_host_are_refused, 3)
CASE(without_a_home_the_group_is_open, 2)
CASE(without_a_home_required_proof_is_refused, 2)
CASE(a_secret_that_is_replaced_changes_no_running_job, 3)
CASE(a_changed_offer_is_named_on_all, 3)
CASE(a_changed_decision_is_named_on_all, 3)
CASE(a_changed_outcome_is_named_on_all, 3)
CASE(an_offer_copied_by_a_stranger_is_named_on_all, 3)
CASE(a_count_written_by_a_stranger_is_named_on_all, 3)

/* Whether it can, where the tests are, from the root of all folders on. */
static bool another_user_can_read_the_build(void)
{
    char path[4096] = "";
    int status = -1;

    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
        return false;
    const pid_t child = fork();
    if (!child)
        _exit(setgid(54321) || setuid(54321) || access(path, R_OK));
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

Test(secret, ranks_of_two_users_talk_over_tcp)
{
    if (geteuid())
        cr_skip_test("only root may start ranks of two users");
    if (!another_user_can_read_the_build())
        cr_skip_test("another user cannot read the build");
    setenv("TUTTI_SECRET", SECRET, 1); /* this process serves the store */
    cr_expect(ranks_run(&(struct ranks_options){
        .program = "rank_secret",
        .case_name = "ranks_of_two_users_talk_over_tcp",
        .size = 3,
        .backend = "auto",
        .env = (const char *[]){"TUTTI_SECRET=" SECRET, NULL},
    }));
}

/* Rank 0 is the stranger, and stays until the others have seen what it wrote. */
Test(secret, a_decision_written_by_a_stranger_is_named_on_all)
{
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = "rank_secret",
        .case_name = "a_decision_written_by_a_stranger_is_named_on_all",
        .size = 3,
        .backend = "auto",
    });

    cr_assert_not_null(ranks);
    for (int r = 1; r < 3; r++)
        cr_expect(ranks_reach(ranks, r, "refused"));
    ranks_tell(ranks, 0, "go");
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    ranks_free(ranks);
}

/* Each rank on a host of its own. */
static void run_on_hosts(const char *case_name, const char *warning)
{
    char reason[256];
    struct folder folder;
    struct net *net = net_create(2, reason, sizeof reason);

    if (!net)
        cr_skip_test("%s", reason);
    folder_make(&folder);
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = "rank_secret",
        .case_name = case_name,
        .size = 2,
        .backend = "auto",
        .address = net_address(net, 0),
        .netns = (const char *[]){net_name(net, 0), net_name(net, 1)},
        .env = (const char *[]){folder.config, folder.above, NULL},
    });
    cr_assert_not_null(ranks);
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    if (warning)
        cr_expect(strstr(ranks_result(ranks, 0)->err, warning), "%s", ranks_result(ranks, 0)->err);
    ranks_free(ranks);
    folder_remove(&folder);
    net_destroy(net);
}

Test(secret, different_files_on_several_hosts_make_an_open_group)
{
    run_on_hosts("different_files_on_several_hosts_make_an_open_group",
                 "group world is open, so anybody who reaches its ports can join or end it: rank 0 "
                 "(the user's own file, id ");
}

Test(secret, different_files_are_refused_where_a_rank_requires_proof)
{
    run_on_hosts("different_files_are_refused_where_a_rank_requires_proof", NULL);
}

Test(secret, one_file_on_several_hosts_proves_all)
{
    run_on_hosts("ranks_make_their_users_file_together", NULL);
}
