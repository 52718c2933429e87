/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory on the group's device. The engine for devices registers it with its team, and allocates it where
 * the program has none. Where the group has no such engine, or its library cannot, the device's driver allocates the
 * memory, and calls on it are made as on any other.
 *
 * The functions may block in the driver, and are called without the progress lock.
 */
#pragma once

#include "group/group.h"

/* Gets the memory, whose `device`, `asked` and, if it is the program's, `address` are set. Does not wait for other
 * members. */
tutti_status device_memory_make(struct tutti_memory *memory);
/* Gives it back; calls that use it are over. Where the engine knows it, this thread has the team (native_lend()). */
void device_memory_end(struct tutti_memory *memory);
/* All that the group has left, while its team is there. */
void device_memories_free(struct tutti_group *group);
