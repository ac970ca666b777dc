/* Values of a template: memory, comparisons, texts and JSON of them, as Python has them. */
#include "text/template_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

pco_status tpl_fail(tpl_run *run, pco_status status, const char *format, ...)
{
    char what[600];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return pco_fail(run->err, status, "%s: chat template, line %u: %s", run->made->label, run->line, what);
}

/* ---- work and memory ---- */

pco_status tpl_work(tpl_run *run, size_t bytes)
{
    run->steps += 1 + bytes / 32;
    if (run->steps <= run->most_steps) return PCO_OK;
    return tpl_fail(run, PCO_ERROR_INVALID, "the template takes more than %" PRIu64 " steps", run->most_steps);
}

static pco_status tpl_charge(tpl_run *run, size_t bytes)
{
    if (bytes <= run->budget - run->used) {
        run->used += bytes;
        return PCO_OK;
    }
    return tpl_fail(run, PCO_ERROR_INVALID, "the template takes more than %zu bytes of memory", run->budget);
}

pco_status tpl_allocate(tpl_run *run, size_t bytes, void *memory)
{
    pco_status status = tpl_charge(run, bytes);
    if (status) return status;
    void *made = pco_arena_allocate(&run->arena, bytes ? bytes : 1);
    memcpy(memory, &made, sizeof made);
    return made ? PCO_OK : pco_fail(run->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a chat template");
}

pco_status tpl_keep(tpl_run *run, tpl_text text, tpl_value *string)
{
    char *copy;
    pco_status status = tpl_work(run, text.size);
    if (!status) status = tpl_allocate(run, text.size, &copy);
    if (status) return status;
    if (text.size) memcpy(copy, text.data, text.size);
    *string = tpl_string((tpl_text){copy, text.size});
    return PCO_OK;
}

pco_status tpl_take(tpl_run *run, pco_writer *out, tpl_value *string)
{
    pco_status status = pco_writer_check(out, "a chat template", run->err);
    if (!status) status = tpl_keep(run, (tpl_text){out->data ? out->data : "", out->size}, string);
    pco_writer_release(out);
    *out = (pco_writer){0};
    return status;
}

pco_status tpl_list_create(tpl_run *run, tpl_kind kind, size_t capacity, tpl_value *list)
{
    tpl_list *made;
    pco_status status = tpl_allocate(run, sizeof *made, &made);
    if (!status && capacity) status = tpl_allocate(run, capacity * sizeof *made->items, &made->items);
    if (status) return status;
    made->capacity = capacity;
    *list = (tpl_value){.kind = kind, .list = made};
    return PCO_OK;
}

/* Room for one more behind *items[count], which moves (items: the address of that pointer). */
static pco_status tpl_grow(tpl_run *run, size_t count, size_t item_size, size_t *capacity, void *items)
{
    const size_t wanted = *capacity ? 2 * *capacity : 4;
    void *old, *grown;
    if (count < *capacity) return PCO_OK;
    pco_status status = tpl_allocate(run, wanted * item_size, &grown);
    if (status) return status;
    memcpy(&old, items, sizeof old);
    if (count) memcpy(grown, old, count * item_size);
    memcpy(items, &grown, sizeof grown);
    *capacity = wanted;
    return PCO_OK;
}

pco_status tpl_list_add(tpl_run *run, tpl_value *list, tpl_value item)
{
    tpl_list *to = list->list;
    pco_status status = tpl_work(run, 0);
    if (!status) status = tpl_grow(run, to->count, sizeof *to->items, &to->capacity, &to->items);
    if (!status) to->items[to->count++] = item;
    return status;
}

pco_status tpl_dict_create(tpl_run *run, tpl_kind kind, tpl_value *dict)
{
    tpl_dict *made;
    pco_status status = tpl_allocate(run, sizeof *made, &made);
    *dict = (tpl_value){.kind = kind, .dict = status ? NULL : made};
    return status;
}

static int tpl_is_key(const tpl_value *a, const tpl_value *b)
{
    if (tpl_is_number(a) && tpl_is_number(b)) return tpl_number(a) == tpl_number(b);
    if (a->kind != b->kind) return 0;
    return a->kind == TPL_NONE || (a->kind == TPL_STRING && tpl_same(a->text, b->text));
}

const tpl_value *tpl_dict_find(const tpl_dict *dict, const tpl_value *key)
{
    for (size_t i = 0; i < dict->count; i++)
        if (tpl_is_key(&dict->pairs[i].key, key)) return &dict->pairs[i].value;
    return NULL;
}

pco_status tpl_dict_set(tpl_run *run, tpl_value *dict, tpl_value key, tpl_value value)
{
    tpl_dict *to = dict->dict;
    if (key.kind != TPL_STRING && key.kind != TPL_NONE && !tpl_is_number(&key))
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "%s as a key is not supported", tpl_kind_name(&key));
    tpl_value *found = (tpl_value *)tpl_dict_find(to, &key);
    pco_status status = tpl_work(run, 32 * to->count);
    if (found) {
        *found = value;
        return status;
    }
    if (!status) status = tpl_grow(run, to->count, sizeof *to->pairs, &to->capacity, &to->pairs);
    if (!status) to->pairs[to->count++] = (tpl_pair){key, value};
    return status;
}

/* Texts stay in the document. A key that is there twice cannot be: the parser of JSON refuses it. */
pco_status tpl_from_json(tpl_run *run, const cJSON *json, unsigned depth, tpl_value *value)
{
    pco_status status = tpl_work(run, 0);
    if (status) return status;
    if (depth > TPL_NESTING)
        return tpl_fail(run, PCO_ERROR_INVALID, "values are nested more than %d deep", TPL_NESTING);
    if (cJSON_IsString(json)) {
        *value = tpl_string((tpl_text){json->valuestring, strlen(json->valuestring)});
    } else if (cJSON_IsNumber(json)) {
        int64_t whole;
        *value = pco_json_whole(json, &whole) ? tpl_int(whole) : tpl_float(json->valuedouble);
    } else if (cJSON_IsBool(json)) {
        *value = tpl_bool(cJSON_IsTrue(json));
    } else if (cJSON_IsArray(json) || cJSON_IsObject(json)) {
        const int list = cJSON_IsArray(json);
        status = list ? tpl_list_create(run, TPL_LIST, 0, value) : tpl_dict_create(run, TPL_DICT, value);
        const cJSON *item;
        cJSON_ArrayForEach(item, json)
        {
            tpl_value one;
            if (!status) status = tpl_from_json(run, item, depth + 1, &one);
            if (!status && list) status = tpl_list_add(run, value, one);
            if (!status && !list)
                status = tpl_dict_set(run, value, tpl_string((tpl_text){item->string, strlen(item->string)}), one);
        }
    } else {
        *value = tpl_none();
    }
    return status;
}

/* ---- what they are ---- */

const char *tpl_kind_name(const tpl_value *value)
{
    static const char *const names[] = {"undefined",   "none",   "a boolean", "an integer",  "a float",
                                        "a string",    "a list", "a tuple",   "a generator", "a dict",
                                        "a namespace", "a loop", "a macro",   "a function",  "a method"};
    return names[value->kind];
}

int tpl_true(const tpl_value *value)
{
    switch (value->kind) {
    case TPL_UNDEFINED:
    case TPL_NONE: return 0;
    case TPL_BOOL:
    case TPL_INT: return value->integer != 0;
    case TPL_FLOAT: return value->number != 0;
    case TPL_STRING: return value->text.size != 0;
    case TPL_LIST:
    case TPL_TUPLE: return value->list->count != 0;
    case TPL_LAZY: return !value->safe || value->list->count != 0;
    case TPL_DICT: return value->dict->count != 0;
    default: return 1;
    }
}

static pco_status tpl_equal_dicts(tpl_run *run, const tpl_dict *a, const tpl_dict *b, int *equal)
{
    pco_status status = PCO_OK;
    *equal = a->count == b->count;
    for (size_t i = 0; i < a->count && *equal && !status; i++) {
        const tpl_value *other = tpl_dict_find(b, &a->pairs[i].key);
        status = tpl_work(run, 32 * b->count);
        *equal = other != NULL;
        if (other && !status) status = tpl_equal(run, &a->pairs[i].value, other, equal);
    }
    return status;
}

pco_status tpl_equal(tpl_run *run, const tpl_value *a, const tpl_value *b, int *equal)
{
    pco_status status = tpl_work(run, a->kind == TPL_STRING ? a->text.size : 0);
    *equal = 0;
    if (status) return status;
    if (tpl_is_number(a) && tpl_is_number(b)) {
        *equal = tpl_is_whole(a) && tpl_is_whole(b) ? a->integer == b->integer : tpl_number(a) == tpl_number(b);
        return PCO_OK;
    }
    if (a->kind != b->kind) return PCO_OK;
    switch (a->kind) {
    case TPL_UNDEFINED:
    case TPL_NONE: *equal = 1; break;
    case TPL_STRING: *equal = tpl_same(a->text, b->text); break;
    case TPL_LIST:
    case TPL_TUPLE:
        *equal = a->list->count == b->list->count;
        for (size_t i = 0; i < a->list->count && *equal && !status; i++)
            status = tpl_equal(run, &a->list->items[i], &b->list->items[i], equal);
        break;
    case TPL_DICT: return tpl_equal_dicts(run, a->dict, b->dict, equal);
    case TPL_NAMESPACE: *equal = a->dict == b->dict; break;
    case TPL_LOOP: *equal = a->loop == b->loop; break;
    case TPL_MACRO: *equal = a->macro == b->macro; break;
    default: return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "comparing %s is not supported", tpl_kind_name(a));
    }
    return status;
}

pco_status tpl_order(tpl_run *run, const tpl_value *a, const tpl_value *b, int *order)
{
    pco_status status = PCO_OK;
    if (tpl_is_whole(a) && tpl_is_whole(b)) {
        *order = (a->integer > b->integer) - (a->integer < b->integer);
        return PCO_OK;
    }
    if (tpl_is_number(a) && tpl_is_number(b)) {
        const double x = tpl_number(a), y = tpl_number(b);
        *order = (x > y) - (x < y);
        return PCO_OK;
    }
    if (a->kind == TPL_STRING && b->kind == TPL_STRING) { /* UTF-8 has the order of the characters */
        const size_t both = a->text.size < b->text.size ? a->text.size : b->text.size;
        const int first = both ? memcmp(a->text.data, b->text.data, both) : 0;
        *order = first ? first : (a->text.size > b->text.size) - (a->text.size < b->text.size);
        return tpl_work(run, both);
    }
    if (a->kind != b->kind || !tpl_is_sequence(a))
        return tpl_fail(run, PCO_ERROR_INVALID, "%s and %s have no order", tpl_kind_name(a), tpl_kind_name(b));
    for (size_t i = 0; i < a->list->count && i < b->list->count; i++) {
        int equal;
        status = tpl_equal(run, &a->list->items[i], &b->list->items[i], &equal);
        if (status || !equal) return status ? status : tpl_order(run, &a->list->items[i], &b->list->items[i], order);
    }
    *order = (a->list->count > b->list->count) - (a->list->count < b->list->count);
    return PCO_OK;
}

pco_status tpl_contains(tpl_run *run, const tpl_value *all, const tpl_value *one, int *is)
{
    pco_status status = PCO_OK;
    *is = 0;
    if (all->kind == TPL_UNDEFINED) return PCO_OK;
    if (all->kind == TPL_STRING) {
        tpl_text part;
        status = tpl_need_text(run, "what is looked for in a string", one, &part);
        if (!status) status = tpl_work(run, all->text.size);
        if (!status) *is = tpl_find(all->text, part, 0) != SIZE_MAX;
        return status;
    }
    if (all->kind == TPL_DICT) {
        *is = tpl_dict_find(all->dict, one) != NULL;
        return tpl_work(run, 32 * all->dict->count);
    }
    tpl_value items = *all;
    if (all->kind == TPL_LAZY) status = tpl_items(run, all, &items);
    if (!status && !tpl_is_sequence(&items))
        return tpl_fail(run, PCO_ERROR_INVALID, "'in' needs a string, list or dict, not %s", tpl_kind_name(all));
    for (size_t i = 0; i < items.list->count && !*is && !status; i++)
        status = tpl_equal(run, &items.list->items[i], one, is);
    return status;
}

pco_status tpl_items(tpl_run *run, const tpl_value *value, tpl_value *list)
{
    pco_status status;
    if (tpl_is_sequence(value)) {
        *list = *value;
        return PCO_OK;
    }
    if (value->kind == TPL_LAZY) {
        if (!value->list->items && value->list->count)
            return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "going through %s twice is not supported",
                            tpl_kind_name(value));
        status = tpl_allocate(run, sizeof *list->list, &list->list);
        if (status) return status;
        list->kind = TPL_LIST;
        *list->list = *value->list;
        if (!value->safe) value->list->items = NULL;
        return PCO_OK;
    }
    if (value->kind != TPL_STRING && value->kind != TPL_DICT && value->kind != TPL_UNDEFINED)
        return tpl_fail(run, PCO_ERROR_INVALID, "%s has no items to go through", tpl_kind_name(value));
    status = tpl_list_create(run, TPL_LIST, 0, list);
    for (size_t i = 0; value->kind == TPL_DICT && i < value->dict->count && !status; i++)
        status = tpl_list_add(run, list, value->dict->pairs[i].key);
    for (size_t at = 0, step; value->kind == TPL_STRING && at < value->text.size && !status; at += step) {
        uint32_t code;
        step = tpl_character(value->text, at, &code);
        status = tpl_list_add(run, list, tpl_string((tpl_text){value->text.data + at, step}));
    }
    return status;
}

pco_status tpl_length(tpl_run *run, const tpl_value *value, int64_t *length)
{
    *length = 0;
    if (value->kind == TPL_STRING) {
        *length = (int64_t)tpl_count_characters(value->text);
        return tpl_work(run, value->text.size);
    }
    if (tpl_is_sequence(value) || (value->kind == TPL_LAZY && value->safe))
        *length = (int64_t)value->list->count;
    else if (value->kind == TPL_DICT)
        *length = (int64_t)value->dict->count;
    else if (value->kind == TPL_LOOP)
        *length = (int64_t)value->loop->items->count;
    else if (value->kind != TPL_UNDEFINED)
        return tpl_fail(run, PCO_ERROR_INVALID, "%s has no length", tpl_kind_name(value));
    return PCO_OK;
}

pco_status tpl_need_text(tpl_run *run, const char *what, const tpl_value *value, tpl_text *text)
{
    if (value->kind != TPL_STRING)
        return tpl_fail(run, PCO_ERROR_INVALID, "%s is %s%s%.*s, not a string", what, tpl_kind_name(value),
                        value->kind == TPL_UNDEFINED ? ": " : "",
                        value->kind == TPL_UNDEFINED ? (int)value->text.size : 0,
                        value->kind == TPL_UNDEFINED && value->text.data ? value->text.data : "");
    *text = value->text;
    return PCO_OK;
}

pco_status tpl_need_int(tpl_run *run, const char *what, const tpl_value *value, int64_t *integer)
{
    if (!tpl_is_whole(value))
        return tpl_fail(run, PCO_ERROR_INVALID, "%s is %s, not an integer", what, tpl_kind_name(value));
    *integer = value->integer;
    return PCO_OK;
}
