/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls UCC does, and how they are put to it. */
#pragma once

#include <stdbool.h>

#include <tutti/plugin_engine.h>

#include "ucc_api.h"

/* Whether UCC does it, with tutti's meaning. */
bool operations_serve(const tutti_collective *what);
/* UCC's name of it: "Allreduce". */
const char *operations_name(const tutti_collective *what);
/* Fills in `ret_args`. `counts` and `places` have room for size entries each, and are valid as long as the operation. */
void operations_fill(const tutti_collective *what, int rank, uint64_t *counts, uint64_t *places,
                     ucci_coll_args *ret_args);
