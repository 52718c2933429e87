#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An all_reduce of a NumPy array through cffi, which reads tutti's own headers.

tutti run -n 4 python3 all_reduce_cffi.py [FOLDER_OF_HEADERS...]

Needs NumPy, cffi, a C compiler and an installed libtutti with its headers. A folder that has
libtutti.so.0 may be in LD_LIBRARY_PATH instead.
"""

import sys

import cffi
import numpy

import tutti_cdef

ffi = cffi.FFI()
ffi.cdef(tutti_cdef.cdef(sys.argv[1:] or None))
try:
    tutti = ffi.dlopen("libtutti.so.0")
except OSError as error:
    sys.exit(f"{error}: install tutti, or put the folder of libtutti.so.0 into LD_LIBRARY_PATH")

DTYPES = {"uint8": tutti.TUTTI_U8, "int64": tutti.TUTTI_I64, "float32": tutti.TUTTI_F32}


def check(status):
    if status != tutti.TUTTI_OK:
        raise RuntimeError(ffi.string(tutti.tutti_last_error()).decode())


def describe(array):
    """A tutti_tensor of the array's own memory, and what must live as long as it does."""
    shape = ffi.new("int64_t[]", array.shape)
    strides = ffi.new("int64_t[]", [step // array.itemsize for step in array.strides])
    tensor = ffi.new("tutti_tensor *")
    tensor.data = ffi.cast("void *", array.ctypes.data)
    tensor.device.type = tutti.TUTTI_DEVICE_CPU
    tensor.ndim = array.ndim
    tensor.dtype = DTYPES[array.dtype.name]
    tensor.shape = shape
    tensor.strides = strides
    return tensor, (array, shape, strides)


def main():
    ret_world = ffi.new("tutti_group **")
    check(tutti.tutti_init(ffi.NULL, ret_world))
    world = ret_world[0]
    rank = tutti.tutti_group_rank(world)

    numbers = numpy.full((2, 3), rank, dtype=numpy.float32)
    tensor, alive = describe(numbers)
    check(tutti.tutti_all_reduce(world, tensor, tutti.TUTTI_SUM, ffi.NULL, ffi.NULL))
    del tensor, alive

    print(f"rank {rank} of {tutti.tutti_group_size(world)}:", numbers.tolist())
    check(tutti.tutti_group_destroy(world))


if __name__ == "__main__":
    main()
