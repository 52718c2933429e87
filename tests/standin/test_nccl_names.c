/* SPDX-License-Identifier: Apache-2.0 */
/* Our declarations of NCCL are those of nccl.h, where a host has it, and CUDA's headers that it includes. */
#include <criterion/criterion.h>

#if defined(__has_include)
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#endif
#endif

#include "nccl/nccl_api.h"

#ifdef NCCL_VERSION_CODE
#define SAME_VALUE(name, value)                                                                    \
    _Static_assert((long)(name) == (value), #name " has another value in nccl.h");
NCCL_RESULTS(SAME_VALUE)
NCCL_TYPES(SAME_VALUE)
NCCL_OPS(SAME_VALUE)

#define SAME_TYPE(result, name, arguments)                                                         \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) arguments),           \
                   #name " has another type in nccl.h");
NCCL_FUNCTIONS(SAME_TYPE)

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)
NCCL_NEW_TYPES(SAME_VALUE)
NCCL_MEMORY_FUNCTIONS(SAME_TYPE)
NCCL_NEW_FUNCTIONS(SAME_TYPE)
#endif

#define SAME_PLACE(member)                                                                         \
    _Static_assert(offsetof(ncclConfig_t, member) == offsetof(struct nccl_config, member),         \
                   #member " is at another place in nccl.h");
SAME_PLACE(size)
SAME_PLACE(magic)
SAME_PLACE(version)
SAME_PLACE(blocking)
SAME_PLACE(cgaClusterSize)
SAME_PLACE(minCTAs)
SAME_PLACE(maxCTAs)
SAME_PLACE(netName)
SAME_PLACE(splitShare)
_Static_assert(sizeof(ncclUniqueId) == 128, "ncclUniqueId has another size in nccl.h");
_Static_assert(NCCL_NOT_SET == NCCL_CONFIG_UNDEF_INT, "NCCL_CONFIG_UNDEF_INT has another value");
#endif

Test(nccl_names, declarations_are_those_of_nccl_h)
{
#ifdef NCCL_VERSION_CODE
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    cr_expect_eq(config.magic, NCCL_MAGIC);
    cr_expect_geq(NCCL_VERSION_CODE, NCCL_VERSION(2, 18, 1));
#else
    cr_skip_test("this host has no nccl.h");
#endif
}
