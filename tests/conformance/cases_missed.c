/* Cases that were missing: each is here because a fault (tests/mutants) once went past all others. */
#include "cases.h"

enum { MISSED_INPUTS = 4 };

typedef struct conf_missed {
    uint32_t op;
    conf_regime regime;
    struct {
        uint32_t dtype;
        const char *shape; /* NULL: no such operand */
    } in[MISSED_INPUTS];
} conf_missed;

static const conf_missed MISSED[] = {
    /* two rows of odd length in types that share words: the smallest count that is more than one row */
    {PCO_OP_ADD, CONF_RANDOM, {{PCO_F16, "2,7"}, {PCO_F16, "7"}}},
    {PCO_OP_SWIGLU, CONF_RANDOM, {{PCO_F16, "2,7"}, {PCO_F16, "2,7"}}},
    {PCO_OP_WHERE, CONF_RANDOM, {{PCO_BOOL, "7"}, {PCO_F16, "2,7"}, {PCO_F16, "7"}}},
    /* operands of which one moves along and the other does not, long enough to be cut into windows */
    {PCO_OP_WHERE, CONF_RANDOM, {{PCO_BOOL, "2047"}, {PCO_F16, "2047"}, {PCO_F16, ""}}},
    {PCO_OP_WHERE, CONF_RANDOM, {{PCO_BOOL, "2047"}, {PCO_F16, ""}, {PCO_F16, "2047"}}},
    {PCO_OP_SUB, CONF_RANDOM, {{PCO_F16, "2047"}, {PCO_F16, ""}}},
    {PCO_OP_SUB, CONF_RANDOM, {{PCO_F16, ""}, {PCO_F16, "2047"}}},
};

void conf_cases_missed(conf_cases_context *context, pco_op op)
{
    for (size_t i = 0; i < sizeof MISSED / sizeof *MISSED; i++) {
        const conf_missed *missed = &MISSED[i];
        if (missed->op != (uint32_t)op) continue;
        conf_case *one = conf_cases_begin(context, op, missed->regime);
        for (uint32_t k = 0; k < MISSED_INPUTS && missed->in[k].shape; k++)
            conf_cases_in(one, missed->in[k].dtype, "%s", missed->in[k].shape);
        conf_cases_emit(context);
    }
}
