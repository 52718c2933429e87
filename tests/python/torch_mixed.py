# SPDX-License-Identifier: Apache-2.0
"""Rank 0 uses the world of tutti without torch, as a program in C does; the others are ranks of
torch."""

import os
from datetime import timedelta

if os.environ["RANK"] == "0":
    import array

    import tutti

    with tutti.init() as world:
        x = array.array("f", [1.0])
        world.all_reduce(x)
        world.barrier()
        print(x[0], world.name)
else:
    import torch
    import torch.distributed as dist

    dist.init_process_group("tutti", timeout=timedelta(seconds=60))
    x = torch.ones(1)
    dist.all_reduce(x)
    dist.barrier()
    print(x.item(), "torch")
    dist.destroy_process_group()
