# SPDX-License-Identifier: Apache-2.0
"""One run of a program: its deadline, its end, and what it leaves.

Launchers put ranks into sessions and process groups of their own. So every process of a run has the
path of the probe file, which only this comparison uses, in its environment: what is killed is what
has it. That must hold for each command that is started here.
"""
import os
import signal
import subprocess
import time

GRACE_S = 3
LAST_LINES = 6


class Outcome:
    """How a run ended. `failure` is None, or words that say what happened."""

    def __init__(self, code, output, errors, failure):
        self.code, self.output, self.errors, self.failure = code, output, errors, failure


def last_lines(text, count=LAST_LINES):
    return [line for line in text.splitlines() if line.strip()][-count:]


def processes_of(probe):
    """The processes whose environment has this BENCH_PROBE."""
    wanted, found = b'BENCH_PROBE=' + os.fsencode(probe), []
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/environ', 'rb') as file:
                if wanted in file.read().split(b'\0'):
                    found.append(int(name))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


def _signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


def end_all(process, probe):
    """Ends a run: the launcher may end its ranks first. A second Ctrl-C does not cut this short. `process` is None
    if Ctrl-C came while it was being started."""
    old = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if process and process.poll() is None:
            process.terminate()
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        deadline = time.monotonic() + GRACE_S
        while (left := processes_of(probe)) and time.monotonic() < deadline:
            _signal_all(left, signal.SIGKILL)
            time.sleep(0.02)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def run(command, environment, probe, folder, timeout_s):
    """Runs a command to its end or for `timeout_s`; leaves no process of it, whatever happens."""
    paths = [os.path.join(folder, name) for name in ('stdout', 'stderr')]
    process = failure = None
    # Files, as a rank that outlives its launcher would hold a pipe open.
    with open(paths[0], 'wb') as out, open(paths[1], 'wb') as errors:
        try:
            process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=out,
                                       stderr=errors, stdin=subprocess.DEVNULL,
                                       start_new_session=True)
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            failure = f'did not end within {timeout_s:g} s'
        finally:
            end_all(process, probe)
    texts = []
    for path in paths:
        with open(path, encoding='utf-8', errors='replace') as file:
            texts.append(file.read())
    if not failure and process.returncode < 0:
        failure = f'was ended by signal {-process.returncode}'
    elif not failure and process.returncode > 0:
        failure = f'ended with exit code {process.returncode}'
    return Outcome(process.returncode, *texts, failure)
