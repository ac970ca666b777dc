#include "nn/nn.h"

uint32_t pco_nn_norm(const pco_nn *nn, uint32_t x, const char *name, const pco_nn_norm_params *params)
{
    pco_nn_norm_params known;
    if (!pco_nn_take(nn, __func__, &known, sizeof known, params) || !pco_nn_named(nn, __func__, name) ||
        !pco_nn_size(nn, name, "width", known.width))
        return PCO_NONE;
    if ((uint32_t)known.type > PCO_NN_RMS_NORM || (uint32_t)known.form > PCO_NN_STD_EPS)
        return pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: there is no norm of type %d and form %d", name,
                              (int)known.type, (int)known.form);
    const char *weight_name = pco_nn_name(nn, "%s.weight", name);
    uint32_t weight = pco_nn_weight(nn, weight_name, 1, &known.width);
    pco_nn_set_role(nn, weight_name, PCO_NN_ROLE_NORM);
    if (known.type == PCO_NN_RMS_NORM) {
        pco_rms_norm_attrs attrs = {.eps = known.eps};
        return pco_graph_add(nn->graph, PCO_OP_RMS_NORM, &attrs, (uint32_t[]){x, weight}, 2, NULL);
    }
    uint32_t bias = pco_nn_weight(nn, pco_nn_name(nn, "%s.bias", name), 1, &known.width);
    int unbiased = known.form == PCO_NN_STD_EPS;
    pco_layer_norm_attrs attrs = {.eps = known.eps, .form = unbiased, .correction = unbiased};
    return pco_graph_add(nn->graph, PCO_OP_LAYER_NORM, &attrs, (uint32_t[]){x, weight, bias}, 3, NULL);
}
