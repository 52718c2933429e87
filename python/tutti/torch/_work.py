# SPDX-License-Identifier: Apache-2.0
"""Works of tutti as works of torch, in Python; python/torch/work.hh does the same in C++.

The thread that waits drives the operation itself. Only a future needs another one (_futures.py).

torch's holder of a work in Python forwards wait() and get_future(). The other methods serve calls
of the backend itself.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, List, Optional, Sequence

import torch
from torch import distributed as dist

import tutti

from . import _futures
from ._errors import exception_of

_FOREVER = timedelta(0)


class Work(dist.Work):  # type: ignore[misc, unused-ignore]  # torch may be missing
    """An operation, or those of a batch; `outputs` are its result, as lists of tensors."""

    def __init__(self, outputs: Sequence[Sequence[Any]], is_watched: bool) -> None:
        super().__init__()
        self._outputs: List[List[Any]] = [list(tensors) for tensors in outputs]
        self._is_watched = is_watched  # its context's descriptor tells of its end
        self._work: Optional[tutti.Work] = None  # None: in a batch that is open, or done at once
        self._is_done = False
        self._sequence = 0
        self._lock = threading.Lock()
        self._future: Any = None

    def _start(self, work: Optional[tutti.Work], sequence: int) -> None:
        """The operation has started; None: it was done within the call."""
        self._work = work
        self._is_done = work is None
        self._sequence = sequence

    def _add(self, outputs: Sequence[Sequence[Any]]) -> None:
        """A call of the same batch, before _start()."""
        if outputs and not self._outputs:
            self._outputs.append([])
        for tensors in outputs:
            self._outputs[0].extend(tensors)

    def _started(self) -> tutti.Work:
        if self._work is None:
            raise dist.DistBackendError(
                "tutti: this call is one of a batch, which starts when its block of coalesced "
                "calls ends"
            )
        return self._work

    # ---- what torch's holder forwards ----

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        work = self._work
        if work is None:
            return True  # in a batch that is open, the wait for its end is the one that counts
        try:
            work.wait(timeout if timeout > _FOREVER else None)
        except tutti.NotReadyError:
            raise dist.DistBackendError(
                f"tutti: wait({round(timeout.total_seconds() * 1000)} ms): Operation timed out! It "
                "goes on, and may be waited for again"
            ) from None
        except tutti.Error as error:
            raise exception_of(error) from None
        return True

    def get_future(self) -> Any:
        is_completed = self.is_completed()
        with self._lock:
            if self._future is not None:
                return self._future
            # C++ takes an exception for a value, unless a callback has raised it.
            ended: Any = torch.futures.Future()
            self._future = ended.then(self._value)
        if is_completed:
            ended.set_result(None)
        elif self._is_watched:
            _futures.when_complete(self._started(), lambda: ended.set_result(None))
        else:
            _futures.run(lambda: ended.set_result(None))  # _value() waits
        return self._future

    def _value(self, _: Any) -> Any:
        self.wait()
        if len(self._outputs) > 1:
            return self._outputs
        return self._outputs[0] if self._outputs else []

    # ---- what it does not ----

    def is_completed(self) -> bool:
        return self._is_done or self._started().done()

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Optional[Exception]:
        error = None if self._work is None else self._work.error
        return None if error is None else exception_of(error)

    def result(self) -> List[Any]:
        if not self.is_completed():
            raise RuntimeError("tutti: result() of a work that is not complete: call wait() first")
        if len(self._outputs) > 1:
            raise RuntimeError(
                "tutti: this work has a list of lists of tensors: use get_future().value()"
            )
        return self._outputs[0] if self._outputs else []

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        if not self.is_completed():
            raise dist.DistBackendError(
                "tutti: the source of a receive is known when it is complete: call wait() first"
            )
        source = self._work.source if self._work is not None else None
        return -1 if source is None else source

    _source_rank = source_rank

    def _get_sequence_number(self) -> int:
        return self._sequence
