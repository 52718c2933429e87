/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of plugins/cuda on a GPU, through the driver alone: gpu_kernels [bits|speed]. Without a word it does
 * both. TAP on stdout, and lines that begin with # for what was measured. Exit code 77: there is no driver or no GPU.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver_api.h"
#include "gpu/trials.h"

enum { DEADLINE_S = 240, PLENTY = 64 << 20, PINNED = 1 << 20, REPEATS = 20 };

static struct driver_api driver;
static CUresult (*synchronize)(CUstream stream);
static CUmodule modules[KERNEL_MODULE_COUNT];
static int processors;
static unsigned grid; /* blocks; 0: as many as kernel_blocks() says */

static void check(CUresult result, const char *what)
{
    const char *words = "?";

    if (result == CUDA_SUCCESS)
        return;
    if (driver.cuGetErrorString)
        driver.cuGetErrorString(result, &words);
    printf("not ok - gpu_kernels::%s: result %d, %s\n", what, (int)result, words);
    exit(1);
}
#define CHECK(call) check(driver.call, #call)

static void skip(const char *why)
{
    printf("ok - gpu_kernels::all # SKIP %s\n", why);
    exit(77);
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void begin(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CUcontext context;
    CUdevice device;
    char name[128] = "";
    int count = 0, version = 0;

    if (!library)
        skip(dlerror());
#define FIND(function, arguments) *(void **)&driver.function = dlsym(library, #function);
    DRIVER_FUNCTIONS(FIND)
#undef FIND
    *(void **)&synchronize = dlsym(library, "cuStreamSynchronize");
    if (driver.cuInit(0) != CUDA_SUCCESS || driver.cuDeviceGetCount(&count) != CUDA_SUCCESS ||
        !count)
        skip("there is no GPU");
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDriverGetVersion(&version));
    CHECK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxPushCurrent_v2(context));
    printf("# %s, %d multiprocessors, driver for CUDA %d.%d\n", name, processors, version / 1000,
           version % 1000 / 10);
}

static void finish_stream(void)
{
    check(synchronize(NULL), "cuStreamSynchronize");
}

static void *allocate(size_t bytes)
{
    CUdeviceptr memory;

    CHECK(cuMemAlloc_v2(&memory, bytes));
    return (void *)(uintptr_t)memory; /* NOLINT: an address of the device */
}

/* By way of pinned memory, since asynchronous copies of other memory are none. */
static void *pinned(size_t bytes)
{
    static void *memory;

    if (bytes > PINNED) {
        printf("not ok - gpu_kernels::%zu bytes are copied at once\n", bytes);
        exit(1);
    }
    if (!memory)
        CHECK(cuMemHostAlloc(&memory, PINNED, CU_MEMHOSTALLOC_PORTABLE));
    return memory;
}

static void put(void *to, const void *from, size_t bytes)
{
    void *between = pinned(bytes);

    memcpy(between, from, bytes);
    CHECK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)between, bytes, NULL));
    finish_stream();
}

static void get(void *to, const void *from, size_t bytes)
{
    void *between = pinned(bytes);

    CHECK(
        cuMemcpyAsync((CUdeviceptr)(uintptr_t)between, (CUdeviceptr)(uintptr_t)from, bytes, NULL));
    finish_stream();
    memcpy(to, between, bytes);
}

static CUfunction find(const struct kernel_id *id)
{
    CUfunction function;

    if (!modules[id->module])
        CHECK(cuModuleLoadData(&modules[id->module], kernel_ptx(id->module)));
    CHECK(cuModuleGetFunction(&function, modules[id->module], id->name));
    return function;
}

static void launch(CUfunction function, void *arguments, size_t bytes)
{
    const unsigned blocks = grid ? grid : kernel_blocks(bytes, (uint32_t)processors);

    CHECK(cuLaunchKernel(function, blocks, 1, 1, KERNEL_THREADS, 1, 1, 0, NULL,
                         (void *[]){arguments}, NULL));
}

static void run(const struct kernel_id *id, void *arguments, size_t bytes)
{
    launch(find(id), arguments, bytes);
    finish_stream();
}

static const struct runner gpu = {allocate, put, get, run};

static int tell(const char *what, int differences)
{
    printf("%s - gpu_kernels::%s\n", differences ? "not ok" : "ok", what);
    fflush(stdout);
    return differences != 0;
}

static int compare_bits(void)
{
    int differences = 0, failed = 0;

    for (int row = 0; row < TRIAL_ROWS; row++)
        differences += trial_reduce(&gpu, row);
    failed += tell("reductions_have_the_bits_of_the_core", differences);
    failed += tell("every_small_number_has_the_bits_of_the_core", trial_small(&gpu));
    failed += tell("products_with_a_factor_have_the_bits_of_the_core", trial_scale(&gpu));
    failed += tell("strides_of_any_kind_are_packed_and_unpacked",
                   trial_pack(&gpu) + trial_pack_far(&gpu));
    return failed;
}

/* The cache of compiled PTX is off, so this is the first load on a machine. */
static void measure_loading(void)
{
    for (int m = 0; m < KERNEL_MODULE_COUNT; m++) {
        const double began = now_us();
        CUmodule module;

        CHECK(cuModuleLoadData(&module, kernel_ptx((enum kernel_module)m)));
        printf("# module %d of %zu bytes of PTX is loaded in %.1f ms\n", m,
               strlen(kernel_ptx((enum kernel_module)m)), (now_us() - began) * 1e-3);
        CHECK(cuModuleUnload(module));
    }
}

/* One kernel, the mean of many launches. `moved`: bytes read and written. */
static void measure(const char *what, const struct kernel_id *id, void *arguments, size_t bytes,
                    size_t moved)
{
    const CUfunction function = find(id);

    launch(function, arguments, bytes);
    finish_stream();
    const double began = now_us();
    for (int i = 0; i < REPEATS; i++)
        launch(function, arguments, bytes);
    finish_stream();
    const double us = (now_us() - began) / REPEATS;
    printf("# %-28s %-26s %9.1f us, %7.1f GB/s\n", what, id->name, us, (double)moved / us * 1e-3);
}

/* What kernel_blocks() should give: blocks for each multiprocessor. */
static void measure_grids(unsigned char *memory)
{
    static const tutti_dtype dtypes[] = {TUTTI_F32, TUTTI_BF16, TUTTI_F8E4M3FN};

    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (unsigned each = 4; each <= 128; each *= 2) {
            struct kernel_reduce k = {.dst = memory,
                                      .first = memory,
                                      .rest = memory + PLENTY,
                                      .count = PLENTY / tutti_dtype_size(dtypes[i]),
                                      .operands = 2};
            struct kernel_id id;
            char what[64];

            kernel_find_reduce(dtypes[i], TUTTI_SUM, &id);
            grid = each * (unsigned)processors;
            snprintf(what, sizeof what, "64 MiB, %u blocks each", each);
            measure(what, &id, &k, PLENTY, (size_t)3 * PLENTY);
        }
    grid = 0;
}

static void measure_reductions(unsigned char *memory)
{
    static const tutti_dtype dtypes[] = {TUTTI_F32,    TUTTI_BF16, TUTTI_F16, TUTTI_F64,
                                         TUTTI_I32,    TUTTI_U8,   TUTTI_C64, TUTTI_F8E4M3FN,
                                         TUTTI_F8E5M2, TUTTI_BOOL};

    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const size_t element = tutti_dtype_size(dtypes[i]);
        struct kernel_reduce k = {.dst = memory,
                                  .first = memory,
                                  .rest = memory + PLENTY,
                                  .count = PLENTY / element,
                                  .stride = PLENTY,
                                  .operands = 2};
        struct kernel_id id;

        kernel_find_reduce(dtypes[i], TUTTI_SUM, &id);
        measure("64 MiB += 64 MiB", &id, &k, PLENTY, (size_t)3 * PLENTY);
        k.count = 64 / element;
        measure("64 B += 64 B", &id, &k, 64, (size_t)3 * 64);
        k.count = PLENTY / element - 1;
        k.first = k.dst = memory + 1;
        measure("64 MiB, at odd addresses", &id, &k, PLENTY, (size_t)3 * PLENTY);
        k.count = PLENTY / element;
        k.first = k.dst = memory;
        k.operands = 8;
        measure("64 MiB, 8 operands", &id, &k, PLENTY, (size_t)9 * PLENTY);
        k.fixed_order = 1;
        measure("64 MiB, 8 in fixed order", &id, &k, PLENTY, (size_t)9 * PLENTY);
    }
}

static void measure_packing(unsigned char *memory)
{
    const int64_t side = 4096;
    const struct {
        const char *what;
        uint32_t dimensions;
        int64_t extent[2], stride[2];
    } views[] = {{"64 MiB, every second row", 2, {side, side}, {side * 8, 4}},
                 {"64 MiB, transposed", 2, {side, side}, {4, side * 4}},
                 {"64 MiB, every second f32", 1, {side * side}, {8}}};

    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        const struct kernel_view view = {memory + PLENTY, 4, views[i].dimensions, views[i].extent,
                                         views[i].stride};
        struct kernel_pack k;
        struct kernel_id id;

        kernel_find_pack(&view, memory, 0, PLENTY / 4, false, &k, &id);
        measure(views[i].what, &id, &k, PLENTY, (size_t)2 * PLENTY);
        kernel_find_pack(&view, memory, 0, PLENTY / 4, true, &k, &id);
        measure(views[i].what, &id, &k, PLENTY, (size_t)2 * PLENTY);
    }
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    int failed = 0;

    alarm(DEADLINE_S);
    if (!strcmp(only, "speed"))
        setenv("CUDA_CACHE_DISABLE", "1", 1);
    begin();
    if (strcmp(only, "speed") != 0)
        failed = compare_bits();
    if (strcmp(only, "bits") != 0) {
        unsigned char *memory = allocate((size_t)9 * PLENTY);

        measure_loading();
        measure_grids(memory);
        measure_reductions(memory);
        measure_packing(memory);
        tell("speed_was_measured", 0);
    }
    return failed != 0;
}
