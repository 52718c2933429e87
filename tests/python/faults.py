#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank to which something happens: faults.py WHAT. Started by test_faults.py."""

import os
import signal
import sys
import threading
import time

import numpy as np

import tutti


def until_it_fails(world):
    while True:
        world.barrier()


def fails_with(error_class, call, *arguments):
    try:
        call(*arguments)
    except error_class as error:
        return error
    raise AssertionError(f"no {error_class.__name__}")


def killed(world):
    """The survivors name the rank."""
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    error = fails_with(tutti.PeerLostError, until_it_fails, world)
    print(f"rank {world.rank}: lost rank {error.peer}, {error.operation}", flush=True)


def left_open(world):
    """A rank ends with its group open, an operation and a thread under way."""
    if world.rank == 1:
        threading.Thread(target=world.recv, args=(np.empty(1), 0), daemon=True).start()
        work = world.recv_async(np.empty(1), 0, tag=2)
        time.sleep(0.1)
        print(f"rank 1: leaves with {work}", flush=True)
        sys.exit(0)
    error = fails_with(tutti.PeerLostError, until_it_fails, world)
    print(f"rank {world.rank}: {error}", flush=True)


def handled(world):
    """The body handles the error that ends its group."""
    with world:
        fails_with(tutti.MismatchError, world.all_reduce, np.ones(1 + world.rank))
    print(f"rank {world.rank}: ends well", flush=True)


def unseen(world):
    """Nobody waits for the work that ends its group."""
    try:
        with world:
            world.all_reduce_async(np.ones(1 + world.rank))
    except tutti.MismatchError as error:
        print(f"rank {world.rank}: {error}", flush=True)


def exits(world):
    """Ranks leave by sys.exit(0) inside their `with` statement, rank 1 later."""
    with world:
        x = world.all_reduce(np.full(1, world.rank))
        print(f"rank {world.rank}: received {x[0]}", flush=True)
        time.sleep(0.2 * world.rank)
        sys.exit(0)


def forked(world):
    """A child gets errors, and ends; its parent goes on."""
    x = np.ones(2)
    work = world.recv_async(np.empty(1), world.rank, tag=1)
    pid = os.fork()
    if pid == 0:
        fails_with(tutti.ForkedError, world.all_reduce, x)
        fails_with(tutti.ForkedError, work.wait)
        fails_with(tutti.ForkedError, world.send, x, 0)
        del work
        sys.exit(7)  # by the interpreter's own end
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    world.send(np.ones(1), world.rank, tag=1)
    work.wait()
    assert world.all_reduce(x).tolist() == [world.size] * 2
    print(f"rank {world.rank}: goes on", flush=True)
    world.destroy()


def interrupted(world):
    """Ctrl-C leaves a wait for others; the group can be aborted then."""
    waits = {
        "all_reduce": lambda group: group.all_reduce(np.ones(1)),
        "recv": lambda group: group.recv(np.empty(1), 1),
        "wait": lambda group: group.barrier_async().wait(),
        "objects": lambda group: group.broadcast_object(None, root=1),
        "split": lambda group: group.split(0),
        "batch": lambda group: in_a_batch(group),
    }
    pids = world.all_gather_object(os.getpid())
    for name, wait in waits.items():
        group = world.new(name=name)
        if world.rank == 0:
            fails_with(KeyboardInterrupt, wait, group)
            group.abort(f"{name} was interrupted")
            print(f"rank 0: {name} was interrupted", flush=True)
        else:
            time.sleep(0.2)
            os.kill(pids[0], signal.SIGINT)
            fails_with(tutti.AbortedError, receive_forever, group)
        fails_with(tutti.AbortedError, group.destroy)
    world.destroy()


def in_a_batch(group):
    with group.batch():
        group.barrier()


def receive_forever(group):
    group.recv(np.empty(1), 0, tag=99)


if __name__ == "__main__":
    globals()[sys.argv[1]](tutti.init(timeout=60))
