/* Graphs whose gradients are tried: of several ops, and of the shapes and attributes on which a rule branches that the
 * suite's cases have not got, or only with many elements. Data stay away from corners (ties, zeros of abs), where a
 * difference quotient means nothing. */
#define BUILD(name) static uint32_t build_##name(gradient_case *c)

BUILD(binary)
{
    uint32_t a = real(c, -2, 2, 3, SHAPE(2, 1, 3)), b = real(c, 0.5, 2, 2, SHAPE(4, 1)), s = real(c, 1, 2, 0, NULL);
    return BIN(DIV, BIN(SUB, BIN(MUL, BIN(ADD, a, b), a), s), BIN(ADD, b, s));
}

BUILD(extremum)
{
    uint32_t a = real(c, -2, 2, 2, SHAPE(3, 5)), b = real(c, -2, 2, 1, SHAPE(5));
    return BIN(ADD, BIN(MINIMUM, a, b), BIN(MUL, BIN(MAXIMUM, a, b), a));
}

BUILD(pow) { return BIN(POW, real(c, 0.5, 2, 2, SHAPE(3, 4)), real(c, -3, 3, 2, SHAPE(3, 1))); }

/* a negative base, whose exponent is a whole number and no operand of the gradient */
BUILD(pow_whole)
{
    return BIN(POW, real(c, -2, -0.5, 1, SHAPE(6)), pco_cast(c->graph, whole(c, -2, 4, 1, SHAPE(6)), PCO_F32));
}

BUILD(where)
{
    uint32_t a = real(c, -2, 2, 2, SHAPE(3, 1)), b = real(c, -2, 2, 1, SHAPE(4));
    return pco_where(c->graph, truth(c, 2, SHAPE(3, 4)), a, b);
}

BUILD(unary)
{
    static const pco_op ANY[] = {PCO_OP_NEG, PCO_OP_EXP,     PCO_OP_SIN,  PCO_OP_COS, PCO_OP_TANH,
                                 PCO_OP_ERF, PCO_OP_SIGMOID, PCO_OP_SILU, PCO_OP_GELU};
    static const pco_op POSITIVE[] = {PCO_OP_ABS, PCO_OP_RECIPROCAL, PCO_OP_LOG, PCO_OP_SQRT, PCO_OP_RSQRT};
    uint32_t x = real(c, -2, 2, 2, SHAPE(2, 5)), p = real(c, 0.5, 3, 2, SHAPE(2, 5)), sum = x;
    for (size_t i = 0; i < sizeof ANY / sizeof *ANY; i++)
        sum = BIN(ADD, sum, BIN(MUL, pco_unary(c->graph, ANY[i], x), real(c, -1, 1, 1, SHAPE(5))));
    for (size_t i = 0; i < sizeof POSITIVE / sizeof *POSITIVE; i++)
        sum = BIN(ADD, sum, BIN(MUL, pco_unary(c->graph, POSITIVE[i], p), real(c, -1, 1, 1, SHAPE(5))));
    return sum;
}

BUILD(gelu_tanh)
{
    return add(c, PCO_OP_GELU, &(pco_gelu_attrs){.approximate = 1}, (uint32_t[]){real(c, -3, 3, 2, SHAPE(3, 7))}, 1);
}

BUILD(corners)
{
    uint32_t x = real(c, -2, 2, 2, SHAPE(4, 5)), a = UN(ABS, x), r = UN(RELU, x);
    uint32_t k = pco_graph_add(c->graph, PCO_OP_CLAMP, &(pco_clamp_attrs){.min = -1.0625, .max = 0.9375}, &x, 1, NULL);
    uint32_t flat = BIN(ADD, UN(SIGN, x), UN(FLOOR, x));
    return BIN(MUL, BIN(ADD, BIN(ADD, a, r), BIN(ADD, flat, k)), x);
}

BUILD(swiglu)
{
    uint32_t gate = real(c, -3, 3, 2, SHAPE(3, 5)), up = real(c, -2, 2, 2, SHAPE(3, 5));
    return BIN(SWIGLU, gate, up);
}

BUILD(swiglu_joined) { return UN(SWIGLU, real(c, -3, 3, 3, SHAPE(2, 3, 8))); }

BUILD(dropout)
{
    uint32_t x = real(c, -2, 2, 2, SHAPE(5, 7)), seed = whole(c, 0, 1 << 30, 1, SHAPE(2)),
             at = whole(c, 0, 99, 1, SHAPE(2));
    return add(c, PCO_OP_DROPOUT, &(pco_dropout_attrs){.p = 0.4, .stream = 5}, (uint32_t[]){UN(SIN, x), seed, at}, 3);
}

BUILD(moves)
{
    uint32_t x = real(c, -2, 2, 3, SHAPE(2, 1, 3));
    uint32_t y = pco_permute(c->graph, pco_broadcast_to(c->graph, x, 4, SHAPE(2, 2, 5, 3)), SHAPE(3, 1, 0, 2));
    return UN(SIN, pco_reshape(c->graph, y, 2, SHAPE(6, -1)));
}

BUILD(slices)
{
    uint32_t x = real(c, -2, 2, 3, SHAPE(5, 8, 3));
    pco_slice_attrs every = {
        .n_starts = 3, .starts = {1, 2, 0}, .n_sizes = 3, .sizes = {2, 3, 1}, .n_steps = 3, .steps = {3, 2, 5}};
    uint32_t a = pco_graph_add(c->graph, PCO_OP_SLICE, &every, &x, 1, NULL);
    uint32_t b = pco_slice_axis(c->graph, x, -1, 1, 1);
    b = pco_slice_axis(c->graph, pco_slice_axis(c->graph, b, 1, 3, 3), 0, 2, 2);
    pco_pad_attrs frame = {.n_before = 3, .before = {1, 0, 2}, .n_after = 3, .after = {0, 3, 1}, .value = 7};
    uint32_t pair = pco_concat(c->graph, (uint32_t[]){a, UN(SIN, b), a}, 3, -3);
    return pco_graph_add(c->graph, PCO_OP_PAD, &frame, &pair, 1, NULL);
}

BUILD(gather)
{
    uint32_t table = real(c, -2, 2, 2, SHAPE(5, 3)), rows = whole(c, -1, 6, 2, SHAPE(2, 4));
    uint32_t columns = pco_gather(c->graph, table, whole(c, 0, 3, 1, SHAPE(7)), 1);
    pco_graph *g = c->graph;
    return pco_concat(g,
                      (uint32_t[]){pco_reshape(g, pco_gather(g, table, rows, 0), 1, SHAPE(24)),
                                   pco_reshape(g, UN(SIN, columns), 1, SHAPE(35))},
                      2, 0);
}

BUILD(gather_along_axis)
{
    uint32_t x = real(c, -2, 2, 3, SHAPE(2, 4, 3)), at = whole(c, -1, 5, 3, SHAPE(2, 6, 3));
    return add(c, PCO_OP_GATHER_ALONG_AXIS, &(pco_gather_along_axis_attrs){.axis = -2}, (uint32_t[]){x, at}, 2);
}

/* a row of x for several indices, and for each; -1 and 3 choose none */
BUILD(indexed_matmul)
{
    const pco_indexed_matmul_attrs attrs = {.matrices = 3};
    uint32_t x = real(c, -2, 2, 3, SHAPE(2, 3, 4)), first = real(c, -1, 1, 2, SHAPE(15, 4));
    uint32_t second = real(c, -1, 1, 2, SHAPE(6, 5)), at = whole(c, -1, 4, 3, SHAPE(2, 3, 2));
    uint32_t inner = add(c, PCO_OP_INDEXED_MATMUL, &attrs, (uint32_t[]){x, first, at}, 3);
    return UN(SIN, add(c, PCO_OP_INDEXED_MATMUL, &attrs, (uint32_t[]){inner, second, at}, 3));
}

BUILD(scatter_add)
{
    uint32_t x = real(c, -2, 2, 2, SHAPE(3, 5)), updates = real(c, -2, 2, 2, SHAPE(3, 9));
    uint32_t at = whole(c, -1, 6, 1, SHAPE(9));
    return UN(SIN, pco_graph_add(c->graph, PCO_OP_SCATTER_ADD, &(pco_scatter_add_attrs){.axis = 1},
                                 (uint32_t[]){x, at, updates}, 3, NULL));
}

/* all four ways of transposing, a batch of each side alone and of both */
static uint32_t any_matmul(gradient_case *c, int ta, int tb)
{
    const int64_t *a = ta ? SHAPE(2, 1, 4, 3) : SHAPE(2, 1, 3, 4), *b = tb ? SHAPE(3, 5, 4) : SHAPE(3, 4, 5);
    return pco_matmul(c->graph, real(c, -1, 1, 4, a), real(c, -1, 1, 3, b), ta, tb);
}

BUILD(matmul_nn) { return any_matmul(c, 0, 0); }
BUILD(matmul_nt) { return any_matmul(c, 0, 1); }
BUILD(matmul_tn) { return any_matmul(c, 1, 0); }
BUILD(matmul_tt) { return any_matmul(c, 1, 1); }

/* a linear layer of a batch of rows, with all that can be folded into it */
static uint32_t any_linear(gradient_case *c, int activation, int residual)
{
    uint32_t x = real(c, -1, 1, 3, SHAPE(2, 3, 4)), w = real(c, -1, 1, 2, SHAPE(5, 4)), b = real(c, -1, 1, 1, SHAPE(5));
    uint32_t r = residual ? real(c, -1, 1, 3, SHAPE(2, 3, 5)) : PCO_NONE;
    pco_matmul_attrs attrs = {.transpose_b = 1, .activation = activation, .dtype = -1};
    return UN(SIN, pco_graph_add(c->graph, PCO_OP_MATMUL, &attrs, (uint32_t[]){x, w, b, r}, 4, NULL));
}

BUILD(linear) { return any_linear(c, 0, 1); }
BUILD(linear_relu) { return any_linear(c, 1, 0); }
BUILD(linear_gelu) { return any_linear(c, 2, 1); }
BUILD(linear_gelu_tanh) { return any_linear(c, 3, 0); }
BUILD(linear_silu) { return any_linear(c, 4, 1); }

BUILD(transposed_rows)
{
    uint32_t x = real(c, -1, 1, 3, SHAPE(2, 4, 3)), w = real(c, -1, 1, 3, SHAPE(1, 4, 5));
    return pco_matmul(c->graph, x, w, 1, 0);
}

static uint32_t any_reduce(gradient_case *c, pco_op op, int keepdims)
{
    pco_sum_attrs attrs = {.keepdims = keepdims, .n_axes = 2, .axes = {-1, 0}};
    return add(c, op, &attrs, (uint32_t[]){real(c, -2, 2, 3, SHAPE(3, 2, 4))}, 1);
}

BUILD(sum) { return any_reduce(c, PCO_OP_SUM, 0); }
BUILD(mean) { return any_reduce(c, PCO_OP_MEAN, 1); }
BUILD(amax) { return any_reduce(c, PCO_OP_AMAX, 0); }

static uint32_t any_softmax(gradient_case *c, pco_op op, int64_t axis)
{
    uint32_t x = real(c, -3, 3, 3, SHAPE(2, 5, 3)); /* logsumexp begins with the same attribute */
    return add(c, op, &(pco_logsumexp_attrs){.axis = axis}, &x, 1);
}

BUILD(softmax) { return any_softmax(c, PCO_OP_SOFTMAX, 1); }
BUILD(softmax_last) { return any_softmax(c, PCO_OP_SOFTMAX, -1); }
BUILD(log_softmax) { return any_softmax(c, PCO_OP_LOG_SOFTMAX, -1); }
BUILD(logsumexp) { return any_softmax(c, PCO_OP_LOGSUMEXP, -2); }

static uint32_t any_norm(gradient_case *c, int form, int operands, int stats)
{
    pco_layer_norm_attrs attrs = {.eps = 0.01, .form = form, .correction = form, .stats = stats};
    uint32_t in[3] = {real(c, -2, 2, 3, SHAPE(2, 2, 5)), PCO_NONE, PCO_NONE};
    if (operands > 0) in[1] = real(c, 0.5, 1.5, 1, SHAPE(5));
    if (operands > 1) in[2] = real(c, -1, 1, 1, SHAPE(5));
    return add(c, PCO_OP_LAYER_NORM, &attrs, in, 3);
}

BUILD(layer_norm) { return any_norm(c, 0, 2, 0); }
BUILD(layer_norm_plain) { return any_norm(c, 0, 0, 0); }
BUILD(layer_norm_deviation) { return any_norm(c, 1, 1, 0); }
BUILD(layer_norm_stats) { return any_norm(c, 0, 2, 1); }

static uint32_t any_rms(gradient_case *c, int weight, int stats)
{
    pco_rms_norm_attrs attrs = {.eps = 0.01, .stats = stats};
    uint32_t in[2] = {real(c, -2, 2, 2, SHAPE(3, 5)), weight ? real(c, 0.5, 1.5, 1, SHAPE(5)) : PCO_NONE};
    return add(c, PCO_OP_RMS_NORM, &attrs, in, 2);
}

BUILD(rms_norm) { return any_rms(c, 1, 0); }
BUILD(rms_norm_plain) { return any_rms(c, 0, 0); }
BUILD(rms_norm_stats) { return any_rms(c, 1, 1); }

BUILD(rope)
{
    pco_rope_attrs attrs = {.heads_first = 1, .scale = 1.25}, pairs = {.interleaved = 1, .inverse = 1, .scale = 1};
    uint32_t x = real(c, -2, 2, 4, SHAPE(2, 2, 3, 8)), at = whole(c, 0, 5000, 2, SHAPE(1, 3));
    uint32_t phase = pco_rope_phase(c->graph, 10000, 6, NULL), heads = whole(c, 0, 5000, 2, SHAPE(2, 2));
    x = pco_graph_add(c->graph, PCO_OP_ROPE, &attrs, (uint32_t[]){x, at, phase}, 3, NULL);
    return pco_graph_add(c->graph, PCO_OP_ROPE, &pairs, (uint32_t[]){x, heads, phase}, 3, NULL);
}

BUILD(cross_entropy)
{
    uint32_t x = real(c, -3, 3, 3, SHAPE(2, 3, 5)), target = whole(c, 0, 5, 2, SHAPE(2, 3));
    return BIN(CROSS_ENTROPY, x, target);
}

BUILD(cross_entropy_smoothed)
{
    uint32_t x = real(c, -3, 3, 2, SHAPE(9, 4)), target = whole(c, 0, 4, 1, SHAPE(9));
    pco_cross_entropy_attrs attrs = {.ignore_index = 2, .label_smoothing = 0.1};
    return add(c, PCO_OP_CROSS_ENTROPY, &attrs, (uint32_t[]){x, target}, 2);
}

static uint32_t any_attention(gradient_case *c, const pco_scaled_dot_product_attention_attrs *attrs, int groups)
{
    const int64_t *q = attrs->heads_first ? SHAPE(2, 4, 3, 4) : SHAPE(2, 3, 4, 4);
    const int64_t *k = attrs->heads_first ? SHAPE(2, groups, 5, 4) : SHAPE(2, 5, groups, 4);
    uint32_t in[6] = {real(c, -1, 1, 4, q), real(c, -1, 1, 4, k), real(c, -1, 1, 4, k), PCO_NONE, PCO_NONE, PCO_NONE};
    if (attrs->window) {
        in[4] = whole(c, 3, 6, 1, SHAPE(2));
        in[5] = whole(c, 0, 3, 1, SHAPE(2));
    } else if (attrs->softcap > 0) {
        in[3] = real(c, -1, 1, 4, SHAPE(1, 4, 3, 5));
    } else if (!attrs->causal) {
        in[3] = truth(c, 4, SHAPE(2, 1, 3, 5));
    }
    return add(c, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, attrs, in, 6);
}

BUILD(attention)
{
    return any_attention(c, &(pco_scaled_dot_product_attention_attrs){.causal = 1, .heads_first = 1}, 4);
}
BUILD(attention_mask) { return any_attention(c, &(pco_scaled_dot_product_attention_attrs){.scale = 0.3}, 2); }
BUILD(attention_blind) /* groups, a row that sees nothing, a key that nobody sees */
{
    uint32_t q = real(c, -1, 1, 4, SHAPE(1, 4, 3, 4)), k = real(c, -1, 1, 4, SHAPE(1, 2, 4, 4));
    uint32_t v = real(c, -1, 1, 4, SHAPE(1, 2, 4, 3));
    static const int32_t SEEN[] = {1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0};
    uint32_t seen = pco_graph_constant_copy(c->graph, "seen", PCO_I32, 4, SHAPE(1, 1, 3, 4), SEEN);
    uint32_t in[4] = {q, k, v, pco_cast(c->graph, seen, PCO_BOOL)};
    const pco_scaled_dot_product_attention_attrs attrs = {.heads_first = 1};
    return add(c, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, &attrs, in, 4);
}
BUILD(attention_mask_wanted) /* the gradient of a float mask is not the op's */
{
    uint32_t q = real(c, -1, 1, 4, SHAPE(1, 2, 3, 4)), k = real(c, -1, 1, 4, SHAPE(1, 1, 5, 4));
    uint32_t in[4] = {q, k, k, real(c, -1, 1, 4, SHAPE(1, 2, 1, 5))};
    const pco_scaled_dot_product_attention_attrs attrs = {.heads_first = 1};
    return add(c, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, &attrs, in, 4);
}
BUILD(attention_capped)
{
    return any_attention(c, &(pco_scaled_dot_product_attention_attrs){.softcap = 2, .heads_first = 1, .weights = 1}, 2);
}
BUILD(attention_window)
{
    return any_attention(c, &(pco_scaled_dot_product_attention_attrs){.window = 2, .causal = 1}, 1);
}

/* Half types: a layer with weights of one type, activations of another and a bias in f32; rows. */
BUILD(half_layer)
{
    uint32_t x = half(c, PCO_F16, -1, 1, 2, SHAPE(3, 8)), w = half(c, PCO_BF16, -1, 1, 2, SHAPE(5, 8));
    uint32_t b = real(c, -1, 1, 1, SHAPE(5)), y = pco_linear(c->graph, x, w, b, 2);
    return BIN(MUL, y, half(c, PCO_F16, 0.5, 1.5, 1, SHAPE(5)));
}

BUILD(half_rows)
{
    uint32_t x = half(c, PCO_BF16, -2, 2, 2, SHAPE(3, 7)), w = real(c, 0.5, 1.5, 1, SHAPE(7));
    pco_layer_norm_attrs attrs = {.eps = 0.01};
    uint32_t y = pco_graph_add(c->graph, PCO_OP_LAYER_NORM, &attrs, (uint32_t[]){x, w, w}, 3, NULL);
    y = BIN(SWIGLU, pco_softmax(c->graph, y, -1), UN(TANH, x));
    return BIN(CROSS_ENTROPY, y, whole(c, 0, 7, 1, SHAPE(3)));
}

/* One tensor as two operands: both contributions count. */
BUILD(twice)
{
    uint32_t x = real(c, -1, 1, 4, SHAPE(1, 2, 3, 4));
    uint32_t in[3] = {x, x, x};
    return add(c, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, &(pco_scaled_dot_product_attention_attrs){.heads_first = 1}, in,
               3);
}

typedef struct gradient_row {
    const char *name;
    uint32_t (*build)(gradient_case *c);
} gradient_row;

#define ROW(name) \
    { \
#name, build_##name \
    }
static const gradient_row GRADIENT_ROWS[] = {
    ROW(binary),
    ROW(extremum),
    ROW(pow),
    ROW(pow_whole),
    ROW(where),
    ROW(unary),
    ROW(gelu_tanh),
    ROW(corners),
    ROW(swiglu),
    ROW(swiglu_joined),
    ROW(dropout),
    ROW(moves),
    ROW(slices),
    ROW(gather),
    ROW(indexed_matmul),
    ROW(gather_along_axis),
    ROW(scatter_add),
    ROW(matmul_nn),
    ROW(matmul_nt),
    ROW(matmul_tn),
    ROW(matmul_tt),
    ROW(linear),
    ROW(linear_relu),
    ROW(linear_gelu),
    ROW(linear_gelu_tanh),
    ROW(linear_silu),
    ROW(transposed_rows),
    ROW(sum),
    ROW(mean),
    ROW(amax),
    ROW(softmax),
    ROW(softmax_last),
    ROW(log_softmax),
    ROW(logsumexp),
    ROW(layer_norm),
    ROW(layer_norm_plain),
    ROW(layer_norm_deviation),
    ROW(layer_norm_stats),
    ROW(rms_norm),
    ROW(rms_norm_plain),
    ROW(rms_norm_stats),
    ROW(rope),
    ROW(cross_entropy),
    ROW(cross_entropy_smoothed),
    ROW(attention),
    ROW(attention_mask),
    ROW(attention_blind),
    ROW(attention_mask_wanted),
    ROW(attention_capped),
    ROW(attention_window),
    ROW(half_layer),
    ROW(half_rows),
    ROW(twice),
};
