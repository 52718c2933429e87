/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tutti run` tells its ranks of those that have ended, so that nobody waits in tutti_init() for a
 * process that cannot come any more.
 *
 * The launcher serves the store of its job, and appends one entry to ENDED_KEY for each rank that ends while
 * others run: its length in 32 bits, the entry, and a seal of the job's secret (secret/seal.h). A place is what TUTTI_RUN_SOCKET says (base/exit_record.h). It is the rank in a world of the
 * job's size, unless the program numbers its ranks itself; so an entry is a reason to fail only for a
 * member whose own place is its rank, and only while what the ended rank has to write is missing.
 *
 * The store holds whatever somebody wrote: ended_next() checks it all.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENDED_KEY "tutti/run/ended"
#define ENDED_RUN "tutti/run" /* whose record key seals the entries */

enum {
    ENDED_HOST_MAX = 64,
    ENDED_MAX = ENDED_HOST_MAX + 32, /* bytes of an entry */
    ENDED_WORDS_MAX = ENDED_HOST_MAX + 64
};

struct ended {
    uint32_t place, size; /* of the job */
    int32_t pid;
    int32_t signal; /* that ended it; 0: it exited with `code` */
    int32_t code;
    char host[ENDED_HOST_MAX];
};

/* Bytes in `ret_data`, 0: it does not fit. */
size_t ended_encode(const struct ended *ended, uint8_t ret_data[ENDED_MAX]);
/* Reads the entry at `*at` and moves behind it. False: there is none, or what is there is no entry. */
bool ended_next(const void *data, size_t size, size_t *at, struct ended *ret_ended);
/* "host h, pid 7" and "was ended by signal 9 (SIGKILL)" or "exited with code 3". */
void ended_where(const struct ended *ended, char *ret_words, size_t capacity);
void ended_how(const struct ended *ended, char *ret_words, size_t capacity);
