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
