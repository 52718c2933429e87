/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody who can read a network records of it: the first bytes of each direction of each TCP
 * connection that begins meanwhile. A process of root reads a packet socket in the network namespace.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { WIRE_STREAMS = 512, WIRE_BYTES = 4096 };

struct wire_stream {
    uint32_t from, to; /* IPv4 addresses and ports, in the order of the network */
    uint16_t from_port, to_port;
    uint32_t next; /* sequence number */
    uint32_t size;
    uint8_t bytes[WIRE_BYTES];
};

struct wire {
    int count; /* read it after wire_stop() */
    struct wire_stream streams[WIRE_STREAMS];
};

/* What is recorded lies in memory that forked processes share. NULL: it cannot. */
struct wire *wire_start(const char *netns, pid_t *ret_recorder);
void wire_stop(pid_t recorder);
void wire_free(struct wire *wire);
/* Whether a stream has the bytes; or begins with them, for those that ciphertext has by chance. */
bool wire_has(const struct wire *wire, const void *bytes, size_t size);
bool wire_begins(const struct wire *wire, const void *bytes, size_t size);
