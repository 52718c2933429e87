# SPDX-License-Identifier: Apache-2.0
"""Stores: keys and values through which ranks meet, for the program's own use, too."""

from __future__ import annotations

import time
import weakref
from typing import Any, Iterable, List, Optional, Sequence, Union

from . import _wait
from ._errors import TimeoutError as TuttiTimeoutError
from ._native import Timeout, check, check_with_store, encoded, ffi, lib, milliseconds

Bytes = Union[bytes, bytearray, memoryview, str]

_SLICE_MS = 100  # how long a wait takes no notice of Ctrl-C
_DEFAULT_MS = 300_000  # of a store that was opened without a timeout


def as_bytes(value: Bytes) -> bytes:
    """A value; a str is its UTF-8. bytes(5) would be five zeros, so only buffers are taken."""
    if isinstance(value, str):
        return value.encode()
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise TypeError(
            f"a value of a store must be bytes or a string, not {type(value).__name__}"
        ) from None


def _key(key: str) -> bytes:
    return encoded(key, "the key of a store")


def _list_of(keys: Iterable[str]) -> List[str]:
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"keys must be a list of strings, not one string: pass [{keys!r}]")
    return list(keys)


def _keys(keys: List[str]) -> Any:
    words = [ffi.new("char[]", _key(key)) for key in keys]
    return ffi.new("char *[]", words), words


def _taken(value: Any) -> bytes:
    """The bytes of a tutti_store_value, which is freed."""
    data = bytes(ffi.buffer(value.data, value.size))
    lib.tutti_store_value_free(ffi.addressof(value))
    return data


class Store:
    """What all stores do. Keys are strings, values bytes. Any thread may call it.

    `timeout` in seconds is that of one call; without it that of the store, 300 seconds if it has
    none.
    """

    def __init__(self, pointer: Any, timeout: Timeout = None, is_remote: bool = False) -> None:
        self._store = pointer
        self._timeout_ms = milliseconds(timeout)
        self._is_remote = is_remote  # a call may wait for a server
        self._unref = weakref.finalize(self, lib.tutti_store_unref, pointer)
        self._unref.atexit = False

    def _pointer(self) -> Any:
        return self._store

    def _do(self, function: Any, *arguments: Any) -> None:
        def call() -> None:
            check_with_store(lambda: function(self._store, *arguments))

        if self._is_remote:
            _wait.interruptible(call)
        else:
            call()

    def _ms(self, timeout: Timeout) -> int:
        return milliseconds(timeout) or self._timeout_ms

    def set(self, key: str, value: Bytes, timeout: Timeout = None) -> None:
        """Stores a value, and replaces the one before."""
        data = as_bytes(value)
        self._do(lib.tutti_store_set, _key(key), data, len(data), self._ms(timeout))

    def get(self, key: str, timeout: Timeout = None) -> bytes:
        """Waits until the key is there, and returns its value."""
        return self.multi_get([key], timeout)[0]

    def add(self, key: str, delta: int, timeout: Timeout = None) -> int:
        """Adds to the decimal value of the key (missing: 0), and returns the sum."""
        ret_value = ffi.new("int64_t *")
        self._do(lib.tutti_store_add, _key(key), delta, self._ms(timeout), ret_value)
        return int(ret_value[0])

    def compare_set(
        self, key: str, expected: Bytes, desired: Bytes, timeout: Timeout = None
    ) -> bytes:
        """Stores `desired` if the value is `expected` (empty: or the key is missing). Returns the
        value that is there afterwards."""
        old, new = as_bytes(expected), as_bytes(desired)
        value = ffi.new("tutti_store_value *")
        self._do(
            lib.tutti_store_compare_set,
            _key(key),
            old,
            len(old),
            new,
            len(new),
            self._ms(timeout),
            value,
        )
        return _taken(value[0])

    def check(self, keys: Sequence[str], timeout: Timeout = None) -> bool:
        """Whether all keys are there now."""
        keys = _list_of(keys)
        words, _keep = _keys(keys)
        ret_present = ffi.new("int32_t *")
        self._do(lib.tutti_store_check, words, len(keys), self._ms(timeout), ret_present)
        return bool(ret_present[0])

    def wait(self, keys: Sequence[str], timeout: Timeout = None) -> None:
        """Waits until all keys are there."""
        keys = _list_of(keys)
        words, _keep = _keys(keys)
        total = self._ms(timeout) or _DEFAULT_MS
        until = time.monotonic() + total / 1000
        while True:
            left = max(1, round((until - time.monotonic()) * 1000))
            arguments = (self._store, words, len(keys), min(left, _SLICE_MS))
            try:
                return check_with_store(lambda: lib.tutti_store_wait(*arguments))
            except TuttiTimeoutError as error:
                cause = error.__cause__
            if time.monotonic() >= until:
                raise TuttiTimeoutError(
                    f"timed out after {total / 1000:g} s waiting for keys of the store: "
                    + ", ".join(keys),
                    operation="wait",
                ) from cause

    def multi_get(self, keys: Sequence[str], timeout: Timeout = None) -> List[bytes]:
        """Waits for all keys, and returns their values in order."""
        keys = _list_of(keys)
        self.wait(keys, timeout)
        words, _keep = _keys(keys)
        values = ffi.new("tutti_store_value[]", max(1, len(keys)))
        self._do(lib.tutti_store_multi_get, words, len(keys), self._ms(timeout), values)
        return [_taken(values[i]) for i in range(len(keys))]

    def append(self, key: str, value: Bytes, timeout: Timeout = None) -> None:
        """Adds bytes at the end of the key's value (missing: empty)."""
        data = as_bytes(value)
        self._do(lib.tutti_store_append, _key(key), data, len(data), self._ms(timeout))

    def delete(self, key: str, timeout: Timeout = None) -> bool:
        """Removes the key. Whether it was there."""
        ret_existed = ffi.new("int32_t *")
        self._do(lib.tutti_store_delete, _key(key), self._ms(timeout), ret_existed)
        return bool(ret_existed[0])

    def num_keys(self, timeout: Timeout = None) -> int:
        """The number of keys in the whole store, also outside of a prefix."""
        ret_count = ffi.new("int64_t *")
        self._do(lib.tutti_store_num_keys, self._ms(timeout), ret_count)
        return int(ret_count[0])


def _open(open_store: Any, *arguments: Any) -> Any:
    ret_store = ffi.new("tutti_store **")
    check(open_store(*arguments, ret_store))
    return ret_store[0]


class HashStore(Store):
    """A store of this process only: for tests, and for threads."""

    def __init__(self) -> None:
        super().__init__(_open(lib.tutti_store_open_hash))


class FileStore(Store):
    """A store in a file that all ranks can open. With a `world_size`, the last rank that closes
    removes it."""

    def __init__(self, path: str, world_size: int = 0, timeout: Timeout = None) -> None:
        pointer = _open(
            lib.tutti_store_open_file,
            encoded(str(path), "the path of a store"),
            world_size,
            milliseconds(timeout),
        )
        super().__init__(pointer, timeout)


class StoreServer:
    """Serves a tcp store from a thread of this process. Port 0: a free one, which is `port`
    then."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        ret_server = ffi.new("tutti_store_server **")
        check(lib.tutti_store_server_start(encoded(address, "the address"), port, ret_server))
        self.address = address
        self.port: int = lib.tutti_store_server_port(ret_server[0])
        self._stop = weakref.finalize(self, lib.tutti_store_server_stop, ret_server[0])
        self._stop.atexit = False

    def stop(self) -> None:
        """Stops serving; clients see the connection end."""
        self._stop()

    def __enter__(self) -> "StoreServer":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


class TCPStore(Store):
    """A client of the store at host:port. With `is_master` this process serves it, too, as in
    torch; `port` may be 0 then, and `TCPStore.port` is the one that was taken."""

    def __init__(
        self, host: str, port: int, is_master: bool = False, timeout: Timeout = None
    ) -> None:
        self.server: Optional[StoreServer] = StoreServer(host, port) if is_master else None
        host_name = encoded(host, "the host of a store")
        self.host = host
        self.port: int = self.server.port if self.server else port
        pointer = _wait.interruptible(
            lambda: _open(
                lib.tutti_store_open_tcp, host_name, self.port, milliseconds(timeout)
            ),
            lib.tutti_store_unref,
        )
        super().__init__(pointer, timeout, is_remote=True)


class PrefixStore(Store):
    """A view of `store` in which every key is preceded by `prefix` and '/'."""

    def __init__(self, prefix: str, store: Store) -> None:
        pointer = _open(lib.tutti_store_open_prefix, store._pointer(), encoded(prefix, "the prefix"))
        super().__init__(pointer, is_remote=store._is_remote)
        self._timeout_ms = store._timeout_ms
