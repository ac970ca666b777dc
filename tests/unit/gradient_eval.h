/* Graphs in float64: each node by the conformance oracle, values kept as doubles from node to node. Forward
 * passes and gradients computed so are exact enough to compare with difference quotients. */
#ifndef PCO_TESTS_GRADIENT_EVAL_H
#define PCO_TESTS_GRADIENT_EVAL_H

#include "check.h"

#include "graph/graph.h"
#include "graph/op_rules.h"
#include "graph/passes.h"
#include "oracle/oracle.h"

/* All composites for which there is no oracle are decomposed; the rest stays. */
static inline pco_graph *eval_lowered(const pco_graph *graph)
{
    unsigned char *decompose = calloc(graph->n_nodes + 1, 1);
    pco_graph *result = NULL;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        uint32_t op = graph->nodes[i].op;
        decompose[i] = pco_op_decomposition(op) != NULL && !oracle_knows(op);
    }
    check_ok(pco_graph_rewrite(graph, &(pco_rewrite_params){.decompose = decompose}, &result, &err));
    free(decompose);
    return result;
}

static inline oracle_rules eval_rules(void)
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
static inline void eval_operand(oracle_operand *operand, const pco_tensor *desc, const double *value)
{
    *operand = (oracle_operand){.desc = desc, .value = value, .count = oracle_count(desc)};
    for (int64_t i = 0; i < operand->count; i++) {
        double size = value[i] < 0 ? -value[i] : value[i];
        if (size > operand->largest) operand->largest = size;
    }
}

/* values[t] of every tensor of the graph. Those of leaves are given (constants are read from the graph);
 * those of nodes are made here, and freed by eval_free. */
static inline void eval_run(const pco_graph *graph, double **values)
{
    oracle_rules rules = eval_rules();
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        const pco_tensor *x = &graph->tensors[t];
        if (x->kind != PCO_KIND_CONSTANT || values[t]) continue;
        values[t] = malloc((size_t)(oracle_count(x) + 1) * sizeof(double));
        oracle_decode(x->dtype, x->data, values[t], oracle_count(x));
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const pco_node *node = &graph->nodes[i];
        oracle_node one = {.op = node->op,
                           .attrs = node->attrs,
                           .n_inputs = node->n_inputs,
                           .n_outputs = node->n_outputs,
                           .rules = &rules};
        for (uint32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] != PCO_NONE)
                eval_operand(&one.in[k], &graph->tensors[node->inputs[k]], values[node->inputs[k]]);
        for (uint32_t k = 0; k < node->n_outputs; k++) one.out[k].desc = graph->tensors[node->outputs[k]];
        check_ok(oracle_run(&one, &err));
        for (uint32_t k = 0; k < node->n_outputs; k++) {
            free(values[node->outputs[k]]);
            values[node->outputs[k]] = one.out[k].value;
            free(one.out[k].bound);
        }
    }
}

/* Frees all values. */
static inline void eval_free(const pco_graph *graph, double **values)
{
    for (uint32_t t = 0; t < graph->n_tensors; t++) free(values[t]);
    free(values);
}

#endif
