"""The numbers of operations, as core/graph/ops.def has them."""

import os
import re

TABLE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'core', 'graph', 'ops.def'))
ROW = re.compile(r'^PCO_OP\((\d+), (\w+),', re.MULTILINE)


def read_numbers():
    with open(TABLE, encoding='utf-8') as file:
        return {name: int(number) for number, name in ROW.findall(file.read())}


NUMBERS = read_numbers()
