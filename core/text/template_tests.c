/* Tests of templates: `x is ...`. */
#include "text/template_parts.h"

static int test_is_iterable(const tpl_value *value)
{
    return tpl_is_sequence(value) || value->kind == TPL_STRING || value->kind == TPL_DICT ||
           value->kind == TPL_UNDEFINED || value->kind == TPL_LOOP || value->kind == TPL_LAZY;
}

/* Those without an argument; -1: another one. */
static int test_plain(tpl_text name, const tpl_value *v)
{
    if (tpl_is(name, "defined")) return v->kind != TPL_UNDEFINED;
    if (tpl_is(name, "undefined")) return v->kind == TPL_UNDEFINED;
    if (tpl_is(name, "none")) return v->kind == TPL_NONE;
    if (tpl_is(name, "boolean")) return v->kind == TPL_BOOL;
    if (tpl_is(name, "true")) return v->kind == TPL_BOOL && v->integer;
    if (tpl_is(name, "false")) return v->kind == TPL_BOOL && !v->integer;
    if (tpl_is(name, "integer")) return v->kind == TPL_INT;
    if (tpl_is(name, "float")) return v->kind == TPL_FLOAT;
    if (tpl_is(name, "number")) return tpl_is_number(v);
    if (tpl_is(name, "string")) return v->kind == TPL_STRING;
    if (tpl_is(name, "mapping")) return v->kind == TPL_DICT;
    if (tpl_is(name, "iterable")) return test_is_iterable(v);
    if (tpl_is(name, "sequence")) return test_is_iterable(v) && v->kind != TPL_LOOP && v->kind != TPL_LAZY;
    if (tpl_is(name, "callable")) return v->kind == TPL_MACRO || v->kind == TPL_FUNCTION || v->kind == TPL_METHOD;
    return -1;
}

static const struct {
    const char *name, *sign;
} test_signs[] = {{"==", "=="}, {"eq", "=="}, {"equalto", "=="}, {"!=", "!="},         {"ne", "!="},
                  {"<", "<"},   {"lt", "<"},  {"lessthan", "<"}, {"<=", "<="},         {"le", "<="},
                  {">", ">"},   {"gt", ">"},  {">=", ">="},      {"greaterthan", ">"}, {"ge", ">="}};

static pco_status test_sign(tpl_run *run, const char *sign, const tpl_value *a, const tpl_value *b, int *is)
{
    int order;
    pco_status status;
    if (*sign == '=' || *sign == '!') {
        status = tpl_equal(run, a, b, is);
        if (*sign == '!') *is = !*is;
        return status;
    }
    status = tpl_order(run, a, b, &order);
    if (!status) *is = *sign == '<' ? order < 0 : order > 0;
    if (!status && sign[1] && order == 0) *is = 1;
    return status;
}

pco_status tpl_test(tpl_run *run, tpl_text name, const tpl_value *input, const tpl_arguments *arguments, int *is)
{
    const int plain = test_plain(name, input);
    tpl_value other;
    int64_t a, b;
    *is = plain > 0;
    pco_status status = tpl_read_arguments(run, arguments, "a test", plain >= 0 ? "" : "other", &other);
    if (plain >= 0 || status) return status;
    for (size_t i = 0; i < sizeof test_signs / sizeof *test_signs; i++)
        if (tpl_is(name, test_signs[i].name)) return test_sign(run, test_signs[i].sign, input, &other, is);
    if (tpl_is(name, "in")) return tpl_contains(run, &other, input, is);
    if (tpl_is(name, "odd") || tpl_is(name, "even") || tpl_is(name, "divisibleby")) {
        const int by = tpl_is(name, "divisibleby");
        status = tpl_need_int(run, "what is tested", input, &a);
        b = 2;
        if (!status && by) status = tpl_need_int(run, "divisibleby", &other, &b);
        if (!status && b == 0) status = tpl_fail(run, PCO_ERROR_INVALID, "division by zero");
        if (!status) *is = (b == -1 || a % b == 0) != tpl_is(name, "odd");
        return status;
    }
    return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the test '%.*s' is not supported", TPL_SHOW(name));
}
