/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's state, for the files of rank 0's part. */
#pragma once

#include "agreement/agree.h"

/* What the leader knows of a member. */
struct led_member {
    struct offer offer;
    struct writer
        opened;        /* its report of phase OPENED as it goes into the roster; `data` is ours */
    unsigned reported; /* in this round: bits of enum report_phase */
    bool alone;        /* could not be proven a local peer: a host of its own */
    int host;
    int32_t device;   /* number of its device */
    const char *uuid; /* of that, in the offer; NULL: it has not looked for one */
};

struct leading {
    struct led_member *members; /* [size] */
    char why_alone[256];        /* of the first that is alone; empty: none */
    bool refused[PROVIDERS];    /* `auto` goes on without */
    uint8_t salt[CONTROL_SALT_BYTES];
    bool overruled; /* a decision is there that is not ours: of members that are stuck */
    int hosts;
};

/* Takes the seals off the offers. If the members have different secrets, and none requires its own, the
 * group is open from then on: a warning tells. MISMATCH: one does; STORE: somebody else wrote an offer. */
tutti_status lead_compare_secrets(struct agreement *a, const char *const *keys,
                                  tutti_store_value *offers, int *ret_culprit);

/* Which backends the group uses, from the offers and the layout; fills d->provider. */
tutti_status lead_choose(struct agreement *a, struct decision *d, int *ret_culprit);
