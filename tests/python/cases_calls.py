# SPDX-License-Identifier: Apache-2.0
"""Cases: every operation, over arrays of several libraries and layouts. Each returns None, or why
it is skipped."""

import array

import numpy as np
import pytest

import tutti

DTYPES = "? u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 c8 c16".split()


def same(a, b):
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def ranks(world):
    return range(world.size)


def case_all_reduce_in_place_returns_its_array(world):
    x = np.full(5, world.rank + 1, "f4")
    assert world.all_reduce(x) is x
    same(x, np.full(5, sum(r + 1 for r in ranks(world)), "f4"))


def case_all_reduce_into_leaves_its_input(world):
    x, out = np.arange(4.0) + world.rank, np.empty(4)
    assert world.all_reduce(x, "max", out=out) is out
    same(out, np.arange(4.0) + world.size - 1)
    same(x, np.arange(4.0) + world.rank)


def case_all_reduce_of_every_dtype(world):
    for name in DTYPES:
        op = "bor" if name == "?" else "sum"
        x = np.ones(3, name)
        world.all_reduce(x, op)
        same(x, np.full(3, 1 if name == "?" else world.size, name))


def case_all_reduce_with_every_operation(world):
    own = [r + 1 for r in ranks(world)]
    expected = {
        "sum": sum(own),
        "avg": sum(own) / len(own),
        "product": np.prod(own),
        "min": 1,
        "max": world.size,
    }
    for op, value in expected.items():
        same(world.all_reduce(np.full(3, world.rank + 1.0), op), np.full(3, value))
    for op, function in (
        ("band", np.bitwise_and),
        ("bor", np.bitwise_or),
        ("bxor", np.bitwise_xor),
    ):
        same(world.all_reduce(np.full(2, world.rank + 1), op), np.full(2, function.reduce(own)))


def case_all_reduce_of_any_strides(world):
    whole = np.arange(60, dtype="f8").reshape(3, 4, 5) * (world.rank + 1)
    factor = sum(r + 1 for r in ranks(world))
    before = np.arange(60, dtype="f8").reshape(3, 4, 5)
    for view in (
        lambda a: a[:, ::2, 1:4],
        lambda a: a.transpose(2, 0, 1),
        lambda a: a[::-1, :, ::-2],
        lambda a: a[1],
        lambda a: a[0:0],
        lambda a: a[1, 2, 3:4].reshape(()),
        lambda a: a.reshape(1, 1, 3, 1, 4, 1, 1, 5, 1),
    ):
        x, expected = whole.copy(), whole.copy()
        world.all_reduce(view(x))
        view(expected)[...] = view(before) * factor
        same(x, expected)


def case_all_reduce_in_a_fixed_order(world):
    x = np.full(1000, 0.1 * (world.rank + 1), "f4")
    first = world.all_reduce(x.copy(), fixed_order=True)
    same(first[:10], world.all_reduce(x[:10].copy(), fixed_order=True))


def case_all_reduce_of_arrays_of_python(world):
    total = sum(r + 1 for r in ranks(world))
    numbers = array.array("d", [world.rank + 1.0] * 3)
    assert world.all_reduce(numbers).tolist() == [total] * 3
    raw = bytearray([world.rank + 1] * 3)
    assert bytes(world.all_reduce(raw)) == bytes([total] * 3)
    view = memoryview(bytearray(8 * 4)).cast("q")
    view[0] = world.rank + 1
    assert world.all_reduce(view)[0] == total


def case_reduce_changes_the_root_alone(world):
    root = world.size - 1
    x = np.full(3, world.rank + 1.0)
    result = world.reduce(x, "sum", root)
    if world.rank == root:
        assert result is x
        same(x, np.full(3, sum(r + 1.0 for r in ranks(world))))
    else:
        assert result is None
        same(x, np.full(3, world.rank + 1.0))


def case_reduce_into_an_output(world):
    out = np.zeros(2) if world.rank == 0 else None
    x = np.full(2, 2.0)
    result = world.reduce(x, "sum", 0, out=np.zeros(2) if world.rank else out)
    assert (result is out) if world.rank == 0 else result is None
    if world.rank == 0:
        same(out, np.full(2, 2.0 * world.size))


def case_broadcast(world):
    x = np.arange(6) if world.rank == 0 else np.zeros(6, int)
    assert world.broadcast(x) is x
    same(x, np.arange(6))
    fixed = np.arange(3)
    fixed.flags.writeable = False
    given = fixed if world.rank == 0 else np.zeros(3, int)
    same(world.broadcast(given), np.arange(3))


def case_all_gather_makes_its_output(world):
    x = np.full((2, 3), world.rank, "i4")
    out = world.all_gather(x)
    assert out.shape == (2 * world.size, 3) and out.dtype == x.dtype
    same(out, np.repeat(np.arange(world.size, dtype="i4"), 2)[:, None].repeat(3, 1))
    same(world.all_gather(np.array(world.rank)), np.arange(world.size))
    numbers = world.all_gather(array.array("i", [world.rank]))
    assert numbers.tolist() == list(ranks(world)) and numbers.typecode == "i"
    view = world.all_gather(memoryview(array.array("d", [world.rank])))
    assert view.tolist() == list(map(float, ranks(world)))


def case_all_gather_of_lists_and_counts(world):
    x = np.full(world.rank + 1, world.rank, "f8")
    outs = [np.empty(r + 1) for r in ranks(world)]
    assert world.all_gather(x, out=outs) is outs
    for r in ranks(world):
        same(outs[r], np.full(r + 1, r))
    counts = [r + 1 for r in ranks(world)]
    same(world.all_gather(x, counts=counts), np.concatenate(outs))
    apart = np.full(sum(counts) + 10, -1.0)
    offsets = [sum(counts[:r]) + r for r in ranks(world)]
    world.all_gather(x, out=apart, counts=counts, offsets=offsets)
    for r in ranks(world):
        same(apart[offsets[r] : offsets[r] + r + 1], np.full(r + 1, r))


def case_gather(world):
    root = world.size - 1
    x = np.full(2, world.rank)
    out = world.gather(x, root)
    if world.rank == root:
        same(out, np.repeat(np.arange(world.size), 2))
        outs = [np.empty(2, int) for _ in ranks(world)]
        assert world.gather(x, root, out=outs) is outs
        same(np.concatenate(outs), out)
    else:
        assert out is None
        assert world.gather(x, root) is None
    counts = [r for r in ranks(world)] if world.rank == root else ()
    uneven = world.gather(np.full(world.rank, world.rank), root, counts=counts)
    if world.rank == root:
        same(uneven, np.concatenate([np.full(r, r) for r in ranks(world)]))


def case_scatter(world):
    n = world.size
    if world.rank == 0:
        block = world.scatter(np.arange(2 * n))
        blocks = [np.full(3, r) for r in ranks(world)]
        same(world.scatter(blocks, out=np.empty(3, int)), np.zeros(3))
        uneven = world.scatter(
            np.arange(sum(ranks(world)) + n),
            out=np.empty(1, int),
            counts=[r + 1 for r in ranks(world)],
        )
    else:
        block = world.scatter(out=np.empty(2, int))
        same(world.scatter(out=np.empty(3, int)), np.full(3, world.rank))
        uneven = world.scatter(out=np.empty(world.rank + 1, int), counts=())
    same(block, [2 * world.rank, 2 * world.rank + 1])
    start = sum(range(1, world.rank + 1))
    same(uneven, np.arange(start, start + world.rank + 1))


def case_reduce_scatter(world):
    n = world.size
    x = np.arange(2.0 * n)
    same(world.reduce_scatter(x), x[2 * world.rank : 2 * world.rank + 2] * n)
    blocks = [np.full(r + 1, 1.0) for r in ranks(world)]
    same(world.reduce_scatter(blocks, "max"), np.full(world.rank + 1, 1.0))
    counts = [r + 1 for r in ranks(world)]
    same(world.reduce_scatter(np.ones(sum(counts)), counts=counts), np.full(world.rank + 1, n))


def case_all_to_all(world):
    n = world.size
    x = np.array([10 * world.rank + r for r in ranks(world)])
    same(world.all_to_all(x), [10 * r + world.rank for r in ranks(world)])
    ins = [np.full(r + 1, world.rank) for r in ranks(world)]
    outs = [np.empty(world.rank + 1, int) for _ in ranks(world)]
    assert world.all_to_all(ins, out=outs) is outs
    for r in ranks(world):
        same(outs[r], np.full(world.rank + 1, r))
    uneven = world.all_to_all(
        np.concatenate(ins),
        in_counts=[r + 1 for r in ranks(world)],
        out_counts=[world.rank + 1] * n,
    )
    same(uneven, np.concatenate(outs))


def case_barriers(world):
    world.barrier()
    world.monitored_barrier(timeout=20)


def case_messages_around_a_ring(world):
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    for n in (1, 100_000):
        x, out = np.full(n, world.rank), np.empty(n, int)
        work = world.send_async(x, right, tag=n)
        assert world.recv(out, left, tag=n) == left
        work.wait()
        same(out, np.full(n, left))
    assert world.sendrecv(x, right, out, left) == left


def case_messages_from_any_rank(world):
    if world.rank:
        world.send(np.array([world.rank]), 0, tag=1)
        world.send(np.arange(world.rank, dtype="u1"), 0, tag=2)
        return
    x = np.empty(1, int)
    for tag in (1, 2):
        seen = set()
        for _ in range(world.size - 1):
            if tag == 1:
                source = world.recv(x, tag=tag)
                same(x, [source])
            else:
                source, size = world.recv_up_to(np.zeros(100, "u1"), tag=tag)
                assert size == source
            seen.add(source)
        assert seen == set(range(1, world.size)), seen


def case_receive_into_a_new_array(world):
    world.send(np.arange(3.0), world.rank)
    got, source = world.recv_like(np.zeros(3))
    same(got, np.arange(3.0))
    assert source == world.rank


def case_works_have_results(world):
    x = np.full(4, 1.0)
    work = world.all_reduce_async(x)
    assert work.wait(timeout=20) is x and work.done() and work.error is None
    assert work.result is x and work.sequence and work.bytes == 32 and work.source is None
    same(x, np.full(4, world.size))
    gathered = world.all_gather_async(np.array([world.rank])).wait()
    same(gathered, np.arange(world.size))
    for work in (
        world.broadcast_async(x),
        world.reduce_async(x),
        world.reduce_scatter_async(np.ones(world.size)),
        world.all_to_all_async(np.ones(world.size)),
        world.gather_async(x),
        world.scatter_async(np.ones(world.size), out=np.empty(1)),
        world.barrier_async(),
    ):
        work.wait()
    receive = world.recv_async(np.empty(1), world.rank, tag=7)
    send = world.send_async(np.ones(1), world.rank, tag=7)
    tutti.wait_all([send, receive], timeout=20)
    assert receive.source == world.rank and receive.bytes == 8
    short = world.recv_up_to_async(np.empty(9), world.rank, tag=8)
    world.send(np.ones(2), world.rank, tag=8)
    assert tutti.wait_any([short], timeout=20) == 0
    short.wait()
    assert short.bytes == 16


def case_a_wait_of_its_own_time_leaves_the_operation(world):
    work = world.recv_async(np.empty(1), world.rank, tag=9)
    try:
        work.wait(timeout=0.01)
        raise AssertionError("it was complete")
    except tutti.NotReadyError as error:
        assert isinstance(error, TimeoutError), error
    assert not work.done() and work.error is None and work.cancel()
    assert isinstance(work.error, tutti.AbortedError), work.error


def case_batches(world):
    a, b, c = np.ones(3), np.full(2, world.rank), np.empty(2, int)
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    with world.batch():
        world.all_reduce(a)
        world.send(b, right)
        receipt = world.recv(c, left)
        rest = world.recv_up_to(np.empty(5), left, tag=3)
        world.send(np.ones(2), right, tag=3)
    same(a, np.full(3, world.size))
    same(c, np.full(2, left))
    assert receipt.source == left and rest.source == left and rest.bytes == 16
    with world.batch_async() as batch:
        world.all_reduce(a)
        world.broadcast(b)
    batch.work.wait()
    same(a, np.full(3, world.size**2))
    try:
        with world.batch():
            world.all_reduce(a)
            raise KeyError("in the body")
    except KeyError:
        same(a, np.full(3, world.size**2))


def case_plans(world):
    x, y = np.empty(3), np.empty(2, "i4")
    with world.plan() as plan:
        world.all_reduce(x)
        world.all_reduce(y, "max")
    for i in range(1, 4):
        x[:], y[:] = i, world.rank
        plan.run() if i < 3 else plan.run_async().wait()
        same(x, np.full(3, i * world.size))
        same(y, np.full(2, world.size - 1))
    plan.free()


def case_lists_and_counts_of_another_length_are_refused(world):
    x, short = np.ones(2), [np.ones(2)] * (world.size + 1)
    counts = [1] * (world.size + 1)
    calls = (
        lambda: world.all_gather(x, out=short),
        lambda: world.all_gather(x, out=[]),
        lambda: world.gather(x, world.rank, out=short),
        lambda: world.scatter(short, world.rank, out=x),
        lambda: world.scatter(short, world.rank),
        lambda: world.reduce_scatter(short, out=x),
        lambda: world.reduce_scatter(short),
        lambda: world.all_to_all(short, out=short),
        lambda: world.all_gather(x, counts=counts),
        lambda: world.gather(x, world.rank, out=x, counts=counts),
        lambda: world.scatter(x, world.rank, counts=counts),
        lambda: world.reduce_scatter(x, counts=counts),
        lambda: world.all_to_all(x, out=x, in_counts=counts, out_counts=counts),
    )
    for call in calls:
        with pytest.raises(ValueError, match=f"{world.size} members|{world.size} arrays"):
            call()
    world.barrier()  # nothing was begun


def case_lists_where_one_array_is_taken_are_refused(world):
    x = np.ones(2)
    both = [x, x]
    calls = (
        lambda: world.all_reduce([x]),
        lambda: world.broadcast(both),
        lambda: world.reduce(both, out=x),
        lambda: world.send(both, world.rank),
        lambda: world.recv(both, world.rank),
        lambda: world.all_gather(both, out=both),
        lambda: world.all_gather(x, out=[x] * world.size, counts=[2] * world.size),
        lambda: world.all_to_all([x] * world.size, out=x),
    )
    for call in calls:
        with pytest.raises(TypeError, match="list"):
            call()
    world.barrier()


def case_a_list_that_grows_while_it_is_described(world):
    class Growing:
        """Adds to the list when it is asked what it is."""

        def __dlpack__(self, **_):
            blocks.extend([np.ones(2)] * 100)
            raise BufferError("not now")

        def __dlpack_device__(self):
            return 1, 0

    blocks = [np.ones(2)] * (world.size - 1) + [Growing()]
    with pytest.raises(TypeError):
        world.reduce_scatter(blocks, out=np.ones(2))
    world.barrier()
