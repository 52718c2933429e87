/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the worlds meet that `--tune` makes beside the first one. If rank 0 serves the store of the first
 * world at MASTER_ADDR, it cannot serve another one at that port. So it serves one at a free port.
 */
#pragma once

#include <tutti/tutti.h>

#include "bench/tune.h"

struct tune_store {
    tutti_store_server *server; /* of rank 0; NULL: the worlds meet in the store of the first one */
    tutti_store *store;
};

/* All ranks call it. */
tutti_status tune_store_open(const struct tune_job *job, struct tune_store *ret_store);
/* When the last world is made. */
void tune_store_close(struct tune_store *store);
