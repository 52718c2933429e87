# SPDX-License-Identifier: Apache-2.0
"""The errors of tutti: one class for each status, all of them `tutti.Error`."""

from __future__ import annotations

import builtins
from collections import deque
from typing import Any, Deque, Dict, Optional, Tuple, Type


class Error(RuntimeError):
    """A call of tutti failed. `str()` says what, where, why, and what to do.

    status     the number of the C API; `name` is what it is called there ("TUTTI_ERR_TIMEOUT")
    rank       the caller's rank, or None
    peer       the rank that the error is about, or None
    operation  what failed ("all_reduce"), or None
    sequence   the number of the collective in its group, or None
    errno      of the system call that failed, or None
    missing    after a timeout: the ranks that this one waited for
    """

    name = "TUTTI_ERR_?"
    status: int
    rank: Optional[int]
    peer: Optional[int]
    operation: Optional[str]
    sequence: Optional[int]
    errno: Any
    missing: Tuple[int, ...]

    def __init__(
        self,
        words: str,
        *,
        status: Optional[int] = None,
        rank: Optional[int] = None,
        peer: Optional[int] = None,
        operation: Optional[str] = None,
        sequence: Optional[int] = None,
        errno: Optional[int] = None,
        missing: Tuple[int, ...] = (),
    ) -> None:
        super().__init__(words)
        if status is not None:
            self.status = status
        self.rank = rank
        self.peer = peer
        self.operation = operation
        self.sequence = sequence
        self.errno = errno
        self.missing = missing

    def __str__(self) -> str:
        return str(self.args[0])  # OSError, a base of some, would make its own of errno

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.args[0], dict(self.__dict__), self.errno)


def _rebuild(cls: Type[Error], words: str, state: Dict[str, Any], errno: Optional[int]) -> Error:
    error = cls(words)
    error.__dict__.update(state)
    error.errno = errno
    return error


class InvalidArgumentError(Error, ValueError):
    """An argument is not valid (TUTTI_ERR_INVALID_ARGUMENT)."""


class ArrayError(InvalidArgumentError, TypeError):
    """An object is no array that tutti can use. The words have what each protocol answered."""


class UnsupportedError(Error, NotImplementedError):
    """What was asked for is not supported (TUTTI_ERR_UNSUPPORTED)."""


class MismatchError(Error):
    """Members called different things (TUTTI_ERR_MISMATCH)."""


class TimeoutError(Error, builtins.TimeoutError):
    """The operation reached its deadline, and its group has failed (TUTTI_ERR_TIMEOUT)."""


class PeerLostError(Error, ConnectionError):
    """A member was lost (TUTTI_ERR_PEER_LOST)."""


class AbortedError(Error):
    """The group was aborted, or the operation was cancelled (TUTTI_ERR_ABORTED)."""


class NotReadyError(Error, builtins.TimeoutError):
    """A wait reached its own timeout; the operation goes on (TUTTI_ERR_NOT_READY)."""


class BusyError(Error):
    """Something is in use (TUTTI_ERR_BUSY)."""


class StaleError(Error):
    """Something belongs to an earlier job (TUTTI_ERR_STALE)."""


class ForkedError(Error):
    """A forked child used what belongs to its parent (TUTTI_ERR_FORKED)."""


class CapturedError(Error):
    """The call was captured into a graph (TUTTI_ERR_CAPTURED)."""


class PluginError(Error):
    """A backend or another plugin cannot be used (TUTTI_ERR_PLUGIN)."""


class StoreError(Error, ConnectionError):
    """The store is gone, or refused (TUTTI_ERR_STORE)."""


class DeniedError(Error, PermissionError):
    """A file or a peer is not trusted (TUTTI_ERR_DENIED)."""


class NoMemoryError(Error, MemoryError):
    """There is no memory (TUTTI_ERR_NO_MEMORY)."""


class SystemCallError(Error, OSError):
    """A system call failed (TUTTI_ERR_SYSTEM); `errno` says how."""


class NewerCallerError(Error):
    """This package is newer than its library (TUTTI_ERR_NEWER_CALLER)."""


class InternalError(Error):
    """A defect of tutti (TUTTI_ERR_INTERNAL)."""


class CorruptError(Error):
    """Data was altered on its way (TUTTI_ERR_CORRUPT)."""


# Those of <tutti/status.h>, which are -1, -2, … in this order; tests/python compares them.
_CLASSES: Tuple[Tuple[str, Type[Error]], ...] = (
    ("INVALID_ARGUMENT", InvalidArgumentError),
    ("UNSUPPORTED", UnsupportedError),
    ("MISMATCH", MismatchError),
    ("TIMEOUT", TimeoutError),
    ("PEER_LOST", PeerLostError),
    ("ABORTED", AbortedError),
    ("NOT_READY", NotReadyError),
    ("BUSY", BusyError),
    ("STALE", StaleError),
    ("FORKED", ForkedError),
    ("CAPTURED", CapturedError),
    ("PLUGIN", PluginError),
    ("STORE", StoreError),
    ("DENIED", DeniedError),
    ("NO_MEMORY", NoMemoryError),
    ("SYSTEM", SystemCallError),
    ("NEWER_CALLER", NewerCallerError),
    ("INTERNAL", InternalError),
    ("CORRUPT", CorruptError),
)

BY_STATUS: Dict[int, Type[Error]] = {}
for _name, _class in _CLASSES:
    _class.name = "TUTTI_ERR_" + _name
    _class.status = -1 - len(BY_STATUS)
    BY_STATUS[_class.status] = _class


_told: Deque[Tuple[int, str]] = deque([(0, "")], maxlen=64)  # the last errors of ranks, numbered


def last_told() -> int:
    """The number of the last error that a call of a rank has raised."""
    return _told[-1][0]


def was_told(words: str, since: int) -> bool:
    """Whether a call has raised an error with these words after the one with the number `since`."""
    return any(number > since and told == words for number, told in list(_told))


def of_status(
    status: int,
    words: str,
    errno: int,
    rank: int,
    peer: int,
    sequence: int,
    operation: str,
    missing: Tuple[int, ...],
) -> Error:
    """The error of a status, with the fields of tutti_error_info. Called by the compiled
    functions."""
    if rank >= 0:
        _told.append((last_told() + 1, words))
    return BY_STATUS.get(status, Error)(
        words,
        status=status,
        rank=rank if rank >= 0 else None,
        peer=peer if peer >= 0 else None,
        operation=operation or None,
        sequence=sequence or None,
        errno=errno or None,
        missing=missing,
    )


def of_array(array: object, attempts: str, words: str) -> ArrayError:
    """The error of an object that no protocol describes, or in these words where one does. Called by
    the compiled functions."""
    kind = type(array)
    if array is None:
        words = "the array is None"
    return ArrayError(
        words
        or f"an object of type {kind.__module__}.{kind.__qualname__} cannot be used as an array: "
        f"tried {attempts}"
    )
