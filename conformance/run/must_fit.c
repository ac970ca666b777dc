/* Which nodes a device must run: a form of an op (types, attributes, ranks) that it runs when the operands are small it
 * runs at every size within the limits that it declares (docs/numerics.md). So a refusal that only the size explains is
 * a failure. Composites may be refused: the core decomposes them. */
#include "run/runner.h"

#include "graph/op_rules.h"

#include <inttypes.h>
#include <string.h>

enum { SMALL = 4 /* and 5, so that odd sizes stay odd */, SHARE = 8 };

static int64_t must_product(const pco_tensor *tensor, uint32_t first)
{
    int64_t product = 1;
    for (uint32_t d = first; d < tensor->rank; d++) product *= tensor->shape[d];
    return product;
}

/* The dimension that an op's axis names, of several the first; the last where it names none. */
static uint32_t must_axis(const conf_case *one)
{
    const uint32_t rank = one->in[0].rank, axes = pco_op_axes(conf_case_op(one), one->attrs.bytes, rank);
    uint32_t first = 0;
    while (first + 1 < rank && !(axes >> first & 1)) first++;
    return first;
}

/* Elements of operand or result `tensor` that a kernel has to see at once. `input`: PCO_NONE for a result. */
static int64_t must_piece(const conf_case *one, pco_split_rule split, uint32_t input, const pco_tensor *tensor)
{
    const uint32_t last = tensor->rank ? tensor->rank - 1 : 0, axis = must_axis(one);
    if (one->op == PCO_OP_SCATTER_ADD && input == 1) /* indices are gone through, with what is noted of each */
        return 4 * must_product(tensor, 0);
    switch (split) {
    case PCO_SPLIT_ANY: return 1;
    case PCO_SPLIT_SLICES: {
        const pco_tensor x = conf_operand_tensor(one, 0);
        return input == 1 ? 1 : must_product(&x, axis + 1);
    }
    case PCO_SPLIT_ROWS:
    case PCO_SPLIT_MATMUL: return must_product(tensor, last);
    case PCO_SPLIT_AXIS: /* a result may lack the axis */
        if (input == PCO_NONE && tensor->rank < one->in[0].rank)
            return must_product(tensor, axis < tensor->rank ? axis : tensor->rank);
        return must_product(tensor, axis < last ? axis : last);
    case PCO_SPLIT_OUTER: return must_product(tensor, 1);
    case PCO_SPLIT_PLANES: return must_product(tensor, last ? last - 1 : 0);
    default: return must_product(tensor, 0);
    }
}

/* Where an operand is broadcast and rows of the result share words, a row: what is written from two places of an
 * operand at once must see all that lies between them. */
static int64_t must_row(const conf_problem *problem, pco_split_rule split, const pco_tensor *tensor)
{
    const pco_tensor *y = &problem->tensors[problem->node.outputs[0]];
    if ((split != PCO_SPLIT_ANY && split != PCO_SPLIT_SLICES) || y->rank < 2 || tensor->rank == 0) return 1;
    if ((uint64_t)y->shape[y->rank - 1] * oracle_block_bytes(y->dtype) % 4 == 0) return 1;
    for (uint32_t i = 0; i < problem->node.n_inputs; i++) {
        if (problem->node.inputs[i] == PCO_NONE) continue;
        const int64_t count = must_product(&problem->tensors[problem->node.inputs[i]], 0);
        if (count > 1 && count < must_product(y, 0)) return tensor->shape[tensor->rank - 1];
    }
    return 1;
}

uint64_t conf_split_bytes(const conf_problem *problem, pco_split_rule split)
{
    int64_t most = 0;
    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        const pco_tensor *tensor = &problem->tensors[t];
        uint32_t input = PCO_NONE;
        for (uint32_t i = 0; i < problem->node.n_inputs; i++)
            if (problem->node.inputs[i] == t) input = i;
        if (must_product(tensor, 0) == 0) continue;
        const int64_t piece = must_piece(problem->one, split, input, tensor), row = must_row(problem, split, tensor);
        if (piece > most) most = piece;
        if (row > most) most = row;
    }
    /* What a kernel sees is counted in words: it may hold narrower elements as such. */
    return (uint64_t)most * 4 * SHARE;
}

static bool must_fits(const conf_problem *problem, const pco_device_info *info)
{
    for (uint32_t t = 0; t < problem->n_tensors; t++)
        if (problem->tensors[t].bytes > info->max_allocation / 2) return false;
    return conf_split_bytes(problem, conf_case_op(problem->one)->split) <= info->max_binding;
}

/* block: that of quantised weights along this dimension; 1: none */
static int64_t must_shrunk(int64_t size, int64_t block)
{
    if (block > 1) return size > block ? block : size;
    return size > SMALL + 1 ? SMALL + size % 2 : size;
}

/* The same form with small sizes; false where that is none (sizes that depend on each other). */
static bool must_shrink(const conf_case *one, conf_case *small, conf_problem *problem)
{
    const pco_op_info *info = conf_case_op(one);
    const pco_attr_info *attr;
    pco_error ignored;
    *small = *one;
    int64_t block = 1; /* along K of a matmul with quantised weights */
    for (uint32_t i = 0; i < one->n_inputs; i++)
        if (one->in[i].present && oracle_block_count(one->in[i].dtype) > block)
            block = oracle_block_count(one->in[i].dtype);
    for (uint32_t i = 0; i < one->n_inputs; i++)
        for (uint32_t d = 0; d < one->in[i].rank; d++)
            small->in[i].shape[d] = must_shrunk(one->in[i].shape[d], d + 1 == one->in[i].rank ? block : 1);
    for (uint32_t i = 0; (attr = pco_op_attr(info, i)) != NULL; i++) {
        int64_t *vector = (int64_t *)(void *)(small->attrs.bytes + attr->offset);
        if (attr->type != PCO_ATTR_VECTOR || (strcmp(attr->name, "shape") != 0 && strcmp(attr->name, "sizes") != 0))
            continue;
        for (int64_t k = 0; k < vector[0] && k < PCO_MAX_RANK; k++) vector[1 + k] = must_shrunk(vector[1 + k], 1);
    }
    conf_problem_describe(problem, small);
    return conf_problem_infer(problem, &ignored) == PCO_OK;
}

/* Is the small form run too in the variant that was refused? Another node may have others. */
static bool must_runs(conf_run_state *run, const pco_variant *variant)
{
    pco_variant variants[PCO_VARIANTS];
    uint32_t count;
    pco_error ignored;
    if (pco_trial_supports(&run->trial, &ignored)) return false;
    if (!variant) return true; /* `supports` had refused it */
    if (pco_trial_variants(&run->trial, variants, &count, &ignored)) return false;
    const uint32_t v = pco_variant_find(variants, count, variant);
    if (v == PCO_NONE) return false;
    conf_run_force(run, variants, v);
    return pco_trial_propose(&run->trial, &ignored) == PCO_OK;
}

bool conf_must_fit(const pco_conformance_device *device, const conf_problem *problem, const pco_variant *variant,
                   char *detail, size_t size)
{
    conf_case small;
    conf_problem shrunk;
    const pco_op_info *info = problem->one ? conf_case_op(problem->one) : NULL;
    if (!info || pco_op_decomposition(info->op) || !must_fits(problem, device->info)) return false;
    if (!must_shrink(problem->one, &small, &shrunk)) return false;
    conf_run_state run = conf_run_start(device, &shrunk);
    if (!must_runs(&run, variant)) return false;
    char why[512];
    snprintf(why, sizeof why, "%.511s", detail);
    snprintf(detail, size,
             "refused for its size, which is within the limits that the device declares (%" PRIu64 " bytes seen at "
             "once, buffers of %" PRIu64 "): %.300s",
             device->info->max_binding, device->info->max_allocation, why);
    return true;
}
