/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend mpi in a job of each MPI: what the public API promises and the conformance tests do not
 * try, its blocking forms, and its place beside other backends.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/launch.h"

enum { DEADLINE_MS = 60000 };

TestSuite(over_mpi, .timeout = 180);

#define MPI_TEST(name)                                                                             \
    static void over_mpi_##name(const char *family);                                               \
    Test(over_mpi, name##_over_openmpi)                                                            \
    {                                                                                              \
        if (ranks_lack("openmpi"))                                                                 \
            cr_skip_test("%s", ranks_lack("openmpi"));                                             \
        over_mpi_##name("openmpi");                                                                \
    }                                                                                              \
    Test(over_mpi, name##_over_mpich)                                                              \
    {                                                                                              \
        if (ranks_lack("mpich"))                                                                   \
            cr_skip_test("%s", ranks_lack("mpich"));                                               \
        over_mpi_##name("mpich");                                                                  \
    }                                                                                              \
    static void over_mpi_##name(const char *family)

struct a_case {
    const char *program, *name;
    int size;
};

static void run(const char *family, const struct a_case *of, const char *const *env)
{
    cr_expect(ranks_run(&(struct ranks_options){.program = of->program,
                                                .case_name = of->name,
                                                .size = of->size,
                                                .backend = "mpi",
                                                .timeout_ms = DEADLINE_MS,
                                                .env = env,
                                                .mpi = family}));
}

#define RUN_ALL(family, cases, env)                                                                \
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases)[0]; i++)                                  \
    run(family, &(cases)[i], env)

MPI_TEST(messages_match_by_tag_and_any_source_and_can_be_cancelled)
{
    static const struct a_case cases[] = {
        {"rank_api", "ring_by_hand_with_large_messages", 3},
        {"rank_api", "a_small_message_overtakes_a_large_one_that_nobody_receives", 2},
        {"rank_p2p", "messages_around_every_limit_arrive_whole_in_any_order", 2},
        {"rank_api", "a_receive_that_times_out_leaves_the_group_alone", 2},
        {"rank_api", "many_works_in_flight_complete_in_any_order_of_waiting", 3},
        {"rank_work", "wait_any_gives_each_work_once_in_the_order_of_completion", 2},
        {"rank_work", "a_cancelled_receive_leaves_the_message_to_the_next_one", 2},
        {"rank_work", "what_is_under_way_or_collective_cannot_be_cancelled", 2},
        {"rank_mpi", "an_abort_cuts_a_long_message_off_and_other_groups_go_on", 2},
    };

    RUN_ALL(family, cases, NULL);
}

MPI_TEST(groups_have_communicators_of_their_own)
{
    static const struct a_case cases[] = {
        {"rank_groups", "a_group_has_the_members_of_its_list_in_that_order", 4},
        {"rank_groups", "groups_of_groups_split_and_translate", 4},
        {"rank_groups", "threads_make_different_groups_at_once", 3},
        {"rank_api", "init_and_destroy_again_and_again", 2},
        {"rank_mpi", "groups_over_mpi_and_over_tcp_live_side_by_side", 3},
    };

    RUN_ALL(family, cases, NULL);
}

MPI_TEST(mpi_composes_with_others_inside_hosts_and_between_them)
{
    static const char *const hosts[] = {"a", "a", "b", "b"};
    static const struct {
        const char *backend, *carrier;
    } ways[] = {{"TUTTI_BACKEND=local=mpi,remote=tcp", "TUTTI_TEST_CARRIER=mpi+tcp"},
                {"TUTTI_BACKEND=local=shm,remote=mpi", "TUTTI_TEST_CARRIER=shm+mpi"}};

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        cr_expect(ranks_run(&(struct ranks_options){
                      .program = "rank_mpi",
                      .case_name = "mpi_composes_with_others",
                      .size = 4,
                      .timeout_ms = DEADLINE_MS,
                      .env = (const char *[]){ways[i].backend, ways[i].carrier, NULL},
                      .host_of = hosts,
                      .mpi = family}),
                  "%s", ways[i].backend);
}

/* A job that did not ask for one does not get one: each is slower than tutti's own backends. */
MPI_TEST(auto_takes_no_foreign_engine_on_one_host_or_over_several)
{
    static const struct {
        const char *hosts[4], *carrier;
    } layouts[] = {{{"a", "a", "a", "a"}, "TUTTI_TEST_CARRIER=shm"},
                   {{"a", "a", "b", "b"}, "TUTTI_TEST_CARRIER=shm+tcp"},
                   {{"a", "b", "c", "d"}, "TUTTI_TEST_CARRIER=tcp"}};
    static const char *const backends[] = {"auto", NULL};

    for (size_t i = 0; i < 2 * sizeof layouts / sizeof layouts[0]; i++)
        cr_expect(
            ranks_run(&(struct ranks_options){.program = "rank_mpi",
                                              .case_name = "auto_takes_no_foreign_engine",
                                              .size = 4,
                                              .backend = backends[i % 2],
                                              .timeout_ms = DEADLINE_MS,
                                              .env = (const char *[]){layouts[i / 2].carrier, NULL},
                                              .host_of = layouts[i / 2].hosts,
                                              .mpi = family}),
            "%s", layouts[i / 2].carrier);
}

/* Two members: MPICH never gives its CPU away in a call that blocks. */
MPI_TEST(the_blocking_forms_do_what_the_others_do)
{
    static const struct a_case cases[] = {
        {"rank_blocks", "gathers_take_every_form", 2},
        {"rank_blocks", "scatters_take_every_form", 2},
        {"rank_blocks", "all_to_all_takes_every_form", 2},
        {"rank_layouts", "members_may_differ_in_shape_and_strides", 3},
    };
    const char *const env[] = {"TUTTI_MPI_BLOCKING=1", NULL};

    RUN_ALL(family, cases, env);
}

MPI_TEST(the_blocking_forms_give_up_deadlines_and_say_so)
{
    const char *const env[] = {"TUTTI_MPI_BLOCKING=1", NULL};
    struct ranks *ranks =
        ranks_start(&(struct ranks_options){.program = "rank_mpi",
                                            .case_name = "blocking_calls_have_no_deadline",
                                            .size = 2,
                                            .backend = "mpi",
                                            .timeout_ms = DEADLINE_MS,
                                            .env = env,
                                            .mpi = family});

    cr_assert_not_null(ranks);
    cr_assert(ranks_reach(ranks, RANKS_ALL, "calls"));
    usleep(1000000); /* longer than the deadline that nobody keeps */
    ranks_tell(ranks, 0, "go");
    cr_assert(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));

    const char *words = strstr(ranks_result(ranks, 0)->err, "TUTTI_MPI_BLOCKING=1");
    cr_expect(words && !strstr(words + 1, "TUTTI_MPI_BLOCKING=1"), "%s",
              ranks_result(ranks, 0)->err);
    ranks_free(ranks);
    run(family, &(struct a_case){"rank_mpi", "ranks_that_differ_in_blocking_make_no_group", 2},
        NULL);
}

/* MPI pairs small calls that differ, mostly without an error. One rank is late in every second, or in all once
 * more with TUTTI_TEST_LONG. */
MPI_TEST(small_calls_that_differ_are_told_to_all)
{
    static const char *const in[] = {"UNLIKE_IN=kind",
                                     "UNLIKE_IN=op",
                                     "UNLIKE_IN=count",
                                     "UNLIKE_IN=dtype",
                                     "UNLIKE_IN=roots_that_wait",
                                     "UNLIKE_IN=roots_that_send"};

    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++)
        for (int late = 0; late < 2; late++)
            if (late == (int)i % 2 || getenv("TUTTI_TEST_LONG"))
                run(family, &(struct a_case){"rank_unlike", "calls_that_differ_are_told_to_all", 2},
                    (const char *[]){in[i], late ? "UNLIKE_LATE=1" : NULL, NULL});
}

MPI_TEST(with_detail_calls_are_compared_before_anything_moves)
{
    static const char *const asks[] = {"UNLIKE_ASKS=all", "UNLIKE_ASKS=0", "UNLIKE_ASKS=1"};

    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++)
        run(family, &(struct a_case){"rank_unlike", "who_asks_hears_before_anything_moves", 2},
            (const char *[]){asks[i], NULL});
}

MPI_TEST(with_detail_on_one_rank_nobody_waits_for_ever)
{
    static const char *const env[][2] = {{NULL}, {"TUTTI_MPI_BLOCKING=1", NULL}};

    for (size_t i = 0; i < sizeof env / sizeof env[0]; i++)
        run(family, &(struct a_case){"rank_unlike", "who_asks_alone_goes_on_without_an_answer", 2},
            env[i]);
}

MPI_TEST(who_leaves_without_a_call_is_told_apart)
{
    run(family, &(struct a_case){"rank_unlike", "who_leaves_without_a_call_is_told_apart", 2},
        (const char *[]){NULL});
}

/* MPI_Finalize may hang over it. */
Test(over_mpi, mpich_has_no_tcp_on_one_host_unless_it_is_asked_for)
{
    const struct a_case it = {"rank_mpi", "mpich_has_no_tcp_on_one_host_unless_it_is_asked_for", 2};

    if (ranks_lack("mpich"))
        cr_skip_test("%s", ranks_lack("mpich"));
    run("mpich", &it, NULL);
    run("mpich", &it, (const char *[]){"UCX_TLS=self,sysv,tcp", NULL});
}

/* Its engine is in every build, its library is not. */
Test(over_mpi, the_standard_abi_without_its_library_is_refused_with_what_to_do)
{
    const char *const env[] = {"TUTTI_MPI=abi", NULL};

    if (dlopen("libmpi_abi.so.1", RTLD_LAZY))
        cr_skip_test("there is a libmpi_abi.so.1");
    char *path = strdup(getenv("PATH"));
    setenv("PATH", "/nowhere", 1); /* nor is there one beside an mpiexec */
    struct ranks *ranks =
        ranks_start(&(struct ranks_options){.program = "rank_api",
                                            .case_name = "init_and_destroy_again_and_again",
                                            .size = 2,
                                            .backend = "mpi",
                                            .timeout_ms = DEADLINE_MS,
                                            .env = env});
    setenv("PATH", path, 1);
    free(path);
    cr_assert_not_null(ranks);
    cr_assert(ranks_wait(ranks));
    for (int r = 0; r < 2; r++) {
        const char *words = ranks_result(ranks, r)->out;

        cr_expect(strstr(words, "rank 0: mpi: there is no libmpi_abi.so.1") &&
                      strstr(words, "pip install mpich"),
                  "rank %d: %s", r, words);
    }
    ranks_free(ranks);
}

/* An MPI would load components from a folder that OMPI_MCA_mca_base_component_path names. */
Test(over_mpi, a_set_id_program_loads_no_mpi_for_its_caller)
{
    static const char script[] =
        "setpriv --reuid=65534 --clear-groups test -r " LIBRARIES "/libtutti.so.0 || "
        "{ echo unreadable; exit; }; "
        "folder=$(mktemp -d) && chmod 755 $folder && cp " PROGRAMS
        "init_in_vain $folder/program && "
        "chown 65534 $folder/program && chmod 4755 $folder/program && cd / && "
        "env -u RANK -u WORLD_SIZE TUTTI_BACKEND=mpi OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 "
        "$folder/program 2>&1; rm -r $folder; findmnt -n -o OPTIONS -T /tmp";
    char said[4096] = "";

    if (geteuid())
        cr_skip_test("only root may give a program to another user");
    if (access(LIBRARIES "/tutti/0/libtutti-mpi.so", F_OK))
        cr_skip_test("the plugin mpi is not built");
    FILE *pipe = popen(script, "r");
    cr_assert_not_null(pipe);
    const size_t size = fread(said, 1, sizeof said - 1, pipe);
    pclose(pipe);
    said[size] = 0;
    if (!strcmp(said, "unreadable\n"))
        cr_skip_test("another user cannot read the library in %s", LIBRARIES);
    if (strstr(said, "nosuid"))
        cr_skip_test("set-id programs have no effect in /tmp");
    cr_expect_not_null(strstr(said, "a set-id program does not load an MPI"), "%s", said);
}
