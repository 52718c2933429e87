# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, ranks that end, forked children. A watchdog ends what hangs."""

import faulthandler
import os
import signal
import subprocess
import sys
import threading

import pytest

import tutti
from conftest import DEADLINE_S, HERE, tutti_run


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


def test_a_rank_that_leaves_its_group_open_ends_at_once():
    output = tutti_run(3, HERE / "faults.py", "left_open", check=False)
    assert "rank 1: leaves with <tutti.Work" in output, output
    for rank in (0, 2):
        assert f"rank {rank}: " in output, output


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
