/* The column `split` of the op table, held against the lowering of backends/gpu, by which large tensors are cut.
 * Nothing runs: a description of a device is enough for `supports`. With room for what the row says that a kernel sees
 * at once, every case is supported; with room for what a finer rule would ask for, some case is refused. So a row that
 * promises too much is found, and one that promises too little: each rule but its own would be found wrong. */
#include "check.h"
#include "gpu_device.h"
#include "cases/case_build.h"
#include "graph/graph.h"
#include "run/runner.h"

#include <string.h>

enum {
    LARGE = 1031,
    MOST = 1 << 16 /* elements that are cut into windows */,
    LEAST = 1024 /* a window has room for some vectors of each operand */
};

typedef struct split_count {
    uint32_t cases, refused[PCO_SPLIT_RULES];
    char first[PCO_SPLIT_RULES][CONF_LABEL];
} split_count;

typedef struct split_run {
    pco_device device;
    split_count of[PCO_OP_LIMIT];
    uint32_t grown[PCO_OP_LIMIT]; /* cases of which larger ones were made */
} split_run;

static bool split_supports(pco_device *device, const conf_problem *problem, uint64_t binding)
{
    const pco_part part = {.size = sizeof part,
                           .n_tensors = problem->n_tensors,
                           .n_nodes = 1,
                           .tensors = problem->tensors,
                           .nodes = &problem->node};
    pco_error ignored;
    device->gpu.limits.max_binding = binding;
    return pco_gpu_program_api.supports(device, &part, 0, &ignored) == PCO_OK;
}

/* The node of a case, without data. */
static bool split_problem(const conf_case *one, conf_problem *problem)
{
    pco_error ignored;
    conf_problem_describe(problem, one);
    return conf_problem_infer(problem, &ignored) == PCO_OK;
}

static void split_judge(split_run *run, const conf_case *one)
{
    split_count *of = &run->of[one->op];
    conf_problem problem;
    if (!split_problem(one, &problem)) return;
    if (!split_supports(&run->device, &problem, UINT64_C(1) << 31)) return; /* not for its size */
    of->cases++;
    for (uint32_t rule = 0; rule < PCO_SPLIT_RULES; rule++) {
        uint64_t binding = conf_split_bytes(&problem, (pco_split_rule)rule);
        binding = (binding < LEAST ? LEAST : binding + 15) / 16 * 16; /* a multiple of offset_alignment */
        if (!split_supports(&run->device, &problem, binding) && of->refused[rule]++ == 0)
            snprintf(of->first[rule], CONF_LABEL, "%s", one->label);
    }
}

/* Sizes of a case that are equal become a large one, where the op has such a form: no case of some forms is large
 * enough for a cut. */
static void split_grown(split_run *run, const conf_case *one)
{
    for (uint32_t i = 0; i < one->n_inputs; i++)
        for (uint32_t d = 0; one->in[i].present && d < one->in[i].rank; d++) {
            const int64_t size = one->in[i].shape[d];
            conf_case grown = *one;
            for (uint32_t k = 0; k < grown.n_inputs; k++)
                for (uint32_t e = 0; e < grown.in[k].rank; e++)
                    if (grown.in[k].shape[e] == size) grown.in[k].shape[e] = LARGE;
            int64_t most = 0;
            for (uint32_t k = 0; k < grown.n_inputs; k++) {
                const pco_tensor x = conf_operand_tensor(&grown, k);
                if (grown.in[k].present && pco_tensor_elements(&x) > most) most = pco_tensor_elements(&x);
            }
            if (size > 1 && size < LARGE && most < MOST) split_judge(run, &grown);
        }
}

static bool split_visit(void *user, const conf_case *one)
{
    enum { GROWN = 8 /* cases of an op */ };
    split_run *run = user;
    if (one->large || one->chain) return true;
    split_judge(run, one);
    const pco_split_rule rule = pco_op_find(one->op)->split;
    if ((rule == PCO_SPLIT_AXIS || rule == PCO_SPLIT_PLANES) && run->grown[one->op]++ < GROWN) split_grown(run, one);
    return true;
}

/* Forms of other rules of which no case is large enough. */
typedef struct split_form {
    pco_op op;
    uint32_t dtype;
    const char *shapes[PCO_MAX_INPUTS]; /* "": absent; "i..": i32 */
    uint32_t n_attrs;                   /* words of the attributes that are not as by default */
    int64_t attrs[12];
} split_form;

static const split_form FORMS[] = {
    {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD,
     PCO_F32,
     {"64,2,9,8", "64,2,9,8", "64,2,9,8", "", "", "", "64,2,9,8"},
     0,
     {0}},
    {PCO_OP_GATHER, PCO_F32, {"64,65,33", "i5"}, 1, {0}},
    {PCO_OP_GATHER_ALONG_AXIS, PCO_F32, {"64,65,33", "i3,65,33"}, 1, {0}},
    {PCO_OP_SCATTER_ADD, PCO_F32, {"64,65,33", "i5", "5,65,33"}, 1, {0}},
    {PCO_OP_STATE_WRITE, PCO_F32, {"4,9,64,33", "4,9,1,33", "i4"}, 1, {2}},
    {PCO_OP_CONV1D, PCO_F32, {"9,9,16,33", "16,16,1"}, 1, {1}},
    {PCO_OP_SUM, PCO_F32, {"64,65,33"}, 2, {1, 0}},
    {PCO_OP_MEAN, PCO_F32, {"64,65,33"}, 2, {1, 0}},
    {PCO_OP_AMAX, PCO_F32, {"64,65,33"}, 2, {1, 0}},
    {PCO_OP_ARGMAX, PCO_F32, {"64,65,33"}, 1, {0}},
    {PCO_OP_CUMSUM, PCO_F32, {"64,65,33"}, 1, {0}},
    {PCO_OP_TOP_K, PCO_F32, {"64,65,33"}, 1, {0}},
    {PCO_OP_SOFTMAX, PCO_F32, {"64,65,33"}, 1, {0}},
    {PCO_OP_LOG_SOFTMAX, PCO_F32, {"64,65,33"}, 1, {0}},
    {PCO_OP_LOGSUMEXP, PCO_F32, {"64,65,33"}, 1, {0}},
    {PCO_OP_SOFTMAX_BACKWARD, PCO_F32, {"64,65,33", "64,65,33"}, 1, {0}},
    {PCO_OP_SWIGLU, PCO_F16, {"64,2062"}, 0, {0}},
    {PCO_OP_SINUSOIDAL_POSITIONS, PCO_I32, {"64", "515,2"}, 0, {0}},
    {PCO_OP_PAD, PCO_F16, {"64,1031"}, 12, {2, 1, 2, 0, 0, 0, 0, 0, 0, 2, 3, 1}}, /* before 1,2; after 3,1 */
};

static void split_forms(split_run *run)
{
    static conf_cases_context context;
    context.visit = split_visit, context.user = run;
    for (size_t f = 0; f < sizeof FORMS / sizeof FORMS[0]; f++) {
        const split_form *form = &FORMS[f];
        conf_case *one = conf_cases_begin(&context, form->op, CONF_RANDOM);
        for (int i = 0; i < PCO_MAX_INPUTS && form->shapes[i]; i++) {
            const char *shape = form->shapes[i];
            if (!*shape)
                conf_cases_absent(one);
            else
                conf_cases_in(one, *shape == 'i' ? PCO_I32 : form->dtype, "%s", shape + (*shape == 'i'));
        }
        memcpy(one->attrs.bytes, form->attrs, form->n_attrs * sizeof *form->attrs);
        conf_cases_emit(&context);
    }
}

/* Rules by which more could be cut than by `rule`. */
static uint32_t split_finer(pco_split_rule rule)
{
    const uint32_t any = 1u << PCO_SPLIT_ANY, slices = any | 1u << PCO_SPLIT_SLICES,
                   rows = slices | 1u << PCO_SPLIT_ROWS;
    switch (rule) {
    case PCO_SPLIT_ANY: return 0;
    case PCO_SPLIT_AXIS: return rows;
    case PCO_SPLIT_PLANES: return rows | 1u << PCO_SPLIT_AXIS;
    case PCO_SPLIT_OUTER: return rows | 1u << PCO_SPLIT_AXIS | 1u << PCO_SPLIT_PLANES;
    case PCO_SPLIT_NONE: return rows | 1u << PCO_SPLIT_AXIS | 1u << PCO_SPLIT_PLANES | 1u << PCO_SPLIT_OUTER;
    default: return any; /* rows, slices, matmul */
    }
}

/* Is there something wrong with a row that says `own`? */
static int split_fault(const pco_op_info *op, const split_count *of, pco_split_rule own, char fault[CONF_LABEL + 64])
{
    /* windows as large as those of `rows`: what differs is that the result's columns are cut too */
    if ((own == PCO_SPLIT_MATMUL) != (op->rows == PCO_ROWS_MATMUL))
        return snprintf(fault, CONF_LABEL + 64, "has rows as %s has", pco_op_rows(op->rows)->name);
    if (of->refused[own]) return snprintf(fault, CONF_LABEL + 64, "is not so cut: %s", of->first[own]);
    for (uint32_t rule = 0; rule < PCO_SPLIT_RULES; rule++)
        if (split_finer(own) >> rule & 1 && !of->refused[rule])
            return snprintf(fault, CONF_LABEL + 64, "is cut along %s", pco_op_split((pco_split_rule)rule)->name);
    return 0;
}

static void test_split(void **state)
{
    (void)state;
    split_run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    run->device = gpu_device(NULL, 32, 32, 0);
    run->device.gpu.limits.offset_alignment = 16;
    conf_cases_visit(PCO_CONFORMANCE_STANDARD, NULL, split_visit, run);
    split_forms(run);
    uint32_t count, wrong = 0;
    const pco_op_info *table = pco_op_table(&count);
    for (uint32_t i = 0; i < count; i++) {
        const split_count *of = &run->of[table[i].op];
        char fault[CONF_LABEL + 64];
        assert_true(of->cases > 0);
        if (split_fault(&table[i], of, table[i].split, fault) && ++wrong)
            print_error("%s, of which the row says %s, %s\n", table[i].name, pco_op_split(table[i].split)->name, fault);
        for (uint32_t lie = 0; lie < PCO_SPLIT_RULES; lie++)
            if (lie != table[i].split && !split_fault(&table[i], of, (pco_split_rule)lie, fault) && ++wrong)
                print_error("%s, of which the row says %s, could as well be cut along %s\n", table[i].name,
                            pco_op_split(table[i].split)->name, pco_op_split((pco_split_rule)lie)->name);
    }
    free(run);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
