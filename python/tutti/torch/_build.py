# SPDX-License-Identifier: Apache-2.0
"""Compiles the backend for the torch that is installed, and loads it.

A compiled module belongs to one torch, one Python and one tutti. So its place in the user's cache
is named after all three, the sources and the compiler's flags: what is found there fits. Ranks that
build at the same time take turns by a lock, and a module appears under its name when it is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import torch

import tutti

_module = "_tutti_torch"  # the name that the compiled module has for Python
COMMAND = f"{os.path.basename(sys.executable)} -m tutti.torch build"
_COMPILE_S = 600  # for the compiler, which takes half a minute on an idle machine
_LOCK_S = 660  # for another process that compiles the same module


class BuildError(RuntimeError):
    """The backend cannot be compiled or loaded; the message says why."""


def _package() -> Path:
    return Path(tutti.__file__).parent


def _sources() -> list[Path]:
    folder = _package() / "torch" / "source"
    return sorted(path for path in folder.iterdir() if path.suffix in (".cc", ".hh"))


def _library() -> Path:
    """The libtutti that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if Path(path).name.startswith("libtutti.so"):
                return Path("/" + path)
    raise BuildError("libtutti is not loaded by this process")


def _key() -> str:
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(path.read_bytes())
    digest.update(" ".join(_flags()).encode())
    return (
        f"torch-{torch.__version__}-{sys.implementation.cache_tag}-tutti-{tutti.__version__}"
        f"-{digest.hexdigest()[:12]}"
    )


def _flags() -> list[str]:
    """More flags for the compiler, for those who work on the backend."""
    return shlex.split(os.environ.get("TUTTI_TEST_CXXFLAGS", ""))


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tutti" / "torch"


def path() -> Path:
    """Where the compiled module for this torch, Python and tutti is, or will be."""
    return _cache() / _key() / f"{_module}.so"


# ---- compiling ----


def _compiler() -> str:
    compiler = os.environ.get("CXX", "g++")
    if not shutil.which(compiler):
        raise BuildError(
            f"the compiler {compiler} is not installed: apt-get install g++, or set CXX to another "
            "one"
        )
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        raise BuildError(f"{header} is missing: install Python's headers (on Debian: python3-dev)")
    return compiler


def _arguments(output: Path) -> list[str]:
    from torch.utils import cpp_extension

    library = _library()
    folders = [
        _package() / "include",
        *cpp_extension.include_paths(),
        sysconfig.get_path("include"),
    ]
    return [
        _compiler(),
        "-shared",
        "-fPIC",
        "-O1",
        "-std=c++20",
        "-fvisibility=hidden",
        "-w",  # warnings of torch's headers are not the user's
        f"-DTORCH_EXTENSION_NAME={_module}",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *_flags(),
        *(f"-I{folder}" for folder in folders),
        *(str(path) for path in _sources() if path.suffix == ".cc"),
        f"-L{library.parent}",
        f"-l:{library.name}",
        *(f"-L{folder}" for folder in cpp_extension.library_paths()),
        "-ltorch_python",
        "-ltorch",
        "-ltorch_cpu",
        "-lc10",
        "-o",
        str(output),
    ]


def _lock(lock: IO[str]) -> None:
    until = time.monotonic() + _LOCK_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise BuildError(
                    f"another process has held the lock {lock.name} for {_LOCK_S} s: end it (`fuser {lock.name}` "
                    f"lists it) and run: {COMMAND}"
                ) from None
        time.sleep(0.1)


def _compile(arguments: list[str]) -> None:
    # A session of its own: the compiler proper is a child of g++ and ends with it.
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, start_new_session=True) as compiler:
        try:
            words = compiler.communicate(timeout=_COMPILE_S)[1]
        except BaseException as error:
            os.killpg(compiler.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise BuildError(
                f"the compiler has not ended after {_COMPILE_S} s, so it was killed; run: {COMMAND} when the "
                f"machine is less busy; it was {' '.join(arguments)}"
            ) from None
    if compiler.returncode:
        raise BuildError(f"{' '.join(arguments)} failed:\n{words}")


def build(force: bool = False) -> Path:
    """Compiles the module unless it is there, and returns its path. Takes half a minute."""
    target = path()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(target.parent / "lock", "w", encoding="utf-8") as lock:
        _lock(lock)
        if target.exists() and not force:
            return target
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder) / target.name
            _compile(_arguments(made))
            _import(made)  # before others find it
            os.replace(made, target)
    return target


# ---- loading ----


def _refuse_foreign(target: Path) -> None:
    """A file that another user could have written is not loaded."""
    for place in (target, target.parent):
        found = place.stat()
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise BuildError(
                f"{place} belongs to another user or can be written by one, so it is not loaded: "
                f"remove {target.parent} and run: {COMMAND}"
            )


def _import(target: Path) -> Any:
    spec = importlib.util.spec_from_file_location(_module, target)
    if spec is None or spec.loader is None:
        raise BuildError(f"{target} is no module of Python: remove it and run: {COMMAND}")
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load() -> Any:
    """The compiled module for this torch, Python and tutti; None where there is none."""
    target = path()
    if not target.exists():
        return None
    _refuse_foreign(target)
    return _import(target)
