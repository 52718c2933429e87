/* SPDX-License-Identifier: Apache-2.0 */
/* The README's first program, run as the README says. */
#include "program.h"

Test(hello, every_rank_prints_the_sums, .timeout = 30)
{
    char line[64];

    for (int b = 0; b < BACKENDS; b++) {
        const char *output =
            output_of("%s run -n 4 --backend %s %s", TUTTI_COMMAND, backends[b], HELLO);

        for (int r = 0; r < 4; r++) {
            snprintf(line, sizeof line, "[%d] rank %d of 4 over %s: 6 4 8 12\n", r, r, backends[b]);
            contains(output, line);
        }
    }
}
