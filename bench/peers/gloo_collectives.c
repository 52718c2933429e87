/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same measurements over Gloo, for comparison. bench/compare builds it with gloo_calls.cc, since measure.h is C
 * and Gloo is C++, and starts it by `tutti run`, which gives each rank its number. Nothing of libtutti is in it.
 */
#include "../measure.h"
#include "gloo_calls.h"

int main(int argc, char **argv)
{
    const char *rank = getenv("RANK"), *size = getenv("WORLD_SIZE"), *folder = getenv("BENCH_MEET");

    if (argc == 2 && !strcmp(argv[1], "version"))
        return gloo_print_version();
    if (!rank || !size || !folder) {
        fprintf(stderr, "%s: set RANK, WORLD_SIZE and BENCH_MEET, an empty folder\n", argv[0]);
        return 2;
    }
    const struct subject subject = {.name = "gloo",
                                    .rank = atoi(rank),
                                    .size = atoi(size),
                                    .barrier = gloo_barrier,
                                    .max = gloo_max,
                                    .run = {[MEASURE_all_reduce] = gloo_all_reduce,
                                            [MEASURE_broadcast] = gloo_broadcast,
                                            [MEASURE_reduce] = gloo_reduce,
                                            [MEASURE_all_gather] = gloo_all_gather,
                                            [MEASURE_gather] = gloo_gather,
                                            [MEASURE_scatter] = gloo_scatter,
                                            [MEASURE_all_to_all] = gloo_all_to_all,
                                            [MEASURE_ping_pong] = gloo_ping_pong,
                                            /* A message is always started and then waited for. */
                                            [MEASURE_ping_pong_works] = gloo_ping_pong}};

    gloo_open(subject.rank, subject.size, folder);
    int code = measure_main(&subject, argc, argv);
    gloo_close();
    return code;
}
