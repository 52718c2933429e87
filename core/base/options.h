/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Option structs of the public API: they begin with a uint32_t struct_size, grow at their end only,
 * and are copied to the library's own layout before use.
 */
#ifndef TUTTI_BASE_OPTIONS_H
#define TUTTI_BASE_OPTIONS_H

#include <stddef.h>

#include <tutti/status.h>

#include "base/error.h"

enum { OPTIONS_SIZE_MAX = 4096 }; /* no caller's struct is larger; more is rubbish */

/*
 * Copies the caller's `src` (NULL: all defaults) into `dst`, whose size here is `known`; what an
 * older caller lacks is zero, and dst's struct_size becomes `known`. `what` ("tutti_init_options")
 * names it in errors. INVALID_ARGUMENT: struct_size is 0 or absurd; NEWER_CALLER: bytes beyond
 * `known` are set.
 */
tutti_status options_copy(void *dst, size_t known, const void *src, const char *what);
#define options_copy(...) error_named((options_copy)(__VA_ARGS__))

#endif
