/* SPDX-License-Identifier: Apache-2.0 */
#include "secret/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

static const char file_variable[] = "TUTTI_SECRET_FILE", variable[] = "TUTTI_SECRET";

/* ---- its memory ---- */

tutti_status secret_new(struct secret **ret_secret)
{
    struct secret *secret = key_pages_new(sizeof *secret);

    if (!secret)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a secret");
    atomic_init(&secret->references, 1);
    key_hold();
    *ret_secret = secret;
    return TUTTI_OK;
}

struct secret *secret_ref(struct secret *secret)
{
    if (secret)
        atomic_fetch_add(&secret->references, 1);
    return secret;
}

void secret_unref(struct secret *secret)
{
    /* In a forked child the pages are zeros: the count is the parent's. */
    if (!secret || atomic_fetch_sub(&secret->references, 1) > 1)
        return;
    key_pages_free(secret, sizeof *secret);
    key_release();
}

/* ---- its words ---- */

const char *secret_source_words(enum secret_source source)
{
    static const char *const words[SECRET_SOURCES] = {
        [SECRET_NONE] = "none",
        [SECRET_FROM_FILE] = "TUTTI_SECRET_FILE",
        [SECRET_FROM_VARIABLE] = "TUTTI_SECRET",
        [SECRET_FROM_LAUNCHER] = "the launcher's secret",
        [SECRET_OWN_FILE] = "the user's own file",
        [SECRET_UNUSABLE] = "one that cannot be used",
    };

    return source < SECRET_SOURCES ? words[source] : "of an unknown kind";
}

static void to_hex(const uint8_t *bytes, size_t count, char *ret_text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < count; i++) {
        ret_text[2 * i] = digits[bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_text[2 * count] = 0;
}

void secret_id_text(const uint8_t id[SECRET_ID_BYTES], char ret_text[SECRET_ID_SHORT])
{
    to_hex(id, SECRET_ID_SHORT / 2, ret_text);
}

void secret_to_text(const struct key *key, char ret_text[SECRET_TEXT])
{
    to_hex(key->bytes, KEY_BYTES, ret_text);
}

/* ---- where it is from ---- */

static tutti_status take(struct secret *secret, enum secret_source source, const char *place,
                         const struct key *key)
{
    struct key id;
    tutti_status status = key_derive(key, "tutti id", NULL, 0, &id);

    if (status)
        return status;
    memcpy(secret->id, id.bytes, SECRET_ID_BYTES);
    key_wipe(&id, sizeof id);
    secret->key = *key;
    secret->source = source;
    snprintf(secret->place, sizeof secret->place, "%.*s", TEXT_CUT(place, SECRET_PLACE_MAX - 1));
    return TUTTI_OK;
}

tutti_status secret_take(struct secret *secret, enum secret_source source, const char *place,
                         const struct key *key)
{
    static const struct key zeros;

    if (key_same(key, &zeros, sizeof zeros))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s: 32 zero bytes are no secret; make one with: openssl rand -hex 32",
                         place);
    return take(secret, source, place, key);
}

tutti_status secret_take_open(struct secret *secret, enum secret_source source, const char *place)
{
    static const struct key zeros;

    return take(secret, source, place, &zeros);
}

static tutti_status take_text(struct secret *secret, const char *text)
{
    struct key key;

    if (!secret_parse(text, strlen(text), &key))
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "TUTTI_SECRET has %zu characters that are not 32 bytes in hex (64 digits) or "
            "base64 (44 characters); make one with: openssl rand -hex 32",
            strlen(text));
    const tutti_status status = secret_take(secret, SECRET_FROM_VARIABLE, variable, &key);
    key_wipe(&key, sizeof key);
    return status;
}

static tutti_status take_file(struct secret *secret, enum secret_source source, const char *name,
                              const char *path)
{
    struct key key;
    tutti_status status = secret_read_file(name, path, &key);

    if (!status)
        status = secret_take(secret, source, path, &key);
    key_wipe(&key, sizeof key);
    return status;
}

/* The user's own file; a user who can have none has no secret. */
static tutti_status take_own(struct secret *secret, bool makes)
{
    char path[SECRET_PLACE_MAX], why[SECRET_PLACE_MAX];

    if (!secret_own_path(path, why, sizeof why))
        return secret_take_open(secret, SECRET_NONE, why);
    if (faccessat(AT_FDCWD, path, F_OK, AT_EACCESS)) {
        if (errno != ENOENT) {
            snprintf(why, sizeof why, "%.*s: %s", TEXT_CUT(path, 800), strerror(errno));
            return secret_take_open(secret, SECRET_NONE, why);
        }
        if (!makes)
            return secret_take_open(secret, SECRET_NONE, "it is made when it is first needed");
        if (!secret_make_file(path, false, why, sizeof why))
            return secret_take_open(secret, SECRET_NONE, why);
    }
    return take_file(secret, SECRET_OWN_FILE, "the user's own secret", path);
}

tutti_status secret_find(struct secret *secret, const struct key *handed, bool makes)
{
    const char *path = secure_getenv(file_variable), *text = secure_getenv(variable);

    if (path && !*path)
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "TUTTI_SECRET_FILE is set and empty; set it to the path of a file, or unset it");
    if (path)
        return take_file(secret, SECRET_FROM_FILE, file_variable, path);
    if (text && !*text)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "TUTTI_SECRET is set and empty; set it to 64 hex digits, or unset it");
    if (text)
        return take_text(secret, text);
    if (handed)
        return secret_take(secret, SECRET_FROM_LAUNCHER, "the launcher", handed);
    if (getauxval(AT_SECURE))
        return secret_take_open(secret, SECRET_NONE,
                                "a set-id program reads no secret of the user's");
    return take_own(secret, makes);
}

/* ---- keys ---- */

static tutti_status run_key(const struct secret *secret, const char *path, struct key *ret_key)
{
    return key_derive(&secret->key, "tutti run", path, strlen(path), ret_key);
}

tutti_status secret_begin_run(struct secret *secret, const char *path)
{
    const tutti_status status = run_key(secret, path, &secret->run);

    return status ? status : key_derive(&secret->run, "record", NULL, 0, &secret->record);
}

tutti_status secret_record_key(const struct secret *secret, const char *path, struct key *ret_key)
{
    const tutti_status status = run_key(secret, path, ret_key);

    return status ? status : key_derive(ret_key, "record", NULL, 0, ret_key);
}
