/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo: messages and collectives by Gloo, over its TCP transport. The only plugin in C++: what it exports are
 * tables of C functions, through which no exception leaves.
 */
#include "endpoint.hh"
#include "team.hh"

#include <gloo/config.h>

namespace
{

constexpr tutti_provider transport = {sizeof(tutti_provider), TUTTI_PROVIDER_TRANSPORT, "gloo",
                                      &tutti_gloo::transport_ops};
constexpr tutti_provider collectives = {sizeof(tutti_provider), TUTTI_PROVIDER_COLLECTIVES, "gloo",
                                        &tutti_gloo::collectives_ops};
const tutti_provider *const providers[] = {&transport, &collectives};

#define GLOO_TEXT_OF(number) #number
#define GLOO_TEXT(number) GLOO_TEXT_OF(number)

} // namespace

extern "C" {
TUTTI_PLUGIN_EXPORT("gloo",
                    "1.0, drives Gloo " GLOO_TEXT(GLOO_VERSION_MAJOR) "." GLOO_TEXT(
                        GLOO_VERSION_MINOR) "." GLOO_TEXT(GLOO_VERSION_PATCH) " over TCP",
                    "Apache-2.0", providers, 2);
}
