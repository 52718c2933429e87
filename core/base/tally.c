/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct tally_row {
    struct tally_row *next;
    uint64_t times;
    size_t bytes;
    unsigned char what[];
};

void tally_init(struct tally *tally)
{
    pthread_mutex_init(&tally->lock, NULL);
    tally->rows = NULL;
}

void tally_free(struct tally *tally)
{
    while (tally->rows) {
        struct tally_row *row = tally->rows;

        tally->rows = row->next;
        free(row);
    }
    pthread_mutex_destroy(&tally->lock);
}

static struct tally_row *find(struct tally *tally, const void *what, size_t bytes)
{
    struct tally_row *row = tally->rows;

    while (row && (row->bytes != bytes || memcmp(row->what, what, bytes) != 0))
        row = row->next;
    if (row || !(row = malloc(sizeof *row + bytes)))
        return row;
    *row = (struct tally_row){.next = tally->rows, .bytes = bytes};
    memcpy(row->what, what, bytes);
    tally->rows = row;
    return row;
}

tutti_status tally_count(struct tally *tally, const void *what, size_t bytes, uint64_t *ret_before)
{
    pthread_mutex_lock(&tally->lock);
    struct tally_row *row = find(tally, what, bytes);
    if (row)
        *ret_before = row->times++;
    pthread_mutex_unlock(&tally->lock);
    return row ? TUTTI_OK : error_set(TUTTI_ERR_NO_MEMORY, "no memory to count");
}
