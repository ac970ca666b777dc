"""What depends on what, read from the sources alone: which op reaches which function of the lowering and which kernel,
and which kernel reaches which macro or function of the files that it includes. So a fault is judged by the cases of the
ops that it can change, and by no others."""

import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHADERS, LOWERING = os.path.join(ROOT, 'shaders'), os.path.join(ROOT, 'backends', 'gpu')
PLUGIN_H = os.path.join(ROOT, 'core', 'include', 'portico')
sys.path[:0] = [SHADERS, PLUGIN_H]
import embed  # noqa: E402  (the folders are known only now)
import gen_plugin_h  # noqa: E402

COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.DOTALL)
WORD = re.compile(r'[A-Za-z_]\w*')
# Kernel files of which variants of the op are made (all that match), and no others; what finishes a matmul is the same for
# all. test_mutants.py asks the plugin.
VARIANTS = {'matmul_naive.kern': ['naive'], 'matmul_register.kern': ['register*'], 'matmul_shared.kern': ['shared*'],
            'matmul_gemv.kern': ['gemv*', 'integer', 'stream'], 'matmul_matrix.kern': ['matrix'],
            'matmul_pairs.kern': ['pairs'], 'matmul_dot.kern': ['dot'], 'matmul_vector.kern': ['vector'],
            'matmul_finish.kern': ['naive', '*split', 'stream'], 'integer_split.kern': ['integer'],
            'attention_rows.kern': ['rows'], 'attention_tiled.kern': ['tiled'], 'attention_shared.kern': ['tiled@gpu'],
            'attention_matrix.kern': ['matrix'], 'attention_matrix2.kern': ['matrix2'],
            'attention_backward.kern': ['default'], 'attention_backward_matrix.kern': ['matrix']}
WITH_VARIANTS = ['matmul', 'scaled_dot_product_attention', 'scaled_dot_product_attention_backward']
OP_NAMES = {'gelu_tanh': 'gelu', 'and': 'logical_and', 'or': 'logical_or'}


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def files_that_need(features):
    """Kernel files of which every row needs one of these."""
    rows = embed.read_table(SHADERS)
    return {row.file for row in rows} - {row.file for row in rows if not row.needs_any(features)}


def blank(text):
    """The text with comments and strings as blanks, so that every character keeps its place."""
    def fill(match):
        return re.sub(r'[^\n]', ' ', match.group(0))
    return re.sub(r'"(?:\\.|[^"\\\n])*"', lambda m: '"' + ' ' * (len(m.group(0)) - 2) + '"', COMMENT.sub(fill, text))


def words(text):
    return set(WORD.findall(text))


def closure(start, definitions):
    """Names that are reached from a set of names; definitions: name -> the names in its text."""
    reached, waiting = set(), list(start)
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in reached:
            reached.add(name)
            waiting += definitions[name]
    return reached


class Unit:
    """A named piece of a file: a function, a table, a macro, a kernel's body. Lines count from 1."""

    def __init__(self, name, first, last, text):
        self.name, self.first, self.last, self.text = name, first, last, text


def c_units(text):
    """Functions and tables of a C file: what begins at column 0 and has braces."""
    units, lines = [], blank(text).split('\n')
    i = 0
    while i < len(lines):
        line = lines[i]
        if not re.match(r'[A-Za-z_]', line) or line.startswith(('typedef', 'enum')):
            i += 1
            continue
        j, head = i, ''
        while j < len(lines):
            head += lines[j] + '\n'
            if '{' in lines[j] or ';' in lines[j]:
                break
            j += 1
        end, depth = j, head.count('{') - head.count('}')
        while depth > 0 and end + 1 < len(lines):
            end += 1
            depth += lines[end].count('{') - lines[end].count('}')
        before = head.split('{')[0]
        match = re.search(r'(\w+)\s*\(', before) if '=' not in before else re.search(r'(\w+)\s*(?:\[\w*\]\s*)?=', before)
        if match and '{' in head:
            units.append(Unit(match.group(1), i + 1, end + 1, '\n'.join(lines[i:end + 1])))
        i = end + 1
    return units


def kernel_units(text):
    """Macros, functions and the body of a kernel file. The body is called KERNEL; what stands alone has no unit."""
    units, lines = [], blank(text).split('\n')
    i = 0
    while i < len(lines):
        line, end = lines[i], i
        match = re.match(r'#define (\w+)', line)
        if match:
            while lines[end].endswith('\\'):
                end += 1
            units.append(Unit(match.group(1), i + 1, end + 1, '\n'.join(lines[i:end + 1])))
        else:
            match = re.match(r'(?:FUNCTION )?[a-z]\w* (\w+)\(|(KERNEL)\(', line)
            if match:
                while end + 1 < len(lines) and not lines[end].startswith('}') and not (end == i and '}' in line):
                    end += 1
                units.append(Unit(match.group(1) or match.group(2), i + 1, end + 1, '\n'.join(lines[i:end + 1])))
        i = end + 1
    return units


def unit_at(units, line):
    for unit in units:
        if unit.first <= line <= unit.last:
            return unit
    return None


class Lowering:
    """Ops, the functions of backends/gpu that they reach, and the kernel files that these name."""

    def __init__(self):
        self.units = {}
        for name in sorted(os.listdir(LOWERING)):
            if name.endswith('.c'):
                self.units[name] = c_units(read(os.path.join(LOWERING, name)))
        rows = embed.read_table(SHADERS)
        self.file_of = {name: row.file for row in rows for name in (row.name, row.first) if name}
        names = {unit.name for units in self.units.values() for unit in units}
        definitions = {}
        for units in self.units.values():
            for unit in units:
                definitions.setdefault(unit.name, set()).update(words(unit.text) & names - {unit.name})
        shared = dict(re.findall(r'#define gpu_lower_(\w+) +gpu_lower_(\w+)', read(os.path.join(LOWERING, 'lower.h'))))
        table = read(os.path.join(ROOT, 'core', 'graph', 'ops.def'))
        lowerers = [(row[2], f'gpu_lower_{shared.get(row[3], row[3])}')
                    for macro, row in gen_plugin_h.rows(table) if macro == 'PCO_OP']
        self.ops = [op for op, _ in lowerers]
        # What operations of one's own reach: the drivers call the rest of made.c.
        self.own = closure({'gpu_lower_own'} | {unit.name for unit in self.units['made.c']}, definitions)
        self.functions = {op: closure({lowerer}, definitions) for op, lowerer in lowerers}
        # What the drivers call, which is for all kernels.
        plugins = [path for backend in ('vulkan', 'opencl') for path in glob.glob(f'{ROOT}/backends/{backend}/*.c')]
        self.drivers = names & words(' '.join(read(path) for path in plugins))
        kernel_names = {unit.name: set(re.findall(r'GPU_KERNEL_(\w+)', unit.text))
                        for units in self.units.values() for unit in units}
        self.kernels = {op: {self.file_of[k] for f in functions for k in kernel_names.get(f, ())}
                        for op, functions in self.functions.items()}

    def ops_of_kernel(self, file):
        return [op for op in self.ops if file in self.kernels[op]]

    def ops_of_line(self, file, line):
        """Ops that a line of the lowering may change; all of them for what is not of one lowerer."""
        unit = unit_at(self.units[file], line)
        if unit and (unit.name.startswith('gpu_part_') or unit.name in ('gpu_convert', 'gpu_format_of', 'gpu_plane_quants', 'gpu_plane_bytes', 'gpu_bind_planes')):
            return ['gather', 'matmul']
        found = [op for op in self.ops if unit and unit.name in self.functions[op]]
        return found or list(self.ops)

    def for_own(self, file, line):
        """May a line of the lowering change what becomes of operations of one's own, and can it of no others?"""
        unit = unit_at(self.units[file], line)
        own = unit is None or unit.name in self.own
        return own, own and unit is not None and unit.name not in self.drivers and not any(
            unit.name in names for names in self.functions.values())

    def lowerer_groups(self, ops):
        """The ops in groups that share their lowering, one group after the other."""
        groups = {}
        for op in ops:
            groups.setdefault(tuple(sorted(self.kernels[op])) or (op,), []).append(op)
        return list(groups.values())


class Kernels:
    """Rows of the kernel table and the names that each reaches."""

    def __init__(self, lowering):
        self.lowering = lowering
        self.rows = embed.read_table(SHADERS)
        self.units = {name: kernel_units(read(os.path.join(SHADERS, name)))
                      for name in sorted(os.listdir(SHADERS)) if name.endswith(('.kern', '.inc', '.glsl', '.cl'))}
        self.reach = {}
        for file in sorted({row.file for row in self.rows}):
            sources = embed.Sources(SHADERS)
            kinds = sorted({dict(row.define_pairs()).get('FORMAT', '') for row in self.rows if row.file == file})
            text = ''.join(''.join(sources.pieces(file, kind or None)) for kind in kinds)
            used = {os.path.basename(path) for path in sources.used} & set(self.units) | {'dialect.glsl'}
            definitions = {}
            for name in used:
                for unit in self.units[name]:
                    definitions.setdefault(unit.name, set()).update(words(unit.text) - {unit.name})
            for uses in definitions.values():  # ROWS_ ## TM is a name that a number completes
                uses |= {name for use in uses if use.endswith('_') for name in definitions if name.startswith(use)}
            start = {'KERNEL', 'BUFFERS', 'SHARED_ARRAYS', 'SPEC', 'ENTER'}
            self.reach[file] = (used, closure(start, definitions), definitions, text)

    def files_of(self, file, line):
        """Kernel files that a line of `file` may change."""
        if file.endswith('.kern'):
            return [file]
        unit = unit_at(self.units[file], line)
        return [kern for kern, (used, reached, _, _) in self.reach.items()
                if file in used and (unit is None or unit.name in reached)]

    def ops_of(self, kern, file, line):
        """Of the ops that run the kernel, those that a line of `file` may change: a kernel with OP == OP_X picks by op."""
        ops = self.lowering.ops_of_kernel(kern)
        _, _, definitions, _ = self.reach[kern]
        chosen = {}
        rest = set()
        for unit in self.units[kern]:
            for number, text in enumerate(unit.text.split('\n'), unit.first):
                names = re.findall(r'OP == OP_(\w+)', text)
                if len(names) == 1 and re.match(r'\s*if \(OP == OP_\w+\) ', text) and not text.startswith('#'):
                    op = OP_NAMES.get(names[0].lower(), names[0].lower())
                    if file == kern and number == line:
                        return [op] if op in ops else ops
                    chosen.setdefault(op, set()).update(words(text))
                else:
                    rest |= words(text) if unit.name in ('KERNEL', 'pco_unary', 'pco_binary') else set()
        unit = unit_at(self.units[file], line)
        if not chosen or not unit or unit.name == 'KERNEL' or (file == kern and unit.name not in definitions):
            return ops
        inner = {name: uses for name, uses in definitions.items() if name not in ('KERNEL', 'pco_unary', 'pco_binary')}
        if unit.name in closure(rest, inner) or unit.name not in inner:
            return ops
        found = [op for op in ops if op in chosen and unit.name in closure(chosen[op], inner)]
        return found or ops
