/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One side of a collective, its input or its output, from the tensors of the caller: a vector, or a
 * block for every member in one of three forms: one tensor of n equal blocks, a list of n tensors,
 * one tensor with counts and offsets.
 */
#pragma once

#include "collective/call.h"

enum { SIDE_IN, SIDE_OUT };

struct side {
    const char *what; /* "the input" */
    struct blocks blocks;
    tutti_dtype dtype;
    uint64_t element; /* bytes */
    uint64_t count;   /* elements of the vector; of each block, when they are even */
    uint64_t total;   /* of all blocks */
    uint64_t *sizes;  /* bytes of each block, in the call's memory; NULL: one tensor of even ones */
    bool uneven;
};

/* A block for every member, as the caller gives them. */
struct form {
    enum { FORM_EVEN, FORM_LIST, FORM_COUNTS } kind;
    const tutti_tensor *tensor;         /* EVEN, COUNTS */
    const tutti_tensor *const *tensors; /* LIST; even ones only where the call has a root */
    const int64_t *counts, *offsets;    /* COUNTS; `offsets` NULL: one block behind the other */
};
static inline struct form form_even(const tutti_tensor *tensor)
{
    return (struct form){.kind = FORM_EVEN, .tensor = tensor};
}
static inline struct form form_list(const tutti_tensor *const *tensors)
{
    return (struct form){.kind = FORM_LIST, .tensors = tensors};
}
static inline struct form form_counts(const tutti_tensor *tensor, const int64_t *counts,
                                      const int64_t *offsets)
{
    return (struct form){
        .kind = FORM_COUNTS, .tensor = tensor, .counts = counts, .offsets = offsets};
}

/*
 * Each fills *ret_side, or fails with a message. `use` is what the operation does with the side on this
 * member. Tables are taken from c->memory, stand-ins are put into c->packed.
 */
tutti_status side_vector(struct tutti_group *group, struct collective *c,
                         const tutti_tensor *tensor, const char *what, enum tensor_use use,
                         struct side *ret_side);
tutti_status side_blocks(struct tutti_group *group, struct collective *c, const struct form *form,
                         const char *what, enum tensor_use use, struct side *ret_side);

/*
 * What the call is, from the side that has blocks: in the fields and sizes. Uneven ones are compared where
 * every member knows all of them. `own`: elements of my vector, or block.
 */
void side_describe(struct collective *c, const struct tutti_group *group, int which,
                   const struct side *blocks, uint64_t own);

/* Elements and bytes of one block. */
static inline uint64_t side_block_count(const struct side *side, int block)
{
    return side->sizes ? side->sizes[block] / side->element : side->count;
}
static inline uint64_t side_block_bytes(const struct side *side, int block)
{
    return side->sizes ? side->sizes[block] : side->count * side->element;
}

/* ---- premul.c ---- */

/* The products of the input with the factors of c->op become the operands of the call. They go to `into`, the output where
 * it has a place for all of them, or, without one and in a batch, to memory of the call. Nothing is left of c->op. */
tutti_status premul_products(struct tutti_group *group, struct collective *c, const struct side *in,
                             int blocks, void *into);

/* INVALID_ARGUMENT unless both have the same dtype. */
tutti_status side_same_dtype(const struct side *a, const struct side *b);

/* INVALID_ARGUMENT when blocks of an output share memory. Costs one look at each block where they lie in
 * the order of the ranks. */
tutti_status side_check_distinct(const struct tutti_group *group, struct collective *c,
                                 const struct side *blocks);

/*
 * INVALID_ARGUMENT when input and output overlap, except that the vector is the very block `block` of
 * the other side (or the whole of it, where both are vectors): in place.
 */
tutti_status side_check_overlap(const struct tutti_group *group, const struct side *vector,
                                const struct side *blocks, int block);

/* All that a vector and the blocks of the other side, which is `which`, must have in common, the vector
 * being one of them. */
tutti_status side_check_pair(const struct tutti_group *group, struct collective *c, int which,
                             const struct side *vector, const struct side *blocks);
