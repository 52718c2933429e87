# SPDX-License-Identifier: Apache-2.0
"""Plugins of other packages: entry points of the group "tutti.plugins".

Each names a module, beside whose file the plugins lie. Their folders are added to
TUTTI_PLUGIN_PATH. Looking for entry points reads the metadata of every installed package, so it is
done only where a name is asked for that is none of tutti's own. Then importlib.metadata is imported,
too, which takes longer than the rest of the package.
"""

from __future__ import annotations

import os
import re
from typing import Any, List, Optional

_OWN = {"auto", "local", "remote", "shm", "tcp", "gloo", "mpi", "trace", "check", "fault"}
_offered = False


def _entry_points() -> Any:
    from importlib import metadata

    found = metadata.entry_points()
    if hasattr(found, "select"):  # Python 3.10 and later
        return found.select(group="tutti.plugins")
    return found.get("tutti.plugins", ())


def folders() -> List[str]:
    """The folders of all packages that have plugins."""
    return [os.path.dirname(entry.load().__file__) for entry in _entry_points()]


def offer(backend: Optional[str], wrap: Optional[str]) -> None:
    """Adds the folders to TUTTI_PLUGIN_PATH if one of these names, or of the variables, may need
    them."""
    global _offered
    asked = (backend, wrap, os.environ.get("TUTTI_BACKEND"), os.environ.get("TUTTI_WRAP"))
    names = set(re.findall(r"[A-Za-z_][\w-]*", " ".join(name for name in asked if name)))
    if _offered or names <= _OWN:
        return
    _offered = True
    path = [folder for folder in (os.environ.get("TUTTI_PLUGIN_PATH"), *folders()) if folder]
    if path:
        os.environ["TUTTI_PLUGIN_PATH"] = os.pathsep.join(path)
