/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_wire.h"

#include "base/error.h"

enum { KEEP_CAPACITY = 16 << 10 }; /* of an idle connection's buffer */

/* A letter a field: m magic, 4 and 8 integers, k key, v value, K list of keys, P list of pairs. */
static const char *const request_fields[STORE_OPCODES] = {
    [STORE_VALIDATE] = "m",   [STORE_SET] = "kv",      [STORE_COMPARE_SET] = "kvv",
    [STORE_GET] = "k",        [STORE_ADD] = "k8",      [STORE_CHECK] = "K",
    [STORE_WAIT] = "K",       [STORE_GETNUMKEYS] = "", [STORE_DELETE_KEY] = "k",
    [STORE_APPEND] = "kv",    [STORE_MULTI_GET] = "K", [STORE_MULTI_SET] = "P",
    [STORE_CANCEL_WAIT] = "", [STORE_PING] = "4",      [STORE_QUEUE_PUSH] = "kv",
    [STORE_QUEUE_POP] = "k",  [STORE_QUEUE_LEN] = "k", [STORE_LIST_KEYS] = "",
    [STORE_BARRIER] = "k8",
};

tutti_status store_wire_feed(struct store_wire *wire, const void *data, size_t size)
{
    buffer_consume(&wire->in, wire->start);
    wire->start = 0;
    if (!wire->in.size)
        buffer_clear(&wire->in, KEEP_CAPACITY);
    buffer_put(&wire->in, data, size);
    if (wire->in.failed)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a request of %zu bytes",
                         wire->in.size + size);
    return TUTTI_OK;
}

static tutti_status begin(struct store_wire *wire, uint8_t opcode)
{
    if (!wire->validated && opcode != STORE_VALIDATE)
        return error_set(TUTTI_ERR_STORE,
                         "the connection began with byte %u, which no store client sends", opcode);
    if (opcode >= STORE_OPCODES || (wire->validated && opcode == STORE_VALIDATE))
        return error_set(TUTTI_ERR_STORE, "a client sent request %u, which no store client sends",
                         opcode);
    wire->fields = request_fields[opcode];
    wire->scanned = 1;
    return TUTTI_OK;
}

static tutti_status check_magic(struct store_wire *wire, uint32_t magic)
{
    if (magic != STORE_WIRE_MAGIC)
        return error_set(TUTTI_ERR_STORE,
                         "the connection began with 0x%08x, which no store client sends", magic);
    wire->validated = true;
    return TUTTI_OK;
}

static tutti_status check_size(const struct store_wire *wire, uint64_t size, uint64_t limit,
                               const char *what)
{
    if (size > limit)
        return error_set(TUTTI_ERR_STORE, "%s of %llu, at most %llu are allowed", what,
                         (unsigned long long)size, (unsigned long long)limit);

    const size_t most = wire->max_request ? wire->max_request : STORE_WIRE_MAX_REQUEST;

    if (wire->scanned + size > most)
        return error_set(TUTTI_ERR_STORE, "a request of more than %zu bytes", most);
    return TUTTI_OK;
}

/*
 * Steps over one field when it is there as a whole: `at` points to `have` bytes that begin with it.
 * A list's count is a field of its own; its elements follow as such.
 */
static tutti_status scan(struct store_wire *wire, char field, const uint8_t *at, size_t have,
                         bool *ret_stepped)
{
    const unsigned fixed = field == 'm' || field == '4' ? 4 : 8;
    size_t size = fixed;
    tutti_status status = TUTTI_OK;

    *ret_stepped = false;
    if (have < fixed)
        return TUTTI_OK;

    const uint64_t number = uint_from_bytes(at, fixed);

    switch (field) {
    case 'm':
        status = check_magic(wire, (uint32_t)number);
        break;
    case 'k':
        status = check_size(wire, number, TUTTI_STORE_MAX_KEY, "a key length");
        size += (size_t)number;
        break;
    case 'v':
        status = check_size(wire, number, TUTTI_STORE_MAX_VALUE, "a value length");
        size += (size_t)number;
        break;
    case 'K':
    case 'P':
        status = check_size(wire, number, TUTTI_STORE_MAX_KEYS, "a number of keys");
        break;
    default:
        break;
    }
    if (status || have < size)
        return status;
    if (field == 'K')
        wire->elements = number;
    if (field == 'P')
        wire->elements = 2 * number;
    wire->scanned += size;
    *ret_stepped = true;
    return TUTTI_OK;
}

tutti_status store_wire_next(struct store_wire *wire, struct store_request *ret_request,
                             bool *ret_whole)
{
    const uint8_t *request = wire->in.data + wire->start;
    const size_t have = wire->in.size - wire->start;
    bool stepped = true;

    *ret_whole = false;
    if (!have)
        return TUTTI_OK;
    if (!wire->scanned) {
        tutti_status status = begin(wire, request[0]);

        if (status)
            return status;
    }
    while (*wire->fields) {
        const bool element = wire->elements > 0;
        char field = *wire->fields;

        if (element) /* pairs alternate, and end with a value: an odd rest is one */
            field = field == 'P' && wire->elements % 2 ? 'v' : 'k';

        tutti_status status =
            scan(wire, field, request + wire->scanned, have - wire->scanned, &stepped);

        if (status || !stepped)
            return status;
        if (element)
            wire->elements--;
        if (!wire->elements)
            wire->fields++;
    }
    *ret_request =
        (struct store_request){.opcode = (enum store_opcode)request[0],
                               .fields = {.data = request + 1, .size = wire->scanned - 1}};
    wire->start += wire->scanned;
    wire->scanned = 0;
    *ret_whole = true;
    return TUTTI_OK;
}

struct slice store_request_bytes(struct store_request *request)
{
    const size_t size = (size_t)read_u64(&request->fields);
    const uint8_t *data = read_bytes(&request->fields, size);

    return (struct slice){data, data ? size : 0};
}
