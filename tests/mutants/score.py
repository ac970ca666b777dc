"""Measures the suite: makes each fault, lets the suite judge it, keeps the result, prints the table of scores."""

import argparse
import concurrent.futures
import fnmatch
import glob
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading
import time

import judging
import plugins
import sites
import sources

sys.path.append(os.path.join(sources.ROOT, 'scripts'))
import drm_shims  # noqa: E402  (the folder is known only now)
import newer_lavapipe  # noqa: E402

SEED = 1
NEWER = {'PORTICO_SELF_TEST': 'off', 'MESA_SHADER_CACHE_DISABLE': 'true', 'LP_NUM_THREADS': '1'}
MANY_STAGES = 8
POCL_OPS = 6  # what more operations reach takes PoCL's compiler minutes
KINDS = ['classic', 'arithmetic', 'index', 'comparison', 'barrier', 'constant']


def suite_hash():
    """What the verdicts depend on, beside the fault."""
    digest = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(sources.ROOT, 'conformance/**/*.[ch]'), recursive=True)):
        if 'onnx' not in path:
            digest.update(sources.read(path).encode())
    digest.update(sources.read(os.path.join(sources.ROOT, 'core/graph/ops.def')).encode())
    return digest.hexdigest()[:12]


class Results:
    """A file of JSON lines; what is in it is not measured again."""

    def __init__(self, path):
        self.path, self.lock, self.rows, self.settled = path, threading.Lock(), {}, {}
        self.argued = sites.equivalents()
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        if os.path.exists(path):
            for line in sources.read(path).split('\n'):
                try:
                    row = json.loads(line)
                except ValueError:
                    continue  # a line that an interrupted run left unfinished
                self.keep(row)

    def keep(self, row):
        self.rows[row['key'], row['suite'], row['device'], row['tier']] = row
        if row['outcome'] in ('killed', 'same') or row['name'] in self.argued:
            self.settled[row['key'], row['device'], row['tier']] = row

    def add(self, row):
        with self.lock, open(self.path, 'a', encoding='utf-8') as file:
            file.write(json.dumps(row) + '\n')
            file.flush()
            self.keep(row)


class Stage:
    """A part of the cases: the kernel files that are exchanged for it (None: all), the ops (names, or the library that
    declares operations of one's own), the variants."""

    def __init__(self, files, ops, variant):
        self.files, self.ops, self.variant = files, ops, variant


class Course:
    """What all faults of a run have in common."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.newer = newer_lavapipe.Place(pathlib.Path(arguments.build)) if arguments.newer else None
        self.build = str(self.newer.tree) if self.newer else os.path.realpath(arguments.build)
        self.lowering = sources.Lowering()
        self.kernels = sources.Kernels(self.lowering)
        self.suite = suite_hash()
        self.results = Results(arguments.results or os.path.join(self.build, 'mutants', 'results.jsonl'))
        self.environments, self.lock, self.sound, self.refused = {}, threading.Lock(), set(), {}
        self.code_of = {}
        self.argued = self.results.argued
        self.room = tempfile.mkdtemp(prefix='work-', dir=self.kept_folder())
        self.rows_of = {file: sum(row.file == file for row in self.kernels.rows) for file in self.kernels.reach}

    def kept_folder(self):
        folder = os.path.join(self.build, 'mutants')
        os.makedirs(folder, exist_ok=True)
        return folder

    def surroundings(self, device):
        """The environment in which that device alone is seen. Under the lock."""
        if device not in self.environments:
            self.environments[device] = NEWER if self.newer else judging.device_environment(self.build, device)
        return self.environments[device]

    def environment(self, device, worker):
        with self.lock:
            known = self.surroundings(device)
        folder = os.path.join(self.room, str(worker))
        return {**known, 'PORTICO_PLUGIN_PATH': os.path.join(folder, 'plugins'),
                'PORTICO_CACHE_DIR': os.path.join(folder, 'cache')}

    def judge(self, environment, device, tier, ops, variant=None, judge='bounds'):
        """By the device's own cases."""
        under = self.newer.command(environment) if self.newer else ()
        return judging.conformance(self.build, environment, device, tier, ops, variant, judge, under=under)

    def require_sound(self, device, tier, ops, variant, builder=None, environment=None):
        """A failure counts only where the device passes without the fault: a kernel that its compiler cannot take would
        kill every fault. With a builder, its plugin (small windows, sanitizers) is made without the fault."""
        how = (builder.small_windows, builder.few_groups, builder.sanitized) if builder else None
        what = (device, tier, tuple(ops), variant, how)
        with self.lock:
            if what in self.sound:
                return
            if builder:
                builder.make(None)
            verdict = self.judge(environment or self.surroundings(device), device, tier, ops, variant)
            if verdict.outcome != 'survived':
                words = f' (windows of {plugins.WINDOW} bytes)' if builder and builder.small_windows else ''
                words += f' (grids of {plugins.GROUPS} groups)' if builder and builder.few_groups else ''
                raise SystemExit(f'{device}{words} does not pass tier {tier} of {judging.named(ops)} without a fault, so that '
                                 f'nothing can be measured there: {verdict.by or verdict.outcome}')
            self.sound.add(what)

    def refused_anyway(self, device, tier, stage, builder, environment):
        """What a device of small windows refuses without the fault."""
        what = (device, tier, tuple(stage.ops), stage.variant)
        with self.lock:
            if what not in self.refused:
                builder.make(None)
                verdict = self.judge(environment, device, tier, stage.ops, stage.variant)
                if verdict.outcome == 'killed':
                    raise SystemExit(f'{device} (windows of {plugins.WINDOW} bytes) does not pass tier {tier} of '
                                     f'{judging.named(stage.ops)} without a fault: {verdict.by}')
                self.refused[what] = verdict.refused
            return self.refused[what]

    def builder(self, backend, worker):
        folder = os.path.join(self.room, str(worker))
        for name in glob.glob(os.path.join(folder, 'plugins', '*.so')):
            os.unlink(name)
        os.makedirs(os.path.join(folder, 'cache'), exist_ok=True)
        return plugins.Builder(backend, self.build, folder, os.path.join(self.kept_folder(), 'kept'),
                               str(self.newer.glslc) if self.newer else 'glslc')

    def row(self, mutant):
        return {'name': mutant.name, 'key': mutant.key, 'suite': self.suite, 'device': self.device_of(mutant),
                'tier': self.arguments.tier, 'family': mutant.family, 'kind': mutant.kind, 'origin': mutant.origin,
                'file': mutant.file, 'line': mutant.first, 'old': mutant.old, 'new': mutant.new, 'outcome': 'same',
                'by': '', 'norm': 'survived', 'norm_by': ''}

    def device_of(self, mutant):
        if mutant.family == 'plugin':
            return 'cpu:native'
        asked = self.arguments.device
        alone = asked.startswith('vulkan:') and not self.newer and self.for_opencl_alone(mutant)
        return 'opencl:pocl' if alone else asked

    def for_opencl_alone(self, mutant):
        """Has the build code of what the fault reaches for OpenCL only?"""
        if mutant.family != 'kernels':
            return False
        files = self.kernels.files_of(os.path.basename(mutant.file), mutant.first)
        return bool(files) and not self.coded('vulkan') & set(files) and bool(self.coded('opencl') & set(files))

    def coded(self, backend):
        """The kernel files of which the build has code."""
        with self.lock:
            if backend not in self.code_of:
                self.code_of[backend] = plugins.files_with_code(backend, self.build)
            return self.code_of[backend]

    def cost(self, mutant):
        """Roughly, what there is to compile for it."""
        if mutant.family == 'plugin':
            return 0
        return sum(self.rows_of[file] for stage in self.stages(mutant)
                   for file in (stage.files or {file for op in self.names(stage) for file in self.lowering.kernels[op]}))

    def names(self, stage):
        """The operations of the table that it has."""
        return [] if isinstance(stage.ops, str) else stage.ops

    def stages(self, mutant):
        """The cheapest cases first: what is killed there need not be judged by the rest."""
        name = os.path.basename(mutant.file)
        if mutant.family == 'lowering':
            own, only_own = self.lowering.for_own(name, mutant.first)
            stages = [Stage(None, os.path.join(self.build, 'tests/operations/operations.so'), None)] if own else []
            if only_own:
                return stages
            groups = self.lowering.lowerer_groups(self.lowering.ops_of_line(name, mutant.first))
            cost = [(sum(self.rows_of[file] for op in group[:1] for file in self.lowering.kernels[op]), group)
                    for group in groups]
            return stages + [Stage(None, group, None) for _, group in sorted(cost, key=lambda pair: pair[0])]
        files = sorted(self.kernels.files_of(name, mutant.first), key=lambda file: (self.rows_of[file], file))
        stages = []
        for file in files:
            ops, variants = self.kernels.ops_of(file, name, mutant.first), sources.VARIANTS.get(file, [])
            named = [op for op in ops if variants and op in sources.WITH_VARIANTS]
            stages += [Stage([file], named, variant) for variant in variants]
            stages.append(Stage([file], [op for op in ops if op not in named], None))
        return [stage for stage in stages if stage.ops]


def sees_memory(course, mutant, stages, worker, few_groups=False):
    """Does oclgrind's interpreter see a data race that a CPU driver cannot show, or the suite there a write outside of
    a tensor that a Vulkan driver does not let out of the binding? With few_groups: where grids have groups that nobody
    asked for, as those of more than 65,535 have elsewhere."""
    builder = course.builder('opencl', worker)
    builder.few_groups = few_groups
    environment = course.environment('opencl:oclgrind', worker)
    log = os.path.join(builder.scratch, 'races.txt')
    environment.update({'OCLGRIND_DATA_RACES': '1', 'OCLGRIND_LOG': log})
    for stage in stages:
        if not builder.make(mutant, stage.files):
            continue
        if os.path.exists(log):
            os.unlink(log)
        variant = None if stage.variant == 'gemv*' else stage.variant
        verdict = judging.conformance(course.build, environment, 'opencl:oclgrind', 'tiny', stage.ops, variant)
        words = f'oclgrind, grids of {plugins.GROUPS} groups' if few_groups else 'oclgrind'
        if verdict.outcome == 'killed':
            how = (builder, environment) if few_groups else ()
            course.require_sound('opencl:oclgrind', 'tiny', stage.ops, variant, *how)
            return f'{words}: {verdict.by}'
        if os.path.exists(log) and os.path.getsize(log):
            return f'{words}: {sources.read(log).strip().split(chr(10))[0]}'
    return None


def sees_shared_memory(course, mutant, stages, worker):
    """Does valgrind see compiled code read or write behind the shared memory of a workgroup? lavapipe allocates as much as
    the kernel declares. oclgrind sees it, too, but not in kernels that need what only Vulkan has; and some cases are enough,
    for where arrays end does not depend on what is in them."""
    if not shutil.which('valgrind'):
        return None
    builder, environment = course.builder('vulkan', worker), course.environment(course.arguments.device, worker)
    environment['LP_NUM_THREADS'] = '0'
    log = os.path.join(builder.scratch, 'valgrind.txt')
    for stage in stages:
        if isinstance(stage.ops, str) or not any('SHARED(' in sources.read(os.path.join(sources.SHADERS, file))
                                                 for file in stage.files or ()):
            continue
        builder.make(mutant, stage.files)
        judging.conformance(course.build, environment, course.arguments.device, 'quick', stage.ops, stage.variant, silence=300,
                            under=['valgrind', '-q', '--smc-check=all-non-file', f'--log-file={log}'], part='1/12')
        # ??? is code without a name; valgrind says more of libraries, and of the loader what is no fault.
        found = re.search(r'Invalid (?:read|write)[^\n]*\n[^\n]*: \?\?\?\n', sources.read(log)) if os.path.exists(log) else None
        if found:
            return 'valgrind: ' + ' '.join(word for word in found.group(0).split() if not word.startswith('=='))
    return None


def sees_hazards(course, mutant, stages, worker):
    """Does Vulkan's validation layer see a dispatch that does not wait for another? Drivers of processors run them one
    after the other, whatever they are told."""
    device = course.arguments.device
    builder, environment = course.builder('vulkan', worker), course.environment(device, worker)
    messages = os.path.join(builder.scratch, 'validation.txt')
    settings = {'debug_action': 'VK_DBG_LAYER_ACTION_LOG_MSG', 'report_flags': 'error', 'log_filename': messages,
                'enables': 'VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT'}
    with open(os.path.join(builder.scratch, 'vk_layer_settings.txt'), 'w', encoding='utf-8') as file:
        file.write(''.join(f'khronos_validation.{key} = {value}\n' for key, value in settings.items()))
    environment.update({'VK_LAYER_SETTINGS_PATH': builder.scratch, 'VK_INSTANCE_LAYERS': 'VK_LAYER_KHRONOS_validation'})
    for stage in stages:
        builder.make(mutant, stage.files)
        if os.path.exists(messages):
            os.unlink(messages)
        judging.conformance(course.build, environment, device, 'tiny', stage.ops, stage.variant)
        if os.path.exists(messages):
            hazards = [line for line in sources.read(messages).split('\n') if 'SYNC-HAZARD' in line]
            if hazards:
                return f'validation: {hazards[0][:200]}'
    return None


def sees_windows(course, mutant, stages, worker):
    """Does it show when tensors are cut into windows that begin anywhere, as only large ones are otherwise? What is
    refused there, and taken without the fault, shows it too."""
    arguments = course.arguments
    builder, environment = course.builder('vulkan', worker), course.environment(arguments.device, worker)
    builder.small_windows = True
    for stage in stages:
        if isinstance(stage.ops, str):
            continue  # kernels of these are not cut: a device of such windows refuses the larger tensors
        builder.make(mutant, stage.files)
        verdict = course.judge(environment, arguments.device, arguments.tier, stage.ops, stage.variant)
        if verdict.outcome == 'killed':
            course.require_sound(arguments.device, arguments.tier, stage.ops, stage.variant, builder, environment)
            return f'windows of {plugins.WINDOW} bytes: {verdict.by}'
        if verdict.refused:
            new = verdict.refused - course.refused_anyway(arguments.device, arguments.tier, stage, builder, environment)
            if new:
                return f'windows of {plugins.WINDOW} bytes: {min(new)} is refused, and is not without the fault'
    return None


def preloaded():
    """The sanitizers' libraries: the program itself is built without."""
    compiler = (os.environ.get('CC') or 'cc').split()
    return ' '.join(plugins.run([*compiler, f'-print-file-name={name}']).stdout.strip() for name in ('libasan.so', 'libubsan.so'))


def sees_sanitizer(course, mutant, stages, worker):
    """Do the sanitizers see what the host's code does to memory, or that its arithmetic has no defined result? They are in
    the object of the file with the fault. Once more with small windows, for which there is code of its own."""
    if mutant.family != 'lowering':
        return None
    return sanitized(course, mutant, stages, worker, False) or sanitized(course, mutant, stages, worker, True)


def sanitized(course, mutant, stages, worker, small_windows):
    builder, environment = course.builder('vulkan', worker), course.environment(course.arguments.device, worker)
    builder.sanitized, builder.small_windows = os.path.basename(mutant.file), small_windows
    environment.update({'ASAN_OPTIONS': 'abort_on_error=1:detect_leaks=0:detect_stack_use_after_return=0',
                        'UBSAN_OPTIONS': 'halt_on_error=1:abort_on_error=1', 'LD_PRELOAD': preloaded()})
    for stage in stages:
        if small_windows and isinstance(stage.ops, str) or not builder.make(mutant, stage.files):
            continue
        verdict = judging.conformance(course.build, environment, course.arguments.device, 'quick', stage.ops, stage.variant)
        if verdict.outcome == 'killed':
            course.require_sound(course.arguments.device, 'quick', stage.ops, stage.variant, builder, environment)
            return f'sanitizers: {verdict.by}'
    return None


def sees_unit(course, mutant, worker, tests=plugins.UNITS):
    """Do the unit tests of the lowering see it? They lower what the devices here do not: on descriptions of other ones."""
    if mutant.family != 'lowering':
        return None
    builder = course.builder('vulkan', worker)
    for test in tests:
        program = builder.unit_test(test, mutant)
        done = program and judging.unit_test(program)
        if done:
            sound = judging.unit_test(os.path.join(course.build, 'tests', f'test_{test}'))
            if sound:
                raise SystemExit(f'the unit test {test} does not pass without a fault: {sound}')
            return f'unit test {test}: {done}'
    return None


def sees_on_device(course, mutant, worker):
    """Do the unit tests that run on the device see it? Other values of tunables, which devices with few registers are given
    and this one is not; operations of one's own, with declarations that no case of the suite has."""
    builder, device = course.builder('vulkan', worker), course.arguments.device
    if mutant.family == 'kernels':
        test, words = 'tuned_vulkan', 'values of tunables'
    elif mutant.file.endswith('lower_own.c'):
        test, words = 'own_op', 'unit test own_op'
    else:
        return None
    if not builder.make(mutant):
        return None
    program = os.path.join(course.build, 'tests/test_' + test)
    done = judging.unit_test(program, 600, [device], course.environment(device, worker))
    if done and judging.unit_test(program, 600, [device], judging.device_environment(course.build, device)):
        raise SystemExit(f'the unit test {test} {device} does not pass without a fault')
    return f'{words}: {done}' if done else None


def sees_pocl(course, mutant, stages, worker):
    """Does PoCL see it? It has forms of kernels that no Vulkan device chooses (sixteen elements side by side), and a
    compiler that turns invocations into vectors; and kernels that are made at run time are text there. Of the operations of
    the table that reach the fault some are asked: its compiler is slow. Once more with small windows: behind one it reads
    what is there, where lavapipe reads 0."""
    return asked_of_pocl(course, mutant, stages, worker, False) or asked_of_pocl(course, mutant, stages, worker, True)


def asked_of_pocl(course, mutant, stages, worker, small_windows):
    asked, left = [], POCL_OPS
    for stage in stages:
        ops = stage.ops if isinstance(stage.ops, str) else stage.ops[:left]
        left -= len(course.names(stage)[:left])
        if ops:
            asked.append(Stage(stage.files, ops, stage.variant))
    builder, environment = course.builder('opencl', worker), course.environment('opencl:pocl', worker)
    builder.small_windows = small_windows
    for stage in asked:
        if small_windows and isinstance(stage.ops, str) or not builder.make(mutant, stage.files):
            continue
        verdict = judging.conformance(course.build, environment, 'opencl:pocl', 'quick', stage.ops, stage.variant)
        if verdict.outcome == 'killed':
            course.require_sound('opencl:pocl', 'quick', stage.ops, stage.variant, *((builder, environment) if small_windows else ()))
            return f'PoCL{f" (windows of {plugins.WINDOW} bytes)" if small_windows else ""}: {verdict.by}'
    return None


def measure_plugin(course, fault):
    """One row of the results, for a device of the faulty plugin."""
    environment = course.environment('cpu:native', 'none')
    environment['PORTICO_PLUGIN_PATH'] = os.path.join(course.build, 'tests/mutants/faulty')
    row = course.row(fault)
    for judge, member in (('bounds', 'outcome'), ('nmse', 'norm'), ('field', 'field')):
        more = sites.ASKED.get(fault.name, []) if judge == 'bounds' else []
        verdict = judging.conformance(course.build, environment, fault.name, course.arguments.tier, None, None, judge, 60, True,
                                      more=more)
        row[member] = verdict.outcome
        if judge == 'bounds':
            row['by'], row['seconds'] = verdict.by, round(verdict.seconds, 2)
            if verdict.outcome == 'nothing':
                row[member], row['by'] = 'killed', f'nothing could be tested: {verdict.by}'
        elif verdict.outcome == 'nothing':  # other suites call that skipped, and the run a success
            row[member] = 'survived'
    return row


def measure(course, mutant, worker):
    """One row of the results."""
    if mutant.family == 'plugin':
        return measure_plugin(course, mutant)
    arguments, start, device = course.arguments, time.monotonic(), course.device_of(mutant)
    backend = device.split(':')[0]
    builder, environment = course.builder(backend, worker), course.environment(device, worker)
    row = course.row(mutant)
    stages = course.stages(mutant)
    if not stages:
        raise SystemExit(f'{mutant.name}: no op of the suite reaches {mutant.file}:{mutant.first}')
    try:
        # What many operations reach takes the device a minute, and most of the unit tests a second.
        if mutant.family == 'lowering' and len(stages) > MANY_STAGES and builder.make(mutant):
            row['by'] = sees_unit(course, mutant, worker, plugins.UNITS[:-1]) or ''
            row['outcome'] = 'killed' if row['by'] else 'same'
        for stage in stages:
            if row['outcome'] == 'killed' and (row['norm'] == 'killed' or arguments.no_norm):
                break
            if not builder.make(mutant, stage.files):
                continue
            if row['outcome'] != 'killed':
                verdict = course.judge(environment, device, arguments.tier, stage.ops, stage.variant)
                row['outcome'] = 'survived' if verdict.outcome == 'nothing' and stage.variant else verdict.outcome
                row['by'] = verdict.by
                if verdict.outcome == 'nothing' and not stage.variant:
                    row['outcome'], row['by'] = 'killed', f'nothing could be tested: {verdict.by}'
                if row['outcome'] == 'killed' and isinstance(stage.ops, str):
                    course.require_sound(device, arguments.tier, stage.ops, None, builder, environment)
                if row['outcome'] == 'killed' and ('hung' in row['by'] or 'died' in row['by']):
                    row['norm'], row['norm_by'] = 'killed', row['by']  # any suite sees that
            # What passes every bound passes a norm of the same data; only what was caught is worth the comparison.
            if row['outcome'] == 'killed' and row['norm'] != 'killed' and not arguments.no_norm:
                verdict = course.judge(environment, device, arguments.tier, stage.ops, None, 'nmse')
                if verdict.outcome == 'killed':
                    row['norm'], row['norm_by'] = 'killed', verdict.by
        if row['outcome'] == 'survived' and builder.same_optimised(mutant, None):
            row['outcome'] = 'same'
        # The rest takes minutes, mostly for faults that are none: those are argued away before it, by who looks.
        beyond = row['outcome'] == 'survived' and not arguments.alone and mutant.name not in course.argued
        if beyond and course.newer:
            by = sees_windows(course, mutant, stages, worker)
            if by:
                row['outcome'], row['by'] = 'killed', by
        elif beyond and backend == 'opencl':
            by = None if mutant.kind == 'barrier' else asked_of_pocl(course, mutant, stages, worker, True)
            by = (by or sees_memory(course, mutant, stages, worker) or
                  sees_memory(course, mutant, stages, worker, few_groups=True))
            if by:
                row['outcome'], row['by'] = 'killed', by
        elif beyond and backend == 'vulkan':
            by = sees_unit(course, mutant, worker) or sees_on_device(course, mutant, worker)
            if not by and mutant.kind != 'barrier':
                by = sees_windows(course, mutant, stages, worker)
            if not by and (mutant.family == 'kernels' or mutant.file.endswith('lower_matmul.c')):
                by = (sees_memory(course, mutant, stages, worker) or
                      sees_memory(course, mutant, stages, worker, few_groups=True))
            if not by and (mutant.file.endswith('hazard.c') or mutant.family == 'lowering' and mutant.kind == 'barrier'):
                by = sees_hazards(course, mutant, stages, worker)
            by = by or sees_sanitizer(course, mutant, stages, worker) or sees_pocl(course, mutant, stages, worker)
            if not by and mutant.family == 'kernels' and arguments.device == 'vulkan:lavapipe':
                by = sees_shared_memory(course, mutant, stages, worker)
            if by:
                row['outcome'], row['by'] = 'killed', by
    except plugins.Invalid as error:
        row['outcome'], row['by'] = 'invalid', str(error)[:200]
    row['seconds'] = round(time.monotonic() - start, 2)
    return row


# ---- the table ----

def counted(rows, equivalents):
    """faults, killed, survived, equivalent, caught by the norm."""
    real = [row for row in rows if row['outcome'] in ('killed', 'survived')]
    argued = [row for row in real if row['outcome'] == 'survived' and row['name'] in equivalents]
    killed = sum(row['outcome'] == 'killed' for row in real)
    norm = sum(row['norm'] == 'killed' for row in real)
    return len(real), killed, len(real) - killed - len(argued), len(argued), norm


def percent(part, whole):
    return f'{100 * part / whole:.1f} %' if whole else '-'


def print_table(rows, equivalents, without_norm):
    print(f'{"family":10} {"kind":12} {"faults":>6} {"killed":>6} {"survived":>8} {"equivalent":>10} {"score":>8}'
          f' {"norm 1e-7":>10}')
    groups = [(family, kind) for family in ('kernels', 'lowering', 'plugin') for kind in KINDS + ['plugin']]
    groups += [('all', origin) for origin in ('by hand', 'mechanical')] + [('all', '')]
    for family, kind in groups:
        here = [row for row in rows if (family == 'all' and kind in ('', row['origin'])) or
                (row['family'] == family and row['kind'] == kind)]
        faults, killed, survived, argued, norm = counted(here, equivalents)
        if faults:
            print(f'{family:10} {kind:12} {faults:6} {killed:6} {survived:8} {argued:10} '
                  f'{percent(killed, killed + survived):>8} '
                  f'{"-" if without_norm else percent(norm, killed + survived):>10}')
    for words, what in (('oclgrind', 'by oclgrind, which sees data races and writes outside of a binding'),
                        ('sanitizers', 'by sanitizers, which see what the host does to memory'),
                        ('unit test', 'by unit tests: what is lowered for devices that are not here, operations of one\'s own'),
                        ('values of tunables', 'with another value of a tunable, which devices with few registers have'),
                        ('valgrind', 'by valgrind, which sees what is read and written behind shared memory'),
                        ('PoCL', 'by PoCL, for which there are forms of kernels of its own'),
                        ('validation', 'by the validation layer, which sees dispatches that do not wait for each other'),
                        ('windows', f'with a binding limit of {plugins.WINDOW} bytes, which cuts tensors into windows')):
        seen = sum(row['outcome'] == 'killed' and row['by'].startswith(words) for row in rows)
        if seen:
            print(f'of the killed, {seen} only {what}')
    field = [row for row in rows if 'field' in row]
    if field:
        print(f'of the plugin\'s {len(field)}, a norm of 5e-4 for matmul and attention catches '
              f'{sum(row["field"] == "killed" for row in field)}')
    same = sum(row['outcome'] == 'same' for row in rows)
    invalid = sum(row['outcome'] == 'invalid' for row in rows)
    if same or invalid:
        print(f'not counted: {same} whose code is that of the original, {invalid} that do not compile')
    for row in rows:
        if row['outcome'] == 'survived' and row['name'] not in equivalents:
            print(f'survived: {row["name"]} ({row["file"]}:{row["line"]}): {row["old"]!r} -> {row["new"]!r}')


# ---- the program ----

def chosen(arguments):
    """The faults of the lists, or mechanical ones drawn anew: nobody has fitted the suite to those."""
    mutants = (sites.choose(arguments.choose, arguments.seed, of=arguments.of) if arguments.choose else
               sites.faults() + sites.table() + sites.mechanical())
    if arguments.newer:  # the plugin wraps the CPU, and that driver does not run all kernels that the build has
        beyond = sources.files_that_need(['MIXED_FLOAT_DOT', 'VECTOR_16'])
        mutants = [m for m in mutants if m.family != 'plugin' and os.path.basename(m.file) not in beyond]
    if arguments.only:
        mutants = [m for m in mutants if any(fnmatch.fnmatch(text, arguments.only) for text in (m.name, m.kind, m.file))]
    return mutants


def sampled(course, mutants):
    """Some of those that are judged quickly."""
    quick = [m for m in mutants if course.cost(m) <= 6]
    return sorted(quick, key=lambda m: sites.digest(f'{course.arguments.seed} {m.name}'))[:course.arguments.sample]


def parse():
    parser = argparse.ArgumentParser(prog='scripts/mutants', description=__doc__)
    parser.add_argument('--device', default='vulkan:lavapipe', help='default: %(default)s')
    parser.add_argument('--tier', default='quick', help='default: %(default)s')
    parser.add_argument('--only', metavar='PATTERN', help='faults whose name, kind or file matches')
    parser.add_argument('--sample', type=int, metavar='N', help='only N of them, of those that are quickly judged')
    parser.add_argument('--seed', type=int, default=SEED, help='which sample, which sites for --choose (default: %(default)s)')
    parser.add_argument('--choose', type=int, metavar='N', help='instead of the listed faults, N mechanical ones drawn by --seed')
    parser.add_argument('--of', metavar='PATTERN', default='*', help='with --choose: of files whose name matches')
    parser.add_argument('--newer', action='store_true',
                        help="on Debian sid's lavapipe, which has cooperative matrices (scripts/newer-lavapipe)")
    parser.add_argument('--write', action='store_true',
                        help='with --choose: bring mechanical.txt to N sites, keeping those that it has; run nothing')
    parser.add_argument('--jobs', type=int, default=1, metavar='N')
    parser.add_argument('--build', default=os.path.join(sources.ROOT, 'build'), metavar='DIR')
    parser.add_argument('--keep-settled', action='store_true',
                        help='what an earlier version of the suite killed, or is argued away, need not be run again')
    parser.add_argument('--results', metavar='FILE', help='default: mutants/results.jsonl in the build folder')
    parser.add_argument('--alone', action='store_true',
                        help="by the device's own cases alone, without small windows, oclgrind and the like: what survives "
                        "is listed, and judged by the rest in a later run")
    parser.add_argument('--no-norm', action='store_true', help='without the comparison with a norm')
    parser.add_argument('--list', action='store_true', help='print the faults and run nothing')
    parser.add_argument('--table', action='store_true', help='print the table of what has been measured, run nothing')
    arguments = parser.parse_args()
    if arguments.newer:
        arguments.device = 'vulkan:0'
    return arguments


def describe(row):
    return f'{row["outcome"]:8} {row["norm"]:8} {row["seconds"]:6.1f} s  {row["name"]}  {row["by"][:140]}'


def main():
    arguments = parse()
    if arguments.write:
        if not arguments.choose:
            print('scripts/mutants: --write without --choose N has nothing to write', file=sys.stderr)
            return 2
        names = [site.name for site in sites.choose(arguments.choose, arguments.seed, keep=True)]
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mechanical.txt'), 'w',
                  encoding='utf-8') as file:
            file.write('\n'.join(sorted(names)) + '\n')
        return 0
    mutants = chosen(arguments)
    if not mutants:
        print('scripts/mutants: no fault matches', file=sys.stderr)
        return 2
    if arguments.list:
        for m in mutants:
            print(f'{m.name}\t{m.family}\t{m.kind}\t{m.file}:{m.first}\t{m.old!r} -> {m.new!r}')
        return 0
    course = Course(arguments)
    if arguments.sample:
        mutants = sampled(course, mutants)
    done = {}
    for m in mutants:
        row = course.results.rows.get((m.key, course.suite, course.device_of(m), arguments.tier))
        if not row and arguments.keep_settled:
            row = course.results.settled.get((m.key, course.device_of(m), arguments.tier))
        if row:
            done[m.name] = row
    waiting = [m for m in mutants if m.name not in done] if not arguments.table else []
    waiting.sort(key=lambda m: (course.cost(m), sites.digest(m.name)))
    numbers = list(range(arguments.jobs))

    def work(mutant):
        with course.lock:
            worker = numbers.pop()
        row = measure(course, mutant, worker)
        with course.lock:
            numbers.append(worker)
        if row['outcome'] != 'survived' or not arguments.alone:
            course.results.add(row)
        print(describe(row), file=sys.stderr, flush=True)
        return row

    try:
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for row in pool.map(work, waiting):
                done[row['name']] = row
    finally:
        shutil.rmtree(course.room, ignore_errors=True)
    rows = [done[m.name] for m in mutants if m.name in done]
    equivalents = sites.equivalents()
    print_table(rows, equivalents, arguments.no_norm)
    alive = [row for row in rows if row['outcome'] == 'survived' and row['name'] not in equivalents]
    print(f'device {arguments.device}, tier {arguments.tier}, suite {course.suite}, seed {arguments.seed}')
    return 1 if alive or not rows else 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except drm_shims.Unavailable as why:
        print(f'scripts/mutants: {why}', file=sys.stderr)
        sys.exit(77)
    except drm_shims.Failure as why:
        sys.exit(f'scripts/mutants: {why}')
