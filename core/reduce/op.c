/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's table of operations made at run time. A number is slot and generation, so that one
 * that was given back is not taken for the next that gets its slot. Built-in operations never come
 * here, and a call looks only once.
 */
#include "reduce/op.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "reduce/reduce.h"
#include "tensor/layout.h"

enum {
    FIRST_NUMBER = 64,
    SLOTS = 1024,
    GENERATIONS = (INT32_MAX - FIRST_NUMBER) / SLOTS,
    NAME_MAX_BYTES = 64,
    MULTIPLY_BYTES = 1024 /* of a factor of one element, repeated */
};

struct reduce_op {
    _Atomic int32_t references;
    int32_t in_fields;
    char name[NAME_MAX_BYTES]; /* a user's */
    tutti_reduce_fn fn;        /* NULL: PREMUL_SUM */
    void *user;
    uint32_t flags;

    /* PREMUL_SUM */
    tutti_dtype dtype;
    uint64_t factors; /* elements */
    unsigned char *factor;
};

static struct {
    pthread_mutex_t lock;
    struct reduce_op *slots[SLOTS];
    int32_t generations[SLOTS];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static tutti_status add(struct reduce_op *op, tutti_reduce_op *ret_op)
{
    LOCK_SCOPE(&table.lock);
    for (int slot = 0; slot < SLOTS; slot++)
        if (!table.slots[slot]) {
            table.slots[slot] = op;
            *ret_op = FIRST_NUMBER + table.generations[slot] * SLOTS + slot;
            return TUTTI_OK;
        }
    reduce_op_release(op);
    return error_set(TUTTI_ERR_NO_MEMORY,
                     "there are %d reduce ops already: free some with tutti_reduce_op_free()",
                     SLOTS);
}

/* Finds an op, with the lock held. NULL: not there. */
static struct reduce_op **find(tutti_reduce_op op)
{
    const int32_t number = op - FIRST_NUMBER, slot = number % SLOTS;

    if (op < FIRST_NUMBER || number / SLOTS != table.generations[slot] || !table.slots[slot])
        return NULL;
    return &table.slots[slot];
}

/* NULL, with the thread's error: there is no memory. */
static struct reduce_op *allocate(size_t factor_bytes)
{
    struct reduce_op *op = calloc(1, sizeof *op + factor_bytes);

    if (!op) {
        error_set(TUTTI_ERR_NO_MEMORY, "no memory for a reduce op");
        return NULL;
    }
    op->factor = (unsigned char *)(op + 1);
    op->references = 1;
    return op;
}

tutti_status tutti_reduce_op_create(const char *name, tutti_reduce_fn fn, uint32_t flags,
                                    void *user, tutti_reduce_op *ret_op)
{
    if (!name || !fn || !ret_op)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "name, fn and ret_op must be given");
    const size_t length = strnlen(name, NAME_MAX_BYTES);
    if (!length || length == NAME_MAX_BYTES)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "a reduce op's name has 1 to %d characters, not '%.80s'",
                         NAME_MAX_BYTES - 1, name);
    if (flags & ~TUTTI_REDUCE_OP_COMMUTATIVE)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "flags 0x%x: only TUTTI_REDUCE_OP_COMMUTATIVE is known", flags);
    struct reduce_op *op = allocate(0);
    if (!op)
        return TUTTI_ERR_NO_MEMORY;
    memcpy(op->name, name, length);
    op->fn = fn;
    op->user = user;
    op->flags = flags;
    op->in_fields = (int32_t)(XXH3_64bits_withSeed(name, length, flags) & (REDUCE_OPS_MADE - 1)) |
                    REDUCE_OPS_MADE;
    return add(op, ret_op);
}

tutti_status reduce_op_make_premul(const tutti_tensor *factor, reduce_op_read_fn read,
                                   tutti_reduce_op *ret_op)
{
    struct tensor_size size;
    tutti_status status = tensor_measure(factor, &size);

    if (!status && !tutti_reduce_op_meaning(TUTTI_PREMUL_SUM, factor->dtype))
        status = error_set(TUTTI_ERR_UNSUPPORTED, "premul_sum does not take %s",
                           tutti_dtype_name(factor->dtype));
    if (status)
        return status;
    struct reduce_op *op = allocate(size.bytes);
    if (!op)
        return TUTTI_ERR_NO_MEMORY;
    op->in_fields = TUTTI_PREMUL_SUM;
    op->dtype = factor->dtype;
    op->factors = size.count;
    status = size.count ? read(factor, &size, op->factor) : TUTTI_OK;
    if (status) {
        reduce_op_release(op);
        return status;
    }
    return add(op, ret_op);
}

void tutti_reduce_op_free(tutti_reduce_op number)
{
    LOCK_SCOPE(&table.lock);
    struct reduce_op **at = find(number);

    if (!at)
        return;
    const long slot = at - table.slots;
    table.generations[slot] = (table.generations[slot] + 1) % GENERATIONS;
    reduce_op_release(*at);
    *at = NULL;
}

void reduce_op_unref(struct reduce_op *op)
{
    if (atomic_fetch_sub(&op->references, 1) == 1)
        free(op);
}

static tutti_status check(const struct reduce_op *op, tutti_dtype dtype, uint64_t count)
{
    if (op->fn)
        return TUTTI_OK;
    if (op->dtype != dtype)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the factor of premul_sum is %s, the tensor %s: they must be the same",
                         tutti_dtype_name(op->dtype), tutti_dtype_name(dtype));
    if (op->factors != 1 && op->factors != count)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the factor of premul_sum has %llu elements and the input %llu: give one "
                         "factor, or as many as there are elements",
                         (unsigned long long)op->factors, (unsigned long long)count);
    return TUTTI_OK;
}

void reduce_op_ref(struct reduce_op *op)
{
    atomic_fetch_add(&op->references, 1);
}

tutti_status reduce_op_take(tutti_reduce_op number, tutti_dtype dtype, uint64_t count,
                            struct reduce_choice *ret_choice)
{
    struct reduce_op *op = NULL;

    if (number == TUTTI_PREMUL_SUM)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "premul_sum needs a factor: make the op with tutti_reduce_op_premul()");
    if (number < FIRST_NUMBER) {
        tutti_status status = reduce_check(number, dtype);

        if (!status)
            *ret_choice = (struct reduce_choice){NULL, number, false};
        return status;
    }
    pthread_mutex_lock(&table.lock);
    struct reduce_op **at = find(number);
    if (at) {
        op = *at;
        reduce_op_ref(op);
    }
    pthread_mutex_unlock(&table.lock);
    if (!op)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "there is no reduce op %d: it was never made, or was freed", number);
    tutti_status status = check(op, dtype, count);
    if (status) {
        reduce_op_release(op);
        return status;
    }
    *ret_choice = (struct reduce_choice){op, op->in_fields,
                                         op->fn && !(op->flags & TUTTI_REDUCE_OP_COMMUTATIVE)};
    return TUTTI_OK;
}

int32_t reduce_op_in_fields(tutti_reduce_op number)
{
    if (number < TUTTI_PREMUL_SUM)
        return number;
    LOCK_SCOPE(&table.lock);
    struct reduce_op **at = find(number);

    return at ? (*at)->in_fields : REDUCE_OPS_MADE;
}

bool reduce_op_is_premul(const struct reduce_op *op)
{
    return op && !op->fn;
}

static void multiply_by_one(const struct reduce_op *op, unsigned char *dst,
                            const unsigned char *src, uint64_t count)
{
    const size_t size = tutti_dtype_size(op->dtype), block = MULTIPLY_BYTES / size;
    _Alignas(64) unsigned char factors[MULTIPLY_BYTES];

    for (size_t i = 0; i < block; i++)
        memcpy(factors + i * size, op->factor, size);
    for (uint64_t at = 0; at < count; at += block) {
        const size_t part = count - at < block ? (size_t)(count - at) : block;

        reduce_kernel(op->dtype, TUTTI_PRODUCT)(dst + at * size, src + at * size, factors, part);
    }
}

const void *reduce_op_factors(const struct reduce_op *op, uint64_t first, bool *ret_one)
{
    *ret_one = op->factors == 1;
    return *ret_one ? op->factor : op->factor + first * tutti_dtype_size(op->dtype);
}

void reduce_op_multiply(const struct reduce_op *op, void *dst, const void *src, uint64_t first,
                        uint64_t count)
{
    bool one;
    const void *factors = reduce_op_factors(op, first, &one);

    if (one)
        multiply_by_one(op, dst, src, count);
    else
        reduce_kernel(op->dtype, TUTTI_PRODUCT)(dst, src, factors, (size_t)count);
}

void reduce_op_call(const struct reduce_op *op, void *dst, const void *a, const void *b,
                    size_t count, tutti_dtype dtype)
{
    op->fn(dst, a, b, count, dtype, op->user);
}

void reduce_op_text(int32_t in_fields, char ret_text[REDUCE_OP_TEXT])
{
    if (in_fields < REDUCE_OPS_MADE) {
        snprintf(ret_text, REDUCE_OP_TEXT, "%s", tutti_reduce_op_name(in_fields));
        return;
    }
    snprintf(ret_text, REDUCE_OP_TEXT, "user op %#x", (unsigned)in_fields);
    LOCK_SCOPE(&table.lock);
    for (int i = 0; i < SLOTS; i++)
        if (table.slots[i] && table.slots[i]->in_fields == in_fields)
            snprintf(ret_text, REDUCE_OP_TEXT, "user op '%s'", table.slots[i]->name);
}
