/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/peer_reads.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "schedule/mapped.h"

static struct peer_reads_word *word_of(const struct mapped *mapped, int index)
{
    return &mapped->areas[index]->reads;
}

/* Reads the peer's proof behind `bytes` at `from`. As process_vm_readv(2); ESRCH: it is not the peer. */
static ssize_t read_proven(const struct mapped *mapped, int index, void *to, const void *from,
                           size_t bytes)
{
    const struct peer_reads_word *word = word_of(mapped, index);
    const uint64_t expected = atomic_load_explicit(&word->proof, memory_order_relaxed);
    uint64_t proof = ~expected;
    void *proof_at =
        (void *)(uintptr_t)atomic_load_explicit(&word->proof_at, memory_order_relaxed); /* NOLINT */
    const struct iovec here[] = {{to, bytes}, {&proof, sizeof proof}},
                       there[] = {{(void *)(uintptr_t)from, bytes}, {proof_at, sizeof proof}};
    const ssize_t count = process_vm_readv(mapped->reads.processes[index], here, 2, there, 2, 0);

    if (count != (ssize_t)(bytes + sizeof proof) || proof == expected)
        return count;
    errno = ESRCH;
    return -1;
}

static bool reads(const struct mapped *mapped, int index)
{
    char none;

    return mapped->reads.processes[index] > 0 &&
           read_proven(mapped, index, &none, NULL, 0) == (ssize_t)sizeof(uint64_t);
}

static void answer(struct mapped *mapped, enum peer_reads_answer value)
{
    atomic_store_explicit(&word_of(mapped, mapped->self)->answer, value, memory_order_release);
    mapped->reads.never |= value == PEER_READS_FAIL;
}

void peer_reads_begin(struct mapped *mapped, const int *processes, bool allowed)
{
    struct peer_reads_word *word = word_of(mapped, mapped->self);
    uint64_t *proof = &mapped->reads.proof;

    memcpy(mapped->reads.processes, processes, (size_t)mapped->local_size * sizeof *processes);
    atomic_store_explicit(&word->proof_at, (uintptr_t)&mapped->reads.proof, memory_order_relaxed);
    if (getrandom(proof, sizeof *proof, GRND_NONBLOCK) != sizeof *proof)
        allowed = false;
    atomic_store_explicit(&word->proof, *proof, memory_order_release);
    if (!allowed)
        answer(mapped, PEER_READS_FAIL);
}

static bool reads_all(const struct mapped *mapped)
{
    for (int i = 0; i < mapped->local_size; i++)
        if (i != mapped->self && !reads(mapped, i))
            return false;
    return true;
}

bool peer_reads_work(struct mapped *mapped)
{
    struct peer_reads *known = &mapped->reads;
    bool by_all = true;

    if (known->by_all || known->never)
        return known->by_all;
    if (atomic_load_explicit(&word_of(mapped, mapped->self)->answer, memory_order_relaxed) ==
        PEER_READS_UNKNOWN)
        answer(mapped, reads_all(mapped) ? PEER_READS_WORK : PEER_READS_FAIL);
    for (int i = 0; i < mapped->local_size; i++) {
        const uint32_t value =
            atomic_load_explicit(&word_of(mapped, i)->answer, memory_order_acquire);

        by_all &= value == PEER_READS_WORK;
        known->never |= value == PEER_READS_FAIL;
    }
    return known->by_all = by_all;
}

bool peer_reads_can(const void *from, uint64_t bytes)
{
    unsigned char ends[2];
    const struct iovec here = {ends, sizeof ends},
                       there[] = {{(void *)(uintptr_t)from, 1},
                                  {(void *)((uintptr_t)from + bytes - 1), 1}}; /* NOLINT */

    return process_vm_readv(getpid(), &here, 1, there, 2, 0) == (ssize_t)sizeof ends;
}

static bool is_revoked(const struct mapped *mapped, int index)
{
    atomic_thread_fence(memory_order_seq_cst); /* the copy was before this */
    return atomic_load_explicit(&word_of(mapped, index)->revoked, memory_order_relaxed) >=
           mapped->announced;
}

tutti_status peer_reads_copy(struct mapped *mapped, int index, void *to, const void *from,
                             size_t bytes)
{
    mapped->culprit = index;
    const ssize_t count = read_proven(mapped, index, to, from, bytes);
    if (count < 0 && errno == ESRCH)
        return TUTTI_ERR_NOT_READY;
    if (count != (ssize_t)(bytes + sizeof(uint64_t)))
        return error_set_errno(TUTTI_ERR_SYSTEM, count < 0 ? errno : EFAULT,
                               "cannot read the memory of rank %d; TUTTI_PEER_READS=0 goes "
                               "without",
                               mapped->ranks[index]);
    if (is_revoked(mapped, index))
        return TUTTI_ERR_NOT_READY;
    mapped->culprit = -1;
    return TUTTI_OK;
}

void peer_reads_revoke(struct mapped *mapped)
{
    atomic_store_explicit(&word_of(mapped, mapped->self)->revoked, mapped->announced,
                          memory_order_seq_cst);
}
