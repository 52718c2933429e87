# SPDX-License-Identifier: Apache-2.0
"""Batches, whose calls start together, and plans, whose calls run again and again."""

from __future__ import annotations

import sys
import threading
from typing import Any, List, Optional

from . import _native, _ops
from ._errors import Error
from ._native import ASYNC, Operation, check, ffi, lib
from ._work import Work


class Receipt:
    """What a receive in a batch gets; valid when the batch is complete."""

    __slots__ = ("_call",)

    def __init__(self, call: Any) -> None:
        self._call = call

    @property
    def source(self) -> Optional[int]:
        """The rank that sent the message; None before the batch is complete."""
        source: int = _native.received(self._call)[0]
        return source if source >= 0 else None

    @property
    def bytes(self) -> int:
        """The size of the message, of a recv_up_to()."""
        return int(_native.received(self._call)[1])


class _Recording:
    """The calls that this thread makes on the group between begin and end; arrays are kept with
    them."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self._held: List[Any] = []
        self._ops: List[_ops.ReduceOp] = []

    def _record(self, call: Any, operation: Operation, result: Any, op: Any) -> Any:
        self._held.append(call)
        if isinstance(op, _ops.ReduceOp):
            self._ops.append(op)
        return Receipt(call) if operation >= Operation.RECV else result

    def _raise(self) -> None:
        for op in self._ops:
            self._group._raise_of(op)

    def _begin(self) -> None:
        check(lib.tutti_batch_begin(self._group._pointer()))
        self._group._batches[threading.get_ident()] = self

    def _end(self) -> None:
        del self._group._batches[threading.get_ident()]

    def _make_plan(self) -> Any:
        ret_plan = ffi.new("tutti_plan **")
        check(lib.tutti_plan_create(self._group._pointer(), ret_plan))
        return ret_plan[0]

    def _discard(self) -> None:
        """Ends the recording and makes none of its calls: a plan of them is not run."""
        try:
            lib.tutti_plan_free(self._make_plan())
        except Error:
            pass  # a call was refused; the batch is over


class Batch(_Recording):
    """`Group.batch()` and `Group.batch_async()`."""

    def __init__(self, group: Any, flags: int) -> None:
        super().__init__(group)
        self._flags = flags
        self._work: Optional[Work] = None

    @property
    def work(self) -> Work:
        """The work of all calls of a batch_async(), after the `with` statement."""
        if self._work is None:
            raise ValueError("the batch has no work: it has not ended, or is not of batch_async()")
        return self._work

    def __enter__(self) -> "Batch":
        self._begin()
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        self._end()
        if error is not None:
            self._discard()
            return
        call = _native.end_batch(self._group._address, self._held, self._flags)
        if self._flags & ASYNC:
            self._work = Work(call, f"{self._group.name}: batch", self._raise)
        else:
            self._raise()


class Plan(_Recording):
    """`Group.plan()`."""

    def __init__(self, group: Any) -> None:
        super().__init__(group)
        self._plan: Any = None

    def __enter__(self) -> "Plan":
        self._begin()
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        self._end()
        if error is not None:
            self._discard()
        else:
            self._plan = self._make_plan()

    def _run(self, flags: int) -> Any:
        if self._plan is None:
            raise ValueError("the plan has no calls: it was freed, or its `with` has not ended")
        return _native.run_plan(int(ffi.cast("uintptr_t", self._plan)), self._held, flags)

    def run(self) -> None:
        """Makes the calls, and returns when all are complete."""
        self._run(0)
        self._raise()

    def run_async(self) -> Work:
        """Makes the calls, and returns one work for all."""
        return Work(self._run(ASYNC), f"{self._group.name}: plan", self._raise)

    def free(self) -> None:
        """Frees the plan; works of it that are not complete go on."""
        plan, self._plan = self._plan, None
        if plan is not None:
            lib.tutti_plan_free(plan)
        self._held = []

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.free()
