# SPDX-License-Identifier: Apache-2.0
"""Objects of Python as messages and collectives: their bytes, after their lengths.

By default objects are pickled. Unpickling runs what the sender of the bytes says: use it among
ranks that trust each other, as members of one job do, or give dumps= and loads= of a format that
holds data only (json).
"""

from __future__ import annotations

import pickle
from typing import Any, Callable, List, Optional, Sequence, Tuple

from ._errors import InvalidArgumentError, MismatchError
from ._messages import ANY_SOURCE
from ._native import Timeout

Dumps = Callable[[Any], bytes]
Loads = Callable[[bytes], Any]

_LENGTH_BYTES = 8


def _length(data: Sequence[Any]) -> bytearray:
    return bytearray(len(data).to_bytes(_LENGTH_BYTES, "little"))


def _lengths(data: Any) -> List[int]:
    whole = bytes(data)
    return [
        int.from_bytes(whole[at : at + _LENGTH_BYTES], "little")
        for at in range(0, len(whole), _LENGTH_BYTES)
    ]


def _check(lengths: Sequence[int], max_bytes: Optional[int], what: str) -> None:
    """All members see the same lengths where they all receive, so all raise, or none."""
    if max_bytes is not None and max(lengths, default=0) > max_bytes:
        raise InvalidArgumentError(
            f"{what}: an object has {max(lengths)} bytes, and max_bytes is {max_bytes}"
        )


def _split(data: Any, lengths: Sequence[int], loads: Loads) -> List[Any]:
    objects, at = [], 0
    for length in lengths:
        objects.append(loads(bytes(data[at : at + length])))
        at += length
    return objects


class Objects:
    """What a Group does with objects. All members pass matching dumps, loads and max_bytes."""

    rank: int
    size: int
    broadcast: Any
    all_gather: Any
    gather: Any
    scatter: Any
    send: Any
    recv: Any

    def _all_lengths(
        self, data: bytearray, max_bytes: Optional[int], timeout: Timeout, what: str
    ) -> List[int]:
        lengths = _lengths(self.all_gather(_length(data), timeout=timeout))
        _check(lengths, max_bytes, what)
        return lengths

    def all_gather_object(
        self,
        obj: Any,
        *,
        dumps: Dumps = pickle.dumps,
        loads: Loads = pickle.loads,
        max_bytes: Optional[int] = None,
        timeout: Timeout = None,
    ) -> List[Any]:
        """Returns the objects of all members, in the order of their ranks."""
        data = bytearray(dumps(obj))
        lengths = self._all_lengths(data, max_bytes, timeout, "all_gather_object")
        whole = self.all_gather(data, counts=lengths, timeout=timeout)
        return _split(whole, lengths, loads)

    def gather_object(
        self,
        obj: Any,
        root: int = 0,
        *,
        dumps: Dumps = pickle.dumps,
        loads: Loads = pickle.loads,
        max_bytes: Optional[int] = None,
        timeout: Timeout = None,
    ) -> Optional[List[Any]]:
        """On rank `root`, returns the objects of all members; on others None."""
        data = bytearray(dumps(obj))
        lengths = self._all_lengths(data, max_bytes, timeout, "gather_object")
        counts = lengths if root == self.rank else ()
        whole = self.gather(data, root, counts=counts, timeout=timeout)
        return _split(whole, lengths, loads) if root == self.rank else None

    def broadcast_object(
        self,
        obj: Any = None,
        root: int = 0,
        *,
        dumps: Dumps = pickle.dumps,
        loads: Loads = pickle.loads,
        max_bytes: Optional[int] = None,
        timeout: Timeout = None,
    ) -> Any:
        """Returns the object of rank `root` on every member."""
        data = bytearray(dumps(obj)) if root == self.rank else bytearray()
        length = _lengths(self.broadcast(_length(data), root, timeout))[0]
        _check([length], max_bytes, "broadcast_object")
        if root != self.rank:
            data = bytearray(length)
        self.broadcast(data, root, timeout)
        return obj if root == self.rank else loads(bytes(data))

    def scatter_object(
        self,
        objs: Optional[Sequence[Any]] = None,
        root: int = 0,
        *,
        dumps: Dumps = pickle.dumps,
        loads: Loads = pickle.loads,
        max_bytes: Optional[int] = None,
        timeout: Timeout = None,
    ) -> Any:
        """Rank `root` passes one object for each member; every member returns its own."""
        data: List[bytes] = []
        lengths = bytearray(_LENGTH_BYTES * self.size)
        if root == self.rank:
            if objs is None or len(objs) != self.size:
                raise ValueError(
                    f"scatter_object: the root passes {self.size} objects, one for each rank"
                )
            data = [dumps(obj) for obj in objs]
            lengths = bytearray(b"".join(_length(one) for one in data))
        counts = _lengths(self.broadcast(lengths, root, timeout))
        _check(counts, max_bytes, "scatter_object")
        own = bytearray(counts[self.rank])
        if root == self.rank:
            self.scatter(bytearray(b"".join(data)), root, own, counts=counts, timeout=timeout)
        else:
            self.scatter(None, root, own, counts=(), timeout=timeout)
        return loads(bytes(own))

    def send_object(
        self,
        obj: Any,
        destination: int,
        tag: int = 0,
        *,
        dumps: Dumps = pickle.dumps,
        timeout: Timeout = None,
    ) -> None:
        """Sends an object as two messages of the tag: its length and its bytes."""
        data = bytearray(dumps(obj))
        self.send(_length(data), destination, tag, timeout)
        self.send(data, destination, tag, timeout)

    def recv_object(
        self,
        source: int = ANY_SOURCE,
        tag: int = 0,
        *,
        loads: Loads = pickle.loads,
        max_bytes: Optional[int] = None,
        timeout: Timeout = None,
    ) -> Tuple[Any, int]:
        """Receives an object, and returns it with the rank that sent it."""
        length = bytearray(_LENGTH_BYTES)
        sender = self.recv(length, source, tag, timeout)
        size = _lengths(length)[0]
        if max_bytes is not None and size > max_bytes:
            try:  # a message of another size is dropped
                self.recv(bytearray(), sender, tag, timeout)
            except MismatchError:
                pass
        _check([size], max_bytes, f"recv_object from rank {sender}")
        data = bytearray(size)
        self.recv(data, sender, tag, timeout)
        return loads(bytes(data)), sender
