# SPDX-License-Identifier: Apache-2.0
"""New arrays for results, of the library that an argument comes from."""

from __future__ import annotations

import array
import functools
import math
import sys
from typing import Any, Callable, Dict, Sequence, Tuple

from . import _native
from ._errors import ArrayError
from ._native import lib, text

Shape = Tuple[int, ...]


class Memory:
    """Memory of our own with a dtype and a shape, which becomes an array of a library whose arrays
    never change. Others import it by DLPack, and then share it; nobody writes to it any more."""

    def __init__(self, dtype: int, shape: Shape) -> None:
        self.dtype = dtype
        self.shape = shape
        self.bytes = bytearray(lib.tutti_dtype_size(dtype) * math.prod(shape))

    def __dlpack__(self, **_: Any) -> Any:
        return _native.capsule(self.bytes, self.dtype, self.shape)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (lib.TUTTI_DEVICE_CPU, 0)


def type_of(x: Any) -> str:
    """The name of its type, for messages."""
    return f"{type(x).__module__}.{type(x).__qualname__}"


def shape_of(x: Any) -> Shape:
    """The shape of an array; of array.array and of bytes, their length."""
    if x is None:
        raise ArrayError("the array is None")
    shape = getattr(x, "shape", None)
    return (len(x),) if shape is None else tuple(map(int, shape))


def _numpy(x: Any, shape: Shape) -> Any:
    return sys.modules["numpy"].empty(shape, x.dtype)


def _torch(x: Any, shape: Shape) -> Any:
    return x.new_empty(shape)


def _array(x: Any, shape: Shape) -> Any:
    return array.array(x.typecode, bytes(x.itemsize * math.prod(shape)))


def _builtin(x: Any, shape: Shape) -> Any:
    view = memoryview(x)
    empty = bytearray(view.itemsize * math.prod(shape))
    if isinstance(x, memoryview):
        return memoryview(empty).cast(view.format, shape)  # type: ignore[call-overload]
    return empty


def _memory(x: Any, shape: Shape) -> Memory:
    return Memory(_native.measure(x)[0], shape)


_MLX_NAMES = {
    "bool": "bool_",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
}


def _as_mlx(memory: Memory) -> Any:
    """By integers of the same size: no buffer of Python can say bfloat16."""
    mlx = sys.modules["mlx.core"]
    own = text(lib.tutti_dtype_name(memory.dtype))
    name = _MLX_NAMES.get(own)
    if name is None:
        raise ArrayError(f"MLX has no dtype for elements of {own}")
    integers: Any = {1: "B", 2: "H", 4: "I", 8: "Q"}[lib.tutti_dtype_size(memory.dtype)]
    whole = mlx.array(memoryview(memory.bytes).cast(integers))
    dtype = getattr(mlx, name)
    typed = whole.astype(dtype) if own == "bool" else whole.view(dtype)
    return typed.reshape(memory.shape)


def _as_jax(memory: Memory) -> Any:
    import jax.dlpack

    return jax.dlpack.from_dlpack(memory)


# By the first part of a type's module.
_MAKERS: Dict[str, Callable[[Any, Shape], Any]] = {
    "numpy": _numpy,
    "torch": _torch,
    "array": _array,
    "builtins": _builtin,
    "mlx": _memory,
    "jax": _memory,
    "jaxlib": _memory,
    "tutti": lambda x, shape: Memory(x.dtype, shape),
}
_CONVERTERS: Dict[str, Callable[[Memory], Any]] = {
    "mlx": _as_mlx,
    "jax": _as_jax,
    "jaxlib": _as_jax,
}


@functools.lru_cache(maxsize=64)
def _library_of(kind: type) -> str:
    for base in kind.__mro__:
        root = base.__module__.partition(".")[0]
        if root in _MAKERS and base is not object:
            return root
    return kind.__module__.partition(".")[0]


def _library(x: Any) -> str:
    kind: Any = type(x)
    return _library_of(kind)


def empty_like(x: Any, shape: Shape) -> Any:
    """A new array of the library and dtype of `x`; for MLX and JAX memory that finished() turns
    into one."""
    maker = _MAKERS.get(_library(x))
    if maker is None:
        raise ArrayError(f"tutti cannot make an array of type {type_of(x)}: pass out=")
    return maker(x, shape)


def finished(result: Any, x: Any) -> Any:
    """What a complete call returns where its result was made by empty_like(x, …)."""
    if not isinstance(result, Memory):
        return result
    return _CONVERTERS[_library(x)](result)


def divided(shape: Shape, parts: int, what: str) -> Shape:
    """The shape of one of `parts` equal blocks along the first extent."""
    if not shape or shape[0] % parts:
        raise ValueError(
            f"{what}: the first extent of the shape {shape} must be a multiple of the group's "
            f"size, {parts}"
        )
    return (shape[0] // parts, *shape[1:])


def multiplied(shape: Shape, parts: int) -> Shape:
    """The shape of `parts` blocks one after the other along the first extent."""
    return (shape[0] * parts, *shape[1:]) if shape else (parts,)


def total(counts: Sequence[int]) -> Shape:
    """The shape of blocks with these counts."""
    return (sum(counts),)
