/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What members put into a call, and the serial reference of what must come out. Values repeat
 * after a prime number of elements: the reference is then short work for 4 MiB too, while every
 * block or chunk that a transport moves begins with other values.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "conformance/sequence.h"

/* The call as the block that `from` has for `to` sees it: its count, and of an input of blocks other
 * values for each. */
struct conformance_call values_of_block(const struct conformance_call *call, int from, int to);

/* The user's own operations, byte by byte; each is associative. */
void values_combine(bool commuting, void *dst, const void *a, const void *b, size_t bytes);

/* The tensor of `member`: of an all_reduce, a broadcast (the root's) or a message (the sender's).
 */
void values_fill(const struct conformance_call *call, int member, void *to);
/* What a member multiplies `count` elements of its input with: OP_PREMUL_EACH, or one for all. */
void values_fill_factors(const struct conformance_call *call, int member, void *to);
/* Whether `got` is still what values_fill() gave; says where not. */
bool values_check_copy(const struct conformance_call *call, int member, const void *got,
                       char *ret_words, size_t size);
/* Whether `got` is what an all_reduce must give. */
bool values_check_reduced(const struct conformance_call *call, const void *got, char *ret_words,
                          size_t size);
