/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leave messages to a member that may not answer before this one is gone.
 *
 * A member that leaves when its parent has left tells all others itself. Those that compute look at their
 * connections only later, and could not answer its proof then. A farewell needs no answer: it is a leave
 * message with a MAC under the group's key, and the kernel keeps it for its reader. Sent again it changes
 * nothing, since a member leaves once, and no other group has the key.
 *
 * It is not encrypted where the group encrypts: there is no answer, so no handshake. It says which member has
 * left and what its last call was, and nothing of the data.
 */
#include <string.h>

#include "base/codec.h"
#include "base/error.h"
#include "control/inside.h"

enum { MAGIC = 0x7474746c, VERSION = 1, START_BYTES = 8 };

static void write_start(uint8_t ret_start[START_BYTES])
{
    uint_to_bytes(ret_start, MAGIC, 4);
    uint_to_bytes(ret_start + 4, VERSION, 4);
}

static tutti_status mac_of(const struct control *control, const uint8_t *leave,
                           uint8_t ret_mac[KEY_MAC_BYTES])
{
    const struct key_part parts[] = {{"farewell", 8}, {leave, CONTROL_LEAVE_BYTES}};

    return key_mac(control->key, parts, 2, ret_mac);
}

tutti_status farewell_write(const struct control *control, int rank,
                            uint8_t ret_farewell[FAREWELL_BYTES])
{
    uint8_t *leave = ret_farewell + START_BYTES;

    write_start(ret_farewell);
    control_write_leave(control, rank, leave);
    return mac_of(control, leave, leave + CONTROL_LEAVE_BYTES);
}

bool farewell_may_be(const uint8_t *data, size_t bytes)
{
    uint8_t start[START_BYTES];

    write_start(start);
    return memcmp(data, start, bytes < START_BYTES ? bytes : START_BYTES) == 0;
}

bool farewell_take(struct control *control, const uint8_t farewell[FAREWELL_BYTES])
{
    const uint8_t *leave = farewell + START_BYTES;
    struct reader r = {.data = leave, .size = CONTROL_LEAVE_BYTES};
    uint8_t right[KEY_MAC_BYTES];
    struct announce last;
    int rank;

    if (!farewell_may_be(farewell, START_BYTES) || mac_of(control, leave, right) ||
        !key_same(right, leave + CONTROL_LEAVE_BYTES, sizeof right) ||
        !control_read_leave(control, &r, &rank, &last))
        return false;
    control_left(control, rank, &last, NULL);
    return true;
}
