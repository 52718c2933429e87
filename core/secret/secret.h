/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secret of a job: 32 bytes that its members know and nobody else does. A process that shows
 * that it knows them is a member.
 *
 * The first of these places that has one gives it: the file that TUTTI_SECRET_FILE names, TUTTI_SECRET,
 * the launcher's plugin, the user's own file, which is made when it is first needed. A secret that was
 * given in one of the first three ways is explicit: what is wrong with it is an error, never a reason
 * to take the next one. Set-id programs look at no variable and no file.
 *
 * A struct secret lies in pages of its own (key_pages_new()), which are in no core dump and no forked child,
 * and is wiped before they are returned. The bytes of
 * a secret are in no message, dump, argument list or store; people compare secrets by the public id,
 * which is derived from the bytes and tells nothing about them.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/status.h>

#include "secret/key.h"

enum {
    SECRET_ID_BYTES = 16,
    SECRET_ID_SHORT = 9,             /* of an id in messages: 8 digits and the NUL */
    SECRET_TEXT = 2 * KEY_BYTES + 1, /* of a secret in hex, with the NUL */
    SECRET_PLACE_MAX = 1024
};

/* Numbers that members tell each other. */
enum secret_source {
    SECRET_NONE,          /* 32 zero bytes, which everybody knows */
    SECRET_FROM_FILE,     /* TUTTI_SECRET_FILE */
    SECRET_FROM_VARIABLE, /* TUTTI_SECRET */
    SECRET_FROM_LAUNCHER, /* a bootstrap provider */
    SECRET_OWN_FILE,      /* the user's */
    SECRET_UNUSABLE,      /* one was given and cannot be used; zeros, too */
    SECRET_SOURCES
};

struct secret {
    _Atomic int references;
    enum secret_source source;
    bool required;                /* this process goes on with none but those that have it */
    uint8_t id[SECRET_ID_BYTES];  /* public */
    char place[SECRET_PLACE_MAX]; /* of NONE: why there is none; else where it is from */
    struct key key;
    struct key run, record; /* secret_begin_run() */
};

/* One that nobody else knows of yet, of no bytes; NO_MEMORY. secret_unref() ends it, and takes NULL. */
tutti_status secret_new(struct secret **ret_secret);
struct secret *secret_ref(struct secret *secret);
void secret_unref(struct secret *secret);

/*
 * Finds the secret of this process, as above; `handed` is the launcher's, or NULL. Makes the user's own
 * file if that is the first place left and `makes` says so. Without any, the source is NONE, and the place
 * says why.
 *
 * INVALID_ARGUMENT names what is wrong with one that is there.
 */
tutti_status secret_find(struct secret *secret, const struct key *handed, bool makes);
/* The secret is these bytes. */
tutti_status secret_take(struct secret *secret, enum secret_source source, const char *place,
                         const struct key *key);
/* 32 zero bytes, for `source` NONE or UNUSABLE: what members have in common that have no secret in
 * common. */
tutti_status secret_take_open(struct secret *secret, enum secret_source source, const char *place);

/* Whether somebody gave it for this job. */
static inline bool secret_is_explicit(enum secret_source source)
{
    return source == SECRET_FROM_FILE || source == SECRET_FROM_VARIABLE ||
           source == SECRET_FROM_LAUNCHER;
}
/* "TUTTI_SECRET_FILE", "the user's own file", "none". */
const char *secret_source_words(enum secret_source source);
/* The first digits of an id. */
void secret_id_text(const uint8_t id[SECRET_ID_BYTES], char ret_text[SECRET_ID_SHORT]);

/* Reads 64 hex digits, or 43 or 44 characters of base64, and blanks around them. */
bool secret_parse(const char *text, size_t length, struct key *ret_key);
/* Reads the secret in a file. INVALID_ARGUMENT: the file or what is in it cannot be used; `name`
 * stands for it in the message. */
tutti_status secret_read_file(const char *name, const char *path, struct key *ret_key);
/* The path of the user's own file. False: the user has no directory for it, with the reason. */
bool secret_own_path(char ret_path[SECRET_PLACE_MAX], char *ret_why, size_t capacity);
/* Makes the file whole or not at all, in directories that are made, too; one that is there stays, unless
 * `replaces`. False with the reason. */
bool secret_make_file(const char *path, bool replaces, char *ret_why, size_t capacity);
/* The bytes in hex. The caller wipes them. */
void secret_to_text(const struct key *key, char ret_text[SECRET_TEXT]);

/*
 * The keys of one run. `path` is what the run's keys in the store begin with, so a record of one run is
 * none of another; secret_record_key() derives the key of the records under a path alone.
 */
tutti_status secret_begin_run(struct secret *secret, const char *path);
tutti_status secret_record_key(const struct secret *secret, const char *path, struct key *ret_key);
