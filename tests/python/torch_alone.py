# SPDX-License-Identifier: Apache-2.0
"""A program that names the backend and imports torch alone.

torchrun --standalone --nproc-per-node 2 torch_alone.py
"""

import torch
import torch.distributed as dist

dist.init_process_group("tutti")
x = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(x)
size = dist.get_world_size()
assert x.tolist() == [size * (size + 1) / 2] * 3
print(f"rank {dist.get_rank()} of {size} over {dist.get_backend()}: {x[0]}", flush=True)
dist.destroy_process_group()
