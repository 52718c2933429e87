# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes of a Python program: spawn().

multiprocessing is imported by the functions that need it, as most programs do not.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._errors import AbortedError, PeerLostError
from ._store import StoreServer

_GRACE_S = 2.0  # for ranks to end by themselves after the first failure, or by SIGTERM


class ProcessError(RuntimeError):
    """A rank of spawn() failed: `rank`, and `exitcode`, negative for a signal. `str()` has its
    traceback."""

    def __init__(self, rank: int, exitcode: Optional[int], words: str) -> None:
        super().__init__(words)
        self.rank = rank
        self.exitcode = exitcode

    def __reduce__(self) -> Any:
        return ProcessError, (self.rank, self.exitcode, self.args[0])


def _main(
    pipe: Any, fn: Callable[..., Any], args: Tuple[Any, ...], variables: Dict[str, str]
) -> None:
    """The main function of a rank. Sends the result, or the traceback and whether another rank is
    its cause."""
    os.environ.update(variables)
    try:
        result = fn(*args)
    except Exception as error:
        caused = isinstance(error, (AbortedError, PeerLostError))
        pipe.send((None, traceback.format_exc(), caused))
        sys.exit(1)  # the parent raises the traceback
    pipe.send((result, None, False))


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


def _describe(rank: int, exitcode: Optional[int], trace: Optional[str]) -> ProcessError:
    if trace is not None:
        return ProcessError(rank, exitcode, f"rank {rank} raised:\n\n{trace}")
    if exitcode is not None and exitcode < 0:
        try:
            name = signal.Signals(-exitcode).name
        except ValueError:  # most real-time signals have no name
            name = f"signal {-exitcode}"
        return ProcessError(rank, exitcode, f"rank {rank} was ended by {name}")
    return ProcessError(rank, exitcode, f"rank {rank} ended with exit code {exitcode}")


def _end(processes: List[Any]) -> None:
    """Ends those that still run: by SIGTERM, then by SIGKILL."""
    for act in ("terminate", "kill"):
        running = [process for process in processes if process.is_alive()]
        for process in running:
            getattr(process, act)()
        until = time.monotonic() + _GRACE_S
        for process in running:
            process.join(max(0.0, until - time.monotonic()))


class _Ranks:
    """The processes of one spawn(), and what they have told."""

    def __init__(self) -> None:
        self.processes: List[Any] = []
        self.pipes: List[Any] = []
        self.told: Dict[int, Tuple[Any, Optional[str], bool]] = {}
        self.failures: List[Tuple[bool, int, ProcessError]] = (
            []
        )  # those with a cause elsewhere last

    def start(self, context: Any, fn: Any, args: Any, variables: Dict[str, str]) -> None:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_main, args=(sender, fn, args, variables))
        process.start()
        sender.close()
        self.processes.append(process)
        self.pipes.append(receiver)

    def _listen(self, rank: int) -> None:
        try:
            self.told[rank] = self.pipes[rank].recv()
        except EOFError:
            self.told[rank] = (None, None, False)

    def _ended(self, rank: int) -> None:
        process = self.processes[rank]
        process.join()
        if rank not in self.told:
            self._listen(rank)
        _, trace, caused = self.told[rank]
        if process.exitcode:
            failure = _describe(rank, process.exitcode, trace)
            self.failures.append((caused, len(self.failures), failure))

    def collect(self) -> List[Any]:
        """Waits for all ranks and returns their results. After the first failure others have a
        moment to end by themselves; then raises the failure that was the cause."""
        from multiprocessing import connection

        running = set(range(len(self.processes)))
        until: Optional[float] = None
        while running and (until is None or time.monotonic() < until):
            handles: Dict[Any, int] = {self.processes[rank].sentinel: rank for rank in running}
            handles.update({self.pipes[rank]: rank for rank in running - self.told.keys()})
            timeout = None if until is None else max(0.0, until - time.monotonic())
            for handle in connection.wait(list(handles), timeout):
                rank = handles[handle]
                if handle is self.pipes[rank]:
                    self._listen(rank)
                elif rank in running:
                    self._ended(rank)
                    running.discard(rank)
            if self.failures and until is None:
                until = time.monotonic() + _GRACE_S
        if self.failures:
            raise min(self.failures, key=lambda failure: failure[:2])[2]
        return [self.told[rank][0] for rank in range(len(self.processes))]


def spawn(
    fn: Callable[..., Any],
    args: Tuple[Any, ...] = (),
    nprocs: int = 1,
    *,
    variables: Optional[Dict[str, str]] = None,
) -> List[Any]:
    """Runs fn(*args) in `nprocs` new processes on this host, each of them a rank for which
    `tutti.init()` needs no arguments. Returns what the function returned, by rank.

    The function and its arguments are pickled, so the function must be importable, and the main
    module guards its own start (`if __name__ == "__main__":`). `variables` are set in the
    environment of each process. The first rank that fails ends the others, and raises
    tutti.ProcessError with its traceback.
    """
    import multiprocessing
    import secrets

    if nprocs < 1:
        raise ValueError(f"spawn: nprocs={nprocs} is not valid: use 1 or more")
    context = multiprocessing.get_context("spawn")
    ranks = _Ranks()
    with StoreServer() as server:
        run_id = secrets.token_hex(8)
        try:
            for rank in range(nprocs):
                own = {**_variables(rank, nprocs, server, run_id), **(variables or {})}
                ranks.start(context, fn, args, own)
            return ranks.collect()
        finally:
            _end(ranks.processes)
            for pipe in ranks.pipes:
                pipe.close()
