/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules and kernels. The text of a module must be the PTX of plugins/cuda; a launch runs the host's form of
 * the same kernel once, in stream order, with the pointers of its struct changed to where the stand-in reaches
 * that memory. Pointers are the first members of each struct (plugins/cuda/kernels.h).
 */
#include "cuda.h"

#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 2048 /* a kernel's struct */

struct CUfunc_st {
    struct CUfunc_st *next;
    struct CUmod_st *module;
    const struct host_kernel *kernel;
    size_t size; /* of its struct */
};

struct launch {
    const struct host_kernel *kernel;
    struct CUctx_st *context;
    size_t pointers;
    unsigned char arguments[]; /* a multiple of 8 */
};

static CUresult run_kernel(const void *arguments)
{
    const struct launch *launch = arguments;
    uint64_t copy[LONGEST / 8];
    uintptr_t pointer;

    memcpy(copy, launch->arguments, LONGEST);
    pthread_mutex_lock(&standin_lock);
    for (size_t i = 0; i < launch->pointers; i++) {
        const struct range *range = standin_range(pointer = (uintptr_t)copy[i]);

        if (range && range->kind == MEMORY_DEVICE &&
            range->context->device != launch->context->device &&
            !(launch->context->peers & 1u << range->context->device))
            standin_die(launch->kernel->name, "device %d has no access to %p of device %d",
                        launch->context->device, (void *)pointer, range->context->device);
        if (!range && pointer)
            standin_die(launch->kernel->name,
                        "%p (pointer %zu of its struct) is not memory that a kernel may touch",
                        (void *)pointer, i);
        copy[i] = (uintptr_t)standin_view(launch->kernel->name, pointer, 0);
    }
    pthread_mutex_unlock(&standin_lock);
    launch->kernel->run(copy);
    return CUDA_SUCCESS;
}

/* How many pointers the struct begins with. */
static size_t pointers_of(const char *name, const void *arguments)
{
    const struct kernel_reduce *reduce = arguments;

    if (strncmp(name, "tutti_reduce_", strlen("tutti_reduce_")) == 0)
        return reduce->operands > 1 ? 3 : 2;
    return strncmp(name, "tutti_scale_", strlen("tutti_scale_")) == 0 ? 3 : 2;
}

static const struct host_kernel *find_kernel(const char *name, size_t length)
{
    const struct host_kernel *kernel = host_kernels;

    while (kernel->name && (strncmp(kernel->name, name, length) != 0 || kernel->name[length]))
        kernel++;
    return kernel->name ? kernel : NULL;
}

/* Reads one kernel of the text behind «.entry». */
static CUresult read_entry(struct CUmod_st *module, const char *at)
{
    const struct host_kernel *kernel;
    struct CUfunc_st *function;
    const char *end, *size;

    at += strspn(at, " \t\n");
    end = at + strcspn(at, " \t\n({");
    kernel = find_kernel(at, (size_t)(end - at));
    size = strstr(end, "_param_0[");
    if (!kernel || !size) {
        fprintf(stderr,
                "standin libcuda: cuModuleLoadData: no kernel of plugins/cuda is named %.*s\n",
                (int)(end - at), at);
        return CUDA_ERROR_INVALID_PTX;
    }
    function = calloc(1, sizeof *function);
    function->next = module->functions;
    function->module = module;
    function->kernel = kernel;
    function->size = strtoul(strchr(size, '[') + 1, NULL, 10);
    module->functions = function;
    return function->size <= LONGEST ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

static void free_functions(struct CUmod_st *module)
{
    struct CUfunc_st *next;

    for (struct CUfunc_st *f = module->functions; f; f = next) {
        next = f->next;
        free(f);
    }
    free(module);
}

EXPORT CUresult cuModuleLoadData(CUmodule *ret_module, const void *image)
{
    struct CUctx_st *context;
    struct CUmod_st *module;
    const char *at = image;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (!image)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    standin_wait_context(context); /* as the driver does */
    if (!strstr(at, ".version ") || !strstr(at, ".target "))
        return standin_leave(CUDA_ERROR_INVALID_IMAGE);
    module = calloc(1, sizeof *module);
    module->context = context;
    while (result == CUDA_SUCCESS && (at = strstr(at, ".entry ")))
        result = read_entry(module, at += strlen(".entry "));
    if (result)
        free_functions(module);
    else
        *ret_module = module;
    return standin_leave(result);
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    result = standin_refuse_unsafe();
    if (result)
        return standin_leave(result);
    standin_wait_context(module->context);
    free_functions(module);
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuModuleGetFunction(CUfunction *ret_function, CUmodule module, const char *name)
{
    struct CUfunc_st *function;
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    if (!name)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    function = module->functions;
    while (function && strcmp(function->kernel->name, name) != 0)
        function = function->next;
    if (function)
        *ret_function = function;
    return standin_leave(function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared, CUstream handle, void **arguments,
                               void **extra)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    struct launch *launch;
    CUresult result = standin_enter(__func__, &context);

    (void)shared;
    if (result)
        return result;
    if (!function)
        return standin_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z || !arguments || extra ||
        grid_y > 65535 || grid_z > 65535 || (uint64_t)block_x * block_y * block_z > 1024)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    stream = standin_stream(__func__, handle, context);
    if (stream->context != function->module->context)
        return standin_leave(CUDA_ERROR_INVALID_HANDLE);
    launch = calloc(1, sizeof *launch + LONGEST);
    launch->kernel = function->kernel;
    launch->context = stream->context;
    launch->pointers = pointers_of(function->kernel->name, arguments[0]);
    memcpy(launch->arguments, arguments[0], function->size);
    result = standin_put(stream, run_kernel, launch, sizeof *launch + LONGEST, NULL);
    free(launch);
    return standin_leave(result);
}
