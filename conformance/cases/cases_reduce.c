/* Cases of reductions, cumsum, top_k, softmax and its relatives, norms, random numbers. */
#include "cases/lists.h"

#include <math.h>
#include <string.h>

static const char *const ROW_SIZES[] = {"1",   "2",   "3",   "31",  "32",  "33",  "63",   "64",   "65",
                                        "127", "128", "129", "255", "256", "257", "1023", "1025", "4097"};
enum { N_ROWS = sizeof ROW_SIZES / sizeof *ROW_SIZES };

static void conf_reduce_one(conf_cases_context *context, pco_op op, uint32_t dtype, const char *shape, const char *axes,
                            int64_t keepdims, conf_regime regime)
{
    conf_case *one = conf_cases_begin(context, op, regime);
    pco_sum_attrs *attrs = (pco_sum_attrs *)one->attrs.bytes; /* mean and amax have the same fields */
    conf_cases_in(one, dtype, "%s", shape);
    attrs->keepdims = keepdims;
    attrs->n_axes = conf_cases_vector(attrs->axes, axes);
    conf_cases_emit(context);
}

void conf_cases_reduce(conf_cases_context *context, pco_op op)
{
    static const uint32_t TYPES[4] = {PCO_F32, PCO_F16, PCO_BF16, PCO_I32};
    static const struct {
        const char *shape, *axes;
        int keepdims;
        conf_regime regime;
    } LISTS[] = {
        {"5,257", "1", 0, CONF_RANDOM},   {"33,7", "0", 1, CONF_EXACT},      {"3,5,7", "-1", 0, CONF_ADVERSARIAL},
        {"3,129,5", "1", 0, CONF_RANDOM}, {"2,3,5,7", "1,3", 1, CONF_EXACT}, {"1025", "0", 0, CONF_EXACT},
        {"4,6", "0,1", 0, CONF_RANDOM},   {"3,0", "1", 0, CONF_RANDOM},      {"0,3", "1", 0, CONF_RANDOM},
        {"3,5", "", 0, CONF_RANDOM},      {"7,1", "1", 1, CONF_RANDOM},      {"2,3,4,5", "0,2", 0, CONF_RANDOM},
        {"3,1023", "1", 0, CONF_SPECIAL}, {"16,70001", "1", 0, CONF_EXACT}, /* more terms than some drivers go rounds */
        {"77,7", "1", 0, CONF_RANDOM}, /* several rows in a small window, and several windows */
    };
    for (uint32_t t = 0; t < (op == PCO_OP_MEAN ? 3u : 4u); t++) {
        for (uint32_t s = 0; s < sizeof LISTS / sizeof *LISTS; s++) {
            if (t && s > 4 && !conf_cases_standard(context)) continue;
            if (t < 3 && !conf_cases_has_half(context, t, s)) continue;
            if (TYPES[t] == PCO_I32 && LISTS[s].regime == CONF_SPECIAL) continue;
            bool empty = strcmp(LISTS[s].shape, "3,0") == 0; /* NaN or -infinity over nothing */
            conf_reduce_one(context, op, TYPES[t], LISTS[s].shape, LISTS[s].axes, LISTS[s].keepdims,
                            empty && op != PCO_OP_SUM && t < 3 ? CONF_SPECIAL : LISTS[s].regime);
        }
        for (uint32_t s = 0; s < N_ROWS && conf_cases_standard(context); s++) {
            char shape[16];
            snprintf(shape, sizeof shape, "3,%s", ROW_SIZES[s]);
            conf_reduce_one(context, op, TYPES[t], shape, "1", 0, s % 2 ? CONF_RANDOM : CONF_ADVERSARIAL);
            conf_reduce_one(context, op, TYPES[t], shape, "1", 0, CONF_EXACT);
        }
    }
}

static void conf_argmax_one(conf_cases_context *context, uint32_t dtype, const char *shape, int64_t axis,
                            int64_t keepdims, conf_fill fill, conf_regime regime)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_ARGMAX, regime);
    pco_argmax_attrs *attrs = (pco_argmax_attrs *)one->attrs.bytes;
    attrs->axis = axis, attrs->keepdims = keepdims;
    conf_cases_in(one, dtype, "%s", shape)->fill = fill;
    conf_cases_emit(context);
}

void conf_cases_argmax(conf_cases_context *context, pco_op op)
{
    static const uint32_t TYPES[4] = {PCO_F32, PCO_F16, PCO_BF16, PCO_I32};
    (void)op;
    for (uint32_t t = 0; t < 4; t++) {
        conf_argmax_one(context, TYPES[t], "5,257", -1, 0, CONF_FILL_DEFAULT, CONF_RANDOM);
        /* The lowest among equals. Variants are tried in turns: in half of the types the other way round. */
        for (uint32_t i = 0; i < 2; i++)
            conf_argmax_one(context, TYPES[t], i == t % 2 ? "7,129" : "33,5", i == t % 2, i == t % 2, CONF_FILL_TIES,
                            CONF_RANDOM);
        if (t < 3) conf_argmax_one(context, TYPES[t], "9,65", -1, 0, CONF_FILL_DEFAULT, CONF_SPECIAL);
        if (t && !conf_cases_standard(context)) continue;
        conf_argmax_one(context, TYPES[t], "3,7,5", 1, 1, CONF_FILL_EQUAL, CONF_RANDOM);
        conf_argmax_one(context, TYPES[t], "6,1", -1, 0, CONF_FILL_DEFAULT, CONF_RANDOM);
        conf_argmax_one(context, TYPES[t], "0,4", -1, 0, CONF_FILL_DEFAULT, CONF_RANDOM);
        conf_argmax_one(context, TYPES[t], "2,4099", -1, 0, CONF_FILL_TIES, CONF_RANDOM);
    }
}

static void conf_cumsum_one(conf_cases_context *context, uint32_t dtype, const char *shape, int64_t axis, int form,
                            conf_regime regime)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_CUMSUM, regime);
    *(pco_cumsum_attrs *)one->attrs.bytes = (pco_cumsum_attrs){axis, form & 1, form >> 1};
    conf_cases_in(one, dtype, "%s", shape);
    conf_cases_emit(context);
}

/* Forms: 1 is exclusive, 2 reverse, 3 both. Rows of an odd size begin in the middle of a word, in f16 and bf16. */
void conf_cases_cumsum(conf_cases_context *context, pco_op op)
{
    static const uint32_t TYPES[4] = {PCO_F32, PCO_F16, PCO_BF16, PCO_I32};
    static const struct {
        const char *shape;
        int axis, form;
        conf_regime regime;
    } LISTS[] = {
        {"5,257", -1, 0, CONF_RANDOM},     {"3,133", -1, 2, CONF_EXACT},   {"4,7,3", 1, 1, CONF_ADVERSARIAL},
        {"33,5", 0, 3, CONF_RANDOM},       {"7,35", -1, 1, CONF_EXACT},    {"3,131", 1, 3, CONF_ADVERSARIAL},
        {"2,1031", -1, 0, CONF_EXACT},     {"31,5", -1, 0, CONF_SPECIAL},  {"3,67", -1, 3, CONF_SPECIAL},
        {"1,2053", -1, 2, CONF_RANDOM},    {"2,517,3", 1, 2, CONF_EXACT},  {"6,1", -1, 0, CONF_RANDOM},
        {"1", 0, 1, CONF_EXACT},           {"0,4", -1, 0, CONF_RANDOM},    {"4,0", 1, 0, CONF_RANDOM},
        {"3,2,5", 0, 1, CONF_ADVERSARIAL}, {"2,3,5,7", 2, 2, CONF_RANDOM}, {"130,3", 1, 3, CONF_ADVERSARIAL},
        {"2,70001", -1, 1, CONF_EXACT}, /* more terms than some drivers go rounds */
    };
    for (uint32_t t = 0; t < 4; t++) {
        for (uint32_t s = 0; s < sizeof LISTS / sizeof *LISTS; s++) {
            if (t && s > 8 && !conf_cases_standard(context)) continue;
            if (t < 3 && s > 1 && !conf_cases_has_half(context, t, s)) continue;
            if (TYPES[t] == PCO_I32 && LISTS[s].regime == CONF_SPECIAL) continue;
            conf_cumsum_one(context, TYPES[t], LISTS[s].shape, LISTS[s].axis, LISTS[s].form, LISTS[s].regime);
        }
        for (uint32_t s = 0; s < N_ROWS && conf_cases_standard(context); s++) {
            char shape[16];
            snprintf(shape, sizeof shape, "3,%s", ROW_SIZES[s]);
            conf_cumsum_one(context, TYPES[t], shape, -1, (int)s % 4, s % 2 ? CONF_RANDOM : CONF_ADVERSARIAL);
            conf_cumsum_one(context, TYPES[t], shape, -1, (int)(s + 1) % 4, CONF_EXACT);
        }
    }
    /* more than the 512 terms that 64 invocations sum at once; of each type two, as variants are tried in turns */
    static const char *const CHUNKS[2][2] = {{"1,601", "1,577"}, {"1,603", "1,579"}};
    for (uint32_t t = 0; t < 2; t++)
        for (uint32_t s = 0; s < 2; s++) conf_cumsum_one(context, TYPES[t], CHUNKS[t][s], -1, 0, CONF_RANDOM);
    conf_cases_small_along(context, op);
}

static void conf_top_k_one(conf_cases_context *context, uint32_t dtype, const char *shape, int64_t axis, int64_t k,
                           int largest, conf_fill fill, conf_regime regime)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_TOP_K, regime);
    *(pco_top_k_attrs *)one->attrs.bytes = (pco_top_k_attrs){axis, k, largest};
    conf_cases_in(one, dtype, "%s", shape)->fill = fill;
    conf_cases_emit(context);
}

/* Lists of values that repeat: zeros of both signs are equal, and so are all NaN; the least integer is no absent one;
 * -infinity and subnormals have their places. */
static void conf_top_k_lists(conf_cases_context *context)
{
    static const double ZEROS[5] = {0.0, -0.0, -0.0, 0.0, -1.0}, ENDS[4] = {NAN, -INFINITY, INFINITY, NAN},
                        LEAST[3] = {-2147483648.0, -2147483648.0, -2147483647.0},
                        SMALL[6] = {1e-40, 2e-40, -1e-40, 0.0, -2e-40, 1e-40};
    for (int largest = 0; largest < 2; largest++) {
        const struct {
            uint32_t dtype, n;
            const double *list;
        } lists[] = {{PCO_F32, 5, ZEROS}, {PCO_F16, 5, ZEROS}, {PCO_F32, 4, ENDS},
                     {PCO_BF16, 4, ENDS}, {PCO_I32, 3, LEAST}, {PCO_F32, 6, SMALL}};
        for (uint32_t i = 0; i < sizeof lists / sizeof *lists; i++) {
            conf_case *one = conf_cases_begin(context, PCO_OP_TOP_K, CONF_SPECIAL);
            *(pco_top_k_attrs *)one->attrs.bytes = (pco_top_k_attrs){-1, 7, largest};
            conf_cases_list(conf_cases_in(one, lists[i].dtype, "3,%d", i % 2 ? 7 : 70), lists[i].n, lists[i].list);
            conf_cases_emit(context);
        }
    }
}

void conf_cases_top_k(conf_cases_context *context, pco_op op)
{
    static const uint32_t TYPES[4] = {PCO_F32, PCO_F16, PCO_BF16, PCO_I32};
    static const struct {
        const char *shape;
        int axis, k, largest;
        conf_fill fill;
        conf_regime regime;
    } LISTS[] = {
        {"5,257", -1, 7, 1, CONF_FILL_DEFAULT, CONF_RANDOM},
        {"7,129", 1, 40, 1, CONF_FILL_TIES, CONF_RANDOM},
        {"33,5", 0, 33, 0, CONF_FILL_DEFAULT, CONF_RANDOM},
        {"4,7,3", 1, 3, 1, CONF_FILL_DEFAULT, CONF_ADVERSARIAL},
        {"9,65", -1, 65, 1, CONF_FILL_DEFAULT, CONF_SPECIAL},
        {"9,33", -1, 5, 0, CONF_FILL_ROWS, CONF_SPECIAL},
        {"2,1031", -1, 50, 0, CONF_FILL_TIES, CONF_RANDOM},
        {"3,7,5", 1, 7, 0, CONF_FILL_EQUAL, CONF_RANDOM},
        {"6,1", -1, 1, 1, CONF_FILL_DEFAULT, CONF_RANDOM},
        {"5", 0, 2, 1, CONF_FILL_DEFAULT, CONF_RANDOM},
        {"4,3", -1, 0, 1, CONF_FILL_DEFAULT, CONF_RANDOM},
        {"0,4", -1, 2, 1, CONF_FILL_DEFAULT, CONF_RANDOM},
        {"3,0", -1, 0, 0, CONF_FILL_DEFAULT, CONF_RANDOM},
        {"2,3,5,7", 2, 4, 1, CONF_FILL_TIES, CONF_RANDOM},
        {"3,1025", -1, 1025, 1, CONF_FILL_DEFAULT, CONF_RANDOM}, /* in several dispatches */
        {"1025,3", 0, 1025, 0, CONF_FILL_DEFAULT, CONF_RANDOM},
        {"2,70001", -1, 5, 1, CONF_FILL_TIES, CONF_RANDOM}, /* more elements than some drivers go rounds */
    };
    for (uint32_t t = 0; t < 4; t++) {
        for (uint32_t s = 0; s < sizeof LISTS / sizeof *LISTS; s++) {
            if (t && s > 5 && !conf_cases_standard(context)) continue;
            if (t < 3 && s > 1 && !conf_cases_has_half(context, t, s)) continue;
            if (TYPES[t] == PCO_I32 && LISTS[s].regime == CONF_SPECIAL) continue;
            conf_top_k_one(context, TYPES[t], LISTS[s].shape, LISTS[s].axis, LISTS[s].k, LISTS[s].largest,
                           LISTS[s].fill, LISTS[s].regime);
        }
        for (uint32_t s = 0; s < N_ROWS && conf_cases_standard(context); s++) {
            char shape[16];
            snprintf(shape, sizeof shape, "3,%s", ROW_SIZES[s]);
            conf_top_k_one(context, TYPES[t], shape, -1, s < 3 ? 1 : (int64_t)s, (int)s % 2, CONF_FILL_DEFAULT,
                           s % 3 ? CONF_RANDOM : CONF_ADVERSARIAL);
        }
    }
    conf_top_k_lists(context);
    conf_cases_small_along(context, op);
}

void conf_cases_softmax(conf_cases_context *context, pco_op op)
{
    static const struct {
        const char *shape;
        int axis;
        conf_fill fill;
        double limit;
        conf_regime regime;
    } LISTS[] = {
        {"5,257", -1, CONF_FILL_DEFAULT, 0, CONF_RANDOM},  {"3,7,33", -1, CONF_FILL_DEFAULT, 1e4, CONF_ADVERSARIAL},
        {"4,65", 0, CONF_FILL_DEFAULT, 0, CONF_RANDOM},    {"7,64", -1, CONF_FILL_EQUAL, 0, CONF_RANDOM},
        {"3,129,5", 1, CONF_FILL_DEFAULT, 0, CONF_RANDOM}, {"6,1", -1, CONF_FILL_DEFAULT, 0, CONF_RANDOM},
        {"0,5", -1, CONF_FILL_DEFAULT, 0, CONF_RANDOM},    {"3,1025", -1, CONF_FILL_DEFAULT, 80, CONF_RANDOM},
        {"7,35", -1, CONF_FILL_ROWS, 0, CONF_SPECIAL}, /* rows of -infinity, rows with NaN and infinity */
    };
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t s = 0; s < 9 + (conf_cases_standard(context) ? N_ROWS : 0); s++) {
            if (t && s > 2 && s != 8 && !conf_cases_standard(context)) continue;
            if (!conf_cases_has_half(context, t, (s + 1) / 2)) continue;
            conf_case *one = conf_cases_begin(context, op, s < 9 ? LISTS[s].regime : CONF_RANDOM);
            conf_operand *x = s < 9 ? conf_cases_in(one, CASES_FLOATS[t], "%s", LISTS[s].shape)
                                    : conf_cases_in(one, CASES_FLOATS[t], "3,%s", ROW_SIZES[s - 9]);
            pco_logsumexp_attrs *attrs = (pco_logsumexp_attrs *)one->attrs.bytes;
            if (s < 9) {
                x->fill = LISTS[s].fill, attrs->axis = LISTS[s].axis;
                x->low = -LISTS[s].limit, x->high = LISTS[s].limit;
            }
            if (op == PCO_OP_LOGSUMEXP) attrs->keepdims = s % 2;
            conf_cases_emit(context);
        }
    }
}

typedef struct conf_norm_form {
    int weight, bias, form, correction, stats;
    double eps;
} conf_norm_form;

static void conf_norm_one(conf_cases_context *context, pco_op op, uint32_t dtype, uint32_t weight_type,
                          const char *shape, const char *last, const conf_norm_form *f, conf_regime regime)
{
    conf_case *one = conf_cases_begin(context, op, regime);
    conf_operand *x = conf_cases_in(one, dtype, "%s", shape), *weight, *bias;
    if (regime == CONF_EXACT) x->fill = CONF_FILL_EQUAL; /* rows of one value: the variance is 0 */
    if (f->eps == 1e-3) x->low = -0.03, x->high = 0.03;  /* rows in which eps decides */
    weight = f->weight ? conf_cases_in(one, weight_type, "%s", last) : conf_cases_absent(one);
    weight->constant = f->weight == 2;
    if (op == PCO_OP_LAYER_NORM) {
        pco_layer_norm_attrs *attrs = (pco_layer_norm_attrs *)one->attrs.bytes;
        *attrs = (pco_layer_norm_attrs){f->eps, f->form, f->correction, f->stats};
        bias = f->bias ? conf_cases_in(one, weight_type, "%s", last) : conf_cases_absent(one);
        bias->constant = f->bias == 2;
    } else {
        *(pco_rms_norm_attrs *)one->attrs.bytes = (pco_rms_norm_attrs){f->eps, f->stats};
    }
    conf_cases_emit(context);
}

static void conf_norm_all(conf_cases_context *context, pco_op op)
{
    static const conf_norm_form FORMS[] = {{1, 1, 0, 0, 0, 1e-5}, {0, 0, 0, 0, 0, 1e-6}, {2, 2, 0, 0, 1, 1e-5},
                                           {1, 1, 1, 1, 0, 1e-6}, {1, 0, 1, 0, 1, 1e-3}, {1, 1, 0, 1, 0, 1e-12},
                                           {1, 0, 0, 0, 1, 1e-3}};
    static const char *const SHAPES[][2] = {{"3,257", "257"},   {"2,5,64", "64"}, {"7,33", "33"},
                                            {"1,1025", "1025"}, {"0,8", "8"},     {"2,3,130", "130"}};
    uint32_t forms = op == PCO_OP_LAYER_NORM ? 6 : 3;
    for (uint32_t t = 0; t < 3; t++) {
        uint32_t type = CASES_FLOATS[t];
        for (uint32_t f = 0; f < (t == 0 || conf_cases_standard(context) ? forms : 2); f++)
            if (conf_cases_has_half(context, t, f))
                conf_norm_one(context, op, type, type, SHAPES[f][0], SHAPES[f][1], &FORMS[f], CONF_RANDOM);
        conf_norm_one(context, op, type, type, "5,65", "65", &FORMS[0], CONF_ADVERSARIAL);
        if (conf_cases_has_half(context, t, 0))
            conf_norm_one(context, op, type, type, "3,37", "37", &FORMS[0], CONF_EXACT);
        if (type != PCO_F32) conf_norm_one(context, op, type, PCO_F32, "3,35", "35", &FORMS[2], CONF_RANDOM);
        if (t == 0) conf_norm_one(context, op, type, PCO_F16, "3,35", "35", &FORMS[2], CONF_RANDOM);
        if (conf_cases_has_half(context, t, 1))
            conf_norm_one(context, op, type, type, "4,66", "66", &FORMS[6], CONF_RANDOM);
        conf_norm_one(context, op, type, type, "0,8", "8", &FORMS[0], CONF_RANDOM);
        for (uint32_t s = 1; s < N_ROWS && conf_cases_standard(context); s++) {
            char shape[16];
            snprintf(shape, sizeof shape, "3,%s", ROW_SIZES[s]);
            conf_norm_one(context, op, type, type, shape, ROW_SIZES[s], &FORMS[s % forms], CONF_RANDOM);
        }
    }
}

void conf_cases_layer_norm(conf_cases_context *context, pco_op op) { conf_norm_all(context, op); }

void conf_cases_rms_norm(conf_cases_context *context, pco_op op) { conf_norm_all(context, op); }

static void conf_random_operands(conf_case *one, bool offset)
{
    conf_cases_in(one, PCO_I32, "2")->fill = CONF_FILL_BITS;
    if (offset) conf_cases_in(one, PCO_I32, "2")->fill = CONF_FILL_BITS;
}

void conf_cases_random_bits(conf_cases_context *context, pco_op op)
{
    static const char *const SHAPES[] = {"1025", "3", "2,3,5", "0", "", "4,257"};
    for (uint32_t s = 0; s < 6; s++) {
        for (uint32_t offset = 0; offset < 2; offset++) {
            conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
            pco_random_bits_attrs *attrs = (pco_random_bits_attrs *)one->attrs.bytes;
            attrs->stream = s * 3;
            attrs->n_shape = conf_cases_vector(attrs->shape, SHAPES[s]);
            conf_random_operands(one, offset);
            conf_cases_emit(context);
        }
    }
}

void conf_cases_dropout(conf_cases_context *context, pco_op op)
{
    static const double RATES[] = {0.5, 0.1, 0.0, 0.9, 0.25};
    static const char *const SHAPES[] = {"1025", "3,5,7", "33", "5,129", "0"};
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t s = 0; s < (t == 0 || conf_cases_standard(context) ? 5u : 2u); s++) {
            conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
            *(pco_dropout_attrs *)one->attrs.bytes = (pco_dropout_attrs){RATES[s], (int64_t)s * 5};
            conf_cases_in(one, CASES_FLOATS[t], "%s", SHAPES[s]);
            conf_random_operands(one, s % 2 == 0);
            conf_cases_emit(context);
        }
    }
}
