/* SPDX-License-Identifier: Apache-2.0 */
/* What an endpoint tells the others: where UCX reaches its worker, and what both sides have to agree on. */
#pragma once

#include <stdbool.h>

#include "../common/caller.h"

enum {
    ADDRESS_HEAD_BYTES = 80,
    ADDRESS_MAC_BYTES = 32,
    ADDRESS_BLOB_MAX = 32 * 1024 /* UCX 1.13 and 1.22 have 46 to some hundred bytes */
};

struct ucx_address {
    uint16_t major, minor; /* of UCX */
    uint8_t boot_id[16];
    uint64_t network; /* the inode of the network namespace */
    uint32_t user;
    uint64_t process;    /* a random number of the process */
    uint64_t endpoint;   /* a random number of the endpoint */
    const void *blob;    /* UCP's address of the worker */
    uint64_t blob_bytes; /* 1 to ADDRESS_BLOB_MAX */
};

/* Fills in boot_id, network and user for this process; what is not known is 0. */
void address_of_this_host(struct ucx_address *address);

/* Whether both are on one host and may share memory. The answer is the same on both sides. */
bool address_is_local(const struct ucx_address *a, const struct ucx_address *b);

/* INTERNAL: `capacity` is too small. Other statuses are those of tutti_host.mac. */
tutti_status address_write(const struct caller *caller, const struct ucx_address *address,
                           void *ret_bytes, uint64_t capacity, uint64_t *ret_count);

/*
 * Reads another member's address and compares UCX's version with that of `own`. The blob of ret_address lies
 * in `bytes`, 8-aligned if `bytes` is. MISMATCH in words: bytes that no member of the group has written, or another
 * version of UCX or of this plugin.
 */
tutti_status address_read(const struct caller *caller, const struct ucx_address *own,
                          const void *bytes, uint64_t count, struct ucx_address *ret_address);
