/* Reading nodes: types, counts and attributes against the op's row; shapes are left to the row's parse. */
#include "cpu.h"

#include <stdarg.h>
#include <stdio.h>

#define CPU_TYPE_NAME(NAME, name, block, bytes) [PCO_##NAME] = #name,
static const char *const CPU_TYPE_NAMES[PCO_DTYPE_COUNT] = {PCO_DTYPES(CPU_TYPE_NAME)};

pco_status cpu_fail(pco_error *err, pco_status status, const char *format, ...)
{
    if (!err) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return status;
}

pco_status cpu_invalid(const cpu_node *node, pco_error *err, const char *format, ...)
{
    if (!err) return PCO_ERROR_INVALID;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return cpu_fail(err, PCO_ERROR_INVALID, "op '%s' (%.200s): %s", pco_op_name(node->op->op), node->name, text);
}

bool cpu_same_shape(const cpu_tensor *a, const cpu_tensor *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0;
}

bool cpu_axis_of(const cpu_tensor *x, int64_t axis, int *index)
{
    if (axis < 0 || axis >= (int64_t)x->rank) return false;
    *index = (int)axis;
    return true;
}

int64_t cpu_product(const int64_t *shape, int from, int to)
{
    int64_t product = 1;
    for (int i = from; i < to; i++) product *= shape[i];
    return product;
}

cpu_axis cpu_split(const cpu_tensor *x, int axis)
{
    return (cpu_axis){.outer = cpu_product(x->shape, 0, axis),
                      .n = x->shape[axis],
                      .inner = cpu_product(x->shape, axis + 1, (int)x->rank)};
}

static pco_status cpu_read_tensor(const cpu_node *node, const pco_part *part, uint32_t index, cpu_tensor *out,
                                  pco_error *err)
{
    if (index >= part->n_tensors) return cpu_invalid(node, err, "tensor %u is not in the part", index);
    const pco_tensor *tensor = &part->tensors[index];
    if (tensor->rank > PCO_MAX_RANK) return cpu_invalid(node, err, "a tensor has rank %u", tensor->rank);
    if (tensor->dtype >= PCO_DTYPE_COUNT) return cpu_invalid(node, err, "type %u is not known", tensor->dtype);
    *out = (cpu_tensor){.present = true, .dtype = tensor->dtype, .rank = tensor->rank, .count = 1};
    bool empty = false;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        out->shape[i] = tensor->shape[i];
        if (tensor->shape[i] < 0) return cpu_invalid(node, err, "a dimension is negative");
        if (tensor->shape[i] == 0) empty = true;
    }
    for (uint32_t i = 0; i < tensor->rank && !empty; i++)
        if (__builtin_mul_overflow(out->count, tensor->shape[i], &out->count) || out->count > INT64_MAX / 16)
            return cpu_invalid(node, err, "a tensor is too large");
    if (empty) out->count = 0;
    if (cpu_is_quantised(out->dtype) && (out->rank == 0 || out->shape[out->rank - 1] % cpu_block(out->dtype)))
        return cpu_invalid(node, err, "rows of a quantised tensor are not multiples of %lld",
                           (long long)cpu_block(out->dtype));
    return PCO_OK;
}

/* Does a type belong to a class of the notation below? */
static bool cpu_type_in_class(uint32_t dtype, char letter)
{
    switch (letter | 0x20) {
    case 'n': return cpu_is_float(dtype) || dtype == PCO_I32;
    case 'f':
    case 'k': return cpu_is_float(dtype);
    case 'a': return !cpu_is_quantised(dtype);
    case 'w': return cpu_is_float(dtype) || cpu_is_quantised(dtype);
    case 'm': return cpu_is_float(dtype) || dtype == PCO_BOOL;
    case 'i': return dtype == PCO_I32;
    case 'b': return dtype == PCO_BOOL;
    case 's': return dtype == PCO_F32;
    default: return true;
    }
}

/* One operand against the notation: a letter names a class of types (n numbers, f and k floats, a all but
 * quantised, w floats and quantised, m masks, i i32, b bool, s f32, @ any); operands with the same capital
 * have the same type. '?' after a letter: may be absent. */
static pco_status cpu_check_type(const cpu_node *node, const cpu_tensor *x, const char *role, uint32_t i, char letter,
                                 uint32_t *bound, pco_error *err)
{
    if (!cpu_type_in_class(x->dtype, letter))
        return cpu_fail(err, PCO_ERROR_UNSUPPORTED, "op '%s' (%.200s): type %s of %s %u is not supported",
                        pco_op_name(node->op->op), node->name, CPU_TYPE_NAMES[x->dtype], role, i);
    if (letter < 'A' || letter > 'Z') return PCO_OK;
    if (*bound == PCO_NONE) *bound = x->dtype;
    if (*bound != x->dtype)
        return cpu_invalid(node, err, "%s %u is %s where %s is expected", role, i, CPU_TYPE_NAMES[x->dtype],
                           CPU_TYPE_NAMES[*bound]);
    return PCO_OK;
}

static pco_status cpu_check_types(const cpu_node *node, pco_error *err)
{
    uint32_t bound[32], i = 0;
    for (int j = 0; j < 32; j++) bound[j] = PCO_NONE;
    bool output = false;
    for (const char *at = node->op->types;; at++) {
        uint32_t n = output ? node->n_outputs : node->n_inputs;
        const char *role = output ? "output" : "input";
        if (*at == '>' || *at == 0) {
            if (n > i) return cpu_invalid(node, err, "%u %ss where at most %u are expected", n, role, i);
            if (*at == 0) return PCO_OK;
            output = true;
            i = 0;
            continue;
        }
        bool optional = at[1] == '?';
        const cpu_tensor *x = output ? &node->out[i] : &node->in[i];
        if (x->present) {
            pco_status status = cpu_check_type(node, x, role, i, *at, &bound[*at & 31], err);
            if (status) return status;
        } else if (!optional) {
            return cpu_invalid(node, err, "%s %u is missing", role, i);
        }
        at += optional;
        i++;
    }
}

static pco_status cpu_read_attrs(cpu_node *node, const pco_node *from, pco_error *err)
{
    uint32_t known = cpu_attrs_size(node->op->op);
    if (known == 0) return PCO_OK;
    if (!from->attrs || from->attrs_size < known)
        return cpu_invalid(node, err, "attributes take %u bytes, not %u", known, from->attrs_size);
    memcpy(node->attrs.bytes, from->attrs, known);
    for (uint32_t i = known; i < from->attrs_size; i++)
        if (((const unsigned char *)from->attrs)[i])
            return cpu_fail(err, PCO_ERROR_UNSUPPORTED,
                            "op '%s' (%.200s) uses an attribute that is newer than this plugin",
                            pco_op_name(node->op->op), node->name);
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
    if (from->n_inputs > PCO_MAX_INPUTS || from->n_outputs > PCO_MAX_OUTPUTS)
        return cpu_invalid(node, err, "%u inputs and %u outputs", from->n_inputs, from->n_outputs);
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < from->n_inputs && !status; i++)
        if (from->inputs[i] != PCO_NONE) status = cpu_read_tensor(node, part, from->inputs[i], &node->in[i], err);
    for (uint32_t i = 0; i < from->n_outputs && !status; i++)
        if (from->outputs[i] != PCO_NONE) status = cpu_read_tensor(node, part, from->outputs[i], &node->out[i], err);
    if (!status) status = cpu_check_types(node, err);
    if (!status) status = cpu_read_attrs(node, from, err);
    if (!status) status = node->op->parse(node, err);
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
    if (wanted >= count) return cpu_invalid(node, err, "there is no variant %u", wanted);
    node->variant = wanted;
    *variant = list[wanted];
    return PCO_OK;
}
