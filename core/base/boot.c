/* SPDX-License-Identifier: Apache-2.0 */
#include "base/boot.h"

#include <stdio.h>
#include <string.h>

void boot_id(char ret_id[BOOT_ID_ROOM])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    *ret_id = 0;
    if (!file)
        return;
    if (!fgets(ret_id, BOOT_ID_ROOM, file))
        *ret_id = 0;
    fclose(file);
    ret_id[strcspn(ret_id, "\n")] = 0;
}
