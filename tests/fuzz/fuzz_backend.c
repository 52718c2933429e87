/* SPDX-License-Identifier: Apache-2.0 */
/* The words of TUTTI_BACKEND: what is accepted holds backend names, and reads back the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/backend.h"
#include "plugin/descriptor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct backend_choice choice, again;
    char *words = strndup((const char *)data, size);

    if (words && !backend_parse("fuzz", words, &choice) && !choice.is_auto) {
        char text[96];

        snprintf(text, sizeof text, "local=%s,remote=%s", choice.local, choice.remote);
        if (!descriptor_name_is_valid(choice.local) || !descriptor_name_is_valid(choice.remote) ||
            backend_parse("fuzz", text, &again) || strcmp(choice.local, again.local) ||
            strcmp(choice.remote, again.remote))
            abort();
    }
    free(words);
    return 0;
}
