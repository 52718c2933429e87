# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.distributed in Python, which needs no compiler; python/torch/backend.cc is
the same in C++.

Each method turns torch's lists of tensors into calls of tutti. How they are started, and what
becomes of the group, is in _members.py; what torch gets is in _work.py.
"""

from __future__ import annotations

import itertools
import warnings
from datetime import timedelta
from typing import Any, List, Optional, Sequence

import torch
from torch._C import _distributed_c10d as c10d

import tutti
from tutti._native import Operation

from . import _barrier
from ._build import COMMAND
from ._errors import exception_of, refuse, unsupported
from ._members import Members
from ._stores import Meeting
from ._work import Work

_Tensors = List[Any]
_FIRST_BARRIER_TAG = 1 << 40  # torch's tags are ints of C
_UNSET = timedelta(milliseconds=-1)


def _only(operation: str, entries: Sequence[Any]) -> Any:
    """torch has lists of devices, of which there is one here."""
    if len(entries) != 1:
        refuse(f"{operation}: a list of {len(entries)} entries: one is possible")
    return entries[0]


def _check_count(operation: str, what: str, entries: Sequence[Any], expected: int) -> None:
    if len(entries) != expected:
        refuse(f"{operation}: {what} has {len(entries)} tensors, and must have {expected}")


def _counts_of(what: str, tensor: Any, sizes: Sequence[int], members: int) -> List[int]:
    """Elements for each member, from torch's sizes along dimension 0; none: equal parts."""
    rows = tensor.size(0) if tensor.dim() else 1
    row = tensor.numel() // rows if rows else 0
    if not sizes:
        if rows % members:
            refuse(
                f"all_to_all_single: the {what} has {rows} rows, which {members} members cannot "
                "divide equally: give sizes"
            )
        return [rows // members * row] * members
    if len(sizes) != members:
        refuse(f"all_to_all_single: {len(sizes)} sizes of the {what} in a group of {members}")
    if sum(sizes) != rows:
        refuse(
            f"all_to_all_single: the sizes of the {what} add up to {sum(sizes)}, and it has {rows} "
            "rows"
        )
    return [size * row for size in sizes]


def _tag_of(tag: int) -> int:
    if tag < 0:
        refuse(f"tag {tag}: 0 and more are possible")
    return tag


class Backend(c10d.Backend):  # type: ignore[misc, unused-ignore]  # torch may be missing
    """A group of tutti for torch's CPU tensors."""

    def __init__(self, members: Members, options: Any) -> None:
        super().__init__(members.group.rank, members.group.size)
        self._members = members
        self._rank: int = members.group.rank
        self._size: int = members.group.size
        self._options = options
        self._barriers = itertools.count(_FIRST_BARRIER_TAG)
        members.keep(self)

    def getBackendName(self) -> str:
        return "tutti"

    @property
    def options(self) -> Any:
        return self._options

    @property
    def supports_coalescing(self) -> bool:
        return True

    @property
    def supports_splitting(self) -> bool:
        return True

    # ---- reductions ----

    def allreduce(self, tensors: _Tensors, opts: Any = c10d.AllreduceOptions()) -> Work:
        tensor = _only("all_reduce", tensors)
        if tensor.layout is torch.sparse_coo:
            return self.allreduce_sparse(tensors, opts)
        return self._members.start(
            Operation.ALL_REDUCE,
            None,
            tensor,
            [tensors],
            opts.timeout,
            op=opts.reduceOp,
        )

    def allreduce_coalesced(
        self, tensors: _Tensors, opts: Any = c10d.AllreduceCoalescedOptions()
    ) -> Work:
        return self._members.start_each(
            lambda tensor: self.allreduce([tensor], opts), zip(tensors), []
        )

    def allreduce_sparse(self, tensors: _Tensors, opts: Any = c10d.AllreduceOptions()) -> Work:
        """Every member gets all indices and values, and adds them."""
        tensor = _only("all_reduce", tensors)
        if opts.reduceOp != c10d.ReduceOp.SUM:
            unsupported("all_reduce of a sparse tensor: SUM is possible")
        own = tensor.coalesce()
        count = torch.tensor([own.indices().size(1)])
        counts = [int(one) for one in self._exchange(count, [1] * self._size, 0, opts)]
        indices = self._exchange(own.indices(), counts, 1, opts)
        values = self._exchange(own.values(), counts, 0, opts)
        total = torch.sparse_coo_tensor(
            torch.cat(indices, 1), torch.cat(values, 0), tensor.size(), dtype=tensor.dtype
        )
        tensor.copy_(total.coalesce())
        return self._members.done([tensors])

    def _exchange(self, own: Any, sizes: Sequence[int], dimension: int, opts: Any) -> _Tensors:
        """Every member's tensor, whose extent along `dimension` is sizes[rank]."""
        of_gather = c10d.AllgatherOptions()
        of_gather.timeout = opts.timeout
        shapes = [[*own.shape[:dimension], size, *own.shape[dimension + 1 :]] for size in sizes]
        outputs = [own.new_empty(shape) for shape in shapes]
        self.allgather([outputs], [own], of_gather).wait()
        return outputs

    def reduce(self, tensors: _Tensors, opts: Any = c10d.ReduceOptions()) -> Work:
        tensor = _only("reduce", tensors)
        return self._members.start(
            Operation.REDUCE,
            None,
            tensor,
            [tensors],
            opts.timeout,
            op=opts.reduceOp,
            root=opts.rootRank,
            is_read=opts.rootRank != self._rank,
        )

    def reduce_scatter(
        self, outputs: _Tensors, inputs: List[_Tensors], opts: Any = c10d.ReduceScatterOptions()
    ) -> Work:
        blocks = _only("reduce_scatter", inputs)
        output = _only("reduce_scatter", outputs)
        _check_count("reduce_scatter", "the input list", blocks, self._size)
        return self._reduce_scatter(output, blocks, opts)

    def reduce_scatter_single(
        self, output: Any, input: Any, opts: Any = c10d.ReduceScatterOptions()
    ) -> Work:
        return self._reduce_scatter(output, input, opts)

    def reduce_scatter_single_coalesced(
        self, outputs: _Tensors, inputs: _Tensors, opts: Any = c10d.ReduceScatterOptions()
    ) -> Work:
        _check_count("reduce_scatter", "the list of inputs", inputs, len(outputs))
        return self._members.start_each(
            lambda output, input: self.reduce_scatter_single(output, input, opts),
            zip(outputs, inputs),
            [],
        )

    def _reduce_scatter(self, output: Any, blocks: Any, opts: Any) -> Work:
        return self._members.start(
            Operation.REDUCE_SCATTER,
            blocks,
            output,
            [[output]],
            opts.timeout,
            op=opts.reduceOp,
        )

    # ---- copies ----

    def broadcast(self, tensors: _Tensors, opts: Any = c10d.BroadcastOptions()) -> Work:
        tensor = _only("broadcast", tensors)
        return self._members.start(
            Operation.BROADCAST,
            None,
            tensor,
            [tensors],
            opts.timeout,
            root=opts.rootRank,
            is_read=opts.rootRank == self._rank,
        )

    def allgather(
        self, outputs: List[_Tensors], inputs: _Tensors, opts: Any = c10d.AllgatherOptions()
    ) -> Work:
        """The tensors of the list may differ in size."""
        blocks = _only("all_gather", outputs)
        _check_count("all_gather", "the output list", blocks, self._size)
        return self._members.start(
            Operation.ALL_GATHER,
            _only("all_gather", inputs),
            blocks,
            [blocks],
            opts.timeout,
        )

    def all_gather_single(
        self, output: Any, input: Any, opts: Any = c10d.AllgatherOptions()
    ) -> Work:
        return self._members.start(Operation.ALL_GATHER, input, output, [[output]], opts.timeout)

    def allgather_coalesced(
        self, outputs: List[_Tensors], inputs: _Tensors, opts: Any = c10d.AllgatherOptions()
    ) -> Work:
        """outputs[rank][i] is what that rank has as inputs[i]."""
        name = "all_gather_coalesced"
        _check_count(name, "the list of output lists", outputs, self._size)
        for of_rank in outputs:
            _check_count(name, "an output list", of_rank, len(inputs))
        columns = [list(column) for column in zip(*outputs)]
        return self._members.start_each(
            lambda column, input: self.allgather([column], [input], opts),
            zip(columns, inputs),
            outputs,
        )

    def all_gather_single_coalesced(
        self, outputs: _Tensors, inputs: _Tensors, opts: Any = c10d.AllgatherOptions()
    ) -> Work:
        _check_count("all_gather", "the list of inputs", inputs, len(outputs))
        return self._members.start_each(
            lambda output, input: self.all_gather_single(output, input, opts),
            zip(outputs, inputs),
            [],
        )

    def gather(
        self, outputs: List[_Tensors], inputs: _Tensors, opts: Any = c10d.GatherOptions()
    ) -> Work:
        is_root = opts.rootRank == self._rank
        blocks = _only("gather", outputs) if is_root else []
        if is_root:
            _check_count("gather", "the output list", blocks, self._size)
        return self._members.start(
            Operation.GATHER,
            _only("gather", inputs),
            blocks,
            [blocks],
            opts.timeout,
            root=opts.rootRank,
        )

    def scatter(
        self, outputs: _Tensors, inputs: List[_Tensors], opts: Any = c10d.ScatterOptions()
    ) -> Work:
        is_root = opts.rootRank == self._rank
        blocks = _only("scatter", inputs) if is_root else []
        if is_root:
            _check_count("scatter", "the input list", blocks, self._size)
        return self._members.start(
            Operation.SCATTER,
            blocks,
            _only("scatter", outputs),
            [outputs],
            opts.timeout,
            root=opts.rootRank,
        )

    def alltoall(
        self, outputs: _Tensors, inputs: _Tensors, opts: Any = c10d.AllToAllOptions()
    ) -> Work:
        _check_count("all_to_all", "the input list", inputs, self._size)
        _check_count("all_to_all", "the output list", outputs, self._size)
        return self._members.start(Operation.ALL_TO_ALL, inputs, outputs, [outputs], opts.timeout)

    def all_to_all_single(
        self,
        output: Any,
        input: Any,
        output_sizes: Sequence[int],
        input_sizes: Sequence[int],
        opts: Any = c10d.AllToAllOptions(),
    ) -> Work:
        """Always with counts: whether all are equal is not known of the other members."""
        of_input = _counts_of("input", input, input_sizes, self._size)
        of_output = _counts_of("output", output, output_sizes, self._size)
        return self._members.start(
            Operation.ALL_TO_ALL,
            input,
            output,
            [[output]],
            opts.timeout,
            counts=(of_input, None, of_output, None),
        )

    # ---- messages ----

    def send(self, tensors: _Tensors, destination: int, tag: int) -> Work:
        tensor = _only("send", tensors)
        return self._members.start(
            Operation.SEND, tensor, None, [], root=destination, tag=_tag_of(tag)
        )

    def recv(self, tensors: _Tensors, source: int, tag: int) -> Work:
        tensor = _only("recv", tensors)
        return self._members.start(
            Operation.RECV, None, tensor, [tensors], root=source, tag=_tag_of(tag)
        )

    def recv_anysource(self, tensors: _Tensors, tag: int) -> Work:
        warnings.warn(
            "tutti: torch does not ask this form of the backend for the source of a message, so "
            f"recv() without one raises an error after it. Run once: {COMMAND}",
            stacklevel=2,
        )
        return self.recv(tensors, tutti.ANY_SOURCE, tag)

    # ---- barriers ----

    def barrier(self, opts: Any = c10d.BarrierOptions()) -> Work:
        return self._members.start(Operation.BARRIER, None, None, [], opts.timeout)

    def monitored_barrier(
        self, opts: Any = c10d.BarrierOptions(), wait_all_ranks: bool = False
    ) -> None:
        group = self._members.group
        seconds = opts.timeout.total_seconds()
        timeout = group.timeout if opts.timeout == _UNSET else max(seconds, 0.0)
        tag = next(self._barriers)
        if self._rank == 0:
            _barrier.watch(group, timeout, tag, wait_all_ranks)
        else:
            _barrier.come_to(group, timeout, tag)

    # ---- the group ----

    def start_coalescing(self) -> None:
        self._members.begin_batch()

    def end_coalescing(self) -> Work:
        return self._members.end_batch()

    def split(self, _: Any, ranks: Sequence[int], options: Any) -> "Backend":
        if self._rank not in ranks:
            unsupported(
                f"split_group: rank {self._rank} is in none of the groups, which torch cannot take "
                "from this form of the backend: name each rank in a group, use new_group(), or run "
                f"once: {COMMAND}"
            )
        timeout = getattr(options, "_timeout", None)
        try:
            made = self._members.group.new(list(ranks), timeout=timeout)
        except tutti.Error as error:
            raise exception_of(error) from None
        assert made is not None  # it is one of them
        if not options:
            options = c10d.Backend.Options("tutti", self._options._timeout)
        return Backend(Members(made, None, self._members.is_watched), options)

    def set_timeout(self, timeout: timedelta) -> None:
        self._members.group.timeout = timeout
        self._options._timeout = timeout

    def abort(self) -> None:
        self._members.abort("torch.distributed asked for it")

    def shutdown(self) -> None:
        self._members.leave()

    def _set_sequence_number_for_group(self) -> None:
        """Every member counts its collectives from 0."""

    def _get_sequence_number_for_group(self) -> int:
        return self._members.sequence


def is_possible() -> bool:
    """Whether this torch lets a class of Python be a backend."""
    try:
        c10d.Backend(0, 1)
    except TypeError:
        return False
    return True


def create(
    store: Any,
    meeting: Meeting,
    rank: int,
    size: int,
    timeout: timedelta,
    name: str,
    global_ranks: Sequence[int],
) -> Backend:
    """Meets the other members in the store."""
    options = c10d.Backend.Options("tutti", timeout)
    options.group_name = name  # type: ignore[assignment, unused-ignore]  # a str by another name
    options.global_ranks_in_group = list(global_ranks)
    return Backend(Members.meet(store, meeting, rank, size, timeout, name), options)
