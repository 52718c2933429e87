/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The committed table of which provider and algorithm serves which call. A row stands for one
 * operation at one place (backend or layout of hosts), one number of members, and all tensors of
 * `from` to `to` bytes. A call that no row, or another row, foretells is an error: a change of the
 * table is a change of what users get, and is looked at. Messages to another host are operations of
 * their own: send_away, recv_away. So are calls with uneven blocks (`_v`, by the bytes of all blocks
 * where every member knows them, else of none), those in the fixed order and averages of f16 and 8-bit
 * floats (`_fixed`), and reductions that the place's engine leaves to the core (`_core`). Tensors on GPUs
 * are served as host tensors are: the place "cuda:shm" has the rows of "shm". But NCCL takes them where they lie, so
 * the rows of "nccl" are those of tensors on GPUs alone, and of operations that are built in.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/recorder.h>
#include <tutti/tensor.h>

struct served_row {
    char operation[24], where[24], provider[24], algorithm[48];
    int members;
    uint64_t from, to; /* bytes */
};

struct served_table {
    struct served_row *rows;
    size_t count;
};

/* The first lines of the file. */
extern const char served_head[];

/* False, with a message on stderr: no such file, or a line that is no row. */
bool served_load(const char *path, struct served_table *ret_table);
void served_free(struct served_table *table);
/* The table's name of a message that `rank` exchanged with `peer`; `hosts` has a letter per rank, or
 * none when all are on one. */
const char *served_message(const char *hosts, bool is_send, int rank, int peer);
/* The name of the place in the table: that without "cuda:". */
const char *served_place(const char *where);
/* Whether the place's engine, if it has one, is to do this reduction itself; `op` is -1 for one that was
 * made at run time. */
bool served_by_engine(const char *where, tutti_dtype dtype, tutti_reduce_op op);
/* Whether a call works in registered memory, where its algorithm is of those that give way to that. */
enum served_registered { REGISTERED_NOT, REGISTERED_MAY, REGISTERED_MUST };

/* NULL: there is no table, or the record is as it says of a call of `bytes`, or of one that works in registered memory in its place;
 * else what is wrong. */
const char *served_objection(const struct served_table *table, const char *where, int members,
                             const char *operation, uint64_t bytes,
                             enum served_registered registered, const tutti_record *record,
                             char *words, size_t size);
