/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement as lifecycle/ uses it; agree.h has its parts. */
#pragma once

#include "group/group.h"

/* Agrees with all members, by way of `store`; afterwards the control tree, local peers, endpoints and
 * mapped memory are up. */
tutti_status agree(struct tutti_group *group, tutti_store *store, const char *choice_words);
/* Serves the agreement while a plugin waits for other processes: upcalls.keep_waiting of group.h. */
tutti_status agree_keep_waiting(struct tutti_group *group);
/* Returns a store object for agree(), which the caller drops. Waits until the deadline for a store that
 * does not answer, unless the group that this one is made from ends. */
tutti_status agree_meet(struct tutti_group *group, tutti_store **ret_store);
/*
 * This member has failed before it could make an offer, with `status` and words: says so in the store in its
 * place, so that all fail with this message instead of waiting for it. Returns the status; the message is
 * the one that all members get.
 */
tutti_status agree_refuse(struct tutti_group *group, tutti_status status);
