/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's state, for the files of rank 0's part. */
#pragma once

#include "agreement/agree.h"

struct leading {
    struct offer *offers;  /* [size] */
    struct report *opened; /* [size] phase OPENED; addresses are copies of ours */
    bool *has_opened, *has_connected;
    bool *alone; /* [size] members that could not be proven local peers: hosts of their own */
    char why_alone[256];     /* of the first of them; empty: none */
    bool refused[PROVIDERS]; /* `auto` goes on without */
    uint8_t token[CONTROL_TOKEN_BYTES];
    bool overruled; /* a decision is there that is not ours: of members that are stuck */
    int hosts;
    int *host_of;
};

/* Which backends the group uses, from the offers and the layout; fills d->provider. */
tutti_status lead_choose(struct agreement *a, struct decision *d, int *ret_culprit);
