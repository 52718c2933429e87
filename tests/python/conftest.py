# SPDX-License-Identifier: Apache-2.0
"""Starts ranks as a user would, with `tutti run`, and keeps what they said.

A start of ranks runs many cases: rank_cases.py. pytest shows each case as a test of its own.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
COMMAND = os.environ.get("TUTTI_TEST_COMMAND") or shutil.which("tutti")
DEADLINE_S = 120

sys.path.insert(0, str(HERE))


def tutti_run(ranks, script, *arguments, backend=None, check=True, variables=None):
    """The output of `tutti run -n RANKS python3 SCRIPT …`, both streams together."""
    # Ranks that a failure reaches say so before they are ended, also on a busy machine.
    command = [COMMAND, "run", "--wait", "30", "-n", str(ranks)]
    if backend:
        command += ["--backend", backend]
    command += [sys.executable, str(script), *map(str, arguments)]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        env={**os.environ, **(variables or {})},
    )
    if check:
        assert done.returncode == 0, done.stdout
    return done.stdout


class Starts:
    """Each combination of ranks and backend is started once; what its cases came to."""

    def __init__(self, folder):
        self.folder = folder
        self.results = {}

    def of(self, ranks, backend):
        if (ranks, backend) not in self.results:
            folder = self.folder / f"{ranks}-{backend}"
            folder.mkdir()
            output = tutti_run(ranks, HERE / "rank_cases.py", folder, backend=backend, check=False)
            told = [
                json.loads(line)
                for path in sorted(folder.glob("*.json"))
                for line in path.read_text().splitlines()
            ]
            self.results[ranks, backend] = (told, output)
        return self.results[ranks, backend]

    def check(self, case, ranks, backend):
        told, output = self.of(ranks, backend)
        own = [one for one in told if one["case"] == case]
        errors = [f"rank {one['rank']}: {one['error']}" for one in own if one["error"]]
        skipped = [one["skip"] for one in own if one["skip"]]
        assert not errors, "\n".join(errors)
        if len(own) != ranks:
            pytest.fail(f"{len(own)} of {ranks} ranks ended the case:\n{output[-4000:]}")
        if skipped:
            pytest.skip(skipped[0])


@pytest.fixture(scope="session")
def starts(tmp_path_factory):
    return Starts(tmp_path_factory.mktemp("starts"))


# ---- TAP, for scripts/test ----

_tap = os.environ.get("TUTTI_TEST_TAP")


def _tell(line):
    os.write(int(_tap), (line + "\n").encode())


def pytest_collection_finish(session):
    if _tap:
        _tell(f"1..{len(session.items)}")


def pytest_runtest_logreport(report):
    """One line for each test: of what it came to, or of what failed before it could run."""
    if not _tap or not (report.when == "call" or (report.when == "setup" and not report.passed)):
        return
    name = "python::" + report.nodeid.rpartition("::")[2].replace(" ", "_")
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _tell(f"ok - {name} # SKIP {reason.removeprefix('Skipped: ')}")
    else:
        _tell(f"ok - {name}" if report.passed else f"not ok - {name}")
