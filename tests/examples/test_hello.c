/* SPDX-License-Identifier: Apache-2.0 */
/* The README's first program, run as the README says. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_MAX = 4096 };

/* What four ranks print over a backend, and the launcher's exit status. */
static int run_hello(const char *backend, char ret_output[OUTPUT_MAX])
{
    char command[1024];

    setenv("TUTTI_PLUGIN_PATH", TUTTI_PLUGINS, 1);
    snprintf(command, sizeof command, "%s run -n 4 --backend %s %s", TUTTI_COMMAND, backend, HELLO);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    size_t n = fread(ret_output, 1, OUTPUT_MAX - 1, pipe);
    ret_output[n] = 0;
    return pclose(pipe);
}

Test(hello, every_rank_prints_the_sums, .timeout = 30)
{
    static const char *const backends[] = {"shm", "tcp"};
    char output[OUTPUT_MAX], line[64];

    for (size_t b = 0; b < sizeof backends / sizeof backends[0]; b++) {
        cr_expect_eq(run_hello(backends[b], output), 0, "%s: %s", backends[b], output);
        for (int r = 0; r < 4; r++) {
            snprintf(line, sizeof line, "[%d] rank %d of 4 over %s: 6 4 8 12\n", r, r, backends[b]);
            cr_expect_not_null(strstr(output, line), "no «%s» in: %s", line, output);
        }
    }
}
