/* SPDX-License-Identifier: Apache-2.0 */
/* Making the communicator of a group, which MPI can only do in a call that blocks. */
#ifndef TUTTI_MPI_FORM_H
#define TUTTI_MPI_FORM_H

#include "caller.h"
#include "job.h"

struct form;

/* Begins; `ranks` are the members in the job, in their order, and copied; `self` is this one's place
 * among them. `number` is the same on all members, and another for each group that is made at the
 * time. */
tutti_status form_begin(const struct caller *c, const struct job *job, const int *ranks, int count,
                        int self, uint32_t number, struct form **ret_form);

/* NOT_READY until the communicator is there; after an error, its words are the caller's. */
tutti_status form_test(const struct caller *c, struct form *form, MPI_Comm *ret_comm);

/* Frees it, whatever has become of it. Waits for nobody. NULL is allowed. */
void form_end(struct form *form);

#endif
