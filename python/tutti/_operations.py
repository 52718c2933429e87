# SPDX-License-Identifier: Apache-2.0
"""The operations of a group, under the names of the C API; each has a form that ends in `_async`.

Every method comes down to Operations._call(), which hands the arrays to the compiled run(). An
array that its library never changes (MLX, JAX) is not written: run() returns NotImplemented, and
the call is made again into memory of our own, of which the result is made.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from . import _arrays, _native, _ops
from ._batch import Batch
from ._errors import ArrayError, InvalidArgumentError
from ._native import Operation, Timeout, milliseconds
from ._work import Work

Counts = Optional[Sequence[int]]
Op = _ops.Op
_ASYNC = _native.ASYNC
_NUMBERS: Any = _ops.NUMBERS
_run = _native.run
# An attribute of an enumeration takes as long as a call.
_ALL_REDUCE, _REDUCE, _BROADCAST, _ALL_GATHER, _GATHER, _SCATTER = list(Operation)[:6]
_REDUCE_SCATTER, _ALL_TO_ALL, _BARRIER, _MONITORED_BARRIER = list(Operation)[6:10]
_RECV = Operation.RECV


class Operations:
    """What a Group does with arrays. Arrays may be of any library (docs/python.md) and have any
    strides."""

    rank: int
    size: int
    name: str

    def __init__(self, address: int) -> None:
        self._address = address
        self._batches: Dict[int, Batch] = {}  # by thread

    # ---- the way of all calls ----

    def _all_counts(self, *counts: Counts) -> Optional[Tuple[Counts, ...]]:
        """What _call() takes as counts. tutti reads one of each for every member; a member that
        does not read them may pass ()."""
        given = [count for count in counts if count is not None]
        for count in given:
            if len(count) not in (0, self.size):
                raise ValueError(
                    f"{len(count)} counts or offsets were given for {self.size} members"
                )
        return counts if given else None

    def _call(
        self,
        operation: Operation,
        x: Any,
        out: Any,
        result: Any,
        op: Op = "sum",
        root: int = 0,
        tag: int = 0,
        timeout: Timeout = None,
        flags: int = 0,
        counts: Optional[Tuple[Counts, ...]] = None,
    ) -> Any:
        """Runs an operation from x to out (x None: in place). Returns `result` or a Work that has
        it."""
        is_named = op.__class__ is str
        number = _NUMBERS.get(op) if is_named else None
        if number is None:
            number = _ops.number_of(op)
        batch = self._batches.get(threading.get_ident()) if self._batches else None
        if batch is not None:
            if flags & _ASYNC:
                raise ValueError(
                    "calls in a batch or plan have no works: use the form without _async"
                )
            flags |= _native.IN_BATCH
        address = self._address
        if not address:
            raise InvalidArgumentError(f"the group {self.name} was destroyed")
        ms = 0 if timeout is None else milliseconds(timeout)
        if is_named and counts is None:
            got = _run(address, operation, x, out, number, root, tag, ms, flags)
            if got is None:
                return result
        else:
            more = (op, *(counts or ()))  # what the call keeps
            got = _run(address, operation, x, out, number, root, tag, ms, flags, *more)
        if got is NotImplemented:
            return self._into_memory(
                operation, x, out, result, op, root, tag, timeout, flags, counts
            )
        if batch is not None:
            return batch._record(got, operation, result, op)
        return self._outcome(got, operation, result, op, flags)

    def _own_block(self, x: Sequence[Any]) -> Any:
        """This rank's of a list that has an array for each member."""
        if len(x) != self.size:
            raise ValueError(f"a list of {len(x)} arrays was given for {self.size} members")
        return x[self.rank]

    def _outcome(self, got: Any, operation: Operation, result: Any, op: Op, flags: int) -> Any:
        def finish() -> Any:
            self._raise_of(op)
            return result

        if flags & _ASYNC:
            return Work(got, f"{self.name}: {operation.name.lower()}", finish)
        return finish() if got is None else got

    def _raise_of(self, op: Op) -> None:
        """Raises what the function of a reduction has raised."""
        if not isinstance(op, _ops.ReduceOp) or op.error is None:
            return
        error, op.error = op.error, None
        self.abort(f"the reduction {op.name} raised {type(error).__name__} on rank {self.rank}")
        raise error

    def abort(self, reason: Optional[str] = None) -> None:
        raise NotImplementedError

    def _into_memory(
        self,
        operation: Operation,
        x: Any,
        out: Any,
        result: Any,
        op: Op,
        root: int,
        tag: int,
        timeout: Timeout,
        flags: int,
        counts: Optional[Tuple[Counts, ...]],
    ) -> Any:
        if x is not None or flags & _native.IN_BATCH or operation >= _RECV:
            raise ArrayError(
                f"arrays of type {_arrays.type_of(out)} are never written: leave out out=, or pass "
                "a NumPy array"
            )
        memory = _arrays.Memory(_native.measure(out)[0], _arrays.shape_of(out))
        given = None if operation is _BROADCAST else out
        done = self._call(operation, given, memory, memory, op, root, tag, timeout, flags, counts)
        if isinstance(done, Work):
            done._convert(lambda made: _arrays.finished(made, out))
            return done
        return _arrays.finished(done, out)

    def _fresh(self, call: Callable[..., Any], x: Any, shape: _arrays.Shape, flags: int) -> Any:
        """Makes an output, calls call(output), and returns the output as an array of x's
        library."""
        out = _arrays.empty_like(x, shape)
        done = call(out)
        if not isinstance(out, _arrays.Memory):
            return done
        if flags & _ASYNC:
            done._convert(lambda made: _arrays.finished(made, x))
            return done
        return _arrays.finished(done, x)

    # ---- reductions ----

    def _all_reduce(
        self, x: Any, op: Op, out: Any, timeout: Timeout, fixed_order: bool, flags: int
    ) -> Any:
        if fixed_order:
            flags |= _native.FIXED_ORDER
        if out is None:
            return self._call(_ALL_REDUCE, None, x, x, op, 0, 0, timeout, flags)
        return self._call(_ALL_REDUCE, x, out, out, op, 0, 0, timeout, flags)

    def all_reduce(
        self,
        x: Any,
        op: Op = "sum",
        out: Any = None,
        timeout: Timeout = None,
        fixed_order: bool = False,
    ) -> Any:
        """Reduces x over all members, in place or into `out`, and returns where the result is.

        op           "sum", "avg", "product", "min", "max", "band", "bor", "bxor", or a ReduceOp
        fixed_order  the bits of the result depend on the operands and the number of ranks alone
        """
        if out is None and timeout is None and not fixed_order and not self._batches:
            # The commonest call, and often one of a few bytes: without the way of all calls.
            number = _NUMBERS.get(op) if op.__class__ is str else None
            if number is not None and self._address:
                if _run(self._address, _ALL_REDUCE, None, x, number) is None:
                    return x
        return self._all_reduce(x, op, out, timeout, fixed_order, 0)

    def all_reduce_async(
        self,
        x: Any,
        op: Op = "sum",
        out: Any = None,
        timeout: Timeout = None,
        fixed_order: bool = False,
    ) -> Work:
        """As all_reduce(); returns at once. So do all forms that end in `_async`."""
        work: Work = self._all_reduce(x, op, out, timeout, fixed_order, _ASYNC)
        return work

    def _reduce(
        self,
        x: Any,
        op: Op,
        root: int,
        out: Any,
        timeout: Timeout,
        fixed_order: bool,
        flags: int,
    ) -> Any:
        if fixed_order:
            flags |= _native.FIXED_ORDER
        if out is None:
            result = x if root == self.rank else None
            return self._call(_REDUCE, None, x, result, op, root, 0, timeout, flags)
        if root != self.rank:
            out = None
        return self._call(_REDUCE, x, out, out, op, root, 0, timeout, flags)

    def reduce(
        self,
        x: Any,
        op: Op = "sum",
        root: int = 0,
        out: Any = None,
        timeout: Timeout = None,
        fixed_order: bool = False,
    ) -> Any:
        """Reduces x over all members to rank `root`, in place there or into `out`. Returns where
        the result is, None on other ranks, whose x does not change."""
        return self._reduce(x, op, root, out, timeout, fixed_order, 0)

    def reduce_async(
        self,
        x: Any,
        op: Op = "sum",
        root: int = 0,
        out: Any = None,
        timeout: Timeout = None,
        fixed_order: bool = False,
    ) -> Work:
        work: Work = self._reduce(x, op, root, out, timeout, fixed_order, _ASYNC)
        return work

    def _reduce_scatter(
        self,
        x: Any,
        op: Op,
        out: Any,
        counts: Counts,
        offsets: Counts,
        timeout: Timeout,
        fixed_order: bool,
        flags: int,
    ) -> Any:
        if fixed_order:
            flags |= _native.FIXED_ORDER
        uneven = self._all_counts(counts, offsets, None, None)

        def call(into: Any) -> Any:
            return self._call(
                _REDUCE_SCATTER, x, into, into, op, 0, 0, timeout, flags, uneven
            )

        if out is not None:
            return call(out)
        if isinstance(x, (list, tuple)):
            block = self._own_block(x)
            return self._fresh(call, block, _arrays.shape_of(block), flags)
        shape = _arrays.shape_of(x)
        if counts is not None:
            return self._fresh(call, x, (counts[self.rank],), flags)
        return self._fresh(call, x, _arrays.divided(shape, self.size, "reduce_scatter"), flags)

    def reduce_scatter(
        self,
        x: Any,
        op: Op = "sum",
        out: Any = None,
        counts: Counts = None,
        offsets: Counts = None,
        timeout: Timeout = None,
        fixed_order: bool = False,
    ) -> Any:
        """Reduces the members' inputs; each member gets its block of the result, which is returned.

        x        blocks for all members one after the other, or a list of them
        out      this member's block; None: a new array, with the first extent of x divided by the
                 group's size
        counts   of blocks of different sizes, in elements, the same on every member
        offsets  where those begin in x; None: one after the other
        """
        return self._reduce_scatter(x, op, out, counts, offsets, timeout, fixed_order, 0)

    def reduce_scatter_async(
        self,
        x: Any,
        op: Op = "sum",
        out: Any = None,
        counts: Counts = None,
        offsets: Counts = None,
        timeout: Timeout = None,
        fixed_order: bool = False,
    ) -> Work:
        work: Work = self._reduce_scatter(x, op, out, counts, offsets, timeout, fixed_order, _ASYNC)
        return work

    # ---- one to all, all to one ----

    def broadcast(self, x: Any, root: int = 0, timeout: Timeout = None) -> Any:
        """Copies x of rank `root` to every member's x, and returns it."""
        return self._call(_BROADCAST, None, x, x, "sum", root, 0, timeout)

    def broadcast_async(self, x: Any, root: int = 0, timeout: Timeout = None) -> Work:
        work: Work = self._call(_BROADCAST, None, x, x, "sum", root, 0, timeout, _ASYNC)
        return work

    def _gather(
        self,
        x: Any,
        root: int,
        out: Any,
        counts: Counts,
        offsets: Counts,
        timeout: Timeout,
        flags: int,
    ) -> Any:
        uneven = self._all_counts(None, None, counts, offsets)

        def call(into: Any) -> Any:
            return self._call(
                _GATHER, x, into, into, "sum", root, 0, timeout, flags, uneven
            )

        if root != self.rank:
            return call(None)
        if out is not None:
            return call(out)
        shape = _arrays.shape_of(x)
        whole = _arrays.total(counts) if counts else _arrays.multiplied(shape, self.size)
        return self._fresh(call, x, whole, flags)

    def gather(
        self,
        x: Any,
        root: int = 0,
        out: Any = None,
        counts: Counts = None,
        offsets: Counts = None,
        timeout: Timeout = None,
    ) -> Any:
        """Rank `root` gets the blocks of all members and returns them; others return None.

        out      on the root: an array for all blocks, or a list of arrays; None: a new array, with
                 the first extent of x times the group's size
        counts   of blocks of different sizes, in elements; other ranks pass ()
        offsets  where those begin in out
        """
        return self._gather(x, root, out, counts, offsets, timeout, 0)

    def gather_async(
        self,
        x: Any,
        root: int = 0,
        out: Any = None,
        counts: Counts = None,
        offsets: Counts = None,
        timeout: Timeout = None,
    ) -> Work:
        work: Work = self._gather(x, root, out, counts, offsets, timeout, _ASYNC)
        return work

    def _scatter(
        self,
        x: Any,
        root: int,
        out: Any,
        counts: Counts,
        offsets: Counts,
        timeout: Timeout,
        flags: int,
    ) -> Any:
        uneven = self._all_counts(counts, offsets, None, None)

        def call(into: Any) -> Any:
            given = x if root == self.rank else None
            return self._call(
                _SCATTER, given, into, into, "sum", root, 0, timeout, flags, uneven
            )

        if out is not None:
            return call(out)
        if root != self.rank:
            raise ValueError(f"scatter: rank {self.rank} is not the root, {root}, so it needs out=")
        if isinstance(x, (list, tuple)):
            block = self._own_block(x)
            return self._fresh(call, block, _arrays.shape_of(block), flags)
        shape = _arrays.shape_of(x)
        shape = (counts[root],) if counts else _arrays.divided(shape, self.size, "scatter")
        return self._fresh(call, x, shape, flags)

    def scatter(
        self,
        x: Any = None,
        root: int = 0,
        out: Any = None,
        counts: Counts = None,
        offsets: Counts = None,
        timeout: Timeout = None,
    ) -> Any:
        """Every member gets its block of x of rank `root`, and returns it.

        x        on the root: blocks for all members one after the other, or a list of them
        out      this member's block; only the root may leave it out
        counts   of blocks of different sizes, in elements; other ranks pass ()
        offsets  where those begin in x
        """
        return self._scatter(x, root, out, counts, offsets, timeout, 0)

    def scatter_async(
        self,
        x: Any = None,
        root: int = 0,
        out: Any = None,
        counts: Counts = None,
        offsets: Counts = None,
        timeout: Timeout = None,
    ) -> Work:
        work: Work = self._scatter(x, root, out, counts, offsets, timeout, _ASYNC)
        return work

    # ---- all to all ----

    def _all_gather(
        self, x: Any, out: Any, counts: Counts, offsets: Counts, timeout: Timeout, flags: int
    ) -> Any:
        uneven = self._all_counts(None, None, counts, offsets)

        def call(into: Any) -> Any:
            return self._call(
                _ALL_GATHER, x, into, into, "sum", 0, 0, timeout, flags, uneven
            )

        if out is not None:
            return call(out)
        shape = _arrays.shape_of(x)
        whole = _arrays.total(counts) if counts else _arrays.multiplied(shape, self.size)
        return self._fresh(call, x, whole, flags)

    def all_gather(
        self,
        x: Any,
        out: Any = None,
        counts: Counts = None,
        offsets: Counts = None,
        timeout: Timeout = None,
    ) -> Any:
        """Every member gets the blocks of all members, and returns them.

        out      an array for all blocks, or a list of arrays, which may differ in size; None: a new
                 array, with the first extent of x times the group's size
        counts   of blocks of different sizes, in elements, the same on every member
        offsets  where those begin in out
        """
        return self._all_gather(x, out, counts, offsets, timeout, 0)

    def all_gather_async(
        self,
        x: Any,
        out: Any = None,
        counts: Counts = None,
        offsets: Counts = None,
        timeout: Timeout = None,
    ) -> Work:
        work: Work = self._all_gather(x, out, counts, offsets, timeout, _ASYNC)
        return work

    def _all_to_all(
        self,
        x: Any,
        out: Any,
        counts: Optional[Tuple[Counts, ...]],
        timeout: Timeout,
        flags: int,
    ) -> Any:
        def call(into: Any) -> Any:
            return self._call(
                _ALL_TO_ALL, x, into, into, "sum", 0, 0, timeout, flags, counts
            )

        if out is not None:
            return call(out)
        if isinstance(x, (list, tuple)):
            raise ValueError("all_to_all: a list of inputs needs out=, a list of outputs")
        if counts is not None:
            received = counts[2]
            if received is None:
                raise ValueError("all_to_all: give in_counts and out_counts, or neither")
            return self._fresh(call, x, _arrays.total(received), flags)
        return self._fresh(call, x, _arrays.shape_of(x), flags)

    def all_to_all(
        self,
        x: Any,
        out: Any = None,
        in_counts: Counts = None,
        out_counts: Counts = None,
        in_offsets: Counts = None,
        out_offsets: Counts = None,
        timeout: Timeout = None,
    ) -> Any:
        """Sends block i of x to rank i, and returns the blocks that came from all ranks.

        x, out       blocks one after the other, or lists of arrays, where each pair of ranks has a
                     size of its own; out None: a new array
        in_counts    of blocks of different sizes, in elements: what this rank sends to each
        out_counts   what it receives from each
        """
        counts = self._all_counts(in_counts, in_offsets, out_counts, out_offsets)
        return self._all_to_all(x, out, counts, timeout, 0)

    def all_to_all_async(
        self,
        x: Any,
        out: Any = None,
        in_counts: Counts = None,
        out_counts: Counts = None,
        in_offsets: Counts = None,
        out_offsets: Counts = None,
        timeout: Timeout = None,
    ) -> Work:
        counts = self._all_counts(in_counts, in_offsets, out_counts, out_offsets)
        work: Work = self._all_to_all(x, out, counts, timeout, _ASYNC)
        return work

    def barrier(self, timeout: Timeout = None) -> None:
        """Returns after every member has called it."""
        self._call(_BARRIER, None, None, None, timeout=timeout)

    def barrier_async(self, timeout: Timeout = None) -> Work:
        work: Work = self._call(_BARRIER, None, None, None, timeout=timeout, flags=_ASYNC)
        return work

    def monitored_barrier(self, timeout: Timeout = None) -> None:
        """A slower barrier: after a timeout, the error on rank 0 names every rank that has not
        called it."""
        self._call(_MONITORED_BARRIER, None, None, None, timeout=timeout)
