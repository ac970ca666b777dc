/* Cases that are programs of several nodes. */
#include "cases/chain.h"
#include "cases/lists.h"

static void conf_chain_integers(conf_case *one, uint32_t dtype, const char *shape, double low, double high)
{
    conf_operand *operand = conf_cases_in(one, dtype, "%s", shape);
    operand->fill = CONF_FILL_INTEGER, operand->low = low, operand->high = high;
}

static void conf_chain_emit(conf_cases_context *context, uint32_t number, uint32_t type, bool small)
{
    static const double FIRST[] = {1, 4}, SECOND[] = {3, 2};
    const pco_op op = (pco_op)conf_chain_find(number)->op;
    conf_case *one = conf_cases_begin(context, op, CONF_EXACT);
    one->chain = number;
    if (op == PCO_OP_SCATTER_ADD) {
        conf_chain_integers(one, type, small ? "5,16" : "67,96", -9, 9);
        conf_chain_integers(one, PCO_I32, small ? "7" : "31", 0, small ? 4 : 66);
        conf_chain_integers(one, type, small ? "7,16" : "31,96", -9, 9);
        conf_chain_integers(one, PCO_I32, small ? "7" : "31", 0, small ? 4 : 66);
    } else if (op == PCO_OP_STATE_WRITE) {
        conf_chain_integers(one, type, small ? "2,9,5" : "2,90,70", -9, 9);
        conf_chain_integers(one, type, small ? "2,3,5" : "2,30,70", -9, 9);
        conf_chain_integers(one, type, small ? "2,2,5" : "2,20,70", -9, 9);
        conf_cases_list(conf_cases_in(one, PCO_I32, "2"), 2, FIRST);
        conf_cases_list(conf_cases_in(one, PCO_I32, "2"), 2, SECOND);
    } else {
        conf_chain_integers(one, type, small ? "131" : "4099", -9, 9);
        conf_chain_integers(one, type, small ? "131" : "4099", -9, 9);
    }
    conf_cases_emit(context);
}

/* In types whose kernels other cases have compiled. */
void conf_cases_chain(conf_cases_context *context, pco_op op)
{
    for (uint32_t number = 1; conf_chain_find(number); number++) {
        if (conf_chain_find(number)->op != (uint32_t)op) continue;
        conf_chain_emit(context, number, PCO_F32, true);
        conf_chain_emit(context, number, PCO_F32, false);
        if (conf_cases_standard(context) || number % 2 == 0) conf_chain_emit(context, number, PCO_F16, true);
    }
}
