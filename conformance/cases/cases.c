/* The list of cases: each op's own, and the groups beside them. */
#include "cases/cases.h"
#include "cases/lists.h"

#include "graph/op.h"

#include <fnmatch.h>
#include <string.h>

typedef void (*conf_cases_fn)(conf_cases_context *context, pco_op op);

typedef struct conf_cases_row {
    pco_op op;
    conf_cases_fn list;
} conf_cases_row;

static const conf_cases_row ROWS[] = {
#define PCO_OP(id, upper, name, family, ...) {PCO_OP_##upper, conf_cases_##family},
#include "graph/ops.def"
};

/* Groups of cases beside each op's own list: each adds what it has for the op. */
static const conf_cases_fn GROUPS[] = {conf_cases_contract,   conf_cases_real,   conf_cases_twins,
                                       conf_cases_traps,      conf_cases_missed, conf_cases_constants,
                                       conf_cases_dimensions, conf_cases_chain,  conf_cases_edges,
                                       conf_cases_large,      conf_cases_small,  conf_cases_full};

/* Several patterns may stand in a row with commas between. */
static bool conf_cases_match(const char *pattern, const char *name)
{
    char one[128];
    while (pattern) {
        const char *comma = strchr(pattern, ',');
        size_t length = comma ? (size_t)(comma - pattern) : strlen(pattern);
        snprintf(one, sizeof one, "%.*s", (int)length, pattern);
        if (fnmatch(one, name, 0) == 0) return true;
        pattern = comma ? comma + 1 : NULL;
    }
    return false;
}

void conf_cases_visit(pco_conformance_tier tier, const char *pattern, conf_visit_fn visit, void *user)
{
    conf_cases_visit_on(NULL, tier, pattern, visit, user);
}

/* Where a device names no edges: powers of two, as most kernels have them. */
static void conf_cases_edges_of(conf_cases_context *context, const pco_device_info *info)
{
    static const uint32_t USUAL[] = {8, 16, 32, 64, 128, 256};
    context->n_edges = info ? info->n_edges : 0;
    context->binding = info ? info->max_binding : 0;
    if (context->n_edges > PCO_MAX_EDGES) context->n_edges = PCO_MAX_EDGES;
    if (context->n_edges) {
        memcpy(context->edges, info->edges, context->n_edges * sizeof *context->edges);
        return;
    }
    context->n_edges = sizeof USUAL / sizeof *USUAL;
    memcpy(context->edges, USUAL, sizeof USUAL);
}

void conf_cases_visit_on(const pco_device_info *info, pco_conformance_tier tier, const char *pattern,
                         conf_visit_fn visit, void *user)
{
    /* 264 KiB, and not from the heap: a list that there is no memory for would look like an empty one */
    conf_cases_context all = {0}, *context = &all;
    conf_cases_edges_of(context, info);
    context->tier = tier, context->pattern = pattern, context->visit = visit, context->user = user;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0] && !context->stopped; i++) {
        const char *name = pco_op_find(ROWS[i].op)->name;
        if (pattern && !conf_cases_match(pattern, name)) continue;
        context->n_kinds = 0;
        ROWS[i].list(context, ROWS[i].op);
        for (size_t g = 0; g < sizeof GROUPS / sizeof GROUPS[0]; g++) GROUPS[g](context, ROWS[i].op);
    }
}

void conf_cases_visit_all(const pco_device_info *info, const pco_conformance_options *options, conf_visit_fn visit,
                          void *user)
{
    conf_cases_context all = {0}, *context = &all;
    conf_cases_visit_on(info, options->tier, options->ops, visit, user);
    if (!options->n_own) return;
    conf_cases_edges_of(context, info);
    context->tier = options->tier, context->visit = visit, context->user = user;
    for (uint32_t i = 0; i < options->n_own && !context->stopped; i++) {
        if (options->ops && !conf_cases_match(options->ops, options->own[i]->info.name)) continue;
        context->n_kinds = 0;
        conf_cases_own(context, options->own[i]);
    }
}

bool conf_cases_is_slow(uint32_t op)
{
    return op == PCO_OP_MATMUL || op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION ||
           op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD;
}

bool conf_case_is_selected(const conf_case *one, const pco_conformance_options *options)
{
    const pco_conformance_slice slice = options->slice;
    if (options->case_id && options->case_id != one->id) return false;
    return !slice.count || one->id % slice.count == slice.number - 1; /* ids are hashes of what the cases are */
}
