/* Every way in which a few small dimensions can stand beside each other. What decides by a size (rows that lie side by
 * side from two on, dimensions of one that vanish, dimensions that are joined, operands of which each is broadcast
 * along its own dimensions) is wrong for some small neighbours, and seldom for the sizes that somebody picks. They cost
 * a driver's compiler nothing: their kernels are those of other cases. The interpreter of tier tiny has a part of them.
 */
#include "cases/lists.h"

#include "graph/op.h"

#include <string.h>

static const int SMALL[3] = {3, 2, 5};

enum { SMALL_TEXT = 32 };

/* Bit d of `kept`: dimension d has its size, and is 1 otherwise. */
static const char *small_shape(char *text, uint32_t kept)
{
    snprintf(text, SMALL_TEXT, "%d,%d,%d", kept & 1 ? SMALL[0] : 1, kept & 2 ? SMALL[1] : 1, kept & 4 ? SMALL[2] : 1);
    return text;
}

static const uint32_t SMALL_TYPES[2] = {PCO_F32, PCO_F16};

/* Of three operands, all pairs of which are there: the first and second go through all ways, the third follows. */
static void small_broadcast(conf_cases_context *context, pco_op op)
{
    char text[SMALL_TEXT];
    for (uint32_t way = 0; way < 128; way++) {
        const uint32_t type = SMALL_TYPES[way >> 6], a = way & 7, b = way >> 3 & 7;
        conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
        if (op == PCO_OP_WHERE) conf_cases_in(one, PCO_BOOL, "%s", small_shape(text, (a * 3 + b * 5 + (way >> 6)) & 7));
        conf_cases_in(one, type, "%s", small_shape(text, a));
        conf_cases_in(one, type, "%s", small_shape(text, b));
        conf_cases_emit(context);
    }
}

static void small_broadcast_to(conf_cases_context *context)
{
    char text[SMALL_TEXT];
    for (uint32_t way = 0; way < 64; way++) {
        const uint32_t x = way & 7, y = way >> 3;
        if (x & ~y) continue;
        conf_case *one = conf_cases_begin(context, PCO_OP_BROADCAST_TO, CONF_RANDOM);
        pco_broadcast_to_attrs *attrs = (pco_broadcast_to_attrs *)one->attrs.bytes;
        conf_cases_in(one, SMALL_TYPES[(x + y) % 2], "%s", small_shape(text, x));
        attrs->n_shape = conf_cases_vector(attrs->shape, small_shape(text, y));
        conf_cases_emit(context);
    }
}

static void small_permute(conf_cases_context *context)
{
    static const char *const ORDERS[6] = {"0,1,2", "0,2,1", "1,0,2", "1,2,0", "2,0,1", "2,1,0"};
    char text[SMALL_TEXT];
    for (uint32_t way = 0; way < 48; way++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_PERMUTE, CONF_RANDOM);
        pco_permute_attrs *attrs = (pco_permute_attrs *)one->attrs.bytes;
        conf_cases_in(one, SMALL_TYPES[way % 2], "%s", small_shape(text, way / 6));
        attrs->n_dims = conf_cases_vector(attrs->dims, ORDERS[way % 6]);
        conf_cases_emit(context);
    }
}

/* Each dimension whole, its beginning, its end, or every second of it. */
static void small_slice(conf_cases_context *context)
{
    for (uint32_t way = 0; way < 64; way++) {
        char starts[SMALL_TEXT], sizes[SMALL_TEXT], steps[SMALL_TEXT];
        int start[3], size[3], step[3];
        for (uint32_t d = 0, form = way; d < 3; d++, form /= 4) {
            start[d] = form % 4 == 2, step[d] = form % 4 == 3 ? 2 : 1;
            size[d] = form % 4 == 3 ? (SMALL[d] + 1) / 2 : SMALL[d] - (form % 4 != 0);
        }
        snprintf(starts, sizeof starts, "%d,%d,%d", start[0], start[1], start[2]);
        snprintf(sizes, sizeof sizes, "%d,%d,%d", size[0], size[1], size[2]);
        snprintf(steps, sizeof steps, "%d,%d,%d", step[0], step[1], step[2]);
        conf_case *one = conf_cases_begin(context, PCO_OP_SLICE, CONF_RANDOM);
        pco_slice_attrs *attrs = (pco_slice_attrs *)one->attrs.bytes;
        conf_cases_in(one, SMALL_TYPES[(way ^ way >> 2 ^ way >> 4) % 2], "3,2,5");
        attrs->n_starts = conf_cases_vector(attrs->starts, starts);
        attrs->n_sizes = conf_cases_vector(attrs->sizes, sizes);
        attrs->n_steps = conf_cases_vector(attrs->steps, steps);
        conf_cases_emit(context);
    }
}

static void small_pad(conf_cases_context *context)
{
    for (uint32_t way = 0; way < 64; way++) {
        char before[SMALL_TEXT], after[SMALL_TEXT], shape[SMALL_TEXT];
        snprintf(before, sizeof before, "%u,%u,%u", way & 1, way & 2, way >> 2 & 1);
        snprintf(after, sizeof after, "%u,%u,%u", way >> 3 & 1, way >> 4 & 1, way >> 4 & 2);
        conf_case *one = conf_cases_begin(context, PCO_OP_PAD, CONF_RANDOM);
        pco_pad_attrs *attrs = (pco_pad_attrs *)one->attrs.bytes;
        conf_cases_in(one, SMALL_TYPES[(way ^ way >> 3) % 2], "%s", small_shape(shape, way * 5 >> 3 & 7));
        attrs->n_before = conf_cases_vector(attrs->before, before);
        attrs->n_after = conf_cases_vector(attrs->after, after);
        attrs->value = -1.5;
        conf_cases_emit(context);
    }
}

static void small_concat(conf_cases_context *context)
{
    char text[SMALL_TEXT];
    for (uint32_t way = 0; way < 24; way++) {
        const uint32_t axis = way / 8, kept = way % 8;
        conf_case *one = conf_cases_begin(context, PCO_OP_CONCAT, CONF_RANDOM);
        ((pco_concat_attrs *)one->attrs.bytes)->axis = axis;
        conf_cases_in(one, SMALL_TYPES[way % 2], "%s", small_shape(text, kept));
        conf_cases_in(one, SMALL_TYPES[way % 2], "%s", small_shape(text, kept & ~(1u << axis)));
        conf_cases_in(one, SMALL_TYPES[way % 2], "%s", small_shape(text, kept | 1u << axis));
        conf_cases_emit(context);
    }
}

/* All sets of dimensions. */
static void small_reduce(conf_cases_context *context, pco_op op)
{
    static const char *const AXES[8] = {"", "0", "1", "0,1", "2", "0,2", "1,2", "0,1,2"};
    char text[SMALL_TEXT];
    for (uint32_t way = 0; way < 64; way++) {
        conf_case *one = conf_cases_begin(context, op, CONF_EXACT);
        pco_sum_attrs *attrs = (pco_sum_attrs *)one->attrs.bytes; /* mean and amax have the same fields */
        conf_cases_in(one, SMALL_TYPES[(way ^ way >> 3) % 2], "%s", small_shape(text, way / 8));
        attrs->keepdims = way % 2;
        attrs->n_axes = conf_cases_vector(attrs->axes, AXES[way % 8]);
        conf_cases_emit(context);
    }
}

/* `k`: how many along it, of an operation to which that is said. */
static void small_axis(conf_case *one, const pco_op_info *info, int64_t axis, int64_t k)
{
    const pco_attr_info *attr;
    for (uint32_t i = 0; (attr = pco_op_attr(info, i)) != NULL; i++) {
        int64_t *value = (int64_t *)(void *)(one->attrs.bytes + attr->offset);
        if (attr->is_axis && attr->type != PCO_ATTR_VECTOR) *value = axis;
        if (strcmp(attr->name, "k") == 0) *value = k;
    }
}

void conf_cases_small_along(conf_cases_context *context, pco_op op)
{
    if (context->tier == PCO_CONFORMANCE_TINY) return;
    const pco_op_info *info = pco_op_find(op);
    char text[SMALL_TEXT];
    for (uint32_t way = 0; way < 48; way++) {
        const uint32_t type = SMALL_TYPES[way / 24], axis = way % 24 / 8;
        conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
        small_axis(one, info, axis, 1 + (way >> axis & 1));
        conf_operand *x = conf_cases_in(one, type, "%s", small_shape(text, way % 8));
        if (op == PCO_OP_SOFTMAX_BACKWARD) {
            x->fill = CONF_FILL_UNIFORM, x->low = 0.0, x->high = 1.0;
            conf_cases_in(one, type, "%s", text);
        }
        conf_cases_emit(context);
    }
}

/* Lookups along each dimension: of two indices; one beyond the last lies outside. */
static void small_lookup(conf_cases_context *context, pco_op op)
{
    char text[SMALL_TEXT];
    for (uint32_t way = 0; way < 24; way++) {
        const uint32_t type = SMALL_TYPES[way % 2], axis = way / 8;
        const int size = way >> axis & 1 ? SMALL[axis] : 1;
        int taken[3];
        for (uint32_t d = 0; d < 3; d++) taken[d] = d == axis ? 2 : way >> d & 1 ? SMALL[d] : 1;
        conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
        small_axis(one, pco_op_find(op), axis, 1);
        conf_cases_in(one, type, "%s", small_shape(text, way % 8));
        conf_operand *index = op == PCO_OP_GATHER_ALONG_AXIS
                                  ? conf_cases_in(one, PCO_I32, "%d,%d,%d", taken[0], taken[1], taken[2])
                                  : conf_cases_in(one, PCO_I32, "2");
        index->fill = CONF_FILL_INTEGER, index->low = 0.0, index->high = size;
        if (op == PCO_OP_SCATTER_ADD) conf_cases_in(one, type, "%d,%d,%d", taken[0], taken[1], taken[2]);
        conf_cases_emit(context);
    }
}

/* Two batch dimensions that each operand has or has not, times transposed operands. */
static void small_matmul(conf_cases_context *context)
{
    /* columns of several batches and one matrix: rows that are as far from each other as a column is long */
    for (int columns = 0; columns < 2; columns++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
        ((pco_matmul_attrs *)one->attrs.bytes)->transpose_a = 1;
        conf_cases_in(one, PCO_F32, columns ? "6,5,1" : "3,2,5,1");
        conf_cases_in(one, PCO_F32, columns ? "5,40" : "1,1,5,3");
        conf_cases_emit(context);
    }
    for (uint32_t way = 0; way < 32; way++) {
        const int a0 = way & 1 ? 3 : 1, a1 = way & 2 ? 2 : 1, b0 = way & 4 ? 3 : 1, b1 = way & 8 ? 2 : 1;
        conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
        pco_matmul_attrs *attrs = (pco_matmul_attrs *)one->attrs.bytes;
        attrs->transpose_a = way >> 4, attrs->transpose_b = (way ^ way >> 4) & 1;
        conf_cases_in(one, PCO_F32, "%d,%d,%d,%d", a0, a1, attrs->transpose_a ? 5 : 2, attrs->transpose_a ? 2 : 5);
        conf_cases_in(one, PCO_F32, "%d,%d,%d,%d", b0, b1, attrs->transpose_b ? 3 : 5, attrs->transpose_b ? 5 : 3);
        conf_cases_emit(context);
    }
    /* Operands that fill a small window, but for the room that is left for where it may begin. */
    for (int rows = 1; rows < 4; rows++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
        conf_cases_in(one, PCO_F32, "%d,%d", rows, 250 / rows);
        conf_cases_in(one, PCO_F32, "%d,%d", 250 / rows, 4 - rows);
        conf_cases_emit(context);
    }
}

/* Rows of f16 that are whole vectors, for interpreters: b [K,N], of which a kernel joins rows by twos, and [N,K], in
 * two tiles of terms. */
static void small_halves(conf_cases_context *context)
{
    for (int along = 0; along < 2; along++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
        ((pco_matmul_attrs *)one->attrs.bytes)->transpose_b = along;
        conf_cases_in(one, PCO_F16, "2,40");
        conf_cases_in(one, PCO_F16, along ? "8,40" : "40,8");
        conf_cases_emit(context);
    }
}

/* Few rows with more blocks of terms than there are shares of them, as variant stream counts: shares begin and end
 * within tiles. Rows of whole vectors, of f16 too, and others; of the last a tile has three shares. */
static void small_shares(conf_cases_context *context)
{
    static const struct {
        uint32_t type;
        const char *a, *b;
    } FORMS[] = {{PCO_F32, "2,72", "264,72"},
                 {PCO_F16, "1,72", "264,72"},
                 {PCO_F32, "2,1,73", "2,132,73"},
                 {PCO_F16, "2,73", "132,73"},
                 {PCO_F32, "3,712", "130,712"}};
    for (uint32_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
        ((pco_matmul_attrs *)one->attrs.bytes)->transpose_b = 1;
        conf_cases_in(one, FORMS[i].type, "%s", FORMS[i].a);
        conf_cases_in(one, FORMS[i].type, "%s", FORMS[i].b);
        conf_cases_emit(context);
    }
}

/* More rows of the result than of x in what a kernel sees at once: small windows cut by either. */
static void small_indexed(conf_cases_context *context)
{
    for (uint32_t type = 0; type < 2; type++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_INDEXED_MATMUL, CONF_RANDOM);
        ((pco_indexed_matmul_attrs *)one->attrs.bytes)->matrices = 2;
        conf_cases_in(one, SMALL_TYPES[type], "7,5");
        conf_cases_in(one, SMALL_TYPES[type], "66,5");
        conf_operand *index = conf_cases_in(one, PCO_I32, "7,2");
        index->fill = CONF_FILL_INTEGER, index->low = 0.0, index->high = 1.0;
        conf_cases_emit(context);
    }
}

/* Elements of a head: what other cases have, so that no kernel is compiled for these alone. */
static int small_head(bool back) { return back ? 64 : 8; }

/* Attention, or its gradients, of b sequences of h heads: s rows and t keys. The caller emits it. */
static conf_case *small_attended(conf_cases_context *context, pco_op op, int b, int h, int s, int t)
{
    const bool back = op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD;
    conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
    const int d = small_head(back);
    conf_cases_in(one, PCO_F32, "%d,%d,%d,%d", b, h, s, d);
    conf_cases_in(one, PCO_F32, "%d,%d,%d,%d", b, h, t, d);
    conf_cases_in(one, PCO_F32, "%d,%d,%d,%d", b, h, t, d);
    while (back && one->n_inputs < 6) conf_cases_absent(one);
    if (back) conf_cases_in(one, PCO_F32, "%d,%d,%d,%d", b, h, s, d);
    return one;
}

/* More workgroups than some grids have in a row (five, where oclgrind is asked for faults), so that there are groups
 * that nobody asked for, which read behind the operands if nothing stops them. */
static void small_attention(conf_cases_context *context, pco_op op)
{
    small_attended(context, op, 7, 1, 2, 3);
    conf_cases_emit(context);
}

/* A row times quantised weights, of which invocations may make something together first. */
static void small_quantised(conf_cases_context *context)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
    ((pco_matmul_attrs *)one->attrs.bytes)->transpose_b = 1;
    conf_cases_in(one, PCO_F32, "2,64");
    conf_cases_in(one, PCO_Q8_0, "5,64")->constant = true;
    conf_cases_emit(context);
}

/* Rows whose largest elements lie further apart than exp reaches: the largest of another row will not do. */
static void small_apart(conf_operand *x, double most) { x->fill = CONF_FILL_EQUAL, x->low = -most, x->high = most; }

static void small_apart_rows(conf_cases_context *context, pco_op op)
{
    for (uint32_t way = 0; way < 4; way++) {
        conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
        small_axis(one, pco_op_find(op), way & 1 ? 0 : -1, 1);
        small_apart(conf_cases_in(one, SMALL_TYPES[way >> 1], "7,35"), 250.0);
        conf_cases_emit(context);
    }
}

static void small_apart_attention(conf_cases_context *context, pco_op op)
{
    const bool back = op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD;
    for (int rows = back ? 9 : 3; rows < 10; rows += 6) {
        conf_case *one = small_attended(context, op, 1, 2, rows, back ? 33 : 129);
        small_apart(&one->in[0], back ? 100.0 : 250.0);
        conf_cases_emit(context);
    }
}

/* More heads than keys: neither is the other's number. */
static void small_heads(conf_cases_context *context, pco_op op)
{
    small_attended(context, op, 1, 70, 1, 66);
    conf_cases_emit(context);
}

/* A step of today's models, heads of 128, of which three share keys of f16; then so many keys that an invocation of
 * attention_tiled would go round its loops a little oftener than llvmpipe lets it (lower_attention.c): 186 tiles of 32
 * keys with 357 rounds for a head of 64, and 300 of 16 with 223 for one of 80. At last halves behind a mask of f32,
 * which hides keys that hold NaN; heads of a little more than two sixteens, and more rows than keys; then
 * causal, so that most keys are seen by later rows alone. */
static void small_steps(conf_cases_context *context)
{
    static const struct {
        uint32_t query, type;
        const char *q, *k, *mask;
        int64_t causal;
    } ROWS[] = {{PCO_F32, PCO_F16, "1,6,1,128", "1,2,129,128", NULL, 0},
                {PCO_F32, PCO_F32, "1,1,1,64", "1,1,5950,64", NULL, 0},
                {PCO_F32, PCO_F32, "1,1,1,80", "1,1,4800,80", NULL, 0},
                {PCO_F16, PCO_F16, "1,2,48,34", "1,2,37,34", "1,1,48,37", 0},
                {PCO_F16, PCO_F16, "1,2,40,34", "1,2,40,34", "1,1,40,40", 1}};
    for (uint32_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, CONF_RANDOM);
        ((pco_scaled_dot_product_attention_attrs *)one->attrs.bytes)->causal = ROWS[i].causal;
        conf_cases_in(one, ROWS[i].query, "%s", ROWS[i].q);
        for (int of = 0; of < 2; of++)
            conf_cases_in(one, ROWS[i].type, "%s", ROWS[i].k)->fill =
                ROWS[i].mask ? CONF_FILL_UNSEEN : CONF_FILL_DEFAULT;
        if (ROWS[i].mask) conf_cases_in(one, PCO_F32, "%s", ROWS[i].mask)->fill = CONF_FILL_KEYS;
        one->every = i > 0;
        conf_cases_emit(context);
    }
}

/* Sums that variants cut into parts and a shorter one, over rows and columns for a tile: of batches, of either operand
 * transposed, of blocks; then no sum and one column, whose bias is every row's; then halves of which both lie across,
 * in sizes that are whole vectors, and not. */
static void small_parts(conf_cases_context *context)
{
    static const struct {
        uint32_t type, weight;
        const char *a, *b, *bias;
        int64_t transpose_a, transpose_b;
    } ROWS[] = {
        {PCO_F32, PCO_F32, "2,17,72", "2,72,33", "33", 0, 0}, {PCO_F32, PCO_F32, "160,17", "160,21", NULL, 1, 0},
        {PCO_F32, PCO_F16, "16,1088", "24,1088", NULL, 0, 1}, {PCO_F32, PCO_Q4_0, "17,160", "20,160", NULL, 0, 1},
        {PCO_F32, PCO_F32, "5,0", "0,1", "1", 0, 0},          {PCO_F16, PCO_F16, "5,0", "0,1", "1", 0, 0},
        {PCO_F16, PCO_F16, "72,40", "72,24", NULL, 1, 0},     {PCO_F16, PCO_F16, "37,19", "37,21", NULL, 1, 0}};
    for (uint32_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
        one->every = ROWS[i].transpose_a && ROWS[i].type == PCO_F16;
        pco_matmul_attrs *attrs = (pco_matmul_attrs *)one->attrs.bytes;
        attrs->transpose_a = ROWS[i].transpose_a;
        attrs->transpose_b = ROWS[i].transpose_b;
        conf_cases_in(one, ROWS[i].type, "%s", ROWS[i].a);
        conf_cases_in(one, ROWS[i].weight, "%s", ROWS[i].b)->constant = ROWS[i].weight == PCO_Q4_0;
        if (ROWS[i].bias) conf_cases_in(one, ROWS[i].type, "%s", ROWS[i].bias);
        conf_cases_emit(context);
    }
}

/* Gradients of halves, for which variants have tiles: of heads beside each other, a little more than two sixteens, with
 * values of another size, behind a mask and of rows that see few keys; of heads that share keys, where the gradients of
 * later rows are many times as large. */
static void small_gradients(conf_cases_context *context)
{
    static const struct {
        const char *q, *k, *v, *gradient, *mask;
        int64_t causal, window, heads_first;
    } ROWS[] = {{"2,33,2,34", "2,50,1,34", "2,50,1,40", "2,33,2,40", "1,1,33,50", 0, 9, 0},
                {"1,6,41,64", "1,2,45,64", "1,2,45,64", "1,6,41,64", NULL, 1, 0, 1}};
    for (uint32_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD, CONF_RANDOM);
        *(pco_scaled_dot_product_attention_backward_attrs *)one->attrs.bytes =
            (pco_scaled_dot_product_attention_backward_attrs){
                .causal = ROWS[i].causal, .window = ROWS[i].window, .heads_first = ROWS[i].heads_first};
        conf_cases_in(one, PCO_F16, "%s", ROWS[i].q);
        conf_cases_in(one, PCO_F16, "%s", ROWS[i].k);
        conf_cases_in(one, PCO_F16, "%s", ROWS[i].v);
        if (ROWS[i].mask) conf_cases_in(one, PCO_F32, "%s", ROWS[i].mask)->fill = CONF_FILL_KEYS;
        while (one->n_inputs < 6) conf_cases_absent(one);
        conf_operand *gradient = conf_cases_in(one, PCO_F16, "%s", ROWS[i].gradient);
        if (!ROWS[i].mask) gradient->fill = CONF_FILL_RISING;
        one->every = true;
        conf_cases_emit(context);
    }
}

void conf_cases_small(conf_cases_context *context, pco_op op)
{
    if (op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION || op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD)
        small_attention(context, op);
    if (op == PCO_OP_MATMUL) small_quantised(context);
    if (context->tier == PCO_CONFORMANCE_TINY) {
        if (op == PCO_OP_MATMUL) small_halves(context);
        return;
    }
    switch (op) {
    case PCO_OP_ADD:
    case PCO_OP_WHERE: small_broadcast(context, op); break;
    case PCO_OP_BROADCAST_TO: small_broadcast_to(context); break;
    case PCO_OP_PERMUTE: small_permute(context); break;
    case PCO_OP_SLICE: small_slice(context); break;
    case PCO_OP_PAD: small_pad(context); break;
    case PCO_OP_CONCAT: small_concat(context); break;
    case PCO_OP_SUM: small_reduce(context, op); break;
    case PCO_OP_GATHER:
    case PCO_OP_GATHER_ALONG_AXIS:
    case PCO_OP_SCATTER_ADD: small_lookup(context, op); break;
    case PCO_OP_MATMUL:
        small_matmul(context);
        small_parts(context);
        small_halves(context);
        small_shares(context);
        break;
    case PCO_OP_INDEXED_MATMUL: small_indexed(context); break;
    case PCO_OP_SOFTMAX:
    case PCO_OP_LOGSUMEXP: small_apart_rows(context, op); /* fallthrough */
    case PCO_OP_ARGMAX:
    case PCO_OP_SOFTMAX_BACKWARD: conf_cases_small_along(context, op); break;
    case PCO_OP_LOG_SOFTMAX: small_apart_rows(context, op); break;
    case PCO_OP_SCALED_DOT_PRODUCT_ATTENTION:
    case PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD:
        small_apart_attention(context, op);
        small_heads(context, op);
        if (op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION)
            small_steps(context);
        else
            small_gradients(context);
        break;
    default: break;
    }
}
