/* Programs of several nodes that share memory. */
#include "cases/chain.h"

/* Each must wait for another reason. Between the nodes that meet stands one that does not touch their memory, or the
 * barrier would be there anyway. */
static const conf_chain CHAINS[] = {
    {"read after write",
     PCO_OP_ADD,
     2,
     {{PCO_OP_NEG, 1, {0}, CONF_CHAIN_OWN, false}, {PCO_OP_ADD, 2, {CONF_CHAIN_RESULT, 1}, CONF_CHAIN_OWN, true}}},
    {"write after read",
     PCO_OP_ADD,
     3,
     {{PCO_OP_NEG, 1, {0}, CONF_CHAIN_OWN, false},
      {PCO_OP_ABS, 1, {CONF_CHAIN_RESULT}, CONF_CHAIN_OWN, true},
      {PCO_OP_ADD, 2, {0, 1}, CONF_CHAIN_RECYCLED, true}}},
    {"write after write",
     PCO_OP_ADD,
     2,
     {/* nobody reads the first */
      {PCO_OP_NEG, 1, {0}, CONF_CHAIN_OWN, false},
      {PCO_OP_ADD, 2, {0, 1}, CONF_CHAIN_RECYCLED, true}}},
    {"in place",
     PCO_OP_ADD,
     3,
     {{PCO_OP_NEG, 1, {0}, CONF_CHAIN_OWN, false},
      {PCO_OP_ADD, 2, {CONF_CHAIN_RESULT, 1}, CONF_CHAIN_IN_PLACE, true},
      {PCO_OP_ABS, 1, {CONF_CHAIN_RESULT + 1}, CONF_CHAIN_OWN, true}}},
    {"one workspace",
     PCO_OP_SCATTER_ADD,
     2,
     {{PCO_OP_SCATTER_ADD, 3, {0, 1, 2}, CONF_CHAIN_OWN, true},
      {PCO_OP_SCATTER_ADD, 3, {0, 3, 2}, CONF_CHAIN_OWN, true}}},
    {"one state",
     PCO_OP_STATE_WRITE,
     2,
     {/* the second writes over a part of what the first wrote */
      {PCO_OP_STATE_WRITE, 3, {0, 1, 3}, CONF_CHAIN_OWN, false},
      {PCO_OP_STATE_WRITE, 3, {CONF_CHAIN_RESULT, 2, 4}, CONF_CHAIN_OWN, true}}},
};

const conf_chain *conf_chain_find(uint32_t chain)
{
    return chain >= 1 && chain <= sizeof CHAINS / sizeof *CHAINS ? &CHAINS[chain - 1] : NULL;
}

static void conf_chain_integers(conf_case *one, uint32_t dtype, const char *shape, double low, double high)
{
    conf_operand *operand = conf_cases_in(one, dtype, "%s", shape);
    operand->fill = CONF_FILL_INTEGER, operand->low = low, operand->high = high;
}

static void conf_chain_emit(conf_cases_context *context, uint32_t number, uint32_t type, bool small)
{
    static const double FIRST[] = {1, 4}, SECOND[] = {3, 2};
    const pco_op op = (pco_op)CHAINS[number - 1].op;
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
        if (CHAINS[number - 1].op != (uint32_t)op) continue;
        conf_chain_emit(context, number, PCO_F32, true);
        conf_chain_emit(context, number, PCO_F32, false);
        if (conf_cases_standard(context) || number % 2 == 0) conf_chain_emit(context, number, PCO_F16, true);
    }
}
