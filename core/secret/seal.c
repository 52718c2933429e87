/* SPDX-License-Identifier: Apache-2.0 */
#include "secret/seal.h"

#include <string.h>

#include "base/codec.h"

/* Magic, flags, id, MAC; the MAC covers the first three, too. */
static const uint8_t magic[4] = {'T', 'S', 'L', '1'};

enum { FLAG_REQUIRED = 0x80, HEAD_BYTES = SEAL_BYTES - KEY_MAC_BYTES };

static tutti_status compute(const struct key *record, const char *name, const void *body,
                            size_t bytes, const uint8_t *head, uint8_t ret_mac[KEY_MAC_BYTES])
{
    const struct key_part parts[] = {{name, strlen(name)}, {body, bytes}, {head, HEAD_BYTES}};

    return key_mac(record, parts, sizeof parts / sizeof parts[0], ret_mac);
}

tutti_status seal_make(const struct secret *secret, const struct key *record, const char *name,
                       const void *body, size_t bytes, uint8_t ret_seal[SEAL_BYTES])
{
    struct writer w = {.data = ret_seal, .capacity = HEAD_BYTES};

    write_bytes(&w, magic, sizeof magic);
    write_u8(&w, (uint8_t)(secret->source | (secret->required ? FLAG_REQUIRED : 0)));
    write_bytes(&w, secret->id, sizeof secret->id);
    return compute(record, name, body, bytes, ret_seal, ret_seal + HEAD_BYTES);
}

tutti_status seal_check(const struct secret *secret, const struct key *record, const char *name,
                        const void *value, size_t bytes, struct seal *ret_seal,
                        enum seal_state *ret_state)
{
    const uint8_t *body = value, *head = bytes >= SEAL_BYTES ? body + bytes - SEAL_BYTES : NULL;
    uint8_t mac[KEY_MAC_BYTES];

    *ret_state = SEAL_MISSING;
    if (!head || memcmp(head, magic, sizeof magic) != 0)
        return TUTTI_OK;
    ret_seal->source = (enum secret_source)(head[sizeof magic] & ~FLAG_REQUIRED);
    ret_seal->required = (head[sizeof magic] & FLAG_REQUIRED) != 0;
    memcpy(ret_seal->id, head + sizeof magic + 1, sizeof ret_seal->id);
    *ret_state = SEAL_FOREIGN;
    if (memcmp(ret_seal->id, secret->id, sizeof secret->id) != 0)
        return TUTTI_OK;
    const tutti_status status = compute(record, name, body, bytes - SEAL_BYTES, head, mac);
    if (!status)
        *ret_state = key_same(mac, head + HEAD_BYTES, sizeof mac) ? SEAL_GOOD : SEAL_WRONG;
    return status;
}
