# SPDX-License-Identifier: Apache-2.0
"""The command `tutti`: `python -m tutti run -n 4 …`."""

from __future__ import annotations

import os
import shutil
import sys


def _command() -> str:
    """The command of this package, else that of the system."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tutti")
    if os.path.exists(own):
        return own
    this = os.path.realpath(sys.argv[0])
    other = shutil.which("tutti")
    if other is None or os.path.realpath(other) == this:
        sys.exit(f"the command tutti is not installed: there is no {own}, and none in PATH")
    return other


def main() -> None:
    """Becomes the command."""
    command = _command()
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
