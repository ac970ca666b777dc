/* Cases of attention and position encodings. */
#include "cases/lists.h"

typedef struct conf_attention_spec {
    int b, h, g, s, t, d, e;
    int causal, window, layout, weights; /* layout: heads_first */
    double softcap, scale;
    const char *mask;    /* shape, or NULL */
    int boolean;         /* mask type */
    int lengths, starts; /* 1, or LONG */
    int garbage;         /* what lies beyond lengths is that, and not NaN where no row sees it */
} conf_attention_spec;

enum { LONG = 2 }; /* hundreds of keys */

/* Operands that attention and its backward op have in common: queries, keys, values, masks. */
static void conf_attention_operands(conf_case *one, const conf_attention_spec *s, uint32_t q_type, uint32_t kv_type,
                                    conf_regime regime)
{
    static const double LENGTHS[] = {5, 0, 17, 3}, STARTS[] = {4, 2, 0, 11};
    static const double LONG_LENGTHS[] = {300, 129, 400, 255}, LONG_STARTS[] = {299, 126, 394, 250};
    const double *lengths = s->lengths == LONG ? LONG_LENGTHS : LENGTHS,
                 *starts = s->starts == LONG ? LONG_STARTS : STARTS;
    if (s->layout) {
        conf_cases_in(one, q_type, "%d,%d,%d,%d", s->b, s->h, s->s, s->d);
        conf_cases_in(one, kv_type, "%d,%d,%d,%d", s->b, s->g, s->t, s->d);
        conf_cases_in(one, kv_type, "%d,%d,%d,%d", s->b, s->g, s->t, s->e);
    } else {
        conf_cases_in(one, q_type, "%d,%d,%d,%d", s->b, s->s, s->h, s->d);
        conf_cases_in(one, kv_type, "%d,%d,%d,%d", s->b, s->t, s->g, s->d);
        conf_cases_in(one, kv_type, "%d,%d,%d,%d", s->b, s->t, s->g, s->e);
    }
    if (regime == CONF_SPECIAL) { /* what lies beyond the lengths may be anything, and what no row sees */
        one->in[0].fill = CONF_FILL_UNIFORM, one->in[0].low = -2.0, one->in[0].high = 2.0;
        one->in[1].fill = one->in[2].fill =
            one->op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION && !s->garbage ? CONF_FILL_UNSEEN : CONF_FILL_GARBAGE;
    }
    if (s->mask) {
        conf_operand *mask = conf_cases_in(one, s->boolean ? PCO_BOOL : q_type, "%s", s->mask);
        if (s->boolean == 2) mask->fill = CONF_FILL_ROWS; /* rows that see no key at all */
        if (one->in[1].fill == CONF_FILL_UNSEEN) mask->fill = CONF_FILL_KEYS;
    } else if (s->lengths || s->starts) {
        conf_cases_absent(one);
    }
    if (s->lengths)
        conf_cases_list(conf_cases_in(one, PCO_I32, "%d", s->b), 4, lengths);
    else if (s->starts)
        conf_cases_absent(one);
    if (s->starts) conf_cases_list(conf_cases_in(one, PCO_I32, "%d", s->b), 4, starts);
}

static void conf_attention_one(conf_cases_context *context, const conf_attention_spec *s, uint32_t q_type,
                               uint32_t kv_type, conf_regime regime)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, regime);
    pco_scaled_dot_product_attention_attrs *attrs = (pco_scaled_dot_product_attention_attrs *)one->attrs.bytes;
    *attrs = (pco_scaled_dot_product_attention_attrs){.scale = s->scale,
                                                      .causal = s->causal,
                                                      .window = s->window,
                                                      .softcap = s->softcap,
                                                      .heads_first = s->layout,
                                                      .weights = s->weights};
    conf_attention_operands(one, s, q_type, kv_type, regime);
    conf_cases_emit(context);
}

/* Drivers unroll the loops over small heads, which takes them several times as long as a loop: the short tiers have
 * larger ones, but where values have another size than keys. */
enum { CONF_ATTENTION_ROLLED = 64 };

static void conf_attention_back_one(conf_cases_context *context, const conf_attention_spec *spec, uint32_t q_type,
                                    uint32_t kv_type, conf_regime regime)
{
    conf_attention_spec room = *spec, *s = &room;
    if (!conf_cases_standard(context) && s->d == s->e && s->d < CONF_ATTENTION_ROLLED)
        s->d = s->e = CONF_ATTENTION_ROLLED;
    conf_case *one = conf_cases_begin(context, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD, regime);
    *(pco_scaled_dot_product_attention_backward_attrs *)one->attrs.bytes =
        (pco_scaled_dot_product_attention_backward_attrs){
            .scale = s->scale, .causal = s->causal, .window = s->window, .heads_first = s->layout};
    conf_attention_operands(one, s, q_type, kv_type, regime);
    while (one->n_inputs < 6) conf_cases_absent(one);
    conf_operand *gradient = s->layout ? conf_cases_in(one, q_type, "%d,%d,%d,%d", s->b, s->h, s->s, s->e)
                                       : conf_cases_in(one, q_type, "%d,%d,%d,%d", s->b, s->s, s->h, s->e);
    if (regime == CONF_SPECIAL) gradient->fill = CONF_FILL_UNIFORM, gradient->low = -2.0, gradient->high = 2.0;
    conf_cases_emit(context);
}

static const conf_attention_spec SPECS[] = {
    {.b = 2, .h = 3, .g = 3, .s = 5, .t = 7, .d = 8, .e = 8, .layout = 1},
    {.b = 2, .h = 4, .g = 2, .s = 9, .t = 9, .d = 8, .e = 8, .layout = 0, .causal = 1},
    {.b = 1, .h = 4, .g = 1, .s = 1, .t = 65, .d = 32, .e = 32, .layout = 1},
    {.b = 4, .h = 2, .g = 1, .s = 1, .t = 20, .d = 8, .e = 8, .layout = 0, .causal = 1, .lengths = 1, .starts = 1},
    {.b = 3, .h = 2, .g = 2, .s = 6, .t = 20, .d = 8, .e = 8, .layout = 1, .lengths = 1},
    {.b = 2, .h = 2, .g = 2, .s = 9, .t = 11, .d = 8, .e = 8, .layout = 1, .causal = 1, .window = 3, .starts = 1},
    {.b = 1, .h = 2, .g = 2, .s = 13, .t = 13, .d = 8, .e = 8, .layout = 1, .window = 4},
    {.b = 1, .h = 2, .g = 1, .s = 5, .t = 33, .d = 8, .e = 8, .layout = 0, .softcap = 2.0, .scale = 0.5},
    {.b = 2, .h = 3, .g = 3, .s = 6, .t = 10, .d = 8, .e = 8, .layout = 1, .mask = "2,3,6,10", .boolean = 1},
    {.b = 2, .h = 3, .g = 3, .s = 6, .t = 10, .d = 8, .e = 8, .layout = 1, .mask = "1,1,6,10", .boolean = 2},
    {.b = 2, .h = 2, .g = 1, .s = 4, .t = 6, .d = 8, .e = 8, .layout = 0, .mask = "2,1,1,6", .boolean = 0},
    {.b = 1, .h = 2, .g = 2, .s = 5, .t = 7, .d = 8, .e = 8, .layout = 1, .mask = "1,2,5,1", .boolean = 0, .causal = 1},
    {.b = 2, .h = 2, .g = 2, .s = 5, .t = 7, .d = 8, .e = 12, .layout = 1, .weights = 1},
    {.b = 1, .h = 6, .g = 2, .s = 3, .t = 5, .d = 7, .e = 5, .layout = 0, .weights = 1, .causal = 1},
    {.b = 1, .h = 2, .g = 2, .s = 33, .t = 65, .d = 64, .e = 64, .layout = 1, .causal = 1, .starts = 1},
    {.b = 1, .h = 1, .g = 1, .s = 3, .t = 0, .d = 8, .e = 8, .layout = 1},
    {.b = 1, .h = 2, .g = 2, .s = 0, .t = 3, .d = 8, .e = 8, .layout = 1},
    {.b = 1, .h = 1, .g = 1, .s = 2, .t = 257, .d = 5, .e = 3, .layout = 1, .softcap = 5.0, .window = 31},
    {.b = 1, .h = 8, .g = 2, .s = 1, .t = 129, .d = 128, .e = 128, .layout = 0, .causal = 1, .starts = 1},
    {.b = 1, .h = 2, .g = 1, .s = 17, .t = 31, .d = 80, .e = 80, .layout = 1, .causal = 1, .softcap = 2.0},
    {.b = 1, .h = 2, .g = 1, .s = 17, .t = 71, .d = 4, .e = 256, .layout = 1, .causal = 1},
    {.b = 1, .h = 4, .g = 1, .s = 1, .t = 65, .d = 8, .e = 8, .layout = 1},
    {.b = 1,
     .h = 1,
     .g = 1,
     .s = 33,
     .t = 40,
     .d = 11, /* what fills a vector shifts scores before the cap */
     .e = 129,
     .layout = 0,
     .softcap = 2.0,
     .mask = "1,1,33,40",
     .boolean = 1},
    {.b = 2, .h = 2, .g = 1, .s = 5, .t = 7, .d = 8, .e = 0, .layout = 1, .weights = 1}, /* weights and no result */
    {.b = 1, .h = 2, .g = 2, .s = 3, .t = 7, .d = 8, .e = 1, .layout = 0}, /* values that are columns, and no rows */
    {.b = 2,
     .h = 2,
     .g = 1,
     .s = 5,
     .t = 7,
     .d = 8,
     .e = 8,
     .layout = 1,
     .weights = 1,
     .mask = "2,2,5,7",
     .boolean = 1},
    /* One element, row and some keys more than the smallest tiles have. */
    {.b = 1, .h = 2, .g = 1, .s = 33, .t = 70, .d = 12, .e = 65, .layout = 1, .mask = "1,2,1,70", .boolean = 0},
};
enum { N_SPECS = sizeof SPECS / sizeof *SPECS };

/* Few rows over keys that are split into parts (edges of 128): a cache, of which each row sees another part; heads with
 * keys of their own; rows of several heads in a block, on both sides of an edge, some of which see nothing of the first
 * part; then each size of heads. */
static const conf_attention_spec LONG_SPECS[] = {
    {.b = 4,
     .h = 2,
     .g = 1,
     .s = 1,
     .t = 400,
     .d = 8,
     .e = 8,
     .layout = 0,
     .causal = 1,
     .lengths = LONG,
     .starts = LONG},
    {.b = 1, .h = 2, .g = 2, .s = 1, .t = 300, .d = 64, .e = 64, .layout = 1},
    {.b = 2,
     .h = 4,
     .g = 2,
     .s = 5,
     .t = 270,
     .d = 64,
     .e = 64,
     .layout = 0,
     .causal = 1,
     .window = 60,
     .starts = LONG},
    {.b = 2, .h = 2, .g = 2, .s = 1, .t = 130, .d = 8, .e = 8, .layout = 1, .softcap = 2.0, .mask = "2,2,1,130"},
    {.b = 2, .h = 2, .g = 1, .s = 2, .t = 130, .d = 8, .e = 8, .layout = 0, .mask = "2,2,1,130", .boolean = 1},
    {.b = 1, .h = 2, .g = 1, .s = 1, .t = 140, .d = 7, .e = 5, .layout = 1}, /* 16-bit rows at odd elements */
    {.b = 1, .h = 6, .g = 2, .s = 1, .t = 129, .d = 128, .e = 128, .layout = 1, .softcap = 2.0, .window = 60},
    {.b = 1, .h = 1, .g = 1, .s = 1, .t = 385, .d = 80, .e = 256, .layout = 0, .mask = "1,1,1,385", .boolean = 1},
    {.b = 1, .h = 2, .g = 1, .s = 15, .t = 260, .d = 33, .e = 36, .layout = 1, .mask = "1,2,1,260", .boolean = 0},
    /* Rows of a tile that see different numbers of keys, of more than one block: alone each sees all of its own. */
    {.b = 1, .h = 2, .g = 1, .s = 200, .t = 200, .d = 8, .e = 8, .layout = 1, .causal = 1},
};
enum { N_LONG_SPECS = sizeof LONG_SPECS / sizeof *LONG_SPECS, N_LONG_QUICK = 6 };

/* May there be keys that no row sees, but for lengths? They hold NaN in cases of their own. */
static bool conf_attention_hides(const conf_attention_spec *s)
{
    return s->t > 0 && (s->mask || s->window || s->starts || (s->causal && s->t > s->s));
}

/* Cases whose place harder ones have taken: tier standard has them as well, so that no record of an early report is
 * without one to be compared with. All of them for the gradient, the first for attention itself, too. */
static const conf_attention_spec EARLIER_SPECS[] = {
    {.b = 1, .h = 2, .g = 1, .s = 17, .t = 31, .d = 80, .e = 80, .layout = 1},
    {.b = 1, .h = 1, .g = 1, .s = 5, .t = 141, .d = 16, .e = 16, .layout = 0, .window = 50, .scale = 0.7},
    {.b = 1, .h = 2, .g = 2, .s = 150, .t = 19, .d = 8, .e = 12, .layout = 1, .window = 5, .starts = 1},
};
static const conf_attention_spec EARLIER_GARBAGE[] = {
    {.b = 4,
     .h = 2,
     .g = 1,
     .s = 1,
     .t = 20,
     .d = 8,
     .e = 8,
     .layout = 0,
     .causal = 1,
     .lengths = 1,
     .starts = 1,
     .garbage = 1},
    {.b = 3, .h = 2, .g = 2, .s = 6, .t = 20, .d = 8, .e = 8, .layout = 1, .lengths = 1, .garbage = 1},
};

typedef void (*conf_attention_fn)(conf_cases_context *context, const conf_attention_spec *s, uint32_t q_type,
                                  uint32_t kv_type, conf_regime regime);

enum {
    N_EARLIER_FORWARD = 1,
    N_EARLIER = sizeof EARLIER_SPECS / sizeof *EARLIER_SPECS,
    N_EARLIER_GARBAGE = sizeof EARLIER_GARBAGE / sizeof *EARLIER_GARBAGE,
};

static void conf_cases_attention_earlier(conf_cases_context *context, uint32_t specs, conf_attention_fn emit)
{
    for (uint32_t i = 0; i < specs && conf_cases_standard(context); i++) {
        emit(context, &EARLIER_SPECS[i], PCO_F32, PCO_F32, CONF_RANDOM);
        emit(context, &EARLIER_SPECS[i], PCO_F32, PCO_F32, CONF_ADVERSARIAL);
        for (uint32_t t = 1; t < 3; t++) {
            emit(context, &EARLIER_SPECS[i], PCO_F32, CASES_FLOATS[t], CONF_RANDOM);
            emit(context, &EARLIER_SPECS[i], CASES_FLOATS[t], CASES_FLOATS[t], CONF_RANDOM);
        }
    }
}

static void conf_cases_attention_long(conf_cases_context *context)
{
    const bool more = conf_cases_standard(context);
    for (uint32_t i = 0; i < (more ? N_LONG_SPECS : N_LONG_QUICK); i++) {
        const conf_attention_spec *s = &LONG_SPECS[i];
        if (more || (i != 0 && i != 3 && i != 5)) conf_attention_one(context, s, PCO_F32, PCO_F32, CONF_RANDOM);
        if (more || i == 2 || i == 4) conf_attention_one(context, s, PCO_F32, PCO_F32, CONF_ADVERSARIAL);
        if (more || i == 0) conf_attention_one(context, s, PCO_F32, PCO_F16, CONF_RANDOM);
        if (s->lengths) conf_attention_one(context, s, PCO_F32, PCO_F16, CONF_SPECIAL);
        if (!s->lengths && conf_attention_hides(s)) conf_attention_one(context, s, PCO_F32, PCO_F32, CONF_SPECIAL);
        if (more || i == 1 || i == 3 || i == 5) conf_attention_one(context, s, PCO_F16, PCO_F16, CONF_RANDOM);
    }
}

/* Software drivers compile a pipeline for each head size, the longer the larger it is: the short tiers have 80 for the
 * kernel of heads beyond 64, without 128, and the case of 32 with the head size of others (the last one). */
static bool conf_attention_is_extra(uint32_t spec) { return spec == 2 || spec == 18; }

void conf_cases_attention(conf_cases_context *context, pco_op op)
{
    (void)op;
    for (uint32_t i = 0; i < N_SPECS; i++) {
        if (!conf_cases_standard(context) && conf_attention_is_extra(i)) continue;
        conf_attention_one(context, &SPECS[i], PCO_F32, PCO_F32, CONF_RANDOM);
        if (conf_cases_standard(context) || i == 0 || i == 8)
            conf_attention_one(context, &SPECS[i], PCO_F32, PCO_F32, CONF_ADVERSARIAL);
        if (SPECS[i].lengths ||
            (conf_attention_hides(&SPECS[i]) && (conf_cases_standard(context) || i % 4 == 1 || i > 9)))
            conf_attention_one(context, &SPECS[i], PCO_F32, PCO_F32, CONF_SPECIAL);
        for (uint32_t t = 1; t < 3; t++) {
            if (conf_cases_standard(context) || (i == 3 && t == 1)) /* a cache is of f16 */
                conf_attention_one(context, &SPECS[i], PCO_F32, CASES_FLOATS[t], CONF_RANDOM);
            /* Plain 16-bit heads are among the traps. */
            if (conf_cases_standard(context) || (i == 1 && t == 2) || (i == 10 && t == 1) || (i == 26 && t == 1))
                conf_attention_one(context, &SPECS[i], CASES_FLOATS[t], CASES_FLOATS[t], CONF_RANDOM);
        }
        /* f16, as matrix units take them, with values that nobody sees: behind the last row, and in a mask. */
        if (i == 14 || i == 26) conf_attention_one(context, &SPECS[i], PCO_F16, PCO_F16, CONF_SPECIAL);
    }
    conf_cases_attention_long(context);
    conf_cases_attention_earlier(context, N_EARLIER_FORWARD, conf_attention_one);
    for (uint32_t i = 0; i < N_EARLIER_GARBAGE && conf_cases_standard(context); i++)
        conf_attention_one(context, &EARLIER_GARBAGE[i], PCO_F32, PCO_F32, CONF_SPECIAL);
}

/* More queries than a block has rows, keys on both sides of vectors and tiles, rows and keys that nobody sees. */
static const conf_attention_spec BACK_SPECS[] = {
    {.b = 1, .h = 4, .g = 2, .s = 75, .t = 67, .d = 8, .e = 8, .layout = 1, .causal = 1},
    {.b = 1, .h = 1, .g = 1, .s = 5, .t = 141, .d = 8, .e = 8, .layout = 0, .window = 50, .scale = 0.7},
    {.b = 2, .h = 1, .g = 1, .s = 34, .t = 33, .d = 64, .e = 64, .layout = 1, .causal = 1, .lengths = 1},
    {.b = 1, .h = 2, .g = 2, .s = 150, .t = 19, .d = 8, .e = 8, .layout = 1, .window = 5, .starts = 1},
    {.b = 3,
     .h = 3,
     .g = 1,
     .s = 9,
     .t = 20,
     .d = 7,
     .e = 5,
     .layout = 0,
     .mask = "3,1,9,20",
     .boolean = 2,
     .lengths = 1},
    {.b = 1, .h = 2, .g = 1, .s = 1, .t = 1, .d = 8, .e = 8, .layout = 1},
    {.b = 1,
     .h = 1,
     .g = 1,
     .s = 17,
     .t = 9,
     .d = 8,
     .e = 8,
     .layout = 1,
     .mask = "1,1,17,9",
     .causal = 1,
     .starts = 1},
    {.b = 1, .h = 0, .g = 2, .s = 3, .t = 5, .d = 8, .e = 8, .layout = 1},
    /* As large as shared arrays are, and small enough for the tier of those who watch over memory. */
    {.b = 1, .h = 1, .g = 1, .s = 1, .t = 1, .d = 4, .e = 256, .layout = 1},
    {.b = 1, .h = 1, .g = 1, .s = 1, .t = 1, .d = 256, .e = 4, .layout = 1},
    /* Larger than the arrays of backends/gpu, which refuses them: other devices compute them. */
    {.b = 1, .h = 1, .g = 1, .s = 2, .t = 3, .d = 260, .e = 260, .layout = 1},
};
enum { N_BACK_SPECS = sizeof BACK_SPECS / sizeof *BACK_SPECS };

void conf_cases_attention_backward(conf_cases_context *context, pco_op op)
{
    (void)op;
    bool more = conf_cases_standard(context);
    for (uint32_t i = 0; i < N_SPECS + N_BACK_SPECS; i++) {
        const conf_attention_spec *s = i < N_SPECS ? &SPECS[i] : &BACK_SPECS[i - N_SPECS];
        if (s->softcap > 0 || s->weights || (!more && i < N_SPECS && conf_attention_is_extra(i))) continue;
        conf_attention_back_one(context, s, PCO_F32, PCO_F32, CONF_RANDOM);
        if (more || i == 1 || i == N_SPECS) conf_attention_back_one(context, s, PCO_F32, PCO_F32, CONF_ADVERSARIAL);
        if (s->lengths) conf_attention_back_one(context, s, PCO_F32, PCO_F32, CONF_SPECIAL);
        for (uint32_t t = 1; t < 3; t++) {
            if (more || (i == 0 && t == 2)) conf_attention_back_one(context, s, PCO_F32, CASES_FLOATS[t], CONF_RANDOM);
            if (more || (i == 10 && t == 2) || (i == N_SPECS + 4 && t == 1))
                conf_attention_back_one(context, s, CASES_FLOATS[t], CASES_FLOATS[t], CONF_RANDOM);
        }
    }
    conf_cases_attention_earlier(context, N_EARLIER, conf_attention_back_one);
}

static void conf_rope_one(conf_cases_context *context, uint32_t dtype, const char *shape, int rows, int length,
                          int pairs, const pco_rope_attrs *attrs, double furthest)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_ROPE, CONF_RANDOM);
    *(pco_rope_attrs *)one->attrs.bytes = *attrs;
    conf_cases_in(one, dtype, "%s", shape);
    conf_operand *positions = conf_cases_in(one, PCO_I32, "%d,%d", rows, length);
    positions->fill = CONF_FILL_INTEGER, positions->low = 0, positions->high = furthest;
    conf_operand *phase = conf_cases_in(one, PCO_I32, "%d,2", pairs);
    phase->fill = CONF_FILL_PHASE, phase->constant = true;
    conf_cases_emit(context);
}

void conf_cases_rope(conf_cases_context *context, pco_op op)
{
    (void)op;
    static const pco_rope_attrs PLAIN = {0, 0, 0, 1.0}, PAIRED = {1, 0, 0, 1.0}, HEADS = {0, 1, 0, 1.0},
                                INVERSE = {0, 0, 1, 1.0}, SCALED = {1, 1, 1, 1.25};
    for (uint32_t t = 0; t < 3; t++) {
        uint32_t type = CASES_FLOATS[t];
        conf_rope_one(context, type, "2,5,3,16", 2, 5, 8, &PLAIN, 4096);
        conf_rope_one(context, type, "2,5,3,16", 1, 5, 8, &PAIRED, 4096);
        conf_rope_one(context, type, "2,3,5,22", 1, 5, 7, &HEADS, 100000); /* part of the depth; far positions */
        conf_rope_one(context, type, "1,3,3,15", 1, 3, 7, &PLAIN, 4096);   /* rows that are not whole words */
        if (t && !conf_cases_standard(context)) continue;
        conf_rope_one(context, type, "1,7,2,64", 1, 7, 32, &INVERSE, 100000);
        conf_rope_one(context, type, "2,3,5,10", 2, 5, 3, &SCALED, 1000000000);
        conf_rope_one(context, type, "1,1,1,2", 1, 1, 1, &PLAIN, 0);
        conf_rope_one(context, type, "0,4,2,8", 1, 4, 4, &PLAIN, 8);
        conf_rope_one(context, type, "1,33,1,130", 1, 33, 65, &PAIRED, 131072);
    }
}

void conf_cases_sinusoidal_positions(conf_cases_context *context, pco_op op)
{
    /* The last: four rows are all that a small window holds. */
    static const char *const SHAPES[] = {"33", "2,5", "", "0", "3,1,7", "9"};
    static const int PAIRS[] = {16, 7, 33, 4, 1, 20};
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t s = 0; s < (t == 0 || conf_cases_standard(context) ? 6u : 2u); s++) {
            conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
            pco_sinusoidal_positions_attrs *attrs = (pco_sinusoidal_positions_attrs *)one->attrs.bytes;
            attrs->layout = s % 2, attrs->dtype = CASES_FLOATS[t];
            conf_operand *positions = conf_cases_in(one, PCO_I32, "%s", SHAPES[s]);
            positions->fill = CONF_FILL_INTEGER, positions->high = s == 0 ? 5000 : 100000;
            conf_operand *phase = conf_cases_in(one, PCO_I32, "%d,2", PAIRS[s]);
            phase->fill = CONF_FILL_PHASE, phase->constant = true;
            conf_cases_emit(context);
        }
    }
}
