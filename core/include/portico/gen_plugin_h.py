#!/usr/bin/env python3
"""Writes plugin.h from plugin.h.in and the tables: gen_plugin_h.py plugin.h.in ops.def dtypes.def plugin.h"""
import os
import re
import sys
import textwrap

VECTORS = ("PCO_ATTR_V", "PCO_ATTR_AXES")
ROWS_COLUMN = 11  # of PCO_OP
AXES = ("PCO_ATTR_AXIS", "PCO_ATTR_AXES")

OPERATIONS = """/* All operations of this header, for tables that leave none out: ROW(NAME, name, family), where PCO_OP_NAME is the
 * number. Those of one family differ in a function only; one of no family is its own. */"""
DTYPES = """/* All element types of this header, for the tables of plugins: ROW(NAME, name, block, bytes), where PCO_NAME is the
 * number, and `block` elements lie in `bytes` bytes. By class: numbers with fractions, whole numbers and truth, and blocks
 * of quantised weights. */"""
CLASSES = ("FLOAT", "WHOLE", "QUANTISED")
WITH_ATTRS = """/* Those that have attributes: ROW(NAME, name), where pco_name_attrs is the struct. */"""


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
        if kind in AXES:
            doc += "; 0 .. rank - 1"
        if kind in VECTORS:
            lines.append(f"    int64_t n_{field}; /* {doc} */")
            lines.append(f"    int64_t {field}[PCO_MAX_RANK];")
            size += 72
        else:
            lines.append(f"    {'double' if kind == 'PCO_ATTR_F' else 'int64_t'} {field}; /* {doc} */")
            size += 8
    body = "\n".join(lines)
    return (f"typedef struct pco_{name}_attrs {{\n{body}\n}} pco_{name}_attrs;\n"
            f'PCO_STATIC_ASSERT(sizeof(pco_{name}_attrs) == {size}, "pco_{name}_attrs");\n')


def entry(number, upper, signature, types, doc):
    """One enumerator, with all that ops.def says of what the op computes."""
    head = signature + (f" with {types}" if types else "")
    lines = textwrap.wrap(head, 109, break_long_words=False) + textwrap.wrap(doc, 109, break_long_words=False)
    return "    /* " + "\n     * ".join(lines) + f" */\n    PCO_OP_{upper} = {number},"


def name_function(names):
    """The op's name, for messages of plugins."""
    rows = "\n".join(f'    case PCO_OP_{upper}: return "{name}";' for upper, name in names)
    return ("/* \"matmul\", for messages; \"unknown\" for a number that this header does not have. Static. */\n"
            "static inline const char *pco_op_name(uint32_t op)\n{\n    switch (op) {\n" + rows +
            '\n    default: return "unknown";\n    }\n}\n')


def write_if_changed(output, text):
    """What includes a header is still right where the header is as it was."""
    if os.path.exists(output) and open(output, encoding="utf-8").read() == text:
        return
    with open(output, "w", encoding="utf-8") as out:
        out.write(text)


def list_macro(name, doc, rows):
    """A macro that names the operations, for the tables of plugins."""
    return f"{doc}\n#define {name}(ROW) \\\n" + " \\\n".join(f"    ROW({', '.join(row)})" for row in rows) + "\n"


def element_types(table):
    """The enumerators of pco_dtype, and the lists of types by class."""
    enum, rows_of = [], {name: [] for name in CLASSES}
    for macro, args in rows(open(table, encoding="utf-8").read()):
        if macro != "PCO_DTYPE":
            continue
        number, upper, name, kind, block, size = args[:6]
        doc = unquote(args[-1]) + (f"; {size} bytes for {block} weights" if kind == "QUANTISED" else "")
        enum.append("    /* " + "\n     * ".join(textwrap.wrap(doc, 109)) + f" */\n    PCO_{upper} = {number},")
        rows_of[kind].append((upper, name, block, size))
    count = sum(len(of) for of in rows_of.values())
    text = "typedef enum pco_dtype {\n" + "\n".join(enum) + f"\n    PCO_DTYPE_COUNT = {count},\n}} pco_dtype;\n\n" + DTYPES
    for kind, of in rows_of.items():
        text += f"\n#define PCO_{kind}_DTYPES(ROW) \\\n" + " \\\n".join(f"    ROW({', '.join(row)})" for row in of)
    return text + "\n#define PCO_DTYPES(ROW) " + " ".join(f"PCO_{kind}_DTYPES(ROW)" for kind in CLASSES) + "\n"


def main(template, table, dtypes, output):
    same_alone = {}
    attributes, enum, structs, names, families, with_attributes, numbers = {}, [], [], [], [], [], [0]
    number = 0
    for macro, args in rows(open(table, encoding="utf-8").read()):
        if macro.startswith("PCO_ATTR"):
            attributes.setdefault(args[0], []).append((macro, args[1], unquote(args[-1])))
        elif macro == "PCO_ROWS" and args[0] != "NONE":
            same_alone[args[0]] = f" Alone, {unquote(args[-1])}."
        elif macro == "PCO_OP":
            number, upper, name, family, signature, types = args[:6]
            doc = unquote(args[-1]) + same_alone.get(args[ROWS_COLUMN], "")
            enum.append(entry(number, upper, unquote(signature), unquote(types), doc))
            names.append((upper, name))
            families.append((upper, name, family))
            if name in attributes:
                with_attributes.append((upper, name))
                structs.append(struct(name, attributes.pop(name)))
        elif macro == "PCO_RESERVED":
            enum.append(f"    PCO_OP_{args[1]} = {args[0]}, /* reserved */")
            number = args[0]
        numbers.append(int(number))
    if attributes:
        sys.exit(f"{table}: attributes of unknown ops: {', '.join(attributes)}")
    text = ("typedef enum pco_op {\n    PCO_OP_INVALID = 0,\n" + "\n".join(enum) + "\n} pco_op;\n\n" +
            f"/* Numbers of the operations in this header are below. */\nenum {{ PCO_OP_LIMIT = {max(numbers) + 1} }};\n\n" +
            name_function(names) + "\n" + list_macro("PCO_OPERATIONS", OPERATIONS, families) + "\n" +
            "\n".join(structs) + "\n" + list_macro("PCO_OPERATIONS_WITH_ATTRS", WITH_ATTRS, with_attributes))
    header = open(template, encoding="utf-8").read().replace("@OPERATIONS@", text)
    header = header.replace("@DTYPES@", element_types(dtypes))
    write_if_changed(output, header)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
