/* SPDX-License-Identifier: Apache-2.0
 *
 * When the faults of cuda.h happen. All with the lock.
 */
#include "cuda.h"

#include <unistd.h>

static long allocations, operations, copies;

static bool is_about(CUdevice device)
{
    return standin_settings.lost_device < 0 || standin_settings.lost_device == device;
}

bool standin_fault_allocation(void)
{
    return standin_settings.oom_at && ++allocations >= standin_settings.oom_at;
}

CUresult standin_fault_operation(CUdevice device)
{
    if (!standin_settings.lost_at || !is_about(device) || ++operations < standin_settings.lost_at)
        return CUDA_SUCCESS;
    return standin_settings.lost_error;
}

bool standin_fault_copy(void)
{
    return standin_settings.late_copy && ++copies == standin_settings.late_copy;
}

void standin_check_lost(struct CUctx_st *context)
{
    if (standin_settings.lost_file && context->error == CUDA_SUCCESS && is_about(context->device) &&
        access(standin_settings.lost_file, F_OK) == 0) {
        context->error = standin_settings.lost_error;
        pthread_cond_broadcast(&standin_changed);
    }
}

EXPORT void standin_cuda_lose(CUdevice device, CUresult error)
{
    pthread_mutex_lock(&standin_lock);
    standin_context_of(device)->error = error;
    pthread_cond_broadcast(&standin_changed);
    pthread_mutex_unlock(&standin_lock);
}
