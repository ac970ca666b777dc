"""What the public headers declare, as a library: surface.py HEADER... SOURCE SUPPRESSIONS

SOURCE defines each function of the headers, so that a compiler that makes debugging information of it describes the whole
interface and nothing else. It can: test `symbols` sees to it that the library exports these functions and no others, and
the library is compiled against the same headers. SUPPRESSIONS says what may change (docs/abi.md): structs that begin with
their size grow at their ends, and enumerators that say how many there are grow."""
import os
import re
import sys

# What has a size in plugin.h and is the program's: the rest of that header is held by its own number.
OF_PLUGINS = ["pco_op_declaration"]


def uncommented(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def functions(text):
    for result, name, parameters in re.findall(r"PCO_EXPORT\s+([\w\s*]+?)(\w+)\s*\(([^()]*)\)[^;{]*;", text):
        names = [] if parameters.strip() == "void" else [p.strip() for p in parameters.split(",")]
        yield result.strip(), name, ", ".join(names) or "void"


def sized(text):
    """Structs whose first member is their size."""
    return re.findall(r"typedef struct (\w+) \{\s*(?:size_t|uint32_t) size;", text)


def main():
    *headers, source, suppressions = sys.argv[1:]
    texts = [uncommented(open(header, encoding="utf-8").read()) for header in headers]
    lines = [f"#include <portico/{os.path.basename(header)}>" for header in headers]
    for text in texts:
        for result, name, parameters in functions(text):
            if name not in ("pco_plugin_query", "pco_ops_query"):  # of plugins
                lines.append(f"{result} {name}({parameters}) {{ __builtin_trap(); }}")
    open(source, "w", encoding="utf-8").write("\n".join(lines) + "\n")
    grow = "".join(f"[suppress_type]\n  name = {name}\n  type_kind = struct\n  has_data_member_inserted_at = end\n"
                   "  has_size_change = yes\n\n" for name in OF_PLUGINS + [name for text in texts for name in sized(text)])
    grow += "[suppress_type]\n  type_kind = enum\n  changed_enumerators = PCO_DTYPE_COUNT, PCO_OP_LIMIT\n"  # they count
    open(suppressions, "w", encoding="utf-8").write(grow)


if __name__ == "__main__":
    main()
