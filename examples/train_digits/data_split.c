/* SPDX-License-Identifier: Apache-2.0 */
/* The file of held-out indices, and the split that it makes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"

/* An index is at most ten digits; the rest of a line is a comment. */
#define LINE_MAX_BYTES 256

static bool parse_line(const char *line, uint32_t count, uint32_t *ret_index)
{
    char *end;

    if (line[0] < '0' || line[0] > '9')
        return false;
    errno = 0;
    unsigned long long index = strtoull(line, &end, 10);
    if (errno || index >= count || end[strspn(end, " \t\r\n")] != 0)
        return false;
    *ret_index = (uint32_t)index;
    return true;
}

/* Fills held_out, which has room for `count`. */
static bool read_indices(FILE *file, const char *path, uint32_t count, struct data *data,
                         struct failure *why)
{
    char line[LINE_MAX_BYTES];

    for (int number = 1; fgets(line, sizeof line, file); number++) {
        uint32_t index, have = data->held_out_count;

        if (!strchr(line, '\n') && !feof(file))
            return failure_set(why, "%s:%d: the line is longer than %d bytes", path, number,
                               LINE_MAX_BYTES - 2);
        line[strcspn(line, "#")] = 0;
        if (line[strspn(line, " \t\r\n")] == 0)
            continue;
        if (!parse_line(line, count, &index))
            return failure_set(why, "%s:%d: not an index of 0..%u", path, number, count - 1);
        if (have && index <= data->held_out[have - 1])
            return failure_set(why, "%s:%d: index %u does not ascend from %u", path, number, index,
                               data->held_out[have - 1]);
        data->held_out[data->held_out_count++] = index;
    }
    if (ferror(file))
        return failure_set(why, "cannot read %s: %s", path, strerror(errno));
    if (data->held_out_count == 0)
        return failure_set(why, "%s holds no index: nothing would be held out", path);
    if (data->held_out_count == count)
        return failure_set(why, "%s holds out all %u images: none is left to train on", path,
                           count);
    return true;
}

static void fill_train(uint32_t count, struct data *data)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (next < data->held_out_count && data->held_out[next] == i)
            next++;
        else
            data->train[data->train_count++] = i;
    }
}

bool data_split(const char *path, uint32_t count, struct data *data, struct failure *why)
{
    data->train = malloc(count * sizeof *data->train);
    data->held_out = malloc(count * sizeof *data->held_out);
    if (!data->train || !data->held_out)
        return failure_set(why, "no memory for the indices of %u images", count);

    FILE *file = fopen(path, "re");
    if (!file)
        return failure_set(why, "cannot open %s: %s", path, strerror(errno));
    bool ok = read_indices(file, path, count, data, why);
    fclose(file);
    if (ok)
        fill_train(count, data);
    return ok;
}
