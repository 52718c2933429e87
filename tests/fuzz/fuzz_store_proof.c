/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client may send to a store before it has proven that it has the secret. An input is a row of
 * pieces, each with its length less one in front. Nobody passes, nothing is stored, little is held.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/store_session.h"

enum { MAP_BYTES = 1 << 20, HELD_MAX = 1 << 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct secret *the_secret(void)
{
    static struct secret *secret;

    if (!secret) {
        setenv("TUTTI_SECRET", "11111111111111111111111111111111111111111111111111111111111111ab",
               1);
        key_hold();
        secret = store_proof_secret(NULL);
    }
    return secret;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t hello[] = {0, 0xce, 0xf7, 0x85, 0x3c};
    struct store_session session;
    struct store_map *map;
    bool ended = false;

    if (store_map_new(MAP_BYTES, &map))
        return 0;
    store_session_init(&session, map, false, NULL);
    store_session_expect_proof(&session, the_secret(), true);
    if (size && data[0] % 2) /* else the input brings its own */
        (void)store_session_feed(&session, hello, sizeof hello);
    while (size && !ended) {
        size_t piece = (size_t)*data + 1;

        data++;
        size--;
        if (piece > size)
            piece = size;
        ended = store_session_feed(&session, data, piece) != 0;
        data += piece;
        size -= piece;
        if (session.known || session.asked || store_map_count(map) ||
            session.out.size + session.wire.in.size > HELD_MAX)
            abort();
    }
    store_session_free(&session);
    store_map_free(map);
    return 0;
}
