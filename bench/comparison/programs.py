# SPDX-License-Identifier: Apache-2.0
"""The programs that take turns: tutti, and each peer, with how it is found, built and started.

A peer that is not there raises Absent with what to install. All programs are measured by
bench/measure.h, and none is bound to CPUs.
"""
import os
import platform
import re
import shutil
import subprocess

from . import runs

PEERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'peers')
FLAGS = ['-O3', '-D_GNU_SOURCE']
# tutti's backends, and what peers use beside each. UCX takes shared memory between the ranks of a host.
LINKS = {'shm': 'shm', 'tcp': 'tcp', 'ucx': 'shm', 'ucc': 'shm'}
ENGINES = ('ucx', 'ucc')  # a build may be without them
BUILD_S = 120


class Absent(Exception):
    """Why a peer takes no part, and what to do about it."""


def source(name):
    return os.path.join(PEERS, name)


def compile_with(words, label):
    """Runs a compiler; Absent with its last words if it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=BUILD_S, check=False)
    except subprocess.TimeoutExpired:
        raise Absent(f'{label} is left out: {words[0]} did not end within {BUILD_S} s') from None
    if done.returncode:
        raise Absent('\n  '.join([f'{label} is left out, since its program does not compile:',
                                  *runs.last_lines(done.stderr)]))


def has_header(compiler, header, *flags):
    """Whether the compiler finds it."""
    words = [*compiler, *flags, '-fsyntax-only', '-include', header, '/dev/null']
    return bool(shutil.which(compiler[0])) and \
        subprocess.run(words, capture_output=True, timeout=BUILD_S, check=False).returncode == 0


class Program:
    """`name` is a column of the tables; `label` is for sentences."""

    name = label = ''
    path = None  # of the program that measures

    def prepare(self, work):
        """Finds the library and builds the program into the folder `work`."""

    def left_out(self, backend, ranks):
        """Why it is not measured there; None if it is."""
        del backend, ranks

    def column(self, backend):
        del backend
        return self.name

    def command(self, backend, ranks):
        """The launcher with its options, and the program."""
        raise NotImplementedError

    def environment(self, backend):
        del backend
        return {}

    def version(self):
        done = subprocess.run([self.path, 'version'], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **self.environment('shm')}, check=False)
        lines = runs.last_lines(done.stdout) or [self.label]
        return re.sub(r'\s*Version:\s*', ' ', lines[0])


class Tutti(Program):
    name = label = 'tutti'

    def __init__(self, build):
        self.build = build
        self.launcher = os.path.join(build, 'bin', 'tutti')
        self.path = os.path.join(build, 'bin', 'collectives_bench')

    def files(self, backends):
        """What a build must have."""
        return [self.launcher, self.path,
                *(os.path.join(self.build, 'lib', 'tutti', '0', f'libtutti-{backend}.so')
                  for backend in backends if backend in ENGINES)]

    def column(self, backend):
        return f'tutti-{backend}'

    def command(self, backend, ranks):
        return [self.launcher, 'run', '-n', str(ranks), self.path]

    def environment(self, backend):
        return {'TUTTI_BACKEND': backend}

    def version(self):
        done = subprocess.run([self.launcher, '--version'], capture_output=True, text=True,
                              timeout=60, check=False)
        return (runs.last_lines(done.stdout) or ['tutti'])[0]


class Mpi(Program):
    """An MPI of Debian, by the names that it has beside another one."""

    packages = ''

    def prepare(self, work):
        for tool in (f'mpicc.{self.name}', f'mpirun.{self.name}'):
            if not shutil.which(tool):
                raise Absent(f'{self.label} is left out: {tool} is not there '
                             f'(Debian: apt install {self.packages})')
        self.path = os.path.join(work, self.name)
        compile_with([f'mpicc.{self.name}', *FLAGS, '-o', self.path,
                      source('mpi_collectives.c')], self.label)

    def command(self, backend, ranks):
        return [f'mpirun.{self.name}', '-n', str(ranks), *self.options(backend), self.path]

    def options(self, backend):
        del backend
        return []


class OpenMpi(Mpi):
    name, label, packages = 'openmpi', 'Open MPI', 'openmpi-bin libopenmpi-dev'

    def options(self, backend):
        tcp = ['--mca', 'btl', 'tcp,self', '--mca', 'pml', 'ob1', '--mca', 'btl_tcp_if_include',
               'lo']
        return ['--oversubscribe', '--bind-to', 'none', *(tcp if LINKS[backend] == 'tcp' else [])]

    def environment(self, backend):
        return {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}


class Mpich(Mpi):
    name, label, packages = 'mpich', 'MPICH', 'mpich libmpich-dev'

    def left_out(self, backend, ranks):
        if LINKS[backend] != 'shm':
            return 'its TCP is not measured'
        if ranks > len(os.sched_getaffinity(0)):
            return 'it never yields a CPU, and ranks outnumber CPUs'
        return None


class IntelMpi(Program):
    """From PyPI into a folder of the build. Its wheels ask for a package that PyPI does not have, and work
    without it."""

    name, label = 'intel', 'Intel MPI'
    release, megabytes, megabytes_there = '2021.19.0', 132, 345
    packages = [f'impi-rt=={release}', f'impi-devel=={release}']
    licence = os.path.join('share', 'doc', 'mpi', 'licensing', 'license.txt')

    def __init__(self, build, say):
        self.folder = os.path.join(build, 'peers', 'intel-mpi')
        self.say = say

    def prepare(self, work):
        if platform.machine() != 'x86_64':
            raise Absent('Intel MPI is left out: it is for x86-64 only')
        self.install()
        self.path = os.path.join(work, self.name)
        library = os.path.join(self.folder, 'lib')
        compile_with(['gcc', *FLAGS, '-I', os.path.join(self.folder, 'include'), '-o', self.path,
                      source('mpi_collectives.c'), '-L', library, '-lmpi',
                      f'-Wl,-rpath,{library}'], self.label)

    def install(self):
        done = os.path.join(self.folder, 'installed')
        wanted = ' '.join(self.packages)
        if os.path.exists(done):
            with open(done, encoding='utf-8') as file:
                if file.read().strip() == wanted:
                    return
        self.say(f'Intel MPI is proprietary: {" and ".join(self.packages)} from PyPI, under the Intel '
                 f'Simplified\n  Software License. Downloading {self.megabytes} MB; '
                 f'{self.megabytes_there} MB in {self.folder}.\n'
                 f'  The licence is then in {os.path.join(self.folder, self.licence)}.')
        shutil.rmtree(self.folder, ignore_errors=True)
        pip = [os.path.join(self.folder, 'bin', 'pip'), 'install', '--quiet',
               '--disable-pip-version-check', '--no-deps', '--only-binary', ':all:', *self.packages]
        try:
            for words in (['python3', '-m', 'venv', self.folder], pip):
                subprocess.run(words, capture_output=True, text=True, timeout=900, check=True)
            with open(done, 'w', encoding='utf-8') as file:
                file.write(wanted + '\n')
        except subprocess.CalledProcessError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            words = runs.last_lines(error.stdout + error.stderr)
            raise Absent('\n  '.join(['Intel MPI is left out, since it could not be installed '
                                      '(it needs python3-venv and PyPI):', *words])) from None
        except subprocess.TimeoutExpired:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise Absent('Intel MPI is left out: pip did not end within 900 s') from None

    def left_out(self, backend, ranks):
        return None if LINKS[backend] == 'shm' else 'it does not start over TCP without its libfabric'

    def command(self, backend, ranks):
        return [os.path.join(self.folder, 'bin', 'mpiexec.hydra'), '-n', str(ranks), self.path]

    def environment(self, backend):
        return {'I_MPI_FABRICS': 'shm', 'I_MPI_PIN': '0'}


class StartedByTutti(Program):
    """A library without a launcher: `tutti run` gives each rank its number, and nothing else."""

    def __init__(self, build):
        self.launcher = os.path.join(build, 'bin', 'tutti')

    def command(self, backend, ranks):
        return [self.launcher, 'run', '-n', str(ranks), self.path]


class Gloo(StartedByTutti):
    name, label = 'gloo', 'Gloo'

    def prepare(self, work):
        cxx = ['g++', '-std=c++17']
        if not has_header([*cxx, '-x', 'c++'], 'gloo/context.h'):
            raise Absent('Gloo is left out: g++ with gloo/context.h is not there '
                         '(Debian: apt install g++ libgloo-dev)')
        self.path = os.path.join(work, self.name)
        main = self.path + '.o'
        compile_with(['gcc', *FLAGS, '-c', '-o', main, source('gloo_collectives.c')], self.label)
        compile_with([*cxx, *FLAGS, '-o', self.path, source('gloo_calls.cc'), main, '-lgloo',
                      '-lpthread'], self.label)

    def left_out(self, backend, ranks):
        return None if LINKS[backend] == 'tcp' else 'it has TCP only'


class Ucc(StartedByTutti):
    name, label = 'ucc', 'UCC'

    def prepare(self, work):
        home = os.environ.get('UCC_HOME')
        library = os.path.join(home, 'lib') if home else ''
        include = ['-I', os.path.join(home, 'include')] if home else []
        if not has_header(['gcc', '-x', 'c'], 'ucc/api/ucc.h', *include):
            raise Absent('UCC is left out: ucc/api/ucc.h is not there (Debian 12 has no package; '
                         'set UCC_HOME to where it is installed)')
        self.path = os.path.join(work, self.name)
        link = ['-L', library, f'-Wl,-rpath,{library}'] if home else []
        compile_with(['gcc', *FLAGS, *include, '-o', self.path, source('ucc_collectives.c'), *link,
                      '-lucc'], self.label)

    def environment(self, backend):
        transport = {'UCX_TLS': 'self,tcp', 'UCX_NET_DEVICES': 'lo'} if LINKS[backend] == 'tcp' else \
            {'UCX_TLS': 'self,shm'}
        return {**transport, 'UCX_LOG_LEVEL': 'error'}
