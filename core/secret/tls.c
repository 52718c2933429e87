/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 with an external PSK, by libssl.
 *
 * Only TLS_AES_128_GCM_SHA256 and X25519 are offered, with a new ephemeral key in each handshake
 * (psk_dhe_ke): somebody who learns the PSK later cannot read what was recorded. No tickets, no early data.
 * A process without the PSK fails at its first message, the ClientHello, whose binder is checked before
 * anything costly is computed.
 *
 * libssl writes into memory and reads from the socket (the BIO below). So it never stands in the middle of a
 * record that the socket did not take, writes raise no SIGPIPE, and an error of the socket does not end
 * the other direction. tls_send() encrypts at most BATCH_BYTES and sends them by one call; what the socket
 * does not take waits in `out`.
 *
 * Invariant: `taken` bytes of the caller's lie encrypted in `out`, which goes on from out_at; nothing more is
 * encrypted before they have left.
 */
#include "secret/tls.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/opensslv.h>
#include <openssl/ssl.h>

#include "base/error.h"

enum {
    RECORD_BYTES = SSL3_RT_MAX_PLAIN_LENGTH,
    BATCH_BYTES = 4 * RECORD_BYTES,
    FIRST_BYTE = SSL3_RT_HANDSHAKE
};

/* AES-GCM is safe for 2^24.5 records under one key (RFC 8446, 5.5). */
static const uint64_t RECORDS_MAX = UINT64_C(1) << 23;

/* ---- libssl ---- */

#define SSL_FUNCTIONS(X)                                                                           \
    X(SSL_CIPHER_find)                                                                             \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_get_ex_data)                                                                         \
    X(SSL_CTX_new_ex)                                                                              \
    X(SSL_CTX_set_ciphersuites)                                                                    \
    X(SSL_CTX_set_ex_data)                                                                         \
    X(SSL_CTX_set_num_tickets)                                                                     \
    X(SSL_CTX_set_psk_find_session_callback)                                                       \
    X(SSL_CTX_set_psk_use_session_callback)                                                        \
    X(SSL_SESSION_free)                                                                            \
    X(SSL_SESSION_new)                                                                             \
    X(SSL_SESSION_set1_master_key)                                                                 \
    X(SSL_SESSION_set_cipher)                                                                      \
    X(SSL_SESSION_set_protocol_version)                                                            \
    X(SSL_do_handshake)                                                                            \
    X(SSL_free)                                                                                    \
    X(SSL_get_SSL_CTX)                                                                             \
    X(SSL_has_pending)                                                                             \
    X(SSL_key_update)                                                                              \
    X(SSL_new)                                                                                     \
    X(SSL_read_ex)                                                                                 \
    X(SSL_set_accept_state)                                                                        \
    X(SSL_set_bio)                                                                                 \
    X(SSL_set_connect_state)                                                                       \
    X(SSL_write_ex)                                                                                \
    X(TLS_method)

#define FIELD(function) __typeof__(function) *function;
static struct {
    SSL_FUNCTIONS(FIELD)
} lib;
#undef FIELD

#define TEXT_OF(number) #number
#define SONAME_OF(number) "libssl.so." TEXT_OF(number)
static const char soname[] = SONAME_OF(OPENSSL_SHLIB_VERSION);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char missing[256]; /* empty: `lib` and `method` are there */
static BIO_METHOD *method;

static int bio_read(BIO *bio, char *data, size_t bytes, size_t *ret_bytes);
static int bio_write(BIO *bio, const char *data, size_t bytes, size_t *ret_bytes);
static long bio_control(BIO *bio, int command, long number, void *pointer);

static void find(void *library, const char *name, void *ret_function)
{
    void *function = dlsym(library, name);

    if (!function)
        snprintf(missing, sizeof missing, "%s has no function %s", soname, name);
    memcpy(ret_function, &function, sizeof function);
}

/* It stays: OpenSSL keeps pointers into it. */
static void load(void)
{
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        snprintf(missing, sizeof missing, "%s", dlerror());
        return;
    }
#define FIND(function) find(library, #function, &lib.function);
    SSL_FUNCTIONS(FIND)
#undef FIND
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tutti");
    if (!method || !BIO_meth_set_read_ex(method, bio_read) ||
        !BIO_meth_set_write_ex(method, bio_write) || !BIO_meth_set_ctrl(method, bio_control))
        snprintf(missing, sizeof missing, "no memory");
}

/* Ends a call that needs random numbers. OpenSSL keeps generators of the library context for each thread until
 * that ends, which may be after the context was freed. */
static void after_randomness(OSSL_LIB_CTX *library)
{
    ERR_pop_to_mark();
    OPENSSL_thread_stop_ex(library);
}

/* ---- keys ---- */

struct tls_keys {
    SSL_CTX *context;
    OSSL_LIB_CTX *library;
    const struct key *psk;
    uint64_t records_max;
};

/* The PSK has no name but that of the protocol: each key has one purpose. */
static const unsigned char identity[] = {'t', 'u', 't', 't', 'i'};

/* A handshake changes its session, so each has one of its own. */
static SSL_SESSION *session_of(SSL *ssl)
{
    static const unsigned char suite[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
    const struct tls_keys *keys = lib.SSL_CTX_get_ex_data(lib.SSL_get_SSL_CTX(ssl), 0);
    SSL_SESSION *session = lib.SSL_SESSION_new();

    if (session &&
        lib.SSL_SESSION_set1_master_key(session, keys->psk->bytes, sizeof keys->psk->bytes) &&
        lib.SSL_SESSION_set_cipher(session, lib.SSL_CIPHER_find(ssl, suite)) &&
        lib.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    lib.SSL_SESSION_free(session);
    return NULL;
}

static int use_session(SSL *ssl, const EVP_MD *digest, const unsigned char **ret_identity,
                       size_t *ret_bytes, SSL_SESSION **ret_session)
{
    (void)digest;
    *ret_identity = identity;
    *ret_bytes = sizeof identity;
    *ret_session = session_of(ssl);
    return *ret_session != NULL;
}

/* Without a session the ClientHello fails: there is no certificate instead of it. */
static int find_session(SSL *ssl, const unsigned char *name, size_t bytes,
                        SSL_SESSION **ret_session)
{
    *ret_session = NULL;
    if (bytes != sizeof identity || memcmp(name, identity, sizeof identity) != 0)
        return 1;
    *ret_session = session_of(ssl);
    return *ret_session != NULL;
}

static bool set_up(struct tls_keys *keys)
{
    SSL_CTX *context = keys->context;

    lib.SSL_CTX_set_psk_use_session_callback(context, use_session);
    lib.SSL_CTX_set_psk_find_session_callback(context, find_session);
    lib.SSL_CTX_ctrl(context, SSL_CTRL_SET_READ_AHEAD, 1, NULL);
    lib.SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    return lib.SSL_CTX_set_ex_data(context, 0, keys) &&
           lib.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) &&
           lib.SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, NULL) &&
           lib.SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") &&
           lib.SSL_CTX_ctrl(context, SSL_CTRL_SET_GROUPS_LIST, 0, (void *)(uintptr_t) "X25519") &&
           lib.SSL_CTX_set_num_tickets(context, 0);
}

tutti_status tls_keys_new(const struct key *key, struct tls_keys **ret_keys)
{
    char reason[160] = "no memory";

    pthread_once(&once, load);
    if (*missing)
        return error_set(TUTTI_ERR_SYSTEM, "TUTTI_TLS needs OpenSSL's libssl: %s", missing);
    struct tls_keys *keys = calloc(1, sizeof *keys);
    if (!keys)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for TLS");
    keys->records_max = RECORDS_MAX;
    keys->library = key_openssl();
    tutti_status status = keys->library ? key_keep(key, &keys->psk)
                                        : error_set(TUTTI_ERR_NO_MEMORY, "no memory for TLS");
    if (status) {
        tls_keys_free(keys);
        return status;
    }
    ERR_set_mark();
    keys->context = lib.SSL_CTX_new_ex(keys->library, NULL, lib.TLS_method());
    const bool good = keys->context && set_up(keys);
    if (!good && ERR_peek_last_error())
        ERR_error_string_n(ERR_peek_last_error(), reason, sizeof reason);
    after_randomness(keys->library);
    if (good) {
        *ret_keys = keys;
        return TUTTI_OK;
    }
    tls_keys_free(keys);
    return error_set(TUTTI_ERR_SYSTEM, "OpenSSL cannot begin TLS 1.3: %s", reason);
}

void tls_keys_free(struct tls_keys *keys)
{
    if (!keys)
        return;
    lib.SSL_CTX_free(keys->context);
    key_drop(keys->psk);
    free(keys);
}

void tls_keys_renew_after(struct tls_keys *keys, uint64_t records)
{
    keys->records_max = records;
}

/* ---- a connection and its bytes ---- */

/* How the last read of the socket ended; after the last two there is no other one. */
enum { IN_GOOD, IN_EMPTY, IN_ENDED, IN_FAILED };

struct tls {
    SSL *ssl;
    OSSL_LIB_CTX *library;
    int fd;
    int in, in_errno;
    bool handshaken;
    bool unread;                   /* by the caller, of what libssl has read */
    uint64_t records, records_max; /* written under one key */
    uint8_t *out;                  /* what has to leave is [out_at, out_size) */
    size_t out_at, out_size, out_capacity;
    size_t taken;
};

static int bio_read(BIO *bio, char *data, size_t bytes, size_t *ret_bytes)
{
    struct tls *tls = BIO_get_data(bio);
    ssize_t n;

    do
        n = recv(tls->fd, data, bytes, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    BIO_clear_retry_flags(bio);
    tls->in = n > 0 ? IN_GOOD : !n ? IN_ENDED : errno == EAGAIN ? IN_EMPTY : IN_FAILED;
    tls->in_errno = n < 0 ? errno : 0;
    if (tls->in == IN_EMPTY)
        BIO_set_retry_read(bio);
    *ret_bytes = n > 0 ? (size_t)n : 0;
    return n > 0 ? 1 : (int)n;
}

/* Takes all of it. */
static int bio_write(BIO *bio, const char *data, size_t bytes, size_t *ret_bytes)
{
    struct tls *tls = BIO_get_data(bio);

    if (tls->out_capacity - tls->out_size < bytes) {
        size_t capacity = tls->out_capacity ? tls->out_capacity : 1024;

        while (capacity - tls->out_size < bytes)
            capacity *= 2;
        uint8_t *out = realloc(tls->out, capacity);
        if (!out)
            return 0;
        tls->out = out;
        tls->out_capacity = capacity;
    }
    memcpy(tls->out + tls->out_size, data, bytes);
    tls->out_size += bytes;
    *ret_bytes = bytes;
    return 1;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    const struct tls *tls = BIO_get_data(bio);

    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH || (command == BIO_CTRL_EOF && tls->in == IN_ENDED);
}

/* Sends what waits in `out`. False with errno. */
static bool flush(struct tls *tls)
{
    while (tls->out_at < tls->out_size) {
        const ssize_t n = send(tls->fd, tls->out + tls->out_at, tls->out_size - tls->out_at,
                               MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        tls->out_at += (size_t)n;
    }
    tls->out_at = tls->out_size = 0;
    return true;
}

/* Before libssl is called, which may read the socket. */
static void before_reading(struct tls *tls)
{
    if (tls->in == IN_EMPTY)
        tls->in = IN_GOOD;
    ERR_set_mark();
}

/* Why libssl has failed, as an errno: the socket, or what has come by it. 0: the connection was closed. */
static int reason_of(const struct tls *tls)
{
    static const int reasons[] = {
        [IN_GOOD] = EBADMSG, [IN_EMPTY] = EAGAIN, [IN_ENDED] = 0, [IN_FAILED] = 0};

    return tls->in == IN_FAILED ? tls->in_errno : reasons[tls->in];
}

/* Sends its part of the handshake or an alert, unless that waits behind what tls_send() has taken. */
static void answer(struct tls *tls)
{
    if (!tls->taken)
        (void)flush(tls);
}

static tutti_status begin(const struct tls_keys *keys, int fd, struct tls **ret_tls)
{
    struct tls *tls = calloc(1, sizeof *tls);

    if (!tls)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an encrypted connection");
    tls->fd = fd;
    tls->library = keys->library;
    tls->records_max = keys->records_max;
    ERR_set_mark();
    tls->ssl = lib.SSL_new(keys->context);
    BIO *bio = tls->ssl ? BIO_new_ex(keys->library, method) : NULL;
    ERR_pop_to_mark();
    if (!bio) {
        tls_free(tls);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an encrypted connection");
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    lib.SSL_set_bio(tls->ssl, bio, bio);
    *ret_tls = tls;
    return TUTTI_OK;
}

tutti_status tls_dial(const struct tls_keys *keys, int fd, struct tls **ret_tls)
{
    tutti_status status = begin(keys, fd, ret_tls);

    if (!status)
        lib.SSL_set_connect_state((*ret_tls)->ssl);
    return status;
}

tutti_status tls_accept(const struct tls_keys *keys, int fd, struct tls **ret_tls)
{
    uint8_t first;
    const ssize_t n = recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return TUTTI_ERR_NOT_READY;
    if (n != 1 || first != FIRST_BYTE)
        return TUTTI_ERR_DENIED;
    tutti_status status = begin(keys, fd, ret_tls);
    if (!status)
        lib.SSL_set_accept_state((*ret_tls)->ssl);
    return status;
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    lib.SSL_free(tls->ssl);
    free(tls->out);
    free(tls);
}

/* ---- sending ---- */

/* The handshake as far as it goes now. False with errno. */
static bool shake_hands(struct tls *tls)
{
    before_reading(tls);
    tls->handshaken = lib.SSL_do_handshake(tls->ssl) == 1;
    after_randomness(tls->library);
    answer(tls);
    if (tls->handshaken)
        return true;
    const int reason = reason_of(tls);
    errno = reason == EAGAIN ? EINPROGRESS : reason ? reason : ECONNRESET;
    return false;
}

/* One record. */
static bool encrypt(struct tls *tls, const void *data, size_t bytes)
{
    size_t written;

    if (tls->records++ >= tls->records_max) {
        tls->records = 1;
        if (!lib.SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED))
            return false;
    }
    if (!lib.SSL_write_ex(tls->ssl, data, bytes, &written))
        return false;
    tls->taken += written;
    return true;
}

/* Where the pieces go on. */
struct cursor {
    const tutti_piece *piece, *end;
    size_t at; /* in it */
};

static size_t here(const struct cursor *c)
{
    return (size_t)c->piece->bytes - c->at;
}

static const uint8_t *step(struct cursor *c, size_t bytes)
{
    const uint8_t *data = (const uint8_t *)c->piece->data + c->at;

    c->at += bytes;
    return data;
}

static bool is_at_end(struct cursor *c)
{
    while (c->piece < c->end && c->at == c->piece->bytes) {
        c->piece++;
        c->at = 0;
    }
    return c->piece == c->end;
}

/* The next record, of one piece where it lies, or of several that are put together. */
static bool encrypt_next(struct tls *tls, struct cursor *c)
{
    uint8_t together[RECORD_BYTES];
    size_t size = 0;

    if (here(c) >= RECORD_BYTES || c->piece + 1 == c->end) {
        const size_t bytes = here(c) < RECORD_BYTES ? here(c) : RECORD_BYTES;

        return encrypt(tls, step(c, bytes), bytes);
    }
    while (size < sizeof together && !is_at_end(c)) {
        const size_t room = sizeof together - size, bytes = here(c) < room ? here(c) : room;

        memcpy(together + size, step(c, bytes), bytes);
        size += bytes;
    }
    return encrypt(tls, together, size);
}

ssize_t tls_send(struct tls *tls, const tutti_piece *pieces, uint32_t count)
{
    struct cursor c = {.piece = pieces, .end = pieces + count};
    size_t sent = 0;

    if (!tls->handshaken && !shake_hands(tls))
        return -1;
    if (!flush(tls))
        return -1;
    if (tls->taken) {
        sent = tls->taken;
        tls->taken = 0;
        return (ssize_t)sent;
    }
    while (!is_at_end(&c)) {
        bool good = true;

        ERR_set_mark();
        while (good && tls->taken < BATCH_BYTES && !is_at_end(&c))
            good = encrypt_next(tls, &c);
        ERR_pop_to_mark();
        if (!good) {
            errno = EPIPE; /* libssl has given the connection up, or has no memory */
            return -1;
        }
        if (!flush(tls))
            return sent ? (ssize_t)sent : -1;
        sent += tls->taken;
        tls->taken = 0;
    }
    return (ssize_t)sent;
}

/* ---- receiving ---- */

bool tls_has_unread(const struct tls *tls)
{
    return tls->unread;
}

ssize_t tls_recv(struct tls *tls, void *data, size_t bytes)
{
    size_t got = 0, more = 0;
    bool good;

    before_reading(tls);
    do {
        good = lib.SSL_read_ex(tls->ssl, (uint8_t *)data + got, bytes - got, &more);
        got += good ? more : 0;
        tls->unread = good && lib.SSL_has_pending(tls->ssl);
    } while ((tls->unread || (good && more == RECORD_BYTES)) && got < bytes);
    if (tls->handshaken)
        ERR_pop_to_mark();
    else
        after_randomness(tls->library);
    answer(tls);
    tls->handshaken |= got > 0;
    if (got)
        return (ssize_t)got;
    errno = reason_of(tls);
    return errno ? -1 : 0;
}
