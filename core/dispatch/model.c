/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/model.h"

#include <string.h>

/* Microseconds and microseconds a byte, on two cores that share a cache. */
struct link {
    const char *name;
    double alpha, each, beta; /* a message; one of several at once; a byte */
};

static const struct link links[] = {
    {"shm", 0.3, 0.2, 1.0 / 12000},
    {NULL, 6.0, 1.5, 1.0 / 4400}, /* TCP over loopback, and what is not known */
};
static const double hand_over_us = 0.1, mapped_us_per_byte = 1.0 / 12000,
                    reduce_us_per_byte = 1.0 / 20000;

static const struct link *link_of(const char *provider)
{
    const struct link *link = links;

    while (link->name && (!provider || strcmp(link->name, provider)))
        link++;
    return link;
}

double model_message(const char *provider, uint64_t bytes)
{
    const struct link *link = link_of(provider);

    return link->alpha + (double)bytes * link->beta;
}

double model_estimate(const struct group_facts *facts, const struct algorithm *algorithm,
                      uint64_t bytes)
{
    const struct cost c = algorithm->cost(facts->layout, bytes);
    const struct link *link = link_of(facts->remote_name);
    double sharing = 1;

    /* Members of one host share its network; composed algorithms have counted that. */
    if (algorithm->kind == ALGORITHM_MESSAGES && facts->layout->hosts > 1)
        sharing = layout_fullest(facts->layout);
    return c.messages * link->alpha + c.at_once * link->each +
           c.message_bytes * link->beta * sharing + c.hand_overs * hand_over_us +
           c.mapped_bytes * mapped_us_per_byte + c.reduced_bytes * reduce_us_per_byte;
}
