#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An all_reduce of NumPy arrays through ctypes; nothing is compiled.

tutti run -n 4 python3 all_reduce_ctypes.py

Needs NumPy and an installed libtutti, or the folder that has it in LD_LIBRARY_PATH.
"""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p

import numpy

CPU, READ_ONLY = 1, 1 << 30  # TUTTI_DEVICE_CPU, TUTTI_DEVICE_READ_ONLY
SUM = 0  # TUTTI_SUM
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # DLPack's numbers of NumPy's kinds


class Tensor(ctypes.Structure):
    """tutti_tensor; its device, a struct of two numbers, is two members here."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("dtype", c_uint32),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]

    def __init__(self, array):
        """Describes the array's own memory, in whatever order it lies there."""
        extents = c_int64 * array.ndim
        size = array.itemsize
        super().__init__(
            data=array.ctypes.data,
            device_type=CPU if array.flags.writeable else CPU | READ_ONLY,
            ndim=array.ndim,
            dtype=CODES[array.dtype.kind] | 8 * size << 8 | 1 << 16,
            shape=extents(*array.shape),
            strides=extents(*(step // size for step in array.strides)),
        )
        self.array = array  # lives as long as who points to its memory


def load():
    """The library, with the types of the functions that are called here."""
    try:
        library = ctypes.CDLL("libtutti.so.0")
    except OSError as error:
        sys.exit(f"{error}: install tutti, or put the folder of libtutti.so.0 into LD_LIBRARY_PATH")
    library.tutti_last_error.restype = c_char_p
    for name, types in {
        "tutti_init": [c_void_p, POINTER(c_void_p)],
        "tutti_group_rank": [c_void_p],
        "tutti_group_size": [c_void_p],
        "tutti_all_reduce": [c_void_p, POINTER(Tensor), c_int32, c_void_p, c_void_p],
        "tutti_group_destroy": [c_void_p],
    }.items():
        getattr(library, name).argtypes = types
    return library


tutti = load()


def check(status):
    if status:
        raise RuntimeError(tutti.tutti_last_error().decode())


def main():
    world = c_void_p()
    check(tutti.tutti_init(None, byref(world)))
    rank = tutti.tutti_group_rank(world)

    numbers = numpy.full((2, 3), rank, dtype=numpy.float32)
    check(tutti.tutti_all_reduce(world, byref(Tensor(numbers)), SUM, None, None))

    # Every other column of a transposed matrix: no copy is needed here, tutti makes its own.
    table = numpy.arange(12, dtype=numpy.int64).reshape(4, 3)
    check(tutti.tutti_all_reduce(world, byref(Tensor(table.T[:, ::2])), SUM, None, None))

    print(f"rank {rank} of {tutti.tutti_group_size(world)}:", numbers.tolist(), table.tolist())
    check(tutti.tutti_group_destroy(world))


if __name__ == "__main__":
    main()
