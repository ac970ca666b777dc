#!/usr/bin/env python3
"""Compiles all kernels of a folder into one C file. Run by Meson, or by hand:

    embed.py spirv  shaders kernels_spirv.c  --glslc glslc [--newer glslc] [--depfile FILE]
    embed.py opencl shaders kernels_opencl.c [--depfile FILE]
    embed.py header shaders kernels.h        [--depfile FILE]

The kernels are the files *.kern, in the order of their names, in the forms that each names in lines of its own:

    COMPILED(name)            GPU_KERNEL_name in backends/gpu; shows in messages and in the tuner's results
    COMPILED(name, -DA=1 -DB) with these defines, for both targets
    COMPILED_QUANT(name, ...) a row name_FORMAT for each quantised type of core/base/dtypes.def, in their order, with
                              -DFORMAT. The kernel reads quant_FORMAT.inc

A row's index is its number, the same in all plugins. The header has the numbers of the rows, and what interface.py
makes of their declarations. The C file defines pco_gpu_kernels[], pco_gpu_n_kernels, pco_gpu_codes[] and
pco_gpu_sources[] of backends/gpu/gpu.h. A row that needs a feature (NEEDS) for which the language has no words (LACKS)
gets neither code nor source. One that this glslc turns out to be unable to compile is left to the newer one, if there is
one and it can; else it is not built either, and a line says so. A kernel that does not compile stops the build.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import os
import re
import subprocess
import sys
import tempfile

import dtypes
import interface as declarations

ROW = re.compile(r'^COMPILED(_QUANT)?\((\w+)(?:, *([^()\n]+))?\)[ \t]*(?://.*)?\n', re.MULTILINE)
INCLUDE = re.compile(r'^#include "([\w.]+)"[ \t]*$', re.MULTILINE)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.DOTALL)
LACKS = {'spirv': ['VECTOR_16'], 'opencl': ['SUBGROUPS', 'COOPERATIVE_MATRIX', 'COOPERATIVE_MATRIX2']}


class Kernel:
    """A form in which a file is compiled."""

    def __init__(self, name, file, defines, sources, first=None):
        self.name, self.file, self.defines = name, file, defines
        self.first = first  # of the first row that a COMPILED_QUANT stands for: that row's name
        self.interface = self.expand(sources)[0]
        self.bindings = []  # of the interface's buffers, None where this row lacks one

    def define_pairs(self):
        pairs = []
        for define in self.defines.split():
            if not define.startswith('-D'):
                raise SystemExit(f'kernel {self.name}: only -D can stand in defines, not {define}')
            name, _, value = define[2:].partition('=')
            pairs.append((name, value or '1'))
        return pairs

    def expand(self, sources, as_variables=False):
        pairs = self.define_pairs()
        return declarations.expand(sources.pieces(self.file, dict(pairs).get('FORMAT')), pairs,
                                   f'kernel {self.name} ({self.file})', as_variables)

    def needs_any(self, features):
        return any(feature in self.interface.needs for feature in features)

    def needs(self):
        return ' | '.join('PCO_GPU_NEEDS_' + feature for feature in self.interface.needs) or '0'

    def define_lines(self):
        return ''.join(f'#define {name} {value}\n' for name, value in self.define_pairs())

    def c_row(self, text):
        """The row of pco_gpu_kernels; `text` is what its hash is of."""
        bindings = ', '.join('PCO_GPU_NO_BINDING' if at is None else str(at) for at in self.bindings)
        return (f'{{"{self.name}", "{self.file}", "{self.defines}", {len(self.interface.buffers)}, '
                f'{self.interface.writable():#x}u, '
                f'{declarations.FIRST_SPEC + len(self.interface.specs)}, {self.interface.n_parameters()}, {self.needs()}, '
                f'0x{fnv1a(text.encode()):016x}u, {self.number}, {{{bindings}}}}}')


def rows_of(file, match, sources):
    """The kernels of a line of a file."""
    is_quant, name, defines = match.groups(default='')
    if not is_quant:
        return [Kernel(name, file, defines, sources)]
    return [Kernel(f'{name}_{one.name}', file, f'{defines} -DFORMAT={one.name}'.strip(), sources, name if i == 0 else None)
            for i, one in enumerate(dtypes.quantised())]


def read_table(folder):
    sources, kernels = Sources(folder), []
    for file in sorted(name for name in os.listdir(folder) if name.endswith('.kern')):
        text = sources.text(file)
        rows = list(ROW.finditer(text))
        if not rows or len(rows) != len(re.findall(r'^\s*COMPILED', text, re.MULTILINE)):
            raise SystemExit(f'{file}: no line COMPILED(name, -DA=1 ...), or one that is not of this form')
        kernels += [kernel for row in rows for kernel in rows_of(file, row, sources)]
    if len({kernel.name for kernel in kernels}) != len(kernels):
        raise SystemExit(f'{folder}: two rows have the same name')
    united = declarations.unite(kernels)
    for kernel in kernels:
        own = [name for _, name in kernel.interface.buffers]
        kernel.number = [name for name, _, _, _ in united].index(kernel.interface.name)
        kernel.bindings = [own.index(name) if name in own else None for name in united[kernel.number][3]]
    return kernels


class Sources:
    """Reads files of a folder, with #include "file" resolved (each file once). dtypes.inc has the numbers of the element
    types; FORMAT in a file's name stands for that of the row."""

    def __init__(self, folder):
        self.folder, self.used = folder, set()

    def text(self, name):
        if name == 'dtypes.inc':
            self.used.add(dtypes.TABLE)
            return dtypes.kernel_text()
        path = os.path.join(self.folder, name)
        self.used.add(path)
        with open(path, encoding='utf-8') as file:
            return file.read()

    def pieces(self, name, kind=None, seen=None):
        """The resolved text, cut where files were included, so that texts with the same files share pieces."""
        seen = set() if seen is None else seen
        if 'FORMAT' in name:
            if kind is None:
                return []
            name = name.replace('FORMAT', kind)
        if name in seen:
            return []
        seen.add(name)
        parts = INCLUDE.split(ROW.sub('', self.text(name)))
        pieces = []
        for i, part in enumerate(parts):
            pieces += self.pieces(part, kind, seen) if i % 2 else [part]
        return [piece for piece in pieces if piece]

    def read(self, name):
        return ''.join(self.pieces(name))


def dialect_of_needs(sources, needs, language):
    """What those features have of their own in a dialect: dialect_FEATURE.glsl, dialect_FEATURE.cl."""
    names = [f'dialect_{need}.{language}' for need in needs]
    return ''.join(sources.read(name) for name in names if os.path.exists(os.path.join(sources.folder, name)))


def glsl_dialect(sources, needs):
    """The dialect before and after a row's defines, with what those features have of their own."""
    text = sources.read('dialect.glsl')
    version = text.index('\n', text.index('#version')) + 1
    return text[:version], dialect_of_needs(sources, needs, 'glsl') + text[version:]


def glsl_pieces(kernel, sources):
    before, after = glsl_dialect(sources, kernel.interface.needs)
    pieces = [before, kernel.define_lines(), after] + kernel.expand(sources, as_variables=True)[1]
    return [piece for piece in pieces if piece]


def glsl_text(kernel, sources):
    return ''.join(glsl_pieces(kernel, sources))


@functools.lru_cache(None)
def opencl_piece(text):
    """Without what its compiler passes over; whole lines."""
    text = COMMENT.sub('', text.replace('\\\n', ' '))
    lines = (re.sub(r'[ \t]+', ' ', line).strip() for line in text.split('\n'))
    return ''.join(line + '\n' for line in lines if line)


def opencl_pieces(kernel, sources):
    own = dialect_of_needs(sources, kernel.interface.needs, 'cl')
    pieces = [kernel.define_lines(), sources.read('dialect.cl'), own] + kernel.expand(sources)[1]
    return [piece for piece in map(opencl_piece, pieces) if piece]


def opencl_text(kernel, sources):
    return ''.join(opencl_pieces(kernel, sources))


def opencl_names(folder):
    """The kernels' names by the SHA-256 of their texts in OpenCL C: who is handed a text knows whose it is."""
    sources = Sources(folder)
    return {hashlib.sha256(opencl_text(kernel, sources).encode()).hexdigest(): kernel.name for kernel in read_table(folder)}


def prelude(sources, as_text):
    """What kernels that are made at run time begin with. Their parameters are macros."""
    seen = set()
    files = ['dialect.cl' if as_text else 'dialect.glsl', 'numbers.inc', 'functions.inc']
    text = ''.join(piece for name in files for piece in sources.pieces(name, seen=seen))
    return text if as_text else text + '#define LOAD_PARAMETERS\n'


def compiler_version(glslc):
    return subprocess.run([glslc, '--version'], capture_output=True, text=True, check=True).stdout


class Kept:
    """SPIR-V of earlier builds, in a folder beside the result: a row is compiled again when its text has changed."""

    def __init__(self, folder, glslc):
        self.folder, self.used = folder, set()
        self.versions = {one: compiler_version(one) for one in glslc}
        os.makedirs(folder, exist_ok=True)

    def path(self, kernel, text, glslc):
        key = hashlib.sha256((self.versions[glslc] + text).encode()).hexdigest()[:32]
        name = f'{kernel.name}-{key}.spv'
        self.used.add(name)
        return os.path.join(self.folder, name)

    def compile(self, kernel, text, glslc, room):
        path = self.path(kernel, text, glslc)
        if os.path.exists(path):
            with open(path, 'rb') as file:
                return file.read()
        code = compile_spirv(kernel, text, glslc, room)[0]
        with open(path + '.new', 'wb') as file:
            file.write(code)
        os.replace(path + '.new', path)
        return code

    def forget_others(self):
        for name in os.listdir(self.folder):
            if name not in self.used:
                os.unlink(os.path.join(self.folder, name))


def target_of(kernel):
    """What glslc compiles a row for: the oldest that a device of the plugin takes, or that knows its features."""
    return '--target-env=vulkan1.3' if kernel.needs_any(['COOPERATIVE_MATRIX2']) else '--target-env=vulkan1.1'


def compile_spirv(kernel, text, glslc, folder, extra=()):
    """Returns the SPIR-V and warnings, or raises RuntimeError with the compiler's words."""
    source, out = os.path.join(folder, kernel.name + '.comp'), os.path.join(folder, kernel.name + '.spv')
    with open(source, 'w', encoding='utf-8') as file:
        file.write(text)
    done = subprocess.run([glslc, '-fshader-stage=compute', target_of(kernel), '-O', *extra, source, '-o', out],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f'kernel {kernel.name} ({kernel.file} {kernel.defines}):\n{done.stderr}')
    with open(out, 'rb') as file:
        return file.read(), done.stderr


@functools.lru_cache(1024)
def fnv1a(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return value


def c_words(data):
    words = [f'0x{int.from_bytes(data[i:i + 4], "little"):x}' for i in range(0, len(data), 4)]
    return ',\n'.join(','.join(words[i:i + 12]) for i in range(0, len(words), 12))



def c_bytes(text):
    """A list of bytes: a string of this length is beyond what C11 promises."""
    data = text.encode() + b'\0'
    return ',\n'.join(','.join(str(byte) for byte in data[i:i + 32]) for i in range(0, len(data), 32))


def write_sources(out, kernels, pieces_of):
    """What pco_gpu_sources points to: of each kernel a list of pieces, which are stored once."""
    numbers = {}
    lists = [[numbers.setdefault(piece, len(numbers)) for piece in pieces_of(kernel)] for kernel in kernels]
    for piece, number in numbers.items():
        out.write(f'static const char gpu_piece_{number}[] = {{\n{c_bytes(piece)}}};\n')
    for kernel, pieces in zip(kernels, lists):
        out.write(f'_Static_assert({len(pieces)} <= PCO_GPU_MOST_PIECES, "{kernel.name} includes too many files");\n')
        out.write(f'static const pco_gpu_code gpu_source_{kernel.name}[] = {{\n' +
                  ''.join(f'    {{gpu_piece_{n}, sizeof gpu_piece_{n} - 1}},\n' for n in pieces) + '    {NULL, 0}};\n')


def write_whole(path, text):
    with open(path + '.new', 'w', encoding='utf-8') as out:
        out.write(text)
    os.replace(path + '.new', path)


def write_c(path, kernels, texts, codes, as_text, sources):
    with open(path + '.new', 'w', encoding='utf-8') as out:
        out.write('/* Generated by shaders/embed.py. Do not edit. */\n#include "gpu.h"\n\n')
        for kernel, code in zip(kernels, codes):
            if code is not None and not as_text:
                out.write(f'static const uint32_t gpu_code_{kernel.name}[] = {{\n{c_words(code)}}};\n')
        out.write('\nconst pco_gpu_kernel pco_gpu_kernels[] = {\n')
        for kernel, text in zip(kernels, texts):
            out.write(f'    {kernel.c_row(text)},\n')
        out.write(f'}};\n\nconst uint32_t pco_gpu_n_kernels = {len(kernels)};\n\n')
        out.write('const pco_gpu_code pco_gpu_codes[] = {\n')
        for kernel, code in zip(kernels, codes):
            out.write('    {NULL, 0},\n' if code is None or as_text else
                      f'    {{gpu_code_{kernel.name}, sizeof gpu_code_{kernel.name}}},\n')
        out.write('};\n\n')
        built = [kernel for kernel, code in zip(kernels, codes) if code is not None]
        write_sources(out, built, lambda kernel: (opencl_pieces if as_text else glsl_pieces)(kernel, sources))
        out.write(f'static const char gpu_prelude[] = {{\n{c_bytes(prelude(sources, as_text))}}};\n'
                  'const pco_gpu_code pco_gpu_prelude = {gpu_prelude, sizeof gpu_prelude - 1};\n')
        out.write('\nconst pco_gpu_code *const pco_gpu_sources[] = {\n')
        for kernel, code in zip(kernels, codes):
            out.write('    NULL,\n' if code is None else f'    gpu_source_{kernel.name},\n')
        out.write('};\n')
    os.replace(path + '.new', path)


class Probe:
    """An empty kernel that needs one feature."""

    def __init__(self, feature):
        self.name, self.file, self.defines = feature, 'dialect.glsl', f'-D{feature}'

    def needs_any(self, features):
        return self.name in features


def features_lacking(kernels, sources, glslc, known):
    """What kernels need and this glslc cannot compile, even in an empty kernel."""
    lacking = []
    empty = ('#define BUFFERS(use) use(RW, 0, y)\n#define LOAD_PARAMETERS\n#define SHARED_ARRAYS\n'
             'KERNEL(probe) { ENTER y[0] = 0u; }\n')
    with tempfile.TemporaryDirectory() as room:
        for feature in sorted({need for kernel in kernels for need in kernel.interface.needs} - set(known)):
            probe = Probe(feature)
            before, after = glsl_dialect(sources, [feature])
            try:
                compile_spirv(probe, f'{before}#define {feature} 1\n{after}{empty}', glslc, room)
            except RuntimeError:
                lacking.append(feature)
    return lacking


def compilers(args, kernels, sources, lacks=tuple(LACKS['spirv'])):
    """The glslc of each row, None where none can; says what is left out."""
    lacking = features_lacking(kernels, sources, args.glslc, lacks)
    still = lacking
    if args.newer and lacking:
        others = {need for kernel in kernels for need in kernel.interface.needs} - set(lacking)
        still = features_lacking(kernels, sources, args.newer, others | set(lacks))
    for feature in still:
        rows = ', '.join(kernel.name for kernel in kernels if feature in kernel.interface.needs)
        print(f'{args.newer or args.glslc} lacks {feature}: the Vulkan plugin is built without {rows}', file=sys.stderr)
    return [None if kernel.needs_any([*lacks, *still]) else args.newer if kernel.needs_any(lacking) else args.glslc
            for kernel in kernels]


def write_code(args, kernels, sources):
    build = glsl_text if args.target == 'spirv' else opencl_text
    texts = [build(kernel, sources) for kernel in kernels]
    codes = [None if kernel.needs_any(LACKS[args.target]) else text for kernel, text in zip(kernels, texts)]
    if args.target == 'spirv':
        by = compilers(args, kernels, sources)
        kept = Kept(args.out + '.kept', set(by) - {None})
        with tempfile.TemporaryDirectory() as room, \
                concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            jobs = [None if glslc is None else pool.submit(kept.compile, kernel, text, glslc, room)
                    for kernel, text, glslc in zip(kernels, codes, by)]
            try:
                codes = [None if job is None else job.result() for job in jobs]
            except RuntimeError as error:
                raise SystemExit(str(error)) from None
        kept.forget_others()
    write_c(args.out, kernels, texts, codes, args.target == 'opencl', sources)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('target', choices=['spirv', 'opencl', 'header'])
    parser.add_argument('folder')
    parser.add_argument('out')
    parser.add_argument('--glslc', default='glslc')
    parser.add_argument('--newer', metavar='GLSLC', help='for rows that the other cannot compile')
    parser.add_argument('--depfile')
    args = parser.parse_args()

    folder = os.path.abspath(args.folder)
    kernels, sources = read_table(folder), Sources(folder)
    if args.target == 'header':
        declarations.write_header(args.out, kernels, write_whole)
        for kernel in kernels:
            kernel.expand(sources)
    else:
        write_code(args, kernels, sources)
    if args.depfile:
        with open(args.depfile, 'w', encoding='utf-8') as file:
            file.write(f'{args.out}: ' + ' '.join(sorted(sources.used) + [folder]) + '\n')


if __name__ == '__main__':
    sys.exit(main())
