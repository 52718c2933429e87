/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms in rounds (schedule/rounds.h): where the members of a host outnumber its CPUs. */
#pragma once

#include "algorithm/algorithm.h"

enum {
    /* With fewer members, switches are so few that the ordinary algorithms take no more time. */
    ROUNDS_MEMBERS_MIN = 8,
    /* 16 ranks on 2 CPUs reduce 8 bytes in 33 us instead of 47. With 32, rounds took from half to
     * 1.1 times the time of the ordinary algorithms, and with 64 always more. */
    ROUNDS_MEMBERS_MAX = 16
};
