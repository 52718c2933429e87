# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, ranks that end, forked children. A watchdog ends what hangs."""

import asyncio
import faulthandler
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

import tutti
from conftest import DEADLINE_S, HERE, tutti_run
from tutti import _loop, _native


@pytest.fixture(autouse=True)
def watchdog():
    faulthandler.dump_traceback_later(DEADLINE_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize("backend", ["shm", "tcp"])
def test_ctrl_c_leaves_each_wait_for_others(backend):
    output = tutti_run(2, HERE / "faults.py", "interrupted", backend=backend)
    for name in ("all_reduce", "recv", "wait", "objects", "split", "batch"):
        assert f"rank 0: {name} was interrupted" in output


@pytest.mark.parametrize("backend", ["shm", "tcp"])
def test_survivors_name_the_rank_that_was_killed(backend):
    output = tutti_run(3, HERE / "faults.py", "killed", backend=backend, check=False)
    for rank in (0, 2):
        assert f"rank {rank}: lost rank 1" in output, output


def test_a_rank_that_leaves_its_group_open_is_lost_to_the_others():
    output = tutti_run(3, HERE / "faults.py", "left_open", check=False)
    assert "rank 1: leaves with <tutti.Work" in output, output
    for rank in (0, 2):  # before their timeout, which would be another error
        assert re.search(rf"rank {rank}: group world: rank 1 .* was lost: ", output), output


def test_an_error_that_was_handled_is_not_raised_again_at_the_end():
    output = tutti_run(2, HERE / "faults.py", "handled", check=False)
    for rank in (0, 1):
        assert f"rank {rank}: ends well" in output, output


def test_an_error_that_no_call_has_raised_is_raised_at_the_end():
    output = tutti_run(2, HERE / "faults.py", "unseen", check=False)
    for rank in (0, 1):
        assert f"rank {rank}: group world: members called different things" in output, output


def test_sys_exit_0_in_the_body_is_no_abort():
    output = tutti_run(2, HERE / "faults.py", "exits")
    for rank in (0, 1):
        assert f"rank {rank}: received 1" in output, output


def test_a_forked_child_gets_errors():
    output = tutti_run(2, HERE / "faults.py", "forked")
    assert "rank 0: goes on" in output and "rank 1: goes on" in output


def interrupt_soon():
    thread = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    thread.start()
    return thread


def test_ctrl_c_leaves_waits_of_one_process():
    with tutti.init(rank=0, world_size=1, store=tutti.HashStore()) as world:
        work = world.recv_async(bytearray(1), 0)
        for wait in (
            lambda: world.recv(bytearray(1), 0, tag=1),
            work.wait,
            lambda: work.wait(timeout=50),
            lambda: tutti.wait_any([work]),
            lambda: tutti.HashStore().get("never"),
            lambda: tutti.TCPStore("127.0.0.1", 9, timeout=2),
            lambda: tutti.init(
                rank=0, world_size=2, store=tutti.HashStore(), name="two", timeout=1
            ),
        ):
            thread = interrupt_soon()
            with pytest.raises(KeyboardInterrupt):
                wait()
            thread.join()
        assert work.cancel()
        world.abort("its receive was interrupted")
        with pytest.raises(tutti.AbortedError):
            world.destroy()


def test_a_program_that_is_interrupted_in_init_ends():
    program = "import tutti; tutti.init(rank=0, world_size=2, store=tutti.HashStore())"
    process = subprocess.Popen(
        [sys.executable, "-c", "print('begins', flush=True); " + program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "begins\n"
    threading.Event().wait(1)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=DEADLINE_S)
    assert "KeyboardInterrupt" in words and process.returncode == -signal.SIGINT, words


def test_a_work_that_cannot_be_watched_leaves_nothing_in_its_loop(monkeypatch):
    class Lib:
        def __getattr__(self, name):
            return getattr(_native.lib, name)

        def tutti_work_watch(self, work):
            return _native.lib.TUTTI_ERR_NO_MEMORY

    async def main(work):
        with pytest.raises(tutti.NoMemoryError):
            await work
        assert not _loop._waiting and not _loop._readers

    monkeypatch.setattr(_loop, "lib", Lib())
    with tutti.init(rank=0, world_size=1, store=tutti.HashStore()) as world:
        work = world.recv_async(bytearray(1), 0)
        asyncio.run(main(work))
        assert work.cancel()
