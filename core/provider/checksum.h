/* SPDX-License-Identifier: Apache-2.0 */
/* TUTTI_CHECKSUM=1: what stands in front of every transport of a group. */
#pragma once

#include <tutti/plugin.h>

/* Puts checksums in front of an endpoint that is open. */
tutti_status checksum_transport(const tutti_transport_ops **ops, tutti_endpoint **endpoint);
