/* Expressions of a template, evaluated. */
#include "text/template_parts.h"

static pco_status evaluate_name(tpl_run *run, tpl_text name, tpl_value *value)
{
    int in_macro = 0;
    for (const tpl_scope *scope = run->scope; scope; scope = scope->up) {
        size_t seen = 0;
        const tpl_variable *v = scope->first;
        for (; v && !tpl_same(v->name, name); v = v->next) seen++;
        pco_status status = tpl_work(run, 32 * seen);
        if (v) *value = v->value;
        if (v || status) return status;
        in_macro |= scope->of_macro;
    }
    if (in_macro && (tpl_is(name, "varargs") || tpl_is(name, "kwargs") || tpl_is(name, "caller")))
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "'%.*s' is not supported", TPL_SHOW(name));
    *value = tpl_is_function(name) ? (tpl_value){.kind = TPL_FUNCTION, .text = name} : tpl_undefined(name);
    return PCO_OK;
}

static pco_status evaluate_items(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    pco_status status = tpl_list_create(run, node->value.kind, 0, value);
    for (const tpl_node *item = node->items; item && !status; item = item->next) {
        tpl_value one;
        status = tpl_evaluate(run, item, &one);
        if (!status) status = tpl_list_add(run, value, one);
    }
    return status;
}

static pco_status evaluate_pairs(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    pco_status status = tpl_dict_create(run, TPL_DICT, value);
    for (const tpl_node *item = node->items; item && !status; item = item->next->next) {
        tpl_value key, one;
        status = tpl_evaluate(run, item, &key);
        if (!status) status = tpl_evaluate(run, item->next, &one);
        if (!status) status = tpl_dict_set(run, value, key, one);
    }
    return status;
}

static pco_status evaluate_arguments(tpl_run *run, const tpl_node *items, tpl_arguments *arguments)
{
    size_t count = 0;
    *arguments = (tpl_arguments){0};
    for (const tpl_node *item = items; item; item = item->next) count++;
    if (!count) return PCO_OK;
    pco_status status = tpl_allocate(run, count * sizeof *arguments->values, &arguments->values);
    if (!status) status = tpl_allocate(run, count * sizeof *arguments->names, &arguments->names);
    for (const tpl_node *item = items; item && !status; item = item->next) {
        const int named = item->kind == TPL_SET;
        if (named)
            arguments->names[arguments->count] = item->name;
        else
            arguments->plain++;
        status = tpl_evaluate(run, named ? item->a : item, &arguments->values[arguments->count++]);
    }
    return status;
}

static pco_status evaluate_call(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    tpl_value called;
    tpl_arguments arguments;
    pco_status status = tpl_evaluate(run, node->a, &called);
    if (!status) status = evaluate_arguments(run, node->items, &arguments);
    if (status) return status;
    run->line = node->line;
    switch (called.kind) {
    case TPL_MACRO: return run->call_macro(run, called.macro, &arguments, value);
    case TPL_FUNCTION: return tpl_call_function(run, called.text, &arguments, value);
    case TPL_METHOD: return tpl_call_method(run, called.method, &arguments, value);
    case TPL_UNDEFINED:
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the function or method '%.*s' is not known",
                        TPL_SHOW(called.text));
    default: return tpl_fail(run, PCO_ERROR_INVALID, "%s cannot be called", tpl_kind_name(&called));
    }
}

static pco_status evaluate_filter(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    tpl_value input;
    tpl_arguments arguments;
    pco_status status = tpl_evaluate(run, node->a, &input);
    if (!status) status = evaluate_arguments(run, node->items, &arguments);
    run->line = node->line;
    return status ? status : tpl_filter(run, node->name, &input, &arguments, value);
}

static pco_status evaluate_test(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    tpl_value input;
    tpl_arguments arguments;
    int is = 0;
    pco_status status = tpl_evaluate(run, node->a, &input);
    if (!status) status = evaluate_arguments(run, node->items, &arguments);
    run->line = node->line;
    if (!status) status = tpl_test(run, node->name, &input, &arguments, &is);
    *value = tpl_bool(is);
    return status;
}

static pco_status evaluate_unary(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    tpl_value a;
    pco_status status = tpl_evaluate(run, node->a, &a);
    if (status) return status;
    if (*node->sign == 'n') {
        *value = tpl_bool(!tpl_true(&a));
        return PCO_OK;
    }
    if (!tpl_is_number(&a))
        return tpl_fail(run, PCO_ERROR_INVALID, "'%s' does not work for %s", node->sign, tpl_kind_name(&a));
    const tpl_value zero = tpl_int(0);
    if (*node->sign == '-' && a.kind == TPL_FLOAT) {
        *value = tpl_float(-a.number);
        return PCO_OK;
    }
    return tpl_binary(run, node->sign, &zero, &a, value);
}

static pco_status evaluate_concat(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    pco_writer out = {0};
    pco_status status = PCO_OK;
    for (const tpl_node *item = node->items; item && !status; item = item->next) {
        tpl_value one;
        status = tpl_evaluate(run, item, &one);
        if (!status) status = tpl_write(run, &out, &one);
    }
    if (!status) return tpl_take(run, &out, value);
    pco_writer_release(&out);
    return status;
}

static pco_status evaluate_one_compare(tpl_run *run, const char *sign, const tpl_value *a, const tpl_value *b, int *is)
{
    const int negated = *sign == '!' || *sign == 'n';
    int order = 0;
    pco_status status;
    if (strcmp(sign, "==") == 0 || *sign == '!') {
        status = tpl_equal(run, a, b, is);
    } else if (*sign == 'i' || *sign == 'n') {
        status = tpl_contains(run, b, a, is);
    } else {
        status = tpl_order(run, a, b, &order);
        *is = *sign == '<' ? order < 0 : order > 0;
        if (sign[1] == '=' && order == 0) *is = 1;
        if (a->kind == TPL_FLOAT && a->number != a->number) *is = 0;
        if (b->kind == TPL_FLOAT && b->number != b->number) *is = 0;
    }
    if (negated) *is = !*is;
    return status;
}

static pco_status evaluate_compare(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    tpl_value left, right;
    int is = 1;
    pco_status status = tpl_evaluate(run, node->a, &left);
    for (const tpl_node *item = node->items; item && is && !status; item = item->next, left = right) {
        status = tpl_evaluate(run, item->a, &right);
        if (!status) status = evaluate_one_compare(run, item->sign, &left, &right, &is);
    }
    *value = tpl_bool(is);
    return status;
}

static pco_status evaluate_slice(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    tpl_value a, bounds[3];
    int count = 0;
    pco_status status = tpl_evaluate(run, node->a, &a);
    for (const tpl_node *item = node->items; item && !status; item = item->next)
        status = tpl_evaluate(run, item, &bounds[count++]);
    return status ? status : tpl_slice(run, &a, bounds, value);
}

static pco_status evaluate_two(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    tpl_value a, b;
    pco_status status = tpl_evaluate(run, node->a, &a);
    if (node->kind == TPL_AND || node->kind == TPL_OR) {
        if (status || tpl_true(&a) == (node->kind == TPL_OR)) {
            *value = a;
            return status;
        }
        return tpl_evaluate(run, node->b, value);
    }
    if (!status && node->kind == TPL_ATTRIBUTE) return tpl_attribute(run, &a, node->name, value);
    if (!status) status = tpl_evaluate(run, node->b, &b);
    if (status) return status;
    return node->kind == TPL_ITEM ? tpl_subscript(run, &a, &b, value) : tpl_binary(run, node->sign, &a, &b, value);
}

static pco_status evaluate_choice(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    tpl_value which;
    pco_status status = tpl_evaluate(run, node->b, &which);
    if (status) return status;
    if (tpl_true(&which)) return tpl_evaluate(run, node->a, value);
    *value = tpl_undefined(TPL_TEXT("an 'if' without 'else'"));
    return node->c ? tpl_evaluate(run, node->c, value) : PCO_OK;
}

static pco_status evaluate_kind(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    switch (node->kind) {
    case TPL_CONSTANT: *value = node->value; return PCO_OK;
    case TPL_NAME: return evaluate_name(run, node->name, value);
    case TPL_ITEMS: return evaluate_items(run, node, value);
    case TPL_PAIRS: return evaluate_pairs(run, node, value);
    case TPL_SLICE: return evaluate_slice(run, node, value);
    case TPL_CALL: return evaluate_call(run, node, value);
    case TPL_FILTER: return evaluate_filter(run, node, value);
    case TPL_TEST: return evaluate_test(run, node, value);
    case TPL_UNARY: return evaluate_unary(run, node, value);
    case TPL_CONCAT: return evaluate_concat(run, node, value);
    case TPL_COMPARE: return evaluate_compare(run, node, value);
    case TPL_CHOICE: return evaluate_choice(run, node, value);
    default: return evaluate_two(run, node, value);
    }
}

pco_status tpl_evaluate(tpl_run *run, const tpl_node *node, tpl_value *value)
{
    *value = tpl_none();
    pco_status status = tpl_work(run, 0);
    if (status) return status;
    run->line = node->line;
    if (run->depth >= TPL_DEPTH)
        return tpl_fail(run, PCO_ERROR_INVALID, "the template calls itself more than %d deep", TPL_DEPTH);
    run->depth++;
    status = evaluate_kind(run, node, value);
    run->depth--;
    return status;
}
