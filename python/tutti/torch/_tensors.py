# SPDX-License-Identifier: Apache-2.0
"""Tensors and reductions of torch, as tutti takes them; python/torch/tensors.hh does the same in
C++.

A tensor is described in C by the table of its type, without a copy. Only inputs whose conjugate or
negative bit is set are copied: torch only notes these operations, and the memory does not have
their result.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch
from torch._C._distributed_c10d import ReduceOp

import tutti
from tutti import _native
from tutti._native import ffi, lib

from ._build import COMMAND
from ._errors import refuse, unsupported

# Those that tutti computes with. Others are moved as bits.
_COMPUTED = {
    getattr(torch, name)
    for name in (
        "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 "
        "complex64 complex128 float8_e4m3fn float8_e5m2"
    ).split()
}
_BITS = {
    1: lib.TUTTI_BITS8,
    2: lib.TUTTI_BITS16,
    4: lib.TUTTI_BITS32,
    8: lib.TUTTI_BITS64,
    16: lib.TUTTI_BITS128,
}


class _Bits:
    """A tensor whose elements tutti moves and does not know, as an array of DLPack."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        size = tensor.element_size()
        if size not in _BITS:
            unsupported(
                f"a tensor of dtype {tensor.dtype} has elements of {size} bytes; 1, 2, 4, 8 and 16 "
                "are possible"
            )
        if not tensor.is_contiguous():
            unsupported(
                f"a tensor of dtype {tensor.dtype} that is not contiguous: pass "
                f"tensor.contiguous(), or run once: {COMMAND}"
            )
        self._dtype = _BITS[size]

    def __dlpack__(self, **_: Any) -> Any:
        tensor = self._tensor
        address = ffi.cast("char *", tensor.data_ptr())
        memory = ffi.buffer(address, tensor.numel() * tensor.element_size())
        return _native.capsule(memory, self._dtype, tuple(tensor.shape))

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (lib.TUTTI_DEVICE_CPU, 0)


def _checked(tensor: Any) -> Any:
    if tensor.layout is not torch.strided:
        unsupported(
            f"a tensor with layout {tensor.layout}: dense tensors are possible, and all_reduce "
            "with SUM also takes sparse COO; use to_dense()"
        )
    if not tensor.is_cpu:
        unsupported(
            f"a tensor on {tensor.device}: tutti carries CPU tensors; give the others to another "
            'backend, as in init_process_group("cpu:tutti,cuda:nccl"), or use tensor.cpu()'
        )
    return tensor.detach() if tensor.requires_grad else tensor


def _described(tensor: Any) -> Any:
    return tensor if tensor.dtype in _COMPUTED else _Bits(tensor)


def _readable(tensor: Any) -> Any:
    return _described(_checked(tensor).resolve_conj().resolve_neg())


def _writable(tensor: Any) -> Any:
    tensor = _checked(tensor)
    if tensor.is_conj():
        unsupported(
            "the tensor to be written has its conjugate bit set: pass tensor.resolve_conj()"
        )
    if tensor.is_neg():
        unsupported("the tensor to be written has its negative bit set: pass tensor.resolve_neg()")
    return _described(tensor)


def as_input(x: Any) -> Any:
    """The array, or list of arrays, whose memory has the values of a tensor, or of a list; None
    stays None."""
    if isinstance(x, list):
        return [_readable(tensor) for tensor in x]
    return None if x is None else _readable(x)


def as_output(x: Any) -> Any:
    """The same for what is written in place."""
    if isinstance(x, list):
        return [_writable(tensor) for tensor in x]
    return None if x is None else _writable(x)


# ---- reductions ----

_NAMES: Dict[Any, str] = {
    ReduceOp.SUM: "sum",
    ReduceOp.AVG: "avg",
    ReduceOp.PRODUCT: "product",
    ReduceOp.MIN: "min",
    ReduceOp.MAX: "max",
    ReduceOp.BAND: "band",
    ReduceOp.BOR: "bor",
    ReduceOp.BXOR: "bxor",
}


def reduction(reduce_op: Any, tensor: Any) -> Any:
    """The reduction for tensors of the dtype of `tensor`."""
    kind = getattr(reduce_op, "op", reduce_op)
    name = _NAMES.get(kind)
    if name is not None:
        return name
    if kind != ReduceOp.PREMUL_SUM:
        refuse(f"the reduction {kind} is not known; use one of ReduceOp")
    try:
        factor = reduce_op.factor
    except (AttributeError, RuntimeError, ValueError):
        refuse(
            "PREMUL_SUM has no factor: make it with torch.distributed._make_nccl_premul_sum(factor)"
        )
    if not isinstance(factor, torch.Tensor):
        factor = torch.scalar_tensor(factor, dtype=tensor.dtype)
    return tutti.premul_sum(as_input(factor.to("cpu", tensor.dtype)))
