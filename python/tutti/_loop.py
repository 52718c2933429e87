# SPDX-License-Identifier: Apache-2.0
"""Works in asyncio, without a thread.

tutti makes one descriptor readable when a watched work completes. Each event loop that waits for a
work has it among its readers. The loop that wakes empties it and looks at the works of all loops,
since the others may then find it empty.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, List, NamedTuple, Set

from ._native import check, ffi, lib

if TYPE_CHECKING:
    from ._work import Work


class _Waiting(NamedTuple):
    work: "Work"
    future: "asyncio.Future[None]"
    loop: asyncio.AbstractEventLoop


_lock = threading.Lock()
_waiting: List[_Waiting] = []
_readers: Set[asyncio.AbstractEventLoop] = set()


def _descriptor() -> int:
    ret_fd = ffi.new("int *")
    check(lib.tutti_context_fd(ffi.NULL, ret_fd))
    return int(ret_fd[0])


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _stop_reading(loop: asyncio.AbstractEventLoop) -> None:
    with _lock:
        if loop not in _readers or any(waiting.loop is loop for waiting in _waiting):
            return
        _readers.discard(loop)
    loop.remove_reader(_descriptor())


def _take_complete() -> List[_Waiting]:
    with _lock:
        complete = [
            waiting
            for waiting in _waiting
            if waiting.future.done() or waiting.loop.is_closed() or waiting.work.done()
        ]
        for waiting in complete:
            _waiting.remove(waiting)
        for loop in [loop for loop in _readers if loop.is_closed()]:
            _readers.discard(loop)
    return complete


def _on_ready() -> None:
    lib.tutti_dispatch(ffi.NULL)
    here = asyncio.get_running_loop()
    for waiting in _take_complete():
        if waiting.loop is here:
            _finish(waiting.future)
        elif not waiting.loop.is_closed():
            waiting.loop.call_soon_threadsafe(_finish, waiting.future)
            waiting.loop.call_soon_threadsafe(_stop_reading, waiting.loop)
    _stop_reading(here)


def completion(work: "Work") -> "asyncio.Future[Any]":
    """A future of the running loop that ends when the work is complete."""
    loop = asyncio.get_running_loop()
    waiting = _Waiting(work, loop.create_future(), loop)
    with _lock:
        _waiting.append(waiting)
        starts = loop not in _readers
        _readers.add(loop)
    try:
        if starts:
            loop.add_reader(_descriptor(), _on_ready)
        check(lib.tutti_work_watch(work._pointer()))
    except BaseException:
        with _lock:
            _waiting.remove(waiting)
        _stop_reading(loop)
        raise
    if work.done():  # before it was watched
        loop.call_soon(_on_ready)
    return waiting.future
