# SPDX-License-Identifier: Apache-2.0
"""A group of tutti that a backend of torch owns: how it is made, how it is left, and its calls;
python/torch/group.hh does the same in C++.

A call between begin and end of a batch of this thread returns the batch's work.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from datetime import timedelta
from typing import Any, Callable, Dict, Iterable, Optional, Sequence, Set, Tuple

import tutti
from tutti import _native
from tutti._batch import Batch
from tutti._group import meet
from tutti._native import ASYNC, Operation, ffi, lib

from ._errors import exception_of, refuse
from ._stores import Meeting, open_store
from ._tensors import as_input, as_output, reduction
from ._work import Work

_NO_TIME = timedelta(0)


class _OpenBatch:
    """One that a thread has begun."""

    def __init__(self, batch: Batch, is_watched: bool) -> None:
        self.batch = batch
        self.work = Work([], is_watched)
        self.failure: Optional[Exception] = None  # of a call that cannot be made: none will be


class Members:
    """`context`: of this group alone, or None."""

    def __init__(self, group: tutti.Group, context: Any, is_watched: bool) -> None:
        self._group: Optional[tutti.Group] = group
        self._context = context
        self.is_watched = is_watched
        self.sequence = 0
        self._batches: Dict[int, _OpenBatch] = {}  # by thread
        # Those that may be incomplete, so that leaving does not wait for what never comes.
        self._works: "weakref.WeakSet[tutti.Work]" = weakref.WeakSet()
        self._messages: "weakref.WeakSet[tutti.Work]" = weakref.WeakSet()
        self._backend: Any = None

    @classmethod
    def meet(
        cls, store: Any, meeting: Meeting, rank: int, size: int, timeout: timedelta, name: str
    ) -> "Members":
        context: Any = ffi.NULL
        opened = open_store(store, meeting, timeout)
        words = {"group_name": None if meeting.of_job else name}
        try:
            if meeting.in_process:
                ret_context = ffi.new("tutti_context **")
                _native.check(lib.tutti_context_create(ret_context))
                context = ret_context[0]
            group = meet(words, opened, rank, size, timeout, context)
        except tutti.Error as error:
            lib.tutti_context_destroy(context)
            if error.__cause__ is not None:
                error.args = (f"{error} (torch's store: {error.__cause__})",)
            raise exception_of(error) from None
        return cls(group, context, not meeting.in_process)

    @property
    def group(self) -> tutti.Group:
        """Raises where the group was left."""
        group = self._group
        if group is None:
            refuse(
                "the process group was shut down; make a new one with init_process_group() or "
                "new_group()"
            )
        return group

    # ---- the end ----

    def keep(self, backend: Any) -> None:
        """torch does not keep a backend in Python alive; this does, until the group is left."""
        self._backend = backend
        _all.add(self)

    def leave(self) -> None:
        """Waits for collectives of this member, not for messages that never come."""
        group, self._group = self._group, None
        if group is None:
            return
        for batch in list(self._batches.values()):
            _discard(batch.batch)
        self._batches.clear()
        for message in list(self._messages):
            try:
                message.cancel()
            except tutti.Error:
                pass  # it is complete
        is_known = not group.status().ready  # the program has got the group's error
        try:
            group.destroy()
        except tutti.MismatchError as error:
            if not is_known:
                warnings.warn(f"tutti: {error}", stacklevel=2)
        except tutti.Error:
            pass
        lib.tutti_context_destroy(self._context or ffi.NULL)  # works that the program holds keep it
        _all.discard(self)
        self._backend = None

    def abort(self, reason: str) -> None:
        if self._group is not None:
            try:
                self._group.abort(reason)
            except tutti.Error as error:
                raise exception_of(error) from None

    # ---- calls ----

    def start(
        self,
        operation: Operation,
        x: Any,
        out: Any,
        outputs: Sequence[Sequence[Any]],
        timeout: timedelta = _NO_TIME,
        *,
        op: Any = None,
        root: int = 0,
        tag: int = 0,
        counts: Optional[Tuple[Any, ...]] = None,
        is_read: bool = False,
    ) -> Work:
        """Starts an operation from x to `out`, which are tensors, lists of them, or None.

        outputs  what the work has as its result
        op       a ReduceOp of torch
        is_read  `out` is not written on this member
        """
        of_call = timeout if timeout > _NO_TIME else None
        own = self._batches.get(threading.get_ident()) if self._batches else None
        flags = 0 if own else ASYNC
        try:
            source, into = as_input(x), as_input(out) if is_read else as_output(out)
            by = "sum" if op is None else reduction(op, out)
            call = self.group._call(
                operation, source, into, None, by, root, tag, of_call, flags, counts
            )
        except Exception as error:
            raised = exception_of(error) if isinstance(error, tutti.Error) else error
            if own:
                own.failure = own.failure or raised
            raise raised from None
        if own:
            own.work._add(outputs)
            return own.work
        is_message = operation >= Operation.SEND
        work = Work(outputs, self.is_watched)
        (self._messages if is_message else self._works).add(call)
        self.sequence += not is_message
        work._start(call, self.sequence)
        return work

    def start_each(
        self,
        call: Callable[..., Work],
        arguments: Iterable[Tuple[Any, ...]],
        outputs: Sequence[Sequence[Any]],
    ) -> Work:
        """Makes all calls as one; `outputs` empty: those of the calls one after the other."""
        is_nested = threading.get_ident() in self._batches
        if not is_nested:
            self.begin_batch()
        own = self._batches[threading.get_ident()]
        try:
            for of_call in arguments:
                call(*of_call)
        except Exception as error:
            own.failure = own.failure or error
            if not is_nested:
                self._drop_batch()
            raise
        if is_nested:
            return own.work
        work = self.end_batch()
        if outputs:
            work._outputs = [list(tensors) for tensors in outputs]
        return work

    def done(self, outputs: Sequence[Sequence[Any]]) -> Work:
        """The work of an operation that was done within the call."""
        self.sequence += 1
        work = Work(outputs, self.is_watched)
        work._start(None, self.sequence)
        return work

    # ---- batches ----

    def begin_batch(self) -> None:
        left = self._batches.get(threading.get_ident())
        if left is not None and left.failure is None:
            raise exception_of(
                tutti.BusyError("this thread has begun to coalesce calls already; end it first")
            )
        if left is not None:
            self._drop_batch()  # torch does not end what has failed
        batch = self.group.batch_async()
        try:
            batch.__enter__()
        except tutti.Error as error:
            raise exception_of(error) from None
        self._batches[threading.get_ident()] = _OpenBatch(batch, self.is_watched)

    def end_batch(self) -> Work:
        own = self._batches.get(threading.get_ident())
        if own is None:
            refuse("this thread has not begun to coalesce calls")
        if own.failure is not None:
            self._drop_batch()
            raise own.failure
        del self._batches[threading.get_ident()]
        try:
            own.batch.__exit__(None, None, None)
        except tutti.Error as error:
            raise exception_of(error) from None
        self._works.add(own.batch.work)
        self.sequence += 1
        own.work._start(own.batch.work, self.sequence)
        return own.work

    def _drop_batch(self) -> None:
        """Ends a batch of which nothing may start."""
        _discard(self._batches.pop(threading.get_ident()).batch)


def _discard(batch: Batch) -> None:
    batch.__exit__(Exception, Exception(), None)


# Those that are not left, each with its backend.
_all: Set[Members] = set()


def leave_all(reason: str) -> None:
    """At exit. With a reason the program has failed, and the other members get it. A group that
    still has works in flight is not left: the others are told of a lost member, and this process
    does not hang."""
    for members in list(_all):
        try:
            if reason:
                members.abort(reason)
            works = [*members._works, *members._messages]
            if all(work.done() for work in works):
                members.leave()
        except Exception as error:  # the others are left all the same
            warnings.warn(f"a group was not left: {error}", RuntimeWarning, stacklevel=1)
