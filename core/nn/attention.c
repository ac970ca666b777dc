#include "nn/nn.h"

/* Which rows of the fused projection, or which projection. */
typedef enum nn_role { NN_QUERY, NN_KEY, NN_VALUE } nn_role;

/* x [B,S,H*D] as [B,S,H,D]: the same memory. */
static uint32_t nn_split_heads(const pco_nn *nn, uint32_t x, int64_t heads, int64_t head_dim)
{
    if (nn->graph->status || x == PCO_NONE) return PCO_NONE;
    const int64_t *shape = nn->graph->tensors[x].shape;
    return pco_reshape(nn->graph, x, 4, (int64_t[]){shape[0], shape[1], heads, head_dim});
}

/* The projection of x [B,S,width] for that role: [B,S,H*D]. */
static uint32_t nn_project(const pco_nn *nn, uint32_t x, const pco_nn_attention_params *params, nn_role role)
{
    const char *names[] = {params->query, params->key, params->value};
    int64_t queries = params->heads * params->head_dim, keys = params->kv_heads * params->head_dim;
    int64_t heads = role == NN_QUERY ? params->heads : params->kv_heads;
    pco_nn_linear_params linear = {.name = names[role],
                                   .in_features = params->width,
                                   .out_features = heads * params->head_dim,
                                   .bias = params->bias};
    if (params->fused) {
        linear.name = params->fused;
        linear.first_row = role == NN_QUERY ? 0 : role == NN_KEY ? queries : queries + keys;
        linear.total_rows = queries + 2 * keys;
    }
    return pco_nn_linear(nn, x, &linear);
}

/* The heads of that role, [B,S,H,D], as attention takes them: with their norm, and rotated. */
static uint32_t nn_heads(const pco_nn *nn, uint32_t x, const pco_nn_attention_params *params,
                         const pco_nn_attention_operands *operands, nn_role role)
{
    const char *norm = role == NN_QUERY ? params->query_norm : role == NN_KEY ? params->key_norm : NULL;
    const int64_t heads = role == NN_QUERY ? params->heads : params->kv_heads;
    pco_nn_norm_params how = params->head_norm;
    x = nn_project(nn, x, params, role);
    how.size = params->norm_whole ? heads * params->head_dim : params->head_dim;
    if (norm && params->norm_whole) x = pco_nn_norm(nn, x, norm, &how);
    x = nn_split_heads(nn, x, heads, params->head_dim);
    if (norm && !params->norm_whole) x = pco_nn_norm(nn, x, norm, &how);
    if (role == NN_VALUE || operands->phase == PCO_NONE) return x;
    return pco_nn_rope(nn, x, operands->positions, operands->phase, params->rope_interleaved, params->rope_amplitude);
}

void pco_nn_attention_memory(const pco_nn *nn, uint32_t memory, const pco_nn_attention_params *params,
                             const pco_nn_attention_operands *operands, uint32_t *key, uint32_t *value)
{
    *key = nn_heads(nn, memory, params, operands, NN_KEY);
    *value = nn_heads(nn, memory, params, operands, NN_VALUE);
}

uint32_t pco_nn_attention(const pco_nn *nn, uint32_t x, const pco_nn_attention_params *params,
                          const pco_nn_attention_operands *operands)
{
    pco_graph *graph = nn->graph;
    uint32_t query = nn_heads(nn, x, params, operands, NN_QUERY), key = operands->key, value = operands->value;
    if (key == PCO_NONE || value == PCO_NONE) {
        uint32_t memory = operands->memory == PCO_NONE ? x : operands->memory;
        pco_nn_attention_memory(nn, memory, params, operands, &key, &value);
    }
    if (operands->take != PCO_NONE) query = pco_gather(graph, query, operands->take, 0);
    if (operands->key_cache) {
        const pco_nn_cache keys = pco_nn_cache_write(nn, operands->key_cache, key, operands->index, operands->take);
        const pco_nn_cache values =
            pco_nn_cache_write(nn, operands->value_cache, value, operands->index, operands->take);
        key = pco_nn_cache_read(nn, &keys);
        value = pco_nn_cache_read(nn, &values);
    }
    if (graph->status) return PCO_NONE;
    const int64_t batch = graph->tensors[query].shape[0], queries = graph->tensors[query].shape[1];
    const int64_t channels = params->heads * params->head_dim;
    const int shared = !params->causal && batch > 1 && graph->tensors[key].shape[0] == 1;
    if (shared) /* texts side by side that read one memory are so many rows that read it */
        query = pco_reshape(graph, query, 4, (int64_t[]){1, batch * queries, params->heads, params->head_dim});
    pco_scaled_dot_product_attention_attrs attrs = {.scale = params->scale,
                                                    .causal = params->causal,
                                                    .window = params->window,
                                                    .softcap = params->softcap,
                                                    .heads_first = 0,
                                                    .weights = nn->keep_attention};
    uint32_t inputs[] = {query, key, value, operands->mask, operands->lengths, operands->starts};
    uint32_t results[PCO_MAX_OUTPUTS];
    uint32_t mixed = pco_graph_add(graph, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, &attrs, inputs, 6, results);
    if (nn->keep_attention) pco_graph_output(graph, results[1], pco_nn_name(nn, "attention:%s", params->output));
    if (operands->lane != PCO_NONE) mixed = pco_gather(graph, mixed, operands->lane, 0);
    if (graph->status) return PCO_NONE;
    const int64_t *shape = graph->tensors[mixed].shape;
    const int64_t joined[3] = {shared ? batch : shape[0], shared ? queries : shape[1], channels};
    pco_nn_linear_params output = {.name = params->output,
                                   .in_features = channels,
                                   .out_features = params->width,
                                   .bias = params->output_bias,
                                   .role = PCO_NN_ROLE_RESIDUAL};
    return pco_nn_linear(nn, pco_reshape(graph, mixed, 3, joined), &output);
}
