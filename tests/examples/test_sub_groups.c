/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_MAX = 4096 };

static int run(const char *backend, char ret_output[OUTPUT_MAX])
{
    char command[1024];

    setenv("TUTTI_PLUGIN_PATH", TUTTI_PLUGINS, 1);
    snprintf(command, sizeof command, "%s run -n 6 --backend %s %s", TUTTI_COMMAND, backend,
             SUB_GROUPS);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    size_t n = fread(ret_output, 1, OUTPUT_MAX - 1, pipe);
    ret_output[n] = 0;
    return pclose(pipe);
}

Test(sub_groups, every_rank_prints_its_places_and_sums, .timeout = 40)
{
    static const char *const backends[] = {"shm", "tcp"};
    char output[OUTPUT_MAX], line[128];

    for (size_t b = 0; b < sizeof backends / sizeof backends[0]; b++) {
        cr_expect_eq(run(backends[b], output), 0, "%s: %s", backends[b], output);
        for (int r = 0; r < 6; r++) {
            snprintf(line, sizeof line,
                     "[%d] rank %d: %d of 2 in its row, sum %d; %d of 3 in its column, sum %d\n", r,
                     r, r % 2, r / 2 * 4 + 1, r / 2, r % 2 ? 9 : 6);
            cr_expect_not_null(strstr(output, line), "no «%s» in: %s", line, output);
            snprintf(line, sizeof line,
                     "[%d] rank %d: %d of 3 among the even ranks, sum 6, led by rank 4\n", r, r,
                     2 - r / 2);
            cr_expect_eq(strstr(output, line) != NULL, r % 2 == 0, "«%s» in: %s", line, output);
        }
    }
}
