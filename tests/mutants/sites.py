"""The mechanical half of the faults: every place of the kernels and of the lowering where an operator, an index, a
comparison, a barrier or a constant stands, and the edit that breaks it. Which of them are taken follows from a seed,
evenly over files and kinds; a site keeps its name as long as its line stays what it is."""

import fnmatch
import functools
import hashlib
import os
import re

import sources

# Not faults: what only changes how fast a device is, or which limits it asks of a device that has room for all. What
# only `choose` of a lowerer calls is found (`choosing`); these are called elsewhere too.
CHOICES = {'attention_eligible', 'attention_parts', 'attention_rounds_back', 'attention_rounds_rows',
           'attention_rounds_tiled', 'gpu_cover_rows', 'gpu_cover_singly', 'gpu_explain', 'gpu_fail',
           'gpu_grow', 'gpu_list_free', 'gpu_matmul_can', 'gpu_matmul_choose', 'gpu_matmul_pick', 'gpu_need_rounds',
           'gpu_rounds_fit', 'gpu_rows_eligible', 'gpu_segments', 'gpu_top_k_count', 'gpu_workgroup',
           'matmul_may_be_wide', 'matmul_middle', 'matmul_rounds'}
SKIP = re.compile(r'\s*(#include|#if|#e|#extension|#version|SPEC\(|INTERFACE\(|PARAMETER\(|BUFFER\(|NEEDS\(|OPERATIONS\(|COMPILED|layout|_Static_assert|enum\b|typedef|//|/\*|\* )|'
                  r'#define OP_\w+ |#define \w+ \d+$')
NUMBER = r'(?<![\w.])'
PARAMETER = re.compile(r'^PARAMETER\(\s*\w+\s*,\s*(\w+)\s*(?:,\s*(\d+)\s*)?\)', re.MULTILINE)


def float_text(value):
    text = repr(value)
    return (text if '.' in text or 'e' in text else text + '.0') + 'f'


def changed_float(match):
    value = float(match.group(1))
    return float_text(1.0 if value == 0.0 else 0.5 if value == 1.0 else float(f'{value * 1.0625:.9g}'))


def changed_index(match):
    number = int(match.group(2))
    return f'{match.group(1)}{number + 1 if number % 2 == 0 else number - 1}'


# kind, what it looks for, what it becomes. In a loop's head only comparisons are touched: other edits hang.
EDITS = [
    ('arithmetic', re.compile(r' \+ '), ' - '),
    ('arithmetic', re.compile(r' - '), ' + '),
    ('arithmetic', re.compile(r' \* '), ' + '),
    ('arithmetic', re.compile(r' / '), ' * '),
    ('arithmetic', re.compile(r' % '), ' / '),
    ('arithmetic', re.compile(r' \+= '), ' = '),
    ('arithmetic', re.compile(r' \|= '), ' = '),
    ('arithmetic', re.compile(r' [+*] (?:\w+(?:\([^()]*\))?)(?=[;,)\]])'), ''),
    ('index', re.compile(r'\[([\w ()+*]+)\]'), lambda m: f'[{m.group(1)} + 1]'),
    ('index', re.compile(r'\.([xyzw])\b'), lambda m: '.' + {'x': 'y', 'y': 'x', 'z': 'w', 'w': 'z'}[m.group(1)]),
    ('index', re.compile(r'(gpu_(?:input|input_index|output|output_index)\(gpu, )(\d)(?=\))'), changed_index),
    ('comparison', re.compile(r' < '), ' <= '),
    ('comparison', re.compile(r' <= '), ' < '),
    ('comparison', re.compile(r' > '), ' >= '),
    ('comparison', re.compile(r' >= '), ' > '),
    ('comparison', re.compile(r' == '), ' != '),
    ('comparison', re.compile(r' != '), ' == '),
    ('comparison', re.compile(r' && '), ' || '),
    ('comparison', re.compile(r' \|\| '), ' && '),
    ('barrier', re.compile(r'BARRIER\(\);'), ''),
    ('constant', re.compile(NUMBER + r'(\d+\.\d+(?:e[-+]?\d+)?)f\b'), changed_float),
    ('constant', re.compile(NUMBER + r'([1-9]\d*)(u?)(?=[ ;)\]?:,*])'), lambda m: f'{int(m.group(1)) + 1}{m.group(2)}'),
]


class Mutant:
    """One edit of one file: `old`, which stands there `count` times and is the occurrence-th that is meant, becomes
    `new`. `first` is the line where it begins."""

    def __init__(self, name, kind, origin, file, start, old, new, text):
        self.name, self.kind, self.origin, self.file = name, kind, origin, file
        self.start, self.old, self.new = start, old, new
        self.first = text.count('\n', 0, start) + 1
        self.text = text[:start] + new + text[start + len(old):]
        self.family = 'kernels' if file.startswith('shaders/') else 'lowering'
        self.key = hashlib.sha256((file + '\0' + self.text).encode()).hexdigest()[:24]


def files():
    """The files of which mechanical faults are made: kernels, and the lowering."""
    kernels = [f'shaders/{name}' for name in sorted(os.listdir(sources.SHADERS))
               if name.endswith(('.kern', '.inc')) or name == 'dialect.glsl']
    lowering = [f'backends/gpu/{name}' for name in sorted(os.listdir(sources.LOWERING))
                if name.endswith('.c') and name != 'lower_matmul_kernels.c']  # which chooses, and does nothing else
    return kernels + lowering


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


@functools.lru_cache(None)
def choosing():
    """Functions of the lowering that are reached from `choose` of a lowerer, and from nothing else of it."""
    units = [unit for name in sorted(os.listdir(sources.LOWERING)) if name.endswith('.c')
             for unit in sources.c_units(sources.read(os.path.join(sources.LOWERING, name)))]
    names, calls = {unit.name for unit in units}, {}
    for unit in units:
        calls.setdefault(unit.name, set()).update(sources.words(unit.text) & names - {unit.name})

    def reached(fields):
        roots = {root for unit in units for root in re.findall(rf'\.(?:{fields}) = (\w+)', unit.text)}
        return sources.closure(roots & names, calls)

    return reached('choose') - reached('eligible|lower|supports|propose')


def skipped_lines(path, blanked):
    """Lines of a C file that are messages, or belong to functions that only choose."""
    lines = set()
    if not path.endswith('.c'):
        return lines
    for unit in sources.c_units(blanked):
        if unit.name in CHOICES | choosing() or unit.name.startswith('gpu_supports'):
            lines.update(range(unit.first, unit.last + 1))
    for match in re.finditer(r'(?:gpu_fail|snprintf)\([^;]*;', blanked):
        first = blanked.count('\n', 0, match.start()) + 1
        lines.update(range(first, first + match.group(0).count('\n') + 1))
    return lines


def parameter_edits(path, text):
    """The edits that take a parameter for the one that is declared behind it (the last for the first), or an element
    of several for its neighbour."""
    declared = PARAMETER.findall(sources.embed.Sources(sources.SHADERS).read(os.path.basename(path))
                                 if path.endswith('.kern') else text)
    names = [name for name, count in declared if not count]
    several = [name for name, count in declared if count]
    edits = []
    if len(names) > 1:
        follower = dict(zip(names, names[1:] + names[:1]))
        edits.append(('index', re.compile(r'\b(' + '|'.join(names) + r')\b(?!\()'), lambda m: follower[m.group(1)]))
    if several:
        edits.append(('index', re.compile(r'\b(' + '|'.join(several) + r')\((\d)\)'),
                      lambda m: f'{m.group(1)}({int(m.group(2)) + (1 if m.group(2) == "0" else -1)})'))
    return edits


def sites_of(path):
    """All mechanical mutants of a file."""
    return sites_of_text(path, sources.read(os.path.join(sources.ROOT, path)))


@functools.lru_cache(512)
def sites_of_text(path, text):
    edits = EDITS + (parameter_edits(path, text) if path.startswith('shaders/') else [])
    blanked = sources.blank(text)
    skip, found, seen = skipped_lines(path, blanked), [], {}
    used = {unit.name for unit in sources.kernel_units(text)} if path.endswith('.glsl') else None
    start = 0
    for number, (line, shown) in enumerate(zip(text.split('\n'), blanked.split('\n')), 1):
        bare = line.strip()
        seen[bare] = seen.get(bare, 0) + 1
        if number not in skip and shown.strip() and not SKIP.match(line) and used is None or used and 'FUNCTION' in line:
            found += sites_in(path, text, start, line, shown, edits,
                              f'{digest(bare)[:6]}{"" if seen[bare] == 1 else seen[bare]}')
        start += len(line) + 1
    return found


def sites_in(path, text, start, line, shown, edits, tag):
    found = []
    head = re.search(r'\bfor \([^;]*;[^;]*;(.*)\)', shown)
    for kind, pattern, new in edits:
        for match in pattern.finditer(shown):
            if head and kind not in ('comparison', 'barrier'):
                continue
            if match.group(0) == ' < ' and shown[match.end():].startswith('PER;'):
                continue  # once more round: another invocation's word, written again with the same bits
            if shown[match.start() - 1] == '[' and kind == 'constant' and path.endswith('.c'):
                continue
            old = line[match.start():match.end()]
            edited = new(match) if callable(new) else new
            name = f'{os.path.basename(path)}:{tag}:{kind}:{match.start() - len(line) + len(line.lstrip())}'
            name += f'.{digest(edited)[:2]}'
            found.append(Mutant(name, kind, 'mechanical', path, start + match.start(), old, edited, text))
    return found


def choose(count, seed, keep=False, of='*'):
    """`count` sites in turn from the files and kinds that have the fewest, of files whose name matches `of`; with `keep`,
    those of mechanical.txt that are still there come first, and without, they are left out: the suite is fitted to them."""
    buckets, taken = {}, {}
    listed = {site.name: site for site in mechanical()}
    kept = listed if keep else {}
    for path in fnmatch.filter(files(), f'*/{of}'):
        for site in sites_of(path):
            bucket = site.kind, path
            buckets.setdefault(bucket, [])
            if site.name in kept:
                taken[bucket] = taken.get(bucket, 0) + 1
                taken[path] = taken.get(path, 0) + 1
            elif site.name not in listed:
                buckets[bucket].append(site)
    order = sorted(buckets, key=lambda bucket: digest(f'{seed} {bucket}'))
    for bucket in order:
        buckets[bucket].sort(key=lambda site: digest(f'{seed} {site.name}'), reverse=True)
    chosen = list(kept.values())
    while len(chosen) < count and any(buckets.values()):
        bucket = min((b for b in order if buckets[b]), key=lambda b: (taken.get(b[1], 0), taken.get(b, 0)))
        chosen.append(buckets[bucket].pop())
        for key in (bucket, bucket[1]):
            taken[key] = taken.get(key, 0) + 1
    return chosen[:count]


def every_name():
    """The names of all faults that could be drawn."""
    return {site.name for path in files() for site in sites_of(path)}


def mechanical():
    """The mechanical faults: those of mechanical.txt, which `scripts/mutants --choose N --write` has written, and of a file
    that it does not name yet one of each kind. One whose line has changed since is gone."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mechanical.txt')
    wanted = set(sources.read(path).split('\n'))
    listed = {name.split(':')[0] for name in wanted}
    found = []
    for file in files():
        sites = sites_of(file)
        if os.path.basename(file) in listed:
            found += [site for site in sites if site.name in wanted]
        else:
            found += first_of_each_kind(sites)
    return found


def first_of_each_kind(sites):
    of_kind = {}
    for site in sorted(sites, key=lambda site: digest(site.name), reverse=True):
        of_kind[site.kind] = site
    return list(of_kind.values())


def read_blocks(path):
    """Blocks of `key: value` lines, parted by empty lines; a value goes on in lines that begin with `|`."""
    blocks, block, last = [], {}, None
    for number, line in enumerate(sources.read(path).split('\n') + [''], 1):
        if line.startswith('#'):
            continue
        if not line.strip():
            if block:
                blocks.append(block)
            block, last = {}, None
        elif line.startswith('|') and last:
            block[last] += '\n' + line[1:]
        else:
            last, colon, value = line.partition(':')
            if not colon or last not in ('name', 'kind', 'file', 'old', 'new', 'why'):
                raise SystemExit(f'{path}:{number}: not a line of the form key: value')
            block[last] = value[1:]
    return blocks


def table():
    """The faults written by hand."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'table.txt')
    mutants = []
    for block in read_blocks(path):
        text = sources.read(os.path.join(sources.ROOT, block['file']))
        count = text.count(block['old'])
        if count != 1:
            raise SystemExit(f'{path}: {block["name"]}: its text stands {count} times in {block["file"]}, not once')
        mutants.append(Mutant(block['name'], block.get('kind', 'classic'), 'by hand', block['file'],
                              text.index(block['old']), block['old'], block['new'], text))
    return mutants


class Fault:
    """A device of the faulty plugin."""

    def __init__(self, name, words, key):
        self.name, self.kind, self.origin, self.family = f'faulty:{name}', 'plugin', 'by hand', 'plugin'
        self.file, self.first, self.old, self.new, self.key = 'tests/mutants/faulty/faulty.h', 0, name, words, key


# Which of them show only to those who ask, and how to.
ASKED = {'faulty:threads': ['--invariance'], 'faulty:disturbed': ['--replays', '20']}


def faults():
    """The faults of the plugin, without the control."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'faulty')
    text = ''.join(sources.read(os.path.join(folder, name)) for name in ('faulty.h', 'effects.c', 'kept.c', 'plugin.c'))
    listed = re.findall(r'FAULTY\((\w+), "([^"]+)"\)', text)
    return [Fault(name, words, digest(name + text)[:24]) for name, words in listed if name != 'sound']


def equivalents():
    """name -> why no input can tell it from the original."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'equivalent.txt')
    blocks = read_blocks(path) if os.path.exists(path) else []
    argued = {block['name']: block['why'] for block in blocks}
    if len(argued) < len(blocks):
        raise SystemExit(f'{path} argues about a fault twice')
    return argued
