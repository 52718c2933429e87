# SPDX-License-Identifier: Apache-2.0
"""Ranks of tutti.spawn()."""

import multiprocessing

import pytest
import spawned

import tutti


def test_results_come_back_in_the_order_of_ranks():
    results = tutti.spawn(spawned.total, (1,), nprocs=3, variables={"OF_THE_TEST": "yes"})
    assert results == [(rank, 3, 6, "yes") for rank in range(3)]


def test_the_first_failure_is_raised_with_its_traceback():
    with pytest.raises(tutti.ProcessError) as raised:
        tutti.spawn(spawned.raises, (1,), nprocs=2)
    words = str(raised.value)
    assert "LookupError: nothing for rank 1" in words and "spawned.py" in words, words
    assert not multiprocessing.active_children()


def test_a_killed_rank_ends_the_others():
    with pytest.raises(tutti.ProcessError, match="rank 1 was ended by SIGKILL") as raised:
        tutti.spawn(spawned.is_killed, (1,), nprocs=2)
    assert raised.value.rank == 1 and raised.value.exitcode == -9
    assert not multiprocessing.active_children()


def test_a_signal_without_a_name_has_its_number():
    with pytest.raises(tutti.ProcessError, match="rank 0 was ended by signal 40"):
        tutti.spawn(spawned.is_ended_by, (40,), nprocs=1)


def test_an_exit_code_is_a_failure():
    with pytest.raises(tutti.ProcessError, match="exit code 3") as raised:
        tutti.spawn(spawned.exits, nprocs=1)
    assert raised.value.exitcode == 3
    with pytest.raises(ValueError, match="nprocs=0"):
        tutti.spawn(spawned.exits, nprocs=0)
