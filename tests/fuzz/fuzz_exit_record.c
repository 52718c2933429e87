/* SPDX-License-Identifier: Apache-2.0 */
/* What comes to the socket of `tutti run`: what is a record is told again in the same bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/exit_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct exit_record record;
    uint8_t again[EXIT_RECORD_MAX];

    if (exit_record_decode(data, size, &record) &&
        (exit_record_encode(&record, again) != size || memcmp(again, data, size) != 0))
        abort();
    return 0;
}
