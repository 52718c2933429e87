# SPDX-License-Identifier: Apache-2.0
"""What is installed: show_versions()."""

from __future__ import annotations

import platform
import sys
from typing import Any, List, Optional, TextIO, Tuple

from . import _plugins
from ._native import ffi, lib, text

_LIBRARIES = ("cffi", "numpy", "torch", "ml_dtypes", "mlx", "jax", "mpi4py")


def _rows() -> List[Tuple[str, str]]:
    rows: List[Tuple[str, str]] = []

    @ffi.callback("tutti_info_fn")  # type: ignore[untyped-decorator]
    def on_row(section: Any, name: Any, value: Any, _user: Any) -> None:
        if text(section) == "build" and text(name) != "version":
            rows.append((text(name), text(value)))

    lib.tutti_info_list(on_row, ffi.NULL)
    return rows


def _plugin_rows() -> List[Tuple[str, str]]:
    rows: List[Tuple[str, str]] = []

    @ffi.callback("tutti_plugin_info_fn")  # type: ignore[untyped-decorator]
    def on_plugin(info: Any, _user: Any) -> None:
        reason = text(info.reason)
        rows.append((text(info.name), text(info.path) + (f" ({reason})" if reason else "")))

    lib.tutti_plugin_files(on_plugin, ffi.NULL)
    return rows


def _version(package: str) -> Optional[str]:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def show_versions(file: Optional[TextIO] = None) -> None:
    """Prints the versions of tutti, Python and the libraries whose arrays tutti takes, and the
    plugins that are found. For reports of problems."""
    out = file or sys.stdout
    sections = [
        ("tutti", [("version", text(lib.tutti_version())), *_rows()]),
        ("python", [("version", platform.python_version()), ("executable", sys.executable)]),
        ("libraries", [(name, version) for name in _LIBRARIES if (version := _version(name))]),
        ("plugins", _plugin_rows()),
        ("plugins of packages", [("folder", folder) for folder in _plugins.folders()]),
    ]
    for section, rows in sections:
        if rows:
            print(f"{section}:", file=out)
        for name, value in rows:
            print(f"  {name:20} {value}", file=out)
