"""Runs the suite on a faulty plugin until the first failure."""

import os
import resource
import select
import signal
import subprocess
import time

import sources

SILENCE = 60  # seconds without a finished case: hung
MEMORY = 8 << 30  # bytes: a fault may allocate without end


def device_environment(build, device):
    """The environment in which only this device's driver is seen (scripts/common.sh)."""
    script = f'build={build}; . scripts/common.sh; prepare_drivers; use_device {device}; env -0'
    done = subprocess.run(['bash', '-c', script], cwd=sources.ROOT, stdout=subprocess.PIPE, check=True)
    environment = dict(entry.split('=', 1) for entry in done.stdout.decode().split('\0') if '=' in entry)
    environment['LP_NUM_THREADS'] = '1'
    return environment


class Verdict:
    """`refused`: the cases that the device did not take, by op and number."""

    def __init__(self, outcome, by, seconds, lines=()):
        self.outcome, self.by, self.seconds = outcome, by, seconds
        self.refused = {' '.join(line.split()[1:3]) for line in lines if ']: unsupported' in line}


def named(ops):
    return ops if isinstance(ops, str) else ','.join(ops or [])


def conformance(build, environment, device, tier, ops, variant=None, judge='bounds', silence=SILENCE, own=False, under=(),
                part=None, more=()):
    """'killed', 'survived' or 'nothing' (was tested), and what killed it. `ops`: names, None for all, or the path of a
    library that declares operations, of which the device must refuse none. `under`: a command that runs the program.
    `part`: a slice of the cases. `more`: further options of the program."""
    library = isinstance(ops, str)
    command = [*under, os.path.join(build, 'portico'), 'conformance', '--devices', device, '--tier', tier, '--fail-fast',
               '--verbose', '--max-failures', '1', '--judge', judge]
    command += [] if own else ['--in-process']  # worker processes cost time, and find nothing more in a kernel
    command += ['--ops-from' if library else '--ops', named(ops)] if ops else []
    command += ['--variant', variant] if variant else []
    command += ['--slice', part] if part else []
    command += more
    # Sanitizers reserve more than there is.
    bounded = None if 'LD_PRELOAD' in environment or under else lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    start, last, pieces = time.monotonic(), time.monotonic(), []
    child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, start_new_session=True, preexec_fn=bounded)
    hung = False
    while True:
        ready, _, _ = select.select([child.stderr], [], [], 1.0)
        if ready:
            piece = os.read(child.stderr.fileno(), 1 << 16)
            if not piece:
                break
            pieces.append(piece)
            last = time.monotonic()
        elif time.monotonic() - last > silence:
            hung = True
            os.killpg(child.pid, signal.SIGKILL)
            break
    status = child.wait()
    child.stderr.close()
    seconds = time.monotonic() - start
    lines = [line for line in b''.join(pieces).decode(errors='replace').split('\n') if line.strip()]
    if hung:
        return Verdict('killed', f'hung after {seconds:.0f} s', seconds)
    # A plugin that crashes when its devices are counted is left out, and that of the build folder found instead.
    left_out = [line for line in lines if line.startswith('portico: warning: plugin ') and ' is not used: ' in line]
    if left_out:
        return Verdict('killed', left_out[0][:300], seconds)
    refused = [line for line in lines if library and ']: unsupported' in line]
    if status == 0 and refused:
        return Verdict('killed', refused[0][:300], seconds)
    if status == 0:
        return Verdict('survived', '', seconds, lines)
    bad = [line for line in lines if ']: fail' in line or ']: mistrusted' in line or ']: crashed' in line or
           ']: hung' in line or ']: device lost' in line or ']: flaky' in line]
    by = bad[0] if bad else lines[-1] if lines else f'status {status}'
    if status < 0:
        by = f'the program died by signal {-status}'
    return Verdict('nothing' if status == 2 else 'killed', by[:300], seconds, lines)


def unit_test(program, seconds=300, arguments=(), environment=None):
    """Why a unit test fails, in a line; None if it passes."""
    try:
        done = subprocess.run([program, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f'hung after {seconds} s'
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.decode(errors='replace').split('\n') if line.strip()]
    failed = [line for line in lines if line.startswith('[  FAILED  ]')]
    return (failed or lines or [f'status {done.returncode}'])[0][:200]
