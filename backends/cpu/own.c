/* Operations that a program or a plugin declares: their own function in double, on operands that are turned into
 * doubles; results are rounded once. The same on both devices. */
#include "run.h"

#include <stdio.h>

/* Operands and results as doubles, each from a multiple of 64 bytes on. */
static uint64_t cpu_own_workspace(const cpu_node *node)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) bytes += cpu_round64(8 * (uint64_t)node->in[i].count);
    for (uint32_t i = 0; i < node->n_outputs; i++) bytes += cpu_round64(8 * (uint64_t)node->out[i].count);
    return bytes;
}

static pco_tensor cpu_own_describe(const cpu_tensor *tensor)
{
    pco_tensor described = {.dtype = tensor->dtype, .rank = tensor->rank, .alias = PCO_NONE, .name = ""};
    memcpy(described.shape, tensor->shape, sizeof described.shape);
    described.bytes = (uint64_t)cpu_bytes(tensor->dtype, tensor->count);
    return described;
}

static pco_status cpu_own_run(const cpu_node *node, pco_error *err)
{
    const pco_op_declaration *declaration = node->attrs.own.declaration;
    pco_op_call call = {.declaration = declaration,
                        .attrs = node->attrs.bytes + sizeof node->attrs.own,
                        .n_inputs = node->n_inputs,
                        .n_outputs = node->n_outputs};
    pco_tensor tensors[PCO_MAX_INPUTS + PCO_MAX_OUTPUTS];
    const double *in[PCO_MAX_INPUTS] = {NULL};
    double *out[PCO_MAX_OUTPUTS] = {NULL}, *at = (double *)(void *)node->workspace;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const cpu_tensor *x = &node->in[i];
        if (!x->present) continue;
        tensors[i] = cpu_own_describe(x);
        call.inputs[i] = &tensors[i];
        for (int64_t k = 0; k < x->count; k++) at[k] = cpu_load_f64(x->dtype, x->data, k);
        in[i] = at;
        at += cpu_round64(8 * (uint64_t)x->count) / 8;
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (!node->out[i].present) continue;
        tensors[PCO_MAX_INPUTS + i] = cpu_own_describe(&node->out[i]);
        call.outputs[i] = &tensors[PCO_MAX_INPUTS + i];
        out[i] = at;
        at += cpu_round64(8 * (uint64_t)node->out[i].count) / 8;
    }
    pco_error why = {""};
    const pco_status status = declaration->compute(&call, in, out, &why);
    if (status) {
        if (err)
            snprintf(err->message, sizeof err->message, "op '%s': %.900s", declaration->name,
                     why.message[0] ? why.message : "its function compute failed and says no more");
        return status;
    }
    for (uint32_t i = 0; i < node->n_outputs; i++)
        for (int64_t k = 0; out[i] && k < node->out[i].count; k++)
            cpu_store_f64(node->out[i].dtype, node->out[i].data, k, out[i][k]);
    return PCO_OK;
}

static const cpu_variant cpu_own_variant = {"default", NULL, cpu_own_workspace, NULL};

const cpu_op cpu_op_own = {.op = PCO_OP_OWN,
                           .parse = cpu_parse_nothing,
                           .n_native = 1,
                           .native = &cpu_own_variant,
                           .reference = &cpu_own_variant,
                           .attempt = cpu_own_run};
