/* SPDX-License-Identifier: Apache-2.0 */
/* The event descriptor in three event loops; the rank that has to wait goes on with its timer. */
#include "program.h"

TestSuite(event_loops, .timeout = 400);

static void serves_the_descriptor(const char *program)
{
    for (int b = 0; b < BACKENDS; b++) {
        const char *output = output_of("%s run -n 2 --backend %s %s/%s", TUTTI_COMMAND, backends[b],
                                       PROGRAMS, program);

        contains(output, "rank 0: 2 4 6 after ");
        contains(output, "rank 1: 2 4 6 after some ticks\n");
    }
}

Test(event_loops, epoll)
{
    serves_the_descriptor("loop_epoll");
}

Test(event_loops, glib)
{
    serves_the_descriptor("loop_glib");
}

#ifdef HAVE_LIBUV
Test(event_loops, libuv)
{
    serves_the_descriptor("loop_libuv");
}
#endif
