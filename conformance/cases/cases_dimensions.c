/* Cases of as many dimensions as there are, none of which can be joined with its neighbour, and no two parameters of
 * neighbours alike: a kernel that reads another dimension's size or stride gives another result. Kernels are unrolled
 * for each number of dimensions, so that each number up to the highest is there (tests/unit/test_constants.c finds what
 * is missing). The second innermost stride is smaller than the outermost size: nothing is divided by that size, and one
 * that is mistaken for the stride would not show otherwise. */
#include "cases/lists.h"

enum { DIMENSIONS_LEAST = 4 };

/* The last `rank` of PCO_MAX_RANK digits with commas between. */
static const char *conf_dimensions_last(const char *digits, uint32_t rank)
{
    return digits + (size_t)2 * (PCO_MAX_RANK - rank);
}

/* Operands that step through every second dimension, and through the others. */
static void conf_dimensions_broadcast(conf_cases_context *context, pco_op op)
{
    for (uint32_t rank = DIMENSIONS_LEAST; rank <= PCO_MAX_RANK; rank++) {
        conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
        if (op == PCO_OP_WHERE) {
            conf_cases_in(one, PCO_BOOL, "%s", conf_dimensions_last("3,1,3,1,3,1,3,1", rank));
            conf_cases_in(one, PCO_F32, "%s", conf_dimensions_last("3,2,3,2,3,2,3,2", rank));
            conf_cases_in(one, PCO_F32, "%s", conf_dimensions_last("3,2,1,2,1,2,1,2", rank));
        } else {
            conf_cases_in(one, PCO_F32, "%s", conf_dimensions_last("3,1,3,1,3,1,3,1", rank));
            conf_cases_in(one, PCO_F32, "%s", conf_dimensions_last("3,2,1,2,1,2,1,2", rank));
        }
        conf_cases_emit(context);
    }
}

/* No two dimensions that follow each other in x do so in y; sizes of y alternate. */
static void conf_dimensions_permute(conf_cases_context *context)
{
    static const char *const LISTS[][2] = {
        {"2,3,3,2,2,3", "4,2,0,5,3,1"}, {"3,3,2,2,3,3,2", "5,3,1,6,4,2,0"}, {"2,2,3,2,2,3,3,3", "6,4,2,0,5,3,7,1"}};
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_PERMUTE, CONF_RANDOM);
        pco_permute_attrs *attrs = (pco_permute_attrs *)one->attrs.bytes;
        conf_cases_in(one, PCO_F32, "%s", LISTS[i][0]);
        attrs->n_dims = conf_cases_vector(attrs->dims, LISTS[i][1]);
        conf_cases_emit(context);
    }
}

static void conf_dimensions_pad(conf_cases_context *context)
{
    for (uint32_t rank = DIMENSIONS_LEAST; rank <= PCO_MAX_RANK; rank++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_PAD, CONF_RANDOM);
        pco_pad_attrs *attrs = (pco_pad_attrs *)one->attrs.bytes;
        conf_cases_in(one, PCO_F32, "%s", conf_dimensions_last("2,1,2,1,2,1,2,1", rank));
        attrs->n_before = conf_cases_vector(attrs->before, conf_dimensions_last("1,0,1,0,1,0,1,0", rank));
        attrs->n_after = conf_cases_vector(attrs->after, conf_dimensions_last("0,1,0,1,0,1,0,1", rank));
        attrs->value = -3.0;
        conf_cases_emit(context);
    }
}

/* As many kept dimensions as reduced ones, in turn. */
static void conf_dimensions_sum(conf_cases_context *context)
{
    static const char *const LISTS[][2] = {{"3,2,2,3,3,2", "1,3,5"}, {"3,2,2,3,3,2,2,3", "1,3,5,7"}};
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_SUM, CONF_EXACT);
        pco_sum_attrs *attrs = (pco_sum_attrs *)one->attrs.bytes;
        conf_cases_in(one, PCO_F32, "%s", LISTS[i][0]);
        attrs->n_axes = conf_cases_vector(attrs->axes, LISTS[i][1]);
        conf_cases_emit(context);
    }
}

/* Three batch dimensions, as many as a kernel counts through, of which a and b step through different ones. */
static void conf_dimensions_matmul(conf_cases_context *context)
{
    for (uint32_t turn = 0; turn < 2; turn++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
        conf_cases_in(one, PCO_F32, turn ? "3,1,4,5,7" : "3,2,4,5,7");
        conf_cases_in(one, PCO_F32, turn ? "3,2,4,7,6" : "3,1,4,7,6");
        conf_cases_emit(context);
    }
}

void conf_cases_dimensions(conf_cases_context *context, pco_op op)
{
    if (op == PCO_OP_ADD || op == PCO_OP_WHERE) conf_dimensions_broadcast(context, op);
    if (op == PCO_OP_PERMUTE) conf_dimensions_permute(context);
    if (op == PCO_OP_PAD) conf_dimensions_pad(context);
    if (op == PCO_OP_SUM) conf_dimensions_sum(context);
    if (op == PCO_OP_MATMUL) conf_dimensions_matmul(context);
}
