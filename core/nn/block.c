#include "nn/nn.h"

/* What ends a block: `post_norm`, or nothing for NULL. */
typedef struct nn_ending {
    const char *post_norm;
    const pco_nn_norm_params *norm;
} nn_ending;

typedef struct nn_attention_call {
    const pco_nn_attention_params *params;
    const pco_nn_attention_operands *operands;
    nn_ending ending;
} nn_attention_call;

typedef struct nn_ffn_call {
    const pco_nn_ffn_params *params;
    nn_ending ending;
} nn_ffn_call;

static uint32_t nn_end(const pco_nn *nn, uint32_t x, const nn_ending *ending)
{
    return ending->post_norm ? pco_nn_norm(nn, x, ending->post_norm, ending->norm) : x;
}

static uint32_t nn_attention_block(const pco_nn *nn, uint32_t x, const void *user)
{
    const nn_attention_call *call = user;
    return nn_end(nn, pco_nn_attention(nn, x, call->params, call->operands), &call->ending);
}

static uint32_t nn_ffn_block(const pco_nn *nn, uint32_t x, const void *user)
{
    const nn_ffn_call *call = user;
    return nn_end(nn, pco_nn_ffn(nn, x, call->params), &call->ending);
}

uint32_t pco_nn_residual(const pco_nn *nn, uint32_t x, int normalize_before, const char *norm_name,
                         const pco_nn_norm_params *norm, pco_nn_block_fn block, const void *user)
{
    uint32_t in = normalize_before && norm_name ? pco_nn_norm(nn, x, norm_name, norm) : x;
    uint32_t sum = pco_binary(nn->graph, PCO_OP_ADD, x, pco_nn_dropout(nn, block(nn, in, user)));
    return normalize_before || !norm_name ? sum : pco_nn_norm(nn, sum, norm_name, norm);
}

/* Both blocks read the same x. */
static uint32_t nn_parallel_layer(const pco_nn *nn, uint32_t x, const pco_nn_layer_params *params,
                                  const nn_attention_call *self, const nn_ffn_call *ffn)
{
    const uint32_t first = pco_nn_norm(nn, x, params->self_attention_norm, &params->norm);
    const uint32_t second = params->ffn_norm ? pco_nn_norm(nn, x, params->ffn_norm, &params->norm) : first;
    const uint32_t attention = pco_nn_dropout(nn, nn_attention_block(nn, first, self));
    const uint32_t sum = pco_binary(nn->graph, PCO_OP_ADD, x, attention);
    return pco_binary(nn->graph, PCO_OP_ADD, sum, pco_nn_dropout(nn, nn_ffn_block(nn, second, ffn)));
}

uint32_t pco_nn_self_layer(const pco_nn *nn, uint32_t x, const pco_nn_layer_params *params,
                           const pco_nn_attention_operands *self_attention)
{
    nn_attention_call self = {
        &params->self_attention, self_attention, {params->self_attention_post_norm, &params->norm}};
    nn_ffn_call ffn = {&params->ffn, {params->ffn_post_norm, &params->norm}};
    int before = params->normalize_before;
    if (params->parallel) return nn_parallel_layer(nn, x, params, &self, &ffn);
    x = pco_nn_residual(nn, x, before, params->self_attention_norm, &params->norm, nn_attention_block, &self);
    return pco_nn_residual(nn, x, before, params->ffn_norm, &params->norm, nn_ffn_block, &ffn);
}

uint32_t pco_nn_cross_layer(const pco_nn *nn, uint32_t x, const pco_nn_layer_params *params,
                            const pco_nn_attention_operands *self_attention,
                            const pco_nn_attention_operands *cross_attention)
{
    nn_attention_call self = {
        &params->self_attention, self_attention, {params->self_attention_post_norm, &params->norm}};
    nn_ffn_call ffn = {&params->ffn, {params->ffn_post_norm, &params->norm}};
    nn_attention_call cross = {&params->cross_attention, cross_attention, {NULL, &params->norm}};
    int before = params->normalize_before;
    x = pco_nn_residual(nn, x, before, params->self_attention_norm, &params->norm, nn_attention_block, &self);
    x = pco_nn_residual(nn, x, before, params->cross_attention_norm, &params->norm, nn_attention_block, &cross);
    return pco_nn_residual(nn, x, before, params->ffn_norm, &params->norm, nn_ffn_block, &ffn);
}
