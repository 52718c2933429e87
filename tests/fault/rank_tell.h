/* SPDX-License-Identifier: Apache-2.0 */
/* How the rank programs of the fault tests learn what to do and tell what came of it. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "harness/rank.h"

enum { RANK_WORDS_MAX = 2048 };

static inline int number_of(const char *name, int otherwise)
{
    const char *value = getenv(name);

    return value ? atoi(value) : otherwise;
}

/* The rank that behaves differently, or that something is done to. */
static inline int victim(void)
{
    return number_of("TUTTI_TEST_VICTIM", -1);
}

/* A call has returned: when, what, and in which words. */
static inline void tell(tutti_status status)
{
    char words[RANK_WORDS_MAX];

    rank_point("returned");
    snprintf(words, sizeof words, "%s", status ? tutti_last_error() : "");
    rank_value("status", "%s", tutti_status_name(status));
    rank_value("words", "%s", words);
}
