# SPDX-License-Identifier: Apache-2.0
"""One rank that calls the distributed methods of TensorDict over tutti; for 3 ranks.

tutti run -n 3 python torch_tensordict.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from tensordict import TensorDict

from torch_parts import run_parts, same


def filled(value, batch=4):
    """Leaves of several dtypes, a nested one, a transposed one, one without elements."""
    return TensorDict(
        {
            "b": torch.full((batch, 3), float(value)),
            "a": torch.full((batch,), value, dtype=torch.int64),
            "nested": {"flag": torch.full((batch, 2), bool(value % 2)), "half": torch.full((batch,), value).half()},
            "empty": torch.empty(batch, 0),
            "wide": torch.full((batch, 1), float(value), dtype=torch.bfloat16),
        },
        batch_size=[batch],
    )


def equal(found, expected):
    assert set(found.keys(True, True)) == set(expected.keys(True, True))
    for key in expected.keys(True, True):
        same(found[key], expected[key])


# ---- messages ----


def send_and_recv(rank, size):
    for arguments in ({}, {"init_tag": 7}, {"pseudo_rand": True, "init_tag": 3}):
        if rank == 0:
            filled(5).send(dst=1, **arguments)
        elif rank == 1:
            got = filled(0)
            got.recv(src=0, **arguments)
            equal(got, filled(5))


def isend_and_irecv(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    sending, got = filled(rank), filled(9)
    sends = sending.isend(dst=right, return_early=True)
    receives = got.irecv(src=left, return_premature=True)
    for work in [*sends, *receives]:
        work.wait()
    equal(got, filled(left))
    if rank == 0:
        filled(3).isend(dst=2)
    elif rank == 2:
        got = filled(0)
        got.irecv(src=0)
        equal(got, filled(3))


def consolidated_messages(rank, size):
    if rank == 0:
        filled(1).consolidate(metadata=True).send(dst=1, consolidated=True)
        for work in filled(2).isend(dst=1, consolidated=True, return_early=True):
            work.wait()
    elif rank == 1:
        got = filled(0).consolidate(metadata=True)
        got.recv(src=0, consolidated=True)
        equal(got, filled(1))
        got.irecv(src=0, consolidated=True)
        equal(got, filled(2))


def remote_init(rank, size):
    if rank == 1:
        filled(4).init_remote(dst=2)
    elif rank == 2:
        equal(TensorDict.from_remote_init(src=1), filled(4))
    if rank == 0:
        filled(6).init_remote(use_broadcast=True)
    else:
        equal(TensorDict.from_remote_init(src=0, use_broadcast=True), filled(6))


# ---- collectives ----


def broadcast(rank, size):
    mine = filled(8) if rank == 1 else TensorDict({}, [])
    equal(mine.broadcast(src=1), filled(8))


def numbers(value):
    return TensorDict({"x": torch.full((4, 2), float(value)), "n": {"y": torch.full((4,), value)}}, [4])


def all_reduce(rank, size):
    total = numbers(size * (size + 1) // 2)
    for arguments in ({}, {"bucket_bytes": 1 << 20}, {"bucket_bytes": 1}):
        x = numbers(rank + 1)
        x.all_reduce(**arguments)
        equal(x, total)
    x = numbers(rank + 1)
    for work in x.all_reduce(async_op=True):
        work.wait()
    equal(x, total)
    x = numbers(rank)
    x.all_reduce(op=dist.ReduceOp.MAX)
    equal(x, numbers(size - 1))


def reduce(rank, size):
    for arguments in ({}, {"bucket_bytes": 1 << 20}, {"async_op": True}):
        x = numbers(rank + 1)
        x.reduce(dst=2, **arguments)
        if rank == 2:
            equal(x, numbers(size * (size + 1) // 2))
        dist.barrier()


def all_gather(rank, size):
    """Structures and sizes may differ."""
    keys = "abc"[: rank + 1]
    gathered = TensorDict({key: torch.full((2, rank + 1), float(rank)) for key in keys}, [2]).all_gather()
    for i, one in enumerate(gathered):
        equal(one, TensorDict({key: torch.full((2, i + 1), float(i)) for key in "abc"[: i + 1]}, [2]))
    for i, one in enumerate(filled(rank).all_gather()):
        equal(one, filled(i))


def scatter(rank, size):
    every = [filled(i, batch=i + 1) for i in range(size)] if rank == 0 else None
    equal(TensorDict({}, []).scatter(src=0, tensordicts=every), filled(rank, batch=rank + 1))


def gather_and_stack(rank, size):
    if rank == 0:
        out = torch.stack([filled(0) for _ in range(size - 1)]).contiguous()
        out.gather_and_stack(dst=0)
        for i in range(1, size):
            equal(out[i - 1], filled(i))
    else:
        filled(rank).gather_and_stack(dst=0)


PARTS = (
    send_and_recv, isend_and_irecv, consolidated_messages, remote_init, broadcast, all_reduce, reduce, all_gather,
    scatter, gather_and_stack,
)  # fmt: skip

dist.init_process_group("tutti", timeout=timedelta(seconds=60))
run_parts(PARTS)
dist.destroy_process_group()
