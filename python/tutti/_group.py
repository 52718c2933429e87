# SPDX-License-Identifier: Apache-2.0
"""Groups: what they are, and how they are made, left and aborted. Their operations are in
_operations.py."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from . import _errors, _plugins, _wait
from ._custom import CustomStore, StoreFunctions
from ._errors import Error, InvalidArgumentError
from ._native import Timeout, check, check_with_store, encoded, ffi, int32, lib, milliseconds, text
from ._messages import Messages
from ._objects import Objects
from ._operations import Operations
from ._store import Store

_PROOFS = ("none", "file", "variable", "launcher", "own file")
_ENCRYPTION = ("none", "partly", "full")


def _name_of(number: int, names: Sequence[str]) -> str:
    """A newer library may have more numbers than there are names here."""
    return names[number] if 0 <= number < len(names) else f"unknown ({number})"


def _ranks(ranks: Sequence[int]) -> Any:
    return ffi.new("int32_t[]", [int32(rank, "rank") for rank in ranks])


class GroupStatus(NamedTuple):
    """What a member knows of its group; `Group.status()`."""

    ready: bool  # False: it has failed
    error: str  # why, the same on all survivors; "" while it is ready
    status: int  # the number of that error, 0 while it is ready
    culprit: Optional[int]  # the rank that the error is about
    completed: int  # the number of the last collective that was completed here; 0: none
    hosts: int
    local_size: int  # members on this host
    local_rank: int  # this member's place among them
    proof: str  # where the secret is from: "none", "file", "variable", "launcher", "own file"
    encryption: str  # of what members send each other (TUTTI_TLS): "none", "partly", "full"


class Traffic(NamedTuple):
    """What this member has moved since the group was made; `Group.traffic()`."""

    sent_bytes: int
    received_bytes: int
    sent_messages: int
    mapped_bytes: int


class Memory:
    """Memory that the other members on this host see, so that calls on it need no copies:
    `Group.memory()`.

    `view` is a writable memoryview of its bytes; numpy.frombuffer(memory.view, dtype) makes an
    array of it.
    """

    def __init__(self, group: "Group", nbytes: int) -> None:
        ret_memory = ffi.new("tutti_memory **")
        pointer = group._pointer()
        _wait.interruptible(lambda: check(lib.tutti_memory_allocate(pointer, nbytes, ret_memory)))
        self._memory = ret_memory[0]
        self.peers: int = lib.tutti_memory_peers(self._memory)
        buffer = ffi.buffer(lib.tutti_memory_address(self._memory), nbytes)
        self._buffer = weakref.ref(buffer)  # lives as long as any view or array of the memory
        self.view: memoryview = memoryview(buffer)

    def free(self) -> None:
        """Frees the memory. Raises BufferError if an array still uses it. `view` is empty then."""
        if self._memory is None:
            return
        self.view = memoryview(b"")
        buffer = self._buffer()
        if buffer is not None:
            self.view = memoryview(buffer)
            raise BufferError(
                "the shared memory is not freed: an array or a memoryview still uses it"
            )
        memory, self._memory = self._memory, None
        check(lib.tutti_memory_free(memory))


class Group(Operations, Messages, Objects):
    """An ordered set of members, of which this process is one. Made by `tutti.init()`, `new()` and
    `split()`.

    In a `with` statement it is destroyed at the end. If the body raises, the group is aborted
    first, so that no other member waits for this one. sys.exit(0) is an end like any other. An
    error of the group that a call has raised before is not raised again at the end.
    """

    def __init__(self, pointer: Any, world: Optional["Group"] = None) -> None:
        Operations.__init__(self, int(ffi.cast("uintptr_t", pointer)))
        self.rank: int = lib.tutti_group_rank(pointer)
        self.size: int = lib.tutti_group_size(pointer)
        self.name: str = text(lib.tutti_group_name(pointer))
        self.backend: str = text(lib.tutti_group_backend(pointer))
        self._told_before = _errors.last_told()
        self._world = world  # which has the store that groups meet in
        self._memories: "weakref.WeakSet[Memory]" = weakref.WeakSet()

    def _pointer(self) -> Any:
        if not self._address:
            raise InvalidArgumentError(f"the group {self.name} was destroyed")
        return ffi.cast("tutti_group *", self._address)

    def __repr__(self) -> str:
        state = f"over {self.backend}" if self._address else "destroyed"
        return f"<tutti.Group {self.name}: rank {self.rank} of {self.size}, {state}>"

    # ---- groups from groups ----

    def _options(self, backend: Optional[str], name: Optional[str], timeout: Timeout) -> Any:
        keep = [
            ffi.new("char[]", encoded(word, what)) if word else ffi.NULL
            for what, word in (("backend", backend), ("name", name))
        ]
        options = ffi.new("tutti_group_options *")
        options.struct_size = ffi.sizeof("tutti_group_options")
        options.backend, options.name = keep
        options.timeout_ms = milliseconds(timeout)
        return options, keep

    def new(
        self,
        ranks: Optional[Sequence[int]] = None,
        *,
        backend: Optional[str] = None,
        name: Optional[str] = None,
        timeout: Timeout = None,
    ) -> Optional["Group"]:
        """Makes a group of members of this one, by their ranks here (None: all). Each of them calls
        it with the same arguments; others may. None for a caller that is not in the list."""
        options, keep = self._options(backend, name, timeout)
        members = ffi.NULL if ranks is None else _ranks(ranks)
        count = 0 if ranks is None else len(ranks)
        return self._make(
            lambda ret: lib.tutti_group_new(self._pointer(), members, count, options, ret), keep
        )

    def split(
        self,
        color: int,
        key: int = 0,
        *,
        backend: Optional[str] = None,
        name: Optional[str] = None,
        timeout: Timeout = None,
    ) -> Optional["Group"]:
        """Divides the group: members with the same `color` make a group, ordered by `key` and then
        by their rank. Collective. With a negative color a member joins none and gets None."""
        options, keep = self._options(backend, name, timeout)
        numbers = int32(color, "split: color"), int32(key, "split: key")
        return self._make(
            lambda ret: lib.tutti_group_split(self._pointer(), *numbers, options, ret), keep
        )

    def _make(self, call: Any, keep: List[Any]) -> Optional["Group"]:
        def make() -> Any:
            ret_group = ffi.new("tutti_group **")
            check_with_store(lambda: call(ret_group))
            del keep[:]  # it was needed until here
            return ret_group[0]

        pointer = _wait.interruptible(make, lambda late: lib.tutti_group_destroy(late))
        return Group(pointer, self._world or self) if pointer else None

    def translate(self, ranks: Sequence[int], to: "Group") -> List[Optional[int]]:
        """The ranks that members of this group have in the group `to`; None for one that is not in
        it."""
        ret_ranks = ffi.new("int32_t[]", max(1, len(ranks)))
        given = _ranks(ranks)
        check(
            lib.tutti_group_translate(self._pointer(), given, len(ranks), to._pointer(), ret_ranks)
        )
        return [rank if rank >= 0 else None for rank in list(ret_ranks)[: len(ranks)]]

    @property
    def world_ranks(self) -> List[int]:
        """The members' ranks in the world."""
        ret_ranks = ffi.new("int32_t[]", self.size)
        check(lib.tutti_group_world_ranks(self._pointer(), ret_ranks))
        return list(ret_ranks)

    # ---- state ----

    @property
    def timeout(self) -> float:
        """The default timeout of calls in seconds. Set it for later calls, and for groups made from
        this one."""
        return float(lib.tutti_group_timeout(self._pointer())) / 1000

    @timeout.setter
    def timeout(self, timeout: Timeout) -> None:
        check(lib.tutti_group_set_timeout(self._pointer(), milliseconds(timeout)))

    def status(self) -> GroupStatus:
        """The group's state as far as this member knows. Never waits."""
        info = ffi.new("tutti_group_info *", {"struct_size": ffi.sizeof("tutti_group_info")})
        check(lib.tutti_group_status(self._pointer(), info))
        return GroupStatus(
            ready=info.state == lib.TUTTI_GROUP_READY,
            error=text(info.words),
            status=info.verdict,
            culprit=info.culprit if info.culprit >= 0 else None,
            completed=info.completed,
            hosts=info.hosts,
            local_size=info.local_size,
            local_rank=info.local_rank,
            proof=_name_of(info.proof, _PROOFS),
            encryption=_name_of(info.encryption, _ENCRYPTION),
        )

    def traffic(self) -> Traffic:
        """The bytes that this member has moved."""
        traffic = ffi.new("tutti_traffic *", {"struct_size": ffi.sizeof("tutti_traffic")})
        check(lib.tutti_group_traffic(self._pointer(), traffic))
        return Traffic(
            traffic.sent_bytes, traffic.received_bytes, traffic.sent_messages, traffic.mapped_bytes
        )

    def memory(self, nbytes: int) -> Memory:
        """Allocates memory that the members on this host see. Collective."""
        memory = Memory(self, nbytes)
        self._memories.add(memory)
        return memory

    # ---- the end ----

    def abort(self, reason: Optional[str] = None) -> None:
        """Ends the group on all members: every call raises tutti.AbortedError with the reason. From
        any thread."""
        words = ffi.NULL
        if reason is not None:
            words = ffi.new("char[]", encoded(reason, "the reason of abort()"))
        check(lib.tutti_group_abort(self._pointer(), words))

    def destroy(self) -> None:
        """Leaves the group. Waits until this member's own operations are complete. Raises the error
        of a group that has failed; the group is gone in any case. A second call does nothing."""
        if not self._address:
            return
        for memory in list(self._memories):
            memory.free()
        pointer, self._address = self._pointer(), 0
        _wait.interruptible(lambda: check(lib.tutti_group_destroy(pointer)))

    def _destroy_unless_told(self) -> None:
        """destroy(), but an error of the group that a call has raised is not raised again."""
        words = self.status().error if self._address else ""
        was_told = bool(words) and _errors.was_told(words, self._told_before)
        try:
            self.destroy()
        except Error as error:
            if not was_told or str(error) != words:
                raise

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            self._destroy_unless_told()
            return
        try:  # the body's error is the one to see
            if self._address and self.status().ready:
                self.abort(f"rank {self.rank} raised {type(error).__name__}: {error}")
            self.destroy()
        except (Error, BufferError):
            pass


def init(
    backend: Optional[str] = None,
    init_url: Optional[str] = None,
    store: Union[Store, StoreFunctions, None] = None,
    rank: Optional[int] = None,
    world_size: Optional[int] = None,
    timeout: Timeout = None,
    name: Optional[str] = None,
    *,
    run_id: Optional[str] = None,
    wrap: Optional[str] = None,
) -> Group:
    """Meets the other ranks and returns the world, the group of all of them.

    Without arguments everything comes from the environment, which `tutti run`, torchrun, mpirun and
    srun set.

    backend     "auto", "shm", "tcp", "mpi", …, or "local=NAME,remote=NAME"
    init_url    where the ranks meet: "env://", "tcp://HOST:PORT", "file:///PATH"
    store       a store instead, or an object with the methods of `StoreFunctions`; `rank` and
                `world_size` must be given then
    timeout     the default timeout of all calls in seconds, 30 minutes if it is not given
    name        of the world in messages; worlds of different members in one store need different
                names
    run_id      tells apart jobs that share a store
    wrap        wrappers around the backend, such as "trace,check"
    """
    _plugins.offer(backend, wrap)
    words = {
        "backend": backend,
        "init_url": init_url,
        "run_id": run_id,
        "group_name": name,
        "wrap": wrap,
    }
    return meet(words, store, rank, world_size, timeout)


def meet(
    words: Dict[str, Optional[str]],
    store: Union[Store, StoreFunctions, None],
    rank: Optional[int],
    world_size: Optional[int],
    timeout: Timeout,
    context: Any = ffi.NULL,
) -> Group:
    """What init() does; `words` are the strings of tutti_init_options. Groups whose members are
    threads of one process need a `context` each, which the caller destroys after the group."""
    keep = {
        field: ffi.new("char[]", encoded(word, field)) for field, word in words.items() if word
    }
    options = ffi.new("tutti_init_options *", keep)
    options.struct_size = ffi.sizeof("tutti_init_options")
    options.timeout_ms = milliseconds(timeout)
    options.context = context
    if (rank is None) != (world_size is None):
        raise ValueError("init: give both rank and world_size, or neither")
    if rank is not None and world_size is not None:
        options.rank = int32(rank, "init: rank")
        options.world_size = int32(world_size, "init: world_size")
        if world_size < 1:
            raise ValueError(f"init: a world_size of {world_size} is not valid: use 1 or more")
    own = CustomStore(store) if store is not None and not isinstance(store, Store) else store
    if own is not None:
        options.store = own._pointer()

    def make(_kept: Any = (keep, own)) -> Any:  # which live as long as this function does
        ret_world = ffi.new("tutti_group **")
        check_with_store(lambda: lib.tutti_init(options, ret_world))
        return ret_world[0]

    return Group(_wait.interruptible(make, lambda late: lib.tutti_group_destroy(late)))


def is_initialized() -> bool:
    """Whether this process has a world."""
    return bool(lib.tutti_is_initialized())
