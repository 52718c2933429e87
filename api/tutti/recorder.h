/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder: each group always keeps a record of its last calls. */
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
    TUTTI_RECORD_REFUSED = 1 << 2, /* a collective of a group that had failed: it was not begun */
    TUTTI_RECORD_STAGED =
        1 << 3 /* tensors of this member are on a device, and had copies in pinned host
                                      memory; or its stream orders them there */
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
 * Copies the latest records of the group's collectives and point to point calls, oldest first. Copies
 * at most `capacity` records of `record_size` (sizeof(tutti_record)) bytes each. `ret_count` receives
 * their number.
 */
TUTTI_API tutti_status tutti_recorder_read(const tutti_group *group, tutti_record *ret_records,
                                           uint32_t record_size, uint32_t capacity,
                                           uint32_t *ret_count);

/**
 * Writes the calls of every group of this process, which of them are unfinished, and what they wait
 * for. Writes one JSON file for each context into `directory` (docs/formats.md); `tutti trace analyze`
 * reads the files of all ranks. Makes the directory, but not its parents. A file is complete or absent;
 * a later dump of the process replaces it. May be called from any thread and from callbacks.
 *
 * directory  NULL: TUTTI_DUMP_DIR. If that variable is set, tutti also dumps on SIGUSR2 and when a
 *            group fails.
 *
 * Returns TUTTI_OK; TUTTI_ERR_INVALID_ARGUMENT: no directory, or no tutti_init() before;
 * TUTTI_ERR_SYSTEM: the file cannot be written, with the reason.
 *
 * Semantics: PyTorch's Flight Recorder, for every backend and for messages too.
 */
TUTTI_API tutti_status tutti_recorder_dump(const char *directory);

/*
 * The bytes that this member moved since the group was made, payload and headers. Bytes that a
 * backend's engine moves for its own collectives are not counted, since no engine reports them. The
 * records of such calls have an algorithm that ends in "_native".
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
