/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that ask for more memory than any malloc() has: AddressSanitizer and ThreadSanitizer end them
 * unless they are told to return NULL, as the C library does. */
#pragma once

#include <stddef.h>

/* Nobody has so much; twice as much still is a size_t. */
#define NO_MEMORY_BYTES ((size_t)1 << 61)

#ifdef __SANITIZE_ADDRESS__
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
#endif
#ifdef __SANITIZE_THREAD__
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}
#endif
