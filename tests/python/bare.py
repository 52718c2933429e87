# SPDX-License-Identifier: Apache-2.0
"""A rank of a Python that has nothing but tutti: it moves arrays of Python's own, and objects.

tutti run -n 3 python3 bare.py
"""

import array
import sys

import tutti

with tutti.init() as world:
    rank, size = world.rank, world.size
    x = array.array("d", [rank + 1.0] * 5)
    assert world.all_reduce(x) is x and x.tolist() == [size * (size + 1) / 2] * 5
    view = memoryview(bytearray(8)).cast("i")
    view[0], view[1] = rank, -rank
    world.all_reduce(view, "min")
    assert view.tolist() == [0, 1 - size]
    blocks = array.array("i", [-1] * size)
    world.all_gather(array.array("i", [rank]), out=blocks)
    assert blocks.tolist() == list(range(size))
    assert bytes(world.all_gather(bytes([rank]))) == bytes(range(size))
    received = bytearray(3)
    receipt = world.sendrecv(b"abc", (rank + 1) % size, received, (rank - 1) % size)
    assert received == b"abc" and receipt == (rank - 1) % size
    assert world.all_gather_object({"rank": rank})[-1] == {"rank": size - 1}
    assert "numpy" not in sys.modules
    print(f"rank {rank} of {size} over {world.backend}: {x[0]}", flush=True)
