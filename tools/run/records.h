/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks say of their end (base/exit_record.h), and which rank is to blame by it.
 *
 * The socket is abstract: nothing is left of it. Any process can send to it, so the kernel drops what does not
 * begin with the token of the job, before it takes a place in the queue. Only processes of the same user are
 * heard. What they say decides nothing by itself: a rank is blamed by another's record only if it ended badly, or has
 * left its group behind.
 */
#pragma once

#include "run/launcher.h"

struct records;

/* Called for each record that was kept; record_message() tells what it says. */
typedef void (*record_fn)(const struct rank *rank, void *user);

/* Listens for the job `run_id`, whose ranks are ranks[count]. NULL: it cannot; the order of the exits
 * decides then. */
struct records *records_new(const char *run_id, struct rank *ranks, int count, record_fn fn,
                            void *user);
void records_free(struct records *records);

/* The value of TUTTI_RUN_SOCKET for a rank; freed with g_free(). */
char *records_name(const struct records *records, int rank);

/* Takes what has come. What a rank said before it exited has. */
void records_read(struct records *records);

/* The message of the rank's failure, NULL: none is known. */
const char *record_message(const struct rank *rank);
/* Whether the rank's own process is in its exit handlers and has left a group behind. */
bool record_is_leaving(const struct rank *rank);
/* Whether others say that it ended before their group was made. */
bool record_never_joined(const struct rank *ranks, int count, const struct rank *rank);
/* Whether it ended because of another one, as far as records_culprit() knew when it was called last. */
bool record_is_victim(const struct rank *rank);

/* The rank that it waited for when its time was over, as far as records_culprit() knew; NULL: none. */
const struct rank *record_awaited(const struct rank *rank);

/* Whether the rank ended badly, and not because the launcher ended it. */
bool rank_failed(const struct rank *rank);

/*
 * The rank that is to blame for the failure that the launcher saw first, in `seen`. A rank that names
 * another one as the reason is not, as long as that one, or one that names nobody, ended badly. A rank
 * that has left its group by exit(0) is, if there is no other. It looks at all records that have come, in
 * whatever order. Without `records` it is `seen`.
 */
const struct rank *records_culprit(struct records *records, const struct rank *seen);
