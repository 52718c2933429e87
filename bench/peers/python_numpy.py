# SPDX-License-Identifier: Apache-2.0
"""A rank of bench/python_bench: all_reduce of NumPy arrays by tutti, by C alone, and by mpi4py where mpirun started
it.

python_numpy.py C_LOOP MEET SECONDS BYTES...
"""
import ctypes
import os
import sys

import numpy
import python_measure

if 'OMPI_COMM_WORLD_SIZE' in os.environ:
    from mpi4py import MPI
else:
    MPI = None

import tutti


def join(meet):
    """By a file, as mpirun has started the ranks; or as `tutti run` says."""
    if not MPI:
        return tutti.init()
    comm = MPI.COMM_WORLD
    return tutti.init('shm', store=tutti.FileStore(meet, comm.size), rank=comm.rank, world_size=comm.size)


def main():
    c_loop, meet, seconds, *sizes = sys.argv[1:]
    loop = ctypes.CDLL(c_loop).all_reduce_loop
    loop.restype = ctypes.c_double
    loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    world = join(meet)
    largest = numpy.zeros(1)

    def most(value):
        largest[0] = value
        return float(world.all_reduce(largest, 'max')[0])

    for size in map(int, sizes):
        x = numpy.zeros(size // 4, 'f4')
        touch = (lambda x=x: x.fill(0)) if size > python_measure.TOUCHED_ABOVE else None
        contenders = [
            python_measure.CLoop('C', loop, world._address, x.ctypes.data, x.size, touch=touch),
            python_measure.Contender('tutti', world.all_reduce, x, touch=touch),
        ]
        if MPI:
            contenders.append(
                python_measure.Contender('mpi4py', MPI.COMM_WORLD.Allreduce, MPI.IN_PLACE, x, touch=touch))
        rounds = python_measure.measure(contenders, most, float(seconds))
        python_measure.tell(world.rank, 'NumPy', size, contenders, rounds)
    world.destroy()


if __name__ == '__main__':
    main()
