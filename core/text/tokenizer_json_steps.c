/* The parts of a tokenizer.json around its model, as rows of Hugging Face's names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

enum { JSON_DEPTH_MOST = 8 };

static pco_status json_type(const cJSON *item, const char *label, const char *part, int depth, const char **type,
                            pco_error *err)
{
    if (!cJSON_IsObject(item)) return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' is not an object", label, part);
    if (depth > JSON_DEPTH_MOST)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: '%s' is nested more than %d deep", label, part,
                        JSON_DEPTH_MOST);
    return pco_json_string(item, label, "type", type, err);
}

static pco_status json_unsupported(const char *label, const char *part, const char *type, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: the %s '%.60s' is not supported", label, part, type);
}

/* The list `key` of a Sequence. */
static pco_status json_list(const cJSON *item, const char *label, const char *key, const cJSON **list, pco_error *err)
{
    *list = cJSON_GetObjectItemCaseSensitive(item, key);
    return cJSON_IsArray(*list) ? PCO_OK : pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' is not a list", label, key);
}

/* ---- normalizers ---- */

static pco_status json_flag(const cJSON *item, const char *label, const char *key, int fallback, unsigned bit,
                            unsigned *flags, pco_error *err)
{
    int value = fallback;
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(item, key);
    pco_status status =
        found && !cJSON_IsNull(found) ? pco_json_bool_or(item, label, key, fallback, &value, err) : PCO_OK;
    if (value) *flags |= bit;
    return status;
}

static pco_status json_bert(const cJSON *item, const char *label, unsigned *flags, pco_error *err)
{
    pco_status status = json_flag(item, label, "lowercase", 1, TEXT_LOWER, flags, err);
    if (!status) status = json_flag(item, label, "clean_text", 1, TEXT_CLEAN, flags, err);
    if (!status) status = json_flag(item, label, "handle_chinese_chars", 1, TEXT_CHINESE, flags, err);
    if (!status) status = json_flag(item, label, "strip_accents", (*flags & TEXT_LOWER) != 0, TEXT_ACCENTS, flags, err);
    return status;
}

static pco_status json_base64(const char *text, const char *label, unsigned char **data, size_t *size, pco_error *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, waiting = 0;
    *size = 0;
    *data = malloc(strlen(text) / 4 * 3 + 4);
    if (!*data) return text_no_memory(err);
    for (; *text && *text != '='; text++) {
        const char *digit = strchr(digits, *text);
        if (!digit) return pco_fail(err, PCO_ERROR_FORMAT, "%s: 'precompiled_charsmap' is not base64", label);
        bits = bits << 6 | (uint32_t)(digit - digits);
        waiting += 6;
        if (waiting < 8) continue;
        waiting -= 8;
        (*data)[(*size)++] = (unsigned char)(bits >> waiting);
        bits &= (1u << waiting) - 1;
    }
    return PCO_OK;
}

static pco_status json_charsmap(const cJSON *item, const char *label, text_norm *norm, pco_error *err)
{
    const char *text;
    unsigned char *data = NULL;
    size_t size = 0;
    pco_status status = pco_json_string(item, label, "precompiled_charsmap", &text, err);
    if (!status) status = json_base64(text, label, &data, &size, err);
    if (!status) status = text_charsmap_make(data, size, label, &norm->charsmap, err);
    free(data);
    return status;
}

static pco_status json_replace(const cJSON *item, const char *label, text_norm *norm, pco_error *err)
{
    const char *content;
    char *expression = NULL;
    pco_status status = pco_json_string(item, label, "content", &content, err);
    if (!status) status = text_json_pattern(item, label, &expression, err);
    if (!status) status = text_pattern_compile(expression, label, &norm->pattern, err);
    free(expression);
    if (!status && !(norm->content = strdup(content))) status = text_no_memory(err);
    if (!status) norm->content_size = strlen(content);
    return status;
}

static const struct {
    const char *name;
    pco_status (*apply)(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err);
    unsigned flags;
} JSON_NORMS[] = {
    {"NFC", text_norm_unicode, TEXT_NFC},
    {"NFD", text_norm_unicode, TEXT_DECOMPOSED},
    {"NFKC", text_norm_unicode, TEXT_COMPATIBLE},
    {"NFKD", text_norm_unicode, TEXT_COMPATIBLE | TEXT_DECOMPOSED},
    {"Lowercase", text_norm_lowercase, 0},
    {"StripAccents", text_norm_unaccented, 0},
    {"Nmt", text_norm_nmt, 0},
    {"ByteLevel", text_norm_spell, 0},
    {"BertNormalizer", text_norm_bert, 0},
    {"Strip", text_norm_strip, 0},
    {"Prepend", text_norm_prepend, 0},
    {"Replace", text_norm_replace, 0},
    {"Precompiled", text_norm_charsmap_hf, 0},
};

static pco_status json_norm(pco_tokenizer *tokenizer, const cJSON *item, const char *label, const char *type,
                            pco_error *err)
{
    text_norm norm = {0};
    const char *content;
    pco_status status = PCO_OK;
    for (size_t i = 0; i < sizeof JSON_NORMS / sizeof *JSON_NORMS; i++)
        if (strcmp(type, JSON_NORMS[i].name) == 0) {
            norm.apply = JSON_NORMS[i].apply;
            norm.flags = JSON_NORMS[i].flags;
        }
    if (!norm.apply) return json_unsupported(label, "normalizer", type, err);
    if (norm.apply == text_norm_bert) status = json_bert(item, label, &norm.flags, err);
    if (norm.apply == text_norm_strip) {
        status = json_flag(item, label, "strip_left", 1, TEXT_LEFT, &norm.flags, err);
        if (!status) status = json_flag(item, label, "strip_right", 1, TEXT_RIGHT, &norm.flags, err);
    }
    if (norm.apply == text_norm_prepend) {
        status = pco_json_string(item, label, "prepend", &content, err);
        if (!status && !(norm.content = strdup(content))) status = text_no_memory(err);
        if (!status) norm.content_size = strlen(content);
    }
    if (norm.apply == text_norm_replace) status = json_replace(item, label, &norm, err);
    if (norm.apply == text_norm_charsmap_hf) {
        const cJSON *map = cJSON_GetObjectItemCaseSensitive(item, "precompiled_charsmap");
        if (cJSON_IsNull(map) || (cJSON_IsString(map) && !*map->valuestring)) return PCO_OK; /* none */
        status = json_charsmap(item, label, &norm, err);
    }
    if (!status) return text_add_norm(tokenizer, &norm, label, err);
    text_release_norm(&norm);
    return status;
}

pco_status text_json_normalizer(pco_tokenizer *tokenizer, const cJSON *item, const char *label, int depth,
                                pco_error *err)
{
    const char *type;
    const cJSON *list, *child;
    if (!item || cJSON_IsNull(item)) return PCO_OK;
    pco_status status = json_type(item, label, "normalizer", depth, &type, err);
    if (status || strcmp(type, "Sequence") != 0) return status ? status : json_norm(tokenizer, item, label, type, err);
    status = json_list(item, label, "normalizers", &list, err);
    if (status) return status;
    cJSON_ArrayForEach(child, list)
    {
        if (!status) status = text_json_normalizer(tokenizer, child, label, depth + 1, err);
    }
    return status;
}

/* ---- pre-tokenizers ---- */

static const char *const JSON_BEHAVIOURS[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                              "Contiguous"};
static pco_status json_split(pco_tokenizer *tokenizer, const cJSON *item, const char *label, pco_error *err)
{
    uint32_t behaviour;
    int invert;
    char *expression = NULL;
    pco_status status = pco_json_enum(item, label, "behavior", JSON_BEHAVIOURS, 5, &behaviour, err);
    if (!status) status = pco_json_bool_or(item, label, "invert", 0, &invert, err);
    if (!status) status = text_json_pattern(item, label, &expression, err);
    if (!status && *expression) /* an empty string matches nowhere */
        status = text_add_split(tokenizer, expression, label, (text_behaviour)behaviour, invert, err);
    free(expression);
    return status;
}

static pco_status json_byte_level(pco_tokenizer *tokenizer, const cJSON *item, const char *label, int *spelled,
                                  pco_error *err)
{
    int prefix, cut;
    pco_status status = pco_json_bool_or(item, label, "add_prefix_space", 1, &prefix, err);
    if (!status) status = pco_json_bool_or(item, label, "use_regex", 1, &cut, err);
    if (!status && prefix) {
        text_step step = {.apply = text_step_prepend, .content = strdup(" ")};
        status = step.content ? text_add_step(tokenizer, &step, label, err) : text_no_memory(err);
    }
    if (!status && cut) status = text_add_split(tokenizer, TEXT_GPT2_WORDS, label, TEXT_ISOLATED, 0, err);
    *spelled = 1;
    return status;
}

/* The one character of a text, as an expression. */
static pco_status json_character(const char *text, const char *label, const char *what, char expression[16],
                                 pco_error *err)
{
    uint32_t codepoint;
    if (!*text || pco_utf8_decode(text, strlen(text), &codepoint) != strlen(text))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: the %s '%.20s' is not one character", label, what, text);
    snprintf(expression, 16, "\\x{%X}", (unsigned)codepoint);
    return PCO_OK;
}

static pco_status json_metaspace(pco_tokenizer *tokenizer, const cJSON *item, const char *label, pco_error *err)
{
    static const char *const schemes[] = {"first", "never", "always"};
    const char *replacement;
    uint32_t scheme;
    int split, prefix;
    text_step step = {.apply = text_step_metaspace, .behaviour = TEXT_MERGED_WITH_NEXT};
    pco_status status = pco_json_string_or(item, label, "replacement", "\xE2\x96\x81", &replacement, err);
    if (!status) status = pco_json_bool_or(item, label, "add_prefix_space", 1, &prefix, err); /* of older files */
    if (!status) status = pco_json_enum_or(item, label, "prepend_scheme", schemes, 3, prefix ? 2 : 1, &scheme, err);
    if (!status) status = pco_json_bool_or(item, label, "split", 1, &split, err);
    char expression[16];
    if (!status) status = json_character(replacement, label, "replacement", expression, err);
    if (status) return status;
    step.prepend = scheme != 1;
    step.at_starts = scheme == 0;
    if (split) status = text_pattern_compile(expression, label, &step.pattern, err);
    step.content = strdup(replacement);
    if (!step.content) status = text_no_memory(err);
    return status ? text_release_step(&step), status : text_add_step(tokenizer, &step, label, err);
}

/* A word, as Rust's \w is it. */
#define JSON_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}"

static pco_status json_at_delimiter(pco_tokenizer *tokenizer, const cJSON *item, const char *label, pco_error *err)
{
    const char *text;
    char expression[16];
    pco_status status = pco_json_string(item, label, "delimiter", &text, err);
    if (!status) status = json_character(text, label, "delimiter", expression, err);
    if (status) return status;
    return text_add_split(tokenizer, expression, label, TEXT_REMOVED, 0, err);
}

static pco_status json_fixed_length(pco_tokenizer *tokenizer, const cJSON *item, const char *label, pco_error *err)
{
    char expression[32];
    int64_t length;
    pco_status status = pco_json_int_or(item, label, "length", 1, UINT16_MAX, 5, &length, err);
    if (status) return status;
    snprintf(expression, sizeof expression, "(?s).{1,%d}", (int)length);
    return text_add_split(tokenizer, expression, label, TEXT_ISOLATED, 0, err);
}

static pco_status json_cut(pco_tokenizer *tokenizer, const cJSON *item, const char *label, const char *type,
                           pco_error *err)
{
    pco_status status = PCO_OK;
    int single;
    uint32_t behaviour;
    if (strcmp(type, "WhitespaceSplit") == 0) return text_add_cut(tokenizer, text_is_blank, label, TEXT_REMOVED, err);
    if (strcmp(type, "Whitespace") == 0)
        return text_add_split(tokenizer, "[" JSON_WORD "]+|[^" JSON_WORD "\\p{White_Space}]+", label, TEXT_REMOVED, 1,
                              err);
    if (strcmp(type, "BertPreTokenizer") == 0) {
        status = text_add_cut(tokenizer, text_is_blank, label, TEXT_REMOVED, err);
        return status ? status : text_add_cut(tokenizer, text_is_punctuation, label, TEXT_ISOLATED, err);
    }
    if (strcmp(type, "Digits") == 0) {
        status = pco_json_bool_or(item, label, "individual_digits", 0, &single, err);
        return status ? status
                      : text_add_cut(tokenizer, text_is_number, label, single ? TEXT_ISOLATED : TEXT_CONTIGUOUS, err);
    }
    if (strcmp(type, "Punctuation") == 0) {
        status = pco_json_enum_or(item, label, "behavior", JSON_BEHAVIOURS, 5, 0, &behaviour, err);
        return status ? status : text_add_cut(tokenizer, text_is_punctuation, label, (text_behaviour)behaviour, err);
    }
    if (strcmp(type, "CharDelimiterSplit") == 0) return json_at_delimiter(tokenizer, item, label, err);
    if (strcmp(type, "FixedLength") == 0) return json_fixed_length(tokenizer, item, label, err);
    return json_unsupported(label, "pre-tokenizer", type, err);
}

pco_status text_json_pre_tokenizer(pco_tokenizer *tokenizer, const cJSON *item, const char *label, int depth,
                                   int *spelled, pco_error *err)
{
    const char *type;
    const cJSON *list, *child;
    if (!item || cJSON_IsNull(item)) return PCO_OK;
    pco_status status = json_type(item, label, "pre-tokenizer", depth, &type, err);
    if (status) return status;
    if (*spelled) { /* what follows works on spelled bytes */
        const text_step step = {.apply = text_step_spell};
        *spelled = 0;
        status = text_add_step(tokenizer, &step, label, err);
        if (status) return status;
    }
    if (strcmp(type, "Split") == 0) return json_split(tokenizer, item, label, err);
    if (strcmp(type, "ByteLevel") == 0) return json_byte_level(tokenizer, item, label, spelled, err);
    if (strcmp(type, "Metaspace") == 0) return json_metaspace(tokenizer, item, label, err);
    if (strcmp(type, "Sequence") != 0) return json_cut(tokenizer, item, label, type, err);
    status = json_list(item, label, "pretokenizers", &list, err);
    if (status) return status;
    cJSON_ArrayForEach(child, list)
    {
        if (!status) status = text_json_pre_tokenizer(tokenizer, child, label, depth + 1, spelled, err);
    }
    return status;
}

/* ---- post-processors ---- */

static pco_status json_around(pco_tokenizer *tokenizer, const char *text, const char *label, int behind, pco_error *err)
{
    int32_t id = text_find(tokenizer, text, strlen(text));
    if (id < 0)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: the post-processor's token '%.80s' is not in the vocabulary", label,
                        text);
    if (tokenizer->around_count[behind] == TEXT_AROUND_MOST)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: a post-processor with more than %d tokens on a side", label,
                        TEXT_AROUND_MOST);
    tokenizer->around[behind][tokenizer->around_count[behind]++] = id;
    if (behind)
        tokenizer->add_eos = 1;
    else
        tokenizer->add_bos = 1;
    return PCO_OK;
}

static pco_status json_template(pco_tokenizer *tokenizer, const cJSON *item, const char *label, pco_error *err)
{
    const cJSON *list, *child;
    const char *text;
    int behind = 0;
    pco_status status = json_list(item, label, "single", &list, err);
    if (status) return status;
    cJSON_ArrayForEach(child, list)
    {
        const cJSON *special = cJSON_GetObjectItemCaseSensitive(child, "SpecialToken");
        if (status) break;
        if (!special) {
            behind = 1;
            continue;
        }
        status = pco_json_string(special, label, "id", &text, err);
        if (!status) status = json_around(tokenizer, text, label, behind, err);
    }
    return status;
}

/* ["text", id] */
static pco_status json_pair(pco_tokenizer *tokenizer, const cJSON *item, const char *label, const char *key, int behind,
                            pco_error *err)
{
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(item, key), 0);
    if (!cJSON_IsString(first))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' is not a token and its id", label, key);
    return json_around(tokenizer, first->valuestring, label, behind, err);
}

pco_status text_json_post_processor(pco_tokenizer *tokenizer, const cJSON *item, const char *label, int depth,
                                    pco_error *err)
{
    const char *type;
    const cJSON *list, *child;
    if (!item || cJSON_IsNull(item)) return PCO_OK;
    pco_status status = json_type(item, label, "post-processor", depth, &type, err);
    if (status) return status;
    if (strcmp(type, "ByteLevel") == 0) return PCO_OK; /* offsets only */
    if (strcmp(type, "TemplateProcessing") == 0) return json_template(tokenizer, item, label, err);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        status = json_pair(tokenizer, item, label, "cls", 0, err);
        return status ? status : json_pair(tokenizer, item, label, "sep", 1, err);
    }
    if (strcmp(type, "Sequence") != 0) return json_unsupported(label, "post-processor", type, err);
    status = json_list(item, label, "processors", &list, err);
    if (status) return status;
    cJSON_ArrayForEach(child, list)
    {
        if (!status) status = text_json_post_processor(tokenizer, child, label, depth + 1, err);
    }
    return status;
}
