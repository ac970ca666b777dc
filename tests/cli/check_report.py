#!/usr/bin/env python3
"""Checks a folder that `portico conformance --report` wrote: report.json against its schema, junit.xml and
report.html against each other.

    check_report.py DIR SCHEMA

Knows as much of JSON Schema as the schema uses, and refuses a schema that uses more. Exits 1 with a line per fault."""
import html.parser
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as tree

NOTES = {"$schema", "$id", "title", "description", "$defs"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float), "integer": int}
VOID = {"meta", "br", "path", "link", "img", "hr", "input"}


class Schema:
    def __init__(self, root):
        self.root = root

    def faults(self, value, schema, where):
        """Yields what is wrong with `value`, in words."""
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/$defs/")
            yield from self.faults(value, self.root["$defs"][name], where)
        for key, rule in schema.items():
            check = getattr(self, "check_" + key.strip("$"), None)
            if check:
                yield from check(value, rule, where, schema)
            elif key not in NOTES and key not in ("$ref", "properties"):
                yield f"the schema says '{key}', which this checker does not know"

    def check_type(self, value, rule, where, _):
        right = isinstance(value, TYPES[rule]) and (rule == "boolean" or not isinstance(value, bool))
        if rule == "integer" and isinstance(value, float) and value.is_integer():
            right = True
        if not right:
            yield f"{where}: {value!r:.60} is no {rule}"

    def check_required(self, value, rule, where, _):
        for key in rule:
            if isinstance(value, dict) and key not in value:
                yield f"{where}: '{key}' is missing"

    def check_additionalProperties(self, value, rule, where, schema):
        if not isinstance(value, dict):
            return
        known = schema.get("properties", {})
        for key, member in value.items():
            if key in known:
                yield from self.faults(member, known[key], f"{where}.{key}")
            elif rule is False:
                yield f"{where}: '{key}' is not in the schema"
            else:
                yield from self.faults(member, rule, f"{where}.{key}")

    def check_items(self, value, rule, where, _):
        for i, item in enumerate(value if isinstance(value, list) else []):
            yield from self.faults(item, rule, f"{where}[{i}]")

    def check_enum(self, value, rule, where, _):
        if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in rule):
            yield f"{where}: {value!r:.60} is none of {rule}"

    def check_const(self, value, rule, where, _):
        if value != rule:
            yield f"{where}: {value!r:.60} is not {rule!r}"

    def check_pattern(self, value, rule, where, _):
        if isinstance(value, str) and not re.search(rule, value):
            yield f"{where}: {value!r:.60} does not match {rule}"

    def check_minimum(self, value, rule, where, _):
        if isinstance(value, (int, float)) and value < rule:
            yield f"{where}: {value} is below {rule}"

    def check_anyOf(self, value, rule, where, _):
        if not any(not list(self.faults(value, one, where)) for one in rule):
            yield f"{where}: {value!r:.60} fits none of its forms"


class Page(html.parser.HTMLParser):
    """Notes tags that are not closed, and what would be loaded from elsewhere."""

    def __init__(self):
        super().__init__()
        self.open, self.faults, self.text, self.plots = [], [], [], 0

    def handle_starttag(self, tag, attrs):
        self.plots += tag == "svg"
        for name, value in attrs:
            beside = tag == "a" and (value.startswith("#") or value.startswith("reproducers/"))
            if name in ("src", "href", "srcset", "data", "action") and not beside:
                self.faults.append(f"report.html: <{tag} {name}={value!r:.60}> loads something")
            if name.startswith("on"):
                self.faults.append(f"report.html: <{tag}> runs a script")
        if tag in ("script", "link", "iframe", "object", "embed"):
            self.faults.append(f"report.html: there is a <{tag}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"report.html: line {self.getpos()[0]}: </{tag}> closes nothing")

    def handle_data(self, data):
        self.text.append(data)


def check_junit(path, report):
    root = tree.parse(path).getroot()
    kinds = ("tests", "failures", "errors", "skipped")
    total = dict.fromkeys(kinds, 0)
    for suite in root:
        cases = suite.findall("testcase")
        found = {"tests": len(cases)}
        for kind, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            found[kind] = sum(case.find(element) is not None for case in cases)
        for kind in kinds:
            total[kind] += found[kind]
            if int(suite.get(kind)) != found[kind]:
                yield f"junit.xml: {suite.get('name')}: {kind}={suite.get(kind)}, and there are {found[kind]}"
        if len({case.get("name") for case in cases}) != len(cases):
            yield f"junit.xml: {suite.get('name')}: two tests of one name"
    for kind in kinds:
        if int(root.get(kind)) != total[kind]:
            yield f"junit.xml: {kind}={root.get(kind)}, and there are {total[kind]}"
    suites = {suite.get("name") for suite in root}
    for device in report["conformance"]:
        for op in device["ops"]:
            if f"{device['device']['id']}.{op['op']}" not in suites:
                yield f"junit.xml: no suite for {op['op']}"
    records = sum(len(device["cases"]) for device in report["conformance"])
    if total["tests"] < records:
        yield f"junit.xml: {total['tests']} tests, and report.json has {records} records"


def check_html(path, report):
    text = path.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    page.close()
    yield from page.faults
    if page.open:
        yield f"report.html: not closed: {page.open}"
    if re.search(r"url\(|@import", text):
        yield "report.html: its style loads something"
    words = "".join(page.text)
    for device in report["conformance"]:
        for part in (device["device"]["driver"], *(op["op"] for op in device["ops"])):
            if part not in words:
                yield f"report.html: no word of '{part}'"
        for case in device["cases"][:200]:
            if case["state"] == "fail" and case["repeat"] not in words:
                yield f"report.html: not how to repeat {case['case']}"
    judged = sum(any(op[state] for state in ("pass", "fail", "mistrusted", "waived", "flaky"))
                 for device in report["conformance"] for op in device["ops"])
    if page.plots != judged:
        yield f"report.html: {page.plots} plots for {judged} operations"


def main():
    folder, schema = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    faults = list(Schema(schema).faults(report, schema, "report"))
    broken = dict(report, run={"seed": 5}, extra=1)
    if len(list(Schema(schema).faults(broken, schema, "report"))) < 2:
        faults.append("the checker does not notice a broken report")
    faults += check_junit(folder / "junit.xml", report)
    faults += check_html(folder / "report.html", report)
    print("\n".join(faults[:20]) or f"{folder}: {sum(len(d['cases']) for d in report['conformance'])} records fit")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
