# SPDX-License-Identifier: Apache-2.0
"""Completes futures of torch when works of tutti end.

torch runs the callbacks of a future where the future is completed. They are the program's, and may
wait for other futures, as those of PowerSGD do. So each future is completed on a thread that may be
blocked: one that is idle, or else a new one. Which work has ended is known from the descriptor of
tutti's context, in an event loop of its own (tutti._loop). No thread of tutti waits for the GIL.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any, Callable, Optional

from tutti import Work, _loop

_Function = Callable[[], Any]


class _Threads:
    """Runs functions on daemon threads, each on one that is idle, or else on a new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle = 0
        self._queue: "queue.SimpleQueue[_Function]" = queue.SimpleQueue()

    def run(self, function: _Function) -> None:
        with self._lock:
            starts = self._idle == 0
            self._idle -= not starts
        self._queue.put(function)
        if starts:
            threading.Thread(target=self._serve, name="tutti futures", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._queue.get()()
            with self._lock:
                self._idle += 1


_lock = threading.Lock()
_threads = _Threads()
_watching: Optional[asyncio.AbstractEventLoop] = None


def _watcher() -> asyncio.AbstractEventLoop:
    global _watching
    with _lock:
        if _watching is None:
            _watching = asyncio.new_event_loop()
            threading.Thread(target=_watching.run_forever, name="tutti works", daemon=True).start()
        return _watching


async def _watch(work: Work, function: _Function) -> None:
    try:
        await _loop.completion(work)
    finally:
        _threads.run(function)  # which waits, and has the error


def when_complete(work: Work, function: _Function) -> None:
    """Calls the function on some thread when the work is complete."""
    asyncio.run_coroutine_threadsafe(_watch(work, function), _watcher())


def run(function: _Function) -> None:
    """Calls the function on a thread where it may wait."""
    _threads.run(function)
