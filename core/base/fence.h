/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fence between «publish, then look whether anyone sleeps» and «say that I sleep, then look
 * whether anything was published», across processes. Publishing is hot and sleeping is not, so the
 * sleeper pays for both: membarrier(2) makes every running process that registered execute a full
 * fence. Where the kernel or a sandbox does not have it, both sides fence.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

/* Registers this process, once; false: membarrier cannot be used. */
bool fence_register(void);

/* The sleeper's side. */
void fence_heavy(void);

/* A full fence; ThreadSanitizer knows it only as an operation on an atomic. */
static inline void fence_full(void)
{
#if defined(__SANITIZE_THREAD__)
    static _Atomic int word;

    atomic_fetch_add(&word, 1);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* The publisher's side; `light` when it and the sleeper are both registered. */
static inline void fence_publish(bool light)
{
    if (light)
        atomic_signal_fence(memory_order_seq_cst);
    else
        fence_full();
}
