#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NumPy's own managed tensors: imported, reduced in place, given back exactly once.

Run by test_python.c, with examples/python in PYTHONPATH.
"""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_void_p, py_object

import numpy

from all_reduce_ctypes import SUM, Tensor, check, tutti

capsules = ctypes.pythonapi
capsules.PyCapsule_GetName.restype = c_char_p
capsules.PyCapsule_GetName.argtypes = [py_object]
capsules.PyCapsule_GetPointer.restype = c_void_p
capsules.PyCapsule_GetPointer.argtypes = [py_object, c_char_p]
capsules.PyCapsule_SetName.argtypes = [py_object, c_char_p]

# The names are kept by pointer, so they must stay.
IMPORTS = {
    b"dltensor": (tutti.tutti_tensor_from_dlpack, c_char_p(b"used_dltensor")),
    b"dltensor_versioned": (
        tutti.tutti_tensor_from_dlpack_versioned,
        c_char_p(b"used_dltensor_versioned"),
    ),
}
for function, _ in IMPORTS.values():
    function.argtypes = [c_void_p, POINTER(POINTER(Tensor))]
tutti.tutti_tensor_release.argtypes = [POINTER(Tensor)]
tutti.tutti_tensor_release.restype = None


def from_dlpack(array):
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # a NumPy that knows the unversioned struct only
        capsule = array.__dlpack__()
    name = capsules.PyCapsule_GetName(capsule)
    function, used = IMPORTS[name]
    tensor = POINTER(Tensor)()
    check(function(capsules.PyCapsule_GetPointer(capsule, name), byref(tensor)))
    capsules.PyCapsule_SetName(capsule, used)
    return tensor


def main():
    world = c_void_p()
    check(tutti.tutti_init(None, byref(world)))
    rank, size = tutti.tutti_group_rank(world), tutti.tutti_group_size(world)

    array = numpy.full((2, 3), rank + 1, dtype=numpy.float64)
    before = sys.getrefcount(array)
    tensor = from_dlpack(array)
    assert sys.getrefcount(array) == before + 1, "the import does not hold the array"
    assert tensor[0].data == array.ctypes.data, "the array was copied"
    check(tutti.tutti_all_reduce(world, tensor, SUM, None, None))
    assert (array == size * (size + 1) / 2).all(), array
    tutti.tutti_tensor_release(tensor)
    assert sys.getrefcount(array) == before, "the array was not given back once"

    print(f"rank {rank}: imported and given back")
    check(tutti.tutti_group_destroy(world))


if __name__ == "__main__":
    main()
