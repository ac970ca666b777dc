/* Low-rank adapters (Hu et al. 2021): beside a frozen projection x W^T stands scale (x A^T) B^T, with few rows in A. */
#include "nn/nn.h"

int pco_nn_adapted(const pco_nn *nn, const char *projection)
{
    const pco_nn_lora *lora = nn->training ? nn->training->lora : NULL;
    if (nn->training) return lora && lora->wants(lora->user, pco_nn_scoped(nn, projection));
    if (!nn->weights) return 0;
    return pco_weights_find(nn->weights, pco_nn_scoped(nn, pco_nn_name(nn, "%s" PCO_NN_LORA_A, projection))) != NULL;
}

/* What is trained under that name, all of it, in the type of the activations; of 2 dimensions, or a stack. */
static uint32_t lora_state(const pco_nn *nn, const char *name, uint32_t rank, const int64_t *shape, int role)
{
    name = pco_nn_scoped(nn, name);
    const uint32_t state =
        rank == 3 ? pco_nn_parameter_stack(nn, name, shape) : pco_nn_parameter_state(nn, name, rank, shape);
    pco_nn_parameter *parameter = (pco_nn_parameter *)pco_nn_training_find(nn->training, name);
    if (parameter) parameter->role = (pco_nn_role)role;
    return pco_nn_activations(nn, state);
}

static uint32_t lora_matrix(const pco_nn *nn, const char *name, int64_t rows, int64_t columns, int role)
{
    const int64_t shape[2] = {rows, columns};
    return nn->training ? lora_state(nn, name, 2, shape, role) : pco_nn_weight(nn, name, 2, shape);
}

/* A matrix for each expert, one behind the other: [experts,rows,columns] as [experts*rows,columns]. */
static uint32_t lora_stack(const pco_nn *nn, const char *name, const int64_t shape[3], int role)
{
    return nn->training ? lora_state(nn, name, 3, shape, role)
                        : pco_nn_weight_stack(nn, name, shape, 0, shape[0] * shape[1]);
}

/* How many rows A has, of each expert if there are some. */
static int64_t lora_rank(const pco_nn *nn, const char *a)
{
    if (nn->training) return nn->training->lora->rank;
    const pco_weight *found = pco_weights_find(nn->weights, pco_nn_scoped(nn, a));
    return found && found->rank >= 2 ? found->shape[found->rank - 2] : 0;
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
    const int64_t rank = lora_rank(nn, a);
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

uint32_t pco_nn_expert_adapter(const pco_nn *nn, uint32_t x, uint32_t chosen, const char *projection, int64_t experts,
                               int64_t out, int64_t in)
{
    const char *a = pco_nn_name(nn, "%s" PCO_NN_LORA_A, projection),
               *b = pco_nn_name(nn, "%s" PCO_NN_LORA_B, projection);
    const pco_indexed_matmul_attrs attrs = {.matrices = experts};
    pco_graph *graph = nn->graph;
    if (graph->status || x == PCO_NONE) return PCO_NONE;
    const int64_t rank = lora_rank(nn, a);
    if (nn->training) x = pco_nn_dropout_by(nn, x, nn->training->lora_dropout);
    uint32_t matrices = lora_stack(nn, a, (int64_t[]){experts, rank, in}, PCO_NN_ROLE_PLAIN);
    x = pco_graph_add(graph, PCO_OP_INDEXED_MATMUL, &attrs, (uint32_t[]){x, matrices, chosen}, 3, NULL);
    if (nn->training) x = pco_binary_scalar(graph, PCO_OP_MUL, x, nn->training->lora->scale);
    matrices = lora_stack(nn, b, (int64_t[]){experts, out, rank}, PCO_NN_ROLE_ZERO);
    return pco_graph_add(graph, PCO_OP_INDEXED_MATMUL, &attrs, (uint32_t[]){x, matrices, chosen}, 3, NULL);
}
