/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses. UCX reads the blob in one without looking at lengths, so nothing reaches it that no member of
 * the group has written: an address ends with a MAC, under the key that members have for this plugin.
 *
 * On the wire, little-endian: "tuttiucx", format (2 bytes), UCX's major (2) and minor (2), zero (2), boot id
 * (16), network namespace (8), user (4), bytes of the blob (4), process (8), endpoint (8), zeros (16), the
 * blob, and the MAC of all that (32).
 */
#include "address.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORMAT = 1 };

struct head {
    char magic[8];
    uint16_t format, major, minor, zero;
    uint8_t boot_id[16];
    uint64_t network;
    uint32_t user, blob_bytes;
    uint64_t process, endpoint;
    uint64_t zeros[2];
};

_Static_assert(sizeof(struct head) == ADDRESS_HEAD_BYTES, "the head has no holes");

static const char magic[8] = {'t', 'u', 't', 't', 'i', 'u', 'c', 'x'};

/* The 32 hexadecimal digits of /proc/sys/kernel/random/boot_id. */
static void read_boot_id(uint8_t ret_id[16])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    unsigned byte;

    if (!file)
        return;
    for (int i = 0; i < 16 && fscanf(file, i == 0 ? "%2x" : "%*[-]%2x", &byte) != EOF; i++)
        ret_id[i] = (uint8_t)byte;
    fclose(file);
}

void address_of_this_host(struct ucx_address *address)
{
    struct stat network;

    memset(address->boot_id, 0, sizeof address->boot_id);
    read_boot_id(address->boot_id);
    address->network = stat("/proc/self/ns/net", &network) == 0 ? network.st_ino : 0;
    address->user = geteuid();
}

bool address_is_local(const struct ucx_address *a, const struct ucx_address *b)
{
    static const uint8_t unknown[16];

    return !memcmp(a->boot_id, b->boot_id, sizeof a->boot_id) &&
           memcmp(a->boot_id, unknown, sizeof unknown) != 0 && a->network == b->network &&
           a->network != 0 && a->user == b->user;
}

tutti_status address_write(const struct caller *caller, const struct ucx_address *address,
                           void *ret_bytes, uint64_t capacity, uint64_t *ret_count)
{
    struct head head = {.format = htole16(FORMAT),
                        .major = htole16(address->major),
                        .minor = htole16(address->minor),
                        .network = htole64(address->network),
                        .user = htole32(address->user),
                        .blob_bytes = htole32((uint32_t)address->blob_bytes),
                        .process = htole64(address->process),
                        .endpoint = htole64(address->endpoint)};
    const uint64_t signed_bytes = sizeof head + address->blob_bytes;
    uint8_t *at = ret_bytes;

    if (address->blob_bytes > ADDRESS_BLOB_MAX || capacity < signed_bytes + ADDRESS_MAC_BYTES)
        return fail(caller, TUTTI_ERR_INTERNAL, 0,
                    "UCX's address has %llu bytes, and there is room for %llu in all",
                    (unsigned long long)address->blob_bytes, (unsigned long long)capacity);
    memcpy(head.magic, magic, sizeof magic);
    memcpy(head.boot_id, address->boot_id, sizeof head.boot_id);
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, address->blob, address->blob_bytes);
    tutti_status status = caller->host->mac(caller->self, at, signed_bytes, at + signed_bytes);
    if (!status)
        *ret_count = signed_bytes + ADDRESS_MAC_BYTES;
    return status;
}

/* In a time that does not depend on where they differ. */
static bool is_equal(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    volatile uint8_t difference = 0;

    for (size_t i = 0; i < bytes; i++)
        difference = difference | (a[i] ^ b[i]);
    return difference == 0;
}

static tutti_status check_mac(const struct caller *caller, const uint8_t *bytes, uint64_t count)
{
    uint8_t mac[ADDRESS_MAC_BYTES];
    tutti_status status = caller->host->mac(caller->self, bytes, count, mac);

    if (!status && !is_equal(mac, bytes + count, sizeof mac))
        return fail(caller, TUTTI_ERR_MISMATCH, 0,
                    "no member of this group has written the UCX address that came for a member");
    return status;
}

static tutti_status check_lengths(const struct caller *caller, const struct head *head,
                                  uint64_t count)
{
    const uint64_t blob = le32toh(head->blob_bytes);

    if (blob && blob <= ADDRESS_BLOB_MAX && count == sizeof *head + blob + ADDRESS_MAC_BYTES)
        return TUTTI_OK;
    return fail(caller, TUTTI_ERR_MISMATCH, 0,
                "a UCX address of %llu bytes says that UCX's part has %llu",
                (unsigned long long)count, (unsigned long long)blob);
}

static tutti_status check_version(const struct caller *caller, const struct ucx_address *own,
                                  const struct ucx_address *other)
{
    if (own->major == other->major && own->minor == other->minor)
        return TUTTI_OK;
    return fail(caller, TUTTI_ERR_MISMATCH, 0,
                "this member has UCX %u.%u and another one has UCX %u.%u, whose messages differ; "
                "install one version on all hosts, or name a library by TUTTI_UCX",
                own->major, own->minor, other->major, other->minor);
}

tutti_status address_read(const struct caller *caller, const struct ucx_address *own,
                          const void *bytes, uint64_t count, struct ucx_address *ret_address)
{
    struct head head;

    if (count < sizeof head || memcmp(bytes, magic, sizeof magic) != 0)
        return fail(caller, TUTTI_ERR_MISMATCH, 0,
                    "%llu bytes that came for a member are no UCX address",
                    (unsigned long long)count);
    memcpy(&head, bytes, sizeof head);
    if (le16toh(head.format) != FORMAT)
        return fail(
            caller, TUTTI_ERR_MISMATCH, 0,
            "another member's plugin ucx has addresses of format %u, this one of format %d; "
            "install one version of tutti on all hosts",
            le16toh(head.format), FORMAT);
    tutti_status status = check_lengths(caller, &head, count);
    if (!status)
        status = check_mac(caller, bytes, count - ADDRESS_MAC_BYTES);
    if (status)
        return status;
    struct ucx_address address = {.major = le16toh(head.major),
                                  .minor = le16toh(head.minor),
                                  .network = le64toh(head.network),
                                  .user = le32toh(head.user),
                                  .process = le64toh(head.process),
                                  .endpoint = le64toh(head.endpoint),
                                  .blob = (const uint8_t *)bytes + sizeof head,
                                  .blob_bytes = le32toh(head.blob_bytes)};
    memcpy(address.boot_id, head.boot_id, sizeof address.boot_id);
    status = check_version(caller, own, &address);
    if (!status)
        *ret_address = address;
    return status;
}
