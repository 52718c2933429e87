/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree is walked from the left like the carries of a binary counter: after vector i, as many
 * pairs of equal subtrees are joined as i + 1 has zeros at its end, and what is left in the end is
 * joined from the right. Blocks are short enough for all partial results to stay in L1.
 */
#include "reduce/tree.h"

#include "reduce/op.h"

enum {
    BLOCK_BYTES = 2048, /* of partial results */
    DEPTH_MAX = 20      /* of the tree over 2^16 members: 17 */
};

/* Subtrees that wait for their right neighbour. */
struct walk {
    const struct reduce_tree *tree;
    size_t count; /* elements in this block */
    int depth;
    const void *at[DEPTH_MAX]; /* a vector, or the partial result of that place */
    bool is_leaf[DEPTH_MAX];
    _Alignas(64) unsigned char partials[DEPTH_MAX][BLOCK_BYTES];
};

struct reduce_tree reduce_tree_of_op(const struct reduce_op *op, tutti_dtype dtype)
{
    return (struct reduce_tree){
        .op = op, .dtype = dtype, .element_bytes = (uint32_t)tutti_dtype_size(dtype)};
}

void reduce_tree_pair(const struct reduce_tree *tree, void *dst, const void *a, const void *b,
                      size_t count)
{
    if (tree->op)
        reduce_op_call(tree->op, dst, a, b, count, tree->dtype);
    else
        tree->pair(dst, a, b, count);
}

static const void *operand(struct walk *walk, int place)
{
    if (!walk->tree->widen || !walk->is_leaf[place])
        return walk->at[place];
    walk->tree->widen((float *)(void *)walk->partials[place], walk->at[place], walk->count);
    return walk->partials[place];
}

/* Joins the last two; into `to`, or where the left one's partial result is. */
static void join(struct walk *walk, void *to)
{
    const int left = walk->depth - 2;
    void *result = to && !walk->tree->narrow ? to : walk->partials[left];

    reduce_tree_pair(walk->tree, result, operand(walk, left), operand(walk, left + 1), walk->count);
    if (to && walk->tree->divide)
        walk->tree->divide(result, walk->count, walk->tree->members);
    if (to && walk->tree->narrow)
        walk->tree->narrow(to, result, walk->count);
    walk->at[left] = result;
    walk->is_leaf[left] = false;
    walk->depth--;
}

static void reduce_block(struct walk *walk, unsigned char *dst, const void *const *vectors, int n,
                         size_t offset)
{
    walk->depth = 0;
    for (int i = 0; i < n; i++) {
        walk->at[walk->depth] = (const unsigned char *)vectors[i] + offset;
        walk->is_leaf[walk->depth++] = true;
        for (unsigned leaves = (unsigned)i + 1; leaves % 2 == 0; leaves /= 2)
            join(walk, i == n - 1 && walk->depth == 2 ? dst + offset : NULL);
    }
    while (walk->depth > 1)
        join(walk, walk->depth == 2 ? dst + offset : NULL);
}

void reduce_tree(const struct reduce_tree *tree, void *dst, const void *const *vectors, int n,
                 size_t count)
{
    const size_t size = tree->element_bytes;
    const size_t block = BLOCK_BYTES / (tree->widen ? sizeof(float) : size);
    struct walk walk;

    walk.tree = tree;
    if (n == 1) {
        reduce_copy(dst, vectors[0], count * size);
        return;
    }
    for (size_t at = 0; at < count; at += walk.count) {
        walk.count = count - at < block ? count - at : block;
        reduce_block(&walk, dst, vectors, n, at * size);
    }
}
