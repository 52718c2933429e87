/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A long message as several pieces, so that what arrived is reduced while the rest is on its way.
 * Both sides cut by the same rule.
 */
#pragma once

#include "algorithm/parts.h"
#include "algorithm/thresholds.h"
#include "schedule/schedule.h"

enum { EXCHANGE_PIECES_MAX = 16 };

struct exchange {
    uint64_t each;  /* bytes of a piece */
    uint64_t count; /* 0 for an empty part */
    uint32_t tickets[EXCHANGE_PIECES_MAX];
};

/* Bytes of a piece, where there may be so many: a shorter one costs more as a message than its reduction takes. */
static inline uint64_t exchange_piece_bytes(const struct schedule *sched, uint64_t bytes,
                                            uint64_t pieces_max)
{
    const uint64_t each = round_up(sched->thresholds->bytes[THRESHOLD_MESSAGE_PIECE], PART_ALIGN);

    return bytes > each * pieces_max ? round_up(pieces_in(bytes, pieces_max), PART_ALIGN) : each;
}

/* How a part of `bytes` is cut. */
static inline struct exchange exchange_of(const struct schedule *sched, uint64_t bytes)
{
    const uint64_t each = exchange_piece_bytes(sched, bytes, EXCHANGE_PIECES_MAX);

    return (struct exchange){.each = each, .count = pieces_in(bytes, each)};
}

static inline struct part exchange_piece(const struct exchange *e, uint64_t bytes, uint64_t index)
{
    return piece_of((struct part){0, bytes}, e->each, index);
}

/* Starts to receive all pieces to `to`. */
static inline struct exchange exchange_recv(struct schedule *sched, int peer, struct place to,
                                            uint64_t bytes)
{
    struct exchange e = exchange_of(sched, bytes);

    for (uint64_t i = 0; i < e.count; i++) {
        const struct part piece = exchange_piece(&e, bytes, i);

        e.tickets[i] = schedule_recv(sched, peer, place_after(to, piece.offset), piece.bytes);
    }
    return e;
}

static inline void exchange_send(struct schedule *sched, int peer, struct place from,
                                 uint64_t bytes)
{
    const struct exchange e = exchange_of(sched, bytes);

    for (uint64_t i = 0; i < e.count; i++) {
        const struct part piece = exchange_piece(&e, bytes, i);

        schedule_send(sched, peer, place_after(from, piece.offset), piece.bytes);
    }
}
