# SPDX-License-Identifier: Apache-2.0
"""Calls of C that may wait for other ranks and that nothing interrupts.

Python handles signals on its main thread only, between its own instructions. So there such a call
runs on a thread of its own, and Ctrl-C ends the wait for it at once. The call goes on, and what it
makes is undone.
"""

from __future__ import annotations

import _thread
import sys
import threading
from typing import Any, Callable, List, Optional, Tuple


def _must_stay() -> bool:
    """Other threads have no signals to wait for; and an MPI that the program has started may refuse
    them."""
    return threading.current_thread() is not threading.main_thread() or "mpi4py.MPI" in sys.modules


def interruptible(call: Callable[[], Any], undo: Optional[Callable[[Any], Any]] = None) -> Any:
    """Returns what `call` returns. If the wait is interrupted, `undo` later gets what the call has
    made."""
    if _must_stay():
        return call()
    outcome: List[Tuple[Any, Optional[BaseException]]] = []
    abandoned = threading.Event()
    ended = _thread.allocate_lock()
    lock = _thread.allocate_lock()
    ended.acquire()

    def body() -> None:
        made, error = None, None
        try:
            made = call()
        except BaseException as raised:  # it belongs to the thread that waits
            error = raised
        with lock:
            outcome.append((made, error))
            late = abandoned.is_set()
        ended.release()
        if late and error is None and made and undo:
            undo(made)

    _thread.start_new_thread(body, ())
    try:
        ended.acquire()
    except BaseException:
        with lock:
            abandoned.set()
            complete = bool(outcome)
        if complete and outcome[0][1] is None and outcome[0][0] and undo:
            undo(outcome[0][0])
        raise
    made, error = outcome[0]
    if error is not None:
        raise error
    return made
