/* Filters of templates. */
#include "base/number.h"
#include "text/template_parts.h"

#include <math.h>
#include <stdlib.h>

typedef struct filter {
    tpl_run *run;
    const char *name;
    const tpl_value *input;
    const tpl_arguments *arguments;
} filter;

static pco_status filter_arguments(const filter *f, const char *names, tpl_value *given)
{
    return tpl_read_arguments(f->run, f->arguments, f->name, names, given);
}

/* ---- of texts ---- */

/* What jinja2's soft_str makes of the input. */
static pco_status filter_text(const filter *f, tpl_text *text)
{
    tpl_value string;
    pco_status status = tpl_str(f->run, f->input, &string);
    if (!status) *text = string.text;
    return status;
}

static pco_status filter_trim(const filter *f, tpl_value *value)
{
    tpl_value given;
    tpl_text text, characters = {NULL, 0};
    pco_status status = filter_arguments(f, "chars", &given);
    if (!status && tpl_given(&given) && given.kind != TPL_NONE)
        status = tpl_need_text(f->run, f->name, &given, &characters);
    if (!status) status = filter_text(f, &text);
    if (!status) status = tpl_work(f->run, characters.size > 64 ? SIZE_MAX / 2 : text.size * (1 + characters.size / 4));
    if (status) return status;
    *value = tpl_string(tpl_strip(text, characters, 3));
    value->safe = f->input->kind == TPL_STRING && f->input->safe;
    return PCO_OK;
}

static pco_status filter_case(const filter *f, tpl_value *value)
{
    const tpl_letters how = *f->name == 'l'   ? TPL_LOWER
                            : *f->name == 'u' ? TPL_UPPER
                            : *f->name == 't' ? TPL_TITLE_FILTER
                                              : TPL_CAPITALIZE;
    tpl_text text;
    pco_status status = filter_arguments(f, "", NULL);
    if (!status) status = filter_text(f, &text);
    return status ? status : tpl_letter_case(f->run, text, how, value);
}

static pco_status filter_replace(const filter *f, tpl_value *value)
{
    tpl_value given[3], old, with;
    tpl_text text;
    int64_t most = -1;
    pco_status status = filter_arguments(f, "old new count", given);
    if (!status) status = filter_text(f, &text);
    if (!status) status = tpl_str(f->run, &given[0], &old);
    if (!status) status = tpl_str(f->run, &given[1], &with);
    if (!status && tpl_given(&given[2]) && given[2].kind != TPL_NONE)
        status = tpl_need_int(f->run, "replace: the count", &given[2], &most);
    return status ? status : tpl_replace(f->run, text, old.text, with.text, most, value);
}

static pco_status filter_string(const filter *f, tpl_value *value)
{
    pco_status status = filter_arguments(f, "", NULL);
    return status ? status : tpl_str(f->run, f->input, value);
}

static pco_status filter_safe(const filter *f, tpl_value *value)
{
    pco_status status = filter_string(f, value);
    value->safe = 1;
    return status;
}

/* Lines behind the first get blanks in front, unless they are empty. */
static pco_status filter_indent(const filter *f, tpl_value *value)
{
    tpl_value given[3];
    tpl_text text, blanks = {NULL, 0};
    int64_t width = 4;
    pco_writer out = {0};
    pco_status status = filter_arguments(f, "width first blank", given);
    if (!status && given[0].kind == TPL_STRING)
        blanks = given[0].text;
    else if (!status && tpl_given(&given[0]))
        status = tpl_need_int(f->run, "indent: the width", &given[0], &width);
    if (!status) status = tpl_need_text(f->run, "indent: its input", f->input, &text);
    if (!status && (width > 1000 || text.size > f->run->budget)) status = tpl_work(f->run, SIZE_MAX / 2);
    if (status) return status;
    for (size_t at = 0, line = 0; at <= text.size && !status; line++) {
        const size_t found = tpl_find(text, TPL_TEXT("\n"), at), end = found == SIZE_MAX ? text.size : found;
        const int shift = line ? end > at || tpl_true(&given[2]) : tpl_true(&given[1]);
        for (int64_t i = 0; shift && !blanks.data && i < width; i++) pco_write_char(&out, ' ');
        if (shift && blanks.data) pco_write(&out, blanks.data, blanks.size);
        pco_write(&out, text.data + at, end - at + (found != SIZE_MAX));
        status = tpl_work(f->run, end - at + (size_t)(width > 0 ? width : 0));
        at = end + 1;
    }
    if (!status) return tpl_take(f->run, &out, value);
    pco_writer_release(&out);
    return status;
}

static pco_status filter_tojson(const filter *f, tpl_value *value)
{
    tpl_value given[4];
    int64_t indent = -1;
    pco_writer out = {0};
    pco_status status = filter_arguments(f, "ensure_ascii indent separators sort_keys", given);
    if (!status && tpl_given(&given[1]) && given[1].kind != TPL_NONE)
        status = tpl_need_int(f->run, "tojson: indent", &given[1], &indent);
    if (!status && tpl_given(&given[2]) && given[2].kind != TPL_NONE)
        status = tpl_fail(f->run, PCO_ERROR_UNSUPPORTED, "tojson with 'separators' is not supported");
    if (!status && indent < -1) indent = 0;
    if (!status) status = tpl_json(f->run, &out, f->input, indent, tpl_true(&given[3]), tpl_true(&given[0]), 0);
    if (!status) return tpl_take(f->run, &out, value);
    pco_writer_release(&out);
    return status;
}

/* ---- of numbers ---- */

/* Numbers as Python reads them, and strtod does not, or the other way round. */
static int filter_is_odd(tpl_text text, int whole)
{
    for (size_t i = 0; i < text.size; i++)
        if (strchr("_xXpP", text.data[i]) || (unsigned char)text.data[i] >= 0x80 || !text.data[i])
            return text.data[0] >= '+' && text.data[0] <= '9';
    const size_t sign = text.size > 1 && (text.data[0] == '+' || text.data[0] == '-');
    return text.size && !whole && strchr("iInN", text.data[sign]) != NULL;
}

static pco_status filter_number(const filter *f, tpl_value *value)
{
    const int whole = *f->name == 'i';
    tpl_value given;
    pco_status status = filter_arguments(f, "default", &given);
    if (status) return status;
    *value = tpl_given(&given) ? given : whole ? tpl_int(0) : tpl_float(0);
    if (tpl_is_number(f->input)) {
        const double number = tpl_number(f->input);
        if (whole && tpl_is_whole(f->input))
            *value = tpl_int(f->input->integer);
        else if (!whole)
            *value = tpl_float(number);
        else if (fabs(number) < 0x1p62)
            *value = tpl_int((int64_t)number);
        else
            return tpl_fail(f->run, PCO_ERROR_UNSUPPORTED, "an integer beyond 64 bits is not supported");
    } else if (f->input->kind == TPL_STRING) {
        char digits[40], *end;
        const tpl_text text = tpl_strip(f->input->text, (tpl_text){NULL, 0}, 3);
        if (text.size >= sizeof digits || filter_is_odd(text, whole))
            return tpl_fail(f->run, PCO_ERROR_UNSUPPORTED, "%s of this text is not supported", f->name);
        if (text.size) memcpy(digits, text.data, text.size);
        digits[text.size] = 0;
        const double number = pco_number_read(digits, &end);
        if (!text.size || *end || strspn(digits, "+-.0123456789eE") < text.size) return PCO_OK;
        *value = whole ? tpl_int(fabs(number) < 0x1p53 ? (int64_t)number : 0) : tpl_float(number);
        if (whole && fabs(number) >= 0x1p53)
            return tpl_fail(f->run, PCO_ERROR_UNSUPPORTED, "%s of this text is not supported", f->name);
    } else if (f->input->kind == TPL_UNDEFINED) {
        return tpl_fail(f->run, PCO_ERROR_INVALID, "%s: '%.*s' is undefined", f->name, TPL_SHOW(f->input->text));
    }
    return PCO_OK;
}

static pco_status filter_abs(const filter *f, tpl_value *value)
{
    pco_status status = filter_arguments(f, "", NULL);
    if (!status && !tpl_is_number(f->input))
        status = tpl_fail(f->run, PCO_ERROR_INVALID, "abs of %s", tpl_kind_name(f->input));
    if (status) return status;
    const tpl_value zero = tpl_int(0);
    *value = *f->input;
    if (f->input->kind == TPL_FLOAT) value->number = fabs(value->number);
    return tpl_is_whole(f->input) && f->input->integer < 0 ? tpl_binary(f->run, "-", &zero, f->input, value) : PCO_OK;
}

/* ---- of lists and dicts ---- */

static pco_status filter_default(const filter *f, tpl_value *value)
{
    tpl_value given[2];
    pco_status status = filter_arguments(f, "default_value boolean", given);
    const int missing = f->input->kind == TPL_UNDEFINED || (!status && tpl_true(&given[1]) && !tpl_true(f->input));
    *value = !missing ? *f->input : !status && tpl_given(&given[0]) ? given[0] : tpl_string(TPL_TEXT(""));
    return status;
}

static pco_status filter_length(const filter *f, tpl_value *value)
{
    int64_t length = 0;
    pco_status status = filter_arguments(f, "", NULL);
    if (!status) status = tpl_length(f->run, f->input, &length);
    *value = tpl_int(length);
    return status;
}

static pco_status filter_list(const filter *f, tpl_value *value)
{
    pco_status status = filter_arguments(f, "", NULL);
    if (!status) status = tpl_items(f->run, f->input, value);
    if (!status) value->kind = TPL_LIST;
    return status;
}

static pco_status filter_reverse(const filter *f, tpl_value *value)
{
    const tpl_value bounds[3] = {tpl_none(), tpl_none(), tpl_int(-1)};
    tpl_value items = *f->input;
    pco_status status = filter_arguments(f, "", NULL);
    if (!status && items.kind != TPL_STRING) status = tpl_items(f->run, f->input, &items);
    if (!status) status = tpl_slice(f->run, &items, bounds, value);
    if (!status && items.kind != TPL_STRING) *value = tpl_lazy(*value, 0);
    return status;
}

static pco_status filter_ends(const filter *f, tpl_value *value)
{
    tpl_value items;
    pco_status status = filter_arguments(f, "", NULL);
    if (!status) status = tpl_items(f->run, f->input, &items);
    if (status) return status;
    const size_t count = items.list->count;
    *value = count ? items.list->items[*f->name == 'f' ? 0 : count - 1] : tpl_undefined(TPL_TEXT("an item"));
    return PCO_OK;
}

static pco_status filter_items(const filter *f, tpl_value *value)
{
    const tpl_method method = {*f->input, TPL_TEXT("items")};
    pco_status status = filter_arguments(f, "", NULL);
    if (!status && f->input->kind == TPL_UNDEFINED) {
        status = tpl_list_create(f->run, TPL_LIST, 0, value);
        if (!status) *value = tpl_lazy(*value, 0);
        return status;
    }
    if (!status && f->input->kind != TPL_DICT)
        status = tpl_fail(f->run, PCO_ERROR_INVALID, "items of %s", tpl_kind_name(f->input));
    if (!status) status = tpl_call_method(f->run, &method, f->arguments, value);
    value->safe = 0; /* a generator, not a view */
    return status;
}

/* What map, select and their like go through; none and all that is false has no items for them. */
static pco_status filter_any_items(const filter *f, tpl_value *items)
{
    return tpl_true(f->input) ? tpl_items(f->run, f->input, items) : tpl_list_create(f->run, TPL_LIST, 0, items);
}

/* "a.b" of an item; the item itself where `path` is none. */
static pco_status filter_attribute(const filter *f, const tpl_value *item, const tpl_value *path, tpl_value *value)
{
    pco_status status = PCO_OK;
    *value = *item;
    if (!tpl_given(path) || path->kind == TPL_NONE) return PCO_OK;
    if (path->kind == TPL_INT) return tpl_subscript(f->run, item, path, value);
    tpl_text rest;
    status = tpl_need_text(f->run, "an attribute's name", path, &rest);
    while (!status) {
        const size_t dot = tpl_find(rest, TPL_TEXT("."), 0);
        const tpl_value from = *value;
        tpl_value key = tpl_string((tpl_text){rest.data, dot == SIZE_MAX ? rest.size : dot});
        if (key.text.size && strspn(key.text.data, "0123456789") >= key.text.size)
            return tpl_fail(f->run, PCO_ERROR_UNSUPPORTED, "a number as an attribute is not supported");
        status = tpl_subscript(f->run, &from, &key, value);
        if (dot == SIZE_MAX) break;
        rest = (tpl_text){rest.data + dot + 1, rest.size - dot - 1};
    }
    return status;
}

static pco_status filter_join(const filter *f, tpl_value *value)
{
    tpl_value given[2], between, items, parts;
    pco_status status = filter_arguments(f, "d attribute", given);
    if (!status) status = tpl_str(f->run, &given[0], &between);
    if (!status) status = tpl_items(f->run, f->input, &items);
    if (!status) status = tpl_list_create(f->run, TPL_LIST, 0, &parts);
    for (size_t i = 0; !status && i < items.list->count; i++) {
        tpl_value part;
        status = filter_attribute(f, &items.list->items[i], &given[1], &part);
        if (!status) status = tpl_list_add(f->run, &parts, part);
    }
    return status ? status : tpl_join(f->run, between.text, parts.list, 1, value);
}

/* select, reject, selectattr, rejectattr: (attribute,) test, its arguments. */
static pco_status filter_select(const filter *f, tpl_value *value)
{
    const int attribute = strlen(f->name) > 6, reject = *f->name == 'r';
    tpl_value items;
    tpl_arguments rest = *f->arguments;
    tpl_value path = tpl_undefined((tpl_text){NULL, 0});
    tpl_text test = {NULL, 0};
    if (rest.count != rest.plain || (attribute && !rest.count))
        return tpl_fail(f->run, PCO_ERROR_UNSUPPORTED, "%s with these arguments is not supported", f->name);
    pco_status status = filter_any_items(f, &items);
    if (attribute) path = *rest.values++, rest.count--, rest.plain--;
    if (!status && rest.count) status = tpl_need_text(f->run, "a test's name", rest.values, &test);
    if (test.data) rest.values++, rest.count--, rest.plain--;
    if (!status) status = tpl_list_create(f->run, TPL_LIST, 0, value);
    for (size_t i = 0; !status && i < items.list->count; i++) {
        tpl_value one;
        int is = 0;
        status = filter_attribute(f, &items.list->items[i], &path, &one);
        if (!status && test.data)
            status = tpl_test(f->run, test, &one, &rest, &is);
        else
            is = tpl_true(&one);
        if (!status && is != reject) status = tpl_list_add(f->run, value, items.list->items[i]);
    }
    if (!status) *value = tpl_lazy(*value, 0);
    return status;
}

/* map(attribute="a"), map(attribute="a", default=x), map("filter", its arguments) */
static pco_status filter_map(const filter *f, tpl_value *value)
{
    tpl_value items, given[2] = {tpl_undefined((tpl_text){NULL, 0}), tpl_undefined((tpl_text){NULL, 0})};
    tpl_arguments rest = *f->arguments;
    tpl_text name = {NULL, 0};
    pco_status status = filter_any_items(f, &items);
    if (!status && !rest.plain) {
        status = filter_arguments(f, "attribute default", given);
        if (!status && !tpl_given(&given[0])) status = tpl_fail(f->run, PCO_ERROR_INVALID, "map needs a filter");
    } else if (!status) {
        status = tpl_need_text(f->run, "map: a filter's name", rest.values, &name);
        rest.values++, rest.names++, rest.count--, rest.plain--;
    }
    if (!status) status = tpl_list_create(f->run, TPL_LIST, 0, value);
    for (size_t i = 0; !status && i < items.list->count; i++) {
        tpl_value one;
        const tpl_value *item = &items.list->items[i];
        status = name.data ? tpl_filter(f->run, name, item, &rest, &one) : filter_attribute(f, item, &given[0], &one);
        if (!status && one.kind == TPL_UNDEFINED && tpl_given(&given[1])) one = given[1];
        if (!status) status = tpl_list_add(f->run, value, one);
    }
    if (!status) *value = tpl_lazy(*value, 0);
    return status;
}

/* Without regard to upper and lower case, as sort, unique, min and max and dictsort do unless they are told. */
static pco_status filter_folded(const filter *f, const tpl_value *item, int case_sensitive, tpl_value *key)
{
    *key = *item;
    return item->kind == TPL_STRING && !case_sensitive ? tpl_letter_case(f->run, item->text, TPL_LOWER, key) : PCO_OK;
}

/* Merge sort: stable. Sorts items[count] by keys[count], both with room for as many again behind them. */
static pco_status filter_merge(const filter *f, tpl_value *keys, tpl_value *items, size_t count, size_t total)
{
    if (count < 2) return PCO_OK;
    const size_t half = count / 2;
    pco_status status = filter_merge(f, keys, items, half, total);
    if (!status) status = filter_merge(f, keys + half, items + half, count - half, total);
    size_t a = 0, b = half, used = 0;
    while (!status && used < count) {
        int order = a < half ? -1 : 1;
        if (a < half && b < count) status = tpl_order(f->run, &keys[b], &keys[a], &order);
        const int second = a < half && b < count ? order < 0 : b < count && a == half;
        const size_t from = second ? b++ : a++;
        keys[total + used] = keys[from];
        items[total + used++] = items[from];
        status = status ? status : tpl_work(f->run, 0);
    }
    if (status) return status;
    memcpy(keys, keys + total, count * sizeof *keys);
    memcpy(items, items + total, count * sizeof *items);
    return PCO_OK;
}

static pco_status filter_sorted(const filter *f, const tpl_value *keys, const tpl_value *items, size_t count,
                                int reverse, tpl_value *value)
{
    tpl_value *scratch;
    pco_status status = tpl_allocate(f->run, 4 * count * sizeof *scratch, &scratch);
    if (status) return status;
    for (size_t i = 0; i < count; i++) { /* reversed twice, equal ones keep their order */
        scratch[i] = keys[reverse ? count - 1 - i : i];
        scratch[2 * count + i] = items[reverse ? count - 1 - i : i];
    }
    status = filter_merge(f, scratch, scratch + 2 * count, count, count);
    if (!status) status = tpl_list_create(f->run, TPL_LIST, count, value);
    for (size_t i = 0; i < count && !status; i++)
        status = tpl_list_add(f->run, value, scratch[2 * count + (reverse ? count - 1 - i : i)]);
    return status;
}

static pco_status filter_sort(const filter *f, tpl_value *value)
{
    tpl_value given[3], items, *keys;
    pco_status status = filter_arguments(f, "reverse case_sensitive attribute", given);
    if (!status) status = tpl_items(f->run, f->input, &items);
    if (!status) status = tpl_allocate(f->run, items.list->count * sizeof *keys, &keys);
    for (size_t i = 0; !status && i < items.list->count; i++) {
        tpl_value key;
        status = filter_attribute(f, &items.list->items[i], &given[2], &key);
        if (!status) status = filter_folded(f, &key, tpl_true(&given[1]), &keys[i]);
    }
    return status ? status : filter_sorted(f, keys, items.list->items, items.list->count, tpl_true(&given[0]), value);
}

static pco_status filter_dictsort(const filter *f, tpl_value *value)
{
    tpl_value given[3], items, *keys;
    pco_status status = filter_arguments(f, "case_sensitive by reverse", given);
    if (!status && f->input->kind != TPL_DICT)
        status = tpl_fail(f->run, PCO_ERROR_INVALID, "dictsort of %s", tpl_kind_name(f->input));
    if (status) return status;
    const int by_value = given[1].kind == TPL_STRING && tpl_is(given[1].text, "value");
    const tpl_method method = {*f->input, TPL_TEXT("items")};
    status = tpl_call_method(f->run, &method, &(tpl_arguments){0}, &items);
    if (!status) status = tpl_allocate(f->run, items.list->count * sizeof *keys, &keys);
    for (size_t i = 0; !status && i < items.list->count; i++)
        status = filter_folded(f, &items.list->items[i].list->items[by_value], tpl_true(&given[0]), &keys[i]);
    return status ? status : filter_sorted(f, keys, items.list->items, items.list->count, tpl_true(&given[2]), value);
}

static pco_status filter_unique(const filter *f, tpl_value *value)
{
    tpl_value given[2], items, seen;
    pco_status status = filter_arguments(f, "case_sensitive attribute", given);
    if (!status) status = tpl_items(f->run, f->input, &items);
    if (!status) status = tpl_list_create(f->run, TPL_LIST, 0, value);
    if (!status) status = tpl_list_create(f->run, TPL_LIST, 0, &seen);
    for (size_t i = 0; !status && i < items.list->count; i++) {
        tpl_value one, key;
        int is = 0;
        status = filter_attribute(f, &items.list->items[i], &given[1], &one);
        if (!status) status = filter_folded(f, &one, tpl_true(&given[0]), &key);
        if (!status) status = tpl_contains(f->run, &seen, &key, &is);
        if (!status && !is) status = tpl_list_add(f->run, &seen, key);
        if (!status && !is) status = tpl_list_add(f->run, value, items.list->items[i]);
    }
    if (!status) *value = tpl_lazy(*value, 0);
    return status;
}

static pco_status filter_extreme(const filter *f, tpl_value *value)
{
    tpl_value given[2], items, best = tpl_none();
    pco_status status = filter_arguments(f, "case_sensitive attribute", given);
    if (!status) status = tpl_items(f->run, f->input, &items);
    *value = tpl_undefined(TPL_TEXT("an item"));
    for (size_t i = 0; !status && i < items.list->count; i++) {
        tpl_value one, key;
        int order = -1;
        status = filter_attribute(f, &items.list->items[i], &given[1], &one);
        if (!status) status = filter_folded(f, &one, tpl_true(&given[0]), &key);
        if (!status && i) status = tpl_order(f->run, &key, &best, &order);
        if (i && (f->name[1] == 'i' ? order >= 0 : order <= 0)) continue;
        best = key;
        *value = items.list->items[i];
    }
    return status;
}

static pco_status filter_sum(const filter *f, tpl_value *value)
{
    tpl_value given[2], items;
    pco_status status = filter_arguments(f, "attribute start", given);
    if (!status) status = tpl_items(f->run, f->input, &items);
    *value = !status && tpl_given(&given[1]) ? given[1] : tpl_int(0);
    for (size_t i = 0; !status && i < items.list->count; i++) {
        const tpl_value before = *value;
        tpl_value one;
        status = filter_attribute(f, &items.list->items[i], &given[0], &one);
        if (!status) status = tpl_binary(f->run, "+", &before, &one, value);
    }
    return status;
}

static const struct {
    const char *name;
    int safe; /* texts that `safe` made may go in */
    pco_status (*run)(const filter *f, tpl_value *value);
} filters[] = {
    {"trim", 1, filter_trim},       {"lower", 0, filter_case},        {"upper", 0, filter_case},
    {"title", 0, filter_case},      {"capitalize", 0, filter_case},   {"replace", 0, filter_replace},
    {"string", 1, filter_string},   {"safe", 1, filter_safe},         {"indent", 0, filter_indent},
    {"tojson", 1, filter_tojson},   {"int", 0, filter_number},        {"float", 0, filter_number},
    {"abs", 0, filter_abs},         {"default", 1, filter_default},   {"d", 1, filter_default},
    {"length", 1, filter_length},   {"count", 1, filter_length},      {"list", 0, filter_list},
    {"reverse", 0, filter_reverse}, {"first", 0, filter_ends},        {"last", 0, filter_ends},
    {"items", 0, filter_items},     {"join", 0, filter_join},         {"select", 0, filter_select},
    {"reject", 0, filter_select},   {"selectattr", 0, filter_select}, {"rejectattr", 0, filter_select},
    {"map", 0, filter_map},         {"sort", 0, filter_sort},         {"dictsort", 0, filter_dictsort},
    {"unique", 0, filter_unique},   {"min", 0, filter_extreme},       {"max", 0, filter_extreme},
    {"sum", 0, filter_sum},
};

pco_status tpl_filter(tpl_run *run, tpl_text name, const tpl_value *input, const tpl_arguments *arguments,
                      tpl_value *value)
{
    pco_status status = tpl_work(run, 0);
    for (size_t i = 0; i < sizeof filters / sizeof *filters && !status; i++) {
        if (!tpl_is(name, filters[i].name)) continue;
        if (input->kind == TPL_STRING && input->safe && !filters[i].safe)
            return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the filter '%s' behind 'safe' is not supported",
                            filters[i].name);
        const filter f = {run, filters[i].name, input, arguments};
        return filters[i].run(&f, value);
    }
    return status ? status : tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the filter '%.*s' is not supported", TPL_SHOW(name));
}
