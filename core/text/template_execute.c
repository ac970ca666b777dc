/* Statements of a template, executed, and its rendering as a whole.
 *
 * Scopes are as in Jinja: the bodies of loops (anew each time), macros, `with` and blocks that are captured have one of
 * their own; what is set there is gone behind them. */
#include "text/template_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pco_status execute_enter(tpl_run *run, tpl_scope *up, tpl_scope **scope)
{
    pco_status status = tpl_allocate(run, sizeof **scope, scope);
    if (status) return status;
    (*scope)->up = up;
    run->scope = *scope;
    return PCO_OK;
}

pco_status tpl_assign(tpl_run *run, tpl_text name, tpl_value value)
{
    tpl_variable *variable = run->scope->first;
    size_t seen = 0;
    for (; variable && !tpl_same(variable->name, name); variable = variable->next) seen++;
    if (variable) variable->value = value;
    pco_status status = tpl_work(run, 32 * seen);
    if (variable || status) return status;
    status = tpl_allocate(run, sizeof *variable, &variable);
    if (status) return status;
    *variable = (tpl_variable){name, value, run->scope->first};
    run->scope->first = variable;
    return PCO_OK;
}

static pco_status execute_target(tpl_run *run, const tpl_node *target, tpl_value value)
{
    if (target->kind == TPL_NAME) return tpl_assign(run, target->name, value);
    tpl_value space;
    pco_status status = tpl_evaluate(run, target->a, &space);
    if (status) return status;
    if (space.kind != TPL_NAMESPACE)
        return tpl_fail(run, PCO_ERROR_INVALID, "'%.*s' is %s, and only a namespace's attributes can be set",
                        TPL_SHOW(target->a->name), tpl_kind_name(&space));
    return tpl_dict_set(run, &space, tpl_string(target->name), value);
}

/* One value to one name, or the items of it to several. */
static pco_status execute_targets(tpl_run *run, const tpl_node *node, tpl_value value)
{
    tpl_value items;
    size_t count = 0;
    if (node->kind == TPL_SET_BLOCK || !node->value.integer) return execute_target(run, node->items, value);
    pco_status status = tpl_items(run, &value, &items);
    if (status) return status;
    for (const tpl_node *target = node->items; target; target = target->next) count++;
    if (count != items.list->count)
        return tpl_fail(run, PCO_ERROR_INVALID, "%zu names for %zu items", count, items.list->count);
    count = 0;
    for (const tpl_node *target = node->items; target && !status; target = target->next)
        status = execute_target(run, target, items.list->items[count++]);
    return status;
}

/* What the body writes, as a string. */
static pco_status execute_captured(tpl_run *run, tpl_scope *up, const tpl_node *body, tpl_value *text)
{
    pco_writer out = {0}, *const outer = run->out;
    tpl_scope *scope, *const kept = run->scope;
    pco_status status = execute_enter(run, up, &scope);
    run->out = &out;
    if (!status) status = tpl_execute(run, body);
    run->out = outer;
    run->scope = kept;
    if (!status) return tpl_take(run, &out, text);
    pco_writer_release(&out);
    return status;
}

/* The filters of a block: those at `node`, of which the first has no operand yet. */
static pco_status execute_filters(tpl_run *run, const tpl_node *node, tpl_value *text)
{
    tpl_node first = {.kind = TPL_CONSTANT, .line = node->line, .value = *text};
    tpl_node copies[16];
    size_t count = 0;
    for (const tpl_node *at = node; at; at = at->a) {
        if (count == sizeof copies / sizeof *copies)
            return tpl_fail(run, PCO_ERROR_UNSUPPORTED, "more than %zu filters on a block are not supported", count);
        copies[count++] = *at;
    }
    for (size_t i = 0; i < count; i++) copies[i].a = i + 1 < count ? &copies[i + 1] : &first;
    return tpl_evaluate(run, copies, text);
}

static pco_status execute_block(tpl_run *run, const tpl_node *node)
{
    tpl_value text;
    pco_status status = execute_captured(run, run->scope, node->body, &text);
    if (!status && node->a) status = execute_filters(run, node->a, &text);
    if (status) return status;
    return node->kind == TPL_SET_BLOCK ? execute_targets(run, node, text) : tpl_write(run, run->out, &text);
}

static pco_status execute_with(tpl_run *run, const tpl_node *node)
{
    tpl_scope *scope, *const kept = run->scope, *inner = NULL;
    pco_status status = execute_enter(run, kept, &inner);
    for (const tpl_node *item = node->items; item && !status; item = item->next) {
        tpl_value value;
        run->scope = kept; /* values are those of outside */
        status = tpl_evaluate(run, item->a, &value);
        run->scope = inner;
        if (!status) status = tpl_assign(run, item->items->name, value);
    }
    if (!status) status = execute_enter(run, inner, &scope);
    if (!status) status = tpl_execute(run, node->body);
    run->scope = kept;
    return status;
}

/* ---- loops ---- */

/* The items for which the loop's condition holds. */
static pco_status execute_select(tpl_run *run, const tpl_node *node, tpl_value *items)
{
    tpl_value kept;
    tpl_scope *scope, *const outer = run->scope;
    pco_status status = tpl_list_create(run, TPL_LIST, 0, &kept);
    for (size_t i = 0; i < items->list->count && !status; i++) {
        tpl_value is;
        status = execute_enter(run, outer, &scope);
        if (!status) status = execute_targets(run, node, items->list->items[i]);
        if (!status) status = tpl_evaluate(run, node->b, &is);
        if (!status && tpl_true(&is)) status = tpl_list_add(run, &kept, items->list->items[i]);
    }
    run->scope = outer;
    *items = kept;
    return status;
}

static pco_status execute_for(tpl_run *run, const tpl_node *node)
{
    tpl_value of, items;
    tpl_loop *loop = NULL;
    tpl_scope *scope, *const outer = run->scope;
    pco_status status = tpl_evaluate(run, node->a, &of);
    if (!status) status = tpl_items(run, &of, &items);
    if (!status && node->b) status = execute_select(run, node, &items);
    if (!status) status = tpl_allocate(run, sizeof *loop, &loop);
    if (status) return status;
    *loop = (tpl_loop){.items = items.list, .depth = 1};
    const tpl_value shown = {.kind = TPL_LOOP, .loop = loop};
    for (; loop->index < items.list->count && !status; loop->index++) {
        status = execute_enter(run, outer, &scope);
        if (!status) status = tpl_assign(run, TPL_TEXT("loop"), shown);
        if (!status) status = execute_targets(run, node, items.list->items[loop->index]);
        if (!status) status = tpl_execute(run, node->body);
        if (run->flow == TPL_BROKEN) break;
        run->flow = TPL_ON;
    }
    run->flow = TPL_ON;
    run->scope = outer;
    if (status || items.list->count || !node->otherwise) return status;
    status = execute_enter(run, outer, &scope);
    if (!status) status = tpl_execute(run, node->otherwise);
    run->scope = outer;
    return status;
}

/* ---- macros ---- */

static pco_status execute_define(tpl_run *run, const tpl_node *node)
{
    tpl_macro *macro;
    pco_status status = tpl_allocate(run, sizeof *macro, &macro);
    if (status) return status;
    *macro = (tpl_macro){node, run->scope};
    return tpl_assign(run, node->name, (tpl_value){.kind = TPL_MACRO, .macro = macro});
}

/* The argument for parameter number `index`; NULL: none was given. */
static pco_status macro_argument(tpl_run *run, const tpl_macro *macro, const tpl_node *parameter, size_t index,
                                 const tpl_arguments *arguments, const tpl_value **found)
{
    *found = index < arguments->plain ? &arguments->values[index] : NULL;
    for (size_t i = arguments->plain; i < arguments->count; i++) {
        if (!tpl_same(arguments->names[i], parameter->name)) continue;
        if (*found)
            return tpl_fail(run, PCO_ERROR_INVALID, "macro '%.*s' gets '%.*s' twice", TPL_SHOW(macro->node->name),
                            TPL_SHOW(parameter->name));
        *found = &arguments->values[i];
    }
    return tpl_work(run, 32 * arguments->count);
}

static pco_status execute_macro(tpl_run *run, const tpl_macro *macro, const tpl_arguments *arguments, tpl_value *value)
{
    tpl_scope *scope, *const kept = run->scope;
    size_t index = 0, used = 0;
    pco_status status = execute_enter(run, macro->scope, &scope);
    if (status) return status;
    scope->of_macro = 1;
    for (const tpl_node *p = macro->node->items; p && !status; p = p->next) {
        const tpl_value *given;
        tpl_value one = tpl_undefined(p->name);
        status = macro_argument(run, macro, p, index++, arguments, &given);
        if (given) used++;
        if (given)
            one = *given;
        else if (!status && p->a)
            status = tpl_evaluate(run, p->a, &one);
        if (!status) status = tpl_assign(run, p->name, one);
    }
    if (!status && used < arguments->count)
        status = tpl_fail(run, PCO_ERROR_INVALID, "macro '%.*s' has no place for %zu of its arguments",
                          TPL_SHOW(macro->node->name), arguments->count - used);
    if (!status) status = execute_captured(run, scope, macro->node->body, value);
    run->scope = kept;
    return status;
}

/* ---- statements ---- */

static pco_status execute_if(tpl_run *run, const tpl_node *node)
{
    for (; node; node = node->otherwise) {
        tpl_value is;
        pco_status status = tpl_evaluate(run, node->a, &is);
        if (status) return status;
        if (tpl_true(&is)) return tpl_execute(run, node->body);
        if (node->otherwise && (node->otherwise->next || node->otherwise->kind != TPL_IF))
            return tpl_execute(run, node->otherwise);
    }
    return PCO_OK;
}

static pco_status execute_value(tpl_run *run, const tpl_node *node)
{
    tpl_value value;
    pco_status status = tpl_evaluate(run, node->a, &value);
    if (status) return status;
    run->line = node->line;
    return node->kind == TPL_OUTPUT ? tpl_write(run, run->out, &value) : execute_targets(run, node, value);
}

static pco_status execute_one(tpl_run *run, const tpl_node *node)
{
    run->line = node->line;
    switch (node->kind) {
    case TPL_DATA: pco_write(run->out, node->name.data, node->name.size); return tpl_work(run, node->name.size);
    case TPL_OUTPUT:
    case TPL_SET: return execute_value(run, node);
    case TPL_IF: return execute_if(run, node);
    case TPL_FOR: return execute_for(run, node);
    case TPL_SET_BLOCK:
    case TPL_FILTER_BLOCK: return execute_block(run, node);
    case TPL_DEFINE: return execute_define(run, node);
    case TPL_WITH: return execute_with(run, node);
    case TPL_BREAK: run->flow = TPL_BROKEN; return PCO_OK;
    case TPL_CONTINUE: run->flow = TPL_CONTINUED; return PCO_OK;
    default: return tpl_execute(run, node->body);
    }
}

pco_status tpl_execute(tpl_run *run, const tpl_node *body)
{
    pco_status status = PCO_OK;
    if (run->depth >= TPL_DEPTH)
        return tpl_fail(run, PCO_ERROR_INVALID, "the template calls itself more than %d deep", TPL_DEPTH);
    run->depth++;
    for (; body && !status && run->flow == TPL_ON; body = body->next) {
        status = tpl_work(run, 0);
        if (!status) status = execute_one(run, body);
        if (!status && run->out->size > run->budget)
            status = tpl_fail(run, PCO_ERROR_INVALID, "the template writes more than %zu bytes", run->budget);
    }
    run->depth--;
    return status;
}

/* Bytes of the texts of a document, about. */
static size_t render_size(const cJSON *json, unsigned depth)
{
    size_t size = 0;
    for (const cJSON *item = json->child; item && depth < TPL_NESTING; item = item->next) {
        size += 16 + (item->string ? strlen(item->string) : 0) + (cJSON_IsString(item) ? strlen(item->valuestring) : 0);
        if (item->child) size += render_size(item, depth + 1);
    }
    return size;
}

static pco_status render_run(tpl_run *run, const cJSON *variables)
{
    tpl_scope *scope;
    const cJSON *item;
    pco_status status = execute_enter(run, NULL, &scope);
    cJSON_ArrayForEach(item, variables)
    {
        tpl_value value;
        if (!status) status = tpl_from_json(run, item, 0, &value);
        if (!status) status = tpl_assign(run, (tpl_text){item->string, strlen(item->string)}, value);
    }
    if (!status) status = execute_enter(run, scope, &scope);
    return status ? status : tpl_execute(run, run->made->body);
}

pco_status pco_template_render(const pco_template *made, const cJSON *variables, int64_t now, char **text,
                               size_t *bytes, pco_error *err)
{
    /* A template that collects what it writes takes the square of a chat's length; 64 times the chat leaves room for
     * it. */
    enum { BUDGET = 1 << 23, STEPS = 1 << 22, OF_CHAT = 64, OF_TEMPLATE = 10, STEPS_OF_BOTH = 16 };
    const size_t chat = render_size(variables, 0);
    pco_writer out = {0};
    tpl_run run = {.made = made,
                   .budget = BUDGET + OF_CHAT * chat + OF_TEMPLATE * made->size,
                   .most_steps = STEPS + STEPS_OF_BOTH * (uint64_t)(chat + made->size),
                   .out = &out,
                   .now = now,
                   .call_macro = execute_macro,
                   .line = 1,
                   .err = err};
    *text = NULL;
    *bytes = 0;
    pco_status status = render_run(&run, variables);
    if (!status) status = pco_writer_check(&out, "a chat", err);
    if (!status && !out.data) pco_write_text(&out, "");
    pco_arena_release(&run.arena);
    if (!status && out.data) {
        *text = out.data;
        *bytes = out.size;
        return PCO_OK;
    }
    pco_writer_release(&out);
    return status ? status : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a chat");
}
