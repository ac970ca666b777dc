/* Operations that a library declares, to be judged as those of the table are. */
#include "cli/conformance_parts.h"

#include "cases/cases_own.h"
#include "graph/own.h"
#include "run/own_gradient.h"
#include "runtime/loader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conformance_own {
    int failed; /* a gradient is wrong */
    uint32_t count;
    const pco_operation *operations[];
};

/* How many declarations there are, for room; a library may not go on without end. */
static uint32_t own_count(pco_ops_query_fn query)
{
    enum { MOST = 4096 };
    uint32_t count = 0;
    while (count < MOST && query(count)) count++;
    return count;
}

/* "snake,foo": the pattern that selects these and no others. */
static char *own_names(const struct conformance_own *own)
{
    char *names = calloc(own->count, 33);
    for (uint32_t i = 0; names && i < own->count; i++) {
        if (i) strcat(names, ",");
        strcat(names, own->operations[i]->info.name);
    }
    return names;
}

/* Says what is judged of an operation, in one line, and judges its gradient. Returns the exit status, after a message
 * where what is declared for tests is wrong. */
static int own_tell(const conformance_arguments *arguments, const pco_operation *operation)
{
    const pco_op_declaration *d = &operation->declaration;
    conf_own_coverage coverage;
    conf_own_gradient gradient = {.right = 1};
    pco_error err;
    if (conf_cases_own_coverage(operation, arguments->options.tier, &coverage, &err)) return cli_fail(&err), CLI_USAGE;
    if (arguments->internal) return CLI_OK;
    if (d->gradient && conf_own_gradient_judge(operation, &gradient, &err)) return cli_fail(&err);
    cli_note("conformance: %s: %" PRIu32 " cases", d->name, coverage.cases);
    if (coverage.tried < coverage.combinations)
        cli_note(", types in %" PRIu64 " of %" PRIu64 " combinations: each pair of two letters' types", coverage.tried,
                 coverage.combinations);
    if (coverage.refused) cli_note(", %" PRIu32 " more are refused by its function shape", coverage.refused);
    if (d->n_attributes && !d->n_settings) cli_note("; attributes at their initial values: it lists no settings");
    if (!d->gradient)
        fputs("; it has no gradient\n", stderr);
    else if (gradient.right)
        cli_note("; its gradient is right in %" PRIu32 " cases, at most %.2g of the bound\n", gradient.cases,
                 gradient.worst);
    else
        cli_note("; its gradient is WRONG: %s\n", gradient.detail);
    if (!gradient.right) arguments->own->failed = 1;
    return CLI_OK;
}

int conformance_own_failed(const conformance_arguments *arguments) { return arguments->own && arguments->own->failed; }

int conformance_own_load(conformance_arguments *arguments)
{
    pco_conformance_options *options = &arguments->options;
    pco_error err;
    pco_ops_query_fn query;
    void *handle; /* stays open: what it declares is used to the end */
    if (!options->own_from) return CLI_OK;
    if (pco_loader_operations(options->own_from, &handle, &query, &err)) return cli_fail(&err);
    const uint32_t count = own_count(query);
    arguments->own = calloc(1, sizeof *arguments->own + (count + 1) * sizeof(pco_operation *));
    if (!arguments->own) {
        cli_error("out of host memory");
        return CLI_FAILED;
    }
    for (uint32_t i = 0; i < count; i++) {
        pco_operation *operation;
        if (pco_operation_create(query(i), &operation, &err)) return cli_fail(&err);
        arguments->own->operations[arguments->own->count++] = operation;
        const int told = own_tell(arguments, operation);
        if (told) return told;
    }
    if (!count) {
        cli_error("%s declares no operations", options->own_from);
        return CLI_USAGE;
    }
    options->own = arguments->own->operations;
    options->n_own = count;
    if (!options->ops && !(options->ops = arguments->own_ops = own_names(arguments->own))) {
        cli_error("out of host memory");
        return CLI_FAILED;
    }
    return CLI_OK;
}

void conformance_own_clear(conformance_arguments *arguments)
{
    for (uint32_t i = 0; arguments->own && i < arguments->own->count; i++)
        pco_operation_drop((pco_operation *)(uintptr_t)arguments->own->operations[i]);
    free(arguments->own);
    free(arguments->own_ops);
}
