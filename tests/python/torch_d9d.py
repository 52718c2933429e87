# SPDX-License-Identifier: Apache-2.0
"""One rank that calls d9d's functions of torch.distributed over tutti; for 3 ranks.

tutti run -n 3 python torch_d9d.py

gloo refuses most of the uneven ones, and loses the last message of a sender that goes on.
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from d9d.core import dist_ops

from torch_parts import run_parts, same


def blocks(rank):
    """What each rank has, for tensors that differ in length, in dimensions, and of which one is empty."""
    return (
        torch.full((rank + 1,), rank),
        torch.full((1,) * rank, float(rank)),
        torch.full((rank, 2), float(rank), dtype=torch.bfloat16),
    )


def equal_shapes(rank, size):
    group = dist.group.WORLD
    x = torch.full((2, 3), float(rank)).t()
    for i, block in enumerate(dist_ops.all_gather(x, group)):
        same(block, torch.full((3, 2), float(i)))
    for destination in range(size):
        gathered = dist_ops.gather(x, group, destination)
        assert (gathered is None) == (rank != destination)
        for i, block in enumerate(gathered or ()):
            same(block, torch.full((3, 2), float(i)))


def equal_shapes_async(rank, size):
    group = dist.group.WORLD
    x = torch.full((5,), rank)
    gathered, work = dist_ops.all_gather(x, group, async_op=True)
    at_root, second = dist_ops.gather(x, group, 1, async_op=True)
    work.wait()
    second.wait()
    same(torch.stack(gathered)[:, 0], torch.arange(size))
    assert (at_root is None) == (rank != 1)
    if at_root:
        same(torch.stack(at_root)[:, 4], torch.arange(size))


def variadic_all_gather(rank, size):
    for number in range(len(blocks(0))):
        gathered = dist_ops.all_gather_variadic_shape(blocks(rank)[number], dist.group.WORLD)
        later, work = dist_ops.all_gather_variadic_shape(blocks(rank)[number], dist.group.WORLD, async_op=True)
        work.wait()
        for i in range(size):
            same(gathered[i], blocks(i)[number])
            same(later[i], blocks(i)[number])


def variadic_gather(rank, size):
    for number in range(len(blocks(0))):
        for destination in range(size):
            gathered = dist_ops.gather_variadic_shape(blocks(rank)[number], dist.group.WORLD, destination)
            assert (gathered is None) == (rank != destination)
            for i, block in enumerate(gathered or ()):
                same(block, blocks(i)[number])


def objects(rank, size):
    group = dist.group.WORLD
    expected = [{"rank": i, "text": "x" * i} for i in range(size)]
    assert dist_ops.all_gather_object(expected[rank], group) == expected
    assert dist_ops.gather_object(expected[rank], group, 2) == (expected if rank == 2 else None)


def destinations_are_ranks_of_the_group(rank, size):
    group = dist.new_group([1, 2])
    if not rank:
        return
    gathered = dist_ops.gather_variadic_shape(blocks(rank)[0], group, 1)
    assert (gathered is None) == (rank != 2)
    for i, block in enumerate(gathered or (), 1):
        same(block, blocks(i)[0])


def mismatches_are_errors(rank, size):
    group = dist.new_group()
    dtype = torch.int32 if rank == 1 else torch.float32
    try:
        dist_ops.all_gather(torch.ones(2, dtype=dtype), group)
    except RuntimeError as error:
        assert "rank 1: all_gather 2 x i32" in str(error), error
    else:
        raise AssertionError("no error")


def senders_may_leave_at_once(rank, size):
    """The function drops the handle of its send, and the sender destroys its group."""
    big = torch.full((300000 * rank + 1,), float(rank))
    gathered = dist_ops.gather_variadic_shape(big, dist.group.WORLD, 0)
    dist.destroy_process_group()
    for i, block in enumerate(gathered or ()):
        assert block.numel() == 300000 * i + 1
        same(block[-1], float(i))
    if rank == 0:
        print("ok - senders_may_leave_at_once", flush=True)


PARTS = (
    equal_shapes, equal_shapes_async, variadic_all_gather, variadic_gather, objects,
    destinations_are_ranks_of_the_group, mismatches_are_errors,
)  # fmt: skip

dist.init_process_group("tutti", timeout=timedelta(seconds=60))
run_parts(PARTS)
senders_may_leave_at_once(dist.get_rank(), dist.get_world_size())
