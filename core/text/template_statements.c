/* Statements of a template: from tokens to nodes. */
#include "text/template_parts.h"

#include <stdlib.h>

#include "base/utf8.h"

#define PARSE_NEW(node, parser, kind) \
    do { \
        if (!((node) = tpl_new(parser, kind))) return PCO_ERROR_OUT_OF_HOST_MEMORY; \
    } while (0)

static pco_status parse_tag_end(tpl_parser *parser)
{
    if (parser->at->kind == TPL_TOKEN_BLOCK_END) {
        tpl_advance(parser);
        return PCO_OK;
    }
    if (tpl_at_name(parser, "recursive"))
        return tpl_error(parser, PCO_ERROR_UNSUPPORTED, "'recursive' is not supported");
    return tpl_error(parser, PCO_ERROR_FORMAT, "expected %%}, found '%.*s'", TPL_SHOW(parser->at->text));
}

/* What stands up to {% end... %} of this name, and that tag. */
static pco_status parse_until(tpl_parser *parser, const char *end, tpl_node **body)
{
    const char *const ends[] = {end, NULL};
    pco_status status = parse_tag_end(parser);
    if (!status) status = tpl_parse_body(parser, ends, body);
    if (status) return status;
    tpl_advance(parser);
    return parse_tag_end(parser);
}

/* One after the other: elif is an IF in `otherwise`, without being deeper. */
static pco_status parse_if(tpl_parser *parser, tpl_node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    pco_status status = PCO_OK;
    for (;;) {
        status = tpl_parse_tuple(parser, 0, &node->a);
        if (!status) status = parse_tag_end(parser);
        if (!status) status = tpl_parse_body(parser, ends, &node->body);
        if (status) return status;
        if (!tpl_skip_name(parser, "elif")) break;
        PARSE_NEW(node->otherwise, parser, TPL_IF);
        node = node->otherwise;
    }
    if (tpl_skip_name(parser, "else")) return parse_until(parser, "endif", &node->otherwise);
    tpl_advance(parser);
    return parse_tag_end(parser);
}

/* a, b or (a, b), or ns.a where `attributes`. */
static pco_status parse_targets(tpl_parser *parser, int attributes, tpl_node *of)
{
    tpl_node **next = &of->items;
    const int bracket = tpl_skip_operator(parser, "(");
    pco_status status = PCO_OK;
    do {
        if (of->items && (tpl_at_name(parser, "in") || tpl_at_operator(parser, "="))) break;
        tpl_node *target;
        PARSE_NEW(target, parser, TPL_NAME);
        status = tpl_expect_name(parser, &target->name);
        if (status) return status;
        static const char *const reserved[] = {"true", "false", "none", "True", "False", "None", "loop"};
        for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
            if (tpl_is(target->name, reserved[i]))
                return tpl_error(parser, PCO_ERROR_FORMAT, "'%s' cannot be set", reserved[i]);
        if (attributes && tpl_skip_operator(parser, ".")) {
            PARSE_NEW(target->a, parser, TPL_NAME);
            target->a->name = target->name;
            target->kind = TPL_ATTRIBUTE;
            status = tpl_expect_name(parser, &target->name);
            if (status) return status;
        }
        *next = target;
        next = &target->next;
        of->value = tpl_int(of->items->next != NULL); /* 1: what is assigned is taken apart */
    } while (tpl_at_operator(parser, ",") && (of->value = tpl_int(1), tpl_advance(parser)));
    return bracket ? tpl_expect(parser, ")") : PCO_OK;
}

static pco_status parse_for(tpl_parser *parser, tpl_node *node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    pco_status status = parse_targets(parser, 0, node);
    if (!status && !tpl_skip_name(parser, "in")) status = tpl_error(parser, PCO_ERROR_FORMAT, "expected 'in'");
    if (!status) status = tpl_parse_tuple(parser, 0, &node->a);
    if (!status && tpl_skip_name(parser, "if")) status = tpl_parse_expression(parser, &node->b);
    if (!status) status = parse_tag_end(parser);
    if (status) return status;
    parser->loops++;
    status = tpl_parse_body(parser, ends, &node->body);
    parser->loops--;
    if (status) return status;
    if (tpl_skip_name(parser, "else")) return parse_until(parser, "endfor", &node->otherwise);
    tpl_advance(parser);
    return parse_tag_end(parser);
}

static pco_status parse_set(tpl_parser *parser, tpl_node *node)
{
    pco_status status = parse_targets(parser, 1, node);
    if (status) return status;
    if (tpl_skip_operator(parser, "=")) {
        status = tpl_parse_tuple(parser, 1, &node->a);
        return status ? status : parse_tag_end(parser);
    }
    node->kind = TPL_SET_BLOCK;
    if (tpl_skip_operator(parser, "|")) status = tpl_parse_filters(parser, 1, &node->a);
    return status ? status : parse_until(parser, "endset", &node->body);
}

static pco_status parse_macro(tpl_parser *parser, tpl_node *node)
{
    tpl_node **next = &node->items;
    int defaults = 0;
    pco_status status = tpl_expect_name(parser, &node->name);
    if (!status) status = tpl_expect(parser, "(");
    while (!status && !tpl_skip_operator(parser, ")")) {
        if (node->items) status = tpl_expect(parser, ",");
        if (!status && node->items && tpl_skip_operator(parser, ")")) break;
        PARSE_NEW(*next, parser, TPL_NAME);
        if (!status) status = tpl_expect_name(parser, &(*next)->name);
        if (!status && tpl_skip_operator(parser, "=")) {
            defaults = 1;
            status = tpl_parse_expression(parser, &(*next)->a);
        } else if (!status && defaults) {
            status =
                tpl_error(parser, PCO_ERROR_FORMAT, "a parameter without a default stands behind one with a default");
        }
        next = &(*next)->next;
    }
    const unsigned loops = parser->loops;
    parser->loops = 0;
    if (!status) status = parse_until(parser, "endmacro", &node->body);
    parser->loops = loops;
    return status;
}

static pco_status parse_filter_block(tpl_parser *parser, tpl_node *node)
{
    pco_status status = tpl_parse_filters(parser, 1, &node->a);
    return status ? status : parse_until(parser, "endfilter", &node->body);
}

static pco_status parse_with(tpl_parser *parser, tpl_node *node)
{
    tpl_node **next = &node->items;
    pco_status status = PCO_OK;
    while (!status && parser->at->kind != TPL_TOKEN_BLOCK_END) {
        if (node->items) status = tpl_expect(parser, ",");
        PARSE_NEW(*next, parser, TPL_SET);
        tpl_node *target;
        PARSE_NEW(target, parser, TPL_NAME);
        (*next)->items = target;
        if (!status) status = tpl_expect_name(parser, &target->name);
        if (!status) status = tpl_expect(parser, "=");
        if (!status) status = tpl_parse_expression(parser, &(*next)->a);
        next = &(*next)->next;
    }
    return status ? status : parse_until(parser, "endwith", &node->body);
}

static pco_status parse_generation(tpl_parser *parser, tpl_node *node)
{
    return parse_until(parser, "endgeneration", &node->body);
}

static pco_status parse_jump(tpl_parser *parser, tpl_node *node)
{
    if (parser->loops) return parse_tag_end(parser);
    return tpl_error(parser, PCO_ERROR_FORMAT, "'%s' stands outside of a loop",
                     node->kind == TPL_BREAK ? "break" : "continue");
}

static const struct {
    const char *name;
    tpl_node_kind kind;
    pco_status (*parse)(tpl_parser *parser, tpl_node *node);
} parse_tags[] = {
    {"if", TPL_IF, parse_if},
    {"for", TPL_FOR, parse_for},
    {"set", TPL_SET, parse_set},
    {"macro", TPL_DEFINE, parse_macro},
    {"filter", TPL_FILTER_BLOCK, parse_filter_block},
    {"with", TPL_WITH, parse_with},
    {"generation", TPL_BODY, parse_generation},
    {"break", TPL_BREAK, parse_jump},
    {"continue", TPL_CONTINUE, parse_jump},
};

static pco_status parse_tag(tpl_parser *parser, tpl_node **made)
{
    tpl_text name;
    const tpl_token *at = parser->at;
    PARSE_NEW(*made, parser, TPL_BODY);
    pco_status status = tpl_expect_name(parser, &name);
    if (status) return status;
    for (size_t i = 0; i < sizeof parse_tags / sizeof *parse_tags; i++) {
        if (!tpl_is(name, parse_tags[i].name)) continue;
        (*made)->kind = parse_tags[i].kind;
        return parse_tags[i].parse(parser, *made);
    }
    parser->at = at;
    if (name.size > 3 && memcmp(name.data, "end", 3) == 0)
        return tpl_error(parser, PCO_ERROR_FORMAT, "the tag '%.*s' ends nothing here", TPL_SHOW(name));
    return tpl_error(parser, PCO_ERROR_UNSUPPORTED, "the tag '%.*s' is not supported", TPL_SHOW(name));
}

static pco_status parse_output(tpl_parser *parser, tpl_node **made)
{
    PARSE_NEW(*made, parser, TPL_OUTPUT);
    pco_status status = tpl_parse_tuple(parser, 1, &(*made)->a);
    if (status || parser->at->kind == TPL_TOKEN_VARIABLE_END) {
        if (!status) tpl_advance(parser);
        return status;
    }
    return tpl_error(parser, PCO_ERROR_FORMAT, "expected }}, found '%.*s'", TPL_SHOW(parser->at->text));
}

static pco_status parse_statement(tpl_parser *parser, const char *const *ends, tpl_node **made, int *ended)
{
    const tpl_token *at = tpl_advance(parser);
    switch (at->kind) {
    case TPL_TOKEN_DATA:
        PARSE_NEW(*made, parser, TPL_DATA);
        (*made)->name = at->text;
        return PCO_OK;
    case TPL_TOKEN_VARIABLE: return parse_output(parser, made);
    case TPL_TOKEN_BLOCK: break;
    default: /* nothing else stands outside of tags */
        parser->at = at;
        if (!ends) return *ended = 1, PCO_OK;
        return tpl_error(parser, PCO_ERROR_FORMAT, "the template ends where '%s' is missing", ends[0]);
    }
    for (int i = 0; ends && ends[i]; i++)
        if (tpl_at_name(parser, ends[i])) return *ended = 1, PCO_OK;
    return parse_tag(parser, made);
}

pco_status tpl_parse_body(tpl_parser *parser, const char *const *ends, tpl_node **body)
{
    int ended = 0;
    pco_status status = tpl_enter(parser);
    *body = NULL;
    while (!status && !ended) {
        status = parse_statement(parser, ends, body, &ended);
        if (!status && !ended) body = &(*body)->next;
    }
    tpl_leave(parser);
    return status;
}

pco_status pco_template_parse(const char *text, size_t size, const char *label, pco_template **made, pco_error *err)
{
    *made = NULL;
    if (size > PCO_TEMPLATE_MOST)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: the chat template has %zu bytes; at most %d are possible", label,
                        size, PCO_TEMPLATE_MOST);
    if (pco_utf8_check(text, size) != size)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: the chat template is no UTF-8 at byte %zu", label,
                        pco_utf8_check(text, size));
    pco_template *template = calloc(1, sizeof *template);
    if (template) template->label = strdup(label);
    if (!template || !template->label) {
        pco_template_destroy(template);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a template");
    }
    template->size = size;
    pco_arena tokens = {0};
    const tpl_token *first;
    pco_status status = tpl_lex(text, size, label, &template->arena, &tokens, &first, err);
    tpl_parser parser = {.at = first, .made = template, .err = err};
    if (!status) status = tpl_parse_body(&parser, NULL, &template->body);
    pco_arena_release(&tokens);
    if (status)
        pco_template_destroy(template);
    else
        *made = template;
    return status;
}

void pco_template_destroy(pco_template *made)
{
    if (!made) return;
    pco_arena_release(&made->arena);
    free(made->label);
    free(made);
}
