/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of checks with ranks: a group over the plugin, and values whose sums are
 * exact. */
#pragma once

#include "check/check.h"

#include <tutti/tutti.h>

enum { RANK_FLOATS = 300000, RANK_ELEMENT_MAX = 16, RANK_VALUES = 4 };

struct rank {
    tutti_group *world;
    int rank, size;
    bool wrapped;    /* the plugin stands in front of another backend's calls */
    bool launched;   /* by the launcher of an engine, which changes the process in its own way */
    float *in, *out; /* [RANK_FLOATS] */
};

/* Calls of the whole group; each ends the check if it does not succeed. The second names the backend. */
struct rank rank_join(const struct check_member *member);
struct rank rank_join_over(const struct check_member *member, const char *backend, bool wrapped);
void rank_leave(struct rank *rank);

/* `what` and its words end the check, unless it is TUTTI_OK. */
void rank_expect_ok(const struct rank *rank, tutti_status status, const char *what);

/* ---- check_types.c ---- */

/* Number `which`, below RANK_VALUES, of a few that every type has. */
void rank_write_value(void *to, tutti_dtype dtype, int which);
/* Zeros of either sign are equal, and so are all NaN. */
bool rank_is_same(tutti_dtype dtype, const void *one, const void *other);
/* The element's bytes. */
const char *rank_hex(const void *element, size_t bytes, char ret_text[2 * RANK_ELEMENT_MAX + 1]);

static inline tutti_tensor rank_floats(float *data, int64_t *shape, int64_t count)
{
    return tutti_tensor_1d(data, TUTTI_F32, shape, count);
}

/* Element `i` of what a rank gives: a small whole number. */
static inline float rank_value(int rank, int64_t i)
{
    return (float)((i * 7 + rank * 3) % 61);
}

/* The sum of all ranks' elements `i`. */
static inline float rank_sum(const struct rank *rank, int64_t i)
{
    float sum = 0;

    for (int r = 0; r < rank->size; r++)
        sum += rank_value(r, i);
    return sum;
}

static inline void rank_fill(float *data, int rank, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = rank_value(rank, i);
}
