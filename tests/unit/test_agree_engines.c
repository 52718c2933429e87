/* SPDX-License-Identifier: Apache-2.0 */
/* Which members understand each other, and whether `auto` goes by fabric between hosts: from lists of offers. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agreement/agree_engines.h"

enum { MEMBERS = 4, LEVEL = 2 };

TestSuite(agree_engines, .timeout = 10);

static struct led_member members[MEMBERS];

static void set(int rank, const char *name, uint32_t major, uint32_t minor, bool same_minor,
                bool fabric)
{
    struct engine_offer *engine = &members[rank].offer.engines[LEVEL];

    *engine = (struct engine_offer){
        .major = major, .minor = minor, .same_minor = same_minor, .fabric = fabric};
    strcpy(engine->name, name);
    *members[rank].offer.reasons[LEVEL] = 0;
}

static void set_all(const char *name, uint32_t major, uint32_t minor, bool same_minor, bool fabric)
{
    for (int r = 0; r < MEMBERS; r++)
        set(r, name, major, minor, same_minor, fabric);
}

static void expect_fabric(enum engines_fabric expected, const char *words)
{
    char why[ENGINES_WORDS_MAX];

    cr_expect_eq(engines_find_fabric(members, MEMBERS, LEVEL, why), expected);
    cr_expect_str_eq(why, words);
}

Test(agree_engines, the_minor_counts_before_1_0_and_where_an_engine_says_so)
{
    char words[ENGINES_WORDS_MAX];

    set_all("Open MPI", 4, 1, false, false);
    cr_expect_eq(engines_find_other(members, MEMBERS, LEVEL), -1);
    set(2, "Open MPI", 4, 2, false, false);
    cr_expect_eq(engines_find_other(members, MEMBERS, LEVEL), -1);
    set(3, "Open MPI", 5, 1, false, false);
    cr_expect_eq(engines_find_other(members, MEMBERS, LEVEL), 3);
    engines_tell(members, 3, LEVEL, words);
    cr_expect_str_eq(words, "rank 0: Open MPI 4.1.0; rank 3: Open MPI 5.1.0; the same name and "
                            "major are needed (before 1.0 the same minor, too)");
    set_all("Gloo", 0, 5, false, false);
    set(1, "Gloo", 0, 6, false, false);
    cr_expect_eq(engines_find_other(members, MEMBERS, LEVEL), 1);
    set_all("UCX", 1, 13, true, false);
    cr_expect_eq(engines_find_other(members, MEMBERS, LEVEL), -1);
    set(2, "UCX", 1, 22, true, false);
    cr_expect_eq(engines_find_other(members, MEMBERS, LEVEL), 2);
    engines_tell(members, 2, LEVEL, words);
    cr_expect_str_eq(words, "rank 0: UCX 1.13.0; rank 2: UCX 1.22.0; the same name and major are "
                            "needed, and the same minor");
    set(2, "", 0, 0, false, false);
    cr_expect_eq(engines_find_other(members, MEMBERS, LEVEL), 2);
}

Test(agree_engines, names_that_differ_must_be_equal_and_tell_a_version_once)
{
    char words[ENGINES_WORDS_MAX];

    set_all("NCCL 2.28.0", 2, 28, false, false);
    set(1, "NCCL 2.27.0", 2, 27, false, false);
    cr_expect_eq(engines_find_other(members, MEMBERS, LEVEL), 1);
    engines_tell(members, 1, LEVEL, words);
    cr_expect_str_eq(words, "rank 0: NCCL 2.28.0; rank 1: NCCL 2.27.0; the names must be equal");
    set_all("Open MPI", 4, 1, false, false);
    set(3, "MPICH", 4, 1, false, false);
    engines_tell(members, 3, LEVEL, words);
    cr_expect_str_eq(words, "rank 0: Open MPI 4.1.0; rank 3: MPICH 4.1.0; the names must be equal");
}

Test(agree_engines, auto_goes_by_fabric_where_all_members_have_one)
{
    set_all("", 0, 0, false, false);
    expect_fabric(FABRIC_NOWHERE, "");
    set_all("UCX", 1, 13, true, true);
    expect_fabric(FABRIC_ON_ALL,
                  "all members have UCX 1.13 with devices that are no plain sockets");
}

Test(agree_engines, auto_leaves_a_fabric_that_some_members_lack_and_says_why)
{
    set_all("UCX", 1, 13, true, true);
    set(2, "", 0, 0, false, false);
    expect_fabric(FABRIC_ON_SOME, "rank 2 has no device but sockets that reaches other hosts");
    strcpy(members[2].offer.reasons[LEVEL], "ucx: UCX cannot be opened");
    expect_fabric(FABRIC_ON_SOME, "rank 2 has no device but sockets that reaches other hosts: ucx: "
                                  "UCX cannot be opened");
    set_all("", 0, 0, false, false);
    set(3, "UCX", 1, 13, true, true);
    expect_fabric(FABRIC_ON_SOME, "rank 0 has no device but sockets that reaches other hosts");
}

Test(agree_engines, auto_leaves_a_fabric_whose_engines_do_not_understand_each_other)
{
    set_all("UCX", 1, 13, true, true);
    set(1, "UCX", 1, 22, true, true);
    expect_fabric(FABRIC_ON_SOME, "rank 0: UCX 1.13.0; rank 1: UCX 1.22.0; the same name and major "
                                  "are needed, and the same minor");
}
