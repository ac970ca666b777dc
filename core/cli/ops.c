/* portico ops: the reference of operations, printed from the table. */
#include "cli/cli.h"

#include "base/dtype.h"
#include "base/suggest.h"
#include "formats/json.h"
#include "graph/op_rules.h"
#include "graph/op_signature.h"
#include "graph/work.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OPS_COLUMN = 17 }; /* where the right side begins */

static const char *const OPS_ATTR_TYPES[] = {
    [PCO_ATTR_INT] = "int", [PCO_ATTR_FLOAT] = "float", [PCO_ATTR_VECTOR] = "int[]"};

/* The default of an attribute: types by name, vectors have none. */
static const char *ops_default(const pco_attr_info *attr, char *text, size_t size)
{
    int is_type = strcmp(attr->name, "dtype") == 0 || strcmp(attr->name, "accumulate") == 0;
    if (attr->type == PCO_ATTR_VECTOR)
        snprintf(text, size, "-");
    else if (is_type && attr->initial >= 0)
        snprintf(text, size, "%s", pco_dtype_name((uint32_t)attr->initial));
    else
        snprintf(text, size, "%g", attr->initial);
    return text;
}

static void ops_row(const char *label, const char *text)
{
    printf("  %-*s", OPS_COLUMN - 2, label);
    cli_wrap(text, OPS_COLUMN, OPS_COLUMN);
}

static void ops_rule_row(const char *label, const pco_op_rule *rule)
{
    char text[160];
    snprintf(text, sizeof text, "%s: %s", rule->name, rule->doc);
    ops_row(label, text);
}

static void ops_attributes(const pco_op_info *op)
{
    char initial[32];
    int widest = 0, widest_default = 0;
    const pco_attr_info *attr;
    for (uint32_t i = 0; (attr = pco_op_attr(op, i)) != NULL; i++) {
        int width = (int)strlen(attr->name), width_default = (int)strlen(ops_default(attr, initial, sizeof initial));
        if (width > widest) widest = width;
        if (width_default > widest_default) widest_default = width_default;
    }
    for (uint32_t i = 0; (attr = pco_op_attr(op, i)) != NULL; i++) {
        int column = printf("  %-*s%-*s  %-5s  %-*s  ", OPS_COLUMN - 2, i ? "" : "attributes", widest, attr->name,
                            OPS_ATTR_TYPES[attr->type], widest_default, ops_default(attr, initial, sizeof initial));
        cli_wrap(attr->doc, column, column);
    }
}

/* "F=f32,f16 K=f32" -> "F: f32, f16; K: f32" */
static void ops_types(const pco_op_info *op)
{
    char text[512];
    size_t used = 0;
    if (!*op->types) return;
    for (const char *at = op->types; *at; at++) {
        const char *piece = *at == '=' ? ": " : *at == ',' ? ", " : *at == ' ' ? "; " : NULL;
        if (piece)
            cli_append(text, sizeof text, &used, "%s", piece);
        else
            cli_append(text, sizeof text, &used, "%c", *at);
    }
    ops_row("types", text);
}

static void ops_domains(const pco_op_info *op)
{
    pco_signature_reader reader = {.at = op->signature};
    pco_signature_operand operand;
    int rows = 0;
    while (pco_signature_next_input(&reader, &operand)) {
        const pco_domain domain = pco_op_domain((uint32_t)op->op, operand.index);
        char text[160];
        if (domain == PCO_DOMAIN_ANY) continue;
        snprintf(text, sizeof text, "%s: %s, %s", operand.name, pco_domain_of(domain)->name,
                 pco_domain_of(domain)->doc);
        ops_row(rows++ ? "" : "domain", text);
    }
}

static void ops_print(const pco_op_info *op)
{
    printf("%s (op %d)\n", op->name, (int)op->op);
    printf("  ");
    cli_wrap(op->doc, 2, 2);
    ops_row("signature", op->signature);
    ops_types(op);
    ops_domains(op);
    ops_attributes(op);
    ops_rule_row("split", pco_op_split(op->split));
    ops_rule_row("alone", pco_op_rows(op->rows));
    ops_rule_row("bytes", pco_op_bytes(pco_op_bytes_rule(op->op)));
    if (pco_op_products(op->op)) ops_row("products", "yes: `portico bench op` counts two operations for each");
    ops_row("decomposition", pco_op_decomposition(op->op) ? "yes, into primitives" : "no: a primitive");
    ops_row("gradient", pco_op_gradient(op->op) ? "yes: a graph of other ops" : "none: not differentiable");
    ops_rule_row("error bound", pco_op_bound(op->bound));
}

static void ops_json_text(pco_json_writer *json, const char *key, const char *text)
{
    pco_json_key(json, key);
    pco_json_write_string(json, text);
}

/* {"b": "divisor"}: operands that cannot be anything. */
static void ops_json_domains(pco_json_writer *json, const pco_op_info *op)
{
    pco_signature_reader reader = {.at = op->signature};
    pco_signature_operand operand;
    pco_json_key(json, "domains");
    pco_json_begin_object(json);
    while (pco_signature_next_input(&reader, &operand)) {
        const pco_domain domain = pco_op_domain((uint32_t)op->op, operand.index);
        if (domain != PCO_DOMAIN_ANY) ops_json_text(json, operand.name, pco_domain_of(domain)->name);
    }
    pco_json_end_object(json);
}

static void ops_json(pco_json_writer *json, const pco_op_info *op)
{
    pco_json_begin_object(json);
    pco_json_key(json, "id");
    pco_json_write_int(json, op->op);
    ops_json_text(json, "name", op->name);
    ops_json_text(json, "signature", op->signature);
    ops_json_text(json, "types", op->types);
    ops_json_domains(json, op);
    pco_json_key(json, "attributes");
    pco_json_begin_array(json);
    const pco_attr_info *attr;
    for (uint32_t i = 0; (attr = pco_op_attr(op, i)) != NULL; i++) {
        pco_json_begin_object(json);
        ops_json_text(json, "name", attr->name);
        ops_json_text(json, "type", OPS_ATTR_TYPES[attr->type]);
        pco_json_key(json, "default"); /* JSON has no infinity: its name, as a string */
        if (attr->type == PCO_ATTR_VECTOR)
            pco_json_write_null(json);
        else if (isinf(attr->initial))
            pco_json_write_string(json, attr->initial > 0 ? "inf" : "-inf");
        else
            pco_json_write_number(json, attr->initial);
        ops_json_text(json, "doc", attr->doc);
        pco_json_end_object(json);
    }
    pco_json_end_array(json);
    ops_json_text(json, "split", pco_op_split(op->split)->name);
    ops_json_text(json, "rows", pco_op_rows(op->rows)->name);
    ops_json_text(json, "bytes", pco_op_bytes(pco_op_bytes_rule(op->op))->name);
    pco_json_key(json, "products");
    pco_json_write_bool(json, pco_op_products(op->op) != NULL);
    pco_json_key(json, "decomposition");
    pco_json_write_bool(json, pco_op_decomposition(op->op) != NULL);
    pco_json_key(json, "gradient");
    pco_json_write_bool(json, pco_op_gradient(op->op) != NULL);
    ops_json_text(json, "bound", pco_op_bound(op->bound)->name);
    ops_json_text(json, "doc", op->doc);
    pco_json_end_object(json);
}

static void ops_legend(void)
{
    cli_wrap("Operations of Portico. A signature reads `operand:TYPE[dims] ... -> result:TYPE[dims]`; `?`: "
             "optional; "
             "`..`: leading dimensions, the same everywhere; `*`: broadcast as NumPy does; a letter binds a "
             "size; `@`: "
             "see the text. Shapes are outermost first. A type's letter is listed under types.",
             0, 0);
    putchar('\n');
}

typedef struct ops_arguments {
    const char *name;
    int json;
} ops_arguments;

static const cli_option OPS_OPTIONS[] = {
    {CLI_OPERAND(NULL, ops_arguments, name)},
    {CLI_FLAG("--json", ops_arguments, json)},
};

static int ops_run(int argc, char **argv)
{
    ops_arguments arguments = {0};
    if (cli_parse(&cli_ops, argc, argv, &arguments, NULL)) return CLI_USAGE;
    uint32_t count;
    const pco_op_info *table = pco_op_table(&count);
    const pco_op_info *one = arguments.name ? pco_op_find_name(arguments.name) : NULL;
    if (arguments.name && !one) {
        pco_suggestion suggestion = {0};
        char hint[PCO_SUGGEST_HINT];
        for (uint32_t i = 0; i < count; i++) pco_suggest(&suggestion, arguments.name, table[i].name);
        cli_error("there is no op '%s'%s; `portico ops` lists them", arguments.name,
                  pco_suggest_hint(&suggestion, hint));
        return CLI_USAGE;
    }
    if (one) table = one, count = 1;
    if (arguments.json) {
        pco_writer text = {0};
        pco_json_writer json = {.out = &text, .indent = 2};
        pco_json_begin_array(&json);
        for (uint32_t i = 0; i < count; i++) ops_json(&json, &table[i]);
        pco_json_end_array(&json);
        return cli_print(&text);
    }
    if (!one) ops_legend();
    for (uint32_t i = 0; i < count; i++) {
        if (i) putchar('\n');
        ops_print(&table[i]);
    }
    return CLI_OK;
}

const cli_command cli_ops = {
    .name = "ops",
    .summary = "the reference of operations",
    .help = "usage: portico ops [NAME] [--json]\n\n"
            "Prints every operation (or the one called NAME) from the table that drives Portico: signature,\n"
            "types, what operands have to be or are for, attributes with defaults, along what large tensors\n"
            "are split, what part of a result has the same bits alone, whether it decomposes into primitives,\n"
            "its gradient, and how the conformance suite bounds its error.\n\n"
            "  --json   an array of objects instead of text\n\n"
            "Exit status: 0 done, 2 no op of that name.\n",
    CLI_OPTIONS(OPS_OPTIONS),
    .run = ops_run,
};
