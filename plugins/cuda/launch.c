/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading and launching kernels. The driver compiles PTX when a module is loaded, which takes milliseconds to
 * seconds, and keeps the result on disk. So a module is loaded when it is first needed, and with it all of its
 * functions are looked up: a driver that loads lazily waits for the device at the first use of a function.
 */
#include <stdio.h>
#include <string.h>

#include "inside.h"

enum { UNIT_MOST = 16 }; /* bytes that packing moves at once */

static void add_name(struct module *module, const char *name, unsigned *count)
{
    for (unsigned i = 0; i < *count; i++)
        if (!strcmp(module->kernels[i].name, name))
            return;
    if (*count < KERNELS_IN_MODULE)
        snprintf(module->kernels[(*count)++].name, KERNEL_NAME_BYTES, "%s", name);
}

/* The names in a module that moves. */
static unsigned name_moves(struct module *module)
{
    unsigned count = 0;

    for (int unit = 1; unit <= UNIT_MOST; unit *= 2) {
        char name[KERNEL_NAME_BYTES];

        snprintf(name, sizeof name, "tutti_pack_%d", unit);
        add_name(module, name, &count);
        snprintf(name, sizeof name, "tutti_unpack_%d", unit);
        add_name(module, name, &count);
    }
    return count;
}

/* The names in the module of a dtype; the dtype is found by its module. */
static unsigned name_arithmetic(struct module *module, enum kernel_module number)
{
    static const tutti_dtype dtypes[] = {
#define DTYPE(NAME, name, code, bits) TUTTI_##NAME,
        TUTTI_DTYPE_LIST(DTYPE)
#undef DTYPE
    };
    unsigned count = 0;

    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        struct kernel_id id;

        for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_BXOR; op++)
            if (kernel_find_reduce(dtypes[i], op, &id) && id.module == number)
                add_name(module, id.name, &count);
        if (kernel_find_scale(dtypes[i], &id) && id.module == number)
            add_name(module, id.name, &count);
    }
    return count;
}

static CUresult load(tutti_accelerator *accelerator, enum kernel_module number,
                     struct module *module)
{
    const struct driver_api *api = &accelerator->driver->api;
    const unsigned count =
        number == KERNEL_MODULE_move ? name_moves(module) : name_arithmetic(module, number);
    CUresult result = api->cuModuleLoadData(&module->module, kernel_ptx(number));

    if (result)
        return result;
    for (unsigned i = 0; !result && i < count; i++)
        result = api->cuModuleGetFunction(&module->kernels[i].function, module->module,
                                          module->kernels[i].name);
    if (result)
        (void)api->cuModuleUnload(module->module);
    else
        atomic_store_explicit(&module->count, count, memory_order_release);
    return result;
}

tutti_status kernel_load(tutti_accelerator *accelerator, enum kernel_module number)
{
    struct module *module = &accelerator->modules[number];
    struct entry entry;

    if (atomic_load_explicit(&module->count, memory_order_acquire))
        return TUTTI_OK;
    pthread_mutex_lock(&accelerator->loading);
    CUresult result = CUDA_SUCCESS;
    if (!atomic_load_explicit(&module->count, memory_order_relaxed)) {
        result = accelerator_enter(accelerator, &entry);
        if (!result)
            result = accelerator_leave(accelerator, &entry, load(accelerator, number, module));
    }
    pthread_mutex_unlock(&accelerator->loading);
    return result ? driver_fails(accelerator->driver, result, accelerator->words,
                                 "loading the kernels of module %d", (int)number)
                  : TUTTI_OK;
}

void kernel_unload_all(tutti_accelerator *accelerator)
{
    for (int i = 0; i < KERNEL_MODULE_COUNT; i++)
        if (atomic_load_explicit(&accelerator->modules[i].count, memory_order_acquire))
            (void)IN_CONTEXT(accelerator, cuModuleUnload(accelerator->modules[i].module));
}

tutti_status kernel_launch(tutti_accelerator *accelerator, void *stream, const struct kernel_id *id,
                           uint64_t bytes, void *arguments)
{
    const tutti_driver *driver = accelerator->driver;
    struct module *module = &accelerator->modules[id->module];
    tutti_status status = kernel_load(accelerator, id->module);

    if (status)
        return status;
    const unsigned count = atomic_load_explicit(&module->count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(module->kernels[i].name, id->name))
            continue;
        const CUresult result =
            IN_CONTEXT(accelerator, cuLaunchKernel(module->kernels[i].function,
                                                   kernel_blocks(bytes, accelerator->processors), 1,
                                                   1, KERNEL_THREADS, 1, 1, 0, stream,
                                                   (void *[]){arguments}, NULL));
        return result ? driver_fails(driver, result, accelerator->words, "starting the kernel %s",
                                     id->name)
                      : TUTTI_OK;
    }
    return driver_refuses(driver, TUTTI_ERR_INTERNAL, "%s: there is no kernel %s",
                          accelerator->words, id->name);
}
