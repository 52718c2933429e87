/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: what an address is, allocation, registration, copies and fills.
 */
#include "driver_cases.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

/* Memory type, «managed» and device of an address; 99 where the driver writes nothing. */
static void check_pointer(CUdeviceptr address, unsigned type, unsigned managed, int device)
{
    unsigned its_type = 99, is_managed = 99;
    int its_device = 99;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *answers[] = {&its_type, &is_managed, &its_device};

    OK(cu.cuPointerGetAttributes(3, asked, answers, address));
    CHECK(its_type == type);
    CHECK(is_managed == managed);
    CHECK(its_device == device);
}

void the_driver_says_what_an_address_is(void)
{
    static char registered[8192] __attribute__((aligned(4096)));
    char pageable[64];
    CUdeviceptr device = driver_memory(1024), managed, large = driver_memory(4 * MIB);
    char *pinned = driver_pinned(8192);
    unsigned type;

    OK(cu.cuMemHostRegister_v2(registered, sizeof registered, 0));
    OK(cu.cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    check_pointer(device, CU_MEMORYTYPE_DEVICE, 0, 0);
    check_pointer(device + 1023, CU_MEMORYTYPE_DEVICE, 0, 0);
    check_pointer(large + 3 * MIB, CU_MEMORYTYPE_DEVICE, 0, 0);
    check_pointer(at(pinned), CU_MEMORYTYPE_HOST, 0, 0);
    check_pointer(at(pinned + 8191), CU_MEMORYTYPE_HOST, 0, 0);
    check_pointer(at(registered + 100), CU_MEMORYTYPE_HOST, 0, 0);
    check_pointer(managed, CU_MEMORYTYPE_DEVICE, 1, 0);
    check_pointer(at(pageable), 0, 0, -2);
    check_pointer(0, 0, 0, -2);
    OK(cu.cuMemFree_v2(large));
    check_pointer(large, 0, 0, -2);
    OK(cu.cuMemHostUnregister(registered));
    check_pointer(at(registered), 0, 0, -2);
    EXPECT(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at(pageable)),
           CUDA_ERROR_INVALID_VALUE);
}

void the_driver_says_where_an_allocation_begins(void)
{
    CUdeviceptr memory = driver_memory(1000), start = 0;
    char *pinned = driver_pinned(8192);
    size_t bytes = 0;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *answers[] = {&start, &bytes};

    OK(cu.cuMemGetAddressRange_v2(&start, &bytes, memory + 8));
    CHECK(start == memory && bytes == 1000);
    start = bytes = 0;
    OK(cu.cuPointerGetAttributes(2, asked, answers, memory + 999));
    CHECK(start == memory && bytes == 1000);
    OK(cu.cuMemHostGetDevicePointer_v2(&start, pinned + 10, 0));
    CHECK(start == at(pinned + 10));
}

void allocations_are_aligned_and_refused_in_words(void)
{
    CUdeviceptr memory = 0;
    void *pinned;
    size_t unused, total;

    CHECK(driver_memory(1) % 256 == 0);
    CHECK(driver_memory(1) % 256 == 0);
    EXPECT(cu.cuMemAlloc_v2(&memory, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cu.cuMemAlloc_v2(&memory, (size_t)1 << 44), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cu.cuMemHostAlloc(&pinned, 0, 0));
    EXPECT(cu.cuMemAllocManaged(&memory, 64, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuMemFree_v2(0));
    OK(cu.cuMemFreeHost(NULL));
    OK(cu.cuMemGetInfo_v2(&unused, &total));
    CHECK(unused <= total && total > 0);
}

void registered_memory_does_not_overlap(void)
{
    char *memory = aligned_alloc(4096, 65536);

    memset(memory, 0, 65536);
    OK(cu.cuMemHostRegister_v2(memory, 8192, 0));
    EXPECT(cu.cuMemHostRegister_v2(memory, 8192, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT(cu.cuMemHostRegister_v2(memory + 4096, 8192, 0),
           CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cu.cuMemHostRegister_v2(memory + 8192, 4096, 0));
    OK(cu.cuMemHostUnregister(memory + 8192));
    OK(cu.cuMemHostUnregister(memory));
    EXPECT(cu.cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT(cu.cuMemHostRegister_v2(driver_pinned(64), 64, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cu.cuMemHostUnregister(driver_pinned(64)), CUDA_ERROR_INVALID_VALUE);
    free(memory);
}

void copies_of_a_stream_are_in_order(void)
{
    enum { WORDS = 65536 };
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr one = driver_memory(4 * WORDS), two = driver_memory(4 * WORDS);
    uint32_t *from = driver_pinned(4 * WORDS), *to = driver_pinned(4 * WORDS);
    bool right = true;

    for (uint32_t i = 0; i < WORDS; i++)
        from[i] = i * 2654435761u;
    driver_hold(stream);
    OK(cu.cuMemcpyHtoDAsync_v2(one, from, 4 * WORDS, stream));
    OK(cu.cuMemcpyDtoDAsync_v2(two, one, 4 * WORDS, stream));
    OK(cu.cuMemsetD8Async(one, 0, 4 * WORDS, stream));
    OK(cu.cuMemcpyAsync(at(to), two, 4 * WORDS, stream));
    OK(cu.cuMemcpyAsync(at(to), one, 4, stream));
    OK(cu.cuMemcpyAsync(at(to), one, 0, stream));
    driver_release();
    OK(cu.cuStreamSynchronize(stream));
    for (uint32_t i = 1; i < WORDS; i++)
        right = right && to[i] == i * 2654435761u;
    CHECK(right && to[0] == 0);
}

/* What a caller may rely on, not what a driver happens to do. */
void blocking_copies_take_pageable_memory(void)
{
    size_t sizes[] = {4, 4096, 64 << 10, MIB};
    CUdeviceptr one = driver_memory(MIB), two = driver_memory(MIB);
    char *from = malloc(MIB), *to = malloc(MIB);

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(from, (int)i + 1, sizes[i]);
        memset(to, 0, sizes[i]);
        OK(cu.cuMemcpyHtoD_v2(one, from, sizes[i]));
        memset(from, 77, sizes[i]); /* it was read when the call returned */
        OK(cu.cuMemcpyDtoD_v2(two, one, sizes[i]));
        OK(cu.cuMemcpyDtoH_v2(to, two, sizes[i]));
        CHECK(to[0] == (int)i + 1 && to[sizes[i] - 1] == (int)i + 1);
    }
    OK(cu.cuMemcpy(at(to), at(from), 64));
    CHECK(to[63] == 77);
    free(from);
    free(to);
}

void copies_between_devices_are_in_stream_order(void)
{
    CUcontext contexts[2];
    CUdeviceptr memory[2];
    CUstream stream = driver_stream(CU_STREAM_NON_BLOCKING);
    int count = 0, other, can = -1;
    uint32_t word = 5;

    OK(cu.cuDeviceGetCount(&count));
    other = count > 1;
    OK(cu.cuDeviceCanAccessPeer(&can, 0, 0));
    CHECK(can == 0);
    OK(cu.cuCtxGetCurrent(&contexts[0]));
    memory[0] = driver_memory(64);
    OK(cu.cuDevicePrimaryCtxRetain(&contexts[1], other));
    OK(cu.cuCtxPushCurrent_v2(contexts[1]));
    memory[1] = driver_memory(64);
    OK(cu.cuMemsetD32_v2(memory[1], 0, 16));
    OK(cu.cuCtxSynchronize());
    OK(cu.cuCtxPopCurrent_v2(NULL));
    driver_hold(stream);
    OK(cu.cuMemsetD32Async(memory[0], 33, 16, stream));
    OK(cu.cuMemcpyPeerAsync(memory[1], contexts[1], memory[0], contexts[0], 64, stream));
    OK(cu.cuMemsetD32Async(memory[0], 44, 16, stream));
    driver_release();
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuMemcpyDtoH_v2(&word, memory[1] + 60, sizeof word));
    CHECK(word == 33);
    OK(cu.cuMemcpyPeer(memory[1], contexts[1], memory[0], contexts[0], 64));
    OK(cu.cuMemcpyDtoH_v2(&word, memory[1], sizeof word));
    CHECK(word == 44);
    if (other)
        EXPECT(cu.cuCtxDisablePeerAccess(contexts[1]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cu.cuDevicePrimaryCtxRelease_v2(other));
}

void fills_reach_device_and_pinned_memory(void)
{
    CUdeviceptr memory = driver_memory(64);
    unsigned char *pinned = driver_pinned(64), pageable[8];

    OK(cu.cuMemsetD32_v2(memory, 0x01020304, 16));
    OK(cu.cuMemsetD8_v2(memory, 9, 1));
    CHECK(driver_word(memory) == 0x01020309);
    OK(cu.cuMemsetD8_v2(at(pinned), 7, 64));
    OK(cu.cuCtxSynchronize());
    CHECK(pinned[63] == 7);
    EXPECT(cu.cuMemsetD32_v2(memory + 1, 0, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cu.cuMemsetD8_v2(at(pageable), 7, 8), CUDA_ERROR_INVALID_VALUE);
}
