# SPDX-License-Identifier: Apache-2.0
"""Collective communication for arrays of NumPy, torch, JAX, MLX and others.

    import numpy
    import tutti

    with tutti.init() as world:
        x = numpy.full(4, world.rank, dtype="f4")
        world.all_reduce(x)

Started by `tutti run -n 4 python3 program.py`.
"""

from ._batch import Batch, Plan, Receipt
from ._custom import CustomStore, StoreFunctions
from ._errors import (
    AbortedError,
    ArrayError,
    BusyError,
    CapturedError,
    CorruptError,
    DeniedError,
    Error,
    ForkedError,
    InternalError,
    InvalidArgumentError,
    MismatchError,
    NewerCallerError,
    NoMemoryError,
    NotReadyError,
    PeerLostError,
    PluginError,
    StaleError,
    StoreError,
    SystemCallError,
    TimeoutError,
    UnsupportedError,
)
from ._group import Group, GroupStatus, Memory, Traffic, init, is_initialized
from ._messages import ANY_SOURCE, Received
from ._native import lib as _lib
from ._native import text as _text
from ._ops import ReduceOp, premul_sum
from ._spawn import ProcessError, spawn
from ._store import FileStore, HashStore, PrefixStore, Store, StoreServer, TCPStore
from ._versions import show_versions
from ._work import Work, wait_all, wait_any

__version__: str = _text(_lib.tutti_version())

__all__ = [
    "ANY_SOURCE",
    "AbortedError",
    "ArrayError",
    "Batch",
    "BusyError",
    "CapturedError",
    "CorruptError",
    "CustomStore",
    "DeniedError",
    "Error",
    "FileStore",
    "ForkedError",
    "Group",
    "GroupStatus",
    "HashStore",
    "InternalError",
    "InvalidArgumentError",
    "Memory",
    "MismatchError",
    "NewerCallerError",
    "NoMemoryError",
    "NotReadyError",
    "PeerLostError",
    "Plan",
    "PluginError",
    "PrefixStore",
    "ProcessError",
    "Receipt",
    "Received",
    "ReduceOp",
    "StaleError",
    "Store",
    "StoreError",
    "StoreFunctions",
    "StoreServer",
    "SystemCallError",
    "TCPStore",
    "TimeoutError",
    "Traffic",
    "UnsupportedError",
    "Work",
    "init",
    "is_initialized",
    "premul_sum",
    "show_versions",
    "spawn",
    "wait_all",
    "wait_any",
]

# In tracebacks, help() and pickles they are called as programs call them.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__
