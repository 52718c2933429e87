# SPDX-License-Identifier: Apache-2.0
"""The compiled part: cffi's `lib` and `ffi`, and the functions that take arrays.

`lib` has the functions of tutti's headers. Those of python/glue enter this module's namespace when
it is loaded: run, wait, test and their like. They raise the errors of tutti; `check()` does it for
a status of `lib`.
"""

from __future__ import annotations

import enum
import hashlib  # noqa: F401  has Python's own libcrypto, of which libtutti then takes the same copy
import importlib
import math
import operator
import threading
from datetime import timedelta
from typing import Any, Callable, Optional, Union

from . import _errors


def _is_main_interpreter() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters: Any = importlib.import_module(name)
        except ImportError:
            continue
        return bool(interpreters.get_current() == interpreters.get_main())
    return True


if not _is_main_interpreter():
    raise ImportError("tutti can be imported in the main interpreter only, not in a subinterpreter")
try:
    from ._tutti import ffi as ffi
    from ._tutti import lib as lib
except ImportError as error:
    if "libcrypto" in str(error):
        raise ImportError(
            f"tutti needs libcrypto.so.3 of OpenSSL 3, which is not on this system: {error}"
        ) from error
    raise

Timeout = Union[None, float, int, timedelta]

run: Any
run_plan: Any
end_batch: Any
wait: Any
work: Any
received: Any
measure: Any
reduction: Any
premul: Any
capsule: Any
fail: Any


class Operation(enum.IntEnum):
    """The numbers of python/glue/glue.h."""

    ALL_REDUCE = 0
    REDUCE = 1
    BROADCAST = 2
    ALL_GATHER = 3
    GATHER = 4
    SCATTER = 5
    REDUCE_SCATTER = 6
    ALL_TO_ALL = 7
    BARRIER = 8
    MONITORED_BARRIER = 9
    SEND = 10
    RECV = 11
    RECV_UP_TO = 12


FIXED_ORDER, ASYNC, IN_BATCH = 1, 2, 4  # flags of run()

if lib.tutti_python_functions(id(globals()), id(_errors.of_status), id(_errors.of_array)):
    raise ImportError("tutti's compiled functions could not be added")


class _Raised(threading.local):
    """What a function of the program has raised under this thread's call."""

    error: Optional[BaseException] = None


raised = _Raised()


def check(status: int) -> None:
    """Raises the error of this thread's last call, if `status` says that it failed."""
    if status:
        fail(status)


def check_with_store(call: Callable[[], int]) -> None:
    """check() of a call that may use a store of the program's own. What a function of that store
    has raised is the cause of the error."""
    raised.error = None
    try:
        check(call())
    except (_errors.TimeoutError, _errors.StoreError, _errors.NoMemoryError) as error:
        if raised.error is not None:
            raise error from raised.error
        raise
    finally:
        raised.error = None


def text(words: Any) -> str:
    """A string of C; NULL is empty."""
    return ffi.string(words).decode("utf-8", "replace") if words else ""


def encoded(word: str, what: str) -> bytes:
    """A string for C, which ends at its first NUL; `what` names it in errors."""
    if not isinstance(word, str):
        raise TypeError(f"{what} must be a string, not {type(word).__name__}")
    if "\0" in word:
        raise ValueError(f"{what} {word!r} is not valid: it has a NUL character")
    return word.encode()


def int32(number: int, what: str) -> int:
    """An integer for C; `what` names it in errors."""
    try:
        value = operator.index(number)
    except TypeError:
        raise TypeError(f"{what} {number!r} is not valid: use an integer") from None
    if not -(2**31) <= value < 2**31:
        raise ValueError(f"{what} {value} is not valid: use {-2**31} to {2**31 - 1}")
    return value


def milliseconds(timeout: Timeout) -> int:
    """A timeout in seconds as the C API takes it: None is 0, the default."""
    if timeout is None:
        return 0
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    try:
        is_valid = math.isfinite(seconds) and seconds > 0
    except TypeError:
        raise TypeError(
            f"a timeout of {timeout!r} is not valid: use seconds as a number, a timedelta, or None "
            "for the default"
        ) from None
    except OverflowError:  # an integer that no float can hold
        is_valid = False
    if not is_valid:
        raise ValueError(
            f"a timeout of {seconds} s is not valid: use a finite number above 0, or None for the "
            "default"
        )
    return max(1, min(round(seconds * 1000), 2**62))
