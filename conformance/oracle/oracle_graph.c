#include "oracle/oracle_graph.h"

#include "base/error.h"
#include "graph/op_rules.h"
#include "graph/passes.h"

#include <stdlib.h>

pco_status oracle_graph_lower(const pco_graph *graph, pco_graph **lowered, pco_error *err)
{
    unsigned char *decompose = calloc(graph->n_nodes + 1, 1);
    if (!decompose) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "oracle: no memory");
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const uint32_t op = graph->nodes[i].op;
        decompose[i] = pco_op_decomposition(op) != NULL && !oracle_knows(op);
    }
    const pco_status status = pco_graph_rewrite(graph, &(pco_rewrite_params){.decompose = decompose}, lowered, err);
    free(decompose);
    return status;
}

static oracle_rules graph_rules(void)
{
    pco_contract contract = {.compute = PCO_CONTRACT_F64,
                             .accumulate_f32 = PCO_CONTRACT_F64,
                             .accumulate_f16 = PCO_CONTRACT_F64,
                             .accumulate_bf16 = PCO_CONTRACT_F64,
                             .round_to_nearest = 1,
                             .subnormals = 1,
                             .nan_inf = 1,
                             .div_ulp = 0.5f,
                             .sqrt_ulp = 0.5f,
                             .rsqrt_ulp = 0.501f,
                             .function_ulp = 0.501f};
    return oracle_rules_from(&contract);
}

/* What the oracle looks at beside the values: nothing here rests on it being right. */
static void graph_operand(oracle_operand *operand, const pco_tensor *desc, const double *value)
{
    *operand = (oracle_operand){.desc = desc, .value = value, .count = oracle_count(desc)};
    for (int64_t i = 0; i < operand->count; i++) {
        const double size = value[i] < 0 ? -value[i] : value[i];
        if (size > operand->largest) operand->largest = size;
    }
}

static pco_status graph_node(const pco_graph *graph, const pco_node *node, const oracle_rules *rules, double **values,
                             pco_error *err)
{
    oracle_node one = {
        .op = node->op, .attrs = node->attrs, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs, .rules = rules};
    for (uint32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] != PCO_NONE)
            graph_operand(&one.in[k], &graph->tensors[node->inputs[k]], values[node->inputs[k]]);
    for (uint32_t k = 0; k < node->n_outputs; k++) one.out[k].desc = graph->tensors[node->outputs[k]];
    const pco_status status = oracle_run(&one, err);
    for (uint32_t k = 0; k < node->n_outputs; k++) {
        free(values[node->outputs[k]]);
        values[node->outputs[k]] = one.out[k].value;
        free(one.out[k].bound);
    }
    return status;
}

pco_status oracle_graph_run(const pco_graph *graph, double **values, pco_error *err)
{
    const oracle_rules rules = graph_rules();
    pco_status status = PCO_OK;
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        const pco_tensor *x = &graph->tensors[t];
        if (x->kind != PCO_KIND_CONSTANT || values[t]) continue;
        values[t] = malloc((size_t)(oracle_count(x) + 1) * sizeof(double));
        if (!values[t]) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "oracle: no memory");
        oracle_decode(x->dtype, x->data, values[t], oracle_count(x));
    }
    for (uint32_t i = 0; i < graph->n_nodes && !status; i++)
        status = graph_node(graph, &graph->nodes[i], &rules, values, err);
    return status;
}

void oracle_graph_free(const pco_graph *graph, double **values)
{
    for (uint32_t t = 0; values && t < graph->n_tensors; t++) free(values[t]);
    free(values);
}
