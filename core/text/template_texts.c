/* New texts from texts: other letters, replaced and joined pieces. */
#include "text/template_parts.h"

#include <utf8proc.h>

#include "base/utf8.h"

/* ---- letters ---- */

/* Letters whose other case is several characters, or depends on those around (SpecialCasing.txt of Unicode): they are
 * refused, as they are not made. */
static int tpl_is_special(uint32_t code, int up)
{
    if (!up) return code == 0x130 || code == 0x3A3;
    return code == 0xDF || code == 0x149 || code == 0x1F0 || code == 0x390 || code == 0x3B0 || code == 0x587 ||
           (code >= 0x1E96 && code <= 0x1E9A) || (code >= 0x1F50 && code <= 0x1FFC) ||
           (code >= 0xFB00 && code <= 0xFB17) || (code >= 0x1C4 && code <= 0x1CC) || (code >= 0x1F1 && code <= 0x1F3);
}

static int tpl_is_cased(uint32_t code)
{
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

pco_status tpl_letter_case(tpl_run *run, tpl_text text, tpl_letters how, tpl_value *value)
{
    pco_writer out = {0};
    int begins = 1; /* of a word, or of the text */
    pco_status status = tpl_work(run, text.size);
    for (size_t at = 0; at < text.size && !status;) {
        uint32_t code;
        char bytes[4];
        at += tpl_character(text, at, &code);
        const int up = how == TPL_UPPER || (how != TPL_LOWER && begins);
        if (tpl_is_special(code, up))
            status = tpl_fail(run, PCO_ERROR_UNSUPPORTED, "the other case of U+%04X is not supported", code);
        const utf8proc_int32_t other =
            up ? utf8proc_toupper((utf8proc_int32_t)code) : utf8proc_tolower((utf8proc_int32_t)code);
        pco_write(&out, bytes, pco_utf8_encode((uint32_t)other, bytes));
        if (how == TPL_TITLE)
            begins = !tpl_is_cased(code);
        else if (how == TPL_TITLE_FILTER) /* jinja2 splits at blanks and opening brackets and at hyphens */
            begins = code == '-' || code == '(' || code == '{' || code == '[' || code == '<' || tpl_is_blank(code);
        else
            begins = 0;
    }
    if (!status) return tpl_take(run, &out, value);
    pco_writer_release(&out);
    return status;
}

/* ---- pieces ---- */

pco_status tpl_replace(tpl_run *run, tpl_text text, tpl_text old, tpl_text with, int64_t most, tpl_value *value)
{
    pco_writer out = {0};
    size_t at = 0;
    uint32_t code;
    pco_status status = PCO_OK;
    for (int64_t n = 0; (most < 0 || n < most) && !status; n++) {
        const size_t found = tpl_find(text, old, at);
        if (found == SIZE_MAX) break;
        pco_write(&out, text.data + at, found - at);
        pco_write(&out, with.data, with.size);
        status = tpl_work(run, found - at + with.size);
        if (!status && out.size > run->budget) break;
        at = found + old.size;
        if (old.size) continue;
        if (at == text.size) break; /* an empty text is in front of each character, and at the end */
        const size_t step = tpl_character(text, at, &code);
        pco_write(&out, text.data + at, step);
        at += step;
    }
    if (status) {
        pco_writer_release(&out);
        return status;
    }
    pco_write(&out, text.data + at, text.size - at);
    return tpl_take(run, &out, value);
}

/* `any`: items of all kinds, as the filter; otherwise only strings, as the method. */
pco_status tpl_join(tpl_run *run, tpl_text between, const tpl_list *list, int any, tpl_value *value)
{
    pco_writer out = {0};
    pco_status status = PCO_OK;
    for (size_t i = 0; i < list->count && !status; i++) {
        const tpl_value *item = &list->items[i];
        if (!any && item->kind != TPL_STRING)
            status = tpl_fail(run, PCO_ERROR_INVALID, "join: item %zu is %s, not a string", i, tpl_kind_name(item));
        if (item->kind == TPL_STRING && item->safe)
            status = tpl_fail(run, PCO_ERROR_UNSUPPORTED, "join of a text that 'safe' made is not supported");
        if (i) pco_write(&out, between.data, between.size);
        if (!status) status = tpl_write(run, &out, item);
    }
    if (!status) return tpl_take(run, &out, value);
    pco_writer_release(&out);
    return status;
}
