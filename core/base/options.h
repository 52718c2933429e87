/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs of the public API that may grow: they begin with a uint32_t struct_size, grow at their end
 * only, and are copied to the library's own layout before use, or from it.
 */
#pragma once

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
tutti_status options_copy_in(const char *function, void *dst, size_t known, const void *src,
                             const char *what);
#define options_copy(...) options_copy_in(__func__, __VA_ARGS__)

/* The other way round: of `info`, whose size here is `known`, the caller gets as much as the
 * struct_size of its own has room for, which then says how much that was. */
void options_give(void *info, size_t known, void *ret_info);
