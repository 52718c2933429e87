# SPDX-License-Identifier: Apache-2.0
"""How the ranks of bench/python_bench measure: all contenders run in the same two processes, in turns.

A sample is the mean time of a call on the slowest rank, as in measure.h. In a round each contender gives one
sample, and another one begins in the next round, so that a ratio compares what ran within milliseconds, near or
far. Above 512 bytes each rank writes its array before each call, which is not timed.
"""
import itertools
import json
import time

SAMPLE_S = 0.004
LEAST_ROUNDS = 11
MOST_CALLS = 1 << 16
TOUCHED_ABOVE = 512  # bytes


class Contender:
    """Calls `call(*arguments)`; `touch()` writes the array."""

    def __init__(self, name, call, *arguments, touch=None):
        self.name, self.call, self.arguments, self.touch = name, call, arguments, touch

    def seconds(self, calls):
        call, arguments, touch = self.call, self.arguments, self.touch
        if touch is None:
            start = time.perf_counter()
            for _ in itertools.repeat(None, calls):
                call(*arguments)
            return time.perf_counter() - start
        total = 0.0
        for _ in itertools.repeat(None, calls):
            touch()
            start = time.perf_counter()
            call(*arguments)
            total += time.perf_counter() - start
        return total


class CLoop(Contender):
    """The loop of c_loop.c, by ctypes; it takes the time itself."""

    def seconds(self, calls):
        if self.touch is None:
            return self.loop(calls)
        total = 0.0
        for _ in itertools.repeat(None, calls):
            self.touch()
            total += self.loop(1)
        return total

    def loop(self, calls):
        taken = self.call(*self.arguments, calls)
        if taken < 0:
            raise RuntimeError('a call in the loop of C failed')
        return taken


def calibrated(contender, most):
    """The calls of a sample: twice as often until they take long enough."""
    calls = 1
    while calls < MOST_CALLS and most(contender.seconds(calls)) < SAMPLE_S:
        calls *= 2
    return calls


def measure(contenders, most, seconds):
    """Rounds of samples, in microseconds, for so long. most(value): the largest of all ranks' values."""
    calls = [calibrated(contender, most) for contender in contenders]
    rounds, began = [], time.perf_counter()
    while len(rounds) < LEAST_ROUNDS or most(time.perf_counter() - began) < seconds:
        samples = [0.0] * len(contenders)
        for place in range(len(contenders)):
            i = (place + len(rounds)) % len(contenders)
            samples[i] = most(contenders[i].seconds(calls[i])) / calls[i] * 1e6
        rounds.append(samples)
    return rounds


def tell(rank, subject, size, contenders, rounds):
    """A line for bench/python_bench."""
    if rank == 0:
        print(json.dumps({'subject': subject, 'bytes': size, 'names': [one.name for one in contenders],
                          'rounds': rounds}), flush=True)
