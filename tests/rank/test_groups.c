/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "harness/launch.h"

TestSuite(groups, .timeout = 400);

static const char *const four_hosts[] = {"a", "b", "a", "b"};

static void run(const char *case_name, int size, const char *backend)
{
    cr_expect(
        ranks_run(&(struct ranks_options){.program = "rank_groups",
                                          .case_name = case_name,
                                          .size = size,
                                          .backend = backend,
                                          .host_of = strcmp(backend, "auto") ? NULL : four_hosts,
                                          .timeout_ms = 120000}));
}

#define CASE(name, size, backends)                                                                 \
    Test(groups, name)                                                                             \
    {                                                                                              \
        run(#name, size, backends);                                                                \
    }

#define COMPOSED(name, size)                                                                       \
    Test(groups, name##_composed)                                                                  \
    {                                                                                              \
        run(#name, size, "auto");                                                                  \
    }

CASE(a_group_has_the_members_of_its_list_in_that_order, 4, "shm,tcp")
COMPOSED(a_group_has_the_members_of_its_list_in_that_order, 4)
CASE(groups_of_groups_split_and_translate, 4, "shm,tcp")
COMPOSED(groups_of_groups_split_and_translate, 4)
CASE(threads_make_different_groups_at_once, 3, "shm,tcp")
CASE(options_give_name_time_out_and_backend, 3, "shm,tcp")
CASE(a_group_tells_its_name_and_members_and_takes_another_time_out, 3, "shm,tcp")
CASE(the_default_group_is_the_first_world, 2, "shm")
CASE(a_hundred_groups_live_side_by_side, 3, "shm,tcp")
CASE(groups_of_many_local_peers_are_limited_by_descriptors_alone, 7, "shm")
CASE(settings_that_differ_or_make_no_sense_are_told_on_all, 3, "tcp")
CASE(tuning_files_that_differ_or_make_no_sense_are_told_on_all, 3, "shm,tcp")
CASE(tuned_groups_and_groups_made_from_them_reduce_alike, 3, "shm,tcp")
CASE(a_failed_init_is_told_on_all_where_rank_0_serves_the_store, 4, "shm")
CASE(a_store_that_rank_0_serves_ends_with_its_last_group, 3, "shm")
CASE(contexts_of_one_process_do_not_take_each_others_keys, 2, "shm")
CASE(wrong_lists_are_refused_in_words, 2, "shm")
