# SPDX-License-Identifier: Apache-2.0
"""Every call on every kind of store."""

import threading

import pytest

import tutti


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request, tmp_path):
    if request.param == "hash":
        yield tutti.HashStore()
    elif request.param == "file":
        yield tutti.FileStore(str(tmp_path / "store"), 1)
    elif request.param == "tcp":
        yield tutti.TCPStore("127.0.0.1", 0, is_master=True, timeout=20)
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
    with pytest.raises(ValueError, match="timeout of -1"):
        tutti.HashStore().get("key", timeout=-1)
