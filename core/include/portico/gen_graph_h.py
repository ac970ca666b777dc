#!/usr/bin/env python3
"""Writes graph.h from graph.h.in and the op table: gen_graph_h.py graph.h.in ops.def graph.h"""
import re
import sys
import textwrap

from gen_plugin_h import ROWS_COLUMN, VECTORS, rows, unquote, write_if_changed

GRADIENT_COLUMN = 9  # of PCO_OP


def operands(signature):
    """'a:F[*] b?:F[*] -> y:F[*]' has the operands ['a', 'b'], of which ['b'] are optional, and 1 result."""
    left, right = signature.split("->")
    names = [word.split(":")[0] for word in left.split()]
    return [name.rstrip("?") for name in names], [n[:-1] for n in names if n.endswith("?")], len(right.split())


def comment(text):
    return "/* " + "\n * ".join(textwrap.wrap(text, 115, break_long_words=False)) + " */\n"


def defaults(name, fields):
    """A function that gives the attributes of an op as the table has them."""
    return (f"static inline pco_{name}_attrs pco_{name}_defaults(void)\n{{\n"
            f"    pco_{name}_attrs attrs = PCO_ZERO;\n"
            + "".join(f"    attrs.{field} = {value};\n" for kind, field, value in fields if value not in (None, "0"))
            + "    return attrs;\n}\n")


def builder(name, upper, signature, types, doc, gradient, has_attrs):
    """A function that adds one node."""
    names, optional, results = operands(signature)
    text = f"{name}: {signature}" + (f" with {types}" if types else "") + ". " + doc
    if optional:
        text += f" PCO_NONE: no {' or '.join(optional)}."
    text += "" if gradient != "NONE" else " Has no gradient."
    parameters = ["pco_graph *graph"] + [f"uint32_t {n}" for n in names]
    if has_attrs:
        parameters.append(f"const pco_{name}_attrs *attrs")
    if results > 1:
        parameters.append("uint32_t *outputs")
    head = textwrap.wrap(f"static inline uint32_t pco_{name}({', '.join(parameters)})", 119,
                         subsequent_indent=" " * (len(f"static inline uint32_t pco_{name}(")))
    inputs = "NULL, 0" if not names else f"inputs, {len(names)}"
    body = f"    const uint32_t inputs[] = {{{', '.join(names)}}};\n" if names else ""
    return (comment(text) + "\n".join(head) + "\n{\n" + body +
            f"    return pco_graph_add(graph, PCO_OP_{upper}, {'attrs' if has_attrs else 'NULL'}, {inputs}, "
            f"{'outputs' if results > 1 else 'NULL'});\n}}\n")


def main(template, table, output):
    header = open(template, encoding="utf-8").read()
    written = set(re.findall(r"\bpco_(\w+)\(pco_graph", header))
    attributes, builders, plain, same_alone = {}, [], [], {}
    for macro, args in rows(open(table, encoding="utf-8").read()):
        if macro in ("PCO_ATTR_I", "PCO_ATTR_F", "PCO_ATTR_AXIS"):
            attributes.setdefault(args[0], []).append((macro, args[1], args[2]))
        elif macro in VECTORS:
            attributes.setdefault(args[0], []).append((macro, args[1], None))
        elif macro == "PCO_ROWS" and args[0] != "NONE":
            same_alone[args[0]] = f" Alone, {unquote(args[-1])}."
        elif macro == "PCO_OP":
            upper, name = args[1:3]
            if name in attributes:
                plain.append(defaults(name, attributes[name]))
            if name in written:
                continue
            doc = unquote(args[-1]) + same_alone.get(args[ROWS_COLUMN], "")
            builders.append(builder(name, upper, unquote(args[4]), unquote(args[5]), doc, args[GRADIENT_COLUMN],
                                    name in attributes))
    header = header.replace("@BUILDERS@", "\n".join(builders)).replace("@DEFAULTS@", "\n".join(plain))
    write_if_changed(output, header)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
