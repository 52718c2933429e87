# SPDX-License-Identifier: Apache-2.0
"""Cases: groups, reductions, objects, asyncio, threads, memory. Each returns None, or why it is
skipped."""

import asyncio
import concurrent.futures
import gc
import json
import os
import threading
import time

import numpy as np

import tutti
from cases_calls import ranks, same


def case_groups_from_groups(world):
    assert world.world_ranks == list(ranks(world)) and world.name in repr(world)
    assert tutti.is_initialized() and world.timeout == 30
    halves = world.split(world.rank % 2, key=-world.rank)
    members = [r for r in reversed(ranks(world)) if r % 2 == world.rank % 2]
    assert halves.world_ranks == members and halves.size == len(members)
    same(halves.all_reduce(np.ones(1)), [halves.size])
    assert world.translate([world.rank], halves) == [halves.rank]
    first = world.new([0], name="first", timeout=5)
    if world.rank == 0:
        assert first.size == 1 and first.name == "first" and first.timeout == 5
        assert world.translate([world.size - 1], first) == [0 if world.size == 1 else None]
        first.destroy()
    else:
        assert first is None
    halves.destroy()
    halves.destroy()
    try:
        halves.barrier()
        raise AssertionError("a destroyed group was used")
    except ValueError as error:
        assert "destroyed" in str(error), error
    assert world.split(-1) is None
    with world.new() as copy:
        copy.barrier()


def case_a_group_says_how_it_is(world):
    status = world.status()
    assert status.ready and status.error == "" and status.culprit is None and status.hosts == 1
    assert status.local_size == world.size and status.local_rank == world.rank
    assert world.traffic().sent_messages >= 0
    assert world.size == 1 or world.backend in ("shm", "tcp"), world.backend


def case_an_abort_reaches_all(world):
    group = world.new(name="to be aborted")
    if world.rank == world.size - 1:
        group.abort("enough")
    try:
        while True:
            group.barrier()
    except tutti.AbortedError as error:
        assert "enough" in str(error) and error.status == -6, error
        assert error.name == "TUTTI_ERR_ABORTED", error.name
    assert not group.status().ready and "enough" in group.status().error
    try:
        group.destroy()
    except tutti.AbortedError:
        pass


def case_an_exception_in_the_body_aborts(world):
    try:
        with world.new(name="body") as group:
            if group.rank == 0:
                raise LookupError("nothing there")
            while True:
                group.barrier()
    except LookupError:
        assert world.rank == 0
    except tutti.AbortedError as error:
        assert world.rank and "LookupError: nothing there" in str(error), error


def case_works_are_refused_in_a_batch(world):
    try:
        with world.batch():
            world.all_reduce_async(np.ones(1))
        raise AssertionError("it has no work")
    except ValueError as error:
        assert "_async" in str(error), error
    world.barrier()


def case_a_mismatch_names_both_calls(world):
    if world.size == 1:
        return "one rank agrees with itself"
    group = world.new(name="mismatch")
    try:
        group.all_reduce(np.ones(4 if world.rank else 5))
        group.barrier()
        raise AssertionError("the sizes differ")
    except tutti.MismatchError as error:
        assert "5 x f64" in str(error) and error.operation == "all_reduce", error
        assert error.rank == world.rank and error.sequence, vars(error)
    try:
        group.destroy()
    except tutti.Error:
        pass
    return None


def case_reductions_of_the_program(world):
    order = tutti.ReduceOp("left", lambda a, b: a * 10 + b)
    digits = int("".join(str(r + 1) for r in ranks(world)))
    if world.size <= 2:  # else it is not associative
        same(world.all_reduce(np.full(3, world.rank + 1), order), np.full(3, digits))
    longest = tutti.ReduceOp("longest", np.maximum, commutative=True)
    same(world.all_reduce(np.full(3, world.rank, "f4"), longest), np.full(3, world.size - 1))
    work = world.all_reduce_async(np.full(3, world.rank), longest)
    same(work.wait(), np.full(3, world.size - 1))
    with world.batch():
        x = world.all_reduce(np.full(3, world.rank), longest)
    same(x, np.full(3, world.size - 1))
    factor = np.array([world.rank + 1.0])
    factor.flags.writeable = False
    factor = tutti.premul_sum(factor)
    same(world.all_reduce(np.ones(2), factor), np.full(2, sum(r + 1.0 for r in ranks(world))))


def case_a_reduction_that_raises_ends_its_group(world):
    if world.size == 1:
        return "nothing is reduced"
    group = world.new(name="raising")

    def function(a, b):
        raise ZeroDivisionError("by design")

    raised = None
    try:
        for _ in range(2):
            group.all_reduce(np.ones(3), tutti.ReduceOp("bad", function))
    except (ZeroDivisionError, tutti.AbortedError) as error:
        raised = error
    assert raised is not None
    try:
        group.destroy()
    except tutti.AbortedError as error:
        assert "ZeroDivisionError" in str(error), error
    return None


def case_objects(world):
    objs = world.all_gather_object({"rank": world.rank, "data": "x" * world.rank * 1000})
    assert [o["rank"] for o in objs] == list(ranks(world)) and len(objs[-1]["data"]) == 1000 * (
        world.size - 1
    )
    gathered = world.gather_object((world.rank,), root=world.size - 1)
    assert gathered == ([(r,) for r in ranks(world)] if world.rank == world.size - 1 else None)
    assert world.broadcast_object("all" if world.rank == 0 else None) == "all"
    mine = world.scatter_object(["a" * r for r in ranks(world)] if world.rank == 0 else None)
    assert mine == "a" * world.rank
    as_json = {"dumps": lambda o: json.dumps(o).encode(), "loads": json.loads}
    assert world.all_gather_object([world.rank], **as_json) == [[r] for r in ranks(world)]
    try:
        world.all_gather_object("x" * 1000, max_bytes=100)
        raise AssertionError("it is too long")
    except tutti.InvalidArgumentError as error:
        assert "max_bytes is 100" in str(error), error


def case_objects_as_messages(world):
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    world.send_object(["x" * 1000, world.rank], right)
    world.send_object("short", right)
    try:
        world.recv_object(left, max_bytes=100)
        raise AssertionError("it is too long")
    except ValueError as error:
        assert f"rank {left}" in str(error), error
    assert world.recv_object(left, max_bytes=100) == ("short", left)


def case_asyncio(world):
    async def ring():
        works = [world.all_reduce_async(np.full(3, i)) for i in range(10)]
        results = await asyncio.gather(*(finish(work) for work in works))
        for i, result in enumerate(results):
            same(result, np.full(3, i * world.size))
        right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
        receive = world.recv_async(np.empty(1000, int), left, tag=11)
        await asyncio.sleep(0.01)
        await world.send_async(np.full(1000, world.rank), right, tag=11)
        same(await receive, np.full(1000, left))
        never = world.recv_async(np.empty(1), world.rank, tag=12)
        try:
            await asyncio.wait_for(finish(never), 0.05)
            raise AssertionError("nobody has sent that")
        except asyncio.TimeoutError:
            assert never.cancel()
        try:
            await never
            raise AssertionError("it was cancelled")
        except tutti.AbortedError:
            pass

    async def finish(work):
        return await work

    before = threading.active_count()
    asyncio.run(asyncio.wait_for(ring(), 30))
    asyncio.run(asyncio.wait_for(ring(), 30))  # in a loop of its own
    assert threading.active_count() == before, threading.enumerate()


def case_loops_of_several_threads(world):
    errors = []

    async def calls(tag):
        for i in range(20):
            receive = world.recv_async(np.empty(2, int), world.rank, tag=tag)
            await asyncio.sleep(0)
            world.send(np.array([i, tag]), world.rank, tag=tag)
            same(await receive, [i, tag])

    def body(tag):
        try:
            asyncio.run(asyncio.wait_for(calls(tag), 30))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(20 + i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def case_threads_wait_without_the_gil(world):
    got = []

    def receive():
        x = np.empty(1, int)
        got.append((world.recv(x, world.rank, tag=30), x[0]))

    threads = [threading.Thread(target=receive) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(3):
        world.send(np.array([i]), world.rank, tag=30)
    for thread in threads:
        thread.join(20)
    assert sorted(value for _, value in got) == [0, 1, 2], got


def in_a_thread(call):
    """What the call returns on a thread of its own; what it raises, here."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(30)


def case_a_work_is_waited_for_by_any_thread(world):
    x = np.ones(3)
    work = world.all_reduce_async(x)
    assert in_a_thread(lambda: work.wait()) is x and work.done()
    same(in_a_thread(lambda: world.all_reduce(x)), [world.size**2] * 3)
    copy = in_a_thread(world.new)
    copy.barrier()
    in_a_thread(copy.destroy)


def case_a_batch_belongs_to_its_thread(world):
    def message():
        work = world.recv_async(got := np.zeros(1), world.rank, tag=50)
        world.send(np.ones(1), world.rank, tag=50)
        work.wait()
        return got[0]

    with world.batch():
        receipt = world.recv(got := np.zeros(1), world.rank, tag=51)
        world.send(np.ones(1), world.rank, tag=51)
        assert in_a_thread(message) == 1 and got[0] == 0  # this thread's have not begun
    assert got[0] == 1 and receipt.source == world.rank


def case_each_thread_has_a_group(world):
    groups = [world.new(name=f"of thread {i}") for i in range(3)]

    def calls(group):
        for i in range(30):
            same(group.all_reduce(np.full(5, i)), [i * world.size] * 5)
        group.destroy()

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(calls, groups, timeout=60))


def case_another_thread_ends_a_wait_by_an_abort(world):
    group = world.new()
    waiting = threading.Event()

    def wait():
        waiting.set()
        try:
            group.recv(np.empty(1), group.rank, tag=1)
        except tutti.AbortedError as error:
            return str(error)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        words = pool.submit(wait)
        waiting.wait(30)
        group.abort("nobody sends")
        assert "nobody sends" in words.result(30)
    try:
        group.destroy()
    except tutti.AbortedError:
        pass


def case_a_dropped_work_keeps_its_array(world):
    other = (world.rank + 1) % world.size
    for n in (4, 300_000):
        world.recv_async(memory := bytearray(n), world.rank if world.size == 1 else other, tag=40)
        try:
            memory.append(1)  # it cannot be resized while tutti has it
            raise AssertionError("the array was given back too early")
        except BufferError:
            pass
        gc.collect()
        world.barrier()
        work = world.send_async(
            b"x" * n, world.rank if world.size == 1 else (world.rank - 1) % world.size, tag=40
        )
        work.wait()
        world.barrier()
        deadline = time.monotonic() + 20  # the thread that receives may wait for a CPU
        while True:
            world.barrier()
            try:
                memory.append(1)
                done = 1
            except BufferError:
                done = 0
            all_done, in_time = world.all_reduce(
                np.array([done, int(time.monotonic() < deadline)]), "min"
            )
            if all_done:
                break
            assert in_time, "tutti still has the array"
            if done:
                memory.pop()
        assert bytes(memory[:n]) == b"x" * n and len(memory) == n + 1


def case_shared_memory(world):
    memory = world.memory(4096)
    assert memory.peers in (0, world.size - 1)
    x = np.frombuffer(memory.view, "f8")
    x[:] = 1
    world.all_reduce(x)
    same(x, np.full(512, world.size))
    try:
        memory.free()
        raise AssertionError("an array uses it")
    except BufferError:
        pass
    del x
    gc.collect()
    memory.free()


def resident():
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def case_many_calls_take_no_memory(world):
    x = np.ones(2)
    works = []

    def calls():
        for _ in range(2500):
            world.all_reduce(x, "max")
            world.all_gather(x)
            works.append(world.all_reduce_async(x, "max"))
            if len(works) == 10:
                tutti.wait_all(works)
                works.clear()
            world.broadcast(memoryview(x))

    calls()
    before = resident()
    calls()
    gc.collect()
    assert resident() - before < 1 << 20, resident() - before
