/* The column `split` of the op table, held against the lowering of backends/gpu, by which large tensors are cut.
 * Nothing runs: a description of a device is enough for `supports`. With room for what the row says that a kernel sees
 * at once, every case is supported; with room for what a finer rule would ask for, some case is refused. So a row that
 * promises too much is found, and one that promises too little. */
#include "check.h"
#include "gpu_device.h"
#include "cases/case_build.h"
#include "run/runner.h"

#include <string.h>

enum { LEAST = 1024 /* a window has room for some vectors of each operand */ };

typedef struct split_count {
    uint32_t cases, refused[PCO_SPLIT_RULES];
    char first[PCO_SPLIT_RULES][CONF_LABEL];
} split_count;

typedef struct split_run {
    pco_device device;
    split_count of[PCO_OP_LIMIT];
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
    *problem = (conf_problem){.one = one};
    problem->node = (pco_node){.op = one->op,
                               .n_inputs = one->n_inputs,
                               .variant = PCO_NONE,
                               .attrs_size = one->attrs_size,
                               .attrs = one->attrs_size ? one->attrs.bytes : NULL,
                               .name = "case"};
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) problem->node.inputs[i] = PCO_NONE;
    for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) problem->node.outputs[i] = PCO_NONE;
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        if (!one->in[i].present) continue;
        problem->tensors[problem->n_tensors] = conf_operand_tensor(one, i);
        problem->node.inputs[i] = problem->n_tensors++;
    }
    return conf_problem_infer(problem, &ignored) == PCO_OK;
}

static bool split_visit(void *user, const conf_case *one)
{
    split_run *run = user;
    split_count *of = &run->of[one->op];
    conf_problem problem;
    if (one->large || one->chain || !split_problem(one, &problem)) return true;
    if (!split_supports(&run->device, &problem, UINT64_C(1) << 31)) return true; /* not for its size */
    of->cases++;
    for (uint32_t rule = 0; rule < PCO_SPLIT_RULES; rule++) {
        uint64_t binding = conf_split_bytes(&problem, (pco_split_rule)rule);
        binding = (binding < LEAST ? LEAST : binding + 15) / 16 * 16; /* a multiple of offset_alignment */
        if (!split_supports(&run->device, &problem, binding) && of->refused[rule]++ == 0)
            snprintf(of->first[rule], CONF_LABEL, "%s", one->label);
    }
    return true;
}

/* Forms of which no case is large enough. */
typedef struct split_form {
    pco_op op;
    uint32_t dtype;
    const char *shapes[PCO_MAX_INPUTS]; /* "": absent; "i..": i32 */
    uint32_t n_attrs;                   /* words of the attributes that are not as by default */
    int64_t attrs[12];
} split_form;

static const split_form FORMS[] = {
    {PCO_OP_SOFTMAX_BACKWARD, PCO_F32, {"3,1031,5", "3,1031,5"}, 1, {1}},
    {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD,
     PCO_F32,
     {"64,2,9,8", "64,2,9,8", "64,2,9,8", "", "", "", "64,2,9,8"},
     0,
     {0}},
    {PCO_OP_ARGMAX, PCO_F32, {"1031,5"}, 1, {0}},
    {PCO_OP_CONV1D, PCO_F32, {"2,64,1031", "3,64,3"}, 4, {1, 1, 1, 1}},
    {PCO_OP_TOP_K, PCO_F32, {"1031,5"}, 3, {0, 2, 1}},
    {PCO_OP_GATHER_ALONG_AXIS, PCO_F32, {"1031,5", "i7,5"}, 1, {0}},
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
    const uint32_t any = 1u << PCO_SPLIT_ANY, rows = any | 1u << PCO_SPLIT_ROWS;
    switch (rule) {
    case PCO_SPLIT_ANY: return 0;
    case PCO_SPLIT_AXIS: return rows | 1u << PCO_SPLIT_SLICES;
    case PCO_SPLIT_OUTER:
    case PCO_SPLIT_PLANES: return rows;
    case PCO_SPLIT_NONE: return rows | 1u << PCO_SPLIT_OUTER;
    default: return any; /* rows, slices, matmul */
    }
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
        const pco_split_rule own = table[i].split;
        assert_true(of->cases > 0);
        if (of->refused[own] && ++wrong)
            print_error("%s is not cut along %s: %s\n", table[i].name, pco_op_split(own)->name, of->first[own]);
        for (uint32_t rule = 0; rule < PCO_SPLIT_RULES; rule++)
            if (split_finer(own) >> rule & 1 && !of->refused[rule] && ++wrong)
                print_error("%s is cut along %s, and its row says %s\n", table[i].name,
                            pco_op_split((pco_split_rule)rule)->name, pco_op_split(own)->name);
    }
    free(run);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
