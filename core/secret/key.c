/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HKDF and HMAC by OpenSSL, in a library context of tutti's own, to which no configuration file applies.
 * The first HMAC makes OpenSSL read openssl.cnf for the program's default context, as the program's own first
 * use of OpenSSL would.
 *
 * The context is made by the first call and freed by the last key_release(), so that a program may
 * unload libtutti. It is not freed when the process exits: other threads may still use it then. A
 * child of fork() makes one anew, since another thread of its parent may have held a lock of the old
 * one; the old one stays allocated.
 */
#include "secret/key.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "base/codec.h"
#include "base/error.h"
#include "base/fork.h"

struct library {
    OSSL_LIB_CTX *context;
    EVP_MAC *hmac;
    EVP_KDF *hkdf;
    uint32_t fork_generation;
    struct library *parents; /* of the process that has forked this one */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct library *library;
static unsigned holders;

/* ---- the library context ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&mutex);
}

static void begin(void)
{
    /* An exit handler of OpenSSL would free what other threads still use. OPENSSL_INIT_NO_LOAD_CONFIG would
     * hold for the whole process: the program's own configuration would never be read. */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void library_free(struct library *old)
{
    if (!old)
        return;
    EVP_KDF_free(old->hkdf);
    EVP_MAC_free(old->hmac);
    OSSL_LIB_CTX_free(old->context);
    free(old);
}

static struct library *library_new(void)
{
    struct library *new = calloc(1, sizeof *new);

    if (!new)
        return NULL;
    new->fork_generation = fork_current();
    new->context = OSSL_LIB_CTX_new();
    new->hmac = new->context ? EVP_MAC_fetch(new->context, "HMAC", NULL) : NULL;
    new->hkdf = new->context ? EVP_KDF_fetch(new->context, "HKDF", NULL) : NULL;
    if (new->hmac &&new->hkdf)
        return new;
    library_free(new);
    return NULL;
}

void key_hold(void)
{
    pthread_mutex_lock(&mutex);
    holders++;
    pthread_mutex_unlock(&mutex);
}

/* Begins a call; NULL: without memory, or OpenSSL is not usable. call_end() follows in any case. */
static struct library *call_begin(void)
{
    pthread_once(&once, begin);
    ERR_set_mark();
    pthread_mutex_lock(&mutex);
    holders++;
    if (!library || library->fork_generation != fork_current()) {
        struct library *new = library_new();

        if (new) {
            new->parents = library;
            library = new;
        }
    }
    struct library *usable = library && library->fork_generation == fork_current() ? library : NULL;
    pthread_mutex_unlock(&mutex);
    return usable;
}

void key_release(void)
{
    pthread_mutex_lock(&mutex);
    if (!--holders && library && !library->parents) {
        library_free(library);
        library = NULL;
    }
    pthread_mutex_unlock(&mutex);
}

/* The program does not see OpenSSL's errors of this call in its own queue. */
static tutti_status call_end(bool good, const char *what)
{
    tutti_status status = TUTTI_OK;

    if (!good) {
        char reason[160] = "no memory";
        const unsigned long error = ERR_peek_last_error();

        if (error)
            ERR_error_string_n(error, reason, sizeof reason);
        status = error_set(TUTTI_ERR_SYSTEM, "OpenSSL cannot compute %s: %s", what, reason);
    }
    ERR_pop_to_mark();
    key_release();
    return status;
}

struct ossl_lib_ctx_st *key_openssl(void)
{
    struct library *l = call_begin();
    OSSL_LIB_CTX *context = l ? l->context : NULL;

    return call_end(l, "TLS") ? NULL : context;
}

/* ---- as the RFCs have them ---- */

static OSSL_PARAM sha256(void)
{
    return OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0);
}

tutti_status key_hmac(const void *key, size_t key_bytes, const struct key_part *parts, size_t count,
                      uint8_t ret_mac[KEY_MAC_BYTES])
{
    const OSSL_PARAM params[] = {sha256(), OSSL_PARAM_construct_end()};
    struct library *l = call_begin();
    EVP_MAC_CTX *mac = l ? EVP_MAC_CTX_new(l->hmac) : NULL;
    uint8_t result[KEY_MAC_BYTES];
    size_t size = 0;
    bool good = mac && EVP_MAC_init(mac, key, key_bytes, params);

    for (size_t i = 0; good && i < count; i++)
        good = !parts[i].bytes || EVP_MAC_update(mac, parts[i].data, parts[i].bytes);
    good = good && EVP_MAC_final(mac, result, &size, sizeof result) && size == sizeof result;
    EVP_MAC_CTX_free(mac);
    if (good)
        memcpy(ret_mac, result, sizeof result);
    return call_end(good, "an HMAC");
}

tutti_status key_hkdf(const void *from, size_t from_bytes, const void *salt, size_t salt_bytes,
                      const void *info, size_t info_bytes, void *ret, size_t bytes)
{
    const OSSL_PARAM params[] = {
        sha256(),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)from, from_bytes),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)salt, salt_bytes),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)info, info_bytes),
        OSSL_PARAM_construct_end(),
    };
    struct library *l = call_begin();
    EVP_KDF_CTX *kdf = l ? EVP_KDF_CTX_new(l->hkdf) : NULL;
    const bool good = kdf && EVP_KDF_derive(kdf, ret, bytes, params) > 0;

    EVP_KDF_CTX_free(kdf);
    return call_end(good, "a key");
}

/* ---- as tutti uses them ---- */

tutti_status key_derive(const struct key *from, const char *purpose, const void *context,
                        size_t bytes, struct key *ret_key)
{
    uint8_t info[1024];
    struct writer w = {.data = info, .capacity = sizeof info};
    struct key key;

    write_string(&w, purpose);
    write_blob(&w, context, bytes);
    if (w.bad)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the context of a key has %zu bytes; at most %zu fit", bytes,
                         sizeof info - strlen(purpose) - 8);
    tutti_status status =
        key_hkdf(from->bytes, KEY_BYTES, "", 0, info, w.size, key.bytes, KEY_BYTES);
    if (!status)
        *ret_key = key;
    key_wipe(&key, sizeof key);
    return status;
}

tutti_status key_mac(const struct key *key, const struct key_part *parts, size_t count,
                     uint8_t ret_mac[KEY_MAC_BYTES])
{
    uint8_t lengths[KEY_PARTS_MAX][8];
    struct key_part all[2 * KEY_PARTS_MAX];

    if (count > KEY_PARTS_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "a MAC over %zu parts; at most %d are allowed",
                         count, KEY_PARTS_MAX);
    for (size_t i = 0; i < count; i++) {
        uint_to_bytes(lengths[i], parts[i].bytes, sizeof lengths[i]);
        all[2 * i] = (struct key_part){lengths[i], sizeof lengths[i]};
        all[2 * i + 1] = parts[i];
    }
    return key_hmac(key->bytes, KEY_BYTES, all, 2 * count, ret_mac);
}

bool key_same(const void *a, const void *b, size_t bytes)
{
    return CRYPTO_memcmp(a, b, bytes) == 0;
}

tutti_status key_random(void *ret, size_t bytes)
{
    uint8_t *at = ret;

    while (bytes) {
        const ssize_t n = getrandom(at, bytes, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot get %zu random bytes", bytes);
        at += n;
        bytes -= (size_t)n;
    }
    return TUTTI_OK;
}

void key_wipe(void *memory, size_t bytes)
{
    OPENSSL_cleanse(memory, bytes);
}
