/* Operators, attributes and subscripts of a template's values. */
#include "text/template_parts.h"

#include <math.h>

/* ---- attributes ---- */

static tpl_value operators_loop(const tpl_loop *loop, tpl_text name)
{
    const int64_t index = (int64_t)loop->index, count = (int64_t)loop->items->count;
    if (tpl_is(name, "index")) return tpl_int(index + 1);
    if (tpl_is(name, "index0")) return tpl_int(index);
    if (tpl_is(name, "revindex")) return tpl_int(count - index);
    if (tpl_is(name, "revindex0")) return tpl_int(count - index - 1);
    if (tpl_is(name, "first")) return tpl_bool(index == 0);
    if (tpl_is(name, "last")) return tpl_bool(index == count - 1);
    if (tpl_is(name, "length")) return tpl_int(count);
    if (tpl_is(name, "depth")) return tpl_int((int64_t)loop->depth);
    if (tpl_is(name, "depth0")) return tpl_int((int64_t)loop->depth - 1);
    if (tpl_is(name, "previtem") && index > 0) return loop->items->items[index - 1];
    if (tpl_is(name, "nextitem") && index < count - 1) return loop->items->items[index + 1];
    return tpl_undefined(name);
}

/* What Python's objects have beyond methods that are known here would be found there, too. */
static pco_status operators_check(tpl_run *run, const tpl_value *a, tpl_text name)
{
    if (name.size >= 2 && memcmp(name.data, "__", 2) == 0)
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the attribute '%.*s' is not supported", TPL_SHOW(name));
    if (a->kind == TPL_MACRO || a->kind == TPL_FUNCTION || a->kind == TPL_METHOD)
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the attribute '%.*s' of %s is not supported", TPL_SHOW(name),
                        tpl_kind_name(a));
    if (tpl_is_number(a))
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the attribute '%.*s' of a number is not supported",
                        TPL_SHOW(name));
    if (a->kind == TPL_UNDEFINED)
        return tpl_fail(run, PCO_ERROR_INVALID, "'%.*s' is undefined, and has no '%.*s'", TPL_SHOW(a->text),
                        TPL_SHOW(name));
    return PCO_OK;
}

static pco_status operators_method(tpl_run *run, const tpl_value *a, tpl_text name, tpl_value *value)
{
    tpl_method *method;
    pco_status status = tpl_allocate(run, sizeof *method, &method);
    if (status) return status;
    *method = (tpl_method){*a, name};
    *value = (tpl_value){.kind = TPL_METHOD, .method = method};
    return PCO_OK;
}

pco_status tpl_attribute(tpl_run *run, const tpl_value *a, tpl_text name, tpl_value *value)
{
    const tpl_value key = tpl_string(name);
    const tpl_value *found = NULL;
    pco_status status = operators_check(run, a, name);
    *value = tpl_undefined(name);
    if (status) return status;
    if (tpl_has_method(a, name)) return operators_method(run, a, name, value);
    if (a->kind == TPL_DICT || a->kind == TPL_NAMESPACE) found = tpl_dict_find(a->dict, &key);
    if (found) *value = *found;
    if (a->kind == TPL_LOOP) *value = operators_loop(a->loop, name);
    return tpl_work(run, a->kind == TPL_DICT || a->kind == TPL_NAMESPACE ? 32 * a->dict->count : 0);
}

/* ---- subscripts ---- */

/* Where character number `index` begins; text.size: behind the last. */
static size_t operators_character(tpl_text text, int64_t index)
{
    size_t at = 0;
    uint32_t code;
    for (; index > 0 && at < text.size; index--) at += tpl_character(text, at, &code);
    return at;
}

pco_status tpl_subscript(tpl_run *run, const tpl_value *a, const tpl_value *key, tpl_value *value)
{
    int64_t length, index = key->integer;
    uint32_t code;
    *value = tpl_undefined(key->kind == TPL_STRING ? key->text : TPL_TEXT("an item"));
    if (a->kind == TPL_UNDEFINED) return operators_check(run, a, value->text);
    if (a->kind == TPL_DICT) {
        const tpl_value *found = tpl_dict_find(a->dict, key);
        pco_status status = tpl_work(run, 32 * a->dict->count);
        if (found) *value = *found;
        if (found || status) return status;
    }
    if (a->kind == TPL_LAZY && a->safe)
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "an item of a range or of a dict's view is not supported");
    if (key->kind == TPL_STRING) return tpl_attribute(run, a, key->text, value);
    if (!tpl_is_whole(key) || (a->kind != TPL_STRING && !tpl_is_sequence(a))) return PCO_OK;
    pco_status status = tpl_length(run, a, &length);
    if (status) return status;
    if (index < 0) index += length;
    if (index < 0 || index >= length) return PCO_OK;
    if (a->kind != TPL_STRING) {
        *value = a->list->items[index];
        return PCO_OK;
    }
    const size_t at = operators_character(a->text, index);
    *value = tpl_string((tpl_text){a->text.data + at, tpl_character(a->text, at, &code)});
    return PCO_OK;
}

/* Python's rules: indices from the end, and what lies outside is cut off. */
static pco_status operators_bounds(tpl_run *run, const tpl_value bounds[3], int64_t length, int64_t *start,
                                   int64_t *stop, int64_t *step)
{
    int64_t given[3] = {0};
    *step = 1;
    for (int i = 0; i < 3; i++) {
        pco_status status =
            bounds[i].kind == TPL_NONE ? PCO_OK : tpl_need_int(run, "a slice's bound", &bounds[i], &given[i]);
        if (status) return status;
    }
    if (bounds[2].kind != TPL_NONE) *step = given[2];
    if (*step == 0) return tpl_fail(run, PCO_ERROR_INVALID, "a slice's step is 0");
    const int64_t least = *step < 0 ? -1 : 0, most = *step < 0 ? length - 1 : length;
    for (int i = 0; i < 2; i++) {
        int64_t at = given[i] < 0 ? (given[i] < -length ? -1 : given[i] + length) : given[i];
        if (given[i] < 0 && at < 0) at = least;
        if (at > most) at = most;
        if (bounds[i].kind == TPL_NONE) at = (*step < 0) == (i == 0) ? most : least;
        *(i ? stop : start) = at;
    }
    return PCO_OK;
}

pco_status tpl_slice(tpl_run *run, const tpl_value *a, const tpl_value bounds[3], tpl_value *value)
{
    int64_t length, start, stop, step;
    tpl_value from = *a, list;
    if (a->kind != TPL_STRING && !tpl_is_sequence(a)) {
        if (a->kind == TPL_UNDEFINED) return operators_check(run, a, TPL_TEXT("items"));
        *value = tpl_undefined(TPL_TEXT("a slice"));
        return PCO_OK;
    }
    pco_status status = tpl_length(run, a, &length);
    if (!status) status = operators_bounds(run, bounds, length, &start, &stop, &step);
    if (status) return status;
    if (a->kind == TPL_STRING && step == 1) {
        const size_t begin = operators_character(a->text, start), end = operators_character(a->text, stop);
        *value = tpl_string((tpl_text){a->text.data + begin, end > begin ? end - begin : 0});
        return PCO_OK;
    }
    if (a->kind == TPL_STRING) status = tpl_items(run, a, &from);
    if (!status) status = tpl_list_create(run, from.kind, 0, &list);
    for (int64_t i = start; !status && (step > 0 ? i < stop : i > stop);) {
        status = tpl_list_add(run, &list, from.list->items[i]);
        if (step > 0 ? step > stop - i : -(step + 1) >= i - stop) break; /* the next one would be behind the end */
        i += step;
    }
    if (status || a->kind != TPL_STRING) {
        if (!status) *value = list;
        return status;
    }
    return tpl_join(run, TPL_TEXT(""), list.list, 0, value);
}

/* ---- arithmetic ---- */

static pco_status operators_mismatch(tpl_run *run, const char *sign, const tpl_value *a, const tpl_value *b)
{
    const tpl_value *missing = a->kind == TPL_UNDEFINED ? a : b->kind == TPL_UNDEFINED ? b : NULL;
    if (missing) return tpl_fail(run, PCO_ERROR_INVALID, "'%.*s' is undefined, in '%s'", TPL_SHOW(missing->text), sign);
    return tpl_fail(run, PCO_ERROR_INVALID, "'%s' does not work for %s and %s", sign, tpl_kind_name(a),
                    tpl_kind_name(b));
}

static pco_status operators_power(tpl_run *run, int64_t base, int64_t exponent, tpl_value *value)
{
    int64_t result = 1;
    if (exponent < 0) {
        *value = tpl_float(pow((double)base, (double)exponent));
        return base ? PCO_OK : tpl_fail(run, PCO_ERROR_INVALID, "0 to a negative power");
    }
    for (int64_t i = 0; i < exponent && base != 0 && base != 1; i++) {
        if (base == -1) {
            result = exponent % 2 ? -1 : 1;
            break;
        }
        if (__builtin_mul_overflow(result, base, &result))
            return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "an integer beyond 64 bits is not supported");
    }
    *value = tpl_int(base == 0 && exponent ? 0 : result);
    return PCO_OK;
}

static pco_status operators_whole(tpl_run *run, const char *sign, int64_t a, int64_t b, tpl_value *value)
{
    int64_t result = 0;
    int overflow = 0;
    const int divides = *sign == '/' || *sign == '%';
    if (divides && b == 0) return tpl_fail(run, PCO_ERROR_INVALID, "division by zero");
    if (strcmp(sign, "**") == 0) return operators_power(run, a, b, value);
    if (strcmp(sign, "/") == 0) {
        *value = tpl_float((double)a / (double)b);
        return PCO_OK;
    }
    if (divides && b == -1) { /* the one quotient that does not fit */
        overflow = *sign == '/' && __builtin_sub_overflow((int64_t)0, a, &result);
    } else if (divides) { /* rounded down, and the rest has the sign of b */
        const int64_t rest = a % b, down = rest != 0 && (rest < 0) != (b < 0);
        result = *sign == '/' ? a / b - down : rest + (down ? b : 0);
    } else {
        overflow = *sign == '+'   ? __builtin_add_overflow(a, b, &result)
                   : *sign == '-' ? __builtin_sub_overflow(a, b, &result)
                                  : __builtin_mul_overflow(a, b, &result);
    }
    if (overflow) return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "an integer beyond 64 bits is not supported");
    *value = tpl_int(result);
    return PCO_OK;
}

static pco_status operators_float(tpl_run *run, const char *sign, double a, double b, tpl_value *value)
{
    double result = 0;
    if ((*sign == '/' || *sign == '%') && b == 0) return tpl_fail(run, PCO_ERROR_INVALID, "division by zero");
    if (strcmp(sign, "**") == 0)
        result = pow(a, b);
    else if (strcmp(sign, "//") == 0)
        result = floor((a - (fmod(a, b) != 0 && (fmod(a, b) < 0) != (b < 0) ? fmod(a, b) + b : fmod(a, b))) / b + 0.5);
    else if (*sign == '%') {
        result = fmod(a, b);
        if (result != 0 && (result < 0) != (b < 0)) result += b;
    } else {
        result = *sign == '+' ? a + b : *sign == '-' ? a - b : *sign == '*' ? a * b : a / b;
    }
    if (isnan(result) && strcmp(sign, "**") == 0)
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "a complex number is not supported");
    *value = tpl_float(result);
    return PCO_OK;
}

/* Behind what `safe` made, a text is escaped, as markupsafe does. */
static void operators_escape(pco_writer *out, const tpl_value *value, int safe)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    for (size_t i = 0; i < value->text.size; i++) {
        const char c = value->text.data[i];
        const char *found = c && safe && !value->safe ? strchr(from, c) : NULL;
        if (found)
            pco_write_text(out, to[found - from]);
        else
            pco_write_char(out, c);
    }
}

static pco_status operators_add_texts(tpl_run *run, const tpl_value *a, const tpl_value *b, tpl_value *value)
{
    char *joined;
    const int safe = a->safe || b->safe;
    pco_writer out = {0};
    pco_status status = tpl_work(run, a->text.size + b->text.size);
    if (status) return status;
    if (safe && !(a->safe && b->safe)) {
        operators_escape(&out, a, safe);
        operators_escape(&out, b, safe);
        status = tpl_take(run, &out, value);
        value->safe = 1;
        return status;
    }
    status = tpl_allocate(run, a->text.size + b->text.size, &joined);
    if (status) return status;
    if (a->text.size) memcpy(joined, a->text.data, a->text.size);
    if (b->text.size) memcpy(joined + a->text.size, b->text.data, b->text.size);
    *value = tpl_string((tpl_text){joined, a->text.size + b->text.size});
    value->safe = safe;
    return PCO_OK;
}

/* "ab" * 2 and [1] * 2 */
static pco_status operators_repeat(tpl_run *run, const tpl_value *a, int64_t times, tpl_value *value)
{
    pco_writer out = {0};
    const size_t size = a->kind == TPL_STRING ? a->text.size : a->list->count;
    if (times < 0 || !size) times = 0;
    if (times && (uint64_t)times > run->budget / size)
        return tpl_fail(run, PCO_ERROR_INVALID, "the template takes more than %zu bytes of memory", run->budget);
    if (a->kind == TPL_STRING) {
        for (int64_t i = 0; i < times; i++) pco_write(&out, a->text.data, size);
        return tpl_take(run, &out, value);
    }
    pco_status status = tpl_list_create(run, a->kind, 0, value);
    for (int64_t i = 0; i < times; i++)
        for (size_t k = 0; k < size && !status; k++) status = tpl_list_add(run, value, a->list->items[k]);
    return status;
}

pco_status tpl_binary(tpl_run *run, const char *sign, const tpl_value *a, const tpl_value *b, tpl_value *value)
{
    if (tpl_is_whole(a) && tpl_is_whole(b)) return operators_whole(run, sign, a->integer, b->integer, value);
    if (tpl_is_number(a) && tpl_is_number(b)) return operators_float(run, sign, tpl_number(a), tpl_number(b), value);
    if (*sign == '%' && a->kind == TPL_STRING)
        return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "formatting a string with '%%' is not supported");
    if (*sign == '+' && a->kind == TPL_STRING && b->kind == TPL_STRING) return operators_add_texts(run, a, b, value);
    if (*sign == '+' && a->kind == b->kind && tpl_is_sequence(a)) {
        pco_status status = tpl_list_create(run, a->kind, a->list->count + b->list->count, value);
        for (size_t i = 0; i < a->list->count && !status; i++) status = tpl_list_add(run, value, a->list->items[i]);
        for (size_t i = 0; i < b->list->count && !status; i++) status = tpl_list_add(run, value, b->list->items[i]);
        return status;
    }
    if (strcmp(sign, "*") == 0 && tpl_is_whole(b) && (a->kind == TPL_STRING || tpl_is_sequence(a)))
        return operators_repeat(run, a, b->integer, value);
    if (strcmp(sign, "*") == 0 && tpl_is_whole(a) && (b->kind == TPL_STRING || tpl_is_sequence(b)))
        return operators_repeat(run, b, a->integer, value);
    return operators_mismatch(run, sign, a, b);
}
