/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of torchrun, mpirun and srun that `tutti run` does not have, with what to do instead. They are looked
 * for before the program only: what follows it belongs to it.
 */
#pragma once

#include <glib.h>

/* The first word of argv that is such an option, and what to say of it; NULL: there is none. `entries` are the
 * options that there are. */
const char *foreign_option(const GOptionEntry *entries, char *const *argv, const char **ret_advice);
