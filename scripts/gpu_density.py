"""Multiply-adds per instruction in the loop of a listing that has most of them: of ACO (AMD), ANV (Intel; the formats of
Mesa 22.3 to 25.0 and of 26.2) and NVK (NVIDIA).

Where a compiler joins no product with a sum, as RADV for GCN 4 and NVK of Mesa 25.0 in attention, an addition of a
product counts as a multiply-add, of two instructions. What an invocation gets of a matrix instruction is its share: of a
subgroup of 32 on AMD and NVIDIA, of as many as the loop is for on Intel. Every line of the loop is an instruction, waits
and copies too, whichever way of a branch it is on; a loop within it that the compiler left rolled counts once."""

import re

AMD_LABEL, AMD_LINE = re.compile(r"^(BB\d+):"), re.compile(r"^\s+([a-z]\w+)(.*)")
INTEL_LABEL = re.compile(r"^(L(?:ABEL)?\d+):")
INTEL_LINE = re.compile(r"^(?:\([^)]*\))?\s*([a-z][\w.]*(?: [a-z]+)?) ?\((\d+)\)(.*)")
NVIDIA_LABEL = re.compile(r"^block\S* \d+ (L\d+)")
NVIDIA_LINE = re.compile(r"^(?:@\S+)?\s+(?=(?:\S+\s+= )?([a-z][\w.]*))(.*)")
PRODUCT, SUM = ("v_mul_f", "fmul"), ("v_add_f", "fadd")
AMD_TERMS = (("v_dot4", 4), ("v_dot2", 2), ("v_pk_fma", 2), ("v_fma", 1), ("v_mac", 1), ("v_mad_f", 1), ("v_dual_fma", 1))


def amd(op, rest, _width):
    if op.startswith("v_wmma"):
        return 16 * 16 * 16 / 32
    both = [op, *re.findall(r":: (v_\w+)", rest)]  # a v_dual_ instruction is two
    return sum(next((terms for word, terms in AMD_TERMS if one.startswith(word)), 0) for one in both)


def intel(op, rest, width):
    lanes, _, _ = rest.partition(" ")
    if op.startswith("dpas"):
        return int(lanes) * 8 * 16 / width
    return int(lanes) / width if op == "mad" and re.search(r":h?f\b|<\d+>H?F\b", rest) else 0


def nvidia(op, _rest, _width):
    shape = re.match(r"hmma\.m(\d+)n(\d+)k(\d+)", op)
    if shape:
        return int(shape[1]) * int(shape[2]) * int(shape[3]) / 32
    return 2 if op.startswith("hfma2") else op.startswith("ffma")


def read(text):
    """The compiler's function above, the labels' places and the instructions as (operation, the rest of the line)."""
    for label, line, terms in ((AMD_LABEL, AMD_LINE, amd), (NVIDIA_LABEL, NVIDIA_LINE, nvidia),
                               (INTEL_LABEL, INTEL_LINE, intel)):
        labels, instructions = {}, []
        for one in text.splitlines():
            at, found = label.match(one), line.match(one)
            if at:
                labels[at[1]] = len(instructions)
            elif found:
                instructions.append((found[1], " ".join(found.groups()[1:])))
        if labels:
            return terms, labels, instructions
    return None, {}, []


def separate(body):
    """The additions of AMD's or NVIDIA's loop to which a product goes, which another instruction made."""
    products, found = set(), 0
    for op, rest in body:
        to, *of = re.findall(r"\b[vr]\d+\b", rest) or [None]
        if op.startswith(SUM) and products.intersection(of):
            found += 1
            products.difference_update(of)
        products.discard(to)
        if op.startswith(PRODUCT):
            products.add(to)
    return found


def hottest(text):
    """(multiply-adds, the instructions) of that loop; None where no loop has any."""
    terms, labels, instructions = read(text)
    best, width = None, 32
    for at, (op, rest) in enumerate(instructions):
        to = re.search(r"\b(BB\d+|L(?:ABEL)?\d+)\b", rest) if "bra" in op or op in ("while", "jmpi", "goto") else None
        first = labels.get(to[1], at + 1) if to else at + 1
        if first > at:
            continue
        body = instructions[first:at + 1]
        if terms is intel:  # as many invocations as the loop is for; a jump that all take has no lanes
            width = int(rest.split()[0])
            width = width if width > 1 else max(int(one.split()[0]) for _, one in body)
        found = max(sum(terms(*one, width) for one in body), separate(body))
        if found and (best is None or (found, -len(body)) > (best[0], -len(best[1]))):
            best = (found, body)
    return best


def densest(text):
    """(multiply-adds per instruction, instructions) of that loop; None where no loop has any."""
    best = hottest(text)
    return best and (best[0] / len(best[1]), len(best[1]))


def table(folder, gpus):
    """Lines: each kernel with products, the least and the most of its listings on each of those GPUs."""
    rows = {}
    for gpu in gpus:
        for path in sorted((folder / gpu).glob("*.txt")):
            found = densest(path.read_text(errors="replace"))
            if found:
                rows.setdefault(path.name.rsplit("-", 1)[0], {}).setdefault(gpu, []).append(found[0])
    yield "\nMultiply-adds per instruction in the hottest loop, of the kernel's pipelines the least and the most"
    wide = max(map(len, rows), default=0) + 1
    yield f"{'kernel':<{wide}}" + "".join(f"{name:>14}" for name in gpus)
    for kernel, row in sorted(rows.items()):
        cells = (f"{min(row[gpu]):.2f} - {max(row[gpu]):.2f}" if gpu in row else "." for gpu in gpus)
        yield f"{kernel:<{wide}}" + "".join(f"{cell:>14}" for cell in cells)
