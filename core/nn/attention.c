#include "nn/nn.h"

#include <inttypes.h>

/* Which rows of the fused projection, or which projection. */
typedef enum nn_role { NN_QUERY, NN_KEY, NN_VALUE } nn_role;

/* x [B,S,H*D] as [B,S,H,D]: the same memory. */
static uint32_t nn_split_heads(const pco_nn *nn, uint32_t x, int64_t heads, int64_t head_dim)
{
    if (!pco_nn_has(nn, "heads", x, 3)) return PCO_NONE;
    const int64_t *shape = nn->graph->tensors[x].shape;
    return pco_reshape(nn->graph, x, 4, (int64_t[]){shape[0], shape[1], heads, head_dim});
}

/* The projection of x [B,S,width] for that role: [B,S,H*D]. */
static uint32_t nn_project(const pco_nn *nn, uint32_t x, const pco_nn_attention_params *params, nn_role role)
{
    const char *names[] = {params->query, params->key, params->value};
    int64_t queries = params->heads * params->head_dim, keys = params->kv_heads * params->head_dim;
    int64_t heads = role == NN_QUERY ? params->heads : params->kv_heads;
    pco_nn_linear_params linear = {.size = sizeof linear,
                                   .name = names[role],
                                   .in_features = params->width,
                                   .out_features = heads * params->head_dim,
                                   .bias = params->bias && !(role == NN_KEY && params->no_key_bias)};
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
    pco_nn_norm_params how = {.size = sizeof how};
    if (norm && !pco_nn_take(nn, "head_norm", &how, sizeof how, params->head_norm)) return PCO_NONE;
    x = nn_project(nn, x, params, role);
    how.size = sizeof how;
    how.width = params->norm_whole ? heads * params->head_dim : params->head_dim;
    if (norm && params->norm_whole) x = pco_nn_norm(nn, x, norm, &how);
    x = nn_split_heads(nn, x, heads, params->head_dim);
    if (norm && !params->norm_whole) x = pco_nn_norm(nn, x, norm, &how);
    if (role == NN_VALUE || operands->phase == PCO_NONE) return x;
    return pco_nn_rope(nn, x, operands->positions, operands->phase, params->rope_interleaved, params->rope_amplitude);
}

/* A name that is given, or "name.part". */
static const char *nn_default(const pco_nn *nn, const char *given, const char *name, const char *part)
{
    return given || !name ? given : pco_nn_name(nn, "%s.%s", name, part);
}

/* What the caller has of params, with what follows from it; checked. */
static int nn_take_attention(const pco_nn *nn, const char *function, pco_nn_attention_params *known,
                             const pco_nn_attention_params *params)
{
    if (!pco_nn_take(nn, function, known, sizeof *known, params)) return 0;
    const char *name = known->name ? known->name : known->output ? known->output : function;
    if (!known->kv_heads) known->kv_heads = known->heads;
    if (!pco_nn_size(nn, name, "width", known->width) || !pco_nn_size(nn, name, "heads", known->heads) ||
        !pco_nn_size(nn, name, "kv_heads", known->kv_heads))
        return 0;
    if (!known->head_dim && known->width % known->heads == 0) known->head_dim = known->width / known->heads;
    if (!known->head_dim || known->heads % known->kv_heads) {
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID,
                       "%s: width %" PRId64 ", %" PRId64 " heads and %" PRId64
                       " heads of keys: each must be a multiple of the next",
                       name, known->width, known->heads, known->kv_heads);
        return 0;
    }
    if (!pco_nn_size(nn, name, "head_dim", known->head_dim) ||
        !pco_nn_size(nn, name, "heads * head_dim", known->heads * known->head_dim))
        return 0;
    if (known->window < 0 || !(known->softcap >= 0) || !(known->scale * 0 == 0)) {
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: window and softcap are 0 or more, and scale is a number",
                       name);
        return 0;
    }
    if (!known->fused) {
        known->query = nn_default(nn, known->query, known->name, "q_proj");
        known->key = nn_default(nn, known->key, known->name, "k_proj");
        known->value = nn_default(nn, known->value, known->name, "v_proj");
    }
    known->output = nn_default(nn, known->output, known->name, "out_proj");
    return !nn->graph->status;
}

static void nn_attention_memory(const pco_nn *nn, uint32_t memory, const pco_nn_attention_params *params,
                                const pco_nn_attention_operands *operands, uint32_t *key, uint32_t *value)
{
    *key = nn_heads(nn, memory, params, operands, NN_KEY);
    *value = nn_heads(nn, memory, params, operands, NN_VALUE);
}

void pco_nn_attention_memory(const pco_nn *nn, uint32_t memory, const pco_nn_attention_params *params,
                             const pco_nn_attention_operands *operands, uint32_t *key, uint32_t *value)
{
    pco_nn_attention_params known;
    pco_nn_attention_operands tensors;
    if (key) *key = PCO_NONE;
    if (value) *value = PCO_NONE;
    if (!nn_take_attention(nn, __func__, &known, params) || !pco_nn_take_operands(nn, __func__, &tensors, operands) ||
        !pco_nn_has(nn, __func__, memory, 3))
        return;
    if (key && value)
        nn_attention_memory(nn, memory, &known, &tensors, key, value);
    else
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: key or value is NULL", __func__);
}

/* Query, key and value as the operation takes them: of the lanes, and behind a cache. */
static int nn_attention_inputs(const pco_nn *nn, uint32_t x, const pco_nn_attention_params *params,
                               const pco_nn_attention_operands *operands, uint32_t inputs[3])
{
    pco_graph *graph = nn->graph;
    uint32_t query = nn_heads(nn, x, params, operands, NN_QUERY), key = operands->key, value = operands->value;
    if (key == PCO_NONE || value == PCO_NONE) {
        uint32_t memory = operands->memory == PCO_NONE ? x : operands->memory;
        nn_attention_memory(nn, memory, params, operands, &key, &value);
    }
    if (operands->take != PCO_NONE) query = pco_gather(graph, query, operands->take, 0);
    if (!operands->key_cache != !operands->value_cache)
        pco_graph_fail(graph, PCO_ERROR_INVALID, "%s: there is one of key_cache and value_cache, and no other",
                       params->output);
    if (operands->key_cache && !graph->status) {
        const pco_nn_cache keys = pco_nn_cache_write(nn, operands->key_cache, key, operands->index, operands->take);
        const pco_nn_cache values =
            pco_nn_cache_write(nn, operands->value_cache, value, operands->index, operands->take);
        key = pco_nn_cache_read(nn, &keys);
        value = pco_nn_cache_read(nn, &values);
    }
    inputs[0] = query;
    inputs[1] = key;
    inputs[2] = value;
    return !graph->status;
}

uint32_t pco_nn_attention(const pco_nn *nn, uint32_t x, const pco_nn_attention_params *params,
                          const pco_nn_attention_operands *operands)
{
    pco_nn_attention_params known;
    pco_nn_attention_operands tensors;
    if (!nn_take_attention(nn, __func__, &known, params) || !pco_nn_take_operands(nn, __func__, &tensors, operands) ||
        !pco_nn_has(nn, __func__, x, 3))
        return PCO_NONE;
    pco_graph *graph = nn->graph;
    uint32_t inputs[6] = {PCO_NONE, PCO_NONE, PCO_NONE, tensors.mask, tensors.lengths, tensors.starts};
    if (!nn_attention_inputs(nn, x, &known, &tensors, inputs)) return PCO_NONE;
    const int64_t batch = graph->tensors[inputs[0]].shape[0], queries = graph->tensors[inputs[0]].shape[1];
    const int64_t channels = known.heads * known.head_dim;
    const int shared = !known.causal && batch > 1 && graph->tensors[inputs[1]].shape[0] == 1;
    if (shared) /* texts side by side that read one memory are so many rows that read it */
        inputs[0] = pco_reshape(graph, inputs[0], 4, (int64_t[]){1, batch * queries, known.heads, known.head_dim});
    pco_scaled_dot_product_attention_attrs attrs = {.scale = known.scale,
                                                    .causal = known.causal,
                                                    .window = known.window,
                                                    .softcap = known.softcap,
                                                    .heads_first = 0,
                                                    .weights = nn->keep_attention};
    uint32_t results[PCO_MAX_OUTPUTS];
    uint32_t mixed = pco_graph_add(graph, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, &attrs, inputs, 6, results);
    if (nn->keep_attention) pco_graph_output(graph, results[1], pco_nn_name(nn, "attention:%s", known.output));
    if (tensors.lane != PCO_NONE) mixed = pco_gather(graph, mixed, tensors.lane, 0);
    if (graph->status) return PCO_NONE;
    const int64_t *shape = graph->tensors[mixed].shape;
    const int64_t joined[3] = {shared ? batch : shape[0], shared ? queries : shape[1], channels};
    pco_nn_linear_params output = {.size = sizeof output,
                                   .name = known.output,
                                   .in_features = channels,
                                   .out_features = known.width,
                                   .bias = known.output_bias,
                                   .role = PCO_NN_ROLE_RESIDUAL};
    return pco_nn_linear(nn, pco_reshape(graph, mixed, 3, joined), &output);
}
