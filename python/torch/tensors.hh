/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors and reductions of torch, as tutti takes them.
 *
 * A descriptor points into the tensor: it is valid as long as the tensor is, and its memory as long as the
 * storage is. tutti takes any strides, so nothing is copied here, except inputs whose conjugate or negative bit
 * is set: torch only notes these operations, and the memory does not have their result.
 */
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <tutti/reduce.h>
#include <tutti/tensor.h>

#include "errors.hh"

namespace tutti_torch
{

/* A dtype that tutti does not compute with is moved as bits. */
inline tutti_dtype bits_of(const at::Tensor &tensor)
{
    switch (tensor.element_size()) {
    case 1:
        return TUTTI_BITS8;
    case 2:
        return TUTTI_BITS16;
    case 4:
        return TUTTI_BITS32;
    case 8:
        return TUTTI_BITS64;
    case 16:
        return TUTTI_BITS128;
    default:
        fail(TUTTI_ERR_UNSUPPORTED,
             c10::str("a tensor of dtype ", tensor.dtype(), " has elements of ",
                      tensor.element_size(), " bytes; 1, 2, 4, 8 and 16 are possible"));
    }
}

inline tutti_dtype dtype_of(const at::Tensor &tensor)
{
    switch (tensor.scalar_type()) {
    case at::kBool:
        return TUTTI_BOOL;
    case at::kByte:
        return TUTTI_U8;
    case at::kUInt16:
        return TUTTI_U16;
    case at::kUInt32:
        return TUTTI_U32;
    case at::kUInt64:
        return TUTTI_U64;
    case at::kChar:
        return TUTTI_I8;
    case at::kShort:
        return TUTTI_I16;
    case at::kInt:
        return TUTTI_I32;
    case at::kLong:
        return TUTTI_I64;
    case at::kHalf:
        return TUTTI_F16;
    case at::kBFloat16:
        return TUTTI_BF16;
    case at::kFloat:
        return TUTTI_F32;
    case at::kDouble:
        return TUTTI_F64;
    case at::kFloat8_e4m3fn:
        return TUTTI_F8E4M3FN;
    case at::kFloat8_e5m2:
        return TUTTI_F8E5M2;
    case at::kComplexFloat:
        return TUTTI_C64;
    case at::kComplexDouble:
        return TUTTI_C128;
    default:
        return bits_of(tensor);
    }
}

inline void check_tensor(const at::Tensor &tensor)
{
    if (tensor.layout() != at::kStrided)
        fail(TUTTI_ERR_UNSUPPORTED, c10::str("a tensor with layout ", tensor.layout(),
                                             ": dense tensors are possible, and all_reduce with "
                                             "SUM also takes sparse COO; use to_dense()"));
    if (!tensor.device().is_cpu())
        fail(TUTTI_ERR_UNSUPPORTED,
             c10::str("a tensor on ", tensor.device(),
                      ": tutti carries CPU tensors; give the others to another backend, as in "
                      "init_process_group(\"cpu:tutti,cuda:nccl\"), or use tensor.cpu()"));
}

/* The tensor whose memory has the values. */
inline at::Tensor as_input(const at::Tensor &tensor)
{
    check_tensor(tensor);
    return tensor.resolve_conj().resolve_neg();
}

inline const at::Tensor &as_output(const at::Tensor &tensor)
{
    check_tensor(tensor);
    if (tensor.is_conj() || tensor.is_neg())
        fail(TUTTI_ERR_UNSUPPORTED,
             c10::str("the tensor to be written has its ",
                      tensor.is_conj() ? "conjugate bit set: pass tensor.resolve_conj()"
                                       : "negative bit set: pass tensor.resolve_neg()"));
    return tensor;
}

inline tutti_tensor describe(const at::Tensor &tensor, void *data, int32_t device_type)
{
    return {data,
            {device_type, 0},
            static_cast<int32_t>(tensor.dim()),
            dtype_of(tensor),
            tensor.sizes().data(),
            tensor.strides().data(),
            0};
}

/* `tensor` is the result of as_input(). */
inline tutti_tensor describe_input(const at::Tensor &tensor)
{
    return describe(tensor, const_cast<void *>(tensor.const_data_ptr()),
                    int32_t{TUTTI_DEVICE_CPU} | int32_t{TUTTI_DEVICE_READ_ONLY});
}

inline tutti_tensor describe_output(const at::Tensor &tensor)
{
    return describe(as_output(tensor), tensor.mutable_data_ptr(), TUTTI_DEVICE_CPU);
}

/* Descriptors of a list, and the pointers to them that tutti's calls take. The tensors outlive it. */
class described_list
{
  public:
    static described_list of_inputs(std::vector<at::Tensor> &from)
    {
        described_list list(from.size());

        for (at::Tensor &tensor : from) {
            tensor = as_input(tensor);
            list.add(describe_input(tensor));
        }
        return list;
    }
    static described_list of_outputs(const std::vector<at::Tensor> &from)
    {
        described_list list(from.size());

        for (const at::Tensor &tensor : from)
            list.add(describe_output(tensor));
        return list;
    }
    const tutti_tensor *const *data() const
    {
        return pointers_.data();
    }

  private:
    explicit described_list(size_t count)
    {
        descriptors_.reserve(count); /* the pointers stay valid */
        pointers_.reserve(count);
    }
    void add(const tutti_tensor &descriptor)
    {
        descriptors_.push_back(descriptor);
        pointers_.push_back(&descriptors_.back());
    }

    std::vector<tutti_tensor> descriptors_;
    std::vector<const tutti_tensor *> pointers_;
};

/* ---- reductions ------------------------------------------------------------------------------ */

/* A reduction for tensors of one dtype. Calls in progress keep what they need of it. */
class reduction
{
  public:
    reduction(const c10d::ReduceOp &op, const at::Tensor &tensor)
    {
        switch (op.op_) {
        case c10d::ReduceOp::SUM:
            op_ = TUTTI_SUM;
            break;
        case c10d::ReduceOp::AVG:
            op_ = TUTTI_AVG;
            break;
        case c10d::ReduceOp::PRODUCT:
            op_ = TUTTI_PRODUCT;
            break;
        case c10d::ReduceOp::MIN:
            op_ = TUTTI_MIN;
            break;
        case c10d::ReduceOp::MAX:
            op_ = TUTTI_MAX;
            break;
        case c10d::ReduceOp::BAND:
            op_ = TUTTI_BAND;
            break;
        case c10d::ReduceOp::BOR:
            op_ = TUTTI_BOR;
            break;
        case c10d::ReduceOp::BXOR:
            op_ = TUTTI_BXOR;
            break;
        case c10d::ReduceOp::PREMUL_SUM:
            op_ = make_premul(op, tensor);
            break;
        default:
            fail(TUTTI_ERR_INVALID_ARGUMENT, "this ReduceOp is not known; use one of ReduceOp");
        }
    }
    reduction(const reduction &) = delete;
    reduction &operator=(const reduction &) = delete;
    ~reduction()
    {
        tutti_reduce_op_free(op_); /* built-in ones are ignored */
    }
    operator tutti_reduce_op() const
    {
        return op_;
    }

  private:
    static tutti_reduce_op make_premul(const c10d::ReduceOp &op, const at::Tensor &tensor)
    {
        const auto *supplement =
            dynamic_cast<const c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());

        if (!supplement)
            fail(TUTTI_ERR_INVALID_ARGUMENT, "PREMUL_SUM has no factor: make it with "
                                             "torch.distributed._make_nccl_premul_sum(factor)");
        const at::Tensor factor =
            as_input(supplement->tensor_factor.defined()
                         ? supplement->tensor_factor.to(at::kCPU, tensor.scalar_type())
                         : at::scalar_tensor(supplement->double_factor, tensor.options()));
        const tutti_tensor descriptor =
            describe(factor, const_cast<void *>(factor.const_data_ptr()), TUTTI_DEVICE_CPU);
        tutti_reduce_op made = 0;
        check(tutti_reduce_op_premul(&descriptor, &made));
        return made;
    }

    tutti_reduce_op op_ = TUTTI_SUM;
};

} // namespace tutti_torch
