/* Pre-tokenisation: steps that cut text into words, each with an expression and what becomes of its matches. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

/* Memory of one search, and how far it may go back: an expression from a file must not hang. */
#define TEXT_STACK_MOST ((size_t)4 << 20)
#define TEXT_MATCH_MOST 50000000u

/* Hands a part of the text to the step behind `step` (NULL: to the first), or to the model. */
static pco_status text_step_next(text_run *run, const text_step *step, const char *text, size_t size, int first)
{
    const text_step *next = step ? step + 1 : run->tokenizer->steps;
    if (size == 0) return PCO_OK;
    if (next == run->tokenizer->steps + run->tokenizer->step_count) return text_run_word(run, text, size);
    return next->apply(run, next, text, size, first);
}

/* ---- where a pattern matches ---- */

static pco_status text_prepare_match(text_run *run)
{
    if (run->match) return PCO_OK;
    run->match = pcre2_match_data_create(1, NULL);
    run->context = pcre2_match_context_create(NULL);
    run->stack = pcre2_jit_stack_create(32 << 10, TEXT_STACK_MOST, NULL); /* NULL where there is no JIT */
    if (!run->match || !run->context) return text_no_memory(run->err);
    pcre2_set_match_limit(run->context, TEXT_MATCH_MOST);
    if (run->stack) pcre2_jit_stack_assign(run->context, NULL, run->stack);
    return PCO_OK;
}

/* The first match in text[size] at `from` or behind it, in *begin and *end; both are `size` where there is none. An
 * empty match where the last one ended (`from`, unless `fresh`) does not count. */
static pco_status text_find_match(text_run *run, void *pattern, const char *text, size_t size, size_t from, int fresh,
                                  size_t *begin, size_t *end)
{
    for (size_t at = from;;) {
        int found = pcre2_match(pattern, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK, run->match, run->context);
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
    int match, first;
} text_splitter;

static pco_status text_splitter_flush(text_splitter *s)
{
    size_t begin = s->begin, end = s->end;
    s->begin = s->end;
    return text_step_next(s->run, s->step, s->text + begin, end - begin, s->first && begin == 0);
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

static pco_status text_split(text_run *run, const text_step *step, const char *text, size_t size, int first)
{
    text_splitter splitter = {.run = run, .step = step, .text = text, .first = first};
    pco_status status = PCO_OK;
    for (size_t at = 0; at < size && !status;) {
        size_t begin, end;
        status = text_find_match(run, step->pattern, text, size, at, at == 0, &begin, &end);
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

pco_status text_steps_encode(text_run *run, const char *text, size_t size, int first)
{
    pco_status status = text_prepare_match(run);
    for (size_t at = 0; at < size && !status;) {
        size_t good = pco_utf8_check(text + at, size - at);
        status = text_step_next(run, NULL, text + at, good, first && at == 0);
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
    *pattern =
        pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
    if (!*pattern) {
        pcre2_get_error_message(code, reason, sizeof reason);
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: the expression '%.100s' is wrong at byte %zu: %s", label,
                        expression, (size_t)offset, (const char *)reason);
    }
    (void)pcre2_jit_compile(*pattern, PCRE2_JIT_COMPLETE); /* where there is no JIT, it is interpreted */
    return PCO_OK;
}

pco_status text_add_split(pco_tokenizer *tokenizer, const char *expression, const char *label, text_behaviour behaviour,
                          int invert, pco_error *err)
{
    if (tokenizer->step_count == TEXT_STEPS_MOST)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: more than %d steps of pre-tokenisation are not supported",
                        label, TEXT_STEPS_MOST);
    text_step step = {.apply = text_split, .behaviour = behaviour, .invert = invert};
    pco_status status = text_pattern_compile(expression, label, &step.pattern, err);
    if (!status) tokenizer->steps[tokenizer->step_count++] = step;
    return status;
}

void text_release_steps(pco_tokenizer *tokenizer)
{
    for (uint32_t i = 0; i < tokenizer->step_count; i++) pcre2_code_free(tokenizer->steps[i].pattern);
}
