/* Cases of the backward ops. */
#include "cases/lists.h"

#include "graph/op.h"

static void conf_softmax_backward_one(conf_cases_context *context, conf_regime regime, uint32_t type, const char *shape,
                                      int64_t axis)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_SOFTMAX_BACKWARD, regime);
    ((pco_softmax_backward_attrs *)one->attrs.bytes)->axis = axis;
    conf_operand *y = conf_cases_in(one, type, "%s", shape);
    if (regime == CONF_RANDOM) y->fill = CONF_FILL_UNIFORM, y->low = 0, y->high = 1;
    conf_cases_in(one, type, "%s", shape);
    conf_cases_emit(context);
}

void conf_cases_softmax_backward(conf_cases_context *context, pco_op op)
{
    static const struct {
        const char *shape;
        int64_t axis;
    } SHAPES[] = {{"7,33", -1}, {"2,5,3", 1}, {"3,65", 0}, {"1", 0},      {"4,257", -1},
                  {"0,5", -1},  {"5,0", 1},   {"37,2", 1}, {"2,1031", 1}, {"3,4,5,6", -2}};
    (void)op;
    bool more = conf_cases_standard(context);
    for (uint32_t t = 0; t < 3; t++)
        for (uint32_t s = 0; s < (t == 0 || more ? 10u : 3u); s++) {
            if (conf_cases_has_half(context, t, s))
                conf_softmax_backward_one(context, CONF_RANDOM, CASES_FLOATS[t], SHAPES[s].shape, SHAPES[s].axis);
            if ((s < 5 && conf_cases_has_half(context, t, s + 1)) || more)
                conf_softmax_backward_one(context, s % 2 ? CONF_ADVERSARIAL : CONF_EXACT, CASES_FLOATS[t],
                                          SHAPES[s].shape, SHAPES[s].axis);
        }
}

/* variant: 0 no weight, 1 of x's type, 2 of another */
static void conf_norm_backward_one(conf_cases_context *context, pco_op op, conf_regime regime, uint32_t type,
                                   const char *rows, int n, int weight, int form)
{
    conf_case *one = conf_cases_begin(context, op, regime);
    if (op == PCO_OP_LAYER_NORM_BACKWARD) {
        pco_layer_norm_backward_attrs *attrs = (pco_layer_norm_backward_attrs *)one->attrs.bytes;
        attrs->form = form;
        attrs->correction = form && n > 1;
        attrs->eps = form ? 1e-6 : 1e-5;
    }
    conf_cases_in(one, type, "%s%s%d", rows, *rows ? "," : "", n);
    conf_cases_in(one, type, "%s%s%d", rows, *rows ? "," : "", n);
    if (weight) conf_cases_in(one, weight == 1 ? type : type == PCO_F32 ? PCO_F16 : PCO_F32, "%d", n);
    conf_cases_emit(context);
}

void conf_cases_norm_backward(conf_cases_context *context, pco_op op)
{
    static const struct {
        const char *rows;
        int n;
    } SHAPES[] = {{"7", 33}, {"2,3", 5}, {"", 9}, {"19", 65}, {"4", 257}, {"0", 5}, {"3", 1031}, {"33", 3}, {"3", 1}};
    bool more = conf_cases_standard(context);
    int forms = op == PCO_OP_LAYER_NORM_BACKWARD ? 2 : 1;
    for (uint32_t t = 0; t < 3; t++)
        for (uint32_t s = 0; s < (t == 0 || more ? 9u : 3u); s++)
            for (int form = 0; form < forms; form++) {
                int weight = (int)(s + t + (uint32_t)form) % 3;
                if (!conf_cases_has_half(context, t, s + (uint32_t)form)) continue;
                conf_norm_backward_one(context, op, CONF_RANDOM, CASES_FLOATS[t], SHAPES[s].rows, SHAPES[s].n, weight,
                                       form);
                if (s == 0 || more)
                    conf_norm_backward_one(context, op, CONF_ADVERSARIAL, CASES_FLOATS[t], SHAPES[s].rows, SHAPES[s].n,
                                           (weight + 1) % 3, form);
            }
    static const double ZERO[1] = {0};
    for (int form = 0; form < forms; form++) /* rows of one value, and of zeros: no deviation */
        for (int zeros = 0; zeros < 2; zeros++) {
            conf_case *one = conf_cases_begin(context, op, CONF_EXACT);
            if (form) ((pco_layer_norm_backward_attrs *)one->attrs.bytes)->form = 1;
            conf_operand *x = conf_cases_in(one, PCO_F32, "5,16");
            if (zeros)
                conf_cases_list(x, 1, ZERO);
            else
                x->fill = CONF_FILL_EQUAL;
            conf_cases_in(one, PCO_F32, "5,16");
            conf_cases_emit(context);
        }
}

void conf_cases_swiglu_backward(conf_cases_context *context, pco_op op)
{
    static const char *const SHAPES[] = {"7,33", "3,5,8", "1025", "0,4", "5,129", "2,2"};
    for (uint32_t t = 0; t < 3; t++)
        for (uint32_t s = 0; s < (t == 0 || conf_cases_standard(context) ? 6u : 2u); s++)
            for (uint32_t joined = 0; joined < 2; joined++) {
                int64_t size[PCO_MAX_RANK];
                conf_case *one = conf_cases_begin(context, op, s % 3 == 2 ? CONF_ADVERSARIAL : CONF_RANDOM);
                conf_operand *gate = conf_cases_in(one, CASES_FLOATS[t], "%s", SHAPES[s]);
                gate->low = -10, gate->high = 10;
                if (joined) gate->shape[conf_cases_vector(size, SHAPES[s]) - 1] *= 2;
                if (joined)
                    conf_cases_absent(one);
                else
                    conf_cases_in(one, CASES_FLOATS[t], "%s", SHAPES[s]);
                conf_cases_in(one, CASES_FLOATS[t], "%s", SHAPES[s]);
                conf_cases_emit(context);
            }
}
