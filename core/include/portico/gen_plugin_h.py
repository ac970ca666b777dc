#!/usr/bin/env python3
"""Writes plugin.h from plugin.h.in and the op table: gen_plugin_h.py plugin.h.in ops.def plugin.h"""
import re
import sys


def arguments(text):
    """Splits 'a, "b, c", d' at the commas that stand outside strings."""
    parts = re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^,"])+', text)
    return [" ".join(part.split()) for part in parts]


def rows(text):
    """Yields (macro, [arguments]) for every PCO_ row of the table."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for match in re.finditer(r'^(PCO_\w+)\(((?:"(?:[^"\\]|\\.)*"|[^()"]|\([^()]*\))*)\)', text, flags=re.M):
        yield match.group(1), arguments(match.group(2))


def unquote(text):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text))


def struct(name, fields):
    """One attribute struct, with its asserted size."""
    lines, size = [], 0
    for kind, field, doc in fields:
        if kind == "PCO_ATTR_V":
            lines.append(f"    int64_t n_{field}; /* {doc} */")
            lines.append(f"    int64_t {field}[PCO_MAX_RANK];")
            size += 72
        else:
            lines.append(f"    {'int64_t' if kind == 'PCO_ATTR_I' else 'double'} {field}; /* {doc} */")
            size += 8
    body = "\n".join(lines)
    return (f"typedef struct pco_{name}_attrs {{\n{body}\n}} pco_{name}_attrs;\n"
            f'PCO_STATIC_ASSERT(sizeof(pco_{name}_attrs) == {size}, "pco_{name}_attrs");\n')


def main(template, table, output):
    attributes, enum, structs = {}, [], []
    for macro, args in rows(open(table, encoding="utf-8").read()):
        if macro.startswith("PCO_ATTR"):
            attributes.setdefault(args[0], []).append((macro, args[1], unquote(args[-1])))
        elif macro == "PCO_OP":
            number, upper, name, signature = args[:4]
            enum.append(f"    PCO_OP_{upper} = {number}, /* {unquote(signature)} */")
            if name in attributes:
                structs.append(struct(name, attributes.pop(name)))
        elif macro == "PCO_RESERVED":
            enum.append(f"    PCO_OP_{args[1]} = {args[0]}, /* reserved */")
    if attributes:
        sys.exit(f"{table}: attributes of unknown ops: {', '.join(attributes)}")
    text = ("/* Numbers are frozen. `portico ops` prints the full reference. */\n"
            "typedef enum pco_op {\n    PCO_OP_INVALID = 0,\n" + "\n".join(enum) + "\n} pco_op;\n\n" +
            "\n".join(structs))
    with open(output, "w", encoding="utf-8") as out:
        out.write(open(template, encoding="utf-8").read().replace("@OPERATIONS@", text))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
