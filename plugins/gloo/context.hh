/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Gloo's collectives run on: a context whose buffers belong to one thread that can be called back.
 *
 * Gloo's own buffers wait until a timeout, and then end the process's connections; a thread that
 * waits in one cannot be told to leave. And a message that is longer than its receive ends the
 * connection, which happens when members call different things. So Gloo's functions get buffers of
 * ours, which hand on to those of mesh.hh: their waits can be ended (patience.hh), and a message
 * travels under a slot made of the call and the message's length. Messages that do not fit never
 * meet, and the core finds out why nothing goes on.
 */
#ifndef GLOO_CONTEXT_HH
#define GLOO_CONTEXT_HH

#include "mesh.hh"
#include "patience.hh"

#include <gloo/context.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace tutti_gloo
{

/* What a thread that is in Gloo waits with. */
struct waiter {
    tutti_gloo::mesh &mesh;
    patience &waits;
    /* Throws what has ended the connection to the member that it waits for. Any other member may
     * have left: one that has done its part of the last operation leaves while others are in it. */
    std::function<void(int)> look;
    std::uint64_t call = 0; /* what the members must have in common for their messages to meet */
    std::atomic<int> awaited{-1}; /* the member that it waits for; read by any thread */
};

/* `with` outlives it. */
std::shared_ptr<gloo::Context> make_context(waiter &with);

/* For keys: every bit of the result depends on every bit of both. */
std::uint64_t mixed(std::uint64_t a, std::uint64_t b);

} // namespace tutti_gloo

#endif
