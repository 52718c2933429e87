/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options.h"

#include <stdint.h>
#include <string.h>

#include "base/error.h"

tutti_status options_copy_in(const char *function, void *dst, size_t known, const void *src,
                             const char *what)
{
    const uint32_t known_size = (uint32_t)known;
    uint32_t size = known_size;

    if (src)
        memcpy(&size, src, sizeof size);
    if (src && size == known) { /* of a program that was built for this library */
        memcpy(dst, src, known);
        return TUTTI_OK;
    }
    if (size < sizeof size || size > OPTIONS_SIZE_MAX)
        return error_set_in(
            function, TUTTI_ERR_INVALID_ARGUMENT,
            "%s: struct_size is %u; begin with TUTTI_…_INIT or set it to sizeof(%s)", what, size,
            what);

    const unsigned char *bytes = src;
    for (size_t i = known; i < size; i++) {
        if (bytes[i])
            return error_set_in(
                function, TUTTI_ERR_NEWER_CALLER,
                "%s: byte %zu of %u is set, but this libtutti knows %zu bytes only; "
                "the program was built for a newer libtutti",
                what, i, size, known);
    }
    memset(dst, 0, known);
    if (src)
        memcpy(dst, src, size < known ? size : known);
    memcpy(dst, &known_size, sizeof known_size);
    return TUTTI_OK;
}

void options_give(void *info, size_t known, void *ret_info)
{
    uint32_t size;

    memcpy(&size, ret_info, sizeof size);
    if (size > known)
        size = (uint32_t)known;
    memcpy(info, &size, sizeof size);
    memcpy(ret_info, info, size);
}
