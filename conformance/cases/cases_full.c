/* Results that end where their memory does: in whole words, to which all others are padded. A word written behind the
 * last one falls on what is somebody else's, where the interpreter of tier tiny sees it (Vulkan's drivers drop what
 * leaves a binding); half a word behind another result goes into its padding, and shows nowhere. For families of
 * operations whose other cases all have an odd number of small elements: tests/unit/test_oracle.c says which. */
#include "cases/lists.h"

#include "graph/op.h"

#include <string.h>

enum { FULL_INPUTS = 3, IN_2 = 1, IN_1 = 2 };

/* What the operands are of: T the type itself, f f32, b bool, i indices, k bits; then the shape. */
static const struct {
    uint32_t op, types;
    const char *in[FULL_INPUTS];
} FULL[] = {
    {PCO_OP_NEG, IN_2, {"T4,8"}},
    {PCO_OP_ISFINITE, IN_2, {"T4,8"}},
    {PCO_OP_CLAMP, IN_2, {"T4,8"}},
    {PCO_OP_CAST, IN_1, {"f4,8"}},
    {PCO_OP_EQ, IN_2, {"T4,8", "T4,8"}},
    {PCO_OP_WHERE, IN_1, {"b4,8", "T4,8", "T4,8"}},
    {PCO_OP_FILL, IN_1 | IN_2, {NULL}},
    {PCO_OP_DROPOUT, IN_2, {"T4,8", "k2"}},
    {PCO_OP_RESHAPE, IN_1, {"T4,8"}},
    {PCO_OP_PERMUTE, IN_1, {"T4,8"}},
    {PCO_OP_SLICE, IN_1, {"T6,9"}},
    {PCO_OP_SCATTER_ADD, IN_2, {"T4,8", "i3", "T3,8"}},
    {PCO_OP_STATE_WRITE, IN_1, {"T2,4,4", "T2,2,4", "i2"}},
};

static void full_operand(conf_case *one, uint32_t type, const char *text)
{
    static const char LETTERS[] = "fbik";
    static const uint32_t TYPES[] = {PCO_F32, PCO_BOOL, PCO_I32, PCO_I32};
    const char *letter = strchr(LETTERS, *text);
    conf_operand *operand = conf_cases_in(one, letter ? TYPES[letter - LETTERS] : type, "%s", text + 1);
    if (*text == 'k') operand->fill = CONF_FILL_BITS;
    if (*text == 'i') operand->fill = CONF_FILL_INTEGER, operand->low = 0, operand->high = 1;
}

/* Whatever the operation asks for so that the result is [4,8], or as many elements. */
static void full_attrs(conf_case *one, uint32_t type)
{
    void *at = one->attrs.bytes;
    switch (one->op) {
    case PCO_OP_CAST: ((pco_cast_attrs *)at)->dtype = type; break;
    case PCO_OP_CLAMP: *(pco_clamp_attrs *)at = (pco_clamp_attrs){-0.5, 0.5}; break;
    case PCO_OP_FILL:
        ((pco_fill_attrs *)at)->dtype = type, ((pco_fill_attrs *)at)->value = 1;
        ((pco_fill_attrs *)at)->n_shape = conf_cases_vector(((pco_fill_attrs *)at)->shape, "4,8");
        break;
    case PCO_OP_RESHAPE:
        ((pco_reshape_attrs *)at)->n_shape = conf_cases_vector(((pco_reshape_attrs *)at)->shape, "8,4");
        break;
    case PCO_OP_PERMUTE:
        ((pco_permute_attrs *)at)->n_dims = conf_cases_vector(((pco_permute_attrs *)at)->dims, "1,0");
        break;
    case PCO_OP_SLICE:
        ((pco_slice_attrs *)at)->n_starts = conf_cases_vector(((pco_slice_attrs *)at)->starts, "1,1");
        ((pco_slice_attrs *)at)->n_sizes = conf_cases_vector(((pco_slice_attrs *)at)->sizes, "4,8");
        ((pco_slice_attrs *)at)->n_steps = conf_cases_vector(((pco_slice_attrs *)at)->steps, "1,1");
        break;
    case PCO_OP_STATE_WRITE: ((pco_state_write_attrs *)at)->axis = 1; break;
    default: break;
    }
}

void conf_cases_full(conf_cases_context *context, pco_op op)
{
    static const uint32_t TYPES[2] = {PCO_F16, PCO_BOOL};
    for (size_t i = 0; i < 2 * sizeof FULL / sizeof *FULL; i++) {
        const uint32_t row = (uint32_t)i / 2, type = TYPES[i % 2];
        if (FULL[row].op != (uint32_t)op || !(FULL[row].types >> i % 2 & 1)) continue;
        const bool whole = op == PCO_OP_FILL || type == PCO_BOOL;
        conf_case *one = conf_cases_begin(context, op, whole ? CONF_EXACT : CONF_RANDOM);
        for (uint32_t k = 0; k < FULL_INPUTS && FULL[row].in[k]; k++) full_operand(one, type, FULL[row].in[k]);
        full_attrs(one, type);
        conf_cases_emit(context);
    }
}
