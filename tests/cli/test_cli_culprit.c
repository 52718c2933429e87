/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti run` names the rank that is to blame, in whatever order the ranks exit. The default is a few runs
 * of each kind; TUTTI_TEST_RUNS is how many there are instead.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "harness/launch.h"

enum { RUNS = 2 };

static int runs_wanted(void)
{
    const char *given = getenv("TUTTI_TEST_RUNS");

    return given && atoi(given) > 0 ? atoi(given) : RUNS;
}

/* What goes before a command whose ranks load the library behind `backend`: its leaks are not ours. */
static const char *environment_of(const char *backend)
{
    return strcmp(backend, "mpi") == 0 ? ranks_lsan_options("openmpi") : "";
}

/* One job of the program leaver; two hosts with half of the ranks each where `backend` is composed. */
static struct ran leave(int ranks, const char *backend, const char *options, int who,
                        const char *how)
{
    if (!strcmp(backend, "composed"))
        return ran("TUTTI_BACKEND=local=shm,remote=tcp $TUTTI run -n %d %s -- sh -c "
                   "'TUTTI_HOST=h$((RANK * 2 / WORLD_SIZE)) exec %s/leaver %d %s'",
                   ranks, options, TUTTI_TEST_PROGRAMS, who, how);
    return ran("%s $TUTTI run -n %d --backend %s %s %s/leaver %d %s", environment_of(backend),
               ranks, backend, options, TUTTI_TEST_PROGRAMS, who, how);
}

static bool is_here(const char *backend)
{
    struct ran r;
    bool here;

    if (!strcmp(backend, "composed"))
        return true;
    r = ran("%s $TUTTI run -n 2 --backend %s %s/hello", environment_of(backend), backend,
            TUTTI_TEST_PROGRAMS);
    here = r.code == 0;
    ran_free(&r);
    return here;
}

/* Ranks that each end with `code`, and are to be blamed. */
static void blames(const char *backend, const char *how, int code)
{
    static const int sizes[] = {2, 4, 8};

    if (!is_here(backend))
        cr_skip_test("the backend is not here");
    for (int run = 0; run < runs_wanted(); run++)
        for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
            const int who = (run + 1) % sizes[i];
            struct ran r = leave(sizes[i], backend, "", who, how);
            g_autofree char *first = g_strdup_printf("first    rank %d (pid ", who);

            cr_assert_eq(r.code, code, "%d ranks, run %d: code %d\n%s", sizes[i], run, r.code,
                         r.err);
            CONTAINS(r.err, first);
            LACKS(r.err, "before it:");
            ran_free(&r);
        }
}

#define ON_EACH_BACKEND(name, how, code)                                                           \
    Test(culprit, name##_over_shm, .timeout = 7200)                                                \
    {                                                                                              \
        blames("shm", how, code);                                                                  \
    }                                                                                              \
    Test(culprit, name##_over_tcp, .timeout = 7200)                                                \
    {                                                                                              \
        blames("tcp", how, code);                                                                  \
    }                                                                                              \
    Test(culprit, name##_on_two_hosts, .timeout = 7200)                                            \
    {                                                                                              \
        blames("composed", how, code);                                                             \
    }                                                                                              \
    Test(culprit, name##_over_gloo, .timeout = 7200)                                               \
    {                                                                                              \
        blames("gloo", how, code);                                                                 \
    }                                                                                              \
    Test(culprit, name##_over_mpi, .timeout = 7200)                                                \
    {                                                                                              \
        blames("mpi", how, code);                                                                  \
    }

ON_EACH_BACKEND(a_rank_that_returns_without_destroy_is_first, "return", 3)

/* Ranks that learn of it only while they leave the group say so, too. Of two sides of the same size the
 * later one is blamed. */
Test(culprit, a_rank_with_a_wrong_root_in_the_last_call_is_first, .timeout = 7200)
{
    for (int run = 0; run < 10 * runs_wanted(); run++) {
        struct ran r = leave(2 + run % 2, run % 4 < 2 ? "shm" : "composed", "", 1, "root");

        cr_assert_eq(r.code, 1, "run %d: code %d\n%s", run, r.code, r.err);
        CONTAINS(r.err, "first    rank 1 (pid ");
        LACKS(r.err, "before it:");
        ran_free(&r);
    }
}

/* The others destroy the group that failed, and exit beside a world that has not. */
Test(culprit, a_rank_that_exits_with_0_beside_a_sub_group_is_first, .timeout = 7200)
{
    for (int run = 0; run < 4 * runs_wanted(); run++) {
        struct ran r = leave(4, run % 2 ? "shm" : "tcp", "", 1, "row");

        cr_assert_eq(r.code, 1, "run %d: code %d\n%s", run, r.code, r.err);
        CONTAINS(r.err, "first    rank 1 (pid ");
        CONTAINS(
            r.err,
            "exited with code 0, without leaving its group; the others failed because of this\n");
        ran_free(&r);
    }
}

Test(culprit, a_rank_is_first_however_it_ends, .timeout = 60)
{
    static const struct {
        const char *how;
        int code;
        const char *words;
    } cases[] = {
        {"exit", 3, "exited with code 3\n"},
        {"_exit", 3, "exited with code 3\n"},
        {"kill", 137, "was ended by signal 9 (SIGKILL, Killed)\n"},
        {"argument", 3, "    tutti_all_reduce: no operation takes the tensor's dtype"},
        {"abort", 3, "exited with code 3\n"},
        {"zero", 1,
         "exited with code 0, without leaving its group; the others failed because of this\n"},
        {"leave", 1,
         "exited with code 0 while others still needed it; they failed because of this\n"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = leave(4, "tcp", "", 2, cases[i].how);

        cr_assert_eq(r.code, cases[i].code, "%s gives %d\n%s", cases[i].how, r.code, r.err);
        CONTAINS(r.err, "first    rank 2 (pid ");
        CONTAINS(r.err, cases[i].words);
        CONTAINS(r.err, "  ranks 0,1,3: exited with code 1\n");
        ran_free(&r);
    }
}

/* The rank that times out fails first, and is not to blame. */
Test(culprit, a_rank_that_hangs_is_named_where_others_run_out_of_time, .timeout = 60)
{
    struct ran r = ran("LEAVER_TIMEOUT_MS=4000 $TUTTI run -n 3 --backend shm %s/leaver 1 hang",
                       TUTTI_TEST_PROGRAMS);

    cr_assert_eq(r.code, 1, "%s", r.err);
    CONTAINS(r.err, " it waited for rank 1 (pid ");
    CONTAINS(r.err, "), which was still running: it hung or was slow\n");
    CONTAINS(r.err, "rank 1: ended by the launcher (SIGTERM)\n");
    ran_free(&r);
}

Test(culprit, a_rank_that_is_stopped_is_named_where_others_run_out_of_time, .timeout = 60)
{
    struct ran r = ran("LEAVER_TIMEOUT_MS=4000 $TUTTI run -n 3 --backend shm %s/leaver 1 stop",
                       TUTTI_TEST_PROGRAMS);

    cr_assert_eq(r.code, 1, "%s", r.err);
    CONTAINS(r.err, " it waited for rank 1 (pid ");
    CONTAINS(r.err, "), which was stopped (SIGSTOP)\n");
    ran_free(&r);
}

Test(culprit, a_rank_that_takes_its_time_to_exit_keeps_its_code, .timeout = 60)
{
    /* Its group hears of the end before a handler that was registered earlier has run. */
    struct ran r = leave(3, "shm", "--wait 0", 1, "slow");

    cr_assert_eq(r.code, 3, "%s", r.err);
    CONTAINS(r.err, "first    rank 1 (pid ");
    CONTAINS(r.err, "exited with code 3\n");
    ran_free(&r);
}

/* A wrapper does not exit by itself in time: the launcher's own signal is not the cause of the failure. */
Test(culprit, a_wrapper_that_the_launcher_ended_is_said_to_be_so, .timeout = 60)
{
    static const struct {
        const char *options, *first, *fate;
    } cases[] = {
        {"--wait 0", "", " ended by the launcher (SIGTERM)\n"},
        {"--wait 0 --grace 0.1", "trap \"\" TERM;", " killed by the launcher: still there "}};

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct ran r = ran("$TUTTI run -n 3 --backend shm %s -- sh -c '%s %s/leaver 1 return; [ "
                           "$RANK != 1 ] && exit 1; sleep 20'",
                           cases[i].options, cases[i].first, TUTTI_TEST_PROGRAMS);

        CONTAINS(r.err, "first    rank 1 (pid ");
        CONTAINS(
            r.err,
            ") was exiting without tutti_group_destroy(); the others failed because of this\n");
        CONTAINS(r.err, cases[i].fate);
        LACKS(r.err, "sent by the rank or another process");
        LACKS(r.err, "was ended by signal");
        cr_assert_eq(r.code, 1, "%s", r.err);
        ran_free(&r);
    }
}

/* Rank 1 names the process of rank 2, which its wrapper has started, before or after that one has sent a
 * record of its own. The world is not as large as the job, so that numbers do not tell. */
static const char teller[] =
    "import os, socket, struct, sys, time\n"
    "me = int(os.environ['RANK'])\n"
    "path, _, token = os.environ['TUTTI_RUN_SOCKET'].split('/')\n"
    "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
    "def done(name, text=''):\n"
    "    open(name + '.new', 'w').write(text)\n"
    "    os.rename(name + '.new', name)\n"
    "def wait(name):\n"
    "    end = time.monotonic() + 20\n"
    "    while not os.path.exists(name) and time.monotonic() < end: time.sleep(0.01)\n"
    "    return open(name).read()\n"
    "def send(culprit, pid):\n"
    "    s.sendto(token.encode() + struct.pack('<IBIiiiii', 0x31525554, 1, me, -5, me, 7, culprit, "
    "pid) + bytes(4),\n"
    "             b'\\0' + path.encode())\n"
    "    done('sent%d' % me)\n"
    "first = int(sys.argv[1])\n"
    "if me == 0: sys.exit(0)\n"
    "if me == 2:\n"
    "    done('pid', str(os.getpid()))\n"
    "    if first == 1: wait('sent1')\n"
    "    send(-1, 0)\n"
    "    wait('gone')\n"
    "    time.sleep(0.3)\n"
    "    sys.exit(5)\n"
    "if first == 2: wait('sent2')\n"
    "send(2, int(wait('pid')))\n"
    "wait('sent2')\n"
    "done('gone')\n"
    "sys.exit(4)\n";

Test(culprit, a_wrapped_rank_is_blamed_in_whatever_order_records_come, .timeout = 60)
{
    g_autofree char *python = g_find_program_in_path("python3");

    if (!python)
        cr_skip_test("there is no python3");
    for (int first = 1; first <= 2; first++) {
        char *folder = folder_new();
        g_autofree char *script = g_build_filename(folder, "teller.py", NULL);

        cr_assert(g_file_set_contents(script, teller, -1, NULL));
        struct ran r = ran("cd '%s' && $TUTTI run -n 3 --wait 20 -- sh -c 'python3 teller.py %d; "
                           "exit $?'",
                           folder, first);

        CONTAINS(r.err, "first    rank 2 (pid ");
        cr_assert_eq(r.code, 5, "%s", r.err);
        ran_free(&r);
        folder_remove(folder);
    }
}

Test(culprit, a_job_inside_a_job_blames_its_own_rank, .timeout = 60)
{
    struct ran r =
        ran("$TUTTI run -n 2 -- sh -c '[ $RANK = 0 ] || exit 0; exec $TUTTI run -n 4 %s/leaver 2 "
            "return'",
            TUTTI_TEST_PROGRAMS);

    cr_assert_eq(r.code, 3, "%s", r.err);
    CONTAINS(r.err, "first    rank 2 (pid ");
    CONTAINS(r.err, "first    rank 0 (pid ");
    ran_free(&r);
}

Test(culprit, what_is_no_record_changes_nothing, .timeout = 60)
{
    g_autofree char *python = g_find_program_in_path("python3");

    if (!python)
        cr_skip_test("there is no python3");
    /* Rank 1 fails first and says of itself what it likes; rank 0 fails half a second after rank 1 has closed
     * its socket, that is, has ended. */
    struct ran r = ran("cd /tmp; $TUTTI run -n 2 --wait 5 -- python3 -c '\n"
                       "import os, random, socket, struct, sys, time\n"
                       "name, _, token = os.environ[\"TUTTI_RUN_SOCKET\"].split(\"/\")\n"
                       "order = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)\n"
                       "at = b\"\\0\" + name.encode() + b\".order\"\n"
                       "if os.environ[\"RANK\"] == \"0\":\n"
                       "    while order.connect_ex(at): time.sleep(0.01)\n"
                       "    order.recv(1); time.sleep(0.5); sys.exit(4)\n"
                       "order.bind(at); order.listen(); rank_0, _ = order.accept()\n"
                       "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                       "head = lambda place, culprit, pid: struct.pack(\"<IBIiiiii\", 0x31525554, "
                       "1, place, -5, 1, "
                       "2, culprit, pid)\n"
                       "full = head(1, 0, 0) + struct.pack(\"<I\", 3) + b\"why\"\n"
                       "sent = [os.urandom(random.randrange(1, 2000)) for i in range(200)]\n"
                       "sent += [full[:n] for n in range(len(full))] + [full + b\"x\"]\n"
                       "sent += [head(2 ** 31, 0, 0) + bytes(4), head(2, 0, 0) + bytes(4)]\n"
                       "sent += [head(1, 0, 0) + struct.pack(\"<I\", 2 ** 32 - 1) + b\"why\"]\n"
                       "sent += [head(1, 99, 0) + bytes(4), head(1, 1, os.getpid()) + bytes(4)]\n"
                       "for data in sent: s.sendto(token.encode() + data, b\"\\0\" + "
                       "name.encode())\n"
                       "sys.exit(5)'");

    cr_assert_eq(r.code, 5, "%s", r.err);
    CONTAINS(r.err, "first    rank 1 (pid ");
    CONTAINS(r.err, "  rank 0: exited with code 4\n");
    ran_free(&r);
}

/* Rank 1 ends first, and says that rank 0 is the reason. The launcher reads nothing meanwhile, and its queue has
 * room for few: a stranger's datagram takes none. */
Test(culprit, a_record_has_room_whatever_others_send, .timeout = 60)
{
    g_autofree char *python = g_find_program_in_path("python3");

    if (!python)
        cr_skip_test("there is no python3");
    struct ran r = ran("cd /tmp; $TUTTI run -n 2 --wait 5 -- python3 -c '\n"
                       "import os, signal, socket, struct, sys, time\n"
                       "if os.environ[\"RANK\"] == \"0\":\n"
                       "    time.sleep(0.5); sys.exit(4)\n"
                       "name, _, token = os.environ[\"TUTTI_RUN_SOCKET\"].split(\"/\")\n"
                       "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                       "s.setblocking(False)\n"
                       "record = struct.pack(\"<IBIiiiii\", 0x31525554, 1, 1, -5, 1, 2, 0, 0)\n"
                       "record += bytes(4)\n"
                       "os.kill(os.getppid(), signal.SIGSTOP)\n"
                       "try:\n"
                       "    for i in range(2000):\n"
                       "        s.sendto(os.urandom(32) + record, b\"\\0\" + name.encode())\n"
                       "    s.sendto(token.encode() + record, b\"\\0\" + name.encode())\n"
                       "finally: os.kill(os.getppid(), signal.SIGCONT)\n"
                       "sys.exit(5)'");

    cr_assert_eq(r.code, 4, "%s", r.err);
    CONTAINS(r.err, "first    rank 0 (pid ");
    ran_free(&r);
}

Test(culprit, a_rank_that_stays_stopped_when_all_others_have_ended_is_named, .timeout = 60)
{
    /* The rank itself, what its wrapper waits for, and what the wrapper's wrapper waits for. */
    static const char *const ways[] = {
        "kill -STOP $$", "sh -c \"kill -STOP \\$\\$\"; true",
        "sh -c \"sh -c \\\"kill -STOP \\\\\\$\\\\\\$\\\"; true\"; true"};

    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        struct ran r =
            ran("$TUTTI run -n 3 --stopped 1 -- sh -c '[ $RANK = 1 ] || exit 0; %s'", ways[i]);

        cr_assert_eq(r.code, 1, "%s", r.err);
        CONTAINS(r.err, "tutti run: rank 1 (pid ");
        CONTAINS(r.err,
                 " has been stopped for 3 s (SIGSTOP), and all others have ended; continue it ");
        CONTAINS(r.err,
                 ") stayed stopped (SIGSTOP) for 4 s, and all others had ended; exit code 1\n");
        cr_assert_lt(r.seconds, 20);
        ran_free(&r);
    }
}

Test(culprit, a_rank_that_was_stopped_for_a_while_is_no_failure, .timeout = 60)
{
    struct ran r = ran("$TUTTI run -n 2 --stopped 20 -- sh -c '[ $RANK = 1 ] || exit 0;"
                       "(sleep 4; kill -CONT $$) & kill -STOP $$; wait; exit 0'");

    cr_assert_eq(r.code, 0, "%s", r.err);
    ran_free(&r);
}

/* Its first thread sleeps or waits for a process that is stopped, and another one works. */
Test(culprit, a_rank_that_works_beside_a_stopped_child_is_not_stopped, .timeout = 60)
{
    static const char *const sleeps[] = {"time.sleep(5)", "child.wait()"};
    g_autofree char *python = g_find_program_in_path("python3");

    if (!python)
        cr_skip_test("there is no python3");
    for (size_t i = 0; i < G_N_ELEMENTS(sleeps); i++) {
        struct ran r = ran("$TUTTI run -n 2 --stopped 1 -- python3 -c '\n"
                           "import os, subprocess, threading, time\n"
                           "if os.environ[\"RANK\"] == \"0\": os._exit(0)\n"
                           "child = subprocess.Popen([\"sleep\", \"60\"])\n"
                           "os.kill(child.pid, 19)\n"
                           "def work():\n"
                           "    time.sleep(5)\n"
                           "    child.kill()\n"
                           "threading.Thread(target=work).start()\n"
                           "%s'",
                           sleeps[i]);

        cr_assert_eq(r.code, 0, "%s", r.err);
        LACKS(r.err, "stopped");
        ran_free(&r);
    }
}

/* ---- messages that all ranks print ---- */

/* The launcher holds a message for so long, for other ranks to print the same. */
static const double HOLD_S = 1.5;

/* All print it as one, with their number. In a job that took longer than a message is held, it may have come in
 * parts before; the last one is of all. */
static void expect_one(const struct ran *r, const char *ranks, const char *message)
{
    g_autofree char *whole = g_strconcat(ranks, message, NULL);
    const char *last = g_strrstr(r->err, message), *last_whole = g_strrstr(r->err, whole);

    cr_assert(last_whole && last == last_whole + strlen(ranks), "no \"%s\" at the end of:\n%s",
              whole, r->err);
    cr_assert(r->seconds > HOLD_S || count_of(r->err, message) == 1, "%s", r->err);
}

Test(culprit, ranks_that_fail_alike_print_one_message_with_their_number, .timeout = 120)
{
    const int ranks = ranks_have_instruments() ? 16 : 64;
    g_autofree char *who = g_strdup_printf("  ranks 0-%d (%d): ", ranks - 1, ranks);
    struct ran r =
        ran("$TUTTI run -n %d --wait 100 --backend nonesuch %s/hello", ranks, TUTTI_TEST_PROGRAMS);

    cr_assert_eq(r.code, 1, "%s", r.err);
    expect_one(&r, who, "group world: backend nonesuch is not usable on rank 0");
    ran_free(&r);
}

Test(culprit, those_that_lose_a_rank_print_one_message_for_all, .timeout = 60)
{
    struct ran r = leave(4, "tcp", "", 2, "return");

    expect_one(&r, "  ranks 0,1,3: ", "group world: rank 2 (host ");
    cr_assert_eq(count_of(r.err, "group world: "), count_of(r.err, "group world: rank 2 (host "));
    ran_free(&r);
}

/* The launcher knows a rank's message before the rank prints it. */
Test(culprit, ranks_that_lose_a_rank_between_calls_print_one_message, .timeout = 60)
{
    struct ran r = leave(4, "tcp", "", 2, "away");

    expect_one(&r, "  ranks 0,1,3: ", "group world: rank 2 (host ");
    cr_assert_eq(count_of(r.err, "group world: "), count_of(r.err, "group world: rank 2 (host "));
    ran_free(&r);
}

/* It can tell the launcher nothing, as it has no descriptor left for a socket. */
Test(culprit, a_first_rank_that_told_nothing_is_among_those_that_fail_alike, .timeout = 60)
{
    struct ran r = ran("$TUTTI run -n 3 -- sh -c '[ $RANK != 1 ] || ulimit -n 8; exec %s/hello'",
                       TUTTI_TEST_PROGRAMS);

    cr_assert_eq(r.code, 1, "%s", r.err);
    CONTAINS(r.err, "  ranks 0-2 (3): group world: ");
    CONTAINS(r.err, "Too many open files\n");
    ran_free(&r);
}

Test(culprit, with_logs_alone_the_report_has_the_message_of_all, .timeout = 60)
{
    char *folder = folder_new();
    g_autofree char *options = g_strdup_printf("--log-dir %s", folder);
    struct ran r = leave(3, "tcp", options, 1, "return");

    cr_assert_eq(r.code, 3, "%s", r.err);
    CONTAINS(r.err, "  ranks 0,2: group world: rank 1 (host ");
    cr_assert_eq(count_of(r.err, "group world: "), 1, "%s", r.err);
    CONTAINS(r.err, " logs     ");
    ran_free(&r);
    folder_remove(folder);
}

/* The ranks do not end: a service may go on for days after such a message. */
Test(culprit, a_job_that_goes_on_prints_the_message_of_all_at_once, .timeout = 60)
{
    char *folder = folder_new();
    g_autofree char *log = g_build_filename(folder, "log", NULL);
    g_autofree char *words =
        g_strdup_printf("run -n 3 -- sh -c 'cd %s; %s/leaver 9 return; sleep 40; exit 0'", folder,
                        TUTTI_TEST_PROGRAMS);

    g_setenv("TUTTI_BACKEND", "nonesuch", TRUE);
    const pid_t job = command_start(words, log);
    g_unsetenv("TUTTI_BACKEND");
    cr_expect(wait_for_words(folder, "log",
                             "tutti run: ranks 0-2 (3): group world: backend nonesuch is not", 25));
    kill(job, SIGTERM);
    cr_expect_eq(command_wait(job, 20), 128 + SIGTERM);
    g_autofree char *text = folder_read(folder, "log");
    cr_expect_eq(count_of(text, "ranks 0-2 (3): "), 1, "%s", text);
    folder_remove(folder);
}

/* The message of tutti stands between two NUL bytes, in a job without a report and in one with it. */
Test(culprit, bytes_after_a_nul_in_the_message_of_all_are_kept, .timeout = 60)
{
    static const char job[] = "$TUTTI run -n 2 --backend nonesuch -- sh -c 'said=$(%s/hello 2>&1); "
                              "printf \"\\000a%%s\\000behind\\n\" \"$said\" >&2; exit %d' 2>&1 "
                              "| tr '\\000' '#'";
    struct ran ends = ran(job, TUTTI_TEST_PROGRAMS, 0), fails = ran(job, TUTTI_TEST_PROGRAMS, 1);

    CONTAINS(ends.out, "tutti run: ranks 0,1: #agroup world: ");
    CONTAINS(ends.out, "#behind\n");
    CONTAINS(fails.out, "  ranks 0,1: agroup world: ");
    CONTAINS(fails.out, "behind\n");
    ran_free(&ends);
    ran_free(&fails);
}

Test(culprit, what_a_rank_prints_after_a_message_stays_behind_it, .timeout = 60)
{
    struct ran r = ran("LEAVER_MORE=more $TUTTI run -n 3 --backend tcp %s/leaver 2 return",
                       TUTTI_TEST_PROGRAMS);
    const char *message = strstr(r.err, "] group world: rank 2 (host "),
               *more = strstr(r.err, "more\n");

    cr_assert(message && more && message < more, "%s", r.err);
    cr_assert_eq(count_of(r.err, "more\n"), 2, "%s", r.err);
    CONTAINS(r.err, "  ranks 0,1: group world: rank 2 (host ");
    ran_free(&r);
}

Test(culprit, one_rank_that_prints_a_message_is_no_crowd, .timeout = 60)
{
    struct ran r = leave(2, "tcp", "", 1, "return");

    CONTAINS(r.err, "[0] group world: rank 1 (host ");
    cr_assert_eq(count_of(r.err, "group world: "), 1, "%s", r.err);
    ran_free(&r);
}
