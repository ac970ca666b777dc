"""An operation of which something is missing does not build, and the build says its name: test_missing.py BUILD_FOLDER

Rows are added to a copy of the table: one of a family of its own, for which everything is missing, and one in each family
of several, for which the functions that these share have nothing. The files that go through the table are compiled with
it, by the build's own commands."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIGNATURE = '"x:F[..] -> y:F[..]", "F=f32,f16,bf16"'
ALONE = f'PCO_OP(200, ALONE, alone, alone, {SIGNATURE}, infer_alone, ANY, decompose_alone, gradient_alone, EXACT, ELEMENTS, products_alone, "")\n'

# What a file that goes through the table refers to for it.
REFERENCES = {
    "core/graph/op.c": ["infer_alone"],
    "core/graph/op_rules.c": ["decompose_alone", "gradient_alone"],
    "core/graph/work.c": ["products_alone"],
    "conformance/cases/cases.c": ["conf_cases_alone"],
    "conformance/oracle/oracle.c": ["oracle_eval_alone"],
    "backends/cpu/ops.c": ["cpu_op_ALONE"],
    "backends/gpu/ops.c": ["gpu_lower_alone"],
}

# The function that the operations of a family share, and kernels.
SHARED = {
    "conformance/oracle/oracle_elementwise.c": ["binary", "compare", "logical", "unary"],
    "conformance/oracle/oracle_reduce.c": ["reduce"],
    "conformance/oracle/oracle_softmax.c": ["softmax"],
    "conformance/oracle/oracle_backward.c": ["norm_backward"],
    "backends/cpu/elementwise.c": ["binary", "compare", "logical", "unary"],
}
KERNELS = ["binary", "compare", "logical", "unary", "reduce", "softmax"]


def row(number, family):
    return (f'PCO_OP({number}, ONE_MORE_{family.upper()}, one_more_{family}, {family}, {SIGNATURE}, SIGNATURE, ANY, NONE, '
            'NONE, EXACT, ELEMENTS, NONE, "")\n')


def families():
    """Those of several operations, as the table has them."""
    sys.path.insert(0, os.path.join(ROOT, "shaders"))
    import ops  # pylint: disable=import-outside-toplevel # it lies beside the kernels
    return [family for family, names in ops.FAMILIES.items() if len(names) > 1]


def copy_table(folder, rows):
    """A folder like core/ and shaders/, with these rows at the end of the table."""
    for part in ("core/graph/ops.def", "core/base/dtypes.def"):
        os.makedirs(os.path.dirname(os.path.join(folder, part)), exist_ok=True)
        shutil.copy(os.path.join(ROOT, part), os.path.join(folder, part))
    table = os.path.join(folder, "core/graph/ops.def")
    with open(table, encoding="utf-8") as file:
        before, mark, after = file.read().partition("/* ---- reserved numbers ---- */")
    assert mark
    with open(table, "w", encoding="utf-8") as file:
        file.write(before + rows + mark + after)
    os.makedirs(os.path.join(folder, "core/portico"))
    include = os.path.join(ROOT, "core/include/portico")
    subprocess.run([sys.executable, os.path.join(include, "gen_plugin_h.py"), os.path.join(include, "plugin.h.in"), table,
                    os.path.join(folder, "core/base/dtypes.def"), os.path.join(folder, "core/portico/plugin.h")], check=True)


def compile_with(folder, build, command, output):
    """What the compiler says of a file with the folder's table."""
    words = shlex.split(command)
    words = words[1:] if os.path.basename(words[0]) == "ccache" else words
    for option in ("-o", "-MQ", "-MF"):
        del words[words.index(option):words.index(option) + 2]
    words = [word for word in words if word != "-MD" and not word.startswith(("-O", "-D_FORTIFY_SOURCE", "-fdiagnostics"))]
    words[1:1] = ["-I" + os.path.join(folder, "core")]
    return subprocess.run(words + ["-o", output], cwd=build, capture_output=True, text=True,
                          env=dict(os.environ, LC_ALL="C"), check=False)


def commands(build):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        rows = json.load(file)
    return {os.path.relpath(os.path.join(build, one["file"]), ROOT): one["command"] for one in reversed(rows)}


def check_alone(folder, build, known, file):
    output = os.path.join(folder, file.replace("/", "_") + ".o")
    said = compile_with(folder, build, known[file], output)
    if said.returncode:
        return [f"{file}: {said.stderr}"]
    names = subprocess.run(["nm", "-u", output], capture_output=True, text=True, check=True).stdout.split()
    return [f"{file} links without {name}" for name in REFERENCES[file] if name not in names]


def check_shared(folder, build, known, file):
    said = compile_with(folder, build, known[file], os.path.join(folder, file.replace("/", "_") + ".o"))
    return [f"{file} compiles without one_more_{family}" for family in SHARED[file]
            if not said.returncode or f"ONE_MORE_{family.upper()}'" not in said.stderr]


def check_kernel(folder, family):
    """Kernels are compiled in Python up to what glslc sees."""
    table = os.path.join(folder, family)
    copy_table(table, row(200, family))
    shutil.copytree(os.path.join(ROOT, "shaders"), os.path.join(table, "shaders"), ignore=shutil.ignore_patterns("compiled"))
    said = subprocess.run([sys.executable, os.path.join(table, "shaders/embed.py"), "header", os.path.join(table, "shaders"),
                           os.path.join(table, "kernels.h")], capture_output=True, text=True, check=False)
    name = f"one_more_{family}"
    return [] if said.returncode and name in said.stderr else [f"kernels are made without {name}: {said.stderr}"]


def main(build):
    wrong = [f"{family} is shared: say here by what" for family in families()
             if not any(family in of for of in SHARED.values())]
    known = commands(build)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        alone, several = os.path.join(folder, "alone"), os.path.join(folder, "several")
        copy_table(alone, ALONE)
        copy_table(several, "".join(row(200 + i, family) for i, family in enumerate(families())))
        tasks = [pool.submit(check_alone, alone, build, known, file) for file in REFERENCES if file in known]
        tasks += [pool.submit(check_shared, several, build, known, file) for file in SHARED]
        tasks += [pool.submit(check_kernel, folder, family) for family in KERNELS]
        wrong += [line for task in tasks for line in task.result()]
    print(*wrong, sep="\n")
    sys.exit(int(bool(wrong)))


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
