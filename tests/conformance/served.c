/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/served.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char served_head[] =
    "# operation\tplace\tmembers\tfrom bytes\tto bytes\tprovider\talgorithm\n"
    "# cuda:PLACE, where tensors are on a GPU, in host memory or some in each, has the rows of "
    "PLACE.\n"
    "# nccl, beside auto for host memory: tensors are on GPUs; those in host memory, and "
    "operations "
    "made at run time, have the rows of shm.\n";

const char *served_place(const char *where)
{
    static const char cuda[] = "cuda:";

    return strncmp(where, cuda, sizeof cuda - 1) ? where : where + sizeof cuda - 1;
}

static bool parse(const char *line, struct served_row *ret_row)
{
    struct served_row row;

    if (sscanf(line, "%23[^\t]\t%23[^\t]\t%d\t%" SCNu64 "\t%" SCNu64 "\t%23[^\t]\t%47[^\t\n]",
               row.operation, row.where, &row.members, &row.from, &row.to, row.provider,
               row.algorithm) != 7)
        return false;
    *ret_row = row;
    return true;
}

bool served_load(const char *path, struct served_table *ret_table)
{
    struct served_table table = {0};
    size_t room = 0;
    char line[256];
    FILE *file = fopen(path, "re");

    if (!file) {
        perror(path);
        return false;
    }
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#')
            continue;
        if (table.count == room) {
            room = 2 * room + 64;
            table.rows = realloc(table.rows, room * sizeof *table.rows);
            if (!table.rows)
                abort();
        }
        if (!parse(line, &table.rows[table.count])) {
            fprintf(stderr, "%s: not a row: %s", path, line);
            free(table.rows);
            fclose(file);
            return false;
        }
        table.count++;
    }
    fclose(file);
    *ret_table = table;
    return true;
}

void served_free(struct served_table *table)
{
    free(table->rows);
}

const char *served_message(const char *hosts, bool is_send, int rank, int peer)
{
    if (*hosts && hosts[rank] != hosts[peer])
        return is_send ? "send_away" : "recv_away";
    return is_send ? "send" : "recv";
}

/* No integers of 16 bits, no floats of 8, no product of complex numbers, order on integers alone, nothing bitwise. */
static bool served_by_nccl(tutti_dtype dtype, tutti_reduce_op op)
{
    const bool is_integer = dtype == TUTTI_U8 || dtype == TUTTI_U32 || dtype == TUTTI_U64 ||
                            dtype == TUTTI_I8 || dtype == TUTTI_I32 || dtype == TUTTI_I64;
    const bool is_complex = dtype == TUTTI_C64 || dtype == TUTTI_C128;

    if (dtype == TUTTI_BOOL || dtype == TUTTI_U16 || dtype == TUTTI_I16 ||
        dtype == TUTTI_F8E4M3FN || dtype == TUTTI_F8E5M2)
        return false;
    return op == TUTTI_SUM || op == TUTTI_AVG || (op == TUTTI_PRODUCT && !is_complex) ||
           ((op == TUTTI_MIN || op == TUTTI_MAX) && is_integer);
}

/* MPI and UCC: bitwise operations and order on integers alone, and no average. Gloo: all that the core's kernels
 * do in one step. */
bool served_by_engine(const char *where, tutti_dtype dtype, tutti_reduce_op op)
{
    where = served_place(where);
    if (!strcmp(where, "gloo"))
        return op >= 0 && op != TUTTI_AVG;
    if (!strcmp(where, "nccl"))
        return served_by_nccl(dtype, op);
    if (strcmp(where, "openmpi") && strcmp(where, "mpich") && strcmp(where, "ucc"))
        return true;
    switch (dtype) {
    case TUTTI_F32:
    case TUTTI_F64:
        return op == TUTTI_SUM || op == TUTTI_PRODUCT;
    case TUTTI_U8:
    case TUTTI_U16:
    case TUTTI_U32:
    case TUTTI_U64:
    case TUTTI_I8:
    case TUTTI_I16:
    case TUTTI_I32:
    case TUTTI_I64:
        return op == TUTTI_SUM || op == TUTTI_PRODUCT || op == TUTTI_MIN || op == TUTTI_MAX ||
               op == TUTTI_BAND || op == TUTTI_BOR || op == TUTTI_BXOR;
    default:
        return false;
    }
}

/* Staging, and what goes by messages because its blocks are uneven, give way to registered memory. */
static bool gives_way(const struct served_row *row)
{
    return strstr(row->algorithm, "_mapped") || strstr(row->algorithm, "_staged") ||
           (strstr(row->algorithm, "_rounds") && !strstr(row->algorithm, "_inline"));
}

static bool is_as_said(const struct served_row *row, enum served_registered registered,
                       const tutti_record *record)
{
    const size_t name = strlen(record->operation);
    const bool works_there = !strncmp(record->algorithm, record->operation, name) &&
                             !strcmp(record->algorithm + name, "_registered");

    if (works_there)
        return registered != REGISTERED_NOT && (gives_way(row) || strstr(row->operation, "_v"));
    if (registered == REGISTERED_MUST && gives_way(row))
        return false;
    return !strcmp(row->provider, record->provider) && !strcmp(row->algorithm, record->algorithm);
}

const char *served_objection(const struct served_table *table, const char *where, int members,
                             const char *operation, uint64_t bytes,
                             enum served_registered registered, const tutti_record *record,
                             char *words, size_t size)
{
    static const char *const kinds[] = {"", ", or in registered memory", ", in registered memory"};

    if (!table->count)
        return NULL;
    where = served_place(where);
    for (size_t i = 0; i < table->count; i++) {
        const struct served_row *row = &table->rows[i];

        if (strcmp(row->operation, operation) || strcmp(row->where, where) ||
            row->members != members || bytes < row->from || bytes > row->to)
            continue;
        if (is_as_said(row, registered, record))
            return NULL;
        snprintf(words, size, "%s of %" PRIu64 " bytes was served by %s %s; the table says %s %s%s",
                 operation, bytes, record->provider, record->algorithm, row->provider,
                 row->algorithm, kinds[registered]);
        return words;
    }
    snprintf(words, size,
             "%s of %" PRIu64 " bytes was served by %s %s; the table has no row for it", operation,
             bytes, record->provider, record->algorithm);
    return words;
}
