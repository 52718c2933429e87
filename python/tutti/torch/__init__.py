# SPDX-License-Identifier: Apache-2.0
"""The backend "tutti" of torch.distributed, for CPU tensors.

    torch.distributed.init_process_group("tutti")
    torch.distributed.init_process_group("cpu:tutti,cuda:nccl")

torch finds it by its entry point. For a torch that knows no entry points, import this module first.

The backend is a C++ module, which is compiled once for the torch that is installed:

    python -m tutti.torch build
"""

from __future__ import annotations

import atexit
import os
import sys
from datetime import timedelta
from typing import Any, Optional

import torch.distributed

from . import _build

__all__ = ["register"]

_name = "tutti"
_module: Optional[Any] = None


def register() -> None:
    """Makes torch.distributed know the backend; for torch's entry point, which calls it without arguments.

    It is also registered for CUDA, although it refuses CUDA tensors: its message then says what to do.
    """
    if _name not in torch.distributed.Backend.backend_list:
        torch.distributed.Backend.register_backend(
            _name, _create, extended_api=True, devices=["cpu", "cuda"]
        )


def _load() -> Any:
    global _module
    if _module is None:
        _module = _build.load()
        atexit.register(_leave, _module)
    return _module


def _leave(module: Any) -> None:
    """Leaves the groups that the program did not destroy. Where an exception ends it, the other ranks get that."""
    error = getattr(sys, "last_value", None)
    rank = os.environ.get("RANK", "?")
    module.leave_all(f"rank {rank} ends with {type(error).__name__}: {error}" if error else "")


def _is_of_launcher(name: str, number: int) -> bool:
    return os.environ.get(name) == str(number)


def _group_name(group_id: str, ranks: list[int]) -> str:
    """Names the group in messages: torch's number or hash for it, and the ranks that it has in the world."""
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
        options.group_rank,
        options.group_size,
        max(1, round(timeout.total_seconds() * 1000)),
        _group_name(options.group_id, ranks),
        world,
        ranks,
    )


register()
