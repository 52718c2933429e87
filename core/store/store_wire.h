/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire format of torch.distributed's TCPStore (torch 2.15): numbers, limits, and the server's
 * incremental parser of requests.
 *
 * Requests are not framed: an opcode, then fields that say their own length. The parser is fed with
 * bytes in any fragmentation, does no I/O, looks at no byte twice (beyond the current field's
 * length) and checks each length before it waits for what the length promises. Memory follows the
 * bytes that have really come, not those announced; an unfinished request is at most
 * STORE_WIRE_MAX_REQUEST bytes: two values for COMPARE_SET, or 131,072 keys of 200 bytes. That is the
 * one limit that TCPStore does not have: it has none on the sum, so that 131,072 values of 8 MiB were
 * legal.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/status.h>
#include <tutti/store.h>

#include "base/buffer.h"
#include "base/codec.h"

#define STORE_WIRE_MAGIC 0x3C85F7CEu
#define STORE_WIRE_MAX_REQUEST ((size_t)32 << 20)

enum store_opcode {
    STORE_VALIDATE,
    STORE_SET,
    STORE_COMPARE_SET,
    STORE_GET,
    STORE_ADD,
    STORE_CHECK,
    STORE_WAIT,
    STORE_GETNUMKEYS,
    STORE_DELETE_KEY,
    STORE_APPEND,
    STORE_MULTI_GET,
    STORE_MULTI_SET,
    STORE_CANCEL_WAIT,
    STORE_PING,
    STORE_QUEUE_PUSH,
    STORE_QUEUE_POP,
    STORE_QUEUE_LEN,
    STORE_LIST_KEYS,
    STORE_BARRIER,
    STORE_OPCODES
};

enum { /* single bytes of replies */
       STORE_REPLY_READY = 0,
       STORE_REPLY_CANCELLED = 1,
       STORE_REPLY_PRESENT = 0,
       STORE_REPLY_MISSING = 1
};

struct store_wire { /* zeroed before first use */
    struct buffer in;
    size_t start;       /* where the current request begins in `in` */
    size_t scanned;     /* bytes of it that are known to be well formed; 0: not begun */
    const char *fields; /* what comes after them */
    uint64_t elements;  /* keys and values of a list that are still to come */
    bool validated;     /* the connection has shown the magic */
    size_t max_request; /* 0: STORE_WIRE_MAX_REQUEST */
};

/* A whole, well-formed request. Valid until the parser is called again. */
struct store_request {
    enum store_opcode opcode;
    struct reader fields; /* that are still to be read, in their order */
};

tutti_status store_wire_feed(struct store_wire *wire, const void *data, size_t size);
/* The next whole request, if `ret_whole`; an error, with a message, if the peer broke the protocol. */
tutti_status store_wire_next(struct store_wire *wire, struct store_request *ret_request,
                             bool *ret_whole);

/* A field of bytes: a length of 64 bits, then as many. */
struct slice store_request_bytes(struct store_request *request);
