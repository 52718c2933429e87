/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member that named a device says its UUID in its offer. One that named only the kind has the device with the number
 * of its local rank, which follows from the layout: it offers the UUIDs of all that it sees, and the leader, who
 * makes the layout, finds the one. A member that named none does not open a driver for this.
 */
#include "agreement/agree_devices.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "device/device.h"
#include "plugin/known.h"

enum { TOLD_MAX = 16 };

void devices_consider(struct tutti_group *group)
{
    const bool may =
        group->tls == ENVIRONMENT_PLAIN && !group->has_checksums && !group->ways.wrappers;

    backend_consider_engine(&group->choice, may ? group->device_choice.type : 0);
}

void devices_offer(const struct tutti_group *group, struct device_offer *ret_offer)
{
    const struct device_choice *choice = &group->device_choice;
    const int local_rank = group->origin.local_rank;
    const bool is_known = choice->number >= 0 || local_rank >= 0;
    struct device_facts facts;

    *ret_offer = (struct device_offer){0};
    if (!choice->type ||
        device_describe(choice->type, is_known ? choice->number : 0, local_rank, &facts))
        return;
    *ret_offer = (struct device_offer){.number = is_known ? facts.number : -1,
                                       .count = (uint32_t)facts.count};
    const int32_t last = is_known                          ? facts.number
                         : facts.count < AGREE_DEVICES_MAX ? facts.count - 1
                                                           : AGREE_DEVICES_MAX - 1;
    for (int32_t number = facts.number; number <= last; number++) {
        if (device_describe(choice->type, number, 0, &facts))
            return;
        snprintf(ret_offer->uuids[ret_offer->listed++], AGREE_UUID_MAX, "%s", facts.uuid_text);
    }
    ret_offer->type = choice->type;
}

static int32_t local_rank_of(const struct led_member *members, int rank)
{
    int32_t local = 0;

    for (int r = 0; r < rank; r++)
        local += members[r].host == members[rank].host;
    return local;
}

void devices_find(struct led_member *members, int size)
{
    for (int r = 0; r < size; r++) {
        struct led_member *m = &members[r];
        const struct device_offer *offer = &m->offer.device;

        m->uuid = NULL;
        if (!known_device_name(offer->type))
            continue;
        m->device = offer->number;
        if (m->device < 0)
            m->device = local_rank_of(members, r) % (int32_t)offer->count;
        const uint32_t place = offer->number < 0 ? (uint32_t)m->device : 0;
        if (place < offer->listed)
            m->uuid = offer->uuids[place];
    }
}

int devices_find_shared(const struct led_member *members, int size, int *ret_lower)
{
    for (int r = 1; r < size; r++)
        for (int lower = 0; members[r].uuid && lower < r; lower++)
            if (members[lower].uuid && !strcmp(members[lower].uuid, members[r].uuid)) {
                *ret_lower = lower;
                return r;
            }
    return -1;
}

enum devices_engine devices_find_engine(const struct led_member *members, int size,
                                        char ret_why[ENGINES_WORDS_MAX])
{
    const int other = engines_find_other(members, size, DEVICE_NATIVE);
    int lacking = -1, named = 0, lower = 0;

    *ret_why = 0;
    for (int r = size - 1; r >= 0; r--) {
        const struct offer *offer = &members[r].offer;
        const bool has = *offer->engines[DEVICE_NATIVE].name;

        named += has || *offer->reasons[DEVICE_NATIVE];
        lacking = has && members[r].uuid ? lacking : r;
    }
    const int shared = devices_find_shared(members, size, &lower);
    if (!named)
        return DEVICES_NOWHERE;
    if (lacking >= 0) {
        const struct offer *offer = &members[lacking].offer;
        const char *reason = offer->reasons[DEVICE_NATIVE];

        snprintf(ret_why, ENGINES_WORDS_MAX, "rank %d: %.*s", lacking,
                 TEXT_CUT(*reason ? reason
                          : *offer->engines[DEVICE_NATIVE].name
                              ? "its device is not known"
                              : "it has named no device (TUTTI_DEVICE)",
                          300));
    } else if (other >= 0) {
        engines_tell(members, other, DEVICE_NATIVE, ret_why);
    } else if (shared >= 0) {
        snprintf(ret_why, ENGINES_WORDS_MAX, "ranks %d and %d share the device %s", lower, shared,
                 members[shared].uuid);
    }
    return *ret_why ? DEVICES_LACK : DEVICES_JOIN;
}

void devices_warn(const struct tutti_group *group, const char *engine, const char *why)
{
    log_line(LOG_WARN, 0,
             "group %s: tensors on devices go through pinned host memory, and not by %s: %s",
             group->name, engine, why);
}

/* "rank 0 cuda:0 GPU-5b8e…, rank 1 …"; how many members have one. */
static int list(const struct led_member *members, int size, struct text *words)
{
    int count = 0;

    for (int r = 0; r < size; r++) {
        const struct led_member *m = &members[r];

        if (m->uuid && count++ < TOLD_MAX)
            text_add(words, "%srank %d %s:%d %s", count > 1 ? ", " : "", r,
                     known_device_name(m->offer.device.type), m->device, m->uuid);
    }
    if (count > TOLD_MAX)
        text_add(words, ", and %d more", count - TOLD_MAX);
    return count;
}

void devices_tell(const struct agreement *a)
{
    const struct led_member *members = a->lead->members;
    const int size = a->group->size;
    char buffer[1536];
    struct text words = text_in(buffer, sizeof buffer);
    int lower;

    if (!log_enabled(LOG_INFO) || !list(members, size, &words))
        return;
    log_line(LOG_INFO, 0, "group %s: devices: %s", a->group->name, buffer);
    const int shared = devices_find_shared(members, size, &lower);
    if (shared >= 0)
        log_line(LOG_INFO, 0, "group %s: ranks %d and %d share the device %s, and take turns on it",
                 a->group->name, lower, shared, members[shared].uuid);
}
