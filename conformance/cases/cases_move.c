/* Cases of ops that make and move data. Every type: what moves words moves them whatever they mean. */
#include "cases/lists.h"

#include "graph/op.h"

#include <string.h>

/* Types that this tier tries: f16 and bf16 move alike, so that quick leaves bf16 to some shapes. */
static bool conf_move_tries(const conf_cases_context *context, uint32_t type, uint32_t shape)
{
    return conf_cases_standard(context) || type == 0 || (type != 2 && shape < 3) || shape == 0;
}

void conf_cases_fill(conf_cases_context *context, pco_op op)
{
    static const char *const SHAPES[] = {"1025", "", "3,5", "0", "2,3,7", "255"};
    static const double VALUES[] = {0.1, 1.0, -3.0, 2.0, 65504.0, 0.0};
    for (uint32_t t = 0; t < 5; t++) {
        for (uint32_t s = 0; s < 6; s++) {
            if (!conf_move_tries(context, t, s)) continue;
            conf_case *one = conf_cases_begin(context, op, CONF_EXACT);
            pco_fill_attrs *attrs = (pco_fill_attrs *)one->attrs.bytes;
            attrs->dtype = CASES_PLAIN[t];
            attrs->value = CASES_PLAIN[t] == PCO_I32 ? (double)(int)(VALUES[s] * 10) : VALUES[s];
            attrs->n_shape = conf_cases_vector(attrs->shape, SHAPES[s]);
            conf_cases_emit(context);
        }
    }
}

void conf_cases_iota(conf_cases_context *context, pco_op op)
{
    static const char *const SHAPES[] = {"1025", "3,5,7", "4,129", "2,3", "0,3", "33,1,2"};
    static const int AXES[] = {0, 1, 1, 0, 1, 0};
    static const double STARTS[] = {0, 0, -2, 0.5, 0, 3}, STEPS[] = {1, 2, 3, -0.25, 1, 0.1};
    for (uint32_t t = 0; t < 4; t++) {
        for (uint32_t s = 0; s < 6; s++) {
            if (!conf_move_tries(context, t, s)) continue;
            conf_case *one = conf_cases_begin(context, op, CONF_EXACT);
            pco_iota_attrs *attrs = (pco_iota_attrs *)one->attrs.bytes;
            attrs->dtype = CASES_PLAIN[t];
            attrs->axis = AXES[s], attrs->start = STARTS[s], attrs->step = STEPS[s];
            attrs->n_shape = conf_cases_vector(attrs->shape, SHAPES[s]);
            conf_cases_emit(context);
        }
    }
}

void conf_cases_broadcast_to(conf_cases_context *context, pco_op op)
{
    static const char *const SHAPES[][2] = {{"1,7", "5,7"}, {"3,1,5", "2,3,4,5"},  {"", "3,43"},
                                            {"1", "257"},   {"33,1", "33,65"},     {"2,3", "2,3"},
                                            {"1,3", "0,3"}, {"1,2,1,3", "4,2,5,3"}};
    for (uint32_t t = 0; t < 5; t++) {
        for (uint32_t s = 0; s < 8; s++) {
            if (!conf_move_tries(context, t, s)) continue;
            conf_case *one = conf_cases_begin(context, op, CONF_ADVERSARIAL);
            pco_broadcast_to_attrs *attrs = (pco_broadcast_to_attrs *)one->attrs.bytes;
            conf_cases_in(one, CASES_PLAIN[t], "%s", SHAPES[s][0]);
            attrs->n_shape = conf_cases_vector(attrs->shape, SHAPES[s][1]);
            conf_cases_emit(context);
        }
    }
}

void conf_cases_reshape(conf_cases_context *context, pco_op op)
{
    static const char *const SHAPES[][2] = {{"6,35", "5,42"}, {"7", "1,7,1"},      {"", "1,1"},
                                            {"3,0", "0,5"},   {"2,3,4,5", "6,20"}, {"1025", "5,205"}};
    for (uint32_t t = 0; t < 5; t++) {
        for (uint32_t s = 0; s < 6; s++) {
            if (!conf_move_tries(context, t, s)) continue;
            conf_case *one = conf_cases_begin(context, op, CONF_ADVERSARIAL);
            pco_reshape_attrs *attrs = (pco_reshape_attrs *)one->attrs.bytes;
            conf_cases_in(one, CASES_PLAIN[t], "%s", SHAPES[s][0]);
            attrs->n_shape = conf_cases_vector(attrs->shape, SHAPES[s][1]);
            conf_cases_emit(context);
        }
    }
}

void conf_cases_permute(conf_cases_context *context, pco_op op)
{
    static const char *const SHAPES[][2] = {
        {"33,65", "1,0"}, {"2,5,3,7", "0,2,1,3"}, {"3,5,7", "2,0,1"},         {"5", "0"},
        {"", ""},         {"2,3,4,5", "3,2,1,0"}, {"2,3,2,3,2", "4,1,0,3,2"}, {"1,129,3", "1,2,0"},
        {"0,3", "1,0"},   {"64,64", "1,0"},       {"31,127", "1,0"},          {"3,5,7", "0,2,1"}};
    for (uint32_t t = 0; t < 5; t++) {
        for (uint32_t s = 0; s < 12; s++) {
            if (!conf_move_tries(context, t, s)) continue;
            conf_case *one = conf_cases_begin(context, op, s == 2 ? CONF_ADVERSARIAL : CONF_RANDOM);
            pco_permute_attrs *attrs = (pco_permute_attrs *)one->attrs.bytes;
            conf_cases_in(one, CASES_PLAIN[t], "%s", SHAPES[s][0]);
            attrs->n_dims = conf_cases_vector(attrs->dims, SHAPES[s][1]);
            conf_cases_emit(context);
        }
    }
}

void conf_cases_slice(conf_cases_context *context, pco_op op)
{
    static const char *const SHAPES[][4] = {
        {"7,33", "1,3", "5,29", "1,1"},
        {"65,5", "3,0", "31,5", "2,1"},
        {"2,3,9", "0,1,0", "2,1,3", "1,2,4"},
        {"1025", "1", "1023", "1"},
        {"5,6", "2,3", "0,2", "1,1"},
        {"129", "1", "43", "3"},
        {"", "", "", ""},
        {"3,4,5,6", "1,1,1,1", "2,2,2,2", "1,2,3,4"},
    };
    for (uint32_t t = 0; t < 5; t++) {
        for (uint32_t s = 0; s < 8; s++) {
            if (!conf_move_tries(context, t, s)) continue;
            conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
            pco_slice_attrs *attrs = (pco_slice_attrs *)one->attrs.bytes;
            conf_cases_in(one, CASES_PLAIN[t], "%s", SHAPES[s][0]);
            attrs->n_starts = conf_cases_vector(attrs->starts, SHAPES[s][1]);
            attrs->n_sizes = conf_cases_vector(attrs->sizes, SHAPES[s][2]);
            attrs->n_steps = conf_cases_vector(attrs->steps, SHAPES[s][3]);
            conf_cases_emit(context);
        }
    }
}

void conf_cases_concat(conf_cases_context *context, pco_op op)
{
    static const struct {
        int axis;
        uint32_t n;
        const char *shapes[8];
    } LISTS[] = {
        {0, 2, {"3,7", "5,7"}},
        {-1, 3, {"5,3", "5,1", "5,33"}},
        {1, 2, {"2,3,5", "2,4,5"}},
        {0, 1, {"17"}},
        {0, 8, {"1", "2", "3", "4", "5", "6", "7", "65"}},
        {1, 3, {"3,0", "3,5", "3,0"}},
        {2, 4, {"2,3,1", "2,3,1", "2,3,1", "2,3,1"}},
    };
    for (uint32_t t = 0; t < 5; t++) {
        for (uint32_t s = 0; s < 7; s++) {
            if (!conf_move_tries(context, t, s)) continue;
            conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
            ((pco_concat_attrs *)one->attrs.bytes)->axis = LISTS[s].axis;
            for (uint32_t i = 0; i < LISTS[s].n; i++) conf_cases_in(one, CASES_PLAIN[t], "%s", LISTS[s].shapes[i]);
            conf_cases_emit(context);
        }
    }
}

void conf_cases_pad(conf_cases_context *context, pco_op op)
{
    static const char *const SHAPES[][3] = {{"5,7", "1,2", "3,0"}, {"127", "1", "1"},     {"2,3,5", "0,1,0", "1,0,3"},
                                            {"0,3", "2,0", "1,0"}, {"3,4", "0,0", "0,0"}, {"", "", ""}};
    for (uint32_t t = 0; t < 5; t++) {
        for (uint32_t s = 0; s < 6; s++) {
            if (!conf_move_tries(context, t, s)) continue;
            conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
            pco_pad_attrs *attrs = (pco_pad_attrs *)one->attrs.bytes;
            conf_cases_in(one, CASES_PLAIN[t], "%s", SHAPES[s][0]);
            attrs->n_before = conf_cases_vector(attrs->before, SHAPES[s][1]);
            attrs->n_after = conf_cases_vector(attrs->after, SHAPES[s][2]);
            attrs->value = s == 0 ? 0.0 : s == 1 ? 1.0 : -2.0;
            conf_cases_emit(context);
        }
    }
}

static void conf_gather_one(conf_cases_context *context, uint32_t dtype, const char *shape, const char *indices,
                            int64_t axis, double limit, bool constant, uint32_t to)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_GATHER, CONF_RANDOM);
    pco_gather_attrs *attrs = (pco_gather_attrs *)one->attrs.bytes;
    attrs->axis = axis;
    if (to != PCO_NONE) attrs->dtype = to;
    conf_cases_in(one, dtype, "%s", shape)->constant = constant;
    conf_operand *index = conf_cases_in(one, PCO_I32, "%s", indices);
    index->fill = CONF_FILL_INTEGER, index->low = -1.0, index->high = limit; /* -1 and limit lie outside */
    conf_cases_emit(context);
}

/* Rows of blocks. */
static void conf_gather_blocks(conf_cases_context *context, uint32_t type, uint32_t to)
{
    static const struct {
        int rows, row;
        const char *indices;
        int limit;
        bool constant;
    } LISTS[] = {{13, 64, "3,5", 13, true}, {7, 32, "11", 7, false}, {5, 288, "", 4, true}};
    const bool few = conf_cases_is_variation(type);
    for (uint32_t i = 0; i < 3; i++) {
        char shape[32];
        if (!conf_cases_standard(context) && (i > 0 ? to != PCO_F32 || few : few && to != PCO_F32)) return;
        snprintf(shape, sizeof shape, "%d,%d", LISTS[i].rows, conf_cases_blocks(LISTS[i].row, type));
        conf_gather_one(context, type, shape, LISTS[i].indices, 0, LISTS[i].limit, LISTS[i].constant, to);
    }
}

void conf_cases_gather(conf_cases_context *context, pco_op op)
{
    static const struct {
        const char *shape, *indices;
        int axis, limit;
    } LISTS[] = {{"17,33", "2,7", 0, 17}, {"5,7,3", "4", 1, 7}, {"4,65", "9", -1, 65}, {"11,3", "", 0, 11},
                 {"11", "3,5", 0, 11},    {"7,1", "257", 0, 7}, {"3,4", "0", 0, 4},    {"2,3,4,5", "2,2", 2, 4}};
    (void)op;
    for (uint32_t t = 0; t < 5; t++)
        for (uint32_t s = 0; s < 8; s++)
            if (conf_move_tries(context, t, s))
                conf_gather_one(context, CASES_PLAIN[t], LISTS[s].shape, LISTS[s].indices, LISTS[s].axis,
                                LISTS[s].limit, s == 0 && t < 3, PCO_NONE);
    for (uint32_t q = 0; q < CASES_N_QUANTISED; q++)
        for (uint32_t to = 0; to < 3; to++) conf_gather_blocks(context, CASES_QUANTISED[q], CASES_FLOATS[to]);
}

void conf_cases_gather_along_axis(conf_cases_context *context, pco_op op)
{
    static const struct {
        const char *shape, *indices;
        int axis, limit;
    } LISTS[] = {{"5,7,3", "5,4,3", 1, 7}, {"9,65", "9,1", -1, 65}, {"33,5", "2,5", 0, 33},
                 {"257", "129", 0, 257},   {"4,3", "4,0", 1, 3},    {"2,3,4,5", "2,3,7,5", 2, 4}};
    for (uint32_t t = 0; t < 5; t++) {
        for (uint32_t s = 0; s < 6; s++) {
            if (!conf_move_tries(context, t, s)) continue;
            conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
            ((pco_gather_along_axis_attrs *)one->attrs.bytes)->axis = LISTS[s].axis;
            conf_cases_in(one, CASES_PLAIN[t], "%s", LISTS[s].shape);
            conf_operand *index = conf_cases_in(one, PCO_I32, "%s", LISTS[s].indices);
            index->fill = CONF_FILL_INTEGER, index->low = -1.0, index->high = LISTS[s].limit;
            conf_cases_emit(context);
        }
    }
}

void conf_cases_scatter_add(conf_cases_context *context, pco_op op)
{
    static const struct {
        const char *shape, *indices, *updates;
        int axis, limit;
    } LISTS[] = {{"11,33", "7", "7,33", 0, 11}, {"3,65", "2,5", "3,2,5", 1, 65}, {"5,7", "257", "257,7", 0, 5},
                 {"2,9,3", "4", "2,4,3", 1, 9}, {"7,2", "0", "0,2", 0, 7},       {"6,3", "", "3", 0, 6}};
    for (uint32_t t = 0; t < 4; t++) {
        for (uint32_t s = 0; s < 6; s++) {
            if (!conf_move_tries(context, t, s)) continue;
            conf_case *one = conf_cases_begin(context, op,
                                              s == 1   ? CONF_EXACT
                                              : s == 3 ? CONF_ADVERSARIAL
                                                       : CONF_RANDOM);
            ((pco_scatter_add_attrs *)one->attrs.bytes)->axis = LISTS[s].axis;
            conf_cases_in(one, CASES_PLAIN[t], "%s", LISTS[s].shape);
            conf_operand *index = conf_cases_in(one, PCO_I32, "%s", LISTS[s].indices);
            index->fill = CONF_FILL_INTEGER, index->low = -1.0, index->high = LISTS[s].limit;
            conf_cases_in(one, CASES_PLAIN[t], "%s", LISTS[s].updates);
            conf_cases_emit(context);
        }
    }
}

static void conf_state_write_one(conf_cases_context *context, uint32_t state, uint32_t x, const char *shape,
                                 const char *part, int64_t axis, uint32_t n, const double *index)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_STATE_WRITE, CONF_RANDOM);
    ((pco_state_write_attrs *)one->attrs.bytes)->axis = axis;
    conf_cases_in(one, state, "%s", shape);
    conf_cases_in(one, x, "%s", part);
    conf_cases_list(conf_cases_in(one, PCO_I32, "%u", n), n, index);
    conf_cases_emit(context);
}

void conf_cases_state_write(conf_cases_context *context, pco_op op)
{
    static const double AT0[] = {0}, AT5[] = {5}, LAST[] = {8}, EACH[] = {3, 0, 7}, OUTSIDE[] = {-1, 9, 8};
    for (uint32_t t = 0; t < 5; t++) {
        uint32_t type = CASES_PLAIN[t];
        conf_state_write_one(context, type, type, "3,9,2,5", "3,1,2,5", 1, 3, EACH);
        conf_state_write_one(context, type, type, "3,2,9,5", "3,2,3,5", 2, 3, OUTSIDE); /* some of it falls outside */
        if (t && !conf_cases_standard(context)) continue;
        conf_state_write_one(context, type, type, "1,9,33", "1,4,33", 1, 1, AT5);
        conf_state_write_one(context, type, type, "2,9,7", "2,9,7", 1, 1, AT0);
        conf_state_write_one(context, type, type, "2,9", "2,2", -1, 1, LAST);
        conf_state_write_one(context, type, type, "2,9,3", "2,0,3", 1, 1, AT0);
    }
    if (strstr(pco_op_find(op)->signature, "x:A")) return; /* types may differ only where the table says so */
    for (uint32_t s = 0; s < 3; s++)
        for (uint32_t x = 0; x < 3; x++)
            if (s != x)
                conf_state_write_one(context, CASES_FLOATS[s], CASES_FLOATS[x], "3,9,2,5", "3,2,2,5", 1, 3, EACH);
}
