# SPDX-License-Identifier: Apache-2.0
"""python -m tutti.torch build: compiles the backend for the torch that is installed."""

from __future__ import annotations

import argparse
import sys

from . import _build


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tutti.torch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="compile the backend unless it is compiled already")
    command.add_argument("--force", action="store_true", help="compile it again")
    commands.add_parser("path", help="print where the compiled backend is, or will be")
    options = parser.parse_args()
    if options.command == "path":
        print(_build.path())
        return 0
    try:
        print(_build.build(options.force))
    except _build.BuildError as error:
        print(f"tutti.torch: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
