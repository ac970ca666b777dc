#!/usr/bin/env python3
"""check_attention.py SVG JSON PANELS: the two forms of `portico run --attention` for the same text.

The picture is well formed, needs nothing from outside, has PANELS panels with a label for each row and column, which
is its token where that is short and prints, and each cell has the shade of its weight, once. The weights of a row sum to 1."""
import json
import re
import sys
import xml.etree.ElementTree as tree

LEVELS = 32
SVG = "{http://www.w3.org/2000/svg}"


def levels(panel):
    """{(row, column): level} of the cells that are drawn."""
    cells = {}
    for path in panel.iter(SVG + "path"):
        level = int(path.get("class")[1:])
        runs = re.findall(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z", path.get("d"))
        assert "".join("M%s %sh%sv1h-%sz" % run for run in runs) == path.get("d"), "a path of another form"
        for x, y, width, back in runs:
            assert width == back
            for column in range(int(x), int(x) + int(width)):
                assert (int(y), column) not in cells, "a cell is drawn twice"
                cells[int(y), column] = level
    return cells


def is_label(text, token):
    """Longer ones are cut, and what does not print is spelt."""
    return text == token.replace(" ", "\u2423") or len(token) >= 13 or not token.isprintable()


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    assert not re.search(r"href|url\(|@import|<script|<!ENTITY", text), "something from outside"
    root = tree.fromstring(text.encode())
    with open(sys.argv[2], encoding="utf-8") as file:
        numbers = json.load(file)
    weights = {(a["kind"], a["layer"]): a["weights"] for a in numbers["attentions"]}
    panels = [g for g in root.iter(SVG + "g") if g.get("class") == "p"]
    assert len(panels) == int(sys.argv[3]) == sum(len(w) for w in weights.values()), f"{len(panels)} panels"
    drawn = 0
    for panel in panels:
        kind, layer, head = panel.get("data-kind"), int(panel.get("data-layer")), int(panel.get("data-head"))
        rows = weights[kind, layer][head]
        queries, keys = int(panel.get("data-queries")), int(panel.get("data-keys"))
        sides = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}[kind]
        assert queries == len(rows) == len(numbers[sides[0]]) and keys == len(rows[0]) == len(numbers[sides[1]])
        labels = next(g for g in panel.iter(SVG + "g") if g.get("class") == "t").findall(SVG + "text")
        assert len(labels) == queries + keys and all(label.text for label in labels), "labels"
        tokens = numbers[sides[0]] + numbers[sides[1]]
        assert all(is_label(label.text, token) for label, token in zip(labels, tokens)), "a label is not its token"
        cells = levels(panel)
        drawn += len(cells)
        for q, row in enumerate(rows):
            # e_j / sum: exp, a sum of T terms, a division and a rounding, in f32
            assert abs(sum(row) - 1) <= (keys + 8) * 2 ** -24, (kind, layer, head, q, sum(row))
            for k, weight in enumerate(row):
                assert cells.pop((q, k), 0) == int(weight * LEVELS + 0.5), (kind, layer, head, q, k)
                assert kind != "decoder" or k <= q or weight == 0, "a later token is seen"
        assert not cells, "cells outside of the panel"
    width, height = float(root.get("width")), float(root.get("height"))
    for panel in panels:
        x, y = map(float, re.findall(r"[\d.]+", panel.get("transform")))
        frame = panel.find(SVG + "rect")
        assert x + float(frame.get("width")) <= width and y + float(frame.get("height")) <= height, "out of the picture"
    print(f"{len(panels)} panels, {drawn} cells drawn")


main()
