/* SPDX-License-Identifier: Apache-2.0 */
/* The event descriptor in three event loops; the rank that has to wait goes on with its timer. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(event_loops, .timeout = 60);

static void serves_the_descriptor(const char *program)
{
    static const char *const backends[] = {"shm", "tcp"};
    char command[1024], output[4096];

    setenv("TUTTI_PLUGIN_PATH", TUTTI_PLUGINS, 1);
    for (int b = 0; b < 2; b++) {
        snprintf(command, sizeof command, "%s run -n 2 --backend %s %s/%s", TUTTI_COMMAND,
                 backends[b], PROGRAMS, program);
        FILE *pipe = popen(command, "r");
        cr_assert_not_null(pipe);
        output[fread(output, 1, sizeof output - 1, pipe)] = 0;
        cr_expect_eq(pclose(pipe), 0, "%s: %s", command, output);
        cr_expect_not_null(strstr(output, "rank 0: 2 4 6 after "), "%s", output);
        cr_expect_not_null(strstr(output, "rank 1: 2 4 6 after some ticks\n"), "%s", output);
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
