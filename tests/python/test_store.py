# SPDX-License-Identifier: Apache-2.0
"""Every call on every kind of store."""

import gc
import threading

import pytest

import tutti


class Functions:
    """A store of the program: a dictionary."""

    def __init__(self):
        self.values = {}
        self.closed = False

    def set(self, key, value, timeout):
        self.values[key] = value

    def get(self, key, timeout):
        return self.values.get(key)

    def compare_set(self, key, expected, desired, timeout):
        if self.values.get(key, b"") == expected:
            self.values[key] = desired
        return self.values.get(key, expected)


class MoreFunctions(Functions):
    def check(self, keys, timeout):
        return all(key in self.values for key in keys)

    def add(self, key, delta, timeout):
        self.values[key] = b"%d" % (int(self.values.get(key, 0)) + delta)
        return int(self.values[key])

    def append(self, key, value, timeout):
        self.values[key] = self.values.get(key, b"") + value

    def delete(self, key, timeout):
        return self.values.pop(key, None) is not None

    def num_keys(self, timeout):
        return len(self.values)

    def close(self):
        self.closed = True


@pytest.fixture(params=["hash", "file", "tcp", "custom", "prefix"])
def store(request, tmp_path):
    if request.param == "hash":
        yield tutti.HashStore()
    elif request.param == "file":
        yield tutti.FileStore(str(tmp_path / "store"), 1)
    elif request.param == "tcp":
        yield tutti.TCPStore("127.0.0.1", 0, is_master=True, timeout=20)
    elif request.param == "custom":
        yield tutti.CustomStore(MoreFunctions())
    else:
        yield tutti.PrefixStore("inside", tutti.HashStore())


def test_every_call(store):
    store.set("key", b"a\0b")
    assert store.get("key") == b"a\0b"
    store.set("text", "words")
    assert store.multi_get(["key", "text"]) == [b"a\0b", b"words"]
    assert store.add("sum", 3) == 3 and store.add("sum", -1) == 2 and store.get("sum") == b"2"
    assert store.compare_set("once", "", "first") == b"first"
    assert store.compare_set("once", "", "second") == b"first"
    assert store.compare_set("once", "first", "second") == b"second"
    assert store.check(["key", "once"]) and not store.check(["key", "nothing"])
    store.append("log", b"1")
    store.append("log", b"2")
    assert store.get("log") == b"12"
    store.wait(["key", "log"], timeout=5)
    assert store.num_keys() >= 5
    assert store.delete("key") and not store.delete("key")
    with pytest.raises(tutti.TimeoutError, match="key"):
        store.get("key", timeout=0.15)


def test_keys_and_values_that_are_not_valid_are_refused(store):
    for value in (5, [1, 2], None):
        with pytest.raises(TypeError, match="must be bytes or a string, not"):
            store.set("port", value)
    for key in (5, None, b"key"):
        with pytest.raises(TypeError, match="the key of a store must be a string, not"):
            store.get(key)
    with pytest.raises(ValueError, match="NUL character"):
        store.set("a\0b", b"")
    for call in (store.wait, store.check, store.multi_get):
        with pytest.raises(TypeError, match="not one string: pass .'zz'.$"):
            call("zz")
    assert not store.check(["port", "a"])


def test_a_wait_ends_when_the_key_is_there():
    store = tutti.HashStore()
    thread = threading.Timer(0.2, lambda: store.set("late", b"value"))
    thread.start()
    assert store.get("late", timeout=30) == b"value"
    thread.join()


def test_two_clients_of_a_server():
    with tutti.StoreServer() as server:
        first = tutti.TCPStore("127.0.0.1", server.port)
        assert (first.host, first.port) == ("127.0.0.1", server.port)
        second = tutti.PrefixStore("a", tutti.TCPStore("127.0.0.1", server.port))
        second.set("key", b"1")
        assert first.get("a/key") == b"1"


def test_errors_have_their_classes():
    with tutti.StoreServer() as server:
        port = server.port
    with pytest.raises((tutti.TimeoutError, tutti.StoreError)) as raised:
        tutti.TCPStore("127.0.0.1", port, timeout=0.2)
    assert str(port) in str(raised.value)
    for timeout in (-1, 0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"a timeout of {timeout} s is not valid"):
            tutti.HashStore().get("key", timeout=timeout)
    with pytest.raises(TypeError, match="a timeout of 'x' is not valid: use seconds"):
        tutti.HashStore().get("key", timeout="x")


def meet(functions, rank, results):
    try:
        with tutti.init("shm", store=functions, rank=rank, world_size=2, timeout=20) as world:
            results[rank] = world.all_gather_object(rank)
            half = world.split(0)
            half.barrier()
            half.destroy()
    except BaseException as error:
        results[rank] = error


@pytest.mark.parametrize("kind", [Functions, MoreFunctions])
def test_ranks_meet_in_a_store_of_functions(kind):
    functions, results = kind(), {}
    ranks = [threading.Thread(target=meet, args=(functions, rank, results)) for rank in range(2)]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join(60)
    assert results == {0: [0, 1], 1: [0, 1]}
    gc.collect()
    assert functions.closed == (kind is MoreFunctions)


def test_what_a_function_raises_is_the_cause_of_the_error():
    class Failing(Functions):
        def set(self, key, value, timeout):
            raise OSError("the cable is out")

    store = tutti.CustomStore(Failing())
    with pytest.raises(tutti.StoreError, match='own store: set of the key "k"') as raised:
        store.set("k", b"")
    assert str(raised.value.__cause__) == "the cable is out"
    with pytest.raises(tutti.StoreError) as raised:
        tutti.init(store=Failing(), rank=0, world_size=2, timeout=20)
    assert str(raised.value.__cause__) == "the cable is out"
    with pytest.raises(tutti.UnsupportedError, match='no function "add"') as raised:
        store.add("k", 1)
    assert raised.value.__cause__ is None
    with pytest.raises(TypeError, match="a dict cannot be a store: it has no set, compare_set"):
        tutti.init(store={}, rank=0, world_size=1)


def test_functions_that_time_out_at_once_are_asked_until_the_deadline():
    class Slow(Functions):
        def get(self, key, timeout):
            raise TimeoutError("slow")

    with pytest.raises(tutti.TimeoutError, match="store: k") as raised:
        tutti.CustomStore(Slow()).get("k", timeout=0.15)
    assert str(raised.value.__cause__) == "slow"
    with pytest.raises(tutti.TimeoutError) as raised:  # its cause belongs to the other store
        tutti.HashStore().get("k", timeout=0.15)
    assert raised.value.__cause__ is None
    with pytest.raises(tutti.TimeoutError):
        tutti.init(store=Slow(), rank=0, world_size=2, timeout=0.5)


def test_a_value_that_is_no_bytes_is_the_cause_of_the_error():
    class Wrong(Functions):
        def get(self, key, timeout):
            return 3.5

    with pytest.raises(tutti.StoreError) as raised:
        tutti.CustomStore(Wrong()).get("k", timeout=5)
    assert isinstance(raised.value.__cause__, TypeError)
