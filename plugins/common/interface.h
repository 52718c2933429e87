/* SPDX-License-Identifier: Apache-2.0 */
/* The network interface that a library listens on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The interface that has the numeric address. False: none has. */
bool interface_find(const char *address, char *ret_interface, size_t capacity);
