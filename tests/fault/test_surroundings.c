/* SPDX-License-Identifier: Apache-2.0 */
/* What is around a job may be hostile, poor or oversubscribed: it goes on, or says what it lacks. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fault.h"
#include "ports.h"

enum { RANKS = 4, HALF_OPEN = 80, GARBAGE_BYTES = 20000, CROWD = 8 };

/* ---- strangers on every port ----------------------------------------------------------------- */

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&address, sizeof address)) {
        close(fd);
        return -1;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void say(int fd, const void *bytes, size_t size)
{
    ssize_t ignored = send(fd, bytes, size, MSG_NOSIGNAL);

    (void)ignored;
}

/* A scan, random bytes, a browser, something that looks like a hello, and a great length. */
static void annoy(uint16_t port, unsigned *seed)
{
    static const uint8_t hello[] = {32,   0,    0, 0, 1, 0, 0, 0, 0x63, 0x74,
                                    0x74, 0x74, 1, 0, 0, 0, 9, 9, 9,    9};
    static const char browser[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static uint8_t bytes[GARBAGE_BYTES];
    uint8_t great[64];

    for (int kind = 0; kind < 5; kind++) {
        int fd = connect_to(port);

        if (fd < 0)
            continue;
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)(rand_r(seed) >> 8);
        memset(great, 0xff, sizeof great);
        if (kind == 1)
            say(fd, bytes, sizeof bytes);
        else if (kind == 2)
            say(fd, browser, sizeof browser - 1);
        else if (kind == 3)
            say(fd, hello, sizeof hello);
        else if (kind == 4)
            say(fd, great, sizeof great);
        close(fd);
    }
}

FAULT_TEST_WITH_ENGINES(surroundings, strangers_on_every_port_change_nothing)
{
    static int open_ones[PORTS_MAX * HALF_OPEN];
    uint16_t ports[PORTS_MAX];
    unsigned seed = (unsigned)getpid();
    int count = 0, opened = 0;
    struct ranks *ranks = fault_start(way, "rank_surroundings", "calls_until_told", RANKS, NULL);

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    count = ports_add((int)getpid(), ports, count); /* the store's */
    cr_assert_geq(count, 1);
    for (int r = 0; r < RANKS; r++)
        count = ports_add(ranks_pid(ranks, r), ports, count);
    cr_assert_geq(count, 1 + RANKS, "each rank has a control listener");
    fprintf(stderr, "%d ports\n", count);
    for (int lap = 0; lap < 5; lap++)
        for (int i = 0; i < count; i++)
            annoy(ports[i], &seed);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < HALF_OPEN; k++)
            if ((open_ones[opened] = connect_to(ports[i])) >= 0)
                opened++;
    for (int lap = 0; lap < 5; lap++)
        for (int i = 0; i < count; i++)
            annoy(ports[i], &seed);
    ranks_tell(ranks, 0, "enough");
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    while (opened)
        close(open_ones[--opened]);
    fault_finish(ranks);
}

/* ---- poor ------------------------------------------------------------------------------------ */

/* All return in time; when one fails, all fail. */
static void expect_words_or_success(const struct fault_way *way, struct ranks *ranks,
                                    int descriptors)
{
    char status[64], words[1024];
    int failed = 0;

    cr_assert(ranks_wait(ranks), "with %d descriptors somebody hangs", descriptors);
    for (int r = 0; r < RANKS; r++) {
        cr_expect(ranks_result(ranks, r)->passed, "with %d descriptors, rank %d:\n%s%s",
                  descriptors, r, ranks_result(ranks, r)->out, ranks_result(ranks, r)->err);
        cr_assert(ranks_value(ranks, r, "status", status, sizeof status) &&
                  ranks_value(ranks, r, "words", words, sizeof words));
        failed += strcmp(status, "TUTTI_OK") != 0;
        cr_expect(!strstr(words, "one host only") || strstr(words, "(rank 1: "),
                  "why rank 1 is no local peer is not said: %s", words);
        cr_expect(!strstr(words, "was lost") || !strstr(words, "did not arrive"),
                  "nobody was lost: %s", words);
        if (r == 1)
            fprintf(stderr, "%s, %d descriptors: %s: %s\n", way->name, descriptors, status, words);
    }
    cr_expect(failed == 0 || failed == RANKS, "with %d descriptors %d of %d ranks failed",
              descriptors, failed, RANKS);
}

FAULT_TEST_WITH_ENGINES(surroundings, few_descriptors_give_words_and_no_hang)
{
    for (int descriptors = 3; descriptors < 36; descriptors += 4) {
        char limit[64];

        snprintf(limit, sizeof limit, "TUTTI_TEST_DESCRIPTORS=%d", descriptors);
        struct ranks *ranks = fault_start(
            way, "rank_surroundings", "one_has_few_descriptors", RANKS,
            (const char *[]){limit, "TUTTI_TEST_VICTIM=1", "TUTTI_TEST_TIMEOUT_MS=1500", NULL});
        expect_words_or_success(way, ranks, descriptors);
        fault_finish(ranks);
    }
}

FAULT_TEST_WITH_ENGINES(surroundings, running_out_of_descriptors_gives_words_and_no_hang)
{
    struct ranks *ranks = fault_start(way, "rank_surroundings", "one_runs_out_of_descriptors",
                                      RANKS, (const char *[]){"TUTTI_TEST_VICTIM=1", NULL});

    expect_words_or_success(way, ranks, 4);
    fault_finish(ranks);
}

static void with_dev_shm(const struct fault_way *way, const char *options)
{
    char what[64];

    snprintf(what, sizeof what, "TUTTI_TEST_SHM=%s", options);
    struct ranks *ranks = fault_start(way, "rank_surroundings", "dev_shm_is_small_or_missing",
                                      RANKS, (const char *[]){what, NULL});

    cr_expect(ranks_wait(ranks));
    if (ranks_value(ranks, 0, "skipped", what, sizeof what)) {
        ranks_free(ranks);
        cr_skip_test("no mounts here: %s", what);
    }
    cr_expect(ranks_passed(ranks));
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(surroundings, a_dev_shm_of_1_mebibyte_changes_nothing)
{
    with_dev_shm(way, "size=1m");
}

FAULT_TEST_WITH_ENGINES(surroundings, no_dev_shm_changes_nothing)
{
    with_dev_shm(way, "none");
}

/* ---- oversubscribed -------------------------------------------------------------------------- */

/* UCC has no descriptor that tells of progress, so it is asked every 100 us: 9 % of a CPU. */
static const char *most_cpu(const struct fault_way *way)
{
    if (ranks_have_instruments())
        return "TUTTI_TEST_PER_CENT=30";
    return way == &fault_ucc ? "TUTTI_TEST_PER_CENT=20" : NULL;
}

static void expect_little_cpu(const struct fault_way *way, const char *case_name)
{
    struct ranks *ranks = fault_start(way, "rank_surroundings", case_name, CROWD,
                                      (const char *[]){most_cpu(way), NULL});
    char share[128];

    for (int r = 0; r < CROWD - 1; r++)
        cr_assert(ranks_reach(ranks, r, "waiting"));
    ranks_tell(ranks, CROWD - 1, "go");
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    for (int r = 0; r < CROWD - 1; r++)
        if (ranks_value(ranks, r, "share", share, sizeof share))
            fprintf(stderr, "rank %d over %s: %s\n", r, way->name, share);
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(surroundings, a_barrier_that_waits_for_5_s_uses_little_cpu)
{
    expect_little_cpu(way, "waits_in_a_barrier");
}

FAULT_TEST_WITH_ENGINES(surroundings, a_receive_that_waits_for_5_s_uses_little_cpu)
{
    expect_little_cpu(way, "waits_in_a_receive");
}

/* Containers of one machine are hosts that share its CPUs. */
static const struct fault_way apart = {.name = "tcp", .backend = "tcp", .host_of = {"a", "b"}};

static void expect_spinning(const struct fault_way *way, const char *case_name, bool spins)
{
    static const char *const env[] = {"TUTTI_DEBUG=INFO", NULL};
    static const char words[] = "2 ranks share the 1 CPU that rank 0 may use: waits do not spin";
    struct ranks *ranks = fault_start(way, "rank_surroundings", case_name, 2, env);

    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    const char *said = ranks_result(ranks, 0)->err;
    cr_expect_not_null(
        strstr(said, way == &apart ? "2 ranks, 2 hosts -> tcp" : "2 ranks, 1 host -> shm"), "%s",
        said);
    cr_expect_eq(!strstr(said, words), spins, "%s", said);
    fault_finish(ranks);
}

static void expect_spinning_on_a_cpu_each(const struct fault_way *way)
{
    cpu_set_t usable;

    if (sched_getaffinity(0, sizeof usable, &usable) || CPU_COUNT(&usable) < 2)
        cr_skip_test("there is one CPU");
    expect_spinning(way, "each_runs_on_a_cpu_of_its_own", true);
}

Test(surroundings, ranks_of_two_hosts_on_one_cpu_do_not_spin, .timeout = FAULT_TEST_S)
{
    expect_spinning(&apart, "all_run_on_one_cpu", false);
}

Test(surroundings, ranks_of_two_hosts_on_a_cpu_each_may_spin, .timeout = FAULT_TEST_S)
{
    expect_spinning_on_a_cpu_each(&apart);
}

Test(surroundings, local_peers_on_one_cpu_do_not_spin, .timeout = FAULT_TEST_S)
{
    expect_spinning(&fault_shm, "all_run_on_one_cpu", false);
}

Test(surroundings, local_peers_that_are_bound_to_a_cpu_each_may_spin, .timeout = FAULT_TEST_S)
{
    expect_spinning_on_a_cpu_each(&fault_shm);
}

/* The one that came first is a member; the other one hears why it is none. */
/* The one that lacks it computes afterwards: the others do not wait until it leaves. */
static void lack_memory(const struct fault_way *way, const char *batch)
{
    struct ranks *ranks = fault_start(
        way, "rank_fault", "one_lacks_memory", RANKS,
        (const char *[]){"TUTTI_TEST_VICTIM=1", "TUTTI_TEST_STAY_MS=2500", batch, NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    for (int r = 0; r < RANKS; r++)
        if (r != 1)
            ranks_tell(ranks, r, "go");
    usleep(100000); /* they wait in the call */
    ranks_tell(ranks, 1, "go");
    cr_assert(ranks_reach(ranks, 1, "lacking"));
    struct fault_expected expected = {.size = RANKS,
                                      .gone = 1u << 1,
                                      .status = "TUTTI_ERR_NO_MEMORY",
                                      .parts = {"rank 1: all_gather: "},
                                      .from_ns = ranks_point_ns(ranks, 1, "lacking"),
                                      .budget_ms = FAULT_BUDGET_MS};
    fault_expect(ranks, &expected);
    expected.gone = 0;
    expected.budget_ms = 0;
    fault_expect(ranks, &expected);
    fault_finish(ranks);
}

FAULT_TEST_WITH_ENGINES(surroundings, who_lacks_memory_for_a_collective_is_named_at_once)
{
    lack_memory(way, NULL);
}

FAULT_TEST(surroundings, a_rank_without_memory_for_a_batch_is_named_at_once)
{
    lack_memory(way, "TUTTI_TEST_BATCH=1");
}

FAULT_TEST(surroundings, a_process_with_the_rank_of_another_is_told_so)
{
    struct ranks *ranks = fault_start(way, "rank_surroundings", "two_are_the_same_rank", 3, NULL);
    char status[64], words[2048];
    int stale = 0, warned = 0;

    cr_assert(ranks_reach(ranks, RANKS_ALL, "told"));
    for (int r = 0; r < 3; r++) {
        cr_assert(ranks_value(ranks, r, "status", status, sizeof status) &&
                  ranks_value(ranks, r, "words", words, sizeof words));
        if (!strcmp(status, "TUTTI_OK"))
            continue;
        cr_expect_str_eq(status, "TUTTI_ERR_STALE", "rank %d: %s", r, words);
        cr_expect_not_null(strstr(words, "another process is rank 1, too"), "%s", words);
        stale++;
    }
    cr_expect_eq(stale, 1);
    ranks_tell(ranks, RANKS_ALL, "go");
    cr_expect(ranks_wait(ranks));
    for (int r = 1; r < 3; r++)
        warned += strstr(ranks_result(ranks, r)->err, "rank 1 was started twice: process ") != NULL;
    cr_expect_eq(warned, 1);
    fault_finish(ranks);
}
