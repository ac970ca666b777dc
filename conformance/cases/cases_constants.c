/* Cases that give specialisation constants of kernels a second value: above all invocations that own more than one
 * word, which takes some thousand elements (tests/unit/test_constants.c finds what is missing). In the type that shares
 * words where an op has one, and in one type only, since each is a pipeline. */
#include "cases/lists.h"

#include "base/dtype.h"

enum { FAR_INPUTS = 3 };

/* Ops without attributes, or whose defaults will do. */
static const struct {
    uint32_t op;
    struct {
        uint32_t dtype;
        const char *shape; /* NULL: no such operand */
    } in[FAR_INPUTS];
} FAR[] = {
    {PCO_OP_ADD, {{PCO_F16, "8221"}, {PCO_F16, "8221"}}},
    {PCO_OP_MUL, {{PCO_F32, "70,131"}, {PCO_F32, "131"}}},
    {PCO_OP_SWIGLU_BACKWARD, {{PCO_F16, "8221"}, {PCO_F16, "8221"}, {PCO_F16, "8221"}}},
};

static void conf_constants_far(conf_cases_context *context, pco_op op)
{
    for (size_t i = 0; i < sizeof FAR / sizeof *FAR; i++) {
        if (FAR[i].op != (uint32_t)op) continue;
        conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
        for (uint32_t k = 0; k < FAR_INPUTS && FAR[i].in[k].shape; k++)
            conf_cases_in(one, FAR[i].in[k].dtype, "%s", FAR[i].in[k].shape);
        conf_cases_emit(context);
    }
}

/* Results that are made of attributes and seeds. */
static void conf_constants_make(conf_cases_context *context, pco_op op)
{
    conf_case *one = conf_cases_begin(context, op, op == PCO_OP_FILL || op == PCO_OP_IOTA ? CONF_EXACT : CONF_RANDOM);
    if (op == PCO_OP_FILL) {
        pco_fill_attrs *attrs = (pco_fill_attrs *)one->attrs.bytes;
        attrs->dtype = PCO_F16, attrs->value = 1.5;
        attrs->n_shape = conf_cases_vector(attrs->shape, "8221");
    } else if (op == PCO_OP_IOTA) {
        pco_iota_attrs *attrs = (pco_iota_attrs *)one->attrs.bytes;
        attrs->dtype = PCO_F16, attrs->axis = 1, attrs->start = -700, attrs->step = 0.5;
        attrs->n_shape = conf_cases_vector(attrs->shape, "3,2741");
    } else if (op == PCO_OP_DROPOUT) {
        *(pco_dropout_attrs *)one->attrs.bytes = (pco_dropout_attrs){.p = 0.3, .stream = 7};
        conf_cases_in(one, PCO_F16, "16421");
        conf_cases_in(one, PCO_I32, "2")->fill = CONF_FILL_BITS;
    } else {
        pco_random_bits_attrs *attrs = (pco_random_bits_attrs *)one->attrs.bytes;
        attrs->stream = 11;
        attrs->n_shape = conf_cases_vector(attrs->shape, "16421");
        conf_cases_in(one, PCO_I32, "2")->fill = CONF_FILL_BITS;
    }
    conf_cases_emit(context);
}

static conf_operand *conf_constants_indices(conf_case *one, const char *shape, double limit)
{
    conf_operand *index = conf_cases_in(one, PCO_I32, "%s", shape);
    index->fill = CONF_FILL_INTEGER, index->low = -1.0, index->high = limit; /* both lie outside */
    return index;
}

static void conf_constants_indexed(conf_cases_context *context, pco_op op)
{
    conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
    if (op == PCO_OP_GATHER) {
        conf_cases_in(one, PCO_F16, "9,600");
        conf_constants_indices(one, "14", 9);
        conf_cases_emit(context);
        one = conf_cases_begin(context, op, CONF_RANDOM);
        conf_cases_in(one, PCO_Q8_0, "7,1280")->constant = true;
        conf_constants_indices(one, "4", 7);
    } else if (op == PCO_OP_GATHER_ALONG_AXIS) {
        conf_cases_in(one, PCO_F16, "3,2741");
        conf_constants_indices(one, "3,2741", 3);
    } else if (op == PCO_OP_SCATTER_ADD) {
        conf_cases_in(one, PCO_F16, "5,280");
        conf_constants_indices(one, "30", 5);
        conf_cases_in(one, PCO_F16, "30,280");
    } else {
        static const double AT[] = {3, 0};
        conf_cases_in(one, PCO_F16, "2,40,3,280");
        conf_cases_in(one, PCO_F16, "2,11,3,280");
        conf_cases_list(conf_cases_in(one, PCO_I32, "2"), 2, AT);
    }
    conf_cases_emit(context);
}

static void conf_constants_pad(conf_cases_context *context)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_PAD, CONF_RANDOM);
    pco_pad_attrs *attrs = (pco_pad_attrs *)one->attrs.bytes;
    conf_cases_in(one, PCO_F16, "90,89");
    attrs->n_before = conf_cases_vector(attrs->before, "1,2");
    attrs->n_after = conf_cases_vector(attrs->after, "3,0");
    attrs->value = 2.5;
    conf_cases_emit(context);
}

/* Positions of many words, and a depth of which the last element has no partner. */
static void conf_constants_positions(conf_cases_context *context, pco_op op)
{
    conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
    const bool rope = op == PCO_OP_ROPE;
    if (rope)
        conf_cases_in(one, PCO_F16, "2,5,3,11");
    else
        ((pco_sinusoidal_positions_attrs *)one->attrs.bytes)->dtype = PCO_F16;
    conf_operand *positions = conf_cases_in(one, PCO_I32, rope ? "2,5" : "137");
    positions->fill = CONF_FILL_INTEGER, positions->high = 4000;
    conf_operand *phase = conf_cases_in(one, PCO_I32, rope ? "5,2" : "30,2");
    phase->fill = CONF_FILL_PHASE, phase->constant = true;
    conf_cases_emit(context);
}

static void conf_constants_optimisers(conf_cases_context *context, pco_op op)
{
    static const double RUN[3] = {0.01, 0.271, 0.002997001};
    conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
    const uint32_t states = op == PCO_OP_ADAMW ? 3 : 2;
    for (uint32_t i = 0; i < states; i++) {
        conf_operand *state = conf_cases_in(one, PCO_F32, "4133");
        if (i == 2) state->fill = CONF_FILL_UNIFORM, state->high = 2; /* of squares */
    }
    conf_cases_in(one, PCO_F16, "4133");
    conf_cases_list(conf_cases_in(one, PCO_F32, op == PCO_OP_ADAMW ? "3" : "1"), op == PCO_OP_ADAMW ? 3 : 1, RUN);
    if (op == PCO_OP_ADAMW)
        *(pco_adamw_attrs *)one->attrs.bytes = (pco_adamw_attrs){0.9, 0.99, 1e-6, 0.01};
    else
        *(pco_sgd_attrs *)one->attrs.bytes = (pco_sgd_attrs){.momentum = 0.5, .weight_decay = 0.01};
    conf_cases_emit(context);
}

/* The other form of layer_norm with statistics, in all variants. */
static void conf_constants_norm(conf_cases_context *context)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_LAYER_NORM, CONF_RANDOM);
    pco_layer_norm_attrs *attrs = (pco_layer_norm_attrs *)one->attrs.bytes;
    attrs->form = 1, attrs->correction = 1, attrs->stats = 1;
    conf_cases_in(one, PCO_F32, "3,66");
    conf_cases_absent(one);
    conf_cases_in(one, PCO_F32, "66");
    conf_cases_emit(context);
}

/* Kernels that read whole vectors, with all that can be done with a sum, and results of which two share a word. Each
 * has operands of types that no other case has, so that it runs in every variant. */
static void conf_constants_matmul(conf_cases_context *context)
{
    static const struct {
        int m, n, k, transpose_b, activation;
        uint32_t a, b, bias, c; /* PCO_NONE: absent */
        int transpose_a;
    } LISTS[] = {
        {20, 72, 32, 0, 1, PCO_F16, PCO_F16, PCO_BF16, PCO_F16},
        {7, 34, 64, 1, 4, PCO_F16, PCO_F16, PCO_F32, PCO_F16},
        {3, 24, 32, 0, 0, PCO_F16, PCO_F16, PCO_NONE, PCO_F16},
        {1, 24, 32, 0, 1, PCO_F32, PCO_F16, PCO_BF16, PCO_F32},
        {1, 34, 96, 1, 4, PCO_F16, PCO_Q8_0, PCO_NONE, PCO_F16},
        {5, 34, 64, 1, 0, PCO_F16, PCO_Q8_0, PCO_NONE, PCO_NONE},
        {7, 8, 32, 0, 0, PCO_BF16, PCO_F16, PCO_NONE, PCO_NONE},
        {3, 5, 32, 1, 0, PCO_BF16, PCO_Q8_0, PCO_NONE, PCO_NONE, 1},
    };
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        const int m = LISTS[i].m, n = LISTS[i].n, k = LISTS[i].k;
        conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
        pco_matmul_attrs *attrs = (pco_matmul_attrs *)one->attrs.bytes;
        attrs->transpose_a = LISTS[i].transpose_a, attrs->transpose_b = LISTS[i].transpose_b;
        attrs->activation = LISTS[i].activation;
        conf_cases_in(one, LISTS[i].a, "%d,%d", LISTS[i].transpose_a ? k : m, LISTS[i].transpose_a ? m : k);
        conf_cases_in(one, LISTS[i].b, "%d,%d", LISTS[i].transpose_b ? n : k, LISTS[i].transpose_b ? k : n)->constant =
            pco_dtype_is_quantised(LISTS[i].b);
        if (LISTS[i].bias != PCO_NONE)
            conf_cases_in(one, LISTS[i].bias, "%d", n);
        else if (LISTS[i].c != PCO_NONE)
            conf_cases_absent(one);
        if (LISTS[i].c != PCO_NONE) conf_cases_in(one, LISTS[i].c, "%d,%d", m, n);
        conf_cases_emit(context);
    }
}

void conf_cases_constants(conf_cases_context *context, pco_op op)
{
    conf_constants_far(context, op);
    switch (op) {
    case PCO_OP_FILL:
    case PCO_OP_IOTA:
    case PCO_OP_DROPOUT:
    case PCO_OP_RANDOM_BITS: conf_constants_make(context, op); break;
    case PCO_OP_GATHER:
    case PCO_OP_GATHER_ALONG_AXIS:
    case PCO_OP_SCATTER_ADD:
    case PCO_OP_STATE_WRITE: conf_constants_indexed(context, op); break;
    case PCO_OP_PAD: conf_constants_pad(context); break;
    case PCO_OP_ROPE:
    case PCO_OP_SINUSOIDAL_POSITIONS: conf_constants_positions(context, op); break;
    case PCO_OP_ADAMW:
    case PCO_OP_SGD: conf_constants_optimisers(context, op); break;
    case PCO_OP_LAYER_NORM: conf_constants_norm(context); break;
    case PCO_OP_MATMUL: conf_constants_matmul(context); break;
    default: break;
    }
}
