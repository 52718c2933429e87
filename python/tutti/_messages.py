# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks, and batches of calls."""

from __future__ import annotations

from typing import Any, NamedTuple, Tuple

from . import _arrays
from ._batch import Batch, Plan
from ._native import ASYNC, Operation, Timeout
from ._work import Work

ANY_SOURCE = -1


class Received(NamedTuple):
    """The sender and the size in bytes of a message."""

    source: int
    bytes: int


class Messages:
    """What a Group does between two ranks. Messages with the same source, destination and tag match
    in order."""

    _call: Any

    def send(self, x: Any, destination: int, tag: int = 0, timeout: Timeout = None) -> None:
        """Sends x. Returns when x may be changed: at once up to 64 KiB, else when it is
        received, or over shm before that."""
        self._call(Operation.SEND, x, None, None, "sum", destination, tag, timeout)

    def send_async(self, x: Any, destination: int, tag: int = 0, timeout: Timeout = None) -> Work:
        work: Work = self._call(
            Operation.SEND, x, None, None, "sum", destination, tag, timeout, ASYNC
        )
        return work

    def recv(self, x: Any, source: int = ANY_SOURCE, tag: int = 0, timeout: Timeout = None) -> int:
        """Receives a message of exactly the size of x into x, and returns the rank that sent it. In
        a batch it returns an object that has `source` and `bytes` when the batch is complete."""
        sender: int = self._call(Operation.RECV, None, x, x, "sum", source, tag, timeout)
        return sender

    def recv_async(
        self, x: Any, source: int = ANY_SOURCE, tag: int = 0, timeout: Timeout = None
    ) -> Work:
        """As recv(); the work's result is x, and it has the `source`."""
        work: Work = self._call(Operation.RECV, None, x, x, "sum", source, tag, timeout, ASYNC)
        return work

    def recv_up_to(
        self, x: Any, source: int = ANY_SOURCE, tag: int = 0, timeout: Timeout = None
    ) -> Received:
        """Receives a message of at most the size of x; the rest of x does not change."""
        got = self._call(Operation.RECV_UP_TO, None, x, x, "sum", source, tag, timeout)
        return Received(*got) if isinstance(got, tuple) else got

    def recv_up_to_async(
        self, x: Any, source: int = ANY_SOURCE, tag: int = 0, timeout: Timeout = None
    ) -> Work:
        """As recv_up_to(); the work has `source` and `bytes`."""
        work: Work = self._call(
            Operation.RECV_UP_TO, None, x, x, "sum", source, tag, timeout, ASYNC
        )
        return work

    def recv_like(
        self, x: Any, source: int = ANY_SOURCE, tag: int = 0, timeout: Timeout = None
    ) -> Tuple[Any, int]:
        """Receives into a new array like x, also of MLX and JAX. Returns the array and the rank
        that sent it."""
        out = _arrays.empty_like(x, _arrays.shape_of(x))
        sender = self.recv(out, source, tag, timeout)
        return _arrays.finished(out, x), sender

    def sendrecv(
        self,
        x: Any,
        destination: int,
        out: Any,
        source: int = ANY_SOURCE,
        send_tag: int = 0,
        recv_tag: int = 0,
        timeout: Timeout = None,
    ) -> int:
        """Sends x and receives into `out` at the same time, without a deadlock. Returns the rank
        that sent."""
        receive = self.recv_async(out, source, recv_tag, timeout)
        send = self.send_async(x, destination, send_tag, timeout)
        receive.wait()
        send.wait()
        sender = receive.source
        assert sender is not None
        return sender

    def batch(self) -> Batch:
        """Calls that start together: `with group.batch(): …`. Calls of this thread on this group
        inside the `with` are only recorded. At its end they start, and it returns when all are
        complete."""
        return Batch(self, 0)

    def batch_async(self) -> Batch:
        """As batch(), without waiting: the `work` of the object that `with … as` gives is that of
        all calls."""
        return Batch(self, ASYNC)

    def plan(self) -> Plan:
        """Calls that are recorded as by batch(), are not made, and run as often as `Plan.run()` is
        called. Arrays in host memory must be contiguous. All are kept until the plan is freed."""
        return Plan(self)
