/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The safeties that a build for measurements leaves out of calls, to find out what they cost: the
 * CMake variable TUTTI_BENCH_WITHOUT. In every other build these are 0, and leave no code behind.
 */
#pragma once

#ifndef TUTTI_WITHOUT_MISMATCH
#define TUTTI_WITHOUT_MISMATCH 0
#endif
#ifndef TUTTI_WITHOUT_DEADLINE
#define TUTTI_WITHOUT_DEADLINE 0
#endif
#ifndef TUTTI_WITHOUT_RECORDER
#define TUTTI_WITHOUT_RECORDER 0
#endif

enum {
    WITHOUT_MISMATCH = TUTTI_WITHOUT_MISMATCH, /* members do not compare what they call */
    WITHOUT_DEADLINE = TUTTI_WITHOUT_DEADLINE, /* no call times out or is warned of */
    WITHOUT_RECORDER = TUTTI_WITHOUT_RECORDER  /* the last calls are not kept */
};
