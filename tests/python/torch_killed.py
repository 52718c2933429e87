# SPDX-License-Identifier: Apache-2.0
"""One rank of a DDP job, of which rank 2 kills itself in a backward pass.

    torchrun --standalone --nproc-per-node 3 torch_killed.py FOLDER

Each other rank writes into FOLDER/RANK what its own backward pass raises.
"""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

VICTIM = 2


class Die(torch.autograd.Function):
    """Ends the process when its gradient is asked for."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        os.kill(os.getpid(), signal.SIGKILL)
        return gradient


def main():
    # torchrun asks the others to end when it sees a rank die, which may be before they have written.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    torch.set_num_threads(1)
    dist.init_process_group("tutti")
    torch.manual_seed(0)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
    )
    for step in range(4):
        loss = model(torch.randn(16, 64)).square().mean()
        if step == 3 and dist.get_rank() == VICTIM:
            loss = Die.apply(loss)
        try:
            loss.backward()
        except RuntimeError as error:
            Path(sys.argv[1], str(dist.get_rank())).write_text(
                f"{type(error).__name__}: {error}", encoding="utf-8"
            )
            return
    Path(sys.argv[1], str(dist.get_rank())).write_text("nothing was raised", encoding="utf-8")


if __name__ == "__main__":
    main()
