/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of a world's keys in the store. */
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "group/group.h"

/* A '/' would end the part, so it is written %2F, and a '%' %25. A name for which there is no room then becomes
 * "%%" and its hash. */
static void key_part(const char *name, char ret_part[GROUP_KEY_PART_MAX])
{
    size_t n = 0;

    for (const char *at = name; *at && n < GROUP_KEY_PART_MAX; at++)
        n += *at == '/' || *at == '%' ? 3 : 1;
    if (n >= GROUP_KEY_PART_MAX) {
        const XXH128_hash_t hash = XXH3_128bits(name, strlen(name));

        snprintf(ret_part, GROUP_KEY_PART_MAX, "%%%%%016llx%016llx",
                 (unsigned long long)hash.high64, (unsigned long long)hash.low64);
        return;
    }
    for (; *name; name++) {
        const char *escape = *name == '/' ? "%2F" : *name == '%' ? "%25" : NULL;

        memcpy(ret_part, escape ? escape : name, escape ? 3 : 1);
        ret_part += escape ? 3 : 1;
    }
    *ret_part = 0;
}

void group_write_key(struct tutti_group *world)
{
    const struct bootstrap *bootstrap = &world->bootstrap;
    char part[GROUP_KEY_PART_MAX];

    key_part(world->name, part);
    snprintf(world->key, sizeof world->key, "tutti/%s/%d/%lld/%s", bootstrap->run_id,
             bootstrap->restart, (long long)bootstrap->earlier, part);
    world->origin.world_key_size = strlen(world->key);
}

tutti_status group_name_key(struct tutti_group *world)
{
    struct bootstrap *bootstrap = &world->bootstrap;
    char part[GROUP_KEY_PART_MAX];

    key_part(world->name, part);
    const tutti_status status = bootstrap->size > 1 ? bootstrap_count(bootstrap, part) : TUTTI_OK;
    if (!status)
        group_write_key(world);
    return status;
}
