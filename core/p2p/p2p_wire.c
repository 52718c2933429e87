/* SPDX-License-Identifier: Apache-2.0 */
#include "p2p/p2p_wire.h"

#include <stdbool.h>
#include <string.h>

/* In one store: compilers do not make that of a loop over the bytes. */
static void put32(uint8_t *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof value);
}

static void put64(uint8_t *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
}

static uint32_t get32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

static uint64_t get64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

static bool has_announce(uint8_t kind)
{
    return kind == P2P_COLLECTIVE || kind == P2P_COLLECTIVE_REQUEST || kind == P2P_ANNOUNCE ||
           kind == P2P_ANSWER;
}

static bool has_place(uint8_t kind)
{
    return kind == P2P_REQUEST || kind == P2P_HELP;
}

void p2p_wire_encode(const struct p2p_header *header, uint8_t ret_wire[P2P_HEADER_BYTES])
{
    const struct call_fields *fields = &header->announce.fields;

    memset(ret_wire, 0, P2P_HEADER_BYTES);
    ret_wire[0] = P2P_MARK;
    ret_wire[1] = header->kind | (header->shows ? P2P_KIND_SHOWS : 0);
    put32(ret_wire + 4, header->group);
    put32(ret_wire + 8, header->source);
    put32(ret_wire + 12, header->credit);
    put32(ret_wire + 16, header->id);
    put64(ret_wire + 24, header->bytes);
    put64(ret_wire + 32, header->tag);
    if (header->kind == P2P_REQUEST)
        ret_wire[3] = header->moves;
    if (has_place(header->kind)) {
        put32(ret_wire + 20, header->place.memory);
        put64(ret_wire + 40, header->place.offset);
        put32(ret_wire + 56, header->place.claim);
    }
    if (!has_announce(header->kind))
        return;
    ret_wire[2] = fields->operation;
    ret_wire[3] = fields->flags;
    put32(ret_wire + 20, (uint32_t)fields->root);
    put64(ret_wire + 40, header->announce.signature);
    put64(ret_wire + 48, fields->count);
    put32(ret_wire + 56, (fields->dtype & UINT16_MAX) | (uint32_t)fields->sizes << 16);
    put32(ret_wire + 60, (uint32_t)fields->op);
}

inline uint32_t p2p_wire_encode_short(const struct p2p_header *header,
                                      uint8_t ret_wire[P2P_HEADER_BYTES])
{
    if (header->kind != P2P_MESSAGE || header->bytes > P2P_COMPACT_MAX) {
        p2p_wire_encode(header, ret_wire);
        return P2P_HEADER_BYTES;
    }
    put32(ret_wire, P2P_MARK | (uint32_t)(P2P_COMPACT | P2P_KIND_SHOWS) << 8);
    put32(ret_wire + 4, header->group);
    put32(ret_wire + 8, header->source);
    put32(ret_wire + 12, header->credit);
    put64(ret_wire + 16, header->tag);
    return P2P_COMPACT_BYTES;
}

/* Every dtype has one lane, which is not told; 0 is that of a call without a tensor. */
static uint32_t dtype_of(uint32_t told)
{
    return told ? told | UINT32_C(1) << 16 : 0;
}

static void decode_announce(const uint8_t *wire, struct p2p_header *header)
{
    header->announce =
        (struct announce){.sequence = header->tag,
                          .signature = get64(wire + 40),
                          .fields = {.operation = wire[2],
                                     .flags = wire[3],
                                     .root = (int32_t)get32(wire + 20),
                                     .count = get64(wire + 48),
                                     .dtype = dtype_of(get32(wire + 56) & UINT16_MAX),
                                     .sizes = (uint16_t)(get32(wire + 56) >> 16),
                                     .op = (int32_t)get32(wire + 60)}};
}

/* Whether fields are set that no kind without an announce record has, or that this one has not. */
static bool has_foreign_fields(const struct p2p_header *h, const uint8_t *wire)
{
    const bool placed = has_place(h->kind) && h->place.memory;

    return wire[2] || wire[3] > (h->kind == P2P_REQUEST) || get64(wire + 48) || get32(wire + 60) ||
           (!placed && (get32(wire + 20) || get64(wire + 40) || get32(wire + 56)));
}

/* Checks that fields which the kind does not carry are zero, so that a foreign header is noticed at
 * once. */
static const char *check_kind(const struct p2p_header *h, const uint8_t *wire)
{
    if (has_announce(h->kind)) {
        if (h->announce.fields.operation == OPERATION_NONE ||
            h->announce.fields.operation >= OPERATION_COUNT)
            return "unknown operation";
    } else if (has_foreign_fields(h, wire)) {
        return "fields set that its kind has not";
    }
    switch (h->kind) {
    case P2P_MESSAGE:
    case P2P_COLLECTIVE:
        return h->id ? "an id where none belongs" : NULL;
    case P2P_REQUEST:
    case P2P_COLLECTIVE_REQUEST:
    case P2P_READY:
        return h->bytes && h->bytes <= INT64_MAX ? NULL : "impossible size";
    case P2P_DATA:
        return h->bytes && h->tag <= INT64_MAX ? NULL : "impossible piece";
    case P2P_GRANT:
    case P2P_AGREE:
        return h->bytes || h->tag > UINT32_MAX ? "impossible grant" : NULL;
    case P2P_ANNOUNCE:
    case P2P_ANSWER:
        return h->bytes || h->id ? "an announcement with a size" : NULL;
    case P2P_WITHDRAW:
        return h->bytes ? "a withdrawal with a size" : NULL;
    case P2P_MOVE:
    case P2P_REFUSE:
        return h->bytes || h->tag ? "impossible refusal" : NULL;
    case P2P_TAKEN:
    case P2P_HELP:
        return h->bytes || h->tag ? "impossible answer to a place" : NULL;
    default: /* P2P_CREDIT */
        return h->bytes || h->tag || h->id || h->group || h->source ? "impossible credit" : NULL;
    }
}

static const char *decode_full(const uint8_t *wire, uint64_t size, struct p2p_header *ret_header)
{
    struct p2p_header header = {.kind = wire[1] & (P2P_KIND_SHOWS - 1),
                                .shows = wire[1] & P2P_KIND_SHOWS,
                                .group = get32(wire + 4),
                                .source = get32(wire + 8),
                                .credit = get32(wire + 12),
                                .id = get32(wire + 16),
                                .bytes = get64(wire + 24),
                                .tag = get64(wire + 32)};

    if (header.kind < P2P_MESSAGE || header.kind == P2P_COMPACT || header.kind >= P2P_KIND_END)
        return "unknown kind";
    header.moves = header.kind == P2P_REQUEST && wire[3];
    if (has_announce(header.kind))
        decode_announce(wire, &header);
    else if (has_place(header.kind))
        header.place = (struct p2p_place){
            .memory = get32(wire + 20), .claim = get32(wire + 56), .offset = get64(wire + 40)};

    const char *wrong = check_kind(&header, wire);
    if (!wrong && size > P2P_HEADER_BYTES && size - P2P_HEADER_BYTES != p2p_wire_payload(&header))
        wrong = "its length";
    if (!wrong)
        *ret_header = header;
    return wrong;
}

const char *p2p_wire_decode(const uint8_t *wire, uint64_t size, struct p2p_header *ret_header,
                            uint32_t *ret_bytes)
{
    const bool compact = size >= P2P_COMPACT_BYTES && wire[1] == (P2P_COMPACT | P2P_KIND_SHOWS);

    *ret_bytes = compact ? P2P_COMPACT_BYTES : P2P_HEADER_BYTES;
    if (size < *ret_bytes)
        return "its length";
    if (wire[0] != P2P_MARK)
        return "no mark of tutti";
    if (!compact)
        return decode_full(wire, size, ret_header);
    *ret_header = (struct p2p_header){0};
    return p2p_wire_decode_compact(wire, size, ret_header) ? NULL
                                                           : "fields set that its kind has not";
}

uint64_t p2p_wire_payload(const struct p2p_header *header)
{
    switch (header->kind) {
    case P2P_MESSAGE:
    case P2P_COLLECTIVE:
    case P2P_DATA:
        return header->bytes;
    default:
        return 0;
    }
}
