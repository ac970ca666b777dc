"""Plugins with a fault in them, made without a build of their own: only the kernels that changed are compiled (without
optimisation), one object of the lowering at most, and the rest is linked from the build folder."""

import functools
import hashlib
import json
import os
import re
import shlex
import subprocess

import sources
from sources import embed


WINDOW = 1008  # 16 times an odd number: parts of it are not whole words by chance
GROUPS = 5
# By backend: the file that describes devices, and what its lines become.
FEW_GROUPS = {'opencl': ('opencl', 'devices.c', 'groups', (
    ('if (limits->max_groups[d] > INT32_MAX) limits->max_groups[d] = INT32_MAX;', f'limits->max_groups[d] = {GROUPS};'),))}
SMALL_WINDOWS = {'opencl': ('opencl', 'devices.c', 'windows', (
    ('limits->max_binding &= ~(uint64_t)3;', f'limits->max_binding = {WINDOW};'),)),
                 'vulkan': ('vulkan', 'describe.c', 'windows', (
    ('limits->max_binding = info->max_binding;', f'limits->max_binding = info->max_binding = {WINDOW};'),
    ('limits->offset_alignment = info->buffer_alignment;',
     'limits->offset_alignment = 256, info->buffer_alignment = 32;')))}
SANITIZERS = ['-fsanitize=address,undefined', '-fno-sanitize-recover=all', '-g']
UNITS = ['lowering', 'lowering_views', 'edges', 'edges_attention', 'described', 'cuts_vulkan', 'cuts_opencl', 'widths', 'split_vulkan', 'split_opencl', 'tuned_vulkan', 'constants']


class Invalid(Exception):
    """The edited source does not compile: no fault at all."""


def run(command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise Invalid(done.stderr.strip().split('\n')[0] or f'{command[0]} failed')
    return done


class Edited(embed.Sources):
    """The kernels' folder with one file exchanged."""

    def __init__(self, name=None, text=None):
        super().__init__(sources.SHADERS)
        self.name, self.edited = name, text

    def text(self, name):
        return self.edited if name == self.name else super().text(name)


@functools.lru_cache(None)
def table_rows():
    return embed.read_table(sources.SHADERS)


@functools.lru_cache(None)
def unchanged(backend):
    """The texts of all rows without a fault."""
    plain = embed.glsl_text if backend == 'vulkan' else embed.opencl_text
    return [plain(row, Edited()) for row in table_rows()]


@functools.lru_cache(None)
def commands(build):
    """How the build compiles each object."""
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as file:
        return {entry['output']: entry['command'] for entry in json.load(file)}


CODE_OF = {'vulkan': 'kernels_spirv.c', 'opencl': 'kernels_opencl.c'}


def rows_with_code(backend, build, rows):
    """Which rows the build has compiled: a compiler may lack what others need."""
    name = CODE_OF[backend]
    text = sources.read(os.path.join(build, 'backends', name))
    text = text[text.index('pco_gpu_sources[]'):]
    listed = re.findall(r'^    (NULL|gpu_source_\w+),', text[:text.index('};')], re.MULTILINE)
    if len(listed) != len(rows):
        raise SystemExit(f'{name} in the build folder is not of these kernels; build first')
    return [entry != 'NULL' for entry in listed]


def files_with_code(backend, build):
    """None where that plugin is not built."""
    if not os.path.exists(os.path.join(build, 'backends', CODE_OF[backend])):
        return set()
    rows = table_rows()
    return {row.file for row, has in zip(rows, rows_with_code(backend, build, rows)) if has}


class Builder:
    """Makes plugins of one backend ('vulkan' or 'opencl') in a scratch folder of its own."""

    def __init__(self, backend, build, scratch, kept, glslc='glslc'):
        self.backend, self.build, self.scratch, self.kept, self.glslc = backend, build, scratch, kept, glslc
        self.rows = table_rows()
        self.plain = embed.glsl_text if backend == 'vulkan' else embed.opencl_text
        self.has_code = rows_with_code(backend, build, self.rows)
        self.originals = unchanged(backend)
        os.makedirs(os.path.join(scratch, 'plugins'), exist_ok=True)
        os.makedirs(kept, exist_ok=True)
        folder = os.path.join(build, 'backends', f'{backend}.so.p')
        self.objects = {name: os.path.join(folder, name) for name in sorted(os.listdir(folder))
                        if name.endswith('.o') and 'kernels_' not in name}
        self.plugin = os.path.join(scratch, 'plugins', f'{backend}.so')
        self.small_windows = False  # a binding limit of WINDOW bytes, so that small tensors are cut as large ones are
        self.few_groups = False  # GROUPS in each dimension of a grid, which then has more groups than are asked for
        self.sanitized = None  # a file of the lowering whose object has sanitizers in it, with the mutant or without

    def code(self, row, text, optimised=False):
        """The path of a file with the row's code."""
        name = hashlib.sha256((text + str(optimised)).encode()).hexdigest()[:32]
        path = os.path.join(self.kept, f'{row.name}-{name}.{self.backend}')
        if os.path.exists(path):
            return path
        new = f'{path}.{os.getpid()}.{hashlib.sha256(self.scratch.encode()).hexdigest()[:8]}'
        if self.backend == 'opencl':
            with open(new, 'w', encoding='utf-8') as file:
                file.write(text + '\0')
        else:
            source = os.path.join(self.scratch, row.name + '.comp')
            with open(source, 'w', encoding='utf-8') as file:
                file.write(text)
            run([self.glslc, '-fshader-stage=compute', embed.target_of(row), '-O' if optimised else '-O0', source,
                 '-o', new])
        os.replace(new, path)
        return path

    def edited(self, mutant):
        """The kernels' folder with the mutant in it."""
        if mutant is None or mutant.family != 'kernels':
            return Edited()
        return Edited(os.path.basename(mutant.file), mutant.text)

    def texts(self, mutant, files):
        """The rows' texts with the mutant in them; of the kernel files named only, where files are given."""
        if mutant is None or mutant.family != 'kernels':
            return self.originals
        edited = self.edited(mutant)
        return [self.plain(row, edited) if files is None or row.file in files else original
                for row, original in zip(self.rows, self.originals)]

    def described(self, folder, name, tag, edits):
        """The object that describes devices, with other limits."""
        path = f'backends/{folder}/{name}'
        text = sources.read(os.path.join(sources.ROOT, path))
        for old, new in edits:
            if text.count(old) != 1:
                raise SystemExit(f'{path} no longer has the line that is changed for {tag}: {old}')
            text = text.replace(old, new)
        return {f'{folder}_{name}.o': self.compile(folder, name, text, tag)}

    def grouped(self):
        """With few workgroups in a dimension."""
        return self.described(*FEW_GROUPS['opencl'])

    def windowed(self):
        """With the small binding limit, and windows that begin at coarse offsets while tensors do not."""
        return self.described(*SMALL_WINDOWS[self.backend])

    def compile_lowering(self, name, text, tag):
        """The object of a file of the lowering with this text."""
        return self.compile('gpu', name, text, tag)

    def compile(self, folder, name, text, tag, output=None, words=()):
        output = output or f'backends/{self.backend}.so.p/{folder}_{name}.o'
        source, made = os.path.join(self.scratch, name), os.path.join(self.scratch, f'{tag}-{name}.o')
        with open(source, 'w', encoding='utf-8') as file:
            file.write(text)
        command, skip = [], False
        for word in shlex.split(commands(self.build)[output]):
            if skip:
                skip = False
            elif word in ('-o', '-c', '-MQ', '-MF'):
                skip = True
            elif word not in ('-MD', '-O3', '-O2', '-g') and not word.startswith('-W'):
                command.append(word)
        run(command + [*words, '-w', '-O1', '-I', os.path.join(sources.ROOT, 'backends', folder), '-c', source, '-o', made], cwd=self.build)
        return made

    def unit_test(self, test, mutant):
        """A unit test of the lowering with the mutant in it, which stands before the library that has the file's own
        object, so that nothing wants that; None where the build has no such test."""
        name, program = os.path.basename(mutant.file), f'tests/test_{test}'
        if not os.path.exists(os.path.join(self.build, program)):
            return None
        made = self.compile('gpu', name, mutant.text, f'unit-{test}', f'backends/libgpu.a.p/gpu_{name}.o')
        link = run(['ninja', '-C', self.build, '-t', 'commands', '-s', program]).stdout.strip().split('\n')[-1]
        words = shlex.split(link)
        linked = os.path.join(self.scratch, f'test_{test}')
        words[words.index('-o') + 1] = linked
        run([*words[:1], made, *words[1:]], cwd=self.build)
        return linked

    def table(self, texts, paths, prelude):
        """An object with the kernel table, the code of all rows, and what kernels made at run time begin with."""
        table, codes = os.path.join(self.scratch, 'table.c'), os.path.join(self.scratch, 'codes.S')
        as_text = self.backend == 'opencl'
        with open(codes, 'w', encoding='utf-8') as out:
            out.write('.section .rodata\n')
            for row, path in zip(self.rows, paths):
                if path:
                    out.write(f'.globl gpu_code_{row.name}\n.hidden gpu_code_{row.name}\n.balign 16\n'
                              f'gpu_code_{row.name}:\n.incbin "{path}"\n')
            out.write('.section .note.GNU-stack,"",@progbits\n')
        with open(table, 'w', encoding='utf-8') as out:
            out.write('#include "gpu.h"\n')
            out.writelines(f'extern const char gpu_code_{row.name}[];\n' for row, path in zip(self.rows, paths) if path)
            out.write('const pco_gpu_kernel pco_gpu_kernels[] = {\n')
            for row, text in zip(self.rows, texts):
                out.write(f'{row.c_row(text)},\n')
            out.write(f'}};\nconst uint32_t pco_gpu_n_kernels = {len(self.rows)};\nconst pco_gpu_code pco_gpu_codes[] = {{\n')
            for row, path in zip(self.rows, paths):
                out.write('{NULL, 0},\n' if as_text or not path else f'{{gpu_code_{row.name}, {os.path.getsize(path)}}},\n')
            out.write('};\n')
            self.write_sources(out, texts, paths)
            out.write(f'static const char prelude[] = {{\n{embed.c_bytes(prelude)}}};\n'
                      'const pco_gpu_code pco_gpu_prelude = {prelude, sizeof prelude - 1};\n')
        made = os.path.join(self.scratch, 'table.o'), os.path.join(self.scratch, 'codes.o')
        run(['cc', '-w', '-O0', '-fPIC', '-fvisibility=hidden', '-I', sources.LOWERING, '-I',
             os.path.join(self.build, 'core/include'), '-c', table, '-o', made[0]])
        run(['cc', '-c', codes, '-o', made[1]])
        return list(made)

    def write_sources(self, out, texts, paths):
        """The sources: what OpenCL's drivers compile; of GLSL what the suite looks at, the constants that a kernel declares,
        and whose they are."""
        for row, text, path in zip(self.rows, texts, paths):
            if not path:
                continue
            piece, size = f'gpu_code_{row.name}', os.path.getsize(path) - 1
            if self.backend == 'vulkan':
                lines = ''.join(line + '\n' for line in text.split('\n') if line.startswith(('SPEC(', 'KERNEL(')))
                piece, size = f'gpu_text_{row.name}', f'sizeof gpu_text_{row.name} - 1'
                out.write(f'static const char {piece}[] = {{\n{embed.c_bytes(chr(10) + lines)}}};\n')
            out.write(f'static const pco_gpu_code gpu_source_{row.name}[] = {{{{{piece}, {size}}}, {{NULL, 0}}}};\n')
        out.write('const pco_gpu_code *const pco_gpu_sources[] = {\n')
        out.writelines(f'gpu_source_{row.name},\n' if path else 'NULL,\n' for row, path in zip(self.rows, paths))
        out.write('};\n')

    def make(self, mutant, files=None):
        """Links the plugin with the mutant (None: without). Returns False if its code is that of the original."""
        texts = self.texts(mutant, files)
        paths = [self.code(row, text) if has else None for row, text, has in zip(self.rows, texts, self.has_code)]
        objects = dict(self.objects)
        if mutant and mutant.family == 'lowering':
            name = os.path.basename(mutant.file)
            made = self.compile_lowering(name, mutant.text, 'new')
            original = self.compile_lowering(name, sources.read(os.path.join(sources.ROOT, mutant.file)), 'old')
            with open(made, 'rb') as a, open(original, 'rb') as b:
                if a.read() == b.read():
                    return False
            objects[f'gpu_{name}.o'] = made
        elif mutant and all(self.same(path, self.code(row, original)) for row, original, path
                            in zip(self.rows, self.originals, paths) if path):
            return False
        if self.sanitized:
            path = os.path.join(sources.LOWERING, self.sanitized)
            objects[f'gpu_{self.sanitized}.o'] = self.compile('gpu', self.sanitized, mutant.text if mutant else sources.read(path),
                                                              'sanitized', words=SANITIZERS)
        if self.small_windows:
            objects |= self.windowed()
        if self.few_groups:
            objects |= self.grouped()
        prelude = embed.prelude(self.edited(mutant), self.backend == 'opencl')
        new = self.plugin + '.new'
        run(['cc', '-shared', '-o', new, *objects.values(), *self.table(texts, paths, prelude), '-pthread', '-ldl', '-lm'])
        os.replace(new, self.plugin)
        return True

    def same(self, one, other):
        if one == other:
            return True
        with open(one, 'rb') as a, open(other, 'rb') as b:
            return a.read() == b.read()

    def same_optimised(self, mutant, files):
        """Is the code that glslc makes with -O that of the original? Dead and folded code shows only so."""
        texts = self.texts(mutant, files)
        return self.backend == 'vulkan' and mutant.family == 'kernels' and all(
            not has or text == original or self.same(self.code(row, text, True), self.code(row, original, True))
            for row, text, original, has in zip(self.rows, texts, self.originals, self.has_code))
