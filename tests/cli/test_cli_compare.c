/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/compare: the tables, the file, and peers that fail. Peers are stand-ins found first in PATH, but where the
 * MPIs that are installed take part.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

static char *folder;

static void make_folder(void)
{
    folder = folder_new();
    if (access(TUTTI_TEST_PROGRAMS "/collectives_bench", X_OK))
        cr_skip_test("the benchmarks are not part of this build");
}

static void remove_folder(void)
{
    folder_remove(folder);
}

TestSuite(cli_compare, .init = make_folder, .fini = remove_folder);

#define COMPARE TUTTI_SOURCE_DIR "/bench/compare --build " TUTTI_TEST_PROGRAMS "/.. --rounds 1"

/* mpicc and mpirun of that name: each compiled program prints a version, and mpirun runs `script`. */
static void stand_in(const char *name, const char *script)
{
    struct ran made = ran(
        "cd '%s' && printf '%%s\\n' '#!/bin/sh' 'while [ \"$1\" != -o ]; do shift; done' "
        "'echo \"#!/bin/sh\" >\"$2\"; echo \"echo stand-in 1.0\" >>\"$2\"; chmod +x \"$2\"' "
        ">mpicc.%s && printf '%%s\\n' '#!/bin/sh' '%s' >mpirun.%s && chmod +x mpicc.%s mpirun.%s",
        folder, name, script, name, name, name);

    cr_assert_eq(made.code, 0, "%s", made.err);
    ran_free(&made);
}

/* What measure.h prints for a call of 4 us that is measured eight times. */
#define LINE                                                                                       \
    "printf \"peer\\tall_reduce\\t8\\t2\\thot\\tnear\\t4.000\\t4.000\\t8\\t\";"                    \
    "for i in 1 2 3 4 5 6 7 8; do printf \"4.000:50 \"; done; echo"

Test(cli_compare, the_installed_peers_are_in_the_tables_and_the_file, .timeout = 120)
{
    const bool is_long = getenv("TUTTI_TEST_LONG");
    struct ran it = ran(COMPARE " --results '%s' %s", folder, is_long ? "0 8 4096" : "0 4096");

    cr_expect_eq(it.code, 0, "%s%s", it.out, it.err);
    CONTAINS(it.out, "tutti-shm");
    CONTAINS(it.out, " 4096     2 touched");
    CONTAINS(it.err, "wrote ");
    ran_free(&it);

    it = ran("cat '%s'/*.md", folder);
    CONTAINS(it.out, "# tutti beside its peers on ");
    CONTAINS(it.out, "| commit of the tree |");
    CONTAINS(it.out, "### barrier, shm, 2 ranks, near");
    CONTAINS(it.out, "### all_reduce, shm, 2 ranks, far");
    const char *loses = strstr(it.out, "## Where tutti loses");
    const char *machine = strstr(it.out, "## Machine and programs");
    cr_expect(loses && machine && loses < machine, "the losses are not first:\n%s", it.out);
    ran_free(&it);
}

Test(cli_compare, losses_come_first_and_a_picture_is_drawn, .timeout = 60)
{
    stand_in("openmpi", LINE);
    stand_in("mpich", LINE);
    /* Nothing of tutti is as fast as the stand-in for its program. */
    struct ran it = ran("mkdir -p '%s/b/bin' && cd '%s/b/bin' && cp ../../mpirun.mpich tutti && "
                        "sed -i \"s/4.000/9.000/g\" tutti && cp tutti collectives_bench && "
                        "PATH='%s':\"$PATH\" " TUTTI_SOURCE_DIR
                        "/bench/compare --build .. --rounds 2 --results '%s' 8 16 >out && head -n "
                        "2 out; cat '%s'/*.md",
                        folder, folder, folder, folder, folder);

    CONTAINS(it.out, "Cells in which the best peer is faster: 2\n  0.44");
    CONTAINS(it.out, "Cells in which the best peer is faster: 2.\n\n| best/tutti |");
    CONTAINS(it.out, "| 0.44 | all_reduce | 8 | 2 | shm | near | 9.000 | 4.000 |");
    CONTAINS(it.out, "| 8 | hot | 9.000 (9.000–9.000; 16) |");
    CONTAINS(it.out, "Not seen in this session: shm, 2 ranks, far.");
    CONTAINS(it.out, "-all-reduce-shm.svg)");
    ran_free(&it);

    it = ran("cat '%s'/*-all-reduce-shm.svg", folder);
    CONTAINS(it.out, "all_reduce, shm, 2 ranks, near</text>");
    CONTAINS(it.out, "16 B</text>");
    ran_free(&it);
}

Test(cli_compare, beside_ucx_peers_use_shared_memory, .timeout = 60)
{
    if (access(TUTTI_PLUGINS "/libtutti-ucx.so", R_OK))
        cr_skip_test("the plugin ucx is not part of this build");
    stand_in("openmpi", "case \"$*\" in *tcp*) exit 3; esac; " LINE);
    stand_in("mpich", LINE);
    struct ran it = ran("PATH='%s':\"$PATH\" " COMPARE " --backend ucx 8", folder);

    cr_expect_eq(it.code, 0, "%s%s", it.out, it.err);
    CONTAINS(it.out, "tutti-ucx      openmpi        mpich");
    ran_free(&it);
}

Test(cli_compare, a_build_without_the_backends_plugin_is_named, .timeout = 60)
{
    struct ran it =
        ran("mkdir -p '%s/b/bin' && cd '%s/b/bin' && touch tutti collectives_bench && chmod +x * "
            "&& " TUTTI_SOURCE_DIR "/bench/compare --build .. --backend ucx 8",
            folder, folder);

    cr_expect_eq(it.code, 2);
    CONTAINS(it.err, "lib/tutti/0/libtutti-ucx.so is not there: build it");
    ran_free(&it);
}

Test(cli_compare, peers_that_fail_or_hang_are_named_and_left_out, .timeout = 60)
{
    stand_in("openmpi", "echo the last words >&2; exit 3");
    stand_in("mpich", "echo begun; setsid sleep 987.25 & sleep 987.25");
    struct ran it = ran("PATH='%s':\"$PATH\" " COMPARE " --timeout 2 8", folder);

    cr_expect_eq(it.code, 1);
    CONTAINS(it.err,
             "Open MPI in all_reduce of 8 bytes, 2 ranks, shm, ended with exit code 3; it is "
             "left out there\n  the last words");
    CONTAINS(it.err,
             "MPICH in all_reduce of 8 bytes, 2 ranks, shm, did not end within 2 s; it is left "
             "out there\n  begun");
    CONTAINS(it.out, "failed: MPICH in all_reduce");
    CONTAINS(it.out, "There is no ratio");
    cr_expect_eq(processes_with("987.25"), 0);
    ran_free(&it);
}

Test(cli_compare, ctrl_c_shows_the_figures_and_leaves_nothing, .timeout = 60)
{
    stand_in("openmpi", LINE);
    stand_in("mpich", "touch \"$OUT/begun\"; setsid sleep 987.75 & sleep 987.75");
    struct ran it =
        ran("export OUT='%s'; PATH=\"$OUT:$PATH\" " COMPARE
            " --results \"$OUT/results\" 8 >\"$OUT/out\" "
            "2>\"$OUT/err\" & n=0; until [ -e \"$OUT/begun\" ] || [ $n = 300 ]; do sleep 0.1; "
            "n=$((n + 1)); done; kill -INT $!; wait $!; echo \"code $?\"; cat \"$OUT/out\" "
            "\"$OUT/err\"",
            folder);

    CONTAINS(it.out, "code 130");
    CONTAINS(it.out, "all_reduce ");
    CONTAINS(it.out, "0 of 1 rounds in ");
    CONTAINS(it.out, "; interrupted");
    CONTAINS(it.out, "no round is complete");
    cr_expect_eq(processes_with("987.75"), 0);
    ran_free(&it);
}

Test(cli_compare, a_wrong_command_line_is_explained, .timeout = 60)
{
    static const struct {
        const char *words, *answer;
    } wrong[] = {
        {"--operations sum", "no operation is called sum; there are all_reduce, "},
        {"--backend shm,udp", "--backend udp is not valid: use shm, tcp, ucx, ucc, or several"},
        {"--ranks 2,1", "--ranks 1 is not valid: use a whole number of at least 2"},
        {"10", "10 bytes are no whole number of floats: use a multiple of 4"}};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct ran it = ran(COMPARE " %s", wrong[i].words);

        cr_expect_eq(it.code, 2);
        CONTAINS(it.err, wrong[i].answer);
        ran_free(&it);
    }
}
