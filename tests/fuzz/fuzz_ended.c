/* SPDX-License-Identifier: Apache-2.0 */
/* What a store may hold of ranks that have ended: what is an entry is told again in the same bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/ended.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char words[ENDED_WORDS_MAX];
    struct ended ended;
    uint8_t again[ENDED_MAX];

    for (size_t at = 0, from = 0; ended_next(data, size, &at, &ended); from = at) {
        if (ended_encode(&ended, again) != at - from || memcmp(again, data + from, at - from) != 0)
            abort();
        ended_where(&ended, words, sizeof words);
        ended_how(&ended, words, sizeof words);
    }
    return 0;
}
