/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes: one list, never renumbered. Negative numbers are errors.
 * TUTTI_STATUS_LIST(X) expands X(NAME, number, words) for each, so that tools and bindings can
 * make tables of their own.
 */
#ifndef TUTTI_STATUS_H
#define TUTTI_STATUS_H

#include <stdint.h>

#include <tutti/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/** X(NAME, number, "description"): every status. A number is never given to another status. */
#define TUTTI_STATUS_LIST(X)                                                                       \
    X(ERR_INVALID_ARGUMENT, -1, "invalid argument")                                                \
    X(ERR_UNSUPPORTED, -2, "not supported")                                                        \
    X(ERR_MISMATCH, -3, "members called different things")                                         \
    X(ERR_TIMEOUT, -4, "timed out")                                                                \
    X(ERR_PEER_LOST, -5, "a member was lost")                                                      \
    X(ERR_ABORTED, -6, "the group was aborted")                                                    \
    X(ERR_NOT_READY, -7, "not ready")                                                              \
    X(ERR_BUSY, -8, "busy")                                                                        \
    X(ERR_STALE, -9, "belongs to an earlier incarnation")                                          \
    X(ERR_FORKED, -10, "handle used in a forked child")                                            \
    X(ERR_CAPTURED, -11, "captured into a graph")                                                  \
    X(ERR_PLUGIN, -12, "plugin failed")                                                            \
    X(ERR_STORE, -13, "store failed")                                                              \
    X(ERR_DENIED, -14, "denied")                                                                   \
    X(ERR_NO_MEMORY, -15, "out of memory")                                                         \
    X(ERR_SYSTEM, -16, "system call failed")                                                       \
    X(ERR_NEWER_CALLER, -17, "caller is newer than the library")                                   \
    X(ERR_INTERNAL, -18, "internal error")                                                         \
    X(ERR_CORRUPT, -19, "data was altered on its way")

/* int32_t, so that the size of the type is the same in every language. */
typedef int32_t tutti_status;

enum {
    TUTTI_OK = 0,
#define TUTTI_STATUS_ENUM(name, number, words) TUTTI_##name = number,
    TUTTI_STATUS_LIST(TUTTI_STATUS_ENUM)
#undef TUTTI_STATUS_ENUM
};

/** The description of a status ("timed out"); static. An unknown number gives "unknown status". */
TUTTI_API const char *tutti_status_string(tutti_status status);

/** The name of a status ("TUTTI_ERR_TIMEOUT"); static. An unknown number gives "TUTTI_ERR_?". */
TUTTI_API const char *tutti_status_name(tutti_status status);

/**
 * The message of this thread's last failed call: what failed, where (rank, peer, operation, sequence),
 * why (the system's reason) and what to do. Never NULL; "" if no call has failed yet.
 * Valid until this thread's next call into tutti.
 */
TUTTI_API const char *tutti_last_error(void);

/** The fields behind tutti_last_error(). */
typedef struct tutti_error_info {
    uint32_t struct_size; /* set by the caller to sizeof(tutti_error_info) */
    tutti_status status;  /* of the failure; TUTTI_OK: there was none */
    int32_t system_errno; /* 0: no system call was involved */
    int32_t rank;         /* the caller's rank, -1: none */
    int32_t peer;         /* the member that the error is about, -1: none */
    int32_t reserved;
    uint64_t sequence;     /* of the collective, 0: none */
    const char *operation; /* static; "" when none */
    const char *message;   /* as tutti_last_error() */
    /* After a timeout: the ranks that this member waited for, as far as it knows. After a monitored
     * barrier on rank 0, all missing ranks; otherwise mostly `peer` alone. At most 256; NULL: none. Valid
     * as long as tutti_last_error(). */
    const int32_t *missing;
    uint32_t missing_count; /* how many `missing` has */
    uint32_t reserved_2;    /* 0 */
} tutti_error_info;

/** Fills `ret_info` (whose struct_size the caller set) from this thread's last error. */
TUTTI_API tutti_status tutti_last_error_info(tutti_error_info *ret_info);

#ifdef __cplusplus
}
#endif
#endif
