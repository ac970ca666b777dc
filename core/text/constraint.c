/* Tokens are gone through in the order of their bytes, so that those that begin alike are followed together. */
#include "text/constraint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct constraint_token {
    const char *bytes; /* owned by the tokenizer, or NULL for nothing */
    size_t size;
    int32_t id;
} constraint_token;

struct pco_constraint {
    const pco_tokenizer *tokenizer;
    pco_grammar_text *text;
    constraint_token *tokens; /* [count], sorted */
    int64_t count;
    int begun; /* the state that `tokens` are for; -1: not made yet */
};

static int constraint_order(const void *a, const void *b)
{
    const constraint_token *x = a, *y = b;
    const size_t size = x->size < y->size ? x->size : y->size;
    const int order = size ? memcmp(x->bytes, y->bytes, size) : 0;
    if (order) return order;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* The bytes of each token, which the tokenizer keeps. */
static pco_status constraint_tokens(pco_constraint *c, int begun, pco_error *err)
{
    if (c->begun == begun) return PCO_OK;
    for (int64_t id = 0; id < c->count; id++) {
        pco_decoder decoder = PCO_DECODER(c->tokenizer);
        const char *piece = NULL;
        size_t size = 0;
        decoder.begun = begun;
        const int known = id < (int64_t)pco_tokenizer_vocab_size(c->tokenizer); /* some models pad their logits */
        const pco_status status = !known ? PCO_OK : pco_decoder_next(&decoder, (int32_t)id, &piece, &size, err);
        if (status) return status;
        c->tokens[id] = (constraint_token){piece, size, (int32_t)id};
    }
    qsort(c->tokens, (size_t)c->count, sizeof *c->tokens, constraint_order);
    c->begun = begun;
    return PCO_OK;
}

pco_status pco_constraint_create(const pco_grammar *grammar, const pco_tokenizer *tokenizer, int64_t count,
                                 pco_constraint **constraint, pco_error *err)
{
    pco_constraint *c = *constraint = calloc(1, sizeof *c);
    if (c) c->tokens = malloc((size_t)count * sizeof *c->tokens);
    if (!c || !c->tokens) {
        pco_constraint_destroy(c);
        *constraint = NULL;
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a grammar");
    }
    c->tokenizer = tokenizer;
    c->count = count;
    c->begun = -1;
    const pco_status status = pco_grammar_begin(grammar, &c->text, err);
    if (!status) return PCO_OK;
    pco_constraint_destroy(c);
    *constraint = NULL;
    return status;
}

void pco_constraint_destroy(pco_constraint *c)
{
    if (!c) return;
    pco_grammar_end(c->text);
    free(c->tokens);
    free(c);
}

pco_status pco_constraint_mask(pco_constraint *c, float *logits, int begun, int (*ends)(const void *user, int32_t id),
                               const void *user, int64_t *left, pco_error *err)
{
    const size_t base = pco_grammar_size(c->text);
    const int complete = pco_grammar_complete(c->text);
    pco_status status = constraint_tokens(c, begun, err);
    const constraint_token *before = NULL; /* the token that was followed last */
    size_t refused = SIZE_MAX;             /* its byte that was not allowed */
    *left = 0;
    for (int64_t i = 0; !status && i < c->count; i++) {
        const constraint_token *token = &c->tokens[i];
        int allowed = token->size > 0;
        if (ends(user, token->id) || !token->size) {
            if (complete && ends(user, token->id))
                ++*left;
            else
                logits[token->id] = -INFINITY;
            continue;
        }
        size_t same = 0;
        while (before && same < before->size && same < token->size && before->bytes[same] == token->bytes[same]) same++;
        if (before && same > refused) {
            logits[token->id] = -INFINITY;
            continue;
        }
        pco_grammar_cut(c->text, base + same);
        refused = SIZE_MAX;
        for (size_t k = same; !status && allowed && k < token->size; k++) {
            status = pco_grammar_push(c->text, (unsigned char)token->bytes[k], &allowed, err);
            if (!allowed) refused = k;
        }
        before = token;
        if (allowed && logits[token->id] > -INFINITY)
            ++*left;
        else
            logits[token->id] = -INFINITY;
    }
    pco_grammar_cut(c->text, base);
    return status;
}

pco_status pco_constraint_accept(pco_constraint *c, const char *bytes, size_t size, pco_error *err)
{
    for (size_t i = 0; i < size; i++) {
        int allowed;
        const pco_status status = pco_grammar_push(c->text, (unsigned char)bytes[i], &allowed, err);
        if (status) return status;
        if (!allowed) return pco_fail(err, PCO_ERROR_INVALID, "the grammar does not allow the token that was chosen");
    }
    return PCO_OK;
}

int pco_constraint_complete(const pco_constraint *c) { return pco_grammar_complete(c->text); }
