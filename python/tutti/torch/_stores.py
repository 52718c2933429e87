# SPDX-License-Identifier: Apache-2.0
"""Where the members of a group meet: in torch's store, or in that of the job.

The decision is the same for both forms of the backend, and leads to the same keys, so members of
one group may have different forms.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, List, NamedTuple, Optional

from torch._C._distributed_c10d import HashStore, PrefixStore, TCPStore

import tutti
from tutti._custom import CustomStore

_RESOLVE_WITHIN_S = 10.0


class Meeting(NamedTuple):
    """What a store of torch is."""

    root: Any  # under all prefixes
    of_job: bool  # tutti_init(NULL) of a program in this process's place would use it
    in_process: bool  # all members are threads of this process


def _is_of_job(store: Any) -> bool:
    url = os.environ.get("TUTTI_STORE")
    if url is not None:
        return url == f"tcp://{store.host}:{store.port}"
    return (store.host, str(store.port)) == (
        os.environ.get("MASTER_ADDR"),
        os.environ.get("MASTER_PORT"),
    )


def find_meeting(store: Any, world: bool) -> Meeting:
    """`world`: the members are all ranks of the job, as their launcher has numbered them."""
    root = store
    while isinstance(root, PrefixStore):
        root = root.underlying_store
    of_job = world and isinstance(root, TCPStore) and _is_of_job(root)
    return Meeting(root, of_job, isinstance(root, HashStore))


class _Functions:
    """A store of torch, of whatever class, as tutti.init() takes a store of the program's own.
    torch's stores have a timeout of their own."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def set(self, key: str, value: bytes, _: float) -> None:
        self._store.set(key, value)

    def get(self, key: str, _: float) -> Optional[bytes]:
        if not self._store.check([key]):  # the store's own get() waits for the key
            return None
        value: bytes = self._store.get(key)
        return value

    def compare_set(self, key: str, expected: bytes, desired: bytes, _: float) -> bytes:
        value: bytes = self._store.compare_set(key, expected, desired)
        return value

    def check(self, keys: List[str], _: float) -> bool:
        return bool(self._store.check(keys))

    def delete(self, key: str, _: float) -> bool:
        try:
            return bool(self._store.delete_key(key))
        except Exception:  # not every store can; a key that stays does no harm
            return False


def open_store(store: Any, meeting: Meeting, timeout: timedelta) -> tutti.Store:
    """The store in which a group meets. That of the job is opened a second time, with a connection
    of tutti's own: tutti then publishes the address of the route to it."""
    if not meeting.of_job:
        return CustomStore(_Functions(store))
    within = min(timeout.total_seconds(), _RESOLVE_WITHIN_S)
    try:
        return tutti.TCPStore(meeting.root.host, meeting.root.port, timeout=within)
    except tutti.Error:  # a host that only torch can resolve
        return CustomStore(_Functions(meeting.root))
