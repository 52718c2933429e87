/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti run`: what ranks get, and what a failure looks like. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

/* Far below the time for which ranks here sleep, and above that of a slow machine. */
enum { SOON_S = 20, SLEEP_S = 60 };

Test(run, prefixes_whole_lines_with_the_rank, .timeout = 20)
{
    struct ran r = ran("$TUTTI run -n 3 -- sh -c 'echo out $RANK; echo err $RANK >&2'");

    cr_assert_eq(r.code, 0);
    for (int rank = 0; rank < 3; rank++) {
        g_autofree char *out = g_strdup_printf("[%d] out %d\n", rank, rank);
        g_autofree char *err = g_strdup_printf("[%d] err %d\n", rank, rank);

        CONTAINS(r.out, out);
        CONTAINS(r.err, err);
    }
    cr_assert_eq(count_of(r.out, "\n"), 3);
    cr_assert_eq(count_of(r.err, "\n"), 3);
    ran_free(&r);
}

Test(run, sets_the_variables_that_torchrun_sets, .timeout = 20)
{
    struct ran r = ran("export TUTTI_RUN_ID=old RANK=9; $TUTTI run -n 2 --backend shm env");
    static const char *const rank_1[] = {"RANK=1",
                                         "LOCAL_RANK=1",
                                         "WORLD_SIZE=2",
                                         "LOCAL_WORLD_SIZE=2",
                                         "GROUP_RANK=0",
                                         "GROUP_WORLD_SIZE=1",
                                         "ROLE_NAME=default",
                                         "ROLE_RANK=1",
                                         "ROLE_WORLD_SIZE=2",
                                         "MASTER_ADDR=127.0.0.1",
                                         "MASTER_PORT=",
                                         "TORCHELASTIC_USE_AGENT_STORE=True",
                                         "TORCHELASTIC_RESTART_COUNT=0",
                                         "TORCHELASTIC_MAX_RESTARTS=0",
                                         "TORCHELASTIC_RUN_ID=",
                                         "TUTTI_RUN_ID=",
                                         "TUTTI_STORE=tcp://127.0.0.1:",
                                         "TUTTI_BACKEND=shm"};

    cr_assert_eq(r.code, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(rank_1); i++) {
        g_autofree char *line = g_strdup_printf("\n[1] %s", rank_1[i]);

        CONTAINS(r.out, line);
        cr_assert_eq(count_of(r.out, line), 1);
    }
    LACKS(r.out, "TUTTI_RUN_ID=old");
    CONTAINS(r.out, "[0] RANK=0\n");
    ran_free(&r);
}

Test(run, gives_stdin_to_rank_0_only, .timeout = 20)
{
    struct ran r = ran("echo words | $TUTTI run -n 3 -- cat");

    cr_assert_eq(r.code, 0);
    cr_assert_str_eq(r.out, "[0] words\n");
    ran_free(&r);
}

/* sched_yield() leaves the CPU to threads of the own session alone where Linux makes a scheduling group of each. */
Test(run, ranks_share_a_session_and_have_groups_of_their_own, .timeout = 20)
{
    struct ran r = ran("$TUTTI run -n 2 -- sh -c 'set -- $(cat /proc/$$/stat); "
                       "[ $5 = $$ ] && [ $6 != $$ ] && echo session $6' | sort");
    g_auto(GStrv) lines = g_strsplit(r.out, "\n", -1);

    cr_assert_eq(r.code, 0);
    cr_assert_eq(g_strv_length(lines), 3, "%s", r.out);
    cr_expect(g_str_has_prefix(lines[0], "[0] session "), "%s", r.out);
    cr_expect_str_eq(lines[0] + strlen("[0]"), lines[1] + strlen("[1]"));
    ran_free(&r);
}

Test(run, runs_a_python_script_that_is_not_executable, .timeout = 30)
{
    g_autofree char *python = g_find_program_in_path("python3");

    if (!python)
        cr_skip_test("there is no python3");
    char *folder = folder_new();
    struct ran r = ran("cd '%s' &&"
                       "echo 'import os, sys; print(os.environ[\"RANK\"], sys.argv[1])' > a.py &&"
                       "$TUTTI run -n 2 a.py x",
                       folder);

    cr_assert_eq(r.code, 0);
    CONTAINS(r.out, "[1] 1 x\n");
    folder_remove(folder);
    ran_free(&r);
}

Test(run, a_rank_that_finishes_early_is_no_error, .timeout = 20)
{
    struct ran r = ran("$TUTTI run -n 2 -- sh -c '[ $RANK = 1 ] || { sleep 0.5; echo last; }'");

    cr_assert_eq(r.code, 0);
    cr_assert_str_eq(r.out, "[0] last\n");
    cr_assert_str_empty(r.err);
    ran_free(&r);
}

/* ---- failures ---- */

Test(run, says_how_the_first_rank_failed_and_exits_as_it_did, .timeout = 60)
{
    static const struct {
        const char *how;
        int code;
        const char *words;
    } cases[] = {
        {"exit 3", 3, "rank 1 (pid "},
        {"exit 3", 3, ") exited with code 3\n"},
        {"kill -ABRT $$", 134, "was ended by signal 6 (SIGABRT, Aborted)"},
        {"kill -SEGV $$", 139, "was ended by signal 11 (SIGSEGV, Segmentation fault)"},
        {"kill -KILL $$", 137, "was ended by signal 9 (SIGKILL, Killed)"},
        {"kill -KILL $$", 137, "not the launcher, not the OOM killer"},
        {"kill -TERM $$", 143, "was ended by signal 15 (SIGTERM, Terminated)"},
        {"exit 3", 3, "rank 1 printed nothing on stderr"},
        {"echo why >&2; exit 4", 4, "the last line of rank 1:"},
        {"echo why >&2; exit 4", 4, "  why\n"},
        {"exit 5", 5, "  ranks 0,2: ended by the launcher (SIGTERM)\n"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("ulimit -c 0; $TUTTI run -n 3 --wait 0 -- sh -c "
                           "'[ $RANK = 1 ] || exec sleep %d; %s'",
                           SLEEP_S, cases[i].how);

        cr_assert_eq(r.code, cases[i].code, "%s gives %d", cases[i].how, r.code);
        CONTAINS(r.err, cases[i].words);
        cr_assert_lt(r.seconds, SOON_S);
        ran_free(&r);
    }
}

Test(run, the_block_is_the_last_thing_printed_and_has_the_last_twenty_lines, .timeout = 20)
{
    struct ran r = ran("LC_ALL=C $TUTTI run -n 2 -- sh -c '[ $RANK = 0 ] || exec sleep 30;"
                       "for i in $(seq 40); do echo line $i; done >&2; exit 1' 2>&1 |"
                       "sed -n '/^+---/,$p'");

    LACKS(r.out, "line 20\n");
    CONTAINS(r.out, "  line 21\n");
    CONTAINS(r.out, "  line 40\n");
    cr_assert_eq(r.out[0], '+');
    cr_assert(g_str_has_suffix(r.out, "--\n"));
    cr_assert_eq(count_of(r.out, "\n+"), 1, "no line after the lower border");
    ran_free(&r);
}

Test(run, a_rank_that_fails_after_another_is_not_the_culprit, .timeout = 40)
{
    char *folder = folder_new();
    /* Rank 2 fails when ranks 0 and 1 are prepared, and rank 3 has been seen to end. */
    struct ran r =
        ran("cd '%s'; $TUTTI run -n 4 -- sh -c '[ $RANK = 3 ] && { echo $$ >n3; mv n3 3; exit 0; };"
            "trap \"echo lost rank 2 >&2; exit 1\" TERM; echo >$RANK;"
            "[ $RANK = 2 ] || while :; do sleep 0.05; done;"
            "until [ -e 0 -a -e 1 -a -e 3 ]; do sleep 0.02; done;"
            "while kill -0 $(cat 3) 2>/dev/null; do sleep 0.02; done;"
            "echo culprit >&2; exit 9'",
            folder);

    cr_assert_eq(r.code, 9);
    CONTAINS(r.err, "rank 2 (pid ");
    CONTAINS(r.err, "  culprit\n");
    CONTAINS(r.err, "before it:");
    CONTAINS(r.err, "  rank 3: finished with code 0\n");
    CONTAINS(r.err, "after it:");
    CONTAINS(r.err, "  ranks 0,1: exited with code 1 while the launcher ended the job\n");
    folder_remove(folder);
    ran_free(&r);
}

/* Waits until the rank whose shell has written its number into a file has ended; nobody takes its
 * end away while the launcher is stopped. */
static bool wait_for_end(const char *folder, const char *file)
{
    g_autofree char *pid = folder_read(folder, file);
    g_autofree char *path = g_strdup_printf("/proc/%d/stat", atoi(pid));

    for (gint64 until = g_get_monotonic_time() + SOON_S * G_USEC_PER_SEC;
         g_get_monotonic_time() < until; g_usleep(5000)) {
        g_autofree char *text = NULL;

        if (!g_file_get_contents(path, &text, NULL, NULL) || strstr(text, ") Z "))
            return true;
    }
    return false;
}

/* What is printed of a job whose ranks 1, 2 and 0 exit in this order, which the launcher sees together;
 * those beyond them stay. */
static char *log_of_exits_seen_together(int ranks)
{
    char *folder = folder_new();
    g_autofree char *log = g_build_filename(folder, "log", NULL);
    g_autofree char *words =
        g_strdup_printf("run -n %d -- sh -c 'cd %s; echo $$ >n$RANK; mv n$RANK here$RANK; "
                        "while ! [ -e go$RANK ]; do sleep 0.02; done; exit 1$RANK'",
                        ranks, folder);
    pid_t pid = command_start(words, log);
    static const char *const order[][2] = {{"go1", "here1"}, {"go2", "here2"}, {"go0", "here0"}};

    for (size_t i = 0; i < G_N_ELEMENTS(order); i++)
        cr_assert(wait_for_file(folder, order[i][1], SOON_S));

    pid_t launcher = child_of(pid);

    cr_assert_gt(launcher, 0);
    kill(launcher, SIGSTOP);
    for (size_t i = 0; i < G_N_ELEMENTS(order); i++) {
        g_autofree char *file = g_build_filename(folder, order[i][0], NULL);

        g_file_set_contents(file, "", 0, NULL);
        cr_assert(wait_for_end(folder, order[i][1]));
    }
    kill(launcher, SIGCONT);
    cr_assert_eq(command_wait(pid, SOON_S), 11);

    char *text = folder_read(folder, "log");

    folder_remove(folder);
    return text;
}

Test(run, the_order_of_exits_is_known_even_when_they_are_seen_together, .timeout = 60)
{
    g_autofree char *text = log_of_exits_seen_together(3);

    CONTAINS(text, "rank 1 (pid ");
    CONTAINS(text, "  rank 0: exited with code 10\n");
    CONTAINS(text, "  rank 2: exited with code 12\n");
}

Test(run, ranks_that_exited_are_told_from_those_the_launcher_ended, .timeout = 60)
{
    g_autofree char *text = log_of_exits_seen_together(4);

    CONTAINS(text, "rank 1 (pid ");
    CONTAINS(text, "  rank 0: exited with code 10 before the launcher ended the job\n");
    CONTAINS(text, "  rank 3: ended by the launcher (SIGTERM)\n");
}

/* A rank that fails while the others wait until it is gone, and then do what `then` says. */
static struct ran ran_with_a_failure(const char *options, const char *then)
{
    char *folder = folder_new();
    struct ran r = ran("cd '%s'; $TUTTI run -n 3 %s -- sh -c '"
                       "[ $RANK = 1 ] && { echo $$ >n; mv n 1; exit 3; };"
                       "until [ -e 1 ]; do sleep 0.02; done;"
                       "while kill -0 $(cat 1) 2>/dev/null; do sleep 0.02; done; %s'",
                       folder, options, then);

    cr_assert_eq(r.code, 3);
    cr_assert_lt(r.seconds, SOON_S);
    folder_remove(folder);
    return r;
}

Test(run, the_others_may_say_what_they_know_of_a_failure_and_end, .timeout = 40)
{
    struct ran r = ran_with_a_failure("--wait 300", "sleep 0.2; echo lost rank 1 >&2; exit 4");

    CONTAINS(r.err, "[0] lost rank 1\n");
    CONTAINS(r.err, "[2] lost rank 1\n");
    CONTAINS(r.err, "  ranks 0,2: exited with code 4\n");
    ran_free(&r);
}

Test(run, ranks_that_outlive_a_failure_are_ended_after_the_wait, .timeout = 60)
{
    static const struct {
        const char *option;
        double seconds;
    } cases[] = {{"", 1}, {"--wait 1.5", 1.5}, {"--wait 0", 0}};

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran_with_a_failure(cases[i].option, "exec sleep 60");

        CONTAINS(r.err, "  ranks 0,2: ended by the launcher (SIGTERM)\n");
        cr_assert_geq(r.seconds, cases[i].seconds, "%s: %g s", cases[i].option, r.seconds);
        ran_free(&r);
    }
}

/* A training of which rank 2 is killed while it is under way. */
Test(run, every_rank_that_a_failure_leaves_writes_its_dump, .timeout = 60)
{
    char *folder = folder_new();
    g_autofree char *log = g_build_filename(folder, "log", NULL);
    g_autofree char *words =
        g_strdup_printf("run -n 4 --wait 20 -- sh -c 'cd %s; echo $$ > $RANK;"
                        "export TUTTI_DUMP_DIR=%s/dumps; exec %s/train_digits --epochs 100000'",
                        folder, folder, TUTTI_TEST_PROGRAMS);
    pid_t pid = command_start(words, log);

    cr_assert(wait_for_words(folder, "log", "[0] epoch ", SOON_S));

    g_autofree char *victim = folder_read(folder, "2");

    kill(atoi(victim), SIGKILL);
    cr_assert_eq(command_wait(pid, SOON_S), 137);

    g_autofree char *text = folder_read(folder, "log");
    struct ran dumps = ran("cd '%s' && echo dumps/tutti.?.*.json | wc -w", folder);

    CONTAINS(text, "  ranks 0,1,3: train_digits: ");
    CONTAINS(text, "  ranks 0,1,3: exited with code 1\n");
    cr_assert_str_eq(dumps.out, "3\n");
    ran_free(&dumps);
    folder_remove(folder);
}

/* What the report says of rank 1, which had to be killed. */
static double seconds_to_kill(const char *report)
{
    static const char words[] = "  rank 1: killed by the launcher: still there ";
    const char *at = strstr(report, words);
    char *end;

    cr_assert_not_null(at, "%s", report);
    double seconds = g_ascii_strtod(at + strlen(words), &end);
    cr_assert(g_str_has_prefix(end, " s after SIGTERM\n"), "%s", report);
    return seconds;
}

Test(run, a_rank_that_ignores_sigterm_is_killed_after_the_grace, .timeout = 40)
{
    char *folder = folder_new();
    struct ran r = ran("cd '%s'; $TUTTI run -n 2 --grace 0.5 -- sh -c "
                       "'trap \"\" TERM; [ $RANK = 1 ] && { echo > deaf; exec sleep %d; };"
                       "until [ -e deaf ]; do sleep 0.02; done; exit 1'",
                       folder, SLEEP_S);

    cr_assert_eq(r.code, 1);
    cr_assert_geq(seconds_to_kill(r.err), 0.5, "%s", r.err);
    cr_assert_geq(r.seconds, 0.5);
    cr_assert_lt(r.seconds, SOON_S);
    folder_remove(folder);
    ran_free(&r);
}

Test(run, the_report_says_how_long_the_grace_was_that_ctrl_c_cut_short, .timeout = 60)
{
    char *folder = folder_new();
    g_autofree char *log = g_build_filename(folder, "log", NULL);
    g_autofree char *words =
        g_strdup_printf("run -n 2 --grace 300 -- sh -c 'cd %s; [ $RANK = 0 ] && "
                        "{ until test -e deaf; do sleep 0.02; done; exit 7; };"
                        "trap \"echo > told\" TERM; echo > deaf; while :; do sleep 0.02; done'",
                        folder);
    pid_t pid = command_start(words, log);

    cr_assert(wait_for_file(folder, "told", SOON_S));
    kill(pid, SIGINT);
    cr_assert_eq(command_wait(pid, SOON_S), 7);

    g_autofree char *text = folder_read(folder, "log");

    cr_assert_lt(seconds_to_kill(text), SOON_S);
    folder_remove(folder);
}

Test(run, ctrl_c_does_not_wait_for_those_that_may_end_after_a_failure, .timeout = 60)
{
    char *folder = folder_new();
    g_autofree char *log = g_build_filename(folder, "log", NULL);
    g_autofree char *words =
        g_strdup_printf("run -n 2 --wait 300 -- sh -c 'cd %s; "
                        "[ $RANK = 0 ] && { echo $$ >n; mv n failed; exit 7; };"
                        "until [ -e failed ]; do sleep 0.02; done;"
                        "while kill -0 $(cat failed) 2>/dev/null; do sleep 0.02; done;"
                        "echo > seen; exec sleep 60'",
                        folder);
    pid_t pid = command_start(words, log);

    cr_assert(wait_for_file(folder, "seen", SOON_S));
    kill(pid, SIGINT);
    cr_assert_eq(command_wait(pid, SOON_S), 7);

    g_autofree char *text = folder_read(folder, "log");

    CONTAINS(text, "  rank 1: ended by the launcher (SIGTERM)\n");
    folder_remove(folder);
}

Test(run, a_stopped_rank_is_ended_too, .timeout = 40)
{
    struct ran r = ran("$TUTTI run -n 2 -- sh -c "
                       "'[ $RANK = 0 ] && { sleep 0.3; exit 1; }; kill -STOP $$; sleep %d'",
                       SLEEP_S);

    cr_assert_eq(r.code, 1);
    CONTAINS(r.err, "  rank 1: ended by the launcher (SIGTERM)\n");
    cr_assert_lt(r.seconds, SOON_S);
    ran_free(&r);
}

Test(run, names_the_out_of_memory_killer, .timeout = 60)
{
    /* Version 2 needs the memory controller handed down, version 1 a writable mount. */
    struct ran r =
        ran("set -e; g=/sys/fs/cgroup; f=memory.max;"
            "[ -d $g/memory ] && { g=$g/memory; f=memory.limit_in_bytes; };"
            "mkdir $g/tutti-test-$$ 2>/dev/null && g=$g/tutti-test-$$ || { echo SKIP; exit; };"
            "echo 48M 2>/dev/null > $g/$f || { rmdir $g; echo SKIP; exit; };"
            "sh -c \"echo \\$\\$ > $g/cgroup.procs; exec $TUTTI run -n 2 -- sh -c"
            " '[ \\$RANK = 1 ] || exec sleep 30; exec dd if=/dev/zero of=/dev/null bs=400M "
            "count=1'\" || true;"
            "for i in $(seq 50); do rmdir $g 2>/dev/null && break; sleep 0.1; done");

    if (strstr(r.out, "SKIP"))
        cr_skip_test("no control group with a limit of memory can be made here");
    CONTAINS(r.err, "rank 1 (pid ");
    CONTAINS(r.err, "was ended by signal 9 (SIGKILL, Killed)");
    CONTAINS(r.err, "out of memory: the control group's limit was reached");
    ran_free(&r);
}

Test(run, wrong_command_lines_are_answered_with_words, .timeout = 60)
{
    static const struct {
        const char *words;
        int code;
        const char *answer;
    } cases[] = {
        {"", 2, "Usage: tutti VERB"},
        {"rnu", 2, "unknown verb 'rnu'; did you mean 'run'?"},
        {"run", 2, "no program given"},
        {"run -n 0 true", 2, "-n '0': the number of ranks is 1 to 4096, or auto"},
        {"run -n -3 true", 2, "the number of ranks is 1 to 4096"},
        {"run -n 3x true", 2, "-n needs a number, not '3x'"},
        {"run -n", 2, "tutti run: missing argument for -n"},
        {"run --nproc-per-nod 3 true", 2, "did you mean --nproc-per-node?"},
        {"run --trace f true", 2, "tutti run: unknown option --trace\n"},
        {"run --grace -1 true", 2, "--grace '-1': a number of seconds from 0 to 86400"},
        {"run --wait -1 true", 2, "--wait '-1': a number of seconds from 0 to 86400"},
        {"run --wait nan true", 2, "--wait 'nan': a number of seconds"},
        {"run --wait abc true", 2, "tutti run: --wait 'abc' is not a number of seconds\n"},
        {"run --grace 1s true", 2, "tutti run: --grace '1s' is not a number of seconds\n"},
        {"run -np 2 true", 2, "tutti run: unknown option -np; did you mean -n?\n"},
        {"run --backend shm -np 2 true", 2, "tutti run: unknown option -np; did you mean -n?\n"},
        {"run --np 2 true", 2, "tutti run: unknown option --np; did you mean -n?\n"},
        {"run -n 2 -x A=B true", 2, "unknown option -x; the ranks have the launcher's environment"},
        {"run --nnodes 2 true", 2, "unknown option --nnodes; tutti run starts ranks on this host"},
        {"run --nnodes=1:4 true", 2, "unknown option --nnodes=1:4; tutti run starts ranks on"},
        {"run --rdzv_backend=c10d true", 2, "unknown option --rdzv_backend=c10d; the ranks meet"},
        {"run --master-port 1 true", 2, "unknown option --master-port; the ranks meet in a store"},
        {"run --max-restarts 3 true", 2, "unknown option --max-restarts; tutti run restarts"},
        {"run --oversubscribe true", 2, "unknown option --oversubscribe; tutti run does so"},
        {"run --bind-to core true", 2, "unknown option --bind-to; ranks are not bound to CPUs"},
        {"run -m true", 2, "unknown option -m; say tutti run -n 4 python3 -um MODULE\n"},
        {"run -n ./x", 2, "tutti run: -n needs a number, not './x'"},
        {"run --tee 3 true", 2, "tutti run: --tee takes no value, and there is no program '3'\n"},
        {"run --color=blue true", 2, "--color 'blue': auto, always or never"},
        {"run --tee=3 true", 2, "tutti run: --tee takes no value: '--tee=3'\n"},
        {"info --json=yes", 2, "tutti info: --json takes no value: '--json=yes'\n"},
        {"run no-such-program", 127, "program 'no-such-program' was not found in PATH"},
        {"run ./no/such/program", 127, "cannot be started: No such file or directory"},
        {"run /tmp", 126, "it is a directory"},
        {"run /etc/passwd", 126, "it is not executable (chmod +x /etc/passwd)"},
        {"run --log-dir /proc/none true", 1, "cannot make a log folder in /proc/none"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("$TUTTI %s", cases[i].words);

        cr_assert_eq(r.code, cases[i].code, "'%s' gives %d", cases[i].words, r.code);
        CONTAINS(r.err, cases[i].answer);
        cr_assert_str_empty(r.out);
        ran_free(&r);
    }
}

Test(run, a_file_that_is_no_program_is_said_to_be_none, .timeout = 20)
{
    char *folder = folder_new();
    struct ran r = ran("cd '%s' && echo words > a && chmod +x a && $TUTTI run -n 3 ./a", folder);

    cr_assert_eq(r.code, 126);
    CONTAINS(r.err,
             "program './a' cannot be started: Exec format error (built for another machine");
    cr_assert_eq(count_of(r.err, "\n"), 1);
    folder_remove(folder);
    ran_free(&r);
}

Test(run, an_interpreter_that_is_not_there_is_named, .timeout = 20)
{
    char *folder = folder_new();
    struct ran r =
        ran("cd '%s' && printf '#! /no/python3\\r\\n' > a && chmod +x a && $TUTTI run ./a", folder);

    cr_assert_eq(r.code, 127);
    cr_assert_str_eq(r.err, "tutti run: program './a' cannot be started: there is no interpreter "
                            "'/no/python3\\r', which its first line names\n");
    folder_remove(folder);
    ran_free(&r);
}

/* The kernel makes the interface of a new namespace, and nobody has set it up. */
Test(run, a_host_without_loopback_is_said_at_once, .timeout = 60)
{
    struct ran r = ran("unshare -n true 2>/dev/null || { echo SKIP; exit; };"
                       "unshare -n timeout -s KILL 20 $TUTTI run -n 2 %s/hello",
                       TUTTI_TEST_PROGRAMS);

    if (strstr(r.out, "SKIP"))
        cr_skip_test("no network namespace can be made here");
    cr_assert_eq(r.code, 1, "%d %s", r.code, r.err);
    cr_assert_str_eq(r.err, "tutti run: ranks could not reach the store on 127.0.0.1: Network is "
                            "unreachable (is the loopback interface up? ip link set lo up)\n");
    ran_free(&r);
}

Test(run, accepts_what_torchruns_users_type, .timeout = 20)
{
    struct ran r = ran("$TUTTI run --standalone --nnodes 1 --no-python --nproc_per_node=2 -- echo "
                       "--nproc=3");

    cr_assert_eq(r.code, 0, "%s", r.err);
    cr_assert_eq(count_of(r.out, "--nproc=3\n"), 2);
    ran_free(&r);

    r = ran("$TUTTI run --backend shm echo -np 3 -x A=B --nnodes 2");
    cr_assert_eq(r.code, 0, "%s", r.err);
    cr_assert_str_eq(r.out, "[0] -np 3 -x A=B --nnodes 2\n");
    ran_free(&r);

    r = ran("taskset -c 0 $TUTTI run -n auto -- echo words");
    cr_assert_eq(r.code, 0);
    cr_assert_str_eq(r.out, "[0] words\n");
    ran_free(&r);
}
