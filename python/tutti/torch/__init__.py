# SPDX-License-Identifier: Apache-2.0
"""The backend "tutti" of torch.distributed, for CPU tensors.

    torch.distributed.init_process_group("tutti")
    torch.distributed.init_process_group("cpu:tutti,cuda:nccl")

torch finds it by its entry point. For a torch that knows no entry points, import this module first.

The backend has two forms. That in C++ is a module, which is compiled once for the torch that is
installed:

    python -m tutti.torch build

Without it, the form in Python is used, in which is_completed() of a work stays False and recv()
without a source raises.
"""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from datetime import timedelta
from typing import Any

import torch.distributed

from . import _backend, _build, _members, _stores

__all__ = ["register"]

_name = "tutti"
_form: Any = None  # the compiled module, or _backend


def register() -> None:
    """Makes torch.distributed know the backend; for torch's entry point, which calls it without
    arguments.

    It is also registered for CUDA, although it refuses CUDA tensors: its message then says what to
    do.
    """
    if _name not in torch.distributed.Backend.backend_list:
        torch.distributed.Backend.register_backend(
            _name, _create, extended_api=True, devices=["cpu", "cuda"]
        )


def _load() -> Any:
    global _form
    if _form is not None:
        return _form
    compiled = _build.load()
    if compiled is None and not _backend.is_possible():
        raise _build.BuildError(
            f"the backend tutti is not compiled for torch {torch.__version__}, which takes no "
            f"backend in Python; run once: {_build.COMMAND}"
        )
    if compiled is None:
        warnings.warn(
            f"tutti: the backend is not compiled for torch {torch.__version__} and this Python, so "
            "its form in Python is used. There, is_completed() of a work stays False, and recv() "
            f"without a source raises an error. To have both, run once: {_build.COMMAND}",
            stacklevel=2,
        )
    _form = compiled or _backend
    atexit.register(_leave, compiled or _members)
    return _form


def _leave(form: Any) -> None:
    """Leaves the groups that the program did not destroy. Where an exception ends it, the other
    ranks get that."""
    error = getattr(sys, "last_value", None)
    rank = os.environ.get("RANK", "?")
    form.leave_all(f"rank {rank} ends with {type(error).__name__}: {error}" if error else "")


def _is_of_launcher(name: str, number: int) -> bool:
    return os.environ.get(name) == str(number)


def _group_name(group_id: str, ranks: list[int]) -> str:
    """Names the group in messages: torch's number or hash for it, and the ranks that it has in the
    world."""
    listed = ",".join(map(str, ranks))
    return f"{group_id}{{{listed}}}" if len(listed) < 100 else f"{group_id}{{{len(ranks)} ranks}}"


def _create(options: Any, backend_options: Any) -> Any:
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    # The world of the job, in which programs in C may be members, is torch's default group.
    world = (
        not torch.distributed.is_initialized()
        and _is_of_launcher("RANK", options.group_rank)
        and _is_of_launcher("WORLD_SIZE", options.group_size)
    )
    timeout = options.timeout
    if not isinstance(timeout, timedelta):
        timeout = timedelta(seconds=timeout)
    return _load().create(
        options.store,
        _stores.find_meeting(options.store, world),
        options.group_rank,
        options.group_size,
        max(timeout, timedelta(milliseconds=1)),
        _group_name(options.group_id, ranks),
        ranks,
    )


register()
