# SPDX-License-Identifier: Apache-2.0
"""Functions that test_spawn.py runs as ranks."""

import os
import signal
import time

import tutti


def total(offset):
    with tutti.init() as world:
        x = bytearray([world.rank + offset])
        world.all_reduce(x)
        return world.rank, world.size, x[0], os.environ.get("OF_THE_TEST")


def raises(rank):
    with tutti.init() as world:
        if world.rank == rank:
            raise LookupError(f"nothing for rank {world.rank}")
        world.recv(bytearray(1))


def is_killed(rank):
    if int(os.environ["RANK"]) == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def is_ended_by(number):
    os.kill(os.getpid(), number)
    time.sleep(600)


def exits():
    raise SystemExit(3)
