/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys, and what is computed with them: HKDF-SHA256 (RFC 5869) makes one key from another,
 * HMAC-SHA256 (RFC 2104) proves that somebody who holds a key has written some bytes. OpenSSL
 * computes both.
 *
 * Each key has one purpose, named when it is derived, so no MAC of one place is valid in another.
 * Code that holds a key wipes it with key_wipe() when it does not need it any more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/status.h>

enum { KEY_BYTES = 32, KEY_MAC_BYTES = 32, KEY_PARTS_MAX = 16 };

struct key {
    uint8_t bytes[KEY_BYTES];
};

/* A piece of what a MAC covers. */
struct key_part {
    const void *data;
    size_t bytes;
};

/* The key for `purpose` that follows from `from` and from `bytes` bytes of context, which may be
 * none. Other purposes and other contexts give keys that tell nothing of each other. `ret_key` may
 * be `from`. */
tutti_status key_derive(const struct key *from, const char *purpose, const void *context,
                        size_t bytes, struct key *ret_key);

/* The MAC over the parts, at most KEY_PARTS_MAX, in this order. The length of each is part of it:
 * bytes that move from one part to the next make another MAC. */
tutti_status key_mac(const struct key *key, const struct key_part *parts, size_t count,
                     uint8_t ret_mac[KEY_MAC_BYTES]);

/* Whether `bytes` bytes are the same, in a time that does not depend on where they differ. */
bool key_same(const void *a, const void *b, size_t bytes);

/* `bytes` random bytes from the kernel. */
tutti_status key_random(void *ret, size_t bytes);

/* Overwrites memory that held something secret; no compiler leaves it out. */
void key_wipe(void *memory, size_t bytes);

/* ---- key_kept.c: keys that live longer than a call ---- */

/* Memory of its own pages, which is in no core dump and in no forked child; NULL: there is none. It is wiped
 * when it is freed. */
void *key_pages_new(size_t bytes);
void key_pages_free(void *memory, size_t bytes);
/* Copies the key to such memory, until key_drop(), which takes NULL. NO_MEMORY. */
tutti_status key_keep(const struct key *key, const struct key **ret_kept);
void key_drop(const struct key *kept);

/* ---- OpenSSL ---- */

/* What OpenSSL needs is made by the first call, in some 0.5 ms, and freed behind each call that no
 * key_hold() comes before. Each key_hold() is followed by one key_release(). */
void key_hold(void);
void key_release(void);

/* OpenSSL's context that all this is computed in, as long as the caller holds it; NULL: no memory. */
struct ossl_lib_ctx_st *key_openssl(void);

/* ---- as the RFCs have them, for the functions above and for their tests ---- */

/* HMAC-SHA256 over the parts, one behind the other. */
tutti_status key_hmac(const void *key, size_t key_bytes, const struct key_part *parts, size_t count,
                      uint8_t ret_mac[KEY_MAC_BYTES]);
/* HKDF-SHA256, extract and expand; `salt` may be empty. */
tutti_status key_hkdf(const void *from, size_t from_bytes, const void *salt, size_t salt_bytes,
                      const void *info, size_t info_bytes, void *ret, size_t bytes);
