/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies out of a local peer's own memory, by process_vm_readv(2): one copy, and no hand-overs between the
 * members, which cost most where members outnumber CPUs. The kernel looks each page up, so the copy itself runs at
 * half the speed of one through the windows.
 *
 * A member shows an address of its own in its line (MAPPED_OWN_MEMORY) only if every member has found that it can
 * read all others: containers, Yama and other namespaces may forbid it. Each member has a proof: a random number
 * in its own memory, and where it lies in its area. Every copy reads the proof, too, in the same system
 * call, so that another process with the number of a dead member is not taken for it.
 *
 * The owner's call does not return before all have read, unless it fails. Then it revokes what its line
 * showed before the caller gets the buffer back, and a reader looks at that after each copy. So a reader never
 * completes a call with what the caller has written later.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/status.h>

/* In a member's area. */
struct peer_reads_word {
    _Alignas(128) _Atomic uint64_t proof; /* the number */
    _Atomic uint64_t proof_at;            /* its address in the owner's process */
    _Atomic uint32_t answer;  /* enum peer_reads_answer: whether the owner can read all others */
    _Atomic uint64_t revoked; /* lines up to this turn show nothing any more */
};

enum peer_reads_answer { PEER_READS_UNKNOWN, PEER_READS_WORK, PEER_READS_FAIL };

/* Of a member. */
struct peer_reads {
    uint64_t proof;
    int *processes; /* of each local peer: its number in this PID namespace; 0: not known */
    bool by_all;    /* everybody can read everybody */
    bool never;     /* somebody cannot */
};

struct mapped;

/* Before the group is complete. `processes` are copied. `allowed`: false: it neither reads nor is read. */
void peer_reads_begin(struct mapped *mapped, const int *processes, bool allowed);

/* Whether all members can read each other. Not before each of them has asked. The first time it reads all proofs. */
bool peer_reads_work(struct mapped *mapped);

/* Whether the kernel can read the first and the last of `bytes` of this process. */
bool peer_reads_can(const void *from, uint64_t bytes);

/*
 * Copies `bytes`, less than 2 GiB, at the address `from` of local peer `index`, whose line of the turn that was announced last
 * shows it. TUTTI_ERR_NOT_READY: the peer has ended, or its call has failed; the verdict follows.
 * TUTTI_ERR_SYSTEM, in words: the memory cannot be read.
 */
tutti_status peer_reads_copy(struct mapped *mapped, int index, void *to, const void *from,
                             size_t bytes);

/* The line of the turn that was announced last, and earlier ones, show nothing from now on. */
void peer_reads_revoke(struct mapped *mapped);
