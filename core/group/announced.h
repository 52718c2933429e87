/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is known to have called. A message of a collective tells that its sender has called it; where
 * none has come, that may be because the sender waits itself. So a member that has waited for a little
 * announces its call to whom it waits for, which compares it and answers with its own announcement as
 * soon as it has called. Whoever was asked and has announced nothing has not called, or does not run. Each is
 * answered once, with the call that it asked about, even by who is ahead: an asker may want to hear that
 * both called the same before it begins.
 */
#ifndef TUTTI_GROUP_ANNOUNCED_H
#define TUTTI_GROUP_ANNOUNCED_H

#include <stdbool.h>
#include <stdint.h>

struct announce;
struct tutti_group;

/* Of each member, numbers of calls; 0: none. */
struct announced {
    uint64_t *told;  /* [size] the last that this member announced to it, without a message */
    uint64_t *asked; /* [size] the last that it announced so, and has no answer to */
    uint64_t *heard; /* [size] the last that is known of it */
    uint64_t *same;  /* [size] the last that was the same as this member's, with all before it */
    uint64_t owed;   /* the first that was asked about and not called yet; 0: nobody asks */
};

/* False: no memory. */
bool announced_init(struct announced *announced, int size);
void announced_free(struct announced *announced);

/* `source` has called `sequence`. */
void announced_hear(struct tutti_group *group, int source, uint64_t sequence);
/* … and wants to hear when this member has. */
void announced_ask(struct tutti_group *group, int source, uint64_t sequence);
/* `source` has called the same as this member up to `sequence`. */
void announced_same(struct tutti_group *group, int source, uint64_t sequence);
/* Announces this member's call to `to`, once. */
void announced_tell(struct tutti_group *group, int to, const struct announce *call);
/* Answers those who asked about what this member has called by now; whether there was one. */
bool announced_answer(struct tutti_group *group);
/* Whether the member is known to have called it. */
bool announced_has_called(const struct tutti_group *group, int rank, uint64_t sequence);
/* Whether the member is known to have called the same, or cannot be asked any more. */
bool announced_agrees(const struct tutti_group *group, int rank, uint64_t sequence);
/* Whether the member was asked about the call, and has not been heard of in it. */
bool announced_is_missing(const struct tutti_group *group, int rank, uint64_t sequence);

#endif
