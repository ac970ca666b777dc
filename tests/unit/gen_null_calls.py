"""gen_null_calls.py PORTICO.H OUTPUT: each function of the public header, called with each of its pointers as NULL in turn.

A parameter whose type has no value in VALUES is an error: who adds a function says here what a good call of it is."""
import re
import sys

# What a good call passes, by type and, where a type has several uses, by name. test_api.c defines the variables.
VALUES = {
    "pco_status": "PCO_OK", "void *": "NULL", "const pco_context_params *": "&context_params", "pco_context **": "&context_out",
    "pco_error *": "&err", "pco_context *": "context", "const pco_context *": "context", "pco_device_description *": "devices",
    "pco_plugin_description *": "plugins", "uint32_t": "1", "const pco_model_params *": "&model_params",
    "pco_model **": "&model_out", "pco_model *": "model", "const pco_model *": "model", "pco_model_info *": "&info",
    "int64_t": "0", "size_t": "2", "size_t bytes": "1", "int": "1", "int32_t **": "&ids_out", "size_t *": "&count_out",
    "const int32_t *": "ids", "char **": "&text_out", "const pco_generate_params *": "&generate_params",
    "pco_text_fn": "take_text", "pco_generate_stats *": "&stats", "float *": "logits", "double **": "&numbers_out",
    "pco_attention_fn": "take_map", "const char *path": "path", "const char *": '"3"',
}
FUNCTIONS = {"pco_text_fn", "pco_attention_fn"}
ALWAYS_ALLOWED = {"err", "user"}


def parameters(text):
    for parameter in text.split(","):
        kind, name = re.fullmatch(r"\s*(.*?)(\w+)\s*", parameter.strip()).groups()
        yield re.sub(r"\s*(\*+)$", r" \1", kind.strip()), name


def calls(header):
    found = re.findall(r"(?:/\*((?:[^*]|\*(?!/))*)\*/\s*)?PCO_EXPORT\s+([\w\s*]+?)(\w+)\(([^)]*)\)", header)
    if len(found) != header.count("PCO_EXPORT "):
        sys.exit("gen_null_calls.py: a declaration in portico.h was not understood")
    for comment, result, function, text in found:
        if text.strip() == "void":
            continue
        known = list(parameters(text))
        allowed = set(ALWAYS_ALLOWED)
        for sentence in re.findall(r"((?:`\w+`[,\s*]*(?:and\s+)?)+)may\s+be[\s*]+NULL", comment):
            allowed |= set(re.findall(r"`(\w+)`", sentence))
        if re.search(r"NULL\s+is\s+allowed", comment):
            allowed |= {name for _, name in known}
        for i, (kind, name) in enumerate(known):
            if "*" not in kind and kind not in FUNCTIONS:
                continue
            values = []
            for k, (other, its) in enumerate(known):
                value = VALUES.get(f"{other}{its}" if other.endswith("*") else f"{other} {its}", VALUES.get(other))
                if value is None:
                    sys.exit(f"gen_null_calls.py: {function} has a parameter '{other} {its}'; add a value for it")
                values.append("NULL" if k == i else value)
            call = f"{function}({', '.join(values)})"
            kind_of_call = "STATUS" if result.strip() == "pco_status" else "PLAIN"
            yield f'{kind_of_call}_CALL("{function}, {name}", {call}, {int(name in allowed)})'


if __name__ == "__main__":
    lines = list(calls(open(sys.argv[1], encoding="utf-8").read()))
    open(sys.argv[2], "w", encoding="utf-8").write("\n".join(lines) + "\n")
