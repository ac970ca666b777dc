"""The numbers of operations and their families, as core/graph/ops.def has them."""

import os
import re

TABLE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'core', 'graph', 'ops.def'))
ROW = re.compile(r'^PCO_OP\((\d+), (\w+), \w+, (\w+),', re.MULTILINE)


def read_rows():
    with open(TABLE, encoding='utf-8') as file:
        return ROW.findall(file.read())


NUMBERS = {name: int(number) for number, name, _ in read_rows()}
FAMILIES = {}
for _, NAME, FAMILY in read_rows():
    FAMILIES.setdefault(FAMILY, []).append(NAME)
