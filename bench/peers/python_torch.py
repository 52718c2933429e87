# SPDX-License-Identifier: Apache-2.0
"""A rank of bench/python_bench: all_reduce of torch's tensors over the backends tutti and gloo.

python_torch.py SECONDS BYTES...
"""
import sys

import python_measure
import torch
import torch.distributed as dist


def main():
    seconds, *sizes = sys.argv[1:]
    dist.init_process_group('gloo')
    gloo, ours = dist.group.WORLD, dist.new_group(backend='tutti')
    largest = torch.zeros(1, dtype=torch.float64)

    def most(value):
        largest[0] = value
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=ours)
        return float(largest[0])

    for size in map(int, sizes):
        x = torch.zeros(size // 4)
        touch = x.zero_ if size > python_measure.TOUCHED_ABOVE else None
        contenders = [
            python_measure.Contender(name, dist.all_reduce, x, dist.ReduceOp.SUM, group, touch=touch)
            for name, group in (('tutti', ours), ('gloo', gloo))
        ]
        rounds = python_measure.measure(contenders, most, float(seconds))
        python_measure.tell(dist.get_rank(), 'torch', size, contenders, rounds)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
