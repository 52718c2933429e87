/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrapper `check`: looks for NaN and Inf in what goes in and comes out, and compares results that
 * must have the same bits on all members.
 *
 * Values are looked at where they are, before anything is sent and after all has come. Results are
 * compared by a hash of 64 bits, which each member tells the first member of the group without waiting;
 * so the order and the timing of calls stay what they are, for blocking and asynchronous ones alike, and
 * a difference is told in a later call, or in the first member's destroy.
 *
 * TUTTI_CHECK says what is done about each: nan=fail,inf=warn,checksum=fail is the default.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin.h>

enum { CHECK_WORDS_MAX = 512 };

enum check_level { CHECK_OFF, CHECK_WARN, CHECK_FAIL };

struct tutti_wrapper {
    const tutti_host *host;
    void *host_self;
    enum check_level nan, inf, checksum;
    unsigned warnings;
    struct check_group *groups;
};

/* ---- check_values.c ---- */

/* The values in a tensor that are no numbers, or not finite. Indices count elements; a complex
 * element is what either of its parts is. */
struct check_found {
    uint64_t nans, infs, first_nan, first_inf;
};

/* Looks through `bytes` of `dtype`; nothing is found in what has no floating point. */
struct check_found check_values(uint32_t dtype, const void *data, uint64_t bytes);

/* 64 bits of all bytes, in their order: the same in how many pieces ever they come. */
struct check_hash {
    uint64_t lanes[4], bytes;
    unsigned char rest[32]; /* bytes that do not fill the lanes yet */
};

struct check_hash check_hash_begin(void);
void check_hash_add(struct check_hash *hash, const void *data, uint64_t bytes);
uint64_t check_hash_end(const struct check_hash *hash);

/* ---- check_results.c ---- */

/* A member's message about one result. It travels as it lies in memory: members with another layout
 * of memory could not compare results either. */
struct check_result {
    uint64_t sequence, hash;
    int32_t root; /* whose result is right by definition; -1: nobody's */
    char operation[20];
};

/* Notes a result of member `rank`. False: the results of a call differ, in `ret_words`. */
bool check_note(tutti_wrapper *wrapper, const tutti_wrapped_group *group, int32_t rank,
                const struct check_result *result, char ret_words[CHECK_WORDS_MAX]);
/* Whether somebody has yet to tell of a call that another member told of. */
bool check_expects(const tutti_wrapper *wrapper, const tutti_wrapped_group *group);
/* Frees what is known of a group. */
void check_forget(tutti_wrapper *wrapper, const tutti_wrapped_group *group);
