#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Objects of Python between ranks: collectives, and a message around a ring.

tutti run -n 4 python3 objects.py

Objects are pickled, so ranks trust each other. `loads=` and `dumps=` take another format, such as
JSON, and `max_bytes` refuses longer objects.
"""

import json

import tutti


def main():
    with tutti.init() as world:
        # Settings that rank 0 has read from somewhere.
        settings = {"rate": 0.1, "layers": [64, 10]} if world.rank == 0 else None
        settings = world.broadcast_object(settings)

        # A share of the work for each rank.
        files = [f"part-{rank}" for rank in range(world.size)] if world.rank == 0 else None
        mine = world.scatter_object(files)

        # What each rank found: on all ranks, and on rank 0 alone as JSON.
        found = {"file": mine, "lines": 10 * world.rank}
        everything = world.all_gather_object(found)
        assert [one["file"] for one in everything] == [f"part-{r}" for r in range(world.size)]
        report = world.gather_object(
            found, dumps=lambda obj: json.dumps(obj).encode(), loads=json.loads, max_bytes=10_000
        )
        if world.rank == 0:
            print("lines:", [one["lines"] for one in report], "rate:", settings["rate"])

        # From rank to rank, until the message is back.
        right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
        if world.rank == 0:
            world.send_object(["rank 0"], right)
        seen, _ = world.recv_object(left)
        if world.rank == 0:
            print("the message went through", ", ".join(seen))
        else:
            world.send_object([*seen, f"rank {world.rank}"], right)


if __name__ == "__main__":
    main()
