/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of messages between rank 0 and call->root. A blocking call sends and receives with
 * tutti_send(), tutti_recv() and tutti_sendrecv(), an asynchronous one with works that it waits for.
 */
#pragma once

#include "bench/call.h"

/* A message to the peer, and one back. As osu_latency and IMB PingPong. */
tutti_status message_ping_pong(struct bench_call *call, tutti_work **work);
/* One message each way at the same time. As osu_bibw with a window of 1. */
tutti_status message_both_ways(struct bench_call *call, tutti_work **work);
/* call->window messages from rank 0, all of them in flight at once if the call is asynchronous. As
 * osu_bw, which is asynchronous. */
tutti_status message_burst(struct bench_call *call, tutti_work **work);
