# SPDX-License-Identifier: Apache-2.0
"""Reductions: the names of the built-in ones, functions of Python, and sums with factors."""

from __future__ import annotations

import array
import sys
from typing import Any, Callable, Dict, Optional, Union

from . import _native
from ._native import lib, text

# "sum" -> 0, …; PREMUL_SUM is no number that a call takes.
NUMBERS: Dict[str, int] = {
    text(lib.tutti_reduce_op_name(number)): number for number in range(lib.TUTTI_PREMUL_SUM)
}

# dtypes whose elements Python's own memoryview can show; f16 by NumPy alone
_FORMATS = {
    "bool": "?",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "f16": "e",
    "f32": "f",
    "f64": "d",
}

_NUMPY_NAMES = {
    "c64": "complex64",
    "c128": "complex128",
    "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
}


def _as_arrays(dtype: str, *memories: Any) -> Any:
    """NumPy arrays over the memories, where NumPy is installed and knows the dtype; else
    memoryviews."""
    try:
        import numpy
    except ImportError:
        if dtype not in _FORMATS or dtype == "f16":
            raise TypeError(f"elements of {dtype} need NumPy (pip install numpy)") from None
        return [memory.cast(_FORMATS[dtype]) for memory in memories]
    kind: Any = _FORMATS.get(dtype) or _NUMPY_NAMES.get(dtype)
    if dtype in ("bf16", "f8e4m3fn", "f8e5m2"):
        import ml_dtypes  # says by itself that it is missing

        kind = getattr(ml_dtypes, kind)
    return [numpy.frombuffer(memory, dtype=kind) for memory in memories]


class ReduceOp:
    """A reduction of the program, for `op=` of every call that reduces.

    `function(a, b)` returns the element-wise reduction of two arrays of the same length, where `a`
    comes from lower ranks. The arrays are one-dimensional NumPy arrays, or memoryviews if NumPy is
    not installed; they are valid during the call only. The function must be associative and must
    not call tutti. All members give the same name and the same `commutative`.

    If the function raises, the call that waits for the operation raises the same, and the group is
    aborted.
    """

    def __init__(
        self, name: str, function: Callable[[Any, Any], Any], *, commutative: bool = False
    ) -> None:
        self.name = name
        self.function: Optional[Callable[[Any, Any], Any]] = function
        self.error: Optional[BaseException] = None
        self._callback = self._reduce  # C has no reference of its own
        self.number: int = _native.reduction(name, commutative, self._callback)

    def _reduce(self, to: Any, a: Any, b: Any, dtype: int) -> None:
        assert self.function is not None
        try:
            into, lower, upper = _as_arrays(text(lib.tutti_dtype_name(dtype)), to, a, b)
            reduced = self.function(lower, upper)
            if isinstance(into, memoryview):
                into[:] = memoryview(array.array(into.format, reduced))
            else:
                into[...] = reduced
        except BaseException as error:  # raised where the operation is waited for
            self.error = error

    def __repr__(self) -> str:
        return f"<tutti.ReduceOp {self.name!r}>"

    def __del__(self, free: Any = lib.tutti_reduce_op_free) -> None:
        number = getattr(self, "number", None)
        if number is not None and not sys.is_finalizing():
            free(number)


class _Premul(ReduceOp):
    def __init__(self, factor: Any) -> None:
        self.name = "premul_sum"
        self.function = None
        self.error = None
        self.number = _native.premul(factor)


def premul_sum(factor: Any) -> ReduceOp:
    """A sum whose inputs this member first multiplies by `factor`: an array of one element, or of
    as many as the input has, of the input's dtype."""
    return _Premul(factor)


Op = Union[str, ReduceOp]


def number_of(op: Op) -> int:
    """The number of the C API."""
    if isinstance(op, ReduceOp):
        return op.number
    number = NUMBERS.get(op)
    if number is None:
        raise ValueError(
            f"no reduction is called {op!r}: use {', '.join(NUMBERS)}, or a tutti.ReduceOp"
        )
    return number
