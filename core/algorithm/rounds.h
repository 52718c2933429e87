/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms in rounds (schedule/rounds.h): where the members of a host outnumber its CPUs. */
#pragma once

#include "algorithm/algorithm.h"

enum {
    /* With fewer members, switches are so few that the ordinary algorithms take no more time. */
    ROUNDS_MEMBERS_MIN = 8
};
