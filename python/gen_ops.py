#!/usr/bin/env python3
"""Writes ops.py and ops.pyi, a function for each operation, and _numbers.py, what the table calls them:
gen_ops.py ops.def dtypes.def ops.py ops.pyi _numbers.py"""
import os
import re
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "core", "include", "portico"))
from gen_plugin_h import ROWS_COLUMN, VECTORS, rows, unquote, write_if_changed  # noqa: E402

GRADIENT_COLUMN = 9  # of PCO_OP
PYTHON_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "bool": "bool"}

HEAD = '''"""The operations, each as a function: what a device computes, without NumPy's conveniences.

Made from core/graph/ops.def, as the C header portico/graph.h is. Operands are tensors, or what portico.asarray takes.
How to read the first lines: operand:TYPE[dimensions] -> result:TYPE[dimensions]. `..` stands for leading dimensions that
all operands with it share, `*` for shapes that are broadcast as in NumPy, a letter for a size that is the same wherever
it stands, `@` for what the text explains; `?` marks what may be None. A result with an operand's name is that operand,
a portico.State, written in place.

Errors: portico.Error, with one line that names the operation and the operand, for a shape, type or attribute that the
operation does not have.
"""
import struct as _struct
from math import inf as _inf

from portico._tensor import apply as _apply, number_of as _dtype, ranked as _ranked


def _vector(values):
    values = tuple(values)
    if len(values) > 8:
        raise ValueError(f"{len(values)} dimensions: there may be 8 at most")
    return (len(values), *values, *(0,) * (8 - len(values)))

'''

STUB_HEAD = '''from typing import Any, Optional, Sequence, Tuple, Union

from portico import ArrayLike, DTypeLike, State, Tensor

'''


NUMBERS_HEAD = '"""Of each operation its number; which operands it writes. Made from core/graph/ops.def."""\n'


class Op:
    """A row of the table."""

    def __init__(self, args, attributes, same_alone):
        self.number, self.upper, self.name = args[0], args[1], args[2]
        self.signature, self.types = unquote(args[4]), unquote(args[5])
        left, right = self.signature.split("->")
        self.operands = [self.operand(word) for word in left.split()]
        self.results = [word.split(":")[0] for word in right.split()]
        self.doc = unquote(args[-1]) + same_alone.get(args[ROWS_COLUMN], "")
        self.gradient = args[GRADIENT_COLUMN] != "NONE"
        self.attributes = attributes.get(self.name, [])
        names = [name for name, _, _ in self.operands]
        self.states = [name for name in names if name in self.results]

    @staticmethod
    def operand(word):
        name, kind = word.split(":")
        return name.rstrip("?"), name.endswith("?"), kind

    def written(self):
        """Which operands are states that it writes."""
        return tuple(i for i, operand in enumerate(self.operands) if operand[0] in self.states)

    def promoted(self):
        """Operands that NumPy would bring to one type: of one letter, and broadcast."""
        letters = {}
        for index, (_, _, kind) in enumerate(self.operands):
            if kind.endswith("[*]") and kind[0].isupper():
                letters.setdefault(kind, []).append(index)
        return next((tuple(found) for found in letters.values() if len(found) > 1), ())

    def parameters(self, value):
        """The parameters of the function; value(field, kind, default) is one attribute's."""
        if self.name == "concat":
            return ", ".join(["*x"] + [value(*a[:3]) for a in self.attributes])
        required = [name for name, optional, _ in self.operands if not optional]
        # An optional operand between others keeps its place, as in the signature; those behind it get names.
        words, named = [], []
        for name, optional, _ in self.operands:
            if optional:
                named.append(f"{name}=None")
            elif not named:
                words.append(name)
            else:
                named.append(name)
        if all("=" in word for word in named):
            words += named
            named = []
        keywords = named + [value(*a[:3]) for a in self.attributes]
        assert required or not self.operands
        return ", ".join(words + (["*"] if keywords else []) + keywords)


def python_default(kind, field, default):
    if kind in VECTORS:
        return "()" if field == "axes" else None
    default = {"-INFINITY": "-_inf", "INFINITY": "_inf"}.get(default, default)
    if default.startswith("PCO_"):
        default = repr(PYTHON_NAMES[default[4:].lower()])
    elif field == "dtype":
        default = "None"
    elif kind == "PCO_ATTR_F" and re.fullmatch(r"-?\d+", default):
        default += ".0"
    return default


def parameter(kind, field, default):
    default = python_default(kind, field, default)
    return field if default is None else f"{field}={default}"


def packing(op):
    """How the attributes become the struct of plugin.h."""
    layout, values = "", []
    for kind, field, _, _ in op.attributes:
        if kind in VECTORS:
            layout += "9q"
            ranked = f"_ranked({field}, {op.operands[0][0]})" if field == "axes" else field
            values.append(f"*_vector({ranked})")
        elif kind == "PCO_ATTR_F":
            layout += "d"
            values.append(field)
        else:
            layout += "q"
            dtype = field in ("dtype", "accumulate")
            values.append(f"-1 if {field} is None else _dtype({field})" if dtype and op.name == "matmul" and
                          field == "dtype" else f"_dtype({field})" if dtype else field)
    return layout, values


def documentation(op):
    lines = [f"{op.signature}" + (f" with {op.types}" if op.types else ""), ""]
    lines = textwrap.wrap(lines[0], 112, break_long_words=False) + [""]
    lines += textwrap.wrap(op.doc + ("" if op.gradient else " Has no gradient."), 112, break_long_words=False)
    if op.attributes:
        lines += [""]
        for _, field, _, doc in op.attributes:
            lines += textwrap.wrap(f"{field}: {doc}.", 112, subsequent_indent="    ", break_long_words=False)
    return "\n    ".join(line.replace("\\", "\\\\") for line in lines).replace("\n    \n", "\n\n")


def function(op):
    layout, values = packing(op)
    operands = "x" if op.name == "concat" else "(" + "".join(f"{n}, " for n, _, _ in op.operands).rstrip() + ")"
    text = f"def {op.name}({op.parameters(parameter)}):\n" + f'    """{documentation(op)}\n    """\n'
    attributes = "b''"
    if layout:
        text = f"_{op.name}_attrs = _struct.Struct('={layout}').pack\n\n\n" + text
        attributes = f"_{op.name}_attrs({', '.join(values)})"
    promoted = f", promote={op.promoted()}" if op.promoted() else ""
    states = f", states={op.written()}" if op.states else ""
    return text + f"    return _apply({op.number}, {operands}, {attributes}{promoted}{states})\n"


def annotated(op):
    def value(kind, field, default):
        default = python_default(kind, field, default)
        if kind in VECTORS:
            of = "Sequence[int]"
        elif field in ("dtype", "accumulate"):
            of = "Optional[DTypeLike]" if default == "None" else "DTypeLike"
        else:
            of = "float" if kind == "PCO_ATTR_F" else "int"
        return f"{field}: {of}" + ("" if default is None else " = ...")
    text = op.parameters(value)
    for name, optional, _ in op.operands:
        of = "State" if name in op.states else "ArrayLike"
        if optional:
            text = text.replace(f"{name}=None", f"{name}: Optional[{of}] = ...")
        else:
            text = re.sub(rf"(^|, ){name}(?=,|$)", rf"\1{name}: {of}", text)
    text = text.replace("*x", "*x: ArrayLike") if op.name == "concat" else text
    several = any(word.endswith("?") for word in op.results)
    result = "Tensor" if len(op.results) == 1 else \
        "Union[Tensor, Tuple[Tensor, ...]]" if several else "Tuple[" + ", ".join("Tensor" for _ in op.results) + "]"
    return f"def {op.name}({text}) -> {result}: ...\n"


def read(table):
    attributes, ops, same_alone = {}, [], {}
    for macro, args in rows(open(table, encoding="utf-8").read()):
        if macro.startswith("PCO_ATTR"):
            default = None if macro in VECTORS else args[2]
            attributes.setdefault(args[0], []).append((macro, args[1], default, unquote(args[-1])))
        elif macro == "PCO_ROWS" and args[0] != "NONE":
            same_alone[args[0]] = f" Alone, {unquote(args[-1])}."
        elif macro == "PCO_OP":
            ops.append(Op(args, attributes, same_alone))
    return ops


def numbered(ops):
    """_numbers.py: what the rest of the package needs of the table without reading the functions."""
    lines = [f"{op.upper} = {op.number}" for op in ops]
    states = {int(op.number): op.written() for op in ops if op.states}
    return NUMBERS_HEAD + "\n".join(lines) + f"\n\nSTATES = {states}\n"


def main(table, dtypes, output, stub, numbers):
    ops = read(table)
    known = [args for macro, args in rows(open(dtypes, encoding="utf-8").read()) if macro == "PCO_DTYPE"]
    missing = {args[2] for args in known if args[3] != "QUANTISED"} - set(PYTHON_NAMES)
    if missing:
        sys.exit(f"{dtypes}: Python has no name for {', '.join(sorted(missing))}")
    names = ", ".join(repr(op.name) for op in ops)
    listed = "\n".join(textwrap.wrap(f"__all__ = [{names}]", 118, subsequent_indent="           "))
    names_of = "\n".join(textwrap.wrap("NAMES = {" + ", ".join(f"{o.number}: {o.name!r}" for o in ops) + "}", 118,
                                      subsequent_indent="         "))
    write_if_changed(output, HEAD + listed + "\n\n" + names_of + "\n\n\n" + "\n\n".join(map(function, ops)))
    write_if_changed(stub, STUB_HEAD + "".join(map(annotated, ops)))
    write_if_changed(numbers, numbered(ops))


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
