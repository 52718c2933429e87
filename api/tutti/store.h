/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores: the key/value service that members meet in before they can talk. Keys are byte strings
 * (NUL-terminated here), values are raw bytes. The tcp store speaks the protocol of
 * torch.distributed's TCPStore, client and server; the file store writes the format of its FileStore.
 *
 * Functions that may wait take `timeout_ms` (0: the store's default, 300 s; negative is refused). Any
 * thread may call them; calls on one store object run one after another.
 * Errors, with a message in tutti_last_error(): TUTTI_ERR_STORE (the service is gone or refuses),
 * TUTTI_ERR_TIMEOUT (a write may still take effect later), TUTTI_ERR_INVALID_ARGUMENT (limits).
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

/** Frees the bytes and empties the value. NULL and an empty value are allowed. */
TUTTI_API void tutti_store_value_free(tutti_store_value *value);

/** In this process only; for tests and for threads as ranks. */
TUTTI_API tutti_status tutti_store_open_hash(tutti_store **ret_store);

/** A file that all members can open; `path` is created if it is missing. With `world_size` > 0, the
 * last member that closes removes the file. A file left by an earlier job is TUTTI_ERR_STALE. */
TUTTI_API tutti_status tutti_store_open_file(const char *path, int32_t world_size,
                                             int64_t timeout_ms, tutti_store **ret_store);

/** A client of the server at host:port; retries until the server answers or the timeout ends. */
TUTTI_API tutti_status tutti_store_open_tcp(const char *host, uint16_t port, int64_t timeout_ms,
                                            tutti_store **ret_store);

/** A view of `store` in which every key is preceded by `prefix` and '/'. Holds a reference. */
TUTTI_API tutti_status tutti_store_open_prefix(tutti_store *store, const char *prefix,
                                               tutti_store **ret_store);

/**
 * The functions of a program's own store, for tutti_store_create(). Leave members that you do not need
 * at zero; members are only appended.
 *
 * `self` is that of tutti_store_create(). Keys end with NUL and are passed as the caller gave them. No
 * function waits for a key: tutti asks again after a pause. `timeout_ms` is the time left of the call's
 * deadline, 0 if it has passed. A function that cannot finish by then returns TUTTI_ERR_TIMEOUT. tutti
 * calls one function at a time, on the threads that call tutti_init(), tutti_group_new() and the
 * functions of this store. A function must not call this store.
 *
 * Results: TUTTI_OK, TUTTI_ERR_TIMEOUT and TUTTI_ERR_NO_MEMORY are passed on. Any other becomes
 * TUTTI_ERR_STORE, which ends the caller's operation.
 */
typedef struct tutti_store_ops {
    uint32_t struct_size; /* of this struct, as the program was compiled with it */
    uint32_t reserved;    /* 0 */
    /** Stores `size` bytes under the key and replaces its value; the bytes are the caller's. */
    tutti_status (*set)(void *self, const char *key, const void *data, size_t size,
                        int64_t timeout_ms);
    /** Returns the bytes under the key with tutti_store_value_set(); tutti frees them. If the key is not
     * there, returns TUTTI_ERR_NOT_READY at once. */
    tutti_status (*get)(void *self, const char *key, int64_t timeout_ms,
                        tutti_store_value *ret_value);
    /** As tutti_store_compare_set(), atomic for all members. */
    tutti_status (*compare_set)(void *self, const char *key, const void *expected,
                                size_t expected_size, const void *desired, size_t desired_size,
                                int64_t timeout_ms, tutti_store_value *ret_value);
    /** Whether all of `count` keys are there now. NULL: tutti calls get() for each. */
    tutti_status (*check)(void *self, const char *const *keys, size_t count, int64_t timeout_ms,
                          int32_t *ret_present);
    /** As tutti_store_add(), which is UNSUPPORTED if this is NULL; tutti itself does not need it. The
     * same holds for the functions below. */
    tutti_status (*add)(void *self, const char *key, int64_t delta, int64_t timeout_ms,
                        int64_t *ret_value);
    /** As tutti_store_append(). */
    tutti_status (*append)(void *self, const char *key, const void *data, size_t size,
                           int64_t timeout_ms);
    /** Removes the key, and returns whether it was there. NULL: tutti's own keys stay in the store. */
    tutti_status (*remove)(void *self, const char *key, int64_t timeout_ms, int32_t *ret_existed);
    /** As tutti_store_num_keys(). */
    tutti_status (*num_keys)(void *self, int64_t timeout_ms, int64_t *ret_count);
    /** The last reference is gone; no function is called after this. NULL: nothing to do. */
    void (*close)(void *self);
} tutti_store_ops;

/**
 * Makes a store from functions of the program, over a store that it has already (c10d::Store, etcd, a
 * shared dictionary).
 *
 * ops        copied. struct_size, set, get and compare_set must be set.
 * self       passed to each function; may be NULL. Must stay valid until close().
 * ret_store  freed by tutti_store_unref().
 *
 * Errors: INVALID_ARGUMENT, NEWER_CALLER, NO_MEMORY.
 */
TUTTI_API tutti_status tutti_store_create(const tutti_store_ops *ops, void *self,
                                          tutti_store **ret_store);

/** Makes `value` a copy of `size` bytes at `data`; for the functions of tutti_store_ops. Does not free
 * the earlier value. Errors: INVALID_ARGUMENT, NO_MEMORY. */
TUTTI_API tutti_status tutti_store_value_set(tutti_store_value *value, const void *data,
                                             size_t size);

/** Takes one more reference, and returns `store`. */
TUTTI_API tutti_store *tutti_store_ref(tutti_store *store);
/** Drops a reference; the last one closes. NULL is allowed. */
TUTTI_API void tutti_store_unref(tutti_store *store);

/** Copies `size` bytes at `data` to `key` and replaces its value. Every member sees the new value when
 * the call returns. */
TUTTI_API tutti_status tutti_store_set(tutti_store *store, const char *key, const void *data,
                                       size_t size, int64_t timeout_ms);

/** Waits until the key is there, and returns its value; the caller frees it. */
TUTTI_API tutti_status tutti_store_get(tutti_store *store, const char *key, int64_t timeout_ms,
                                       tutti_store_value *ret_value);

/** Adds `delta` to the decimal value of the key (missing: 0) and returns the sum. */
TUTTI_API tutti_status tutti_store_add(tutti_store *store, const char *key, int64_t delta,
                                       int64_t timeout_ms, int64_t *ret_value);

/** Stores `desired` if the value equals `expected` (an empty `expected` also matches a missing key).
 * `ret_value` receives the value stored afterwards; it equals `desired` on success. If the key is
 * missing and `expected` is not empty, nothing is stored and `ret_value` receives `expected`, as in
 * TCPStore. If you pass `expected` equal to `desired`, call tutti_store_check() as well. */
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

/** Waits for all keys and returns their values in order. `ret_values` has room for `count`; the caller
 * frees each value. */
TUTTI_API tutti_status tutti_store_multi_get(tutti_store *store, const char *const *keys,
                                             size_t count, int64_t timeout_ms,
                                             tutti_store_value *ret_values);

/** Adds bytes at the end of the key's value (missing: empty). */
TUTTI_API tutti_status tutti_store_append(tutti_store *store, const char *key, const void *data,
                                          size_t size, int64_t timeout_ms);

/** Removes the key. `ret_existed` (may be NULL) receives 1 if it was there, else 0. */
TUTTI_API tutti_status tutti_store_delete(tutti_store *store, const char *key, int64_t timeout_ms,
                                          int32_t *ret_existed);

/** The number of keys in the whole store; a prefix store counts keys outside its prefix, too. */
TUTTI_API tutti_status tutti_store_num_keys(tutti_store *store, int64_t timeout_ms,
                                            int64_t *ret_count);

/**
 * Serves a tcp store from a thread of this process. `address` is a numeric address or name to bind
 * ("127.0.0.1"). `port` 0 picks a free port, which tutti_store_server_port() returns. Clients from
 * this host must run as this user, unless TUTTI_STORE_OPEN=1 is set.
 */
TUTTI_API tutti_status tutti_store_server_start(const char *address, uint16_t port,
                                                tutti_store_server **ret_server);
/** The port on which the server listens. */
TUTTI_API uint16_t tutti_store_server_port(const tutti_store_server *server);
/** Stops serving and frees; clients see the connection end. NULL is allowed. */
TUTTI_API void tutti_store_server_stop(tutti_store_server *server);

#ifdef __cplusplus
}
#endif
#endif
