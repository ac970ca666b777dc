"""What a kernel declares of itself, and what follows from it.

A .kern file, or what it includes, declares in lines of their own

    INTERFACE(name)                 the name under which backends/gpu fills all this
    SPEC(NAME, initial)             a specialisation constant, an int; the workgroup size comes before the first
    PARAMETER(type, NAME)           32 bits: int, uint or float
    PARAMETER(type, NAME, count)    several of them: NAME(i), i a literal number
    BUFFER(access, name)            READ, or WRITE (which also reads); READ4, WRITE4: as vectors of four words
    NEEDS(FEATURE)                  PCO_GPU_NEEDS_FEATURE: a row without it is not offered by a device
    OPERATIONS(family ...)          OP_NAME: the number in core/graph/ops.def of each operation NAME of these families.
                                    The kernel has to name them all: one that is what is left, in a comment

Numbers are given in the order of the lines. Lines between #if and #endif count where the row's defines make them, so
that rows of one file may have different buffers. Rows with one interface have the same constants and parameters; a row
may lack some of each at the end.
"""

import re

import dtypes
import ops

DECLARATION = re.compile(r'^(INTERFACE|SPEC|PARAMETER|BUFFER|NEEDS|OPERATIONS)\(([^()]*)\)[ \t]*(//.*)?$')
DEFINE = re.compile(r'^#define[ \t]+(\w+)(?![\w(])[ \t]*(.*)$')
CONDITION = re.compile(r'^#[ \t]*(ifdef|ifndef|if|elif|else|endif)\b(.*)$')
TYPES = {'int': ('PI', 'uint32_t'), 'uint': ('P', 'uint32_t'), 'float': ('PF', 'float')}  # in a kernel, in C
ACCESS = {'READ': 'RO', 'WRITE': 'RW', 'READ4': 'RO4', 'WRITE4': 'RW4'}
FIRST_SPEC, MAX_SPECS, MAX_PARAMETERS, MAX_BUFFERS = 3, 24, 32, 8


class Interface:
    def __init__(self):
        self.name, self.specs, self.parameters, self.buffers, self.needs = None, [], [], [], []
        self.loads = []  # of parameters into variables: statements
        self.operations = []  # that the kernel has to know

    def writable(self):
        """A bit for each buffer that is declared for writing."""
        return sum(1 << i for i, (access, _) in enumerate(self.buffers) if access.startswith('WRITE'))

    def n_parameters(self):
        return sum(count or 1 for _, _, count in self.parameters)

    def agrees(self, specs, parameters):
        """May a row with these have the same interface? One of the two may have fewer."""
        return all(one[:len(two)] == two[:len(one)]
                   for one, two in ((self.specs, specs), (self.parameters, parameters)))


def is_true(condition, defines):
    """Is the expression behind #if true? What is not defined is 0, as in C."""
    text = re.sub(r'//.*', '', condition)
    text = re.sub(r'\bdefined[ \t]*\(?[ \t]*(\w+)[ \t]*\)?', lambda m: str(int(m.group(1) in defines)), text)
    text = re.sub(r'\b[A-Za-z_]\w*\b', lambda m: str(defines.get(m.group(0)) or 0), text)
    text = text.replace('&&', ' and ').replace('||', ' or ')
    text = re.sub(r'!(?!=)', ' not ', text)
    if not re.fullmatch(r'[\d\s()=<>!+*-]*(?:(?:and|or|not)[\d\s()=<>!+*-]*)*', text):
        raise SystemExit(f'#if{condition}: not understood by interface.py')
    return bool(eval(text))  # pylint: disable=eval-used # only numbers and operators are left


class Conditions:
    """Which lines count: the #if's around them."""

    def __init__(self, defines):
        self.defines, self.stack = defines, []  # [counts now, counted before]

    def active(self):
        return all(now for now, _ in self.stack)

    def line(self, word, rest):
        outside = all(now for now, _ in self.stack[:-1]) if word in ('elif', 'else') else self.active()
        if word in ('ifdef', 'ifndef'):
            now = (rest.split('//')[0].strip() in self.defines) == (word == 'ifdef')
            self.stack.append([now, now])
        elif word == 'if':
            now = outside and is_true(rest, self.defines)
            self.stack.append([now, now])
        elif word == 'endif':
            self.stack.pop()
        else:
            now = not self.stack[-1][1] and (word == 'else' or (outside and is_true(rest, self.defines)))
            self.stack[-1] = [now, now or self.stack[-1][1]]


def declare(interface, word, values, where, as_variables):
    """Adds a declaration; returns the line that the compiler sees instead."""
    if word == 'SPEC' and len(values) == 2:
        interface.specs.append(tuple(values))
        return f'SPEC({FIRST_SPEC + len(interface.specs) - 1}, {values[0]}, {values[1]})'
    if word == 'PARAMETER' and len(values) in (2, 3) and values[0] in TYPES:
        count, first = int(values[2]) if len(values) == 3 else None, interface.n_parameters()
        (macro, _), name = TYPES[values[0]], values[1]
        interface.parameters.append((values[0], name, count))
        names = [name] if count is None else [f'{name}_{i}' for i in range(count)]
        interface.loads += [f'{one} = {macro}({first + i});' for i, one in enumerate(names)]
        lines = [f'{values[0]} {one};' if as_variables else f'#define {one} {macro}({first + i})'
                 for i, one in enumerate(names)]
        return '\n'.join(lines + ([] if count is None else [f'#define {name}(i) {name}_##i']))
    if word == 'BUFFER' and len(values) == 2 and values[0] in ACCESS:
        interface.buffers.append(tuple(values))
        return ''
    if word == 'NEEDS' and len(values) == 1:
        interface.needs.append(values[0])
        return ''
    if word == 'OPERATIONS' and all(family in ops.FAMILIES for family in values):
        names = [name for family in values for name in ops.FAMILIES[family]]
        interface.operations += names
        return '\n'.join(f'#define OP_{name} {ops.NUMBERS[name]}' for name in names)
    if word == 'INTERFACE' and len(values) == 1 and interface.name is None:
        interface.name = values[0]
        return ''
    raise SystemExit(f'{where}: {word}({", ".join(values)}): not a declaration (shaders/interface.py)')


def expand(pieces, defines, where, as_variables=False):
    """Returns (interface, pieces as the compiler sees them); the first piece has the buffers. Parameters are variables,
    which LOAD_PARAMETERS fills, or macros."""
    interface, conditions, out = Interface(), Conditions(dict(defines)), []
    for piece in pieces:
        lines = []
        for line in piece.split('\n'):
            condition, declaration, define = CONDITION.match(line), DECLARATION.match(line), DEFINE.match(line)
            if condition:
                conditions.line(condition.group(1), condition.group(2))
            elif declaration:
                values = [value.strip() for value in declaration.group(2).split(',')]
                word, active = declaration.group(1), conditions.active()
                line = declare(interface, word, values, where, as_variables) if active else ''
            elif define and conditions.active():
                conditions.defines[define.group(1)] = define.group(2).split('//')[0].strip()
            lines.append(line)
        out.append('\n'.join(lines))
    if not interface.name or not interface.buffers:
        raise SystemExit(f'{where}: declares no INTERFACE or no BUFFER')
    if (FIRST_SPEC + len(interface.specs) > MAX_SPECS or interface.n_parameters() > MAX_PARAMETERS or
            len(interface.buffers) > MAX_BUFFERS):
        raise SystemExit(f'{where}: more than {MAX_SPECS - FIRST_SPEC} constants, {MAX_PARAMETERS} parameters or '
                         f'{MAX_BUFFERS} buffers')
    for name in interface.operations:  # beside the line that gives the number
        if len(re.findall(rf'\bOP_{name}\b', '\n'.join(out))) < 2:
            raise SystemExit(f'{where}: {name.lower()} is in one of its families, and nothing here is for OP_{name}')
    bound = ' '.join(f'use({ACCESS[access]}, {i}, {name})' for i, (access, name) in enumerate(interface.buffers))
    first = f'#define BUFFERS(use) {bound}\n'
    if as_variables:
        first += f'#define LOAD_PARAMETERS {" ".join(interface.loads)}\n'
    return interface, [first] + out


def unite(kernels):
    """The interfaces of a table in order, as (name, specs, parameters, names of all buffers)."""
    united = {}
    for kernel in kernels:
        interface = kernel.interface
        specs, parameters, first, names = united.get(interface.name, ([], [], kernel, []))
        if not interface.agrees(specs, parameters):
            raise SystemExit(f'kernels {first.name} and {kernel.name} declare interface {interface.name} with other '
                             'constants or parameters')
        united[interface.name] = (max(specs, interface.specs, key=len), max(parameters, interface.parameters, key=len),
                                  first, names)
        at = 0
        for _, name in interface.buffers:  # in the order of the rows that have them
            if name in names:
                at = names.index(name) + 1
            else:
                names.insert(at, name)
                at += 1
    for name, (_, _, kernel, names) in united.items():
        if len(names) > MAX_BUFFERS:
            raise SystemExit(f'interface {name} (kernel {kernel.name}) has more than {MAX_BUFFERS} buffers')
    return [(name, specs, parameters, names) for name, (specs, parameters, _, names) in united.items()]


def write_header(path, kernels, write):
    """The C side: a struct of constants and one of parameters for each interface, and numbers of its buffers."""
    out = ['/* Generated by shaders/embed.py from what the kernels in shaders/ declare. Do not edit. */',
           '#ifndef PCO_GPU_KERNELS_H', '#define PCO_GPU_KERNELS_H', '', '#include <stdint.h>', '',
           '/* The numbers of the rows: forms in which kernels are compiled. */', 'enum {']
    out += [f'    GPU_KERNEL_{kernel.name},' for kernel in kernels]
    out += ['    GPU_N_KERNELS', '};']
    firsts = [f'    GPU_KERNEL_{kernel.first} = GPU_KERNEL_{kernel.name},' for kernel in kernels if kernel.first]
    out += ['', '/* Rows of all formats: plus the number of the format, its index among these. */', 'enum {'] + firsts + ['};']
    out += dtypes.header_lines()
    for number, (name, specs, parameters, buffers) in enumerate(unite(kernels)):
        out += ['', f'enum {{ GPU_INTERFACE_{name} = {number} }};']
        if specs:
            out += [f'typedef struct gpu_{name}_specs {{'] + [f'    int32_t {spec.lower()};' for spec, _ in specs]
            out += [f'}} gpu_{name}_specs;']
        if parameters:
            out += [f'typedef struct gpu_{name}_params {{']
            for kind, field, count in parameters:
                size = '' if count is None else f'[{count}]'
                out.append(f'    {TYPES[kind][1]} {field.lower()}{size};')
            out += [f'}} gpu_{name}_params;']
        out += ['enum {'] + [f'    GPU_{name}_{buffer} = {number << 8 | i},' for i, buffer in enumerate(buffers)]
        out += ['};']
    out += ['', '#endif', '']
    write(path, '\n'.join(out))
