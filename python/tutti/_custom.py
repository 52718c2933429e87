# SPDX-License-Identifier: Apache-2.0
"""Stores of the program's own: functions of Python behind a store of the C API.

C calls the functions on the thread whose call needs the store: that of init(), new(), or of a
method of the store. What a function raises is kept for that thread, where check() makes it the
cause of tutti's error. The functions live until C drops its last reference, which may be after the
program has dropped the store.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Protocol, Set

from . import _native
from ._native import check, ffi, lib
from ._store import Bytes, Store, as_bytes


class StoreFunctions(Protocol):
    """What an object has to offer so that `tutti.init(store=…)` can use it.

    Keys are strings, values bytes. `timeout` has the seconds that are left of the call, 0 if none
    are: a function that cannot finish by then raises TimeoutError. Arguments are positional. tutti
    calls one function at a time, on any thread. A function must not call the store that it serves.

    An object may have more, as `tutti.Store` has it: check(keys, timeout), add(key, delta,
    timeout), append(key, value, timeout), delete(key, timeout) and num_keys(timeout), and close(),
    which is called last. Without delete, tutti's own keys stay in the store.
    """

    def set(self, key: str, value: bytes, timeout: float, /) -> None:
        """Stores a value, and replaces the one before."""
        ...

    def get(self, key: str, timeout: float, /) -> Optional[Bytes]:
        """Returns the value, or None at once if the key is not there: tutti asks again."""
        ...

    def compare_set(self, key: str, expected: bytes, desired: bytes, timeout: float, /) -> Bytes:
        """Stores `desired` if the value is `expected` (empty: or the key is missing), as one step
        for all ranks. Returns the value that is there afterwards, `expected` if there is none."""
        ...


def _status_of(error: BaseException) -> int:
    if isinstance(error, TimeoutError):
        return int(lib.TUTTI_ERR_TIMEOUT)
    return int(lib.TUTTI_ERR_NO_MEMORY if isinstance(error, MemoryError) else lib.TUTTI_ERR_STORE)


def _key(key: Any) -> str:
    return bytes(ffi.string(key)).decode("utf-8", "surrogateescape")


def _value(data: Any, size: int) -> bytes:
    return bytes(ffi.buffer(data, size)) if size else b""


def _give(ret_value: Any, value: Bytes) -> None:
    data = as_bytes(value)
    check(lib.tutti_store_value_set(ret_value, data, len(data)))


def _set(of: Any, key: Any, data: Any, size: int, ms: int) -> None:
    of.set(_key(key), _value(data, size), ms / 1000)


def _get(of: Any, key: Any, ms: int, ret_value: Any) -> Optional[int]:
    value = of.get(_key(key), ms / 1000)
    if value is None:
        return int(lib.TUTTI_ERR_NOT_READY)
    _give(ret_value, value)
    return None


def _compare_set(
    of: Any, key: Any, old: Any, old_size: int, new: Any, size: int, ms: int, ret_value: Any
) -> None:
    expected, desired = _value(old, old_size), _value(new, size)
    _give(ret_value, of.compare_set(_key(key), expected, desired, ms / 1000))


def _check(of: Any, keys: Any, count: int, ms: int, ret_present: Any) -> None:
    ret_present[0] = bool(of.check([_key(keys[i]) for i in range(count)], ms / 1000))


def _add(of: Any, key: Any, delta: int, ms: int, ret_value: Any) -> None:
    ret_value[0] = of.add(_key(key), delta, ms / 1000)


def _append(of: Any, key: Any, data: Any, size: int, ms: int) -> None:
    of.append(_key(key), _value(data, size), ms / 1000)


def _remove(of: Any, key: Any, ms: int, ret_existed: Any) -> None:
    ret_existed[0] = bool(of.delete(_key(key), ms / 1000))


def _num_keys(of: Any, ms: int, ret_count: Any) -> None:
    ret_count[0] = of.num_keys(ms / 1000)


# Members of tutti_store_ops, the method that each needs, and what calls it.
_MEMBERS = (
    ("set", "set", _set),
    ("get", "get", _get),
    ("compare_set", "compare_set", _compare_set),
    ("check", "check", _check),
    ("add", "add", _add),
    ("append", "append", _append),
    ("remove", "delete", _remove),
    ("num_keys", "num_keys", _num_keys),
)

_open: Set[Any] = set()  # handles that C has


def _callback(member: str, body: Callable[..., Optional[int]]) -> Any:
    def call(handle: Any, *arguments: Any) -> int:
        _native.raised.error = None
        try:
            return body(ffi.from_handle(handle), *arguments) or 0
        except BaseException as error:  # it belongs to the call that needs the store
            _native.raised.error = error
            return _status_of(error)

    return ffi.callback(dict(ffi.typeof("tutti_store_ops").fields)[member].type, call)


def _close(handle: Any) -> None:
    of = ffi.from_handle(handle)
    _open.discard(handle)
    if hasattr(of, "close"):
        of.close()


_callbacks: List[Any] = []  # of all members, and of close


def _make_callbacks() -> List[Any]:
    if not _callbacks:
        made = [_callback(member, body) for member, _, body in _MEMBERS]
        _callbacks.extend([*made, ffi.callback("void (*)(void *)", _close)])
    return _callbacks


class CustomStore(Store):
    """A store of the program's own, over `functions`: an object as `StoreFunctions` describes it.

    `tutti.init(store=…)` makes one of such an object by itself.
    """

    def __init__(self, functions: StoreFunctions, timeout: _native.Timeout = None) -> None:
        missing = [name for name in ("set", "get", "compare_set") if not hasattr(functions, name)]
        if missing:
            raise TypeError(
                f"a {type(functions).__name__} cannot be a store: it has no {', '.join(missing)} "
                "(see tutti.StoreFunctions)"
            )
        ops = ffi.new("tutti_store_ops *", {"struct_size": ffi.sizeof("tutti_store_ops")})
        *callbacks, ops.close = _make_callbacks()
        for (member, method, _), callback in zip(_MEMBERS, callbacks):
            if hasattr(functions, method):
                setattr(ops, member, callback)
        handle = ffi.new_handle(functions)
        ret_store = ffi.new("tutti_store **")
        check(lib.tutti_store_create(ops, handle, ret_store))
        _open.add(handle)
        super().__init__(ret_store[0], timeout, is_remote=True)
