# SPDX-License-Identifier: Apache-2.0
"""What rank programs of torch share: parts that run one after the other, and are told of by rank 0."""

import torch
import torch.distributed as dist


def same(found, expected):
    assert torch.equal(torch.as_tensor(found), torch.as_tensor(expected)), f"{found} is not {expected}"


def run_parts(parts):
    rank, size = dist.get_rank(), dist.get_world_size()
    for part in parts:
        part(rank, size)
        dist.barrier()
        if rank == 0:
            print(f"ok - {part.__name__}", flush=True)
