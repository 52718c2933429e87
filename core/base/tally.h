/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often something was done before, for cold code: members of a job that do the same things in
 * the same order count alike, without talking. A tally may be used by several threads.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/status.h>

struct tally {
    pthread_mutex_t lock;
    struct tally_row *rows;
};

void tally_init(struct tally *tally);
void tally_free(struct tally *tally);

/* Counts what these bytes stand for; how often it was counted before. */
tutti_status tally_count(struct tally *tally, const void *what, size_t bytes, uint64_t *ret_before);
