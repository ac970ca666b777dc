#include "parse.h"

static pco_status cpu_check_attr_type(const cpu_node *node, int64_t dtype, pco_error *err)
{
    if (dtype != (int64_t)node->out[0].dtype)
        return cpu_invalid(node, err, "attribute dtype does not say the type of the output");
    return PCO_OK;
}

static pco_status cpu_check_attr_shape(const cpu_node *node, int64_t n, const int64_t *shape, pco_error *err)
{
    const cpu_tensor *y = &node->out[0];
    if (n != (int64_t)y->rank || memcmp(shape, y->shape, y->rank * sizeof *shape))
        return cpu_invalid(node, err, "attribute shape is not that of the output");
    return PCO_OK;
}

/* One operand that lies as the result does. */
static void cpu_walk_flat(cpu_walk *walk, const cpu_tensor *y)
{
    cpu_walk_init(walk, y->rank, y->shape, 1);
    cpu_walk_broadcast(walk, 0, y->rank, y->shape);
    cpu_walk_merge(walk);
}

CPU_PARSE(elementwise)
{
    const cpu_tensor *y = &node->out[0];
    cpu_walk *walk = &node->plan.walk;
    if (node->n_inputs > CPU_WALK_OPERANDS) return cpu_invalid(node, err, "too many inputs");
    cpu_walk_init(walk, y->rank, y->shape, (int)node->n_inputs);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!cpu_walk_broadcast(walk, (int)i, node->in[i].rank, node->in[i].shape))
            return cpu_invalid(node, err, "input %u does not broadcast to the output", i);
    for (uint32_t d = 0; d < y->rank; d++) {
        bool found = y->shape[d] == 1;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            int64_t at = (int64_t)d - (int64_t)(y->rank - node->in[i].rank);
            if (at >= 0 && node->in[i].shape[at] == y->shape[d]) found = true;
        }
        if (!found) return cpu_invalid(node, err, "no input has dimension %u of the output", d);
    }
    cpu_walk_merge(walk);
    return PCO_OK;
}

CPU_PARSE(unary)
{
    if (!cpu_same_shape(&node->in[0], &node->out[0])) return cpu_invalid(node, err, "input and output differ in shape");
    cpu_walk_flat(&node->plan.walk, &node->out[0]);
    return PCO_OK;
}

CPU_PARSE(cast)
{
    if (cpu_is_quantised(node->out[0].dtype))
        return cpu_fail(err, PCO_ERROR_UNSUPPORTED, "op 'cast' does not make quantised tensors");
    pco_status status = cpu_check_attr_type(node, node->attrs.cast.dtype, err);
    return status ? status : cpu_parse_unary(node, err);
}

CPU_PARSE(swiglu)
{
    const cpu_tensor *gate = &node->in[0], *y = &node->out[0];
    cpu_walk *walk = &node->plan.walk;
    if (node->in[1].present) {
        if (!cpu_same_shape(gate, &node->in[1]) || !cpu_same_shape(gate, y))
            return cpu_invalid(node, err, "gate, up and output differ in shape");
        cpu_walk_init(walk, y->rank, y->shape, 2);
        for (int i = 0; i < 2; i++) cpu_walk_broadcast(walk, i, y->rank, y->shape);
        cpu_walk_merge(walk);
        return PCO_OK;
    }
    if (y->rank == 0 || gate->rank != y->rank || memcmp(gate->shape, y->shape, (y->rank - 1) * sizeof gate->shape[0]) ||
        gate->shape[y->rank - 1] != 2 * y->shape[y->rank - 1])
        return cpu_invalid(node, err, "the last dimension of gate is not twice that of the output");
    int64_t n = y->shape[y->rank - 1], rows = cpu_product(y->shape, 0, (int)y->rank - 1);
    cpu_walk_init(walk, 2, (int64_t[]){rows, n}, 2);
    for (int i = 0; i < 2; i++) {
        walk->stride[i][0] = 2 * n;
        walk->stride[i][1] = 1;
    }
    cpu_walk_merge(walk);
    return PCO_OK;
}

static pco_status cpu_check_key(const cpu_node *node, uint32_t seed, pco_error *err)
{
    for (uint32_t i = seed; i < seed + 2; i++)
        if (node->in[i].present && node->in[i].count != 2)
            return cpu_invalid(node, err, "%s does not have two elements", i == seed ? "seed" : "offset");
    return PCO_OK;
}

CPU_PARSE(dropout)
{
    double p = node->attrs.dropout.p;
    if (!(p >= 0 && p < 1)) return cpu_invalid(node, err, "p is %g, not in [0, 1)", p);
    pco_status status = cpu_check_key(node, 1, err);
    return status ? status : cpu_parse_unary(node, err);
}

CPU_PARSE(random_bits)
{
    const pco_random_bits_attrs *attrs = &node->attrs.random_bits;
    pco_status status = cpu_check_attr_shape(node, attrs->n_shape, attrs->shape, err);
    return status ? status : cpu_check_key(node, 0, err);
}

CPU_PARSE(fill)
{
    const pco_fill_attrs *attrs = &node->attrs.fill;
    pco_status status = cpu_check_attr_type(node, attrs->dtype, err);
    return status ? status : cpu_check_attr_shape(node, attrs->n_shape, attrs->shape, err);
}

CPU_PARSE(iota)
{
    const pco_iota_attrs *attrs = &node->attrs.iota;
    pco_status status = cpu_check_attr_type(node, attrs->dtype, err);
    if (!status) status = cpu_check_attr_shape(node, attrs->n_shape, attrs->shape, err);
    if (status) return status;
    int axis;
    if (!cpu_axis_of(&node->out[0], attrs->axis, &axis)) return cpu_invalid(node, err, "axis is out of range");
    node->plan.axis = cpu_split(&node->out[0], axis);
    return PCO_OK;
}
