# SPDX-License-Identifier: Apache-2.0
"""What the figures were measured on: rows of a table, and the name of the file."""
import os
import re
import subprocess
import time

SETTINGS = ('TUTTI_', 'OMPI_', 'MPICH_', 'MPIR_', 'I_MPI_', 'UCX_', 'UCC_', 'FI_')


def read(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.read().strip()
    except OSError:
        return ''


def first_line(words):
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ''
    return done.stdout.strip().split('\n')[0] if done.returncode == 0 else ''


def cpu_name():
    for key in ('model name', 'Model', 'cpu'):
        if match := re.search(rf'^{key}\s*:\s*(.+)$', read('/proc/cpuinfo'), re.MULTILINE):
            return match[1].strip()
    return os.uname().machine


def family_and_model():
    """As the kernel tells them, of CPUs of the x86 family; None: it does not."""
    found = [re.search(rf'^{key}\s*:\s*(\d+)', read('/proc/cpuinfo'), re.MULTILINE)
             for key in ('cpu family', 'model')]
    return (found[0][1], found[1][1]) if all(found) else None


def slug():
    """The CPU's name as that of a file: letters, digits and hyphens. With its family and model, since a
    hypervisor gives different CPUs the same name."""
    name = re.sub(r'\((r|tm)\)', '', ' '.join([cpu_name().lower(), *(family_and_model() or ())]))
    return re.sub(r'[^a-z0-9]+', '-', name).strip('-') or 'cpu'


def caches():
    found = []
    for index in range(8):
        folder = f'/sys/devices/system/cpu/cpu0/cache/index{index}/'
        if read(folder + 'type') in ('Data', 'Unified'):
            found.append(f'L{read(folder + "level")} {read(folder + "size")} shared by CPUs '
                         f'{read(folder + "shared_cpu_list")}')
    return '; '.join(found) or 'not known'


def cpu():
    found = family_and_model()
    return cpu_name() + (' (family {}, model {})'.format(*found) if found else '')


def cpus():
    virtual = ' of a virtual machine' if re.search(r'^flags\s*:.*\bhypervisor\b',
                                                   read('/proc/cpuinfo'), re.MULTILINE) else ''
    return f'{cpu()}, {len(os.sched_getaffinity(0))} CPUs{virtual}'


def build_setting(build, name):
    match = re.search(rf'^{name}:\w+=(.*)$', read(os.path.join(build, 'CMakeCache.txt')),
                      re.MULTILINE)
    return match[1] if match else ''


def is_release(build):
    return build_setting(build, 'CMAKE_BUILD_TYPE') in ('Release', 'RelWithDebInfo') and not \
        build_setting(build, 'TUTTI_SANITIZE') and build_setting(build, 'TUTTI_COVERAGE') in ('', 'OFF')


def commit(tree):
    name = first_line(['git', '-C', tree, 'rev-parse', '--short', 'HEAD'])
    changed = first_line(['git', '-C', tree, 'status', '--porcelain', '--untracked-files=no'])
    return (name or 'not known') + (' with changes' if changed else '')


def settings():
    """Variables that change how the programs behave; a path, as that of UCC, does not."""
    return ', '.join(f'{name}={value}' for name, value in sorted(os.environ.items())
                     if name.startswith(SETTINGS) and '/' not in value) or 'none'


def load():
    return f'{os.getloadavg()[0]:.2f}'


def rows(build, tree, programs, figures, load_before):
    """(what, value) for a table."""
    release = read('/etc/os-release')
    system = re.search(r'^PRETTY_NAME="?([^"\n]+)', release, re.MULTILINE)
    compiler = build_setting(build, 'CMAKE_C_COMPILER') or 'cc'
    kind = build_setting(build, 'CMAKE_BUILD_TYPE') or 'no build type'
    found = [('CPU', cpus()), ('caches', caches())]
    for regime in ('near', 'far'):
        if link := figures.link(regime):
            found.append((f'hand-over of a cache line, {regime}', f'{link[0]:.0f} to {link[1]:.0f} ns'))
    found += [('system', f'{system[1] if system else "Linux"}, kernel {os.uname().release}'),
              ('compiler', f'{first_line([compiler, "--version"]) or compiler}, {kind}'),
              ('programs', '; '.join(program.version() for program in programs)),
              ('commit of the tree', commit(tree)),
              ('variables that were set', settings()),
              ('date', time.strftime('%Y-%m-%d')),
              ('load before', load_before)]
    return found
