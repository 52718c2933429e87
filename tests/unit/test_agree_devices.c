/* SPDX-License-Identifier: Apache-2.0 */
/* Which device each member has, from lists of offers, and what of an offer arrives. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <tutti/tensor.h>

#include "agreement/agree_devices.h"

enum { MEMBERS = 4 };

TestSuite(agree_devices, .timeout = 10);

static struct led_member members[MEMBERS];

/* The member sees devices with the UUIDs «ab», «ac» … for a prefix «a». */
static void see(int rank, int host, uint32_t count, const char *prefix)
{
    struct device_offer *offer = &members[rank].offer.device;

    members[rank].host = host;
    *offer = (struct device_offer){.type = TUTTI_DEVICE_CUDA, .number = -1, .count = count};
    for (; offer->listed < count && offer->listed < AGREE_DEVICES_MAX; offer->listed++)
        snprintf(offer->uuids[offer->listed], AGREE_UUID_MAX, "%s%c", prefix,
                 (char)('b' + offer->listed));
}

static void name(int rank, int host, int32_t number, const char *uuid)
{
    struct device_offer *offer = &members[rank].offer.device;

    members[rank].host = host;
    *offer =
        (struct device_offer){.type = TUTTI_DEVICE_CUDA, .number = number, .count = 8, .listed = 1};
    strcpy(offer->uuids[0], uuid);
}

static void expect_device(int rank, int32_t number, const char *uuid)
{
    cr_assert_not_null(members[rank].uuid, "rank %d", rank);
    cr_expect_eq(members[rank].device, number);
    cr_expect_str_eq(members[rank].uuid, uuid);
}

Test(agree_devices, a_kind_is_the_device_with_the_local_rank)
{
    int lower;

    see(0, 0, 2, "a");
    see(1, 1, 2, "c");
    see(2, 0, 2, "a");
    see(3, 1, 2, "c");
    devices_find(members, MEMBERS);
    expect_device(0, 0, "ab");
    expect_device(1, 0, "cb");
    expect_device(2, 1, "ac");
    expect_device(3, 1, "cc");
    cr_expect_eq(devices_find_shared(members, MEMBERS, &lower), -1);
}

Test(agree_devices, members_that_share_a_device_are_found)
{
    int lower = -1;

    for (int r = 0; r < MEMBERS; r++)
        see(r, 0, 3, "a");
    devices_find(members, MEMBERS);
    expect_device(3, 0, "ab");
    cr_expect_eq(devices_find_shared(members, MEMBERS, &lower), 3);
    cr_expect_eq(lower, 0);
    name(1, 0, 7, "ad"); /* numbers are each process's own */
    devices_find(members, MEMBERS);
    expect_device(1, 7, "ad");
    cr_expect_eq(devices_find_shared(members, MEMBERS, &lower), 2);
    cr_expect_eq(lower, 1);
}

Test(agree_devices, a_member_without_a_device_shares_none)
{
    int lower;

    for (int r = 0; r < MEMBERS; r++)
        members[r] = (struct led_member){.host = 0};
    devices_find(members, MEMBERS);
    cr_expect_null(members[0].uuid);
    cr_expect_eq(devices_find_shared(members, MEMBERS, &lower), -1);
    for (int r = 0; r < MEMBERS; r++)
        see(r, r, AGREE_DEVICES_MAX + 1, "a");
    members[0].offer.device.type = 99; /* not known here */
    devices_find(members, MEMBERS);
    cr_expect_null(members[0].uuid);
    expect_device(1, 0, "ab");
}

static void expect_engine(enum devices_engine expected, const char *words)
{
    char why[ENGINES_WORDS_MAX];

    devices_find(members, MEMBERS);
    cr_expect_eq(devices_find_engine(members, MEMBERS, why), expected, "%s", why);
    cr_expect_not_null(strstr(why, words), "%s", why);
    cr_expect_eq(!*why, !*words, "%s", why);
}

Test(agree_devices, auto_has_an_engine_for_devices_where_each_member_has_one_and_its_own)
{
    for (int r = 0; r < MEMBERS; r++) {
        members[r] = (struct led_member){.host = 0};
        see(r, 0, 8, "a");
    }
    expect_engine(DEVICES_NOWHERE, "");
    for (int r = 0; r < MEMBERS; r++)
        strcpy(members[r].offer.engines[DEVICE_NATIVE].name, "NCCL 2.28.9");
    expect_engine(DEVICES_JOIN, "");
    strcpy(members[3].offer.engines[DEVICE_NATIVE].name, "NCCL 2.28.7");
    expect_engine(DEVICES_LACK, "NCCL 2.28.7");
    strcpy(members[3].offer.engines[DEVICE_NATIVE].name, "NCCL 2.28.9");
    name(2, 0, 0, "ab");
    expect_engine(DEVICES_LACK, "ranks 0 and 2 share the device ab");
    members[1].offer.device = (struct device_offer){0};
    expect_engine(DEVICES_LACK, "rank 1: its device is not known");
    *members[1].offer.engines[DEVICE_NATIVE].name = 0;
    expect_engine(DEVICES_LACK, "rank 1: it has named no device");
    strcpy(members[1].offer.reasons[DEVICE_NATIVE], "there is no libnccl.so.2");
    expect_engine(DEVICES_LACK, "rank 1: there is no libnccl.so.2");
}

/* ---- what arrives ---- */

static bool travels(const struct offer *offer, struct offer *ret_offer)
{
    static uint8_t bytes[AGREE_OFFER_MAX];
    struct writer w = {.data = bytes, .capacity = sizeof bytes};

    offer_encode(&w, offer);
    cr_assert(!w.bad);
    return offer_decode(bytes, w.size, ret_offer);
}

Test(agree_devices, an_offer_of_many_devices_arrives)
{
    static struct offer offer, arrived;

    offer.address.ss_family = AF_INET;
    see(0, 0, 100, "a");
    offer.device = members[0].offer.device;
    memset(offer.backend, 'b', sizeof offer.backend - 1);
    memset(offer.settings, 's', sizeof offer.settings - 1);
    memset(offer.refusal, 'r', sizeof offer.refusal - 1);
    for (int level = 0; level < CONTROL_PROVIDERS; level++)
        memset(offer.reasons[level], 'r', sizeof offer.reasons[level] - 1);
    for (uint32_t i = 0; i < AGREE_DEVICES_MAX; i++)
        memset(offer.device.uuids[i], 'u', AGREE_UUID_MAX - 1);
    cr_assert(travels(&offer, &arrived));
    cr_expect_eq(arrived.device.count, 100);
    cr_expect_eq(arrived.device.listed, AGREE_DEVICES_MAX);
    cr_expect_eq(arrived.device.number, -1);
    cr_expect_str_eq(arrived.device.uuids[AGREE_DEVICES_MAX - 1],
                     offer.device.uuids[AGREE_DEVICES_MAX - 1]);
}

Test(agree_devices, an_offer_of_devices_that_cannot_be_is_refused)
{
    static struct offer offer, arrived;

    offer.address.ss_family = AF_INET;
    see(0, 0, 2, "a");
    offer.device = members[0].offer.device;
    cr_assert(travels(&offer, &arrived));
    offer.device.number = 2;
    cr_expect(!travels(&offer, &arrived));
    offer.device.number = -2;
    cr_expect(!travels(&offer, &arrived));
    offer.device.number = -1;
    offer.device.count = 1;
    cr_expect(!travels(&offer, &arrived));
    offer.device.count = 0;
    offer.device.listed = 0;
    cr_expect(!travels(&offer, &arrived));
}
