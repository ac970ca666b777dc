#include "nn/nn.h"

/* What the caller has of params, with the names that follow from its name; checked. */
static int nn_take_ffn(const pco_nn *nn, pco_nn_ffn_params *known, const pco_nn_ffn_params *params)
{
    if (!pco_nn_take(nn, "pco_nn_ffn", known, sizeof *known, params)) return 0;
    const char *name = known->name ? known->name : "pco_nn_ffn";
    const int gated = known->activation == PCO_NN_SWIGLU || known->activation == PCO_NN_GEGLU;
    if (!pco_nn_size(nn, name, "width", known->width) || !pco_nn_size(nn, name, "hidden", known->hidden)) return 0;
    if ((uint32_t)known->activation > PCO_NN_QUICK_GELU)
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: there is no activation %d", name, (int)known->activation);
    else if (known->experts && (known->activation != PCO_NN_SWIGLU || known->experts < 0 || known->experts > 65536 ||
                                known->experts_used < 1 || known->experts_used > known->experts))
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID,
                       "%s: a mixture of experts has swiglu, and uses from 1 to all of at most 65536 experts", name);
    const struct {
        const char **name, *part;
        int wanted;
    } names[] = {{&known->fc1, "linear1", !gated},   {&known->fc2, "linear2", !gated},
                 {&known->gate, "gate_proj", gated}, {&known->up, "up_proj", gated},
                 {&known->down, "down_proj", gated}, {&known->router, "router", known->experts != 0}};
    for (size_t i = 0; i < sizeof names / sizeof *names && known->name; i++)
        if (names[i].wanted && !*names[i].name) *names[i].name = pco_nn_name(nn, "%s.%s", known->name, names[i].part);
    return !nn->graph->status;
}

uint32_t pco_nn_ffn(const pco_nn *nn, uint32_t x, const pco_nn_ffn_params *params)
{
    pco_nn_ffn_params known;
    if (!nn_take_ffn(nn, &known, params)) return PCO_NONE;
    params = &known;
    pco_nn_linear_params into = {
        .size = sizeof into, .in_features = params->width, .out_features = params->hidden, .bias = params->bias};
    pco_nn_linear_params back = {.size = sizeof back,
                                 .in_features = params->hidden,
                                 .out_features = params->width,
                                 .bias = params->bias,
                                 .role = PCO_NN_ROLE_RESIDUAL};
    if (params->experts) return pco_nn_experts(nn, x, params);
    if (params->activation == PCO_NN_GEGLU) {
        back.name = params->down;
        into.name = params->up;
        const uint32_t up = pco_nn_linear(nn, x, &into);
        into.name = params->gate;
        into.activation = PCO_NN_GELU_TANH;
        const uint32_t gate = pco_nn_linear(nn, x, &into);
        return pco_nn_linear(nn, pco_binary(nn->graph, PCO_OP_MUL, gate, up), &back);
    }
    if (params->activation != PCO_NN_SWIGLU) {
        into.name = params->fc1;
        into.activation = params->activation;
        back.name = params->fc2;
        return pco_nn_linear(nn, pco_nn_linear(nn, x, &into), &back);
    }
    back.name = params->down;
    uint32_t parts[2] = {PCO_NONE, PCO_NONE};
    if (params->gate_up) {
        into.name = params->gate_up;
        into.out_features = 2 * params->hidden;
        parts[0] = pco_nn_linear(nn, x, &into);
    } else {
        into.name = params->gate;
        parts[0] = pco_nn_linear(nn, x, &into);
        into.name = params->up;
        parts[1] = pco_nn_linear(nn, x, &into);
    }
    return pco_nn_linear(nn, pco_graph_add(nn->graph, PCO_OP_SWIGLU, NULL, parts, 2, NULL), &back);
}
