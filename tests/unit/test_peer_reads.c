/* SPDX-License-Identifier: Apache-2.0 */
/* Copies out of another process's memory: when they are made, and what becomes of them if that process ends, is
 * another one, or has the memory back. Member 1 is a child that lives until it is killed. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schedule/mapped.h"

enum { BYTES = 100000 };

static unsigned char original[BYTES], copied[BYTES];

struct pair {
    void *areas[2];
    struct mapped mapped; /* member 0 */
    pid_t child;          /* member 1 */
};

static void announce_barrier(struct mapped *mapped)
{
    const struct announce call = {1, 1, {.operation = OPERATION_BARRIER, .op = -1, .root = -1}};

    cr_assert_eq(mapped_announce(mapped, &call, NULL, 0), TUTTI_OK);
}

/* In the child: begins, asks, and waits for its end. */
static void be_member_1(struct pair *pair, bool allowed, pid_t parent)
{
    static const int ranks[2] = {3, 8};
    static struct mapped mapped;

    memset(original, 42, sizeof original);
    if (mapped_init(&mapped, 2, 1, pair->areas, ranks))
        _exit(1);
    peer_reads_begin(&mapped, (const int[]){parent, getpid()}, allowed);
    /* As in a group, all have begun before one asks. */
    for (int i = 0; i < 2000 && !atomic_load(&((struct mapped_area *)pair->areas[0])->reads.proof);
         i++)
        usleep(1000);
    for (int i = 0; i < 2000 && !peer_reads_work(&mapped) && !mapped.reads.never; i++)
        usleep(1000);
    for (int i = 0; i < 10000; i++)
        usleep(1000);
    _exit(0);
}

static void pair_open(struct pair *pair, bool allowed)
{
    static const int ranks[2] = {3, 8};
    const pid_t parent = getpid();

    for (int i = 0; i < 2; i++) {
        pair->areas[i] =
            mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq(pair->areas[i], MAP_FAILED);
    }
    cr_assert_eq(mapped_init(&pair->mapped, 2, 0, pair->areas, ranks), TUTTI_OK);
    pair->child = fork();
    cr_assert_geq(pair->child, 0);
    if (!pair->child)
        be_member_1(pair, allowed, parent);
    peer_reads_begin(&pair->mapped, (const int[]){parent, pair->child}, true);
    announce_barrier(&pair->mapped);
}

static void end_child(struct pair *pair)
{
    kill(pair->child, SIGKILL);
    waitpid(pair->child, NULL, 0);
}

static void pair_close(struct pair *pair)
{
    end_child(pair);
    mapped_free(&pair->mapped);
    for (int i = 0; i < 2; i++)
        munmap(pair->areas[i], MAPPED_BYTES);
}

/* The child may be slow to begin. */
static bool works_soon(struct pair *pair)
{
    struct mapped_area *area = pair->areas[1];

    for (int i = 0;
         i < 2000 && !atomic_load(&area->reads.proof) && !atomic_load(&area->reads.answer); i++)
        usleep(1000);
    for (int i = 0; i < 2000 && !peer_reads_work(&pair->mapped) && !pair->mapped.reads.never; i++)
        usleep(1000);
    return peer_reads_work(&pair->mapped);
}

static void open_working(struct pair *pair)
{
    pair_open(pair, true);
    if (works_soon(pair))
        return;
    pair_close(pair);
    cr_skip("this machine lets no process read another one's memory");
}

Test(peer_reads, bytes_of_another_process_are_copied, .timeout = 20)
{
    struct pair pair;

    open_working(&pair);
    cr_expect_eq(peer_reads_copy(&pair.mapped, 1, copied, original, BYTES), TUTTI_OK);
    cr_expect(copied[0] == 42 && copied[BYTES - 1] == 42);
    cr_expect_eq(original[0], 0, "the other process's, not this one's");
    cr_expect_eq(peer_reads_copy(&pair.mapped, 1, copied, original, 0), TUTTI_OK);
    pair_close(&pair);
}

Test(peer_reads, one_member_that_is_not_allowed_is_enough, .timeout = 20)
{
    struct pair pair;

    pair_open(&pair, false);
    cr_expect(!works_soon(&pair));
    cr_expect(pair.mapped.reads.never);
    pair_close(&pair);
}

Test(peer_reads, what_a_failed_call_showed_is_not_used, .timeout = 20)
{
    struct pair pair;
    struct mapped_area *area;

    open_working(&pair);
    area = pair.areas[1];
    atomic_store(&area->reads.revoked, 1);
    cr_expect_eq(peer_reads_copy(&pair.mapped, 1, copied, original, BYTES), TUTTI_ERR_NOT_READY);
    cr_expect_eq(pair.mapped.culprit, 1);
    peer_reads_revoke(&pair.mapped);
    cr_expect_eq(atomic_load(&((struct mapped_area *)pair.areas[0])->reads.revoked), 1);
    pair_close(&pair);
}

Test(peer_reads, memory_of_a_dead_process_is_left_to_the_verdict, .timeout = 20)
{
    struct pair pair;

    open_working(&pair);
    end_child(&pair);
    cr_expect_eq(peer_reads_copy(&pair.mapped, 1, copied, original, BYTES), TUTTI_ERR_NOT_READY);
    pair_close(&pair);
}

/* As if the number of the dead one had gone to it. */
Test(peer_reads, another_process_is_not_taken_for_the_peer, .timeout = 20)
{
    struct pair pair;

    open_working(&pair);
    pair.mapped.reads.processes[1] = getpid();
    cr_expect_eq(peer_reads_copy(&pair.mapped, 1, copied, original, BYTES), TUTTI_ERR_NOT_READY);
    pair_close(&pair);
}

Test(peer_reads, memory_that_cannot_be_read_is_said_in_words, .timeout = 20)
{
    struct pair pair;
    unsigned char *none;

    open_working(&pair);
    none = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_expect_eq(peer_reads_copy(&pair.mapped, 1, copied, none, BYTES), TUTTI_ERR_SYSTEM);
    cr_expect_not_null(strstr(tutti_last_error(), "rank 8"), "%s", tutti_last_error());
    cr_expect_not_null(strstr(tutti_last_error(), "TUTTI_PEER_READS=0"), "%s", tutti_last_error());
    cr_expect(!peer_reads_can(none, BYTES));
    cr_expect(peer_reads_can(original, BYTES));
    pair_close(&pair);
}
