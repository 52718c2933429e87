/* SPDX-License-Identifier: Apache-2.0 */
/* What another process may say is a UCX address: it is refused, or all that is read from it lies inside it. Every
 * second input gets a valid MAC, as a member's would have. */
#include <stdlib.h>
#include <string.h>

#include "address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tutti_status host_error(void *self, tutti_status status, int32_t system_errno,
                               const char *words)
{
    (void)self;
    (void)system_errno;
    if (!*words)
        abort();
    return status;
}

/* Depends on each byte and its place, which is enough here. */
static tutti_status host_mac(void *self, const void *data, uint64_t bytes, uint8_t ret_mac[32])
{
    const uint8_t *at = data;
    uint64_t sum = 14695981039346656037u;

    (void)self;
    for (uint64_t i = 0; i < bytes; i++)
        sum = (sum ^ at[i]) * 1099511628211u;
    memset(ret_mac, 0x5a, 32);
    memcpy(ret_mac, &sum, sizeof sum);
    return TUTTI_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const tutti_host host = {
        .struct_size = sizeof host, .error = host_error, .mac = host_mac};
    const struct caller caller = {.host = &host};
    const struct ucx_address own = {.major = 1, .minor = 13};
    struct ucx_address read = {.blob = NULL};

    if (!size)
        return 0;
    const bool is_signed = data[0] & 1;
    const size_t count = size - 1;
    uint8_t *bytes = malloc(count + 1); /* of this length, so that a read behind it is found */

    if (!bytes)
        return 0;
    memcpy(bytes, data + 1, count);
    if (is_signed && count > ADDRESS_MAC_BYTES)
        (void)host_mac(NULL, bytes, count - ADDRESS_MAC_BYTES, bytes + count - ADDRESS_MAC_BYTES);
    if (!address_read(&caller, &own, bytes, count, &read)) {
        const uint8_t *blob = read.blob;

        if (read.major != 1 || read.minor != 13 || !read.blob_bytes ||
            read.blob_bytes > ADDRESS_BLOB_MAX || blob != bytes + ADDRESS_HEAD_BYTES ||
            ADDRESS_HEAD_BYTES + read.blob_bytes + ADDRESS_MAC_BYTES != count)
            abort();
    }
    free(bytes);
    return 0;
}
