/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader finds in the offers of all members about the libraries that backends drive. */
#pragma once

#include "agreement/agree_lead.h"

enum { ENGINES_WORDS_MAX = 512 };

/* The first member whose engine of that level does not understand rank 0's, or -1. */
int engines_find_other(const struct led_member *members, int size, int level);

/* "rank 0: …; rank R: …; the same … is needed" */
void engines_tell(const struct led_member *members, int rank, int level,
                  char ret_words[ENGINES_WORDS_MAX]);

enum engines_fabric {
    FABRIC_NOWHERE, /* no member has such devices, or the plugin */
    FABRIC_ON_SOME,
    FABRIC_ON_ALL /* and their engines understand each other */
};

/* On which members the backend of that level has devices that reach other hosts by other means than sockets;
 * and in words, for a log, what follows from it. */
enum engines_fabric engines_find_fabric(const struct led_member *members, int size, int level,
                                        char ret_why[ENGINES_WORDS_MAX]);
