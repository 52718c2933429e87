/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernel treats the memory at an address. */
#pragma once

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The flags of the mapping that an address is in, from /proc/self/smaps. */
static inline void flags_of(const void *address, char ret_flags[256])
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[512];
    unsigned long low, high;
    bool inside = false;

    cr_assert_not_null(file);
    *ret_flags = 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &low, &high) == 2)
            inside = low <= (unsigned long)address && (unsigned long)address < high;
        if (inside && !strncmp(line, "VmFlags:", 8))
            snprintf(ret_flags, 256, "%.255s", line);
    }
    fclose(file);
}
