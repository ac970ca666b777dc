#include "models/llama.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reading goes on after an error without effect: the first one is kept. What is then returned is a value that divides
 * and sizes without harm, never what the file said. */
typedef struct llama_reader {
    const pco_gguf *gguf;
    pco_status status;
    pco_error *err;
} llama_reader;

static int64_t llama_size(llama_reader *r, const char *key, uint32_t most)
{
    uint32_t value = 1;
    if (!r->status) r->status = pco_gguf_u32(r->gguf, key, &value, r->err);
    if (!r->status && (value < 1 || value > most))
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: key '%s' is %u, and must be 1 to %u",
                             pco_gguf_label(r->gguf), key, value, most);
    return r->status ? 1 : value;
}

static int64_t llama_size_or(llama_reader *r, const char *key, uint32_t most, int64_t fallback)
{
    return pco_gguf_find(r->gguf, key) ? llama_size(r, key, most) : fallback;
}

static double llama_number(llama_reader *r, const char *key, double least, double most, double fallback)
{
    float value = (float)fallback;
    if (!r->status) r->status = pco_gguf_f32_or(r->gguf, key, value, &value, r->err);
    if (!r->status && !((double)value >= least && (double)value <= most))
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: key '%s' is %g, and must be %g to %g",
                             pco_gguf_label(r->gguf), key, (double)value, least, most);
    return r->status ? fallback : (double)value;
}

/* What divides the angles of positions: models have 1 to 64. Two of them are multiplied in f32. */
#define LLAMA_FACTOR_LEAST 1e-6
#define LLAMA_FACTOR_MOST  1e6

static double llama_factor(llama_reader *r, const char *key)
{
    return llama_number(r, key, LLAMA_FACTOR_LEAST, LLAMA_FACTOR_MOST, 1);
}

/* rope.scaling.*: linear (Chen et al. 2023), or refused by name. */
static void llama_read_rope(llama_reader *r, pco_llama_config *config)
{
    const char *type = "none";
    config->rope_dimensions = llama_size_or(r, "llama.rope.dimension_count", 1 << 16, config->head_dim);
    config->rope_freq_base = llama_number(r, "llama.rope.freq_base", 1e-30, 1e30, 10000);
    config->rope_scale = llama_factor(r, "llama.rope.scale_linear");
    if (!r->status) r->status = pco_gguf_text_or(r->gguf, "llama.rope.scaling.type", type, &type, r->err);
    if (r->status) return;
    if (strcmp(type, "linear") == 0)
        config->rope_scale = llama_factor(r, "llama.rope.scaling.factor");
    else if (strcmp(type, "none") != 0)
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: llama.rope.scaling.type is '%s', which Portico cannot "
                             "run; it runs 'none' and 'linear'",
                             pco_gguf_label(r->gguf), type);
}

static void llama_read_factors(llama_reader *r, pco_llama_config *config)
{
    const pco_weight *factors = pco_weights_find(pco_gguf_weights(r->gguf), "rope_freqs.weight");
    if (r->status || !factors) return;
    if (factors->dtype != PCO_F32 || factors->rank != 1 || factors->shape[0] != config->rope_dimensions / 2 ||
        !factors->data || (uintptr_t)factors->data % sizeof(float))
        r->status =
            pco_fail(r->err, PCO_ERROR_FORMAT, "%s: tensor 'rope_freqs.weight' must be F32 [%" PRId64 "]",
                     pco_gguf_label(r->gguf), config->rope_dimensions / 2);
    const float *values = r->status ? NULL : factors->data;
    for (int64_t i = 0; values && !r->status && i < factors->shape[0]; i++)
        if (!((double)values[i] >= LLAMA_FACTOR_LEAST && (double)values[i] <= LLAMA_FACTOR_MOST))
            r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                                 "%s: element %" PRId64 " of 'rope_freqs.weight' is %g, and must be %g to %g",
                                 pco_gguf_label(r->gguf), i, (double)values[i], LLAMA_FACTOR_LEAST, LLAMA_FACTOR_MOST);
    config->rope_factors = r->status ? NULL : values;
}

static void llama_check(llama_reader *r, const pco_llama_config *c)
{
    if (r->status) return;
    const char *label = pco_gguf_label(r->gguf);
    if (c->head_count % c->head_count_kv)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: llama.attention.head_count %" PRId64 " is no multiple of "
                             "llama.attention.head_count_kv %" PRId64,
                             label, c->head_count, c->head_count_kv);
    else if (c->rope_dimensions % 2 || c->rope_dimensions > c->head_dim)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: llama.rope.dimension_count is %" PRId64 ", and must be even "
                             "and at most the head size %" PRId64,
                             label, c->rope_dimensions, c->head_dim);
}

/* The embedding table's first dimension: the vocabulary. */
static void llama_read_vocab(llama_reader *r, pco_llama_config *config)
{
    const pco_weight *table = pco_weights_find(pco_gguf_weights(r->gguf), "token_embd.weight");
    if (r->status) return;
    if (!table || table->rank != 2)
        r->status =
            pco_fail(r->err, PCO_ERROR_NOT_FOUND, "%s has no tensor 'token_embd.weight' with two dimensions",
                     pco_gguf_label(r->gguf));
    else if (table->shape[0] < 1 || table->shape[0] > INT32_MAX)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: 'token_embd.weight' has %" PRId64 " rows, and must have one for each token, 1 to %d",
                             pco_gguf_label(r->gguf), table->shape[0], INT32_MAX);
    else
        config->vocab_size = table->shape[0];
}

pco_status pco_llama_config_read(const pco_gguf *gguf, pco_llama_config *config, pco_error *err)
{
    const char *architecture = NULL, *label = pco_gguf_label(gguf);
    memset(config, 0, sizeof *config);
    pco_status status = pco_gguf_text(gguf, "general.architecture", &architecture, err);
    if (status) return status;
    if (strcmp(architecture, "llama") != 0)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s is a model of architecture '%s', which Portico cannot run; it "
                        "runs 'llama'",
                        label, architecture);
    llama_reader reader = {gguf, PCO_OK, err};
    uint32_t experts = 0;
    reader.status = pco_gguf_u32_or(gguf, "llama.expert_count", 0, &experts, err);
    if (!reader.status && experts)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s is a mixture of %u experts, which Portico cannot run",
                        label, experts);
    config->embedding_length = llama_size(&reader, "llama.embedding_length", 1 << 20);
    config->block_count = llama_size(&reader, "llama.block_count", 1 << 12);
    config->feed_forward_length = llama_size(&reader, "llama.feed_forward_length", 1 << 24);
    config->head_count = llama_size(&reader, "llama.attention.head_count", 1 << 12);
    config->head_count_kv =
        llama_size_or(&reader, "llama.attention.head_count_kv", 1 << 12, config->head_count);
    config->context_length = llama_size(&reader, "llama.context_length", 1 << 30);
    config->rms_epsilon = llama_number(&reader, "llama.attention.layer_norm_rms_epsilon", 0x1p-149, 1e3, 1);
    if (!reader.status && !pco_gguf_find(gguf, "llama.attention.layer_norm_rms_epsilon"))
        reader.status = pco_fail(err, PCO_ERROR_NOT_FOUND,
                                 "%s has no key 'llama.attention.layer_norm_rms_epsilon'", label);
    if (!reader.status && !pco_gguf_find(gguf, "llama.attention.key_length") &&
        config->embedding_length % config->head_count)
        reader.status = pco_fail(err, PCO_ERROR_FORMAT,
                                 "%s: llama.embedding_length %" PRId64 " is no multiple of "
                                 "llama.attention.head_count %" PRId64,
                                 label, config->embedding_length, config->head_count);
    int64_t head_dim = config->embedding_length / config->head_count;
    config->head_dim = llama_size_or(&reader, "llama.attention.key_length", 1 << 16, head_dim);
    int64_t value_dim = llama_size_or(&reader, "llama.attention.value_length", 1 << 16, config->head_dim);
    if (!reader.status && value_dim != config->head_dim)
        reader.status = pco_fail(err, PCO_ERROR_UNSUPPORTED,
                                 "%s: llama.attention.value_length differs from the keys' "
                                 "length, which Portico cannot run",
                                 label);
    llama_read_rope(&reader, config);
    llama_check(&reader, config);
    llama_read_factors(&reader, config);
    llama_read_vocab(&reader, config);
    return reader.status;
}

static uint32_t llama_phase(const pco_nn *nn, const pco_llama_config *config)
{
    uint32_t pairs = (uint32_t)config->rope_dimensions / 2;
    float *factors = malloc((pairs ? pairs : 1) * sizeof *factors);
    if (!factors)
        return pco_graph_fail(nn->graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for RoPE");
    for (uint32_t i = 0; i < pairs; i++)
        factors[i] = (config->rope_factors ? config->rope_factors[i] : 1) * (float)config->rope_scale;
    uint32_t phase =
        pco_rope_phase(nn->graph, config->rope_freq_base, (uint32_t)config->rope_dimensions, factors);
    free(factors);
    return phase;
}

static int llama_has(const pco_nn *nn, const char *name)
{
    return pco_weights_find(nn->weights, name) != NULL;
}

static pco_nn_layer_params llama_layer(const pco_nn *nn, const pco_llama_config *config, int64_t index)
{
    const char *prefix = pco_nn_name(nn, "blk.%" PRId64, index);
    pco_nn_layer_params params = {.normalize_before = 1};
    params.norm = (pco_nn_norm_params){
        .type = PCO_NN_RMS_NORM, .eps = config->rms_epsilon, .size = config->embedding_length};
    params.self_attention_norm = pco_nn_name(nn, "%s.attn_norm", prefix);
    params.ffn_norm = pco_nn_name(nn, "%s.ffn_norm", prefix);
    params.self_attention = (pco_nn_attention_params){.width = config->embedding_length,
                                                      .heads = config->head_count,
                                                      .kv_heads = config->head_count_kv,
                                                      .head_dim = config->head_dim,
                                                      .causal = 1,
                                                      .rope_interleaved = 1};
    pco_nn_attention_params *attention = &params.self_attention;
    attention->query = pco_nn_name(nn, "%s.attn_q", prefix);
    attention->key = pco_nn_name(nn, "%s.attn_k", prefix);
    attention->value = pco_nn_name(nn, "%s.attn_v", prefix);
    attention->output = pco_nn_name(nn, "%s.attn_output", prefix);
    attention->bias = llama_has(nn, pco_nn_name(nn, "%s.bias", attention->query));
    attention->output_bias = llama_has(nn, pco_nn_name(nn, "%s.bias", attention->output));
    params.ffn = (pco_nn_ffn_params){.activation = PCO_NN_SWIGLU,
                                     .width = config->embedding_length,
                                     .hidden = config->feed_forward_length};
    params.ffn.gate = pco_nn_name(nn, "%s.ffn_gate", prefix);
    params.ffn.up = pco_nn_name(nn, "%s.ffn_up", prefix);
    params.ffn.down = pco_nn_name(nn, "%s.ffn_down", prefix);
    params.ffn.bias = llama_has(nn, pco_nn_name(nn, "%s.bias", params.ffn.up));
    return params;
}

/* x [1,rows,C] -> the rows that logits are wanted for, normed, through the head: [n,vocab_size]. */
static uint32_t llama_head(const pco_nn *nn, const pco_llama_config *config, uint32_t x, int64_t rows,
                           int all_logits)
{
    pco_graph *graph = nn->graph;
    const pco_nn_norm_params norm = {
        .type = PCO_NN_RMS_NORM, .eps = config->rms_epsilon, .size = config->embedding_length};
    x = pco_reshape(graph, x, 2, (int64_t[]){rows, config->embedding_length});
    if (!all_logits && rows > 1)
        x = pco_gather(graph, x, pco_graph_value(graph, "row", PCO_I32, 1, (int64_t[]){1}), 0);
    x = pco_nn_norm(nn, x, "output_norm", &norm);
    const char *head = llama_has(nn, "output.weight") ? "output.weight" : "token_embd.weight";
    const int64_t shape[2] = {config->vocab_size, config->embedding_length};
    return pco_linear(graph, x, pco_nn_weight(nn, head, 2, shape), PCO_NONE, PCO_NN_IDENTITY);
}

/* Embedding and layers: ids [1,S] -> [1,S,C]. `cache` is the shape of the states, NULL for none. */
static uint32_t llama_layers(const pco_nn *nn, const pco_llama_config *config, uint32_t ids,
                             pco_nn_attention_operands self, const int64_t *cache)
{
    pco_graph *graph = nn->graph;
    self.phase = llama_phase(nn, config);
    pco_graph_scope(graph, "embed");
    uint32_t x = pco_nn_embedding(nn, ids, "token_embd.weight", config->vocab_size, config->embedding_length);
    for (int64_t i = 0; i < config->block_count; i++) {
        pco_graph_scope(graph, "blk.%" PRId64, i);
        pco_nn_layer_params layer = llama_layer(nn, config, i);
        if (cache) {
            self.key_state =
                pco_graph_state(graph, pco_nn_name(nn, "cache.key.%" PRId64, i), PCO_F32, 4, cache);
            self.value_state =
                pco_graph_state(graph, pco_nn_name(nn, "cache.value.%" PRId64, i), PCO_F32, 4, cache);
        }
        x = pco_nn_encoder_layer(nn, x, &layer, &self);
    }
    pco_graph_scope(graph, "output");
    return x;
}

void pco_llama_build_attention(const pco_nn *nn, const pco_llama_config *config, int64_t rows)
{
    pco_nn_attention_operands self = PCO_NN_NO_OPERANDS;
    uint32_t ids = pco_graph_input(nn->graph, "ids", PCO_I32, 2, (int64_t[]){1, rows});
    self.positions = pco_nn_positions(nn, 0, rows);
    llama_layers(nn, config, ids, self, NULL);
}

void pco_llama_build(const pco_nn *nn, const pco_llama_config *config, int64_t context, int64_t rows,
                     int all_logits)
{
    pco_graph *graph = nn->graph;
    const int64_t one[1] = {1}, row_shape[2] = {1, rows};
    const int64_t cache[4] = {1, context, config->head_count_kv, config->head_dim};
    pco_nn_attention_operands self = PCO_NN_NO_OPERANDS;
    uint32_t ids = pco_graph_input(graph, "ids", PCO_I32, 2, row_shape);
    self.positions = pco_graph_value(graph, "positions", PCO_I32, 2, row_shape);
    self.starts = self.index = pco_graph_value(graph, "starts", PCO_I32, 1, one);
    self.lengths = pco_graph_value(graph, "lengths", PCO_I32, 1, one);
    uint32_t x = llama_layers(nn, config, ids, self, cache);
    pco_graph_output(graph, llama_head(nn, config, x, rows, all_logits), "logits");
}
