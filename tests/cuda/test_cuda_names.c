/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's own declarations of the driver API are those of cuda.h, where a host has it. */
#include <criterion/criterion.h>

#if defined(__has_include)
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#endif

#include "driver_api.h"

#ifdef CUDA_VERSION
#define SAME_VALUE(name, value)                                                                    \
    _Static_assert((long)(name) == (value), #name " has another value in cuda.h");
DRIVER_RESULTS(SAME_VALUE)
DRIVER_DEVICE_ATTRIBUTES(SAME_VALUE)
DRIVER_POINTER_ATTRIBUTES(SAME_VALUE)
DRIVER_MEMORY_TYPES(SAME_VALUE)
DRIVER_CAPTURE_STATUSES(SAME_VALUE)
DRIVER_CAPTURE_MODES(SAME_VALUE)
DRIVER_FLAGS(SAME_VALUE)

#define SAME_TYPE(name, arguments)                                                                 \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), CUresult(*) arguments),         \
                   #name " has another type in cuda.h");
DRIVER_FUNCTIONS(SAME_TYPE)
#endif

Test(cuda_names, declarations_are_those_of_cuda_h)
{
#ifdef CUDA_VERSION
    cr_expect_geq(CUDA_VERSION, 11070);
#else
    cr_skip_test("this host has no cuda.h");
#endif
}
