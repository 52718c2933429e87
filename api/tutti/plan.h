/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans: calls that a program makes again and again with the same arguments.
 */
#ifndef TUTTI_PLAN_H
#define TUTTI_PLAN_H

#include <tutti/export.h>
#include <tutti/group.h>
#include <tutti/status.h>
#include <tutti/work.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Calls that are checked once and run as often as the program likes. Opaque. */
typedef struct tutti_plan tutti_plan;

/**
 * Makes a plan of the batch that this thread has begun on `group` (tutti_batch_begin()), instead of running it.
 *
 *     tutti_batch_begin(group);
 *     tutti_all_reduce(group, &gradients, TUTTI_SUM, NULL, NULL);
 *     tutti_plan_create(group, &plan);
 *     for (...)
 *         tutti_plan_run(plan, NULL);
 *     tutti_plan_free(plan);
 *
 * Local: other members need no plan, and may make the same calls one by one. Tensors in host memory must be contiguous.
 * Tensors on devices keep a stand-in in pinned memory each until the plan is freed; what they hold is read in the order of
 * their call's `options.stream`. Memory and streams must stay until the plan is freed; descriptors, counts and options are
 * copied. `ret_source`
 * and `ret_bytes` of a receive must stay valid as long, and are written by each run. A reduction
 * of the program stays usable by the plan after tutti_reduce_op_free().
 *
 * The batch is over in any case. Errors: INVALID_ARGUMENT (no batch of this thread is open), UNSUPPORTED (a tensor
 * that is not contiguous; an all_to_all in place, or a PREMUL_SUM, whose input is copied when the call is made), NO_MEMORY, and the error of a call that was refused.
 *
 * Semantics: MPI_Allreduce_init and its like, for one call or several.
 */
TUTTI_API tutti_status tutti_plan_create(tutti_group *group, tutti_plan **ret_plan);

/**
 * Makes the calls of the plan, in their order, as tutti_batch_end() does; a plan of one collective as the call
 * itself. The tensors' contents are read when it runs. To other members it is the same as the calls.
 *
 * work  NULL: returns when all are complete. Otherwise receives one work for all, which the caller frees.
 *       A plan may run again before a work of it is complete if its calls only read their tensors, and none of these
 *       is on a device.
 *
 * Errors: those of the calls, BUSY (a batch of this thread is open on the group; tensors on
 * devices, and a work of the plan is not complete), FORKED (in a child of the
 * process). Timeouts are those of the options that each call was made with, from the start of the run on.
 *
 * Semantics: MPI_Start and MPI_Wait.
 */
TUTTI_API tutti_status tutti_plan_run(tutti_plan *plan, tutti_work **work);

/**
 * Frees a plan; works of it that are not complete go on. The group may be gone already. NULL is ignored.
 */
TUTTI_API void tutti_plan_free(tutti_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
