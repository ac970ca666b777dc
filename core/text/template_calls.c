/* Functions and methods that templates call. */
#include "text/template_parts.h"

#include <stdlib.h>
#include <time.h>

/* ---- arguments ---- */

pco_status tpl_read_arguments(tpl_run *run, const tpl_arguments *arguments, const char *what, const char *names,
                              tpl_value *values)
{
    tpl_text known[8];
    size_t count = 0;
    for (const char *at = names; *at; at += strspn(at, " ")) {
        known[count] = (tpl_text){at, strcspn(at, " ")};
        at += known[count].size;
        values[count++] = tpl_undefined((tpl_text){NULL, 0});
    }
    if (arguments->plain > count)
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "%s with %zu arguments is not supported", what, arguments->plain);
    for (size_t i = 0; i < arguments->count; i++) {
        size_t which = i;
        for (which = i < arguments->plain ? i : 0; i >= arguments->plain && which < count; which++)
            if (tpl_same(known[which], arguments->names[i])) break;
        if (which == count)
            return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "%s with the argument '%.*s' is not supported", what,
                            TPL_SHOW(arguments->names[i]));
        values[which] = arguments->values[i];
        if (!tpl_given(&values[which])) values[which].text = TPL_TEXT("an argument");
    }
    return PCO_OK;
}

/* ---- functions ---- */

static pco_status call_range(tpl_run *run, const tpl_arguments *arguments, tpl_value *value)
{
    enum { MOST = 100000 }; /* as jinja2's sandbox */
    tpl_value given[3];
    int64_t bounds[3] = {0, 0, 1};
    pco_status status = tpl_read_arguments(run, arguments, "range", "start stop step", given);
    for (int i = 0; i < 3 && !status; i++)
        if (tpl_given(&given[i])) status = tpl_need_int(run, "range: a bound", &given[i], &bounds[i]);
    if (!status && arguments->plain < 1) status = tpl_fail(run, PCO_ERROR_INVALID, "range needs a bound");
    if (arguments->plain == 1) {
        bounds[1] = bounds[0];
        bounds[0] = 0;
    }
    if (!status && bounds[2] == 0) status = tpl_fail(run, PCO_ERROR_INVALID, "range: the step is 0");
    if (!status) status = tpl_list_create(run, TPL_LIST, 0, value);
    for (int64_t at = bounds[0]; !status && (bounds[2] > 0 ? at < bounds[1] : at > bounds[1]);) {
        status = tpl_list_add(run, value, tpl_int(at));
        if (value->list->count > MOST) return tpl_fail(run, PCO_ERROR_INVALID, "range has more than %d items", MOST);
        if (__builtin_add_overflow(at, bounds[2], &at)) break;
    }
    if (!status) *value = tpl_lazy(*value, 1);
    return status;
}

/* namespace(a=1) and dict(a=1), each of them also of a dict. */
static pco_status call_dict(tpl_run *run, tpl_kind kind, const tpl_arguments *arguments, tpl_value *value)
{
    pco_status status = tpl_dict_create(run, kind, value);
    for (size_t i = 0; i < arguments->plain && !status; i++) {
        const tpl_value *from = &arguments->values[i];
        if (from->kind != TPL_DICT)
            return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "a dict of %s is not supported", tpl_kind_name(from));
        for (size_t k = 0; k < from->dict->count && !status; k++)
            status = tpl_dict_set(run, value, from->dict->pairs[k].key, from->dict->pairs[k].value);
    }
    for (size_t i = arguments->plain; i < arguments->count && !status; i++)
        status = tpl_dict_set(run, value, tpl_string(arguments->names[i]), arguments->values[i]);
    return status;
}

static pco_status call_raise(tpl_run *run, const tpl_arguments *arguments, tpl_value *value)
{
    tpl_value message, text;
    pco_status status = tpl_read_arguments(run, arguments, "raise_exception", "message", &message);
    if (!status) status = tpl_str(run, &message, &text);
    (void)value;
    return status ? status
                  : tpl_fail(run, PCO_ERROR_INVALID, "it refuses these messages: %.*s",
                             (int)(text.text.size < 500 ? text.text.size : 500), text.text.data);
}

static pco_status call_strftime(tpl_run *run, const tpl_arguments *arguments, tpl_value *value)
{
    char format[256], text[1024];
    tpl_value given;
    tpl_text how = {NULL, 0};
    struct tm local;
    const time_t now = (time_t)run->now;
    pco_status status = tpl_read_arguments(run, arguments, "strftime_now", "format", &given);
    if (!status) status = tpl_need_text(run, "strftime_now: the format", &given, &how);
    if (status) return status;
    if (how.size >= sizeof format || memchr(how.data, 0, how.size) || !localtime_r(&now, &local))
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "strftime_now: this format is not supported");
    if (how.size) memcpy(format, how.data, how.size);
    format[how.size] = 0;
    const size_t size = strftime(text, sizeof text, format, &local);
    if (!size && how.size) return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "strftime_now: this format is not supported");
    return tpl_keep(run, (tpl_text){text, size}, value);
}

int tpl_is_function(tpl_text name)
{
    static const char *const names[] = {"range",        "namespace", "dict",   "raise_exception",
                                        "strftime_now", "lipsum",    "cycler", "joiner"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (tpl_is(name, names[i])) return 1;
    return 0;
}

pco_status tpl_call_function(tpl_run *run, tpl_text name, const tpl_arguments *arguments, tpl_value *value)
{
    if (tpl_is(name, "range")) return call_range(run, arguments, value);
    if (tpl_is(name, "namespace")) return call_dict(run, TPL_NAMESPACE, arguments, value);
    if (tpl_is(name, "dict")) return call_dict(run, TPL_DICT, arguments, value);
    if (tpl_is(name, "raise_exception")) return call_raise(run, arguments, value);
    if (tpl_is(name, "strftime_now")) return call_strftime(run, arguments, value);
    return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the function '%.*s' is not supported", TPL_SHOW(name));
}

/* ---- methods of strings ---- */

typedef struct call {
    tpl_run *run;
    tpl_text self;
    const char *name;
    const tpl_arguments *arguments;
} call;

/* The argument `name`, a string; `absent` where it may be left out or be none. */
static pco_status call_text(const call *c, const tpl_value *given, const tpl_text *absent, tpl_text *text)
{
    if (absent && (!tpl_given(given) || given->kind == TPL_NONE)) {
        *text = *absent;
        return PCO_OK;
    }
    return tpl_need_text(c->run, c->name, given, text);
}

static pco_status string_strip(const call *c, tpl_value *value)
{
    static const tpl_text blanks = {NULL, 0};
    tpl_value given;
    tpl_text characters = blanks;
    pco_status status = tpl_read_arguments(c->run, c->arguments, c->name, "chars", &given);
    if (!status) status = call_text(c, &given, &blanks, &characters);
    const int sides = *c->name == 'l' ? 1 : *c->name == 'r' ? 2 : 3;
    if (!status)
        status = tpl_work(c->run, characters.size > 64 ? SIZE_MAX / 2 : c->self.size * (1 + characters.size / 4));
    *value = tpl_string(tpl_strip(c->self, characters, sides));
    return status;
}

static pco_status string_split_blanks(const call *c, int64_t most, tpl_value *value)
{
    tpl_text rest = tpl_strip(c->self, (tpl_text){NULL, 0}, 1);
    pco_status status = PCO_OK;
    while (rest.size && !status) {
        size_t at = 0;
        uint32_t code = 0;
        for (size_t step; at < rest.size; at += step) {
            step = tpl_character(rest, at, &code);
            if (tpl_is_blank(code)) break;
        }
        if (most-- == 0) at = rest.size;
        status = tpl_list_add(c->run, value, tpl_string((tpl_text){rest.data, at}));
        rest = tpl_strip((tpl_text){rest.data + at, rest.size - at}, (tpl_text){NULL, 0}, 1);
    }
    return status;
}

/* The last `most` pieces, and what is in front of them. */
static pco_status string_split_right(const call *c, tpl_text by, int64_t most, tpl_value *value)
{
    tpl_text rest = c->self;
    pco_status status = PCO_OK;
    for (size_t at = rest.size; most && !status && at-- > 0;) {
        if (at + by.size > rest.size || memcmp(rest.data + at, by.data, by.size) != 0) continue;
        const size_t end = at + by.size;
        status = tpl_list_add(c->run, value, tpl_string((tpl_text){rest.data + end, rest.size - end}));
        rest.size = at;
        most--;
    }
    if (!status) status = tpl_list_add(c->run, value, tpl_string(rest));
    for (size_t i = 0, count = value->list->count; i < count / 2; i++) {
        const tpl_value kept = value->list->items[i];
        value->list->items[i] = value->list->items[count - 1 - i];
        value->list->items[count - 1 - i] = kept;
    }
    return status;
}

static pco_status string_split(const call *c, tpl_value *value)
{
    static const tpl_text blanks = {NULL, 0};
    tpl_value given[2];
    tpl_text by = blanks;
    int64_t most = -1;
    pco_status status = tpl_read_arguments(c->run, c->arguments, c->name, "sep maxsplit", given);
    if (!status) status = call_text(c, &given[0], &blanks, &by);
    if (!status && tpl_given(&given[1])) status = tpl_need_int(c->run, "split: maxsplit", &given[1], &most);
    if (!status) status = tpl_work(c->run, c->self.size);
    if (!status) status = tpl_list_create(c->run, TPL_LIST, 0, value);
    if (status) return status;
    if (!by.data && *c->name == 'r' && most >= 0)
        return tpl_fail(c->run, PCO_ERROR_UNSUPPORTED, "rsplit at blanks with a limit is not supported");
    if (!by.data) return string_split_blanks(c, most < 0 ? -1 : most, value);
    if (!by.size) return tpl_fail(c->run, PCO_ERROR_INVALID, "split: the separator is empty");
    if (*c->name == 'r' && most >= 0) return string_split_right(c, by, most, value);
    for (size_t at = 0;;) {
        const size_t found = most-- == 0 ? SIZE_MAX : tpl_find(c->self, by, at);
        const tpl_text part = {c->self.data + at, (found == SIZE_MAX ? c->self.size : found) - at};
        status = tpl_list_add(c->run, value, tpl_string(part));
        if (status || found == SIZE_MAX) return status;
        at = found + by.size;
    }
}

static int string_has(tpl_text text, tpl_text part, int at_end)
{
    return part.size <= text.size &&
           (part.size == 0 || memcmp(text.data + (at_end ? text.size - part.size : 0), part.data, part.size) == 0);
}

static pco_status string_starts(const call *c, tpl_value *value)
{
    tpl_value given;
    const int at_end = *c->name == 'e';
    int is = 0;
    pco_status status = tpl_read_arguments(c->run, c->arguments, c->name, "prefix", &given);
    const size_t count = !status && given.kind == TPL_TUPLE ? given.list->count : 1;
    for (size_t i = 0; i < count && !status; i++) {
        tpl_text part = {NULL, 0};
        status = tpl_need_text(c->run, c->name, given.kind == TPL_TUPLE ? &given.list->items[i] : &given, &part);
        if (!status) is |= string_has(c->self, part, at_end);
    }
    *value = tpl_bool(is);
    return status;
}

static pco_status string_remove(const call *c, tpl_value *value)
{
    tpl_value given;
    tpl_text part, self = c->self;
    const int at_end = c->name[6] == 's';
    pco_status status = tpl_read_arguments(c->run, c->arguments, c->name, "prefix", &given);
    if (!status) status = tpl_need_text(c->run, c->name, &given, &part);
    if (status) return status;
    if (string_has(self, part, at_end)) {
        self.size -= part.size;
        if (!at_end) self.data += part.size;
    }
    *value = tpl_string(self);
    return PCO_OK;
}

static pco_status string_replace(const call *c, tpl_value *value)
{
    tpl_value given[3];
    tpl_text old, with;
    int64_t most = -1;
    pco_status status = tpl_read_arguments(c->run, c->arguments, c->name, "old new count", given);
    if (!status) status = tpl_need_text(c->run, "replace: the old text", &given[0], &old);
    if (!status) status = tpl_need_text(c->run, "replace: the new text", &given[1], &with);
    if (!status && tpl_given(&given[2])) status = tpl_need_int(c->run, "replace: the count", &given[2], &most);
    return status ? status : tpl_replace(c->run, c->self, old, with, most, value);
}

static pco_status string_case(const call *c, tpl_value *value)
{
    const tpl_letters how = *c->name == 'l'   ? TPL_LOWER
                            : *c->name == 'u' ? TPL_UPPER
                            : *c->name == 't' ? TPL_TITLE
                                              : TPL_CAPITALIZE;
    pco_status status = tpl_read_arguments(c->run, c->arguments, c->name, "", NULL);
    return status ? status : tpl_letter_case(c->run, c->self, how, value);
}

static pco_status string_find(const call *c, tpl_value *value)
{
    tpl_value given;
    tpl_text part;
    size_t found = SIZE_MAX;
    int64_t count = 0;
    pco_status status = tpl_read_arguments(c->run, c->arguments, c->name, "sub", &given);
    if (!status) status = tpl_need_text(c->run, c->name, &given, &part);
    if (!status) status = tpl_work(c->run, c->self.size);
    if (status) return status;
    if (*c->name == 'c') {
        if (!part.size) count = (int64_t)tpl_count_characters(c->self) + 1;
        for (size_t at = 0; part.size && (at = tpl_find(c->self, part, at)) != SIZE_MAX; at += part.size) count++;
        *value = tpl_int(count);
        return PCO_OK;
    }
    if (*c->name != 'r') found = tpl_find(c->self, part, 0);
    for (size_t at = c->self.size - part.size + 1; *c->name == 'r' && part.size <= c->self.size && at-- > 0;)
        if (part.size == 0 || memcmp(c->self.data + at, part.data, part.size) == 0) {
            found = at;
            break;
        }
    *value = tpl_int(found == SIZE_MAX ? -1 : (int64_t)tpl_count_characters((tpl_text){c->self.data, found}));
    return PCO_OK;
}

static pco_status string_join(const call *c, tpl_value *value)
{
    tpl_value given, items;
    pco_status status = tpl_read_arguments(c->run, c->arguments, c->name, "iterable", &given);
    if (!status) status = tpl_items(c->run, &given, &items);
    return status ? status : tpl_join(c->run, c->self, items.list, 0, value);
}

static pco_status string_lines(const call *c, tpl_value *value)
{
    pco_status status = tpl_read_arguments(c->run, c->arguments, c->name, "", NULL);
    if (!status) status = tpl_list_create(c->run, TPL_LIST, 0, value);
    for (size_t begin = 0, at = 0; at <= c->self.size && !status;) {
        uint32_t code = '\n';
        const size_t step = at < c->self.size ? tpl_character(c->self, at, &code) : 1;
        const int ends = (code >= 10 && code <= 13) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
                         code == 0x2028 || code == 0x2029;
        if (ends && (at < c->self.size || at > begin))
            status = tpl_list_add(c->run, value, tpl_string((tpl_text){c->self.data + begin, at - begin}));
        at += step;
        if (code == '\r' && at < c->self.size && c->self.data[at] == '\n') at++;
        if (ends) begin = at;
    }
    return status;
}

/* "{} {0} {name}", without a format behind a colon. */
static pco_status string_format(const call *c, tpl_value *value)
{
    pco_writer out = {0};
    size_t next = 0;
    pco_status status = tpl_work(c->run, c->self.size);
    for (size_t at = 0; at < c->self.size && !status; at++) {
        const char byte = c->self.data[at];
        if ((byte == '{' || byte == '}') && at + 1 < c->self.size && c->self.data[at + 1] == byte) {
            pco_write_char(&out, byte);
            at++;
            continue;
        }
        const size_t end = byte == '{' ? tpl_find(c->self, TPL_TEXT("}"), at) : SIZE_MAX;
        if (byte != '{' && byte != '}') {
            pco_write_char(&out, byte);
            continue;
        }
        const tpl_value *found = NULL;
        const tpl_text field = {c->self.data + at + 1, end == SIZE_MAX ? 0 : end - at - 1};
        if (end != SIZE_MAX && !field.size && next < c->arguments->plain) found = &c->arguments->values[next++];
        if (field.size == 1 && *field.data >= '0' && (size_t)(*field.data - '0') < c->arguments->plain)
            found = &c->arguments->values[*field.data - '0'];
        for (size_t i = c->arguments->plain; i < c->arguments->count; i++)
            if (field.size && tpl_same(c->arguments->names[i], field)) found = &c->arguments->values[i];
        if (!found) status = tpl_fail(c->run, PCO_ERROR_UNSUPPORTED, "this form of 'format' is not supported");
        if (!status) status = tpl_write(c->run, &out, found);
        at = end;
    }
    if (!status) return tpl_take(c->run, &out, value);
    pco_writer_release(&out);
    return status;
}

static pco_status string_is(const call *c, tpl_value *value)
{
    const char *kind = c->name + 2;
    int is = c->self.size != 0;
    pco_status status = tpl_read_arguments(c->run, c->arguments, c->name, "", NULL);
    for (size_t i = 0; i < c->self.size && !status; i++) {
        const unsigned char byte = (unsigned char)c->self.data[i];
        if (byte >= 0x80)
            status = tpl_fail(c->run, PCO_ERROR_UNSUPPORTED, "'%s' beyond ASCII is not supported", c->name);
        const int digit = byte >= '0' && byte <= '9', letter = (byte | 32) >= 'a' && (byte | 32) <= 'z';
        is &= *kind == 's'                 ? tpl_is_blank(byte)
              : *kind == 'd'               ? digit
              : strcmp(kind, "alpha") == 0 ? letter
                                           : letter || digit;
    }
    *value = tpl_bool(is);
    return status;
}

static const struct {
    const char *name;
    pco_status (*run)(const call *c, tpl_value *value); /* NULL: Python has it, and it is not known here */
} string_methods[] = {
    {"strip", string_strip},
    {"lstrip", string_strip},
    {"rstrip", string_strip},
    {"split", string_split},
    {"rsplit", string_split},
    {"startswith", string_starts},
    {"endswith", string_starts},
    {"removeprefix", string_remove},
    {"removesuffix", string_remove},
    {"replace", string_replace},
    {"lower", string_case},
    {"upper", string_case},
    {"title", string_case},
    {"capitalize", string_case},
    {"find", string_find},
    {"rfind", string_find},
    {"count", string_find},
    {"join", string_join},
    {"splitlines", string_lines},
    {"format", string_format},
    {"isspace", string_is},
    {"isdigit", string_is},
    {"isalpha", string_is},
    {"isalnum", string_is},
    {"casefold", NULL},
    {"center", NULL},
    {"encode", NULL},
    {"expandtabs", NULL},
    {"format_map", NULL},
    {"index", NULL},
    {"isascii", NULL},
    {"isdecimal", NULL},
    {"isidentifier", NULL},
    {"islower", NULL},
    {"isnumeric", NULL},
    {"isprintable", NULL},
    {"istitle", NULL},
    {"isupper", NULL},
    {"ljust", NULL},
    {"maketrans", NULL},
    {"partition", NULL},
    {"rindex", NULL},
    {"rjust", NULL},
    {"rpartition", NULL},
    {"swapcase", NULL},
    {"translate", NULL},
    {"zfill", NULL},
};

/* ---- methods of others ---- */

static const char *const dict_methods[] = {"get", "items",   "keys",   "values",     "copy",     "clear",
                                           "pop", "popitem", "update", "setdefault", "fromkeys", NULL};
static const char *const list_methods[] = {"index",  "count", "append", "clear",   "copy", "extend",
                                           "insert", "pop",   "remove", "reverse", "sort", NULL};
static const char *const loop_methods[] = {"cycle", "changed", NULL};

static pco_status call_dict_method(tpl_run *run, const tpl_method *method, const tpl_arguments *arguments,
                                   tpl_value *value)
{
    const tpl_dict *dict = method->self.dict;
    tpl_value given[2];
    const int get = tpl_is(method->name, "get"), items = tpl_is(method->name, "items"),
              keys = tpl_is(method->name, "keys");
    if (!get && !items && !keys && !tpl_is(method->name, "values"))
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the method '%.*s' of a dict is not supported",
                        TPL_SHOW(method->name));
    pco_status status = tpl_read_arguments(run, arguments, "a dict's method", get ? "key default" : "", given);
    if (!status && get) {
        const tpl_value *found = tpl_dict_find(dict, &given[0]);
        *value = found ? *found : tpl_given(&given[1]) ? given[1] : tpl_none();
        return tpl_work(run, 32 * dict->count);
    }
    if (!status) status = tpl_list_create(run, TPL_LIST, dict->count, value);
    for (size_t i = 0; i < dict->count && !status; i++) {
        tpl_value pair = keys ? dict->pairs[i].key : dict->pairs[i].value;
        if (items) status = tpl_list_create(run, TPL_TUPLE, 2, &pair);
        if (items && !status) status = tpl_list_add(run, &pair, dict->pairs[i].key);
        if (items && !status) status = tpl_list_add(run, &pair, dict->pairs[i].value);
        if (!status) status = tpl_list_add(run, value, pair);
    }
    if (!status) *value = tpl_lazy(*value, 1);
    return status;
}

static pco_status call_list_method(tpl_run *run, const tpl_method *method, const tpl_arguments *arguments,
                                   tpl_value *value)
{
    const tpl_list *list = method->self.list;
    const int index = tpl_is(method->name, "index");
    tpl_value given;
    int64_t count = 0;
    if (!index && !tpl_is(method->name, "count"))
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the method '%.*s' of a list is not supported",
                        TPL_SHOW(method->name));
    pco_status status = tpl_read_arguments(run, arguments, "a list's method", "value", &given);
    for (size_t i = 0; i < list->count && !status; i++) {
        int equal;
        status = tpl_equal(run, &list->items[i], &given, &equal);
        count += equal;
        if (!equal || !index) continue;
        *value = tpl_int((int64_t)i);
        return status;
    }
    if (!status && index) status = tpl_fail(run, PCO_ERROR_INVALID, "index: the list has no such item");
    *value = tpl_int(count);
    return status;
}

static pco_status call_loop_method(tpl_run *run, const tpl_method *method, const tpl_arguments *arguments,
                                   tpl_value *value)
{
    if (!tpl_is(method->name, "cycle") || arguments->count != arguments->plain || !arguments->count)
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the method '%.*s' of a loop is not supported",
                        TPL_SHOW(method->name));
    *value = arguments->values[method->self.loop->index % arguments->count];
    return PCO_OK;
}

int tpl_has_method(const tpl_value *self, tpl_text name)
{
    const char *const *names = self->kind == TPL_DICT   ? dict_methods
                               : tpl_is_sequence(self)  ? list_methods
                               : self->kind == TPL_LOOP ? loop_methods
                                                        : NULL;
    for (; names && *names; names++)
        if (tpl_is(name, *names)) return 1;
    for (size_t i = 0; self->kind == TPL_STRING && i < sizeof string_methods / sizeof *string_methods; i++)
        if (tpl_is(name, string_methods[i].name)) return 1;
    return 0;
}

pco_status tpl_call_method(tpl_run *run, const tpl_method *method, const tpl_arguments *arguments, tpl_value *value)
{
    const tpl_value *self = &method->self;
    if (self->kind == TPL_DICT) return call_dict_method(run, method, arguments, value);
    if (self->kind == TPL_LOOP) return call_loop_method(run, method, arguments, value);
    if (self->kind != TPL_STRING) return call_list_method(run, method, arguments, value);
    if (self->safe) return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "a method of a text that 'safe' made is not supported");
    for (size_t i = 0; i < sizeof string_methods / sizeof *string_methods; i++) {
        if (!tpl_is(method->name, string_methods[i].name) || !string_methods[i].run) continue;
        const call c = {run, self->text, string_methods[i].name, arguments};
        return string_methods[i].run(&c, value);
    }
    return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the method '%.*s' of a string is not supported",
                    TPL_SHOW(method->name));
}
