#include "nn/nn.h"

#include <string.h>

/* "name.weight", or "name_weight" for a name that ends in '_'. */
static const char *nn_part(const pco_nn *nn, const char *name, const char *part)
{
    size_t size = strlen(name);
    return pco_nn_name(nn, "%s%s%s", name, size && name[size - 1] == '_' ? "" : ".", part);
}

uint32_t pco_nn_linear(const pco_nn *nn, uint32_t x, const pco_nn_linear_params *params)
{
    int64_t rows = params->total_rows ? params->total_rows : params->out_features;
    const int64_t shape[2] = {rows, params->in_features};
    const char *weight_name = nn_part(nn, params->name, "weight");
    const char *bias_name = params->bias ? nn_part(nn, params->name, "bias") : NULL;
    uint32_t weight, bias = PCO_NONE;
    if (rows == params->out_features) {
        weight = pco_nn_weight(nn, weight_name, 2, shape);
        if (bias_name) bias = pco_nn_weight(nn, bias_name, 1, shape);
    } else {
        weight = pco_nn_weight_rows(nn, weight_name, 2, shape, params->first_row, params->out_features);
        if (bias_name) bias = pco_nn_weight_rows(nn, bias_name, 1, shape, params->first_row, params->out_features);
    }
    if (params->role != PCO_NN_ROLE_PLAIN) pco_nn_set_role(nn, weight_name, params->role);
    return pco_linear(nn->graph, x, pco_nn_activations(nn, weight), bias, params->activation);
}

uint32_t pco_nn_embedding(const pco_nn *nn, uint32_t ids, const char *name, int64_t vocab, int64_t width)
{
    uint32_t table = pco_nn_weight(nn, name, 2, (int64_t[]){vocab, width});
    pco_nn_set_role(nn, name, PCO_NN_ROLE_EMBEDDING);
    return pco_cast(nn->graph, pco_gather(nn->graph, table, ids, 0), PCO_F32);
}
