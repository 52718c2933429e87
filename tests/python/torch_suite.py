# SPDX-License-Identifier: Apache-2.0
"""Runs the distributed tests that PyTorch ships, over the backend tutti, and writes TAP.

    torch_suite.py EXPECTED FOLDER [NAME...]

EXPECTED lists tests, a line each, with tabs: its name, and "pass" or the reason why it cannot pass,
for the compiled form of the backend and, if that differs, for the form in Python. The compiled one
is tested where it is there. Each listed test (or those named) runs on WORLD_SIZE ranks, 2 by
default. A test that does not end as its line says is a failure. With a NAME that is not listed, the
line "NAME<tab>result" is printed as well. FOLDER is for the tests' files.

Many of PyTorch's tests are skipped unless the backend is called gloo or mpi, although they ask
nothing else of it. So the module is loaded with a name that is called tutti and equals these, and
without its list of the backends that torch was built with. Ranks are forked from this process,
which has loaded torch for all of them.
"""

import importlib.util
import os
import sys
import types
import unittest

import torch.multiprocessing
from tutti.torch import _build

SUITE = "torch.testing._internal.distributed.distributed_test"
AVAILABLE = "    if BACKEND not in backends:\n"


class Name(str):
    """A name of a backend for which all tests of gloo and mpi are meant."""

    def __eq__(self, other):
        return str.__eq__(self, other) or other in ("gloo", "mpi")

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


def set_environment(folder):
    os.makedirs(folder, exist_ok=True)
    for name in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    os.environ.update(
        BACKEND="tutti",
        TEMP_DIR=folder,
        INIT_METHOD=f"file://{folder}/shared_init",
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="60",
        TORCH_CPP_LOG_LEVEL="ERROR",
        OMP_NUM_THREADS="1",
    )
    os.environ.setdefault("WORLD_SIZE", "2")


def load_suite():
    """PyTorch's module, with BACKEND replaced and without the check of availability."""
    from torch.testing._internal import common_distributed

    for feature in ("ddp", "subgroup", "plugin", "gpu"):
        common_distributed.DistTestCases.backend_feature.setdefault(feature, set()).add("tutti")
    spec = importlib.util.find_spec(SUITE)
    with open(spec.origin, encoding="utf-8") as file:
        source = file.read()
    line = 'BACKEND = os.environ["BACKEND"]\n'
    if line not in source or AVAILABLE not in source:
        sys.exit(f"{spec.origin} is not as this driver knows it")
    source = source.replace(line, "BACKEND = _the_backend\n").replace(
        AVAILABLE, "    return lambda func: func\n" + AVAILABLE
    )
    module = types.ModuleType(SUITE)
    module.__file__ = spec.origin
    module._the_backend = Name("tutti")
    sys.modules[SUITE] = module
    exec(compile(source, spec.origin, "exec"), module.__dict__)
    return module


class Outcome(unittest.TestResult):
    """What each test came to: "pass", "fail: WORDS" or "skip: WORDS"."""

    def __init__(self):
        super().__init__()
        self.of = {}

    def addSuccess(self, test):
        self.of.setdefault(name_of(test), "pass")

    def addError(self, test, error):
        self.of[name_of(test)] = "fail: " + self._exc_info_to_string(error, test)

    addFailure = addError

    def addSkip(self, test, reason):
        self.of[name_of(test)] = "skip: " + reason


def name_of(test):
    return test.id().rpartition(".")[2]


def read_expected(path, is_compiled):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file if line[0] not in "#\n"]
    return {line[0]: line[1] if is_compiled else line[-1] for line in lines}


def judge(label, name, expected, outcome):
    """One case of TAP. A test with a reason must fail, or the reason is no longer one."""
    if outcome is None or outcome.startswith("skip"):
        good = False
    elif expected == "pass":
        good = outcome == "pass"
    else:
        good = outcome.startswith("fail")
    if expected not in ("pass", None) and good:
        print(f"ok - {label}::{name} # SKIP {expected}", flush=True)
    else:
        print(f"{'ok' if good else 'not ok'} - {label}::{name}", flush=True)
    if not good:
        print(
            f"{name}: expected {expected}, and it came to:\n{outcome}", file=sys.stderr, flush=True
        )
    return good


def main():
    is_compiled = _build.path().exists()
    expected = read_expected(sys.argv[1], is_compiled)
    set_environment(os.path.abspath(sys.argv[2]))
    suite = load_suite()

    class TestTutti(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    # Children look the class up by its name.
    globals()["TestTutti"] = TestTutti
    TestTutti.__qualname__ = "TestTutti"
    every = unittest.defaultTestLoader.getTestCaseNames(TestTutti)
    names = sys.argv[3:] or list(expected)
    if names == ["all"]:
        names = every
    form = "compiled" if is_compiled else "python"
    over = os.environ.get("TUTTI_BACKEND", os.environ.get("TORCH_DISTRIBUTED_DEBUG", "auto"))
    label = f"torch_{form}_{over.lower()}"
    good = True
    for name in names:
        outcome = Outcome()
        if name in every:
            TestTutti(name).run(outcome)
        found = outcome.of.get(name)
        if name not in expected:
            print(f"{name}\t{(found or 'no such test').splitlines()[0]}", flush=True)
            continue
        good &= judge(label, name, expected[name], found)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
