/* The constants of variants that a tuner may set: what the tables say of them, what a lowering makes of each value on
 * devices that are only described, and, on the devices named as arguments, the results with each value. And do variants
 * need what their kernels do? */
#include "check.h"
#include "gpu_device.h"
#include "gpu/lower.h"
#include "run/runner.h"
#include "runtime/session_internal.h"

#include <string.h>

enum {
    MOST_CONSTANTS = 64,
    MOST_PIPELINES = 64,
    MOST_TENSORS = 16,
    MOST_VARIANTS = 64,
    MOST_CASES = 1024 /* of an op */,
    SLICES = 24
};

typedef struct tuned_constant {
    const gpu_variant *variant;
    const gpu_constant *constant;
    uint32_t op, changed; /* bit v: value v changed what is launched, somewhere */
} tuned_constant;

typedef struct tuned_run {
    pco_device device;
    uint32_t n_constants, cases[PCO_OP_LIMIT];
    tuned_constant constants[MOST_CONSTANTS];
} tuned_run;

/* All constants of all tables, each once, with the first op that has it. */
static void tuned_collect(tuned_run *run)
{
#define TUNED_OP(NAME, name, family) PCO_OP_##NAME,
    static const uint32_t OPS[] = {PCO_OPERATIONS(TUNED_OP)};
    for (size_t o = 0; o < sizeof OPS / sizeof *OPS; o++) {
        const gpu_lowerer *lowerer = gpu_find_lowerer(&(pco_node){.op = OPS[o]}, NULL);
        for (uint32_t v = 0; lowerer->variants && v < lowerer->n_variants; v++)
            for (int c = 0; c < GPU_MAX_CONSTANTS && lowerer->variants[v].constants[c].name; c++) {
                const gpu_constant *constant = &lowerer->variants[v].constants[c];
                uint32_t k = 0;
                while (k < run->n_constants && run->constants[k].constant != constant) k++;
                assert_true(k < MOST_CONSTANTS);
                if (k == run->n_constants)
                    run->constants[run->n_constants++] = (tuned_constant){&lowerer->variants[v], constant, OPS[o], 0};
            }
    }
}

/* ---- the tables ---- */

static void test_tables(void **state)
{
    (void)state;
    static tuned_run run;
    tuned_collect(&run);
    assert_true(run.n_constants > 10);
    for (uint32_t k = 0; k < run.n_constants; k++) {
        const gpu_constant *one = run.constants[k].constant;
        const uint32_t smaller[] = {one->initial, one->medium, one->small, one->smallest};
        uint32_t n = 0, initial = 0;
        assert_int_equal(strspn(one->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(one->name));
        while (n < GPU_MAX_VALUES && one->values[n]) {
            initial += one->values[n] == one->initial;
            assert_true(n == 0 || one->values[n] > one->values[n - 1]);
            assert_int_equal(one->values[n] & (one->values[n] - 1), 0); /* a power of two */
            n++;
        }
        assert_true(n >= 2 && initial == 1); /* there is something to choose from */
        for (uint32_t i = 1, least = one->initial; i < PCO_GPU_TILES; i++) {
            if (!smaller[i]) continue; /* as before */
            uint32_t known = 0;
            for (uint32_t v = 0; v < n; v++) known += one->values[v] == smaller[i];
            assert_true(known == 1 && smaller[i] < least);
            least = smaller[i];
        }
        while (n < GPU_MAX_VALUES) assert_int_equal(one->values[n++], 0);
    }
}

/* The value of a constant that is set; 0: it is not. */
static uint32_t set_value(const tuned_run *run, const gpu_constant *constant)
{
    uint32_t value = 0;
    for (uint32_t s = 0; s < run->device.gpu.n_settings; s++)
        if (run->device.gpu.settings[s].constant == constant) value = run->device.gpu.settings[s].value;
    return value;
}

/* Constants of a variant are set and forgotten one by one. */
static void check_settings(tuned_run *run, uint32_t op, const gpu_variant *variant, uint32_t n)
{
    for (uint32_t first = 0; first < n; first++) {
        for (uint32_t c = 0; c < n; c++) {
            const gpu_constant *one = &variant->constants[c];
            const uint32_t value = one->values[one->values[0] == gpu_initial(&run->device.gpu.limits, one)];
            check_ok(pco_gpu_program_api.tune(&run->device, op, variant->name, one->name, value, &err));
        }
        for (uint32_t gone = 0; gone < n; gone++) {
            const gpu_constant *one = &variant->constants[(first + gone) % n];
            assert_int_equal(run->device.gpu.n_settings, n - gone);
            const uint32_t initial = gpu_initial(&run->device.gpu.limits, one);
            check_ok(pco_gpu_program_api.tune(&run->device, op, variant->name, one->name, initial, &err));
            for (uint32_t c = 0; c < n; c++)
                assert_int_equal(set_value(run, &variant->constants[(first + c) % n]) != 0, c > gone);
        }
        assert_int_equal(run->device.gpu.n_settings, 0);
    }
}

/* The program interface lists the same, all of it and no more, and refuses what is not there. */
static void test_listed(void **state)
{
    (void)state;
    static tuned_run run;
    const pco_program_api *api = &pco_gpu_program_api;
    uint32_t differ = 0;
    run.device = gpu_device(NULL, 32, 32, 0);
    tuned_collect(&run);
    for (uint32_t k = 0; k < PCO_GPU_TILES * run.n_constants; k++) {
        const tuned_constant *of = &run.constants[k / PCO_GPU_TILES];
        run.device.gpu.limits.tiles = k % PCO_GPU_TILES;
        pco_tunable listed[GPU_MAX_CONSTANTS];
        const uint32_t i = (uint32_t)(of->constant - of->variant->constants);
        pco_tunable few[2] = {{.name = "none"}, {.name = "none"}};
        uint32_t n = 0, n_values = 0;
        while (n < GPU_MAX_CONSTANTS && of->variant->constants[n].name) n++;
        while (n_values < GPU_MAX_VALUES && of->constant->values[n_values]) n_values++;
        assert_true(i < n);
        assert_int_equal(api->tunables(&run.device, of->op, of->variant->name, few, 1), n);
        assert_string_equal(few[1].name, "none");
        assert_int_equal(api->tunables(&run.device, of->op, of->variant->name, listed, GPU_MAX_CONSTANTS), n);
        assert_string_equal(listed[i].name, of->constant->name);
        const uint32_t tiles = run.device.gpu.limits.tiles;
        uint32_t initial = of->constant->initial; /* or what the nearest class before it has */
        if (tiles >= PCO_GPU_TILES_MEDIUM && of->constant->medium) initial = of->constant->medium;
        if (tiles >= PCO_GPU_TILES_SMALL && of->constant->small) initial = of->constant->small;
        if (tiles >= PCO_GPU_TILES_SMALLEST && of->constant->smallest) initial = of->constant->smallest;
        assert_int_equal(listed[i].initial, initial);
        differ += initial != of->constant->initial;
        assert_ptr_equal(listed[i].values, of->constant->values);
        assert_int_equal(listed[i].n_values, n_values);
        check_settings(&run, of->op, of->variant, n);
        check_fails(api->tune(&run.device, of->op, of->variant->name, "none", 64, &err), PCO_ERROR_NOT_FOUND, "'none'");
    }
    assert_true(differ >= 2); /* devices with few registers have smaller tiles */
    assert_int_equal(api->tunables(&run.device, PCO_OP_MATMUL, "none", NULL, 0), 0);
    assert_int_equal(api->tunables(&run.device, PCO_OP_LIMIT, "naive", NULL, 0), 0);
    check_fails(api->tune(&run.device, PCO_OP_MATMUL, "none", "workgroup", 64, &err), PCO_ERROR_NOT_FOUND, "'none'");
    check_fails(api->tune(&run.device, PCO_OP_MATMUL, "naive", "lanes", 64, &err), PCO_ERROR_NOT_FOUND, "'lanes'");
    assert_int_equal(run.device.gpu.n_settings, 0);
}

/* ---- what is launched ---- */

/* The node of a case as a part; 0 for what is no node alone, or not one of the first MOST_CASES of its op. */
static bool tuned_part(const conf_case *one, uint32_t *cases, conf_problem *problem, pco_part *part)
{
    pco_error ignored;
    if (one->large || one->chain || cases[one->op]++ >= MOST_CASES) return false;
    conf_problem_describe(problem, one);
    if (conf_problem_infer(problem, &ignored) != PCO_OK) return false;
    problem->node.variant = PCO_NONE;
    *part = (pco_part){.size = sizeof *part,
                       .n_tensors = problem->n_tensors,
                       .n_nodes = 1,
                       .tensors = problem->tensors,
                       .nodes = &problem->node};
    return true;
}

/* A number for the pipelines of the node's variant and the memory that they need; 0: it is not supported. */
static uint64_t tuned_pipelines(tuned_run *run, const pco_part *part)
{
    uint64_t pipelines[MOST_PIPELINES], sum = 1;
    pco_error ignored;
    if (pco_gpu_program_api.supports(&run->device, part, 0, &ignored)) return 0;
    const uint32_t n = pco_gpu_program_api.pipelines(&run->device, part, 0, pipelines, MOST_PIPELINES);
    for (uint32_t i = 0; i < n && i < MOST_PIPELINES; i++) sum = sum * 31 + pipelines[i];
    pco_tensor_proposal tensors[MOST_TENSORS];
    pco_node_proposal node = {0};
    pco_proposal proposal = {.size = sizeof proposal, .tensors = tensors, .nodes = &node};
    assert_true(part->n_tensors <= MOST_TENSORS);
    for (uint32_t t = 0; t < part->n_tensors; t++) tensors[t] = (pco_tensor_proposal){0, 64, part->tensors[t].bytes};
    check_ok(pco_gpu_program_api.propose(&run->device, part, &proposal, &err));
    return sum * 31 + node.workspace;
}

/* Variants of other operations may have the same name. */
static int tuned_is_of(uint32_t op, const gpu_variant *variant)
{
    const gpu_lowerer *lowerer = gpu_find_lowerer(&(pco_node){.op = op}, NULL);
    for (uint32_t v = 0; v < lowerer->n_variants; v++)
        if (&lowerer->variants[v] == variant) return 1;
    return 0;
}

static void tuned_try(tuned_run *run, const pco_part *part, const char *variant, const conf_case *one)
{
    const pco_program_api *api = &pco_gpu_program_api;
    const uint64_t initial = tuned_pipelines(run, part);
    for (uint32_t k = 0; k < run->n_constants; k++) {
        tuned_constant *of = &run->constants[k];
        const char *name = of->constant->name;
        if (!initial || strcmp(of->variant->name, variant) || !tuned_is_of(one->op, of->variant)) continue;
        for (uint32_t v = 0; v < GPU_MAX_VALUES && of->constant->values[v]; v++) {
            const uint32_t value = of->constant->values[v];
            check_ok(api->tune(&run->device, one->op, variant, name, value, &err));
            const uint64_t set = tuned_pipelines(run, part);
            if (!set) print_error("%s of %s: %u is not lowered: %s\n", name, variant, value, one->label);
            assert_true(set != 0);
            if (value == gpu_initial(&run->device.gpu.limits, of->constant)) assert_true(set == initial);
            if (set != initial) of->changed |= 1u << v;
        }
        check_fails(api->tune(&run->device, one->op, variant, name, 3, &err), PCO_ERROR_INVALID, "cannot be 3");
        check_ok(
            api->tune(&run->device, one->op, variant, name, gpu_initial(&run->device.gpu.limits, of->constant), &err));
        assert_int_equal(run->device.gpu.n_settings, 0);
        assert_true(tuned_pipelines(run, part) == initial);
    }
}

static bool tuned_visit(void *user, const conf_case *one)
{
    tuned_run *run = user;
    conf_problem problem;
    pco_part part;
    pco_variant variants[32];
    if (!tuned_part(one, run->cases, &problem, &part) || !gpu_find_lowerer(&problem.node, NULL)->variants) return true;
    const uint32_t n = pco_gpu_program_api.variants(&run->device, &part, 0, variants, 32);
    for (uint32_t v = 0; v < n && v < 32; v++) {
        problem.node.variant = v;
        tuned_try(run, &part, variants[v].name, one);
    }
    return true;
}

/* Are there kernels that need that, but none of them in this build? */
static int tuned_is_left_out(uint32_t needs)
{
    int known = 0;
    for (uint32_t i = 0; i < pco_gpu_n_kernels; i++) {
        if ((pco_gpu_kernels[i].needs & needs) != needs) continue;
        if (pco_gpu_sources[i]) return 0;
        known = 1;
    }
    return known;
}

/* A GPU that meets all needs. */
static pco_device able_device(void)
{
    pco_device device = gpu_device(NULL, 32, 32, 0);
    pco_gpu_limits *limits = &device.gpu.limits;
    limits->needs_met = PCO_GPU_NEEDS_SUBGROUPS | PCO_GPU_NEEDS_STORAGE_16 | PCO_GPU_NEEDS_F16 |
                        PCO_GPU_NEEDS_VECTOR_16 | PCO_GPU_NEEDS_COOPERATIVE_MATRIX | PCO_GPU_NEEDS_INTEGER_DOT |
                        PCO_GPU_NEEDS_MIXED_FLOAT_DOT | PCO_GPU_NEEDS_COOPERATIVE_MATRIX2;
    limits->matrix[0] = limits->matrix[1] = limits->matrix[2] = 16;
    limits->matrix_width = 32;
    return device;
}

static void test_lowering(void **state)
{
    (void)state;
    tuned_run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    tuned_collect(run);
    for (uint32_t kind = 0; kind < 2 + PCO_GPU_TILES; kind++) { /* two GPUs, a processor, GPUs with fewer registers */
        pco_gpu_limits *limits = &run->device.gpu.limits;
        run->device = able_device();
        limits->is_opencl = kind == 1 || kind == 2;
        limits->tiles = kind < 3 ? PCO_GPU_TILES_ANY : kind - 2;
        if (kind == 2) limits->type = PCO_DEVICE_SOFTWARE;
        memset(run->cases, 0, sizeof run->cases);
        conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, tuned_visit, run);
    }
    uint32_t wrong = 0;
    for (uint32_t k = 0; k < run->n_constants; k++) {
        const tuned_constant *of = &run->constants[k];
        if (tuned_is_left_out(of->variant->needs)) continue;
        for (uint32_t v = 0; v < GPU_MAX_VALUES && of->constant->values[v]; v++)
            if (of->constant->values[v] != of->constant->initial && !(of->changed >> v & 1) && ++wrong)
                print_error("%s of %s: nothing is launched otherwise for %u (%s)\n", of->constant->name,
                            of->variant->name, of->constant->values[v], pco_op_name(of->op));
    }
    free(run);
    assert_int_equal(wrong, 0);
}

/* ---- what kernels need ---- */

/* A variant, and what kernels need that were launched for it on a device with no more than it says. */
typedef struct tuned_needs {
    const gpu_variant *variant;
    uint32_t op, needs, refused; /* refused: nodes that only devices with more can run so */
} tuned_needs;

typedef struct tuned_needing {
    pco_device device;
    uint32_t cases[PCO_OP_LIMIT], n_variants;
    tuned_needs variants[MOST_VARIANTS];
} tuned_needing;

static tuned_needs *needs_of(tuned_needing *run, const gpu_variant *variant, uint32_t op)
{
    uint32_t v = 0;
    while (v < run->n_variants && run->variants[v].variant != variant) v++;
    assert_true(v < MOST_VARIANTS);
    if (v == run->n_variants) run->variants[run->n_variants++] = (tuned_needs){.variant = variant, .op = op};
    return &run->variants[v];
}

/* Does a device that meets these needs run the node as variant `id`? Adds what its kernels need to *needs. */
static bool needs_lower(tuned_needing *run, const pco_part *part, uint32_t id, uint32_t met, uint32_t *needs)
{
    const gpu_lowerer *lowerer = gpu_find_lowerer(part->nodes, NULL);
    pco_gpu_limits *limits = &run->device.gpu.limits;
    pco_error ignored;
    gpu_list list = {.host = &UNIT_HOST};
    gpu_lowering gpu = {.device = &run->device.gpu,
                        .host = &UNIT_HOST,
                        .limits = limits,
                        .part = part,
                        .node = part->nodes,
                        .variant = id,
                        .binding = limits->max_binding,
                        .software = limits->type == PCO_DEVICE_SOFTWARE,
                        .list = &list,
                        .err = &ignored};
    limits->needs_met = met;
    if (lowerer->eligible && !lowerer->eligible(&gpu, id)) return false;
    if (lowerer->supports) lowerer->supports(&gpu);
    if (gpu.status == PCO_OK) lowerer->lower(&gpu);
    for (uint32_t i = 0; i < list.count && gpu.status == PCO_OK; i++)
        *needs |= pco_gpu_row(&run->device.gpu, list.dispatches[i].kernel)->needs;
    UNIT_HOST.release(NULL, list.dispatches);
    UNIT_HOST.release(NULL, list.ranges);
    return gpu.status == PCO_OK;
}

static bool needs_visit(void *user, const conf_case *one)
{
    static const gpu_variant ONLY = {"default"}; /* every device has to run it */
    tuned_needing *run = user;
    conf_problem problem;
    pco_part part;
    if (!tuned_part(one, run->cases, &problem, &part)) return true;
    const gpu_lowerer *lowerer = gpu_find_lowerer(&problem.node, NULL);
    const uint32_t all = run->device.gpu.limits.needs_met;
    for (uint32_t v = 0; v < (lowerer->variants ? lowerer->n_variants : 1); v++) {
        tuned_needs *of = needs_of(run, lowerer->variants ? &lowerer->variants[v] : &ONLY, one->op);
        uint32_t more = 0;
        if (!needs_lower(run, &part, v, of->variant->needs, &of->needs) && needs_lower(run, &part, v, all, &more) &&
            !of->refused++)
            print_error("%s of %s needs more than %#x: %s\n", of->variant->name, pco_op_name(one->op),
                        of->variant->needs, one->label);
    }
    run->device.gpu.limits.needs_met = all;
    return true;
}

/* A variant's row says what its kernels need: with less, devices without these kernels would be offered it, and with
 * more, some that can run it would not. */
static void test_needs(void **state)
{
    (void)state;
    uint32_t wrong = 0;
    tuned_needing *run = calloc(1, sizeof *run);
    assert_non_null(run);
    for (int kind = 0; kind < 4; kind++) { /* GPUs and processors, of Vulkan and OpenCL */
        run->device = able_device();
        run->device.gpu.limits.is_opencl = kind >> 1 & 1;
        if (kind & 1) run->device.gpu.limits.type = PCO_DEVICE_SOFTWARE;
        memset(run->cases, 0, sizeof run->cases);
        conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, needs_visit, run);
    }
    assert_true(run->n_variants > 20);
    for (uint32_t v = 0; v < run->n_variants; v++) {
        const tuned_needs *of = &run->variants[v];
        const int idle = of->needs != of->variant->needs && !tuned_is_left_out(of->variant->needs);
        wrong += idle || of->refused;
        if (idle)
            print_error("%s of %s says %#x, and its kernels need %#x\n", of->variant->name, pco_op_name(of->op),
                        of->variant->needs, of->needs);
    }
    free(run);
    assert_int_equal(wrong, 0);
}

/* ---- the smallest tiles ---- */

/* What has no form for them, and is not offered then. */
static const struct {
    uint32_t op;
    const char *variant;
} LARGE_TILES[] = {{PCO_OP_MATMUL, "shared"},
                   {PCO_OP_MATMUL, "integer"},
                   {PCO_OP_MATMUL, "pairs"},
                   {PCO_OP_INDEXED_MATMUL, "matrices"},
                   {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, "tiled"}};
enum { N_LARGE_TILES = sizeof LARGE_TILES / sizeof *LARGE_TILES };

typedef struct tuned_tiles {
    pco_device device;
    uint32_t cases[PCO_OP_LIMIT], offered[N_LARGE_TILES];
} tuned_tiles;

static bool tiles_visit(void *user, const conf_case *one)
{
    tuned_tiles *run = user;
    conf_problem problem;
    pco_part part;
    pco_variant variants[32];
    if (!tuned_part(one, run->cases, &problem, &part)) return true;
    const uint32_t n = pco_gpu_program_api.variants(&run->device, &part, 0, variants, 32);
    for (uint32_t v = 0; v < n && v < 32; v++)
        for (uint32_t i = 0; i < N_LARGE_TILES; i++)
            run->offered[i] += LARGE_TILES[i].op == one->op && variants[v].form == PCO_FORM_OWN &&
                               !strcmp(LARGE_TILES[i].variant, variants[v].name);
    return true;
}

static void test_smallest_tiles(void **state)
{
    (void)state;
    for (uint32_t tiles = PCO_GPU_TILES_ANY; tiles <= PCO_GPU_TILES_SMALLEST; tiles++) {
        tuned_tiles run = {.device = gpu_device(NULL, 32, 32, 0)};
        run.device.gpu.limits.needs_met = PCO_GPU_NEEDS_INTEGER_DOT | PCO_GPU_NEEDS_MIXED_FLOAT_DOT;
        run.device.gpu.limits.tiles = tiles;
        conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, tiles_visit, &run);
        for (uint32_t i = 0; i < N_LARGE_TILES; i++) {
            const int is = run.offered[i] > 0, may = tiles != PCO_GPU_TILES_SMALLEST;
            if (is != may) print_error("tiles %u: %s %s\n", tiles, LARGE_TILES[i].variant, is ? "is" : "is not");
            assert_int_equal(is, may);
        }
    }
}

/* ---- small workgroups ---- */

typedef struct tuned_small {
    pco_device device;
    uint32_t cases[PCO_OP_LIMIT], lowered, wrong;
} tuned_small;

static bool small_visit(void *user, const conf_case *one)
{
    tuned_small *run = user;
    conf_problem problem;
    pco_part part;
    pco_variant variants[32];
    if (!tuned_part(one, run->cases, &problem, &part)) return true;
    const uint32_t n = pco_gpu_program_api.variants(&run->device, &part, 0, variants, 32);
    for (uint32_t v = 0; v <= n; v++) { /* and what is chosen */
        pco_error why = {""};
        problem.node.variant = v < n ? v : PCO_NONE;
        run->lowered += pco_gpu_program_api.supports(&run->device, &part, 0, &why) == PCO_OK;
        if (strstr(why.message, "workgroup") && !run->wrong++)
            print_error("workgroups of up to %u, variant %s: %s: %s\n", run->device.gpu.limits.max_workgroup,
                        v < n ? variants[v].name : "of its own", one->label, why.message);
    }
    return true;
}

/* No node is refused for the size of a workgroup, where a smaller one would do. */
static void test_small_workgroups(void **state)
{
    (void)state;
    static const uint32_t SIZES[] = {1, 8, 16, 32, 64, 128};
    tuned_small *run = calloc(1, sizeof *run);
    uint32_t wrong = 0;
    assert_non_null(run);
    for (uint32_t i = 0; i < 2 * sizeof SIZES / sizeof *SIZES; i++) {
        pco_gpu_limits *limits = &run->device.gpu.limits;
        run->device = gpu_device(NULL, 32, 32, 0);
        if (limits->is_opencl && i % 2) limits->needs_met = PCO_GPU_NEEDS_VECTOR_16;
        if (i % 2) limits->type = PCO_DEVICE_SOFTWARE;
        limits->max_workgroup = SIZES[i / 2];
        for (int d = 0; d < 3; d++)
            if (limits->max_local[d] > SIZES[i / 2]) limits->max_local[d] = SIZES[i / 2];
        run->lowered = run->wrong = 0;
        memset(run->cases, 0, sizeof run->cases);
        conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, small_visit, run);
        assert_true(run->lowered > 1000);
        wrong += run->wrong;
    }
    free(run);
    assert_int_equal(wrong, 0);
}

/* ---- results ---- */

static const char *const *tuned_devices;

/* Rows share their constants: one op for each kind of kernel stands for all of them. */
static const uint32_t TUNED_OPS[] = {PCO_OP_MATMUL, PCO_OP_CONV1D, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION,
                                     PCO_OP_SUM,    PCO_OP_CUMSUM, PCO_OP_TOP_K,
                                     PCO_OP_SOFTMAX};

static uint32_t tuned_judge(const pco_conformance_device *device, uint32_t op, const pco_variant *variant,
                            const pco_tunable *tunable, uint32_t value)
{
    const pco_open_device on = {device->plugin, device->device, device->info};
    char pattern[40];
    pco_conformance_result result;
    snprintf(pattern, sizeof pattern, "%s*", variant->name);
    const pco_conformance_options options = {.tier = PCO_CONFORMANCE_QUICK,
                                             .slice = {1 + value % SLICES, SLICES},
                                             .ops = pco_op_name(op),
                                             .variant = pattern};
    check_ok(pco_variant_tune(&on, op, variant, tunable, value, &err));
    check_ok(pco_conformance_run(&options, device, 1, &result, &err));
    check_ok(pco_variant_tune(&on, op, variant, tunable, tunable->initial, &err));
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < result.n_cases; i++) {
        if (!pco_conformance_state_is_bad(result.cases[i].state) || wrong++) continue;
        print_error("%s, %s %s, %s = %u: %s %s\n", device->id, pco_op_name(op), result.cases[i].variant, tunable->name,
                    value, result.cases[i].label, result.cases[i].detail);
    }
    pco_conformance_clear(&result, 1);
    return wrong;
}

static uint32_t tuned_device(pco_registry *registry, const char *id, int *found)
{
    pco_session *session;
    uint32_t wrong = 0;
    pco_error why;
    const pco_status status = pco_registry_open(registry, id, &session, &why);
    if (status == PCO_ERROR_NOT_FOUND) {
        print_message("%s is not here\n", id);
        return 0;
    }
    if (status) fail_msg("%s: %s", id, why.message);
    *found = 1;
    const session_slot *slot = &session->slots[0];
    const pco_conformance_device device = {slot->plugin, slot->device, &slot->entry->info, id};
    const pco_open_device on = {slot->plugin, slot->device, &slot->entry->info};
    for (size_t o = 0; o < sizeof TUNED_OPS / sizeof *TUNED_OPS; o++) {
        const gpu_lowerer *lowerer = gpu_find_lowerer(&(pco_node){.op = TUNED_OPS[o]}, NULL);
        for (uint32_t v = 0; v < lowerer->n_variants; v++) {
            const pco_variant variant = {.name = lowerer->variants[v].name};
            pco_tunable tunables[PCO_TUNABLES];
            uint32_t n;
            check_ok(pco_variant_tunables(&on, TUNED_OPS[o], &variant, tunables, &n, &err));
            for (uint32_t t = 0; t < n; t++)
                for (uint32_t i = 0; i < tunables[t].n_values; i++)
                    if (tunables[t].values[i] != tunables[t].initial)
                        wrong += tuned_judge(&device, TUNED_OPS[o], &variant, &tunables[t], tunables[t].values[i]);
        }
    }
    pco_session_close(session);
    return wrong;
}

static void test_results(void **state)
{
    (void)state;
    pco_config config;
    pco_registry *registry;
    uint32_t wrong = 0;
    int found = 0;
    check_ok(pco_config_read(&config, &err));
    check_ok(pco_registry_create(&config, &registry, &err));
    for (int i = 0; tuned_devices[i]; i++) wrong += tuned_device(registry, tuned_devices[i], &found);
    pco_registry_destroy(registry);
    assert_int_equal(wrong, 0);
    if (!found) skip();
}

int main(int argc, char **argv)
{
    tuned_devices = (const char *const *)argv + 1;
    const struct CMUnitTest tables[] = {cmocka_unit_test(test_tables),         cmocka_unit_test(test_listed),
                                        cmocka_unit_test(test_lowering),       cmocka_unit_test(test_needs),
                                        cmocka_unit_test(test_smallest_tiles), cmocka_unit_test(test_small_workgroups)},
                            results[] = {cmocka_unit_test(test_results)};
    const int failed = cmocka_run_group_tests(tables, NULL, NULL);
    return failed + (argc > 1 ? cmocka_run_group_tests(results, NULL, NULL) : 0);
}
