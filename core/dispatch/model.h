/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in model: what an algorithm's cost comes to. Of shared facts alone, so that all members
 * have the same numbers. */
#ifndef TUTTI_DISPATCH_MODEL_H
#define TUTTI_DISPATCH_MODEL_H

#include "dispatch/dispatch.h"

/* Picoseconds. */
uint64_t model_estimate(const struct group_facts *facts, const struct algorithm *algorithm,
                        uint64_t bytes);
/* One message that goes by `provider`. */
uint64_t model_message(const char *provider, uint64_t bytes);

/* Whether a composition is to be left for messages; not where both cost the same. */
bool model_finds_slower(const struct group_facts *facts, const struct algorithm *composed,
                        const struct algorithm *messages, uint64_t bytes);

static inline double model_us(uint64_t ps)
{
    return (double)ps * 1e-6;
}

#endif
