/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of this process that local peers can map: a memfd, mapped at an address of the kernel's choice, or in
 * place of private pages that the program already has (adopted).
 *
 * Adopting copies the contents and moves the shared mapping onto the old addresses in one system call, so a
 * pointer into them stays valid and a reader sees no change. What another thread writes meanwhile may be
 * lost. Dropping adopted pages puts private ones in their place in the same way.
 *
 * All pages of the process are in one list. So memory that is shared already is shared with a further group
 * by the same descriptor.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/status.h>

struct pages {
    struct pages *next;
    int fd;
    bool adopted;
    int holders;
    unsigned char *base;
    uint64_t bytes; /* whole pages */
};

/* New pages, zeroed, that are in memory already; held once. */
tutti_status pages_allocate(uint64_t bytes, struct pages **ret_pages);

/*
 * The pages around [address, address + bytes), held once more: those that are shared already, or adopted
 * ones. INVALID_ARGUMENT, in words, when they are not the program's own private memory.
 */
tutti_status pages_adopt(void *address, uint64_t bytes, struct pages **ret_pages);

/* Gives them up. With the last holder they are unmapped, or private again if they were adopted. */
void pages_drop(struct pages *pages);

/*
 * Maps `bytes` of another process's pages at `at`, which is reserved. DENIED, SYSTEM: `fd` is not what
 * pages_allocate() or pages_adopt() makes.
 */
tutti_status pages_map(int fd, uint64_t offset, uint64_t bytes, void *at);

/* In a forked child: the pages are its parent's, and another thread may have held the lock. */
void pages_forget(void);

/* Bytes of a page. */
uint64_t pages_unit(void);
