/* SPDX-License-Identifier: Apache-2.0 */
/* What tutti_transport_ops tells of UCX before an endpoint is open. */
#pragma once

#include <tutti/plugin_engine.h>

/* tutti_transport_ops.engine: "UCX" and its version, of which members need the same major and minor. */
tutti_status ucx_engine(const tutti_host *host, void *host_self, tutti_engine_version *ret_version);

/* tutti_transport_ops.fabric: whether UCX has a network device here that is no plain socket. */
int32_t ucx_fabric(const tutti_host *host, void *host_self);

/* tutti_transport_ops.describe: "UCX 1.13.1, FILE; tcp: eth0, lo; posix: memory". */
void ucx_describe(const tutti_host *host, void *host_self, char *ret_words, uint64_t capacity);
