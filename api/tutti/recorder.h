/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder: each group keeps the last calls; always on. */
#ifndef TUTTI_RECORDER_H
#define TUTTI_RECORDER_H

#include <stdint.h>

#include <tutti/export.h>
#include <tutti/group.h>
#include <tutti/status.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TUTTI_RECORD_UNEVEN = 1 << 0,  /* blocks of different sizes; `count` may be 0 then */
    TUTTI_RECORD_MESSAGE = 1 << 1, /* point to point */
    TUTTI_RECORD_REFUSED = 1 << 2  /* a collective of a group that had failed: it was not begun */
};

/* One call, as it was made and as it was carried. */
typedef struct tutti_record {
    uint64_t sequence; /* of collectives: 1, 2, …; of point to point: its own count, 1, 2, … */
    uint64_t count;    /* elements */
    uint64_t bytes;    /* of the tensor */
    uint64_t tag;      /* point to point */
    const char *operation; /* "all_reduce", "broadcast", "barrier", "send", "recv"; static */
    const char *provider;  /* "shm", "tcp", "shm+tcp", "self"; of a message: what goes to its peer;
                              "none": refused; valid as long as the group */
    const char *algorithm; /* "all_reduce_inline", "all_gather_ring", …; "message" for point
                              to point; "none": refused; static */
    uint32_t dtype;        /* tutti_dtype, 0: none */
    int32_t op;            /* tutti_reduce_op, -1: none */
    int32_t peer;          /* root or peer, -1: none, or any until the message is there */
    int32_t state;         /* 0 queued, 1 running, 2 done, 3 failed */
    uint32_t flags;        /* TUTTI_RECORD_… */
    uint32_t reserved;
    const char *rule; /* of TUTTI_BACKEND that chose the provider, NULL: none; valid as long as
                              the group */
} tutti_record;

/**
 * Copies the latest records of the group's collectives and point to point calls, oldest first, at
 * most `capacity`, each `record_size` (sizeof(tutti_record)) bytes. `ret_count` receives how many.
 */
TUTTI_API tutti_status tutti_recorder_read(const tutti_group *group, tutti_record *ret_records,
                                           uint32_t record_size, uint32_t capacity,
                                           uint32_t *ret_count);

/**
 * Writes what every group of this process has called, what is unfinished and what it waits for, as
 * one JSON file for each context into `directory` (docs/formats.md); `tutti trace analyze` reads
 * the files of all ranks. The directory is made if need be, not its parents. A file is whole or not
 * there; a later dump of the process replaces an earlier one. From any thread, callbacks among them.
 *
 * directory  NULL: what TUTTI_DUMP_DIR names. With that variable set the same is also done on
 *            SIGUSR2, and when a group has failed, without being asked.
 *
 * Returns TUTTI_OK; TUTTI_ERR_INVALID_ARGUMENT: no directory, or nothing to dump as there was no
 * tutti_init(); TUTTI_ERR_SYSTEM: it cannot be written, with the reason.
 *
 * Semantics: PyTorch's Flight Recorder, for every backend and for messages too.
 */
TUTTI_API tutti_status tutti_recorder_dump(const char *directory);

/*
 * What this member moved over each kind of path since the group was made, payload and headers, as
 * far as tutti moved it. What a backend's engine moves for collectives of its own is not in it,
 * since no engine tells; calls that one served have an algorithm that ends in "_native".
 */
typedef struct tutti_traffic {
    uint32_t struct_size; /* set by the caller */
    uint32_t reserved;
    uint64_t sent_bytes;     /* written to connections (tcp and its like) */
    uint64_t received_bytes; /* read from connections */
    uint64_t sent_messages;  /* as transports count them */
    uint64_t mapped_bytes;   /* written to memory that other members map */
} tutti_traffic;

/** Counts what this member moved; ret_traffic->struct_size must be set. */
TUTTI_API tutti_status tutti_group_traffic(const tutti_group *group, tutti_traffic *ret_traffic);

#ifdef __cplusplus
}
#endif
#endif
