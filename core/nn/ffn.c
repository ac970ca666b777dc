#include "nn/nn.h"

uint32_t pco_nn_ffn(const pco_nn *nn, uint32_t x, const pco_nn_ffn_params *params)
{
    pco_nn_linear_params into = {.in_features = params->width, .out_features = params->hidden, .bias = params->bias};
    pco_nn_linear_params back = {.in_features = params->hidden,
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
