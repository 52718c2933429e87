# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes of a Python program: spawn()."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import secrets
import signal
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._store import StoreServer

_GRACE_S = 2.0  # for others to end by themselves after the first failure


class ProcessError(RuntimeError):
    """A rank of spawn() failed: `rank`, and `exitcode`, negative for a signal. `str()` has its traceback."""

    def __init__(self, rank: int, exitcode: Optional[int], words: str) -> None:
        super().__init__(words)
        self.rank = rank
        self.exitcode = exitcode

    def __reduce__(self) -> Any:
        return ProcessError, (self.rank, self.exitcode, self.args[0])


def _main(
    pipe: Any, fn: Callable[..., Any], args: Tuple[Any, ...], variables: Dict[str, str]
) -> None:
    """The main function of a rank."""
    os.environ.update(variables)
    try:
        result = fn(*args)
    except BaseException as error:
        pipe.send((False, traceback.format_exc()))
        if isinstance(error, Exception):
            sys.exit(1)  # its traceback is raised by the parent
        raise
    pipe.send((True, result))


def _variables(rank: int, nprocs: int, server: StoreServer, run_id: str) -> Dict[str, str]:
    """The environment of a rank; the names are torchrun's."""
    variables = {
        "MASTER_ADDR": server.address,
        "MASTER_PORT": str(server.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # rank 0 does not serve it
        "TUTTI_STORE": f"tcp://{server.address}:{server.port}",
        "TUTTI_RUN_ID": run_id,
    }
    for name in ("RANK", "LOCAL_RANK"):
        variables[name] = str(rank)
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        variables[name] = str(nprocs)
    return variables


def _describe(rank: int, exitcode: Optional[int], words: Optional[str]) -> ProcessError:
    if words is not None:
        return ProcessError(rank, exitcode, f"rank {rank} raised:\n\n{words}")
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        return ProcessError(rank, exitcode, f"rank {rank} was ended by {name}")
    return ProcessError(rank, exitcode, f"rank {rank} ended with exit code {exitcode}")


def _end(processes: List[Any]) -> None:
    """Ends those that still run: they have a moment to do so themselves, then SIGTERM, then SIGKILL."""
    for act in (None, "terminate", "kill"):
        if act:
            for process in processes:
                if process.is_alive():
                    getattr(process, act)()
        until = time.monotonic() + _GRACE_S
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))


def _collect(processes: List[Any], pipes: List[Any]) -> List[Any]:
    """Waits for all ranks and returns their results. Raises the first failure."""
    results: List[Any] = [None] * len(processes)
    told: Dict[int, Optional[str]] = {}
    running = dict(enumerate(processes))
    while running:
        by_handle = {processes[rank].sentinel: rank for rank in running}
        by_handle.update({pipes[rank]: rank for rank in running if rank not in told})
        ended = set()
        for handle in multiprocessing.connection.wait(list(by_handle)):
            rank = by_handle[handle]
            if rank not in told and pipes[rank].poll():
                try:
                    done, value = pipes[rank].recv()
                    told[rank] = None if done else value
                    results[rank] = value if done else None
                except EOFError:
                    told[rank] = None
            if handle is processes[rank].sentinel or handle == processes[rank].sentinel:
                ended.add(rank)
        for rank in sorted(ended):
            process = running.pop(rank)
            process.join()
            if process.exitcode:
                raise _describe(rank, process.exitcode, told.get(rank))
    return results


def spawn(
    fn: Callable[..., Any],
    args: Tuple[Any, ...] = (),
    nprocs: int = 1,
    *,
    variables: Optional[Dict[str, str]] = None,
) -> List[Any]:
    """Runs fn(*args) in `nprocs` new processes on this host, each of them a rank for which `tutti.init()` needs no
    arguments. Returns what the function returned, by rank.

    The function and its arguments are pickled, so the function must be importable, and the main module guards its
    own start (`if __name__ == "__main__":`). `variables` are set in the environment of each process. The first
    rank that fails ends the others, and raises tutti.ProcessError with its traceback.
    """
    if nprocs < 1:
        raise ValueError(f"spawn: nprocs={nprocs} is not valid: use 1 or more")
    context = multiprocessing.get_context("spawn")
    processes: List[Any] = []
    pipes: List[Any] = []
    with StoreServer() as server:
        run_id = secrets.token_hex(8)
        try:
            for rank in range(nprocs):
                receiver, sender = context.Pipe(duplex=False)
                own = {**_variables(rank, nprocs, server, run_id), **(variables or {})}
                process = context.Process(target=_main, args=(sender, fn, args, own))
                process.start()
                sender.close()
                processes.append(process)
                pipes.append(receiver)
            return _collect(processes, pipes)
        finally:
            _end(processes)
            for pipe in pipes:
                pipe.close()
