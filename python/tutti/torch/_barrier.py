# SPDX-License-Identifier: Apache-2.0
"""The monitored barrier of torch; python/torch/barrier.hh does the same in C++.

By messages through rank 0, and not by tutti's own: in torch a group goes on after a timeout. Each
barrier has a tag of its own, so that a member who comes late is not taken for one who has come to
the next.
"""

from __future__ import annotations

import time
from typing import Any, List, Optional

import tutti

from ._errors import exception_of

_LEAST_S = 0.001  # takes what has arrived


def _raise(error: tutti.Error, words: str) -> None:
    error.args = (words,)
    raise exception_of(error) from None


def watch(group: Any, timeout: float, tag: int, wait_for_all: bool) -> None:
    """What rank 0 does."""
    end = time.monotonic() + timeout
    missing: List[int] = []
    first: Optional[tutti.Error] = None
    data = bytearray(1)
    ms = round(timeout * 1000)
    if ms == 0 and group.size > 1:
        words = "[Rank 0]: Rank 0 timed out in monitoredBarrier after 0 ms"
        raise exception_of(tutti.TimeoutError(words))
    for rank in range(1, group.size):
        try:
            group.recv(data, rank, tag, timeout=max(end - time.monotonic(), _LEAST_S))
        except tutti.Error as error:
            missing.append(rank)
            first = first or error
            if not wait_for_all:
                break
    if first is not None:
        ranks = ("Ranks " if wait_for_all else "Rank ") + ", ".join(map(str, missing))
        _raise(first, f"[Rank 0]: {ranks} failed to pass monitoredBarrier in {ms} ms: {first}")
    try:
        for rank in range(1, group.size):
            group.send(data, rank, tag, timeout=timeout)
    except tutti.Error as error:
        raise exception_of(error) from None


def come_to(group: Any, timeout: float, tag: int) -> None:
    """What the other ranks do."""
    data = bytearray(1)
    timeout = max(timeout, _LEAST_S)  # 0 would be the group's
    try:
        group.send(data, 0, tag, timeout=timeout)
        group.recv(data, 0, tag, timeout=timeout)
    except tutti.Error as error:
        _raise(
            error,
            f"Rank {group.rank} successfully reached monitoredBarrier, but received errors while "
            f"waiting for rank 0. Please check rank 0 logs for faulty rank. {error}",
        )
