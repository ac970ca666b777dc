"""The element types, as core/base/dtypes.def has them."""

import collections
import os
import re

TABLE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'core', 'base', 'dtypes.def'))
ROW = re.compile(r'^PCO_DTYPE\((\d+), (\w+), (\w+), (\w+), (\d+), (\d+), (\d+), (\d+), .*')
Type = collections.namedtuple('Type', 'number upper name kind block bytes quants scales')


def read_types():
    types = []
    with open(TABLE, encoding='utf-8') as file:
        for line in file:
            if line.startswith('PCO_DTYPE('):
                fields = ROW.match(line).groups()
                types.append(Type(*(int(field) if field.isdigit() else field for field in fields)))
    return types


def quantised():
    return [one for one in read_types() if one.kind == 'QUANTISED']


def kernel_text():
    """What dtypes.inc is: the numbers of the types that kernels read element by element."""
    return ''.join(f'#define {one.upper} {one.number}\n' for one in read_types() if one.kind != 'QUANTISED')


def header_lines():
    """For backends/gpu: ROW(NAME, name, block, bytes, quants, scales) of each quantised type, in the order of the rows
    that a COMPILED_QUANT of a kernel stands for."""
    rows = [f'    ROW({one.upper}, {one.name}, {one.block}, {one.bytes}, {one.quants}, {one.scales})'
            for one in quantised()]
    return ['#define GPU_FORMATS(ROW) \\', ' \\\n'.join(rows)]
