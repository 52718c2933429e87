# SPDX-License-Identifier: Apache-2.0
"""bench/python_bench: that it measures, and what it says of libraries that are not there."""

import pathlib
import subprocess
import sys

from conftest import COMMAND

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(COMMAND).parents[1]


def bench(*arguments):
    return subprocess.run(
        [ROOT / "bench/python_bench", "--build", BUILD, "--seconds", "0.01", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )


def test_numpy_is_measured_beside_c():
    done = bench("--only", "numpy", "--python", sys.executable, "8", "4096")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if " on top of C" in line]
    assert [row[0] for row in rows] == ["8", "4096"], done.stdout
    # mpi4py has a column, or the reason why it has none.
    assert ("of mpi4py" in done.stdout) != ("mpi4py is left out" in done.stderr), done.stderr


def test_what_is_not_installed_is_left_out_in_words(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
    python.chmod(0o755)
    done = bench("--only", "torch", "--torch-python", python)
    assert done.returncode == 1
    assert "torch is left out (pip install torch, and --torch-python)" in done.stderr
    assert "No module named 'torch'" in done.stderr
    done = bench("--only", "jax")
    assert done.returncode == 2 and "--only jax is not valid: use numpy, torch" in done.stderr
    done = bench("7")
    assert done.returncode == 2 and "7 bytes are no whole number of floats" in done.stderr
