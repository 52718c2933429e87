#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An all_reduce of a NumPy array by the package `tutti`.

tutti run -n 4 python3 all_reduce.py
"""

import numpy

import tutti


def main():
    with tutti.init() as world:
        numbers = numpy.full(4, world.rank, dtype=numpy.float32)
        world.all_reduce(numbers)
        print(f"rank {world.rank} of {world.size}:", numbers.tolist())

        # Every other column of a transposed matrix: tutti takes any strides.
        table = numpy.arange(12).reshape(4, 3)
        world.all_reduce(table.T[:, ::2], "max")

        # Started at once, and waited for later.
        work = world.all_gather_async(numpy.array([world.rank]))
        assert work.wait().tolist() == list(range(world.size))


if __name__ == "__main__":
    main()
