/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the identity of this process and the store that it uses, from the options and the
 * environment. Pure: it reads variables through a function and opens nothing, so that tests and the
 * fuzzer can bring their own environment.
 */
#pragma once

#include <stdbool.h>

#include <tutti/group.h>
#include <tutti/status.h>
#include <tutti/store.h>

#include "bootstrap/url.h"

enum { IDENTITY_RUN_ID_MAX = 127, IDENTITY_SOURCE_MAX = 255 };

/* The value of a variable, NULL when it is not set; valid until identity_resolve() returns. An
 * empty one counts as not set. */
typedef const char *(*identity_variable_fn)(const char *name, void *user);

struct identity {
    int rank, size, restart;
    tutti_store *given; /* the options' own; NULL: `store` says where it is */
    bool alone;         /* nobody to meet: a store in this process serves; `store` says nothing */
    struct url store;   /* tcp or file */
    bool hosts;         /* this process serves the tcp store */
    bool served_by_0;   /* rank 0 of the job does, as far as this rank can tell */
    bool may_be_client; /* when it cannot bind: somebody else on this host may be serving already */
    char run_id[IDENTITY_RUN_ID_MAX + 1];
    char source[IDENTITY_SOURCE_MAX + 1];
};

/* The variables of this process, for `variable`; `user` is not used. */
const char *identity_own_variable(const char *name, void *user);

/* `options` are the library's own copy (options_copy). INVALID_ARGUMENT names the option or
 * variable, its value, and what to do. */
tutti_status identity_resolve(const tutti_init_options *options, identity_variable_fn variable,
                              void *user, struct identity *ret_identity);

/* Parses a value of TUTTI_STORE; INVALID_ARGUMENT when it makes no sense. */
tutti_status identity_store(const char *value, struct url *ret_store);

/* The name of a launcher's variable that says that this process is one of several, NULL: none does. */
const char *identity_evidence(identity_variable_fn variable, void *user);
