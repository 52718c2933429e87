/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tcp store's parser and map: two sessions on one map, of a known and of an unknown client, fed in
 * pieces. An input is a row of
 * pieces: one byte whose lowest bit picks the session and whose other bits plus one are the length,
 * then so many bytes. The corpus holds, in this form, the bytes that real torch clients sent.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "store/store_session.h"

enum { SESSIONS = 2, MAP_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_replies(struct store_session *session)
{
    if (session->out.failed || session->out.size > session->out.limit)
        abort();
    buffer_clear(&session->out, 1 << 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t hello[] = {0, 0xce, 0xf7, 0x85, 0x3c};
    struct store_session sessions[SESSIONS];
    bool ended[SESSIONS] = {false};
    struct store_map *map;

    if (store_map_new(MAP_BYTES, &map))
        return 0;
    for (int i = 0; i < SESSIONS; i++)
        store_session_init(&sessions[i], map, i == 0, NULL);
    (void)store_session_feed(&sessions[1], hello, sizeof hello);
    while (size) {
        const int which = data[0] % SESSIONS;
        size_t piece = (size_t)data[0] / SESSIONS + 1;

        data++;
        size--;
        if (piece > size)
            piece = size;
        if (!ended[which])
            ended[which] = store_session_feed(&sessions[which], data, piece) != 0;
        while (!ended[which] && store_session_blocked(&sessions[which])) {
            check_replies(&sessions[which]);
            ended[which] = store_session_run(&sessions[which]) != 0;
        }
        data += piece;
        size -= piece;
    }
    for (int i = 0; i < SESSIONS; i++) {
        if (!ended[i])
            check_replies(&sessions[i]);
        store_session_free(&sessions[i]);
    }
    store_map_free(map);
    return 0;
}
