#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank that runs every case: rank_cases.py FOLDER. Started by conftest.py.

A case is a function of the world. It raises if something is wrong. What each came to is a line of
JSON in FOLDER/RANK.json. After a case that fails, the members may be in different calls, so the
rest is not run.
"""

import json
import os
import sys
import traceback

import cases_calls
import cases_more
import tutti

CASES = {
    f"{name}": function
    for module in (cases_calls, cases_more)
    for name, function in vars(module).items()
    if name.startswith("case_")
}


def run(world, name, log):
    result = {"case": name, "rank": world.rank, "error": None, "skip": None}
    try:
        result["skip"] = CASES[name](world)
    except BaseException:
        result["error"] = traceback.format_exc()
    print(json.dumps(result), file=log, flush=True)
    return result["error"] is None


def main():
    world = tutti.init(timeout=30)
    with open(os.path.join(sys.argv[1], f"{world.rank}.json"), "w", encoding="utf-8") as log:
        for name in CASES:
            if not run(world, name, log):
                world.abort(f"{name} failed on rank {world.rank}")
                sys.exit(1)
    world.destroy()


if __name__ == "__main__":
    main()
