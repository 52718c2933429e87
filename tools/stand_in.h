/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that belong to an MPI job although mpirun did not start them.
 *
 * mpirun starts a stand-in for each rank (`tutti stand-in`), which hands over what mpirun gave to it,
 * its environment and the descriptor that it talks to mpirun by, and then only waits. A rank that gets
 * these takes its stand-in's place in the job, and is otherwise an ordinary child: its pid, its
 * streams, its signals and how it ended are its parent's alone. Nothing of mpirun's own handling
 * of output and deaths is in the way, which differs between MPIs and kills survivors.
 *
 * Includes no GLib: the tests' harness starts ranks by it, too.
 */
#ifndef TUTTI_TOOLS_STAND_IN_H
#define TUTTI_TOOLS_STAND_IN_H

#include <stdbool.h>
#include <stddef.h>

struct stand_ins;

struct stand_in_options {
    const char *family; /* of the launcher: "openmpi", "mpich", "abi" */
    int count;
    const char *tutti;           /* the path of the command */
    bool (*is_over)(void *user); /* whether to give up before all are there; NULL: never */
    void *user;
};

/* Starts `count` stand-ins through the launcher of `family`. Waits until all have handed over, 60 s at
 * most. NULL, with words for the user: not. */
struct stand_ins *stand_ins_start(const struct stand_in_options *options, char *ret_words,
                                  size_t size);

/* What rank's environment has on top of this process's, "NAME=VALUE", ended by NULL. */
char *const *stand_in_environment(const struct stand_ins *stand_ins, int rank);
/* What the rank has to inherit, close-on-exec here; its number stands in the environment. -1: none. */
int stand_in_descriptor(const struct stand_ins *stand_ins, int rank);
/* The launcher's process, a child of this one; 0: it has ended. */
int stand_ins_launcher(const struct stand_ins *stand_ins);
/* To be told when that was collected before stand_ins_stop(), with its status: how it ended, and what it
 * said, for the user. */
void stand_ins_launcher_ended(struct stand_ins *stand_ins, int wait_status, char *ret_words,
                              size_t size);

/* Lets the stand-ins go, and with them the launcher, which is killed when it takes longer than 2 s.
 * NULL is allowed. */
void stand_ins_stop(struct stand_ins *stand_ins);

/* `tutti stand-in NAME`; `name` is that of the socket to hand over by. */
int stand_in_main(const char *name);

#endif
