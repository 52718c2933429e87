/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in model: what an algorithm's cost comes to. Of shared facts alone, so that all members
 * have the same numbers. */
#ifndef TUTTI_DISPATCH_MODEL_H
#define TUTTI_DISPATCH_MODEL_H

#include "dispatch/dispatch.h"

/* Microseconds. */
double model_estimate(const struct group_facts *facts, const struct algorithm *algorithm,
                      uint64_t bytes);
/* One message that goes by `provider`. */
double model_message(const char *provider, uint64_t bytes);

#endif
