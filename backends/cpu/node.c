/* Reading nodes: operands and attributes; what follows from them for an op is left to its row's parse. */
#include "cpu.h"

#include <stdarg.h>
#include <stdio.h>

pco_status cpu_fail(pco_error *err, pco_status status, const char *format, ...)
{
    if (!err) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return status;
}

static const char *cpu_op_name(const cpu_node *node)
{
    return PCO_OP_IS_OWN(node->op->op) ? "of one's own" : pco_op_name(node->op->op);
}

static pco_status cpu_read_tensor(const cpu_node *node, const pco_tensor *tensor, cpu_tensor *out, pco_error *err)
{
    if (tensor->dtype >= PCO_DTYPE_COUNT)
        return cpu_fail(err, PCO_ERROR_UNSUPPORTED, "op '%s' (%.200s): type %u is newer than this plugin",
                        cpu_op_name(node), node->name, tensor->dtype);
    *out = (cpu_tensor){.present = true, .dtype = tensor->dtype, .rank = tensor->rank};
    memcpy(out->shape, tensor->shape, tensor->rank * sizeof *out->shape);
    out->count = cpu_product(out->shape, 0, (int)out->rank);
    /* So that bytes of workspaces, up to 16 for an element, can be counted. */
    if (out->count > INT64_MAX / 16)
        return cpu_fail(err, PCO_ERROR_UNSUPPORTED, "op '%s' (%.200s): a tensor is too large", cpu_op_name(node),
                        node->name);
    return PCO_OK;
}

static pco_status cpu_read_attrs(cpu_node *node, const pco_node *from, pco_error *err)
{
    uint32_t known = cpu_attrs_size(node->op->op);
    if (PCO_OP_IS_OWN(from->op)) known = from->attrs_size < sizeof node->attrs ? from->attrs_size : sizeof node->attrs;
    if (known == 0) return PCO_OK;
    memcpy(node->attrs.bytes, from->attrs, known);
    for (uint32_t i = known; i < from->attrs_size; i++)
        if (((const unsigned char *)from->attrs)[i])
            return cpu_fail(err, PCO_ERROR_UNSUPPORTED,
                            "op '%s' (%.200s) uses an attribute that is newer than this plugin", cpu_op_name(node),
                            node->name);
    return PCO_OK;
}

pco_status cpu_node_parse(const pco_device *device, const pco_part *part, uint32_t index, cpu_node *node,
                          pco_error *err)
{
    memset(node, 0, sizeof *node);
    const pco_node *from = &part->nodes[index];
    node->op = cpu_op_find(from->op);
    if (!node->op) return cpu_fail(err, PCO_ERROR_UNSUPPORTED, "op %u is not known to this plugin", from->op);
    node->device = device;
    node->kernels = device->kernels;
    node->name = from->name ? from->name : "?";
    node->index = index;
    node->n_inputs = from->n_inputs;
    node->n_outputs = from->n_outputs;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < from->n_inputs && !status; i++)
        if (from->inputs[i] != PCO_NONE)
            status = cpu_read_tensor(node, &part->tensors[from->inputs[i]], &node->in[i], err);
    for (uint32_t i = 0; i < from->n_outputs && !status; i++)
        if (from->outputs[i] != PCO_NONE)
            status = cpu_read_tensor(node, &part->tensors[from->outputs[i]], &node->out[i], err);
    if (!status) status = cpu_read_attrs(node, from, err);
    if (!status) node->op->parse(node);
    return status;
}

uint32_t cpu_node_variants(const cpu_node *node, const cpu_variant **list, uint32_t capacity)
{
    const cpu_op *op = node->op;
    if (node->device->reference) {
        if (capacity) list[0] = op->reference;
        return 1;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->n_native; i++) {
        if (op->native[i].fits && !op->native[i].fits(node)) continue;
        if (count < capacity) list[count] = &op->native[i];
        count++;
    }
    return count;
}

pco_status cpu_node_choose(cpu_node *node, uint32_t wanted, const cpu_variant **variant, pco_error *err)
{
    const cpu_variant *list[8];
    uint32_t count = cpu_node_variants(node, list, 8);
    if (wanted == PCO_NONE) {
        wanted = 0;
        const cpu_variant *choice = !node->device->reference && node->op->choose ? node->op->choose(node) : list[0];
        for (uint32_t i = 0; i < count; i++)
            if (list[i] == choice) wanted = i;
    }
    if (wanted >= count)
        return cpu_fail(err, PCO_ERROR_INVALID, "op '%s' (%.200s): there is no variant %u", cpu_op_name(node),
                        node->name, wanted);
    node->variant = wanted;
    *variant = list[wanted];
    return PCO_OK;
}
