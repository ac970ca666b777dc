/* Values of a template as texts: Python's str and repr, and json.dumps. */
#include "base/number.h"
#include "text/template_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

/* The shortest digits that read back equal, as Python writes them: 1e+16 and more, and below 1e-4, with an exponent. */
static void print_float(pco_writer *out, double number)
{
    char digits[40], *e;
    int precision = 1;
    if (isnan(number) || isinf(number)) {
        pco_write_text(out, isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
        return;
    }
    do snprintf(digits, sizeof digits, "%.*e", precision - 1, number);
    while (strtod(digits, NULL) != number && precision++ < 17);
    pco_number_plain(digits);
    const int exponent = (int)strtol(strchr(digits, 'e') + 1, NULL, 10);
    if (exponent >= 16 || exponent < -4) {
        e = strchr(digits, 'e');
        pco_write(out, digits, (size_t)(e - digits));
        pco_print(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    const int behind = precision - 1 - exponent;
    snprintf(digits, sizeof digits, "%.*f", behind > 0 ? behind : 0, number);
    pco_write_text(out, pco_number_plain(digits));
    if (behind <= 0) pco_write_text(out, ".0");
}

static int print_is_printable(uint32_t code)
{
    if (code < 0x80) return code >= 0x20 && code != 0x7F;
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return 0;
    default: return 1;
    }
}

/* A string as repr() writes it. */
static void print_repr(pco_writer *out, tpl_text text)
{
    const int single = memchr(text.data, '\'', text.size) != NULL, both = memchr(text.data, '"', text.size) != NULL;
    const char quote = text.size && single && !both ? '"' : '\'';
    pco_write_char(out, quote);
    for (size_t at = 0, step; at < text.size; at += step) {
        uint32_t code;
        step = tpl_character(text, at, &code);
        if (code == '\\' || code == (uint32_t)quote)
            pco_print(out, "\\%c", (int)code);
        else if (code == '\n' || code == '\r' || code == '\t')
            pco_print(out, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
        else if (print_is_printable(code))
            pco_write(out, text.data + at, step);
        else
            pco_print(out, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
    }
    pco_write_char(out, quote);
}

static pco_status print_value(tpl_run *run, pco_writer *out, const tpl_value *value, int repr, unsigned depth);

static pco_status print_items(tpl_run *run, pco_writer *out, const tpl_value *value, unsigned depth)
{
    const int dict = value->kind == TPL_DICT;
    const size_t count = dict ? value->dict->count : value->list->count;
    pco_status status = PCO_OK;
    pco_write_char(out, dict ? '{' : value->kind == TPL_LIST ? '[' : '(');
    for (size_t i = 0; i < count && !status; i++) {
        if (i) pco_write_text(out, ", ");
        if (dict) status = print_value(run, out, &value->dict->pairs[i].key, 1, depth);
        if (dict) pco_write_text(out, ": ");
        if (!status)
            status = print_value(run, out, dict ? &value->dict->pairs[i].value : &value->list->items[i], 1, depth);
    }
    if (value->kind == TPL_TUPLE && count == 1) pco_write_char(out, ',');
    pco_write_char(out, dict ? '}' : value->kind == TPL_LIST ? ']' : ')');
    return status;
}

static pco_status print_value(tpl_run *run, pco_writer *out, const tpl_value *value, int repr, unsigned depth)
{
    pco_status status = tpl_work(run, value->kind == TPL_STRING ? value->text.size : 0);
    if (status) return status;
    if (depth > TPL_NESTING || out->size > run->budget)
        return tpl_fail(run, PCO_ERROR_INVALID, "a value is too large to be written");
    switch (value->kind) {
    case TPL_UNDEFINED:
        if (repr) pco_write_text(out, "Undefined");
        break;
    case TPL_NONE: pco_write_text(out, "None"); break;
    case TPL_BOOL: pco_write_text(out, value->integer ? "True" : "False"); break;
    case TPL_INT: pco_print(out, "%" PRId64, value->integer); break;
    case TPL_FLOAT: print_float(out, value->number); break;
    case TPL_STRING:
        if (repr && value->safe)
            return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "a text that 'safe' made is not supported here");
        if (repr)
            print_repr(out, value->text);
        else
            pco_write(out, value->text.data, value->text.size);
        break;
    case TPL_LIST:
    case TPL_TUPLE:
    case TPL_DICT: return print_items(run, out, value, depth + 1);
    default: return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "%s cannot be written as text", tpl_kind_name(value));
    }
    return PCO_OK;
}

pco_status tpl_write(tpl_run *run, pco_writer *out, const tpl_value *value)
{
    return print_value(run, out, value, 0, 0);
}

pco_status tpl_str(tpl_run *run, const tpl_value *value, tpl_value *string)
{
    pco_writer out = {0};
    if (value->kind == TPL_STRING) {
        *string = *value;
        return PCO_OK;
    }
    pco_status status = tpl_write(run, &out, value);
    if (!status) return tpl_take(run, &out, string);
    pco_writer_release(&out);
    return status;
}

/* ---- JSON ---- */

static void json_string(pco_writer *out, tpl_text text, int ascii)
{
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    pco_write_char(out, '"');
    for (size_t at = 0, step; at < text.size; at += step) {
        uint32_t code;
        step = tpl_character(text, at, &code);
        const char *simple = code && code < 0x80 ? strchr(from, (int)code) : NULL;
        if (simple)
            pco_print(out, "\\%c", to[simple - from]);
        else if (code >= 0x10000 && ascii)
            pco_print(out, "\\u%04x\\u%04x", 0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF));
        else if (code < 0x20 || (ascii && code > 0x7E))
            pco_print(out, "\\u%04x", code);
        else
            pco_write(out, text.data + at, step);
    }
    pco_write_char(out, '"');
}

static void json_line(pco_writer *out, int64_t indent, unsigned depth)
{
    if (indent < 0) return;
    pco_write_char(out, '\n');
    for (int64_t i = 0; i < indent * (int64_t)depth; i++) pco_write_char(out, ' ');
}

static int json_compare_keys(const void *a, const void *b)
{
    const tpl_text x = ((const tpl_pair *)a)->key.text, y = ((const tpl_pair *)b)->key.text;
    const int first = memcmp(x.data, y.data, x.size < y.size ? x.size : y.size);
    return first ? first : (x.size > y.size) - (x.size < y.size);
}

/* Keys in order, in a copy; they are strings. */
static pco_status json_sort(tpl_run *run, const tpl_dict *dict, tpl_dict *sorted)
{
    pco_status status = tpl_allocate(run, dict->count * sizeof *sorted->pairs, &sorted->pairs);
    for (size_t i = 0; i < dict->count && !status; i++)
        if (dict->pairs[i].key.kind != TPL_STRING)
            status = tpl_fail(run, PCO_ERROR_UNSUPPORTED, "sorting %s as a key is not supported",
                              tpl_kind_name(&dict->pairs[i].key));
    if (status) return status;
    sorted->count = dict->count;
    if (dict->count) memcpy(sorted->pairs, dict->pairs, dict->count * sizeof *sorted->pairs);
    qsort(sorted->pairs, sorted->count, sizeof *sorted->pairs, json_compare_keys);
    return PCO_OK;
}

static pco_status json_key(tpl_run *run, pco_writer *out, const tpl_value *key, int ascii)
{
    tpl_value text;
    pco_writer made = {0};
    pco_status status = tpl_json(run, &made, key, -1, 0, ascii, 0);
    if (!status) status = tpl_take(run, &made, &text);
    pco_writer_release(&made);
    if (!status && key->kind == TPL_STRING) pco_write(out, text.text.data, text.text.size);
    if (!status && key->kind != TPL_STRING) json_string(out, text.text, ascii);
    return status;
}

static pco_status json_items(tpl_run *run, pco_writer *out, const tpl_value *value, int64_t indent, int sorted,
                             int ascii, unsigned depth)
{
    const int is_dict = value->kind == TPL_DICT;
    tpl_dict dict = {0};
    pco_status status = PCO_OK;
    if (is_dict && sorted)
        status = json_sort(run, value->dict, &dict);
    else if (is_dict)
        dict = *value->dict;
    const size_t count = is_dict ? dict.count : value->list->count;
    pco_write_char(out, is_dict ? '{' : '[');
    for (size_t i = 0; i < count && !status; i++) {
        if (i) pco_write_text(out, indent < 0 ? ", " : ",");
        json_line(out, indent, depth);
        if (is_dict) status = json_key(run, out, &dict.pairs[i].key, ascii);
        if (is_dict) pco_write_text(out, ": ");
        if (!status)
            status = tpl_json(run, out, is_dict ? &dict.pairs[i].value : &value->list->items[i], indent, sorted, ascii,
                              depth);
    }
    if (count) json_line(out, indent, depth - 1);
    pco_write_char(out, is_dict ? '}' : ']');
    return status;
}

pco_status tpl_json(tpl_run *run, pco_writer *out, const tpl_value *value, int64_t indent, int sorted, int ascii,
                    unsigned depth)
{
    pco_status status = tpl_work(run, value->kind == TPL_STRING ? value->text.size : 0);
    if (status) return status;
    if (depth > TPL_NESTING || out->size > run->budget || indent > 64)
        return tpl_fail(run, PCO_ERROR_INVALID, "a value is too large to be written");
    switch (value->kind) {
    case TPL_NONE: pco_write_text(out, "null"); break;
    case TPL_BOOL: pco_write_text(out, value->integer ? "true" : "false"); break;
    case TPL_INT: pco_print(out, "%" PRId64, value->integer); break;
    case TPL_FLOAT:
        if (isnan(value->number) || isinf(value->number))
            pco_write_text(out, isnan(value->number) ? "NaN" : value->number > 0 ? "Infinity" : "-Infinity");
        else
            print_float(out, value->number);
        break;
    case TPL_STRING: json_string(out, value->text, ascii); break;
    case TPL_LIST:
    case TPL_TUPLE:
    case TPL_DICT: return json_items(run, out, value, indent, sorted, ascii, depth + 1);
    default: return tpl_fail(run, PCO_ERROR_INVALID, "tojson: %s has no JSON", tpl_kind_name(value));
    }
    return PCO_OK;
}
