# SPDX-License-Identifier: Apache-2.0
"""The samples of all rounds, and what is computed from them.

The samples of a cell, a program and a regime of the link are put together over the rounds; the
figure is their median. A program that failed in a cell has no figure there, since what made it fail
may have made it slow before. Ratios are the best peer's median divided by tutti's, above 1 if tutti
is faster.
"""
import os
import re
from collections import Counter, namedtuple

# The bytes of a barrier are 0.
Cell = namedtuple('Cell', 'backend ranks operation bytes')
Figure = namedtuple('Figure', 'median low high count')
# Of a cell and regime: `peer` is the best one. `close`: the middle halves of the samples overlap. `certain`: there
# are enough samples of tutti and of each peer.
Ratio = namedtuple('Ratio', 'ratio cell regime tutti peer best close certain')

ENOUGH = 5  # samples
SHORTEST = 0.001  # microseconds: what the programs print
PATIENCE = 3  # failures of a program that has no success, so that one that hangs does not take hours

NEAR, FAR, UNPROBED = 'near', 'far', '-'


def regimes_of(ranks):
    """The link is probed between two ranks, and on a host of two CPUs (may_bind() in measure.h)."""
    two_cpus = os.sysconf('SC_NPROCESSORS_ONLN') == 2 and {0, 1} <= os.sched_getaffinity(0)
    return (NEAR, FAR) if ranks == 2 or two_cpus else (UNPROBED,)


def quantile(values, part):
    """By the nearest rank, of sorted values."""
    return values[min(int(part * len(values)), len(values) - 1)]


class Figures:
    def __init__(self):
        self.samples = {}  # (cell, program, regime): microseconds
        self.links = {}  # (program-independent) regime: nanoseconds of a hand-over
        self.modes = {}  # cell: hot or touched
        self.failures = {}  # (cell, program): words
        self.not_offered = set()  # (operation, program)
        self.ran, self.failed = Counter(), Counter()  # (program, backend, ranks)

    def add(self, cell, program, output):
        """The lines of measure.h, which `tutti run` puts the rank before."""
        self.ran[program, cell.backend, cell.ranks] += 1
        for line in output.splitlines():
            fields = re.sub(r'^\[\d+\] ', '', line).split('\t')
            if len(fields) != 10:
                continue
            mode, regime = fields[4], fields[5]
            self.modes[cell] = mode
            for pair in fields[9].split():
                us, ns = map(float, pair.split(':'))
                self.samples.setdefault((cell, program, regime), []).append(max(us, SHORTEST))
                if ns:
                    self.links.setdefault(regime, []).append(ns)

    def fail(self, cell, program, words):
        self.failures[cell, program] = words
        self.failed[program, cell.backend, cell.ranks] += 1

    def works(self, cell, program):
        """False: over this backend and with so many ranks it has failed each time."""
        table = program, cell.backend, cell.ranks
        return bool(self.ran[table]) or self.failed[table] < PATIENCE

    def takes_part(self, cell, program):
        return (cell, program) not in self.failures and self.works(cell, program) and \
            (cell.operation, program) not in self.not_offered

    def figure(self, cell, program, regime):
        """None: there is no sample that counts."""
        values = sorted(self.samples.get((cell, program, regime), ()))
        if not values or (cell, program) in self.failures:
            return None
        return Figure(quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75),
                      len(values))

    def ratio(self, cell, regime, peers):
        """To the best of the peers; None where tutti or every peer has no figure."""
        own = self.figure(cell, 'tutti', regime)
        taking_part = [peer for peer in peers if self.takes_part(cell, peer)]
        others = [(figure, peer) for peer in taking_part
                  if (figure := self.figure(cell, peer, regime))]
        if not own or not others:
            return None
        best, peer = min(others)
        close = own.low <= best.high and best.low <= own.high
        certain = len(others) == len(taking_part) and \
            min(own.count, *(figure.count for figure, _ in others)) >= ENOUGH
        return Ratio(best.median / own.median, cell, regime, own, peer, best, close, certain)

    def seen(self, regime, backend, ranks):
        return any(key[2] == regime and key[0].backend == backend and key[0].ranks == ranks
                   for key in self.samples)

    def link(self, regime):
        """The middle half of the hand-overs of a regime, in nanoseconds; None if it was not seen."""
        values = sorted(self.links.get(regime, ()))
        return (quantile(values, 0.25), quantile(values, 0.75)) if values else None
