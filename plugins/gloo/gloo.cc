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

/* What the library has; the plugin takes TCP. */
#if GLOO_HAVE_TRANSPORT_TCP_TLS
#define GLOO_HAS_TLS " tls"
#else
#define GLOO_HAS_TLS ""
#endif
#if GLOO_HAVE_TRANSPORT_IBVERBS
#define GLOO_HAS_IBVERBS " ibverbs"
#else
#define GLOO_HAS_IBVERBS ""
#endif
#if GLOO_HAVE_TRANSPORT_UV
#define GLOO_HAS_UV " uv"
#else
#define GLOO_HAS_UV ""
#endif

} // namespace

extern "C" {
TUTTI_PLUGIN_EXPORT(
    "gloo",
    "1.0, drives Gloo " GLOO_TEXT(GLOO_VERSION_MAJOR) "." GLOO_TEXT(
        GLOO_VERSION_MINOR) "." GLOO_TEXT(GLOO_VERSION_PATCH) " over TCP (built with "
                                                              "tcp" GLOO_HAS_TLS GLOO_HAS_IBVERBS
                                                                  GLOO_HAS_UV ")",
    "Apache-2.0", providers, 2);
}
