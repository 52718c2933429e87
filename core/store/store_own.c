/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of the caller's own, by a table of functions that never wait for a key.
 *
 * Waiting is done here: a key that is not there is looked for again after a pause that grows, and between
 * two looks others may call. One call at a time reaches the table, so it needs no lock of its own.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "store/store.h"

enum { FIRST_PAUSE_US = 1000, LAST_PAUSE_US = 50 * 1000 };

struct own_store {
    tutti_store base;
    struct store_turn turn;
    tutti_store_ops table;
    void *self;
};

/* The functions of the table, in messages. */
static const char *const names[STORE_OPCODES] = {
    [STORE_SET] = "set",           [STORE_GET] = "get",
    [STORE_CHECK] = "a check",     [STORE_COMPARE_SET] = "compare_set",
    [STORE_ADD] = "add",           [STORE_APPEND] = "append",
    [STORE_DELETE_KEY] = "remove", [STORE_GETNUMKEYS] = "num_keys",
};

/* The time left for the table's function, which takes 0 for no time. */
static int64_t left_ms(const struct store_time *time)
{
    const int64_t left = (time->deadline_ns - clock_now_ns()) / CLOCK_NS_PER_MS;

    return left > 0 ? left : 0;
}

/* A function of the table has failed; if it called others of tutti that did, the last one's message
 * says why. */
static tutti_status failed(tutti_status status, const struct store_call *call, uint64_t number)
{
    const bool known = status == TUTTI_ERR_TIMEOUT || status == TUTTI_ERR_NO_MEMORY;
    const bool told = error_since(number);

    return error_set(known ? status : TUTTI_ERR_STORE,
                     "the program's own store: %s of the key \"%.*s\" returned %s%s%s",
                     names[call->opcode], TEXT_CUT(call->count ? call->keys[0] : "*", 100),
                     tutti_status_name(status), told ? ": " : "", told ? error_message() : "");
}

static tutti_status call_function(const struct own_store *own, struct store_call *call,
                                  tutti_store_value *ret_value)
{
    const tutti_store_ops *table = &own->table;
    const struct slice value = call->value, expected = call->expected;
    const char *key = call->count ? call->keys[0] : NULL;
    const int64_t ms = left_ms(&call->time);
    int32_t answer = call->opcode == STORE_CHECK;
    tutti_status status = TUTTI_OK;

    switch (call->opcode) {
    case STORE_SET:
        return table->set(own->self, key, value.data, value.size, ms);
    case STORE_APPEND:
        return table->append(own->self, key, value.data, value.size, ms);
    case STORE_GET:
        return table->get(own->self, key, ms, ret_value);
    case STORE_COMPARE_SET:
        return table->compare_set(own->self, key, expected.data, expected.size, value.data,
                                  value.size, ms, ret_value);
    case STORE_ADD:
        return table->add(own->self, key, call->delta, ms, &call->number);
    case STORE_GETNUMKEYS:
        return table->num_keys(own->self, ms, &call->number);
    case STORE_CHECK:
        status = table->check(own->self, call->keys, call->count, ms, &answer);
        break;
    default: /* STORE_DELETE_KEY */
        status = table->remove(own->self, key, ms, &answer);
        break;
    }
    call->number = answer != 0;
    return status;
}

/* Calls one function of the table. NOT_READY without a message: the key to get is not there. */
static tutti_status call_once(struct own_store *own, struct store_call *call)
{
    const bool gets = call->opcode == STORE_GET || call->opcode == STORE_COMPARE_SET;
    const uint64_t number = error_number();
    tutti_store_value value = {0};
    tutti_status status = store_turn_take(&own->turn, &call->time);

    if (status)
        return status;
    status = call_function(own, call, &value);
    store_turn_give(&own->turn);
    if (status == TUTTI_ERR_NOT_READY && call->opcode == STORE_GET)
        return status;
    if (status)
        return failed(status, call, number);
    if (call->opcode == STORE_GET && value.size > TUTTI_STORE_MAX_VALUE) {
        status = error_set(TUTTI_ERR_STORE,
                           "the program's own store: a value of %zu bytes, at most %u are allowed",
                           value.size, TUTTI_STORE_MAX_VALUE);
        tutti_store_value_free(&value);
        return status;
    }
    if (gets && !value.data) /* nothing was set: an empty value */
        return store_value_allocate(0, call->ret_values);
    if (gets)
        *call->ret_values = value;
    return TUTTI_OK;
}

/* Whether the keys are there, in `call->number`; without the table's check, by getting each. */
static tutti_status look(struct own_store *own, struct store_call *call)
{
    struct store_call one = *call;
    tutti_status status = TUTTI_OK;

    if (own->table.check) {
        one.opcode = STORE_CHECK;
        status = call_once(own, &one);
        call->number = one.number;
        return status;
    }
    one.opcode = STORE_GET;
    one.count = 1;
    for (size_t i = 0; i < call->count && !status; i++) {
        tutti_store_value value = {0};

        one.keys = &call->keys[i];
        one.ret_values = &value;
        status = call_once(own, &one);
        tutti_store_value_free(&value);
    }
    call->number = !status;
    return status == TUTTI_ERR_NOT_READY ? TUTTI_OK : status;
}

/* A wait, or a get of a key that is waited for. */
static tutti_status call_until_there(struct own_store *own, struct store_call *call)
{
    int pause_us = FIRST_PAUSE_US;

    for (;;) {
        tutti_status status = call->opcode == STORE_GET ? call_once(own, call) : look(own, call);
        const bool missing =
            call->opcode == STORE_GET ? status == TUTTI_ERR_NOT_READY : !status && !call->number;

        if (!missing)
            return status;
        if (!store_pause(&pause_us, LAST_PAUSE_US, &call->time))
            return store_keys_missing(call, "the program's own store");
    }
}

/* Nothing can be made of others for these: two that add the same could not tell whose sum it is. */
static bool lacks(const tutti_store_ops *table, enum store_opcode opcode)
{
    return (opcode == STORE_ADD && !table->add) || (opcode == STORE_APPEND && !table->append) ||
           (opcode == STORE_DELETE_KEY && !table->remove) ||
           (opcode == STORE_GETNUMKEYS && !table->num_keys);
}

static tutti_status own_call(tutti_store *store, struct store_call *call)
{
    struct own_store *own = (struct own_store *)store;

    if (lacks(&own->table, call->opcode))
        return error_set(TUTTI_ERR_UNSUPPORTED, "the program's own store has no function \"%s\"",
                         names[call->opcode]);
    if (call->opcode == STORE_GET || call->opcode == STORE_WAIT)
        return call_until_there(own, call);
    return call->opcode == STORE_CHECK ? look(own, call) : call_once(own, call);
}

static void own_close(tutti_store *store)
{
    struct own_store *own = (struct own_store *)store;

    if (own->table.close)
        own->table.close(own->self);
    store_turn_destroy(&own->turn);
    free(own);
}

static const struct store_ops own_ops = {
    .close = own_close,
    .call = own_call,
};

tutti_status tutti_store_create(const tutti_store_ops *ops, void *user, tutti_store **ret_store)
{
    tutti_store_ops table;

    if (!ops || !ret_store)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ops and ret_store must not be NULL");
    tutti_status status = error_named(options_copy(&table, sizeof table, ops, "tutti_store_ops"));
    if (status)
        return status;
    if (table.reserved || !table.set || !table.get || !table.compare_set)
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "tutti_store_ops: reserved must be 0; set, get and compare_set must be there");
    struct own_store *own = store_new(sizeof *own, &own_ops);
    if (!own)
        return TUTTI_ERR_NO_MEMORY;
    store_turn_init(&own->turn);
    own->table = table;
    own->self = user;
    *ret_store = &own->base;
    return TUTTI_OK;
}

tutti_status tutti_store_value_set(tutti_store_value *value, const void *data, size_t size)
{
    if (!value || (!data && size))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the value, and its bytes if there are any, must not be NULL");
    return store_value_copy((struct slice){data, size}, value);
}
