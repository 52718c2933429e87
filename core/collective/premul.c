/* SPDX-License-Identifier: Apache-2.0 */
/* tutti_reduce_op_premul(): a factor is read when the operation is made, wherever it lies. */
#include <tutti/reduce.h>

#include "base/error.h"
#include "device/device.h"
#include "reduce/op.h"
#include "tensor/layout.h"

/* A factor is an input: it may be read-only. */
static tutti_status read_factor(const tutti_tensor *factor, const struct tensor_size *size,
                                void *to)
{
    const int32_t given = factor->device.type & ~TUTTI_DEVICE_READ_ONLY;
    const int32_t type = device_type_of(given);
    const struct device_tensor on_device = {factor, size, "the factor", TENSOR_READ,
                                            NULL,   0,    false};
    struct tensor_view view;
    struct device *device;

    if (given == TUTTI_DEVICE_CPU || given == TUTTI_DEVICE_CUDA_HOST) {
        tensor_view(factor, size, &view);
        tensor_pack(&view, to);
        return TUTTI_OK;
    }
    if (!type)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "the factor is on a device of type %d, which this libtutti does not know",
                         given);
    tutti_status status = device_open(type, factor->device.id, 0, &device);
    if (!status)
        status = device_check_place(device, factor, size, "the factor");
    if (!status)
        status = device_check_stream(device, NULL);
    return status ? status : device_read(device, &on_device, to);
}

tutti_status tutti_reduce_op_premul(const tutti_tensor *factor, tutti_reduce_op *ret_op)
{
    if (!ret_op)
        return error_named(error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_op is NULL"));
    return error_named(reduce_op_make_premul(factor, read_factor, ret_op));
}
