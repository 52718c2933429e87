/* SPDX-License-Identifier: Apache-2.0 */
/* Each whole operation by Gloo's function for it. */
#ifndef GLOO_OPERATIONS_HH
#define GLOO_OPERATIONS_HH

#include <tutti/plugin_engine.h>

#include <gloo/context.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace tutti_gloo
{

/* out[i] = a[i] op b[i] */
using reduction = std::function<void(void *out, const void *a, const void *b, std::size_t count)>;

/* Whether there is such a function; of `what` the first part. */
bool has_operation(const tutti_collective &what);
/* Waits until it is complete on this member. */
void run_operation(const std::shared_ptr<gloo::Context> &context, const tutti_collective &what,
                   const reduction &reduce);

} // namespace tutti_gloo

#endif
