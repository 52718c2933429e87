/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel this process runs on: the same in all containers and namespaces of one boot. */
#ifndef TUTTI_BASE_BOOT_H
#define TUTTI_BASE_BOOT_H

enum { BOOT_ID_ROOM = 40 };

/* "" where /proc does not tell. */
void boot_id(char ret_id[BOOT_ID_ROOM]);

#endif
