/* Low-rank adapters (Hu et al. 2021): beside a frozen projection x W^T stands scale (x A^T) B^T, with few rows in A. */
#include "nn/nn.h"

int pco_nn_adapted(const pco_nn *nn, const char *projection)
{
    const pco_nn_lora *lora = nn->training ? nn->training->lora : NULL;
    if (nn->training) return lora && lora->wants(lora->user, pco_nn_scoped(nn, projection));
    if (!nn->weights) return 0;
    return pco_weights_find(nn->weights, pco_nn_scoped(nn, pco_nn_name(nn, "%s" PCO_NN_LORA_A, projection))) != NULL;
}

/* The matrix of that name, all of it, in the type of the activations. */
static uint32_t lora_matrix(const pco_nn *nn, const char *name, int64_t rows, int64_t columns, int role)
{
    const int64_t shape[2] = {rows, columns};
    if (!nn->training) return pco_nn_weight(nn, name, 2, shape);
    name = pco_nn_scoped(nn, name);
    const uint32_t matrix = pco_nn_parameter_state(nn, name, 2, shape);
    pco_nn_parameter *parameter = (pco_nn_parameter *)pco_nn_training_find(nn->training, name);
    if (parameter) parameter->role = (pco_nn_role)role;
    return pco_nn_activations(nn, matrix);
}

uint32_t pco_nn_adapter(const pco_nn *nn, uint32_t x, const char *projection, int64_t total, int64_t first,
                        int64_t count)
{
    const char *a = pco_nn_name(nn, "%s" PCO_NN_LORA_A, projection),
               *b = pco_nn_name(nn, "%s" PCO_NN_LORA_B, projection);
    pco_graph *graph = nn->graph;
    if (graph->status || x == PCO_NONE) return PCO_NONE;
    const pco_tensor *tensor = &graph->tensors[x];
    const int64_t in = tensor->shape[tensor->rank - 1];
    const pco_weight *found = nn->training ? NULL : pco_weights_find(nn->weights, pco_nn_scoped(nn, a));
    const int64_t rank = nn->training ? nn->training->lora->rank : found && found->rank ? found->shape[0] : 0;
    if (nn->training) x = pco_nn_dropout_by(nn, x, nn->training->lora_dropout);
    x = pco_linear(graph, x, lora_matrix(nn, a, rank, in, PCO_NN_ROLE_PLAIN), PCO_NONE, PCO_NN_IDENTITY);
    if (nn->training) x = pco_binary_scalar(graph, PCO_OP_MUL, x, nn->training->lora->scale);
    uint32_t matrix;
    if (nn->training || count == total) {
        matrix = lora_matrix(nn, b, total, rank, PCO_NN_ROLE_ZERO);
        if (count < total) matrix = pco_slice_axis(graph, matrix, 0, first, count);
    } else {
        matrix = pco_nn_weight_rows(nn, b, 2, (int64_t[]){total, rank}, first, count);
    }
    return pco_linear(graph, x, matrix, PCO_NONE, PCO_NN_IDENTITY);
}
