/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

Test(sub_groups, every_rank_prints_its_places_and_sums, .timeout = 40)
{
    char line[128];

    for (int b = 0; b < BACKENDS; b++) {
        const char *output =
            output_of("%s run -n 6 --backend %s %s", TUTTI_COMMAND, backends[b], SUB_GROUPS);

        for (int r = 0; r < 6; r++) {
            snprintf(line, sizeof line,
                     "[%d] rank %d: %d of 2 in its row, sum %d; %d of 3 in its column, sum %d\n", r,
                     r, r % 2, r / 2 * 4 + 1, r / 2, r % 2 ? 9 : 6);
            contains(output, line);
            snprintf(line, sizeof line,
                     "[%d] rank %d: %d of 3 among the even ranks, sum 6, led by rank 4\n", r, r,
                     2 - r / 2);
            cr_expect_eq(strstr(output, line) != NULL, r % 2 == 0, "«%s» in: %s", line, output);
        }
    }
}
