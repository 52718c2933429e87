/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores: the key/value service that members meet in before they can talk. Keys are byte strings
 * (NUL-terminated here), values are raw bytes. The tcp store speaks the protocol of
 * torch.distributed's TCPStore, client and server; the file store writes the format of its FileStore.
 *
 * Functions that may wait take a deadline as `timeout_ms` (0: the store's default, 300 s; negative
 * is refused). All are safe to call from any thread; calls of one store object queue behind each other.
 * Errors, with words in tutti_last_error(): TUTTI_ERR_STORE (the service is gone or refuses),
 * TUTTI_ERR_TIMEOUT (what was to be written may still come to be), TUTTI_ERR_INVALID_ARGUMENT (limits).
 */
#ifndef TUTTI_STORE_H
#define TUTTI_STORE_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/export.h>
#include <tutti/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_STORE_MAX_KEY 8192u        /* bytes */
#define TUTTI_STORE_MAX_VALUE (8u << 20) /* bytes */
#define TUTTI_STORE_MAX_KEYS 131072u     /* keys in one call */

typedef struct tutti_store tutti_store;               /* a client, reference counted */
typedef struct tutti_store_server tutti_store_server; /* the serving side of a tcp store */

/* Bytes that a store hands out; freed with tutti_store_value_free(). */
typedef struct tutti_store_value {
    void *data;  /* a NUL follows the last byte, not counted in `size` */
    size_t size; /* in bytes */
} tutti_store_value;

/** Frees the bytes and empties the value; NULL, and a value that is empty, are allowed. */
TUTTI_API void tutti_store_value_free(tutti_store_value *value);

/** In this process only; for tests and for threads as ranks. */
TUTTI_API tutti_status tutti_store_open_hash(tutti_store **ret_store);

/** A file that all members see; `path` is created when missing. `world_size` > 0 lets the last
 * member that closes remove the file. A file left by an earlier job is TUTTI_ERR_STALE. */
TUTTI_API tutti_status tutti_store_open_file(const char *path, int32_t world_size,
                                             int64_t timeout_ms, tutti_store **ret_store);

/** A client of the server at host:port; retries until the server is there or the time-out ends. */
TUTTI_API tutti_status tutti_store_open_tcp(const char *host, uint16_t port, int64_t timeout_ms,
                                            tutti_store **ret_store);

/** A view of `store` in which every key is preceded by `prefix` and '/'. Holds a reference. */
TUTTI_API tutti_status tutti_store_open_prefix(tutti_store *store, const char *prefix,
                                               tutti_store **ret_store);

/**
 * What a store of the program's own does, for tutti_store_create(). Zeroed members at the end are left
 * out; members are only appended.
 *
 * `self` is what tutti_store_create() was given. Keys end with NUL and are as the caller of tutti_store_set()
 * and its like gave them. No function waits for a key: tutti looks again after a pause. `timeout_ms` is what
 * is left of the call's deadline, 0 when it has passed; a function that cannot be done by then returns
 * TUTTI_ERR_TIMEOUT. tutti calls one function at a time, from those threads that call tutti_init(),
 * tutti_group_new() and the functions of this store. None calls this store again.
 *
 * Results: TUTTI_OK; TUTTI_ERR_TIMEOUT and TUTTI_ERR_NO_MEMORY are passed on; any other is TUTTI_ERR_STORE to
 * the caller, which ends what it was doing.
 */
typedef struct tutti_store_ops {
    uint32_t struct_size; /* of this struct, as the program was compiled with it */
    uint32_t reserved;    /* 0 */
    /** Stores `size` bytes under the key, over what was there; they are the caller's. */
    tutti_status (*set)(void *self, const char *key, const void *data, size_t size,
                        int64_t timeout_ms);
    /** Gives the bytes under the key by tutti_store_value_set(); tutti frees them. TUTTI_ERR_NOT_READY, at
     * once: the key is not there. */
    tutti_status (*get)(void *self, const char *key, int64_t timeout_ms,
                        tutti_store_value *ret_value);
    /** As tutti_store_compare_set(), in one step for all members. */
    tutti_status (*compare_set)(void *self, const char *key, const void *expected,
                                size_t expected_size, const void *desired, size_t desired_size,
                                int64_t timeout_ms, tutti_store_value *ret_value);
    /** Whether all of `count` keys are there now. NULL: each is asked for by get(). */
    tutti_status (*check)(void *self, const char *const *keys, size_t count, int64_t timeout_ms,
                          int32_t *ret_present);
    /** As tutti_store_add(), which is UNSUPPORTED when this is NULL; tutti itself does not need it. So
     * are the functions below. */
    tutti_status (*add)(void *self, const char *key, int64_t delta, int64_t timeout_ms,
                        int64_t *ret_value);
    /** As tutti_store_append(). */
    tutti_status (*append)(void *self, const char *key, const void *data, size_t size,
                           int64_t timeout_ms);
    /** Removes the key, and tells whether it was there. NULL: also tutti's own keys stay. */
    tutti_status (*remove)(void *self, const char *key, int64_t timeout_ms, int32_t *ret_existed);
    /** As tutti_store_num_keys(). */
    tutti_status (*num_keys)(void *self, int64_t timeout_ms, int64_t *ret_count);
    /** The last reference is gone; nothing is called any more. NULL: nothing is to be done. */
    void (*close)(void *self);
} tutti_store_ops;

/**
 * A store by functions of the program's own: what it has already (c10d::Store, etcd, a shared dictionary).
 *
 * ops        copied. struct_size, set, get and compare_set must be there.
 * self       handed to each function; may be NULL. Has to live until close().
 * ret_store  dropped by tutti_store_unref().
 *
 * Errors: INVALID_ARGUMENT, NEWER_CALLER, NO_MEMORY.
 */
TUTTI_API tutti_status tutti_store_create(const tutti_store_ops *ops, void *self,
                                          tutti_store **ret_store);

/** Makes `value` a copy of `size` bytes at `data`; for the functions of tutti_store_ops. What it had
 * before is not freed. Errors: INVALID_ARGUMENT, NO_MEMORY. */
TUTTI_API tutti_status tutti_store_value_set(tutti_store_value *value, const void *data,
                                             size_t size);

/** Takes one more reference, and returns `store`. */
TUTTI_API tutti_store *tutti_store_ref(tutti_store *store);
/** Drops a reference; the last one closes. NULL is allowed. */
TUTTI_API void tutti_store_unref(tutti_store *store);

/** Stores `size` bytes at `data`, which are copied, under `key`, over what was there: for every member
 * when the call returns. */
TUTTI_API tutti_status tutti_store_set(tutti_store *store, const char *key, const void *data,
                                       size_t size, int64_t timeout_ms);

/** Waits until the key is there. */
TUTTI_API tutti_status tutti_store_get(tutti_store *store, const char *key, int64_t timeout_ms,
                                       tutti_store_value *ret_value);

/** Adds `delta` to the decimal value of the key (missing: 0) and returns the sum. */
TUTTI_API tutti_status tutti_store_add(tutti_store *store, const char *key, int64_t delta,
                                       int64_t timeout_ms, int64_t *ret_value);

/** Stores `desired` when the value equals `expected` (an empty `expected` also matches a missing
 * key). `ret_value` receives what is stored afterwards; it equals `desired` on success. Where the
 * key is missing and `expected` is not empty nothing is stored and `ret_value` receives `expected`,
 * as in TCPStore: whoever passes `expected` equal to `desired` asks tutti_store_check() as well. */
TUTTI_API tutti_status tutti_store_compare_set(tutti_store *store, const char *key,
                                               const void *expected, size_t expected_size,
                                               const void *desired, size_t desired_size,
                                               int64_t timeout_ms, tutti_store_value *ret_value);

/** Whether every key is there now; never waits for one. */
TUTTI_API tutti_status tutti_store_check(tutti_store *store, const char *const *keys, size_t count,
                                         int64_t timeout_ms, int32_t *ret_present);

/** Waits until every key is there. */
TUTTI_API tutti_status tutti_store_wait(tutti_store *store, const char *const *keys, size_t count,
                                        int64_t timeout_ms);

/** Waits for all keys and returns their values in order; `ret_values` has room for `count`, and each
 * value is freed by the caller. */
TUTTI_API tutti_status tutti_store_multi_get(tutti_store *store, const char *const *keys,
                                             size_t count, int64_t timeout_ms,
                                             tutti_store_value *ret_values);

/** Adds bytes at the end of the key's value (missing: empty). */
TUTTI_API tutti_status tutti_store_append(tutti_store *store, const char *key, const void *data,
                                          size_t size, int64_t timeout_ms);

/** Removes the key. `ret_existed` (may be NULL) tells whether it was there. */
TUTTI_API tutti_status tutti_store_delete(tutti_store *store, const char *key, int64_t timeout_ms,
                                          int32_t *ret_existed);

/** The number of keys that the store holds, those of a prefix's siblings included. */
TUTTI_API tutti_status tutti_store_num_keys(tutti_store *store, int64_t timeout_ms,
                                            int64_t *ret_count);

/**
 * Serves a tcp store from a thread of this process. `address` is a numeric address or name to bind
 * ("127.0.0.1"), `port` 0 picks a free one, which tutti_store_server_port() tells.
 */
TUTTI_API tutti_status tutti_store_server_start(const char *address, uint16_t port,
                                                tutti_store_server **ret_server);
/** The port that is listened on. */
TUTTI_API uint16_t tutti_store_server_port(const tutti_store_server *server);
/** Stops serving and frees; clients see the connection end. NULL is allowed. */
TUTTI_API void tutti_store_server_stop(tutti_store_server *server);

#ifdef __cplusplus
}
#endif
#endif
