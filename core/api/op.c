/* Operations of a context: those that the program registers, and those that plugins declare. */
#include "api/api.h"

#include "base/env.h"

#include <stdlib.h>
#include <string.h>

struct pco_registered {
    pco_registered *next;
    pco_operation *operation;
};

const pco_operation *pco_op_lookup(const pco_context *context, const char *name)
{
    const pco_registered *at = context && name ? context->operations : NULL;
    while (at && strcmp(at->operation->declaration.name, name) != 0) at = at->next;
    return at ? at->operation : NULL;
}

/* Numbers are made of names: two names may have one number, which is as unlikely as it is fatal. */
static const pco_operation *op_of_number(const pco_context *context, pco_op number)
{
    const pco_registered *at = context->operations;
    while (at && at->operation->info.op != number) at = at->next;
    return at ? at->operation : NULL;
}

static pco_status op_add(pco_context *context, const pco_op_declaration *declaration, const pco_operation **operation,
                         pco_error *err)
{
    pco_operation *made;
    pco_status status = pco_operation_create(declaration, &made, err);
    if (status) return status;
    const pco_operation *other = op_of_number(context, made->info.op);
    pco_registered *added = calloc(1, sizeof *added);
    if (other && !strcmp(other->declaration.name, made->declaration.name))
        status = pco_fail(err, PCO_ERROR_INVALID, "op '%s' is registered already", made->declaration.name);
    else if (other)
        status = pco_fail(err, PCO_ERROR_INVALID, "op '%s' and op '%s' have names of one number; choose another name",
                          made->declaration.name, other->declaration.name);
    else if (!added)
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for an operation");
    if (status) {
        pco_operation_drop(made);
        free(added);
        return status;
    }
    *added = (pco_registered){.next = context->operations, .operation = made};
    context->operations = added;
    *operation = made;
    return PCO_OK;
}

pco_status pco_op_register(pco_context *context, const pco_op_declaration *declaration, const pco_operation **operation,
                           pco_error *err)
{
    PCO_NEEDS(operation);
    *operation = NULL;
    PCO_NEEDS(context);
    PCO_NEEDS(declaration);
    PCO_ENTER(context->registry);
    return op_add(context, declaration, operation, err);
}

void api_plugin_operations(pco_context *context)
{
    const pco_plugin_entry *plugins;
    const uint32_t count = pco_registry_plugins(context->registry, &plugins);
    for (uint32_t p = 0; p < count; p++) {
        const pco_ops_query_fn query = plugins[p].plugin ? plugins[p].tables->operations : NULL;
        const pco_op_declaration *declaration;
        for (uint32_t i = 0; query && (declaration = query(i)) != NULL; i++) {
            const pco_operation *ignored;
            pco_error err;
            if (op_add(context, declaration, &ignored, &err))
                pco_log_line(pco_registry_config(context->registry), PCO_LOG_WARNING, "%s: %s", plugins[p].path,
                             err.message);
        }
    }
}

void api_drop_operations(pco_context *context)
{
    for (pco_registered *at = context->operations, *next; at; at = next) {
        next = at->next;
        pco_operation_drop(at->operation);
        free(at);
    }
}
