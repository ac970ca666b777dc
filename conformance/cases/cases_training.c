/* Cases of the loss and the optimisers. */
#include "cases/lists.h"

#include "graph/op.h"

#include <math.h>

/* ---- cross_entropy and its backward op ---- */

static void conf_entropy_one(conf_cases_context *context, pco_op op, conf_regime regime, uint32_t type,
                             const char *rows, int n, double smoothing, const double *targets, uint32_t n_targets)
{
    conf_case *one = conf_cases_begin(context, op, regime);
    pco_cross_entropy_attrs *attrs = (pco_cross_entropy_attrs *)one->attrs.bytes; /* backward has the same */
    attrs->label_smoothing = smoothing;
    if (n == 5) attrs->ignore_index = 3; /* a class that is ignored */
    conf_operand *x = conf_cases_in(one, type, "%s%s%d", rows, *rows ? "," : "", n);
    x->low = -8, x->high = 8;
    conf_cases_list(conf_cases_in(one, PCO_I32, "%s", rows), n_targets, targets);
    if (op == PCO_OP_CROSS_ENTROPY_BACKWARD) conf_cases_in(one, PCO_F32, "%s", rows);
    conf_cases_emit(context);
}

/* Every third row is all -infinity: its softmax is 0, and what is left is what hits it. */
static void conf_entropy_empty(conf_cases_context *context, pco_op op, uint32_t type)
{
    static const double TARGETS[] = {0, 16, 5, 1};
    conf_case *one = conf_cases_begin(context, op, CONF_SPECIAL);
    conf_operand *x = conf_cases_in(one, type, "9,17");
    x->fill = CONF_FILL_ROWS, x->low = -8, x->high = 8;
    conf_cases_list(conf_cases_in(one, PCO_I32, "9"), 4, TARGETS);
    if (op == PCO_OP_CROSS_ENTROPY_BACKWARD)
        conf_cases_in(one, PCO_F32, "9")->fill = CONF_FILL_UNIFORM, one->in[2].low = -1, one->in[2].high = 1;
    conf_cases_emit(context);
}

void conf_cases_cross_entropy(conf_cases_context *context, pco_op op)
{
    static const struct {
        const char *rows;
        int n;
    } SHAPES[] = {{"7", 33}, {"2,3", 5}, {"", 9}, {"19", 65}, {"1", 1}, {"4", 257}, {"0", 5}, {"3", 1031}, {"33", 2}};
    static const double SMALL[] = {0, 1, -100, 0}, WRONG[] = {0, -1, 1, 7000000, -100, -2147483648.0};
    bool more = conf_cases_standard(context);
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t s = 0; s < (t == 0 || more ? 9u : 2u); s++) {
            double n = SHAPES[s].n;
            const double targets[] = {0, n - 1, -100, floor(n / 2), floor(n / 3), 0};
            for (uint32_t smoothed = 0; smoothed < 2; smoothed++)
                if (conf_cases_has_half(context, t, s + smoothed))
                    conf_entropy_one(context, op, CONF_RANDOM, CASES_FLOATS[t], SHAPES[s].rows, SHAPES[s].n,
                                     smoothed ? 0.1 : 0, targets, 6);
        }
        const double last[] = {2};
        conf_entropy_one(context, op, CONF_ADVERSARIAL, CASES_FLOATS[t], "13", 34, 0, SMALL, 4);
        conf_entropy_one(context, op, CONF_ADVERSARIAL, CASES_FLOATS[t], "5", 3, 1, last, 1);
        conf_entropy_one(context, op, CONF_SPECIAL, CASES_FLOATS[t], "11", 7, 0, WRONG, 6);
        conf_entropy_empty(context, op, CASES_FLOATS[t]);
    }
}

/* ---- optimisers ---- */

enum { NO_SCALE, SCALE, SCALE_NAN, SCALE_INFINITE, SCALES };

static void conf_optimiser_scale(conf_case *one, uint32_t kind)
{
    static const double VALUES[SCALES] = {0, 0.375, NAN, INFINITY};
    if (kind != NO_SCALE) conf_cases_list(conf_cases_in(one, PCO_F32, "1"), 1, &VALUES[kind]);
}

static void conf_adamw_one(conf_cases_context *context, conf_regime regime, uint32_t type, const char *shape,
                           uint32_t scale, const pco_adamw_attrs *attrs)
{
    static const double RUN[3] = {0.01, 0.271, 0.002997001};
    conf_case *one = conf_cases_begin(context, PCO_OP_ADAMW, regime);
    *(pco_adamw_attrs *)one->attrs.bytes = *attrs;
    conf_cases_in(one, PCO_F32, "%s", shape);
    conf_cases_in(one, PCO_F32, "%s", shape);
    conf_operand *v = conf_cases_in(one, PCO_F32, "%s", shape);
    v->fill = CONF_FILL_UNIFORM, v->low = 0, v->high = 2;
    conf_cases_in(one, type, "%s", shape);
    conf_cases_list(conf_cases_in(one, PCO_F32, "3"), 3, RUN);
    conf_optimiser_scale(one, scale);
    conf_cases_emit(context);
}

static const char *const OPTIMISER_SHAPES[] = {"1025", "3,5,7", "33", "", "0", "5,129", "2051"};

void conf_cases_adamw(conf_cases_context *context, pco_op op)
{
    static const pco_adamw_attrs USUAL = {0.9, 0.999, 1e-8, 0.01}, OTHER = {0.8, 0.95, 1e-6, 0};
    (void)op;
    for (uint32_t t = 0; t < 3; t++)
        for (uint32_t s = 0; s < (t == 0 || conf_cases_standard(context) ? 7u : 2u); s++) {
            conf_adamw_one(context, CONF_RANDOM, CASES_FLOATS[t], OPTIMISER_SHAPES[s], s % SCALES,
                           s % 2 ? &OTHER : &USUAL);
            conf_adamw_one(context, CONF_ADVERSARIAL, CASES_FLOATS[t], OPTIMISER_SHAPES[s], s % 2,
                           s % 2 ? &USUAL : &OTHER);
        }
}

static void conf_sgd_one(conf_cases_context *context, conf_regime regime, uint32_t type, const char *shape,
                         uint32_t scale, const pco_sgd_attrs *attrs)
{
    static const double RUN[1] = {0.125};
    conf_case *one = conf_cases_begin(context, PCO_OP_SGD, regime);
    *(pco_sgd_attrs *)one->attrs.bytes = *attrs;
    for (uint32_t i = 0; i < 3; i++) conf_cases_in(one, i < 2 ? PCO_F32 : type, "%s", shape);
    conf_cases_list(conf_cases_in(one, PCO_F32, "1"), 1, RUN);
    conf_optimiser_scale(one, scale);
    conf_cases_emit(context);
}

void conf_cases_sgd(conf_cases_context *context, pco_op op)
{
    static const pco_sgd_attrs KINDS[3] = {{0, 0, 0}, {0.75, 0, 0.125}, {0.9, 1, 0.01}};
    (void)op;
    for (uint32_t t = 0; t < 3; t++)
        for (uint32_t s = 0; s < (t == 0 || conf_cases_standard(context) ? 7u : 2u); s++) {
            conf_sgd_one(context, CONF_RANDOM, CASES_FLOATS[t], OPTIMISER_SHAPES[s], s % SCALES, &KINDS[s % 3]);
            conf_sgd_one(context, s % 3 == 2 ? CONF_ADVERSARIAL : CONF_EXACT, CASES_FLOATS[t], OPTIMISER_SHAPES[s],
                         (s + 1) % 2, &KINDS[(s + 1) % 3]);
        }
}
