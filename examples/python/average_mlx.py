#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small model of MLX on several ranks, which average their gradients in fused buckets.

pip install "mlx[cpu]"
tutti run -n 4 python3 average_mlx.py

One all_reduce of many gradients costs less than one for each, and several buckets are under way at
the same time. This is mlx.nn.average_gradients() over tutti.
"""

import sys

try:
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optim
    from mlx.utils import tree_flatten, tree_map, tree_unflatten
except ImportError as error:
    sys.exit(f'{error}: run pip install "mlx[cpu]"')

import tutti

BUCKET_BYTES = 32 << 20


def buckets_of(gradients, limit):
    """Lists of (name, array) of one dtype, of at most `limit` bytes unless one array has more. The
    same on every rank, as the models are."""
    buckets, open_buckets = [], {}
    for name, array in tree_flatten(gradients):
        bucket = open_buckets.get(array.dtype)
        if bucket is None or sum(one.nbytes for _, one in bucket) + array.nbytes > limit:
            bucket = open_buckets[array.dtype] = []
            buckets.append(bucket)
        bucket.append((name, array))
    return buckets


def average_gradients(world, gradients, limit=BUCKET_BYTES):
    """The mean of all ranks' gradients: a tree like `gradients`."""
    buckets = buckets_of(gradients, limit)
    works = [
        world.all_reduce_async(mx.concatenate([array.reshape(-1) for _, array in bucket]), "avg")
        for bucket in buckets
    ]
    averaged = []
    for bucket, work in zip(buckets, works):
        whole, start = work.wait(), 0
        for name, array in bucket:
            averaged.append((name, whole[start : start + array.size].reshape(array.shape)))
            start += array.size
    return tree_unflatten(averaged)


def loss_of(model, x, y):
    return nn.losses.mse_loss(model(x), y)


def main():
    with tutti.init() as world:
        # Parameters of rank 0, and samples that no other rank has.
        model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
        model.update(tree_map(lambda array: world.broadcast(array), model.parameters()))
        mx.random.seed(world.rank)
        x = mx.random.normal((64, 4))
        y = x.sum(axis=1, keepdims=True)

        optimizer = optim.SGD(learning_rate=0.05)
        loss_and_gradients = nn.value_and_grad(model, loss_of)
        losses = []
        for _ in range(40):
            loss, gradients = loss_and_gradients(model, x, y)
            # A small limit, so that this small model has more than one bucket.
            optimizer.update(model, average_gradients(world, gradients, limit=256))
            mx.eval(model.parameters(), optimizer.state)
            losses.append(world.all_reduce(loss, "avg").item())

        # The models have stayed the same on all ranks, to the bit.
        for name, array in tree_flatten(model.parameters()):
            least, most = world.all_reduce(array, "min"), world.all_reduce(array, "max")
            assert mx.array_equal(least, most).item(), name
        assert losses[-1] < losses[0] / 2, losses
        if world.rank == 0:
            print(f"loss of {world.size} ranks: {losses[0]:.3f}, after 40 steps {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
