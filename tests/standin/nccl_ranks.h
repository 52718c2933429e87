/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of driver.h whose work is done by ranks, processes that the case starts, over NCCL. TUTTI_NCCL names its
 * library; else it is the stand-in of this build. Each rank says to NCCL that it is on a host of its own, so that all
 * may use one GPU.
 */
#ifndef STANDIN_NCCL_RANKS_H
#define STANDIN_NCCL_RANKS_H

#include "driver.h"
#include "nccl/nccl_api.h"

enum { RANKS_MAX = 8 };

struct nccl {
#define MEMBER(result, name, arguments) result(*name) arguments;
    NCCL_FUNCTIONS(MEMBER)
    NCCL_MEMORY_FUNCTIONS(MEMBER) /* NULL: an older library */
    NCCL_NEW_FUNCTIONS(MEMBER)    /* NULL: an older library */
#undef MEMBER
};
extern struct nccl nccl;

extern int rank, size;
extern ncclComm_t comm;

bool nccl_expect(const char *file, int line, const char *call, ncclResult_t got,
                 ncclResult_t wanted);
#define GIVES(call, result) nccl_expect(__FILE__, __LINE__, #call, (call), (result))
#define FINE(call) GIVES(call, ncclSuccess)

/* Whether the library that TUTTI_NCCL names can be opened. */
bool ranks_have_library(void);
/* Runs it in so many processes, with a driver, NCCL and no communicator, and waits for them. One that
 * kills itself is no failure. */
void ranks_run(int count, void (*run)(void));

/* This process is the only rank. */
void ranks_alone(void);

/* What the ranks of a case tell each other. */
void ranks_tell(int value); /* a rank's own word, greater than the one before */
bool ranks_heard(int from, int value,
                 int ms); /* until its word is as great, or not within that time */
void ranks_meet(void);    /* all of them, within 30 s */

/* The id that rank 0 makes; another one after all have renewed it. */
ncclUniqueId ranks_id(void);
void ranks_renew_id(void);
/* A communicator of all, which is not ready yet. */
ncclResult_t ranks_join(bool blocking);
/* Its result, once it is not ncclInProgress, or that after so long. */
ncclResult_t ranks_result(ncclComm_t of, int ms);
/* The same, blocking, and it has to be fine. */
void ranks_make(void);
/* Gives it back, all together. */
void ranks_end(void);

double ranks_now_ms(void);

/* Device memory of `count` floats. */
float *ranks_memory(size_t count, float value);
/* Its element, after all that was submitted. */
float ranks_float(const float *memory, size_t at);

/* nccl_ranks_capture.c: cases */
void a_captured_call_replays(void);
void a_call_comes_after_a_graph_that_was_launched_before(void);
void streams_of_a_group_are_all_captured_or_none(void);
void a_communicator_ends_after_its_graphs(void);

#endif
