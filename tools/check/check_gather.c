/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gathers of bytes that the core does for a transport whose library has its members tell each other things while
 * it starts: tutti_host.gather_start. The processes of the check share memory, in which each puts its bytes. A
 * process begins the next gather when it has the bytes of this one, so two of each are held at most.
 */
#include "check/check_core.h"

#include <string.h>

/* The second endpoint of core_start_two() gathers apart. */
static int way_of(const struct core *core)
{
    return core->token == CORE_TOKEN + 1;
}

tutti_status core_gather_start(void *self, const void *bytes, uint64_t count,
                               tutti_exchange **ret_exchange)
{
    struct core *core = self;
    struct check_gathers *own = check_gathers_of(core->index, way_of(core));
    const uint64_t number = atomic_load(&own->begun), slot = number % CHECK_GATHERS_HELD;

    if (atomic_exchange(&core->gathers, true))
        check_fails("it starts a gather while another is under way");
    if (count > CHECK_GATHER_MAX)
        check_fails("it gathers %llu bytes of each member; at most %d are possible",
                    (unsigned long long)count, CHECK_GATHER_MAX);
    own->bytes[slot] = count;
    memcpy(own->data[slot], bytes, count);
    atomic_store(&own->begun, number + 1);
    *ret_exchange = (tutti_exchange *)(void *)own;
    return TUTTI_OK;
}

tutti_status core_gather_test(void *self, tutti_exchange *exchange, void *ret_all)
{
    struct core *core = self;
    const struct check_gathers *own = check_gathers_of(core->index, way_of(core));
    const struct check_gathers *other = check_gathers_of(1 - core->index, way_of(core));
    const uint64_t begun = atomic_load(&own->begun), slot = (begun - 1) % CHECK_GATHERS_HELD;
    uint8_t *all = ret_all;

    if ((const void *)exchange != own || !atomic_load(&core->gathers))
        check_fails("it calls gather_test() with what gather_start() has not returned, or again "
                    "after its result");
    if (atomic_load(&other->begun) < begun)
        return TUTTI_ERR_NOT_READY;
    const uint64_t count = own->bytes[slot];
    if (other->bytes[slot] != count)
        check_fails("the members gather %llu and %llu bytes in one gather; they must be as many",
                    (unsigned long long)count, (unsigned long long)other->bytes[slot]);
    memcpy(all + (uint64_t)core->index * count, own->data[slot], count);
    memcpy(all + (uint64_t)(1 - core->index) * count, other->data[slot], count);
    atomic_store(&core->gathers, false);
    return TUTTI_OK;
}
