/* SPDX-License-Identifier: Apache-2.0 */
/* Making the communicator of a group, which MPI can only do in a call that blocks. */
#pragma once

#include "caller.h"
#include "job.h"

struct form;

/* Begins, and takes this member's number over, also when it fails. `ranks` are the members in the job, in their order, and
 * `numbers` those that each has taken for this (job_take_meeting()); both are copied. `self` is this
 * one's place among them. */
tutti_status form_begin(const struct caller *c, const struct job *job, const int *ranks,
                        const int *numbers, int count, int self, struct form **ret_form);

/* NOT_READY until the communicator is there, which is the caller's then; after an error, its words are
 * the caller's. */
tutti_status form_test(const struct caller *c, struct form *form, MPI_Comm *ret_comm);

/* Frees it, whatever has become of it. Waits for nobody. NULL is allowed. */
void form_end(struct form *form);
