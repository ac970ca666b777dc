/* Pre-tokenisation: steps that cut text into words, each with an expression and what becomes of its matches. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

#define TEXT_STACK_MOST ((size_t)4 << 20) /* memory of one search */

/* Hands a part of the text to the step behind `step` (NULL: to the first), or to the model. */
static pco_status text_step_next(text_run *run, const text_step *step, const char *text, size_t size,
                                 text_position position)
{
    const text_step *next = step ? step + 1 : run->tokenizer->steps;
    if (size == 0) return PCO_OK;
    if (next == run->tokenizer->steps + run->tokenizer->step_count) return text_run_word(run, text, size);
    return next->apply(run, next, text, size, position);
}

/* ---- where a pattern matches ---- */

static pco_status text_prepare_match(text_run *run)
{
    if (run->match) return PCO_OK;
    run->match = pcre2_match_data_create(1, NULL);
    run->context = pcre2_match_context_create(NULL);
    run->stack = pcre2_jit_stack_create(32 << 10, TEXT_STACK_MOST, NULL); /* NULL where there is no JIT */
    if (!run->match || !run->context) return text_no_memory(run->err);
    if (run->stack) pcre2_jit_stack_assign(run->context, NULL, run->stack);
    return PCO_OK;
}

/* The first character of the step's set. */
static void text_find_character(const text_step *step, const char *text, size_t size, size_t from, size_t *begin,
                                size_t *end)
{
    uint32_t codepoint;
    *end = size;
    for (*begin = from; *begin < size; *begin = *end) {
        *end = *begin + pco_utf8_decode(text + *begin, size - *begin, &codepoint);
        if (step->is_match(codepoint)) return;
    }
}

/* The first match in text[size] at `from` or behind it, in *begin and *end; both are `size` where there is none. An
 * empty match where the last one ended (`from`, unless `fresh`) does not count. */
static pco_status text_find_match(text_run *run, const text_step *step, const char *text, size_t size, size_t from,
                                  int fresh, size_t *begin, size_t *end)
{
    if (step->is_match) {
        text_find_character(step, text, size, from, begin, end);
        return PCO_OK;
    }
    pcre2_set_match_limit(run->context, TEXT_MATCH_MOST(size));
    for (size_t at = from;;) {
        int found =
            pcre2_match(step->pattern, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK, run->match, run->context);
        const size_t *bounds = pcre2_get_ovector_pointer(run->match);
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0 || bounds[0] < at || bounds[1] < bounds[0])
            return pco_fail(run->err, PCO_ERROR_INVALID,
                            "the expression that cuts text into words fails (error %d of pcre2) in %zu bytes of text; "
                            "give shorter texts",
                            found, size);
        if (bounds[1] == bounds[0] && bounds[0] == from && !fresh) {
            size_t length = at < size ? pco_utf8_decode(text + at, size - at, NULL) : 0;
            if (!length) break;
            at += length;
            continue;
        }
        *begin = bounds[0];
        *end = bounds[1];
        return PCO_OK;
    }
    *begin = *end = size;
    return PCO_OK;
}

/* ---- what becomes of matches ---- */

/* Parts that are not handed on yet. `match` is that of the last span. */
typedef struct text_splitter {
    text_run *run;
    const text_step *step;
    const char *text;
    size_t begin, end; /* pending; nothing where both are equal */
    int match;
    text_position position;
} text_splitter;

static pco_status text_splitter_flush(text_splitter *s)
{
    size_t begin = s->begin, end = s->end;
    s->begin = s->end;
    return text_step_next(s->run, s->step, s->text + begin, end - begin, begin ? TEXT_INSIDE : s->position);
}

/* The next span, which begins where the last one ended. */
static pco_status text_splitter_add(text_splitter *s, size_t end, int match)
{
    const text_behaviour behaviour = s->step->behaviour;
    int was_match = s->match, pending = s->begin < s->end, join = 0;
    pco_status status = PCO_OK;
    if (behaviour == TEXT_MERGED_WITH_PREVIOUS) join = match && !was_match;
    if (behaviour == TEXT_MERGED_WITH_NEXT) join = !match && was_match;
    if (behaviour == TEXT_CONTIGUOUS) join = match == was_match;
    if (pending && !join) status = text_splitter_flush(s);
    s->end = end;
    s->match = match;
    if (behaviour == TEXT_REMOVED && match) s->begin = end;
    return status;
}

static pco_status text_split(text_run *run, const text_step *step, const char *text, size_t size,
                             text_position position)
{
    text_splitter splitter = {.run = run, .step = step, .text = text, .position = position};
    pco_status status = PCO_OK;
    int fresh = 1; /* an empty match at the start counts once */
    for (size_t at = 0; at < size && !status; fresh = 0) {
        size_t begin, end;
        status = text_find_match(run, step, text, size, at, fresh, &begin, &end);
        if (status) return status;
        if (begin > at) status = text_splitter_add(&splitter, begin, step->invert);
        if (!status && end > begin)
            status = text_splitter_add(&splitter, end, !step->invert);
        else if (!status && splitter.begin < splitter.end) /* an empty match cuts, too */
            status = text_splitter_flush(&splitter);
        at = end;
    }
    return status ? status : text_splitter_flush(&splitter);
}

/* ---- steps that change the text ---- */

pco_status text_step_metaspace(text_run *run, const text_step *step, const char *text, size_t size,
                               text_position position)
{
    pco_writer made = {0};
    size_t length = strlen(step->content);
    const int starts = size >= length && memcmp(text, step->content, length) == 0;
    if (step->prepend && !starts && text[0] != ' ' && (!step->at_starts || position == TEXT_AT_START))
        pco_write(&made, step->content, length);
    text_write_replaced(&made, text, size, " ", step->content);
    pco_status status = pco_writer_check(&made, "a text to encode", run->err);
    if (!status && step->pattern)
        status = text_split(run, step, made.data, made.size, position);
    else if (!status)
        status = text_step_next(run, step, made.data, made.size, position);
    pco_writer_release(&made);
    return status;
}

pco_status text_step_spell(text_run *run, const text_step *step, const char *text, size_t size, text_position position)
{
    pco_writer made = {0};
    pco_status status = text_norm_spell(NULL, text, size, &made, run->err);
    if (!status) status = pco_writer_check(&made, "a text to encode", run->err);
    if (!status) status = text_step_next(run, step, made.data, made.size, position);
    pco_writer_release(&made);
    return status;
}

pco_status text_step_prepend(text_run *run, const text_step *step, const char *text, size_t size,
                             text_position position)
{
    pco_writer made = {0};
    size_t length = strlen(step->content);
    if (size >= length && memcmp(text, step->content, length) == 0)
        return text_step_next(run, step, text, size, position);
    pco_write(&made, step->content, length);
    pco_write(&made, text, size);
    pco_status status = pco_writer_check(&made, "a text to encode", run->err);
    if (!status) status = text_step_next(run, step, made.data, made.size, position);
    pco_writer_release(&made);
    return status;
}

/* ---- all steps ---- */

/* Behind normalisation. A text_encode_fn. */
static pco_status text_steps_run(text_run *run, const char *text, size_t size, text_position position)
{
    return text_step_next(run, NULL, text, size, position);
}

/* text[size] is UTF-8. */
static pco_status text_steps_part(text_run *run, const char *text, size_t size, text_position position)
{
    const pco_tokenizer *tokenizer = run->tokenizer;
    pco_status status = PCO_OK;
    if (tokenizer->norm_count) status = text_normalize(tokenizer, text, size, &run->normal, &text, &size, run->err);
    if (status || !size) return status;
    return text_marks_cut(run, &tokenizer->marks[1], text, size, position, text_steps_run);
}

pco_status text_steps_encode(text_run *run, const char *text, size_t size, text_position position)
{
    pco_status status = text_prepare_match(run);
    for (size_t at = 0; at < size && !status; position = TEXT_INSIDE) {
        size_t good = pco_utf8_check(text + at, size - at);
        if (good) status = text_steps_part(run, text + at, good, position);
        at += good;
        if (at == size || status) break;
        status = text_run_word(run, text + at, 1); /* a byte that is not UTF-8 */
        at++;
    }
    return status;
}

/* ---- making ---- */

pco_status text_pattern_compile(const char *expression, const char *label, void **pattern, pco_error *err)
{
    int code = 0;
    PCRE2_SIZE offset = 0;
    PCRE2_UCHAR reason[120] = "";
    /* \C, a byte, would cut characters in two */
    *pattern = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, NULL);
    if (!*pattern) {
        pcre2_get_error_message(code, reason, sizeof reason);
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: the expression '%.100s' is wrong at byte %zu: %s", label,
                        expression, (size_t)offset, (const char *)reason);
    }
    (void)pcre2_jit_compile(*pattern, PCRE2_JIT_COMPLETE); /* where there is no JIT, it is interpreted */
    return PCO_OK;
}

void text_release_step(const text_step *step)
{
    pcre2_code_free(step->pattern);
    free(step->expression);
    free(step->content);
}

pco_status text_add_step(pco_tokenizer *tokenizer, const text_step *step, const char *label, pco_error *err)
{
    if (tokenizer->step_count < TEXT_STEPS_MOST) {
        tokenizer->steps[tokenizer->step_count++] = *step;
        return PCO_OK;
    }
    text_release_step(step);
    return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: more than %d steps of pre-tokenisation are not supported", label,
                    TEXT_STEPS_MOST);
}

pco_status text_add_split(pco_tokenizer *tokenizer, const char *expression, const char *label, text_behaviour behaviour,
                          int invert, pco_error *err)
{
    text_step step = {.apply = text_split, .behaviour = behaviour, .invert = invert};
    pco_status status = text_pattern_compile(expression, label, &step.pattern, err);
    if (!status && !(step.expression = strdup(expression))) status = text_no_memory(err);
    return status ? text_release_step(&step), status : text_add_step(tokenizer, &step, label, err);
}

pco_status text_add_cut(pco_tokenizer *tokenizer, int (*is_match)(uint32_t codepoint), const char *label,
                        text_behaviour behaviour, pco_error *err)
{
    const text_step step = {.apply = text_split, .is_match = is_match, .behaviour = behaviour};
    return text_add_step(tokenizer, &step, label, err);
}

void text_release_steps(pco_tokenizer *tokenizer)
{
    for (uint32_t i = 0; i < tokenizer->step_count; i++) text_release_step(&tokenizer->steps[i]);
}
