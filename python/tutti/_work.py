# SPDX-License-Identifier: Apache-2.0
"""The handle of an operation that is under way."""

from __future__ import annotations

import time
from typing import Any, Callable, Generator, Optional, Sequence

from . import _native
from ._errors import Error, NotReadyError
from ._native import Timeout, check, ffi, lib, milliseconds

_SLICE_MS = 100  # how long a wait takes no notice of Ctrl-C


class Work:
    """An operation that was started by a method that ends in `_async`.

    Keeps its arrays until the operation no longer needs them, also if the work is dropped before.
    Any thread may use it. In asyncio, `await work` waits for it and gives its result.
    """

    __slots__ = ("_call", "_finish", "_operation", "_result", "__weakref__")

    def __init__(self, call: Any, operation: str, finish: Optional[Callable[[], Any]]) -> None:
        self._call = call
        self._operation = operation
        self._finish = finish  # makes the result once the operation is complete; None: it was made
        self._result: Any = None

    def _convert(self, function: Callable[[Any], Any]) -> None:
        """Makes another result of it."""
        finish = self._finish
        assert finish is not None
        self._finish = lambda: function(finish())

    def _pointer(self) -> Any:
        return ffi.cast("tutti_work *", _native.work(self._call))

    def wait(self, timeout: Timeout = None) -> Any:
        """Waits for the operation and returns its result; raises its error. After `timeout` seconds
        raises tutti.NotReadyError, and the operation goes on."""
        if not _native.wait(self._call, milliseconds(timeout)):
            raise NotReadyError(f"{self._operation} is not complete after {timeout} s; it goes on")
        finish = self._finish
        if finish is not None:
            self._result = finish()
            self._finish = None
        return self._result

    def done(self) -> bool:
        """Whether the operation is complete, also if it failed. Makes progress."""
        ret_done = ffi.new("int32_t *")
        status = lib.tutti_work_test(self._pointer(), ret_done)
        if not ret_done[0]:
            check(status)
        return bool(ret_done[0])

    @property
    def result(self) -> Any:
        """The result of an operation that is complete; raises its error, or tutti.NotReadyError."""
        if not self.done():
            raise NotReadyError(f"{self._operation} is not complete")
        return self.wait()

    @property
    def error(self) -> Optional[Error]:
        """The error of an operation that failed; None if it succeeded or is not complete."""
        if self.done():
            try:
                _native.wait(self._call, 0)
            except Error as error:
                return error
        return None

    def _info(self) -> Any:
        info = ffi.new("tutti_work_info *", {"struct_size": ffi.sizeof("tutti_work_info")})
        check(lib.tutti_work_result(self._pointer(), info))
        return info

    @property
    def source(self) -> Optional[int]:
        """The rank that a received message came from; None for anything else."""
        source: int = self._info().source
        return source if source >= 0 else None

    @property
    def bytes(self) -> int:
        """The size of the message, or of a collective's array."""
        return int(self._info().bytes)

    @property
    def sequence(self) -> Optional[int]:
        """The number of a collective in its group."""
        return int(self._info().sequence) or None

    def cancel(self) -> bool:
        """Withdraws a receive that no message has matched, or a long send that waits for its
        receive. Whether it did; the work then ends with tutti.AbortedError. Collectives cannot be
        withdrawn."""
        status = lib.tutti_work_cancel(self._pointer())
        if status == lib.TUTTI_ERR_BUSY:
            return False
        check(status)
        return True

    def __await__(self) -> Generator[Any, None, Any]:
        from . import _loop  # asyncio is a third of what `import tutti` would take

        if not self.done():
            yield from _loop.completion(self).__await__()
        return self.wait()

    def __repr__(self) -> str:
        state = "complete" if self.done() else "under way"
        return f"<tutti.Work {self._operation}, {state}>"


def wait_all(works: Sequence[Work], timeout: Timeout = None) -> None:
    """Waits for all works, for `timeout` seconds together. Raises the first error in their
    order."""
    until = None if timeout is None else time.monotonic() + milliseconds(timeout) / 1000
    for work in works:
        if until is None:
            work.wait()
        elif not work.done():
            work.wait(max(0.001, until - time.monotonic()))
        else:
            work.wait()


def wait_any(works: Sequence[Work], timeout: Timeout = None) -> int:
    """Waits for one of the works and returns its index; its own wait() gives result or error.
    Raises tutti.NotReadyError after `timeout` seconds."""
    if not works:
        raise ValueError("wait_any: there are no works")
    pointers = ffi.new("tutti_work *[]", [work._pointer() for work in works])
    ret_index = ffi.new("int32_t *", -1)
    left = milliseconds(timeout)
    while True:
        slice_ms = min(left, _SLICE_MS) if timeout is not None else _SLICE_MS
        status = lib.tutti_work_wait_any(pointers, len(works), slice_ms, ret_index)
        if ret_index[0] >= 0:
            return int(ret_index[0])
        if status != lib.TUTTI_ERR_NOT_READY:
            check(status)
        left -= slice_ms
        if timeout is not None and left <= 0:
            raise NotReadyError(f"none of {len(works)} works is complete after {timeout} s")
