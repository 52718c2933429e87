# SPDX-License-Identifier: Apache-2.0
"""The steps of PyTorch's tutorials on distributed programs and on DDP, with the backend tutti.

python torch_tutorial.py FOLDER [RANKS]

It starts its ranks itself, as the tutorials do, without a launcher.
"""

import contextlib
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_parts import run_parts, same

# ---- writing distributed programs ----


def blocking_messages(rank, size):
    x = torch.zeros(1)
    if rank == 0:
        x += 1
        dist.send(tensor=x, dst=1)
    elif rank == 1:
        dist.recv(tensor=x, src=0)
    if rank < 2:
        same(x, [1.0])


def immediate_messages(rank, size):
    x = torch.zeros(1)
    request = None
    if rank == 0:
        x += 1
        request = dist.isend(tensor=x, dst=1)
    elif rank == 1:
        request = dist.irecv(tensor=x, src=0)
    if request:
        request.wait()
        same(x, [1.0])


def all_reduce_of_a_group(rank, size):
    group = dist.new_group([0, 1])
    if rank < 2:
        x = torch.ones(1)
        dist.all_reduce(x, op=dist.ReduceOp.SUM, group=group)
        same(x, [2.0])


def ring_all_reduce(rank, size):
    """The tutorial's own, of additions in a ring."""
    send = torch.full((1000,), float(rank + 1))
    sending, receiving, total = send.clone(), torch.zeros_like(send), send.clone()
    left, right = (rank - 1 + size) % size, (rank + 1) % size
    for i in range(size - 1):
        if i % 2 == 0:
            request = dist.isend(sending, right)
            dist.recv(receiving, left)
            total += receiving
        else:
            request = dist.isend(receiving, right)
            dist.recv(sending, left)
            total += sending
        request.wait()
    same(total, torch.full((1000,), size * (size + 1) / 2))


def samples(rank, size):
    """This rank's part of some points and of a linear function of them."""
    points = torch.randn(96, 8, generator=torch.Generator().manual_seed(1))
    values = points @ torch.arange(8.0).reshape(8, 1) + 1
    return points[rank::size], values[rank::size]


def network():
    torch.manual_seed(1234)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


def average_gradients(model, size):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= size


def train(model, rank, size, after_backward):
    points, values = samples(rank, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(points), values)
        losses.append(loss.item())
        loss.backward()
        after_backward()
        optimizer.step()
    assert losses[-1] < losses[0] / 2, losses
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def same_on_all(weights, size):
    gathered = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(gathered, weights)
    for other in gathered:
        same(other, weights)


def synchronous_sgd(rank, size):
    model = network()
    same_on_all(train(model, rank, size, lambda: average_gradients(model, size)), size)


# ---- getting started with DDP ----


def ddp_trains_as_one_process_does(rank, size):
    weights = train(DistributedDataParallel(network()), rank, size, lambda: None)
    same_on_all(weights, size)
    alone = train(network(), 0, 1, lambda: None)
    torch.testing.assert_close(weights, alone, rtol=1e-3, atol=1e-4)


def checkpoint(rank, size):
    path = os.path.join(sys.argv[1], "model.checkpoint")
    model = DistributedDataParallel(network())
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model.load_state_dict(torch.load(path, weights_only=True))
    dist.barrier()
    if rank == 0:
        os.remove(path)
    same(model.module[0].weight.detach(), network()[0].weight.detach())


# ---- ways to meet ----


def meet(rank, size, init_method):
    dist.destroy_process_group()
    dist.init_process_group("tutti", init_method=init_method, rank=rank, world_size=size)
    x = torch.ones(1)
    dist.all_reduce(x)
    same(x, [float(size)])


def rendezvous():
    return os.path.join(os.path.abspath(sys.argv[1]), "rendezvous")


def meet_in_a_file(rank, size):
    meet(rank, size, f"file://{rendezvous()}")


def meet_at_an_address(rank, size):
    meet(rank, size, f"tcp://127.0.0.1:{int(os.environ['MASTER_PORT']) + 1}")


PARTS = (
    blocking_messages, immediate_messages, all_reduce_of_a_group, ring_all_reduce, synchronous_sgd,
    ddp_trains_as_one_process_does, checkpoint, meet_in_a_file, meet_at_an_address,
)  # fmt: skip


def rank_of(rank, size):
    torch.set_num_threads(1)
    dist.init_process_group("tutti", rank=rank, world_size=size)
    run_parts(PARTS)
    dist.destroy_process_group()


def free_ports():
    """The first of two free ports in a row."""
    import socket

    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            try:
                second.bind(("127.0.0.1", first.getsockname()[1] + 1))
            except (OSError, OverflowError):
                continue
            return first.getsockname()[1]


def main():
    size = int(sys.argv[2]) if sys.argv[2:] else 3
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_ports()))
    # torch removes it with the last of its stores, and not at all if two of them end at the same moment
    with contextlib.suppress(FileNotFoundError):
        os.remove(rendezvous())
    mp.spawn(rank_of, args=(size,), nprocs=size)


if __name__ == "__main__":
    main()
