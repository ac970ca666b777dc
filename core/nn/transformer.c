/* Layers and whole models as torch.nn has them: names and sizes from one struct, built by block.c. */
#include "nn/nn.h"

#include "base/error.h"

#include <inttypes.h>

/* What the layers of a stack share. */
typedef struct nn_stack {
    const pco_nn *nn;
    pco_nn_transformer_params params; /* complete */
    pco_nn_transformer_inputs inputs;
    uint32_t phase, positions; /* of RoPE; PCO_NONE: none */
    uint32_t memory;           /* of decoders; PCO_NONE: none */
} nn_stack;

/* What is 0 as its comment says; checked. */
static int transformer_complete(const pco_nn *nn, const char *name, pco_nn_transformer_params *p)
{
    if (!p->kv_heads) p->kv_heads = p->heads;
    if (!pco_nn_size(nn, name, "width", p->width) || !pco_nn_size(nn, name, "heads", p->heads)) return 0;
    if (!p->hidden) p->hidden = 4 * p->width;
    if (!p->activation) p->activation = PCO_NN_RELU;
    if (p->norm_eps == 0) p->norm_eps = 1e-5;
    const char *wrong = NULL;
    if (!(p->norm_eps > 0 && p->norm_eps < 1e3)) wrong = "norm_eps is not above 0";
    if (p->layers < 0 || p->decoder_layers < 0 || p->layers > 65536 || p->decoder_layers > 65536)
        wrong = "layers are not from 0 to 65536";
    if (!(p->rope_base >= 0 && p->rope_base < 1e300)) wrong = "rope_base is not 0 or more";
    if (p->context < 0 || p->context > PCO_NN_MOST) wrong = "the context is not from 0 to 2^30";
    if (wrong) pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: %s", name, wrong);
    return !nn->graph->status;
}

static int transformer_take_inputs(const pco_nn *nn, const char *name, pco_nn_transformer_inputs *known,
                                   const pco_nn_transformer_inputs *inputs)
{
    pco_error err = {""};
    *known = PCO_NN_NO_INPUTS;
    if (!inputs || !pco_copy_sized(known, sizeof *known, inputs, inputs->size, &err)) return 1;
    pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: inputs: %s; start from PCO_NN_NO_INPUTS", name, err.message);
    return 0;
}

/* The table and the positions of RoPE, once for all layers. */
static void transformer_rope(nn_stack *stack, const char *name, uint32_t x)
{
    const pco_nn_transformer_params *p = &stack->params;
    pco_graph *graph = stack->nn->graph;
    const int64_t rows = graph->tensors[x].shape[1];
    const int64_t dimensions = p->head_dim ? p->head_dim : p->width / p->heads;
    if (dimensions < 2 || dimensions % 2 || dimensions > 65536) {
        pco_graph_fail(graph, PCO_ERROR_INVALID, "%s: RoPE needs an even head_dim, and it is %" PRId64, name,
                       dimensions);
        return;
    }
    stack->phase = pco_rope_phase(graph, p->rope_base, (uint32_t)dimensions, NULL);
    stack->positions = stack->inputs.positions;
    if (stack->positions != PCO_NONE) return;
    stack->positions = pco_nn_positions(stack->nn, 0, rows);
    if (stack->inputs.starts != PCO_NONE)
        stack->positions = pco_binary(graph, PCO_OP_ADD, stack->positions,
                                      pco_reshape(graph, stack->inputs.starts, 2, (int64_t[]){-1, 1}));
}

/* Makes a stack ready for x [B,S,width], which is in the type of activations then. */
static int transformer_begin(const pco_nn *nn, uint32_t *x, uint32_t memory, const char *name,
                             const pco_nn_transformer_params *params, const pco_nn_transformer_inputs *inputs,
                             const char *function, nn_stack *stack)
{
    *stack = (nn_stack){.nn = nn, .phase = PCO_NONE, .positions = PCO_NONE, .memory = memory};
    if (!pco_nn_take(nn, function, &stack->params, sizeof stack->params, params) || !pco_nn_named(nn, function, name) ||
        !transformer_complete(nn, name, &stack->params) || !transformer_take_inputs(nn, name, &stack->inputs, inputs) ||
        !pco_nn_has(nn, name, *x, 3))
        return 0;
    const int64_t width = nn->graph->tensors[*x].shape[2];
    if (width != stack->params.width) {
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: x has %" PRId64 " channels, and width is %" PRId64, name,
                       width, stack->params.width);
        return 0;
    }
    if (stack->params.context && stack->inputs.starts == PCO_NONE) {
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: with a context, `starts` must say where rows go", name);
        return 0;
    }
    if (stack->params.rope_base > 0) transformer_rope(stack, name, *x);
    *x = pco_nn_activations(nn, *x);
    return !nn->graph->status;
}

static pco_nn_attention_params transformer_attention(const nn_stack *stack, const char *name)
{
    const pco_nn_transformer_params *p = &stack->params;
    return (pco_nn_attention_params){.size = sizeof(pco_nn_attention_params),
                                     .name = name,
                                     .fused = p->fused_projection ? pco_nn_name(stack->nn, "%s.in_proj_", name) : NULL,
                                     .width = p->width,
                                     .heads = p->heads,
                                     .kv_heads = p->kv_heads,
                                     .head_dim = p->head_dim,
                                     .bias = !p->no_bias,
                                     .output_bias = !p->no_bias,
                                     .rope_interleaved = p->rope_interleaved,
                                     .softcap = p->softcap};
}

/* The caches of a layer, and where it writes. */
static void transformer_cache(const nn_stack *stack, const char *name, uint32_t x, pco_nn_attention_operands *self)
{
    const pco_nn_transformer_params *p = &stack->params;
    const pco_nn *nn = stack->nn;
    const int64_t batch = nn->graph->tensors[x].shape[0], width = p->head_dim ? p->head_dim : p->width / p->heads;
    self->key_cache = pco_nn_cache_create(nn, pco_nn_name(nn, "%s.key_cache", name), p->cache_type, batch, p->context,
                                          p->kv_heads, width);
    self->value_cache = pco_nn_cache_create(nn, pco_nn_name(nn, "%s.value_cache", name), p->cache_type, batch,
                                            p->context, p->kv_heads, width);
    self->index = stack->inputs.starts;
}

static uint32_t transformer_layer(const nn_stack *stack, uint32_t x, const char *name)
{
    const pco_nn_transformer_params *p = &stack->params;
    const pco_nn *nn = stack->nn;
    const int decoder = stack->memory != PCO_NONE;
    const char *self_name = pco_nn_name(nn, "%s.self_attn", name);
    pco_nn_attention_operands self = PCO_NN_NO_OPERANDS, cross = PCO_NN_NO_OPERANDS;
    pco_nn_layer_params layer = {.normalize_before = p->normalize_before != 0,
                                 .norm = {sizeof layer.norm, p->norm, p->norm_form, p->norm_eps, p->width},
                                 .self_attention_norm = pco_nn_name(nn, "%s.norm1", name),
                                 .ffn_norm = pco_nn_name(nn, "%s.norm%d", name, decoder ? 3 : 2),
                                 .self_attention = transformer_attention(stack, self_name),
                                 .ffn = {.size = sizeof layer.ffn,
                                         .name = name,
                                         .activation = p->activation,
                                         .width = p->width,
                                         .hidden = p->hidden,
                                         .bias = !p->no_bias}};
    layer.self_attention.causal = decoder || p->causal;
    layer.self_attention.window = p->window;
    self.mask = stack->inputs.mask;
    self.lengths = stack->inputs.lengths;
    self.starts = stack->inputs.starts;
    self.phase = stack->phase;
    self.positions = stack->positions;
    if (nn->graph->status) return PCO_NONE;
    if (p->context) transformer_cache(stack, self_name, x, &self);
    if (nn->graph->status) return PCO_NONE;
    if (!decoder) return pco_nn_self_layer(nn, x, &layer, &self);
    layer.cross_attention_norm = pco_nn_name(nn, "%s.norm2", name);
    layer.cross_attention = transformer_attention(stack, pco_nn_name(nn, "%s.multihead_attn", name));
    cross.memory = stack->memory;
    cross.mask = stack->inputs.memory_mask;
    cross.lengths = stack->inputs.memory_lengths;
    return pco_nn_cross_layer(nn, x, &layer, &self, &cross);
}

/* Nodes from here on belong to that layer, which training can compute again. */
static void transformer_scope(const pco_nn *nn, const char *layer)
{
    const char *name = pco_nn_scoped(nn, layer);
    pco_nn_layer_scope *scope = pco_arena_allocate(&nn->graph->arena, sizeof *scope);
    pco_graph_scope(nn->graph, "%s", name);
    if (!scope) {
        pco_graph_fail(nn->graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while building a graph");
    } else if (nn->training) {
        *scope = (pco_nn_layer_scope){name, nn->training->layers};
        nn->training->layers = scope;
    }
}

/* All layers, each under a scope of its own, and the last norm. */
static uint32_t transformer_layers(const nn_stack *stack, uint32_t x, const char *name, int64_t layers)
{
    const pco_nn *nn = stack->nn;
    const pco_nn_transformer_params *p = &stack->params;
    const char *before = nn->graph->scope;
    if (!pco_nn_size(nn, name, "layers", layers)) return PCO_NONE;
    for (int64_t i = 0; i < layers && !nn->graph->status; i++) {
        const char *layer = pco_nn_name(nn, "%s.layers.%" PRId64, name, i);
        transformer_scope(nn, layer);
        x = transformer_layer(stack, x, layer);
    }
    pco_graph_scope(nn->graph, "%s", before);
    if (p->no_last_norm || nn->graph->status) return x;
    const pco_nn_norm_params norm = {sizeof norm, p->norm, p->norm_form, p->norm_eps, p->width};
    return pco_nn_norm(nn, x, pco_nn_name(nn, "%s.norm", name), &norm);
}

uint32_t pco_nn_encoder_layer(const pco_nn *nn, uint32_t x, const char *name, const pco_nn_transformer_params *params,
                              const pco_nn_transformer_inputs *inputs)
{
    nn_stack stack;
    if (!transformer_begin(nn, &x, PCO_NONE, name, params, inputs, __func__, &stack)) return PCO_NONE;
    return transformer_layer(&stack, x, name);
}

uint32_t pco_nn_decoder_layer(const pco_nn *nn, uint32_t x, uint32_t memory, const char *name,
                              const pco_nn_transformer_params *params, const pco_nn_transformer_inputs *inputs)
{
    nn_stack stack;
    if (!transformer_begin(nn, &x, memory, name, params, inputs, __func__, &stack) ||
        !pco_nn_has(nn, __func__, memory, 3))
        return PCO_NONE;
    return transformer_layer(&stack, x, name);
}

uint32_t pco_nn_encoder(const pco_nn *nn, uint32_t x, const char *name, const pco_nn_transformer_params *params,
                        const pco_nn_transformer_inputs *inputs)
{
    nn_stack stack;
    if (!transformer_begin(nn, &x, PCO_NONE, name, params, inputs, __func__, &stack)) return PCO_NONE;
    return transformer_layers(&stack, x, name, stack.params.layers);
}

uint32_t pco_nn_decoder(const pco_nn *nn, uint32_t x, uint32_t memory, const char *name,
                        const pco_nn_transformer_params *params, const pco_nn_transformer_inputs *inputs)
{
    nn_stack stack;
    if (!transformer_begin(nn, &x, memory, name, params, inputs, __func__, &stack) ||
        !pco_nn_has(nn, __func__, memory, 3))
        return PCO_NONE;
    const pco_nn_transformer_params *p = &stack.params;
    return transformer_layers(&stack, x, name, p->decoder_layers ? p->decoder_layers : p->layers);
}

uint32_t pco_nn_transformer(const pco_nn *nn, uint32_t source, uint32_t target, const char *name,
                            const pco_nn_transformer_params *params, const pco_nn_transformer_inputs *inputs)
{
    pco_nn_transformer_params encoder;
    pco_nn_transformer_inputs known, of_source = PCO_NN_NO_INPUTS;
    if (!pco_nn_take(nn, __func__, &encoder, sizeof encoder, params) || !pco_nn_named(nn, __func__, name) ||
        !transformer_take_inputs(nn, name, &known, inputs))
        return PCO_NONE;
    of_source.mask = known.memory_mask;
    of_source.lengths = known.memory_lengths;
    encoder.size = sizeof encoder;
    encoder.context = 0; /* the source is read at once */
    const char *of_encoder = pco_nn_name(nn, "%s.encoder", name), *of_decoder = pco_nn_name(nn, "%s.decoder", name);
    const uint32_t memory = pco_nn_encoder(nn, source, of_encoder, &encoder, &of_source);
    return pco_nn_decoder(nn, target, memory, of_decoder, params, inputs);
}
