/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that belong to an MPI job although mpirun did not start them.
 *
 * mpirun starts a PMI proxy for each rank (`tutti pmi-proxy`), which hands over what mpirun gave to it,
 * its environment and the descriptor that it talks to mpirun by, and then only waits. A rank that gets
 * these takes its PMI proxy's place in the job, and is otherwise an ordinary child: its pid, its
 * streams, its signals and how it ended are its parent's alone. Nothing of mpirun's own handling
 * of output and deaths is in the way, which differs between MPIs and kills survivors.
 *
 * Includes no GLib: the tests' harness starts ranks by it, too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct pmi_proxies;

struct pmi_proxy_options {
    const char *family; /* of the launcher: "openmpi", "mpich", "abi" */
    int count;
    const char *tutti;           /* the path of the command */
    bool (*is_over)(void *user); /* whether to give up before all are there; NULL: never */
    void *user;
};

/* Starts `count` PMI proxies through the launcher of `family`. Waits until all have handed over, 60 s at
 * most. NULL, with a message for the user: not. */
struct pmi_proxies *pmi_proxies_start(const struct pmi_proxy_options *options, char *ret_words,
                                      size_t size);

/* The variables of a rank besides this process's, "NAME=VALUE", ended by NULL. */
char *const *pmi_proxy_environment(const struct pmi_proxies *pmi_proxies, int rank);
/* The descriptor for a rank to inherit, close-on-exec here; its number stands in the environment.
 * -1: none. */
int pmi_proxy_descriptor(const struct pmi_proxies *pmi_proxies, int rank);
/* The launcher's process, a child of this one; 0: it has ended. */
int pmi_proxies_launcher(const struct pmi_proxies *pmi_proxies);
/* To be told when that was collected before pmi_proxies_stop(), with its status: how it ended, and what it
 * said, for the user. */
void pmi_proxies_launcher_ended(struct pmi_proxies *pmi_proxies, int wait_status, char *ret_words,
                                size_t size);

/* Lets the PMI proxies go, and with them the launcher, which is killed when it takes longer than 2 s.
 * NULL is allowed. */
void pmi_proxies_stop(struct pmi_proxies *pmi_proxies);

/* `tutti pmi-proxy NAME`; `name` is that of the socket to hand over by. */
int pmi_proxy_main(const char *name);
