/* SPDX-License-Identifier: Apache-2.0 */
/* Places in registered memory of local peers: what they name, in lines or messages, is checked here. */
#pragma once

#include "schedule/mapped.h"

/* Whether the line of local peer `index`, which has been met in this call, shows references. */
bool mapped_shows_references(const struct mapped *mapped, int index);

/*
 * Takes the references of local peer `index`, of which `reach` will be used, into mapped->places[index]. `shown`:
 * instead of those in the line, which local peers could have written to; NULL: those.
 * TUTTI_ERR_INTERNAL, with the culprit set: they are not inside memory that it has registered.
 * TUTTI_ERR_MISMATCH, in words: a block in its table has another size than this member knows it by.
 */
tutti_status mapped_resolve(struct mapped *mapped, int index, const struct mapped_references *shown,
                            const struct mapped_reach *reach);

/*
 * Where `bytes` at `offset` of the memory of that number of local peer `index` are mapped here. NOT_READY:
 * there is no memory of that number, yet or any more. INTERNAL: they are not inside it.
 */
tutti_status mapped_place(const struct mapped *mapped, int index, uint32_t number, uint64_t offset,
                          uint64_t bytes, unsigned char **ret_place);
