/* Where the lowering of single operations has its edges: sizes at which windows, rows of shared memory and counts in 32
 * bits end. Cases of the suite come to few of them on any one device. Nothing runs: devices are described, and what
 * would be launched is looked at. */
#include "edges.h"

/* A constant and a parameter of a launch, by the kernel's interface. */
#define CONSTANT(l, kernel, name)  last.launches[l].specs[3 + offsetof(gpu_##kernel##_specs, name) / sizeof(int32_t)]
#define PARAMETER(l, kernel, name) last.launches[l].params[offsetof(gpu_##kernel##_params, name) / sizeof(uint32_t)]

/* ---- norm_matmul ---- */

static pco_graph *norm_of(pco_dtype weights, int64_t m, int64_t n, int64_t k)
{
    pco_graph *g = pco_graph_create();
    const uint32_t in[2] = {pco_graph_input(g, "x", PCO_F32, 2, (int64_t[]){m, k}),
                            pco_graph_input(g, "w", weights, 2, (int64_t[]){n, k})};
    return made(g, PCO_OP_NORM_MATMUL, NULL, in, 2);
}

/* A row has room in shared memory, of few sizes. Behind it are a sum for each invocation, and four for their columns:
 * as many bytes are asked for, no fewer and no more. */
static void test_norm_rows(void **state)
{
    (void)state;
    for (int64_t k = 1; k < 5000; k += k % 512 < 2 || k % 512 == 511 ? 1 : 13)
        for (int software = 0; software < 2; software++) {
            pco_device device = device_of(software, 0);
            pco_graph *g = norm_of(PCO_F32, 1, 4, k);
            lowered(&device, g, PCO_NONE, 0);
            const int64_t room = CONSTANT(0, norm_matmul, room), invocations = last.launches[0].specs[0];
            assert_true(room >= k && room < 2 * k + 64 && room < k + 1024);
            assert_true(room % 1024 == 0 || (room & (room - 1)) == 0);
            device.gpu.limits.shared_memory = (uint32_t)(4 * (room + 5 * invocations));
            assert_true(supported(&device, g));
            device.gpu.limits.shared_memory--;
            assert_false(supported(&device, g));
            forget(g);
        }
}

/* With windows of 4 KiB: rows at once while they and the result's fit, else columns of a row at a time; all of them,
 * each once. */
static void test_norm_windows(void **state)
{
    static const struct {
        pco_dtype weights;
        int64_t m, n, k;
        uint32_t launches;
    } CUTS[] = {{PCO_F32, 40, 8, 64, 3},  {PCO_F32, 15, 8, 64, 1}, {PCO_F32, 16, 8, 64, 2}, {PCO_F16, 40, 16, 64, 3},
                {PCO_F32, 30, 8, 64, 2},  {PCO_F32, 2, 30, 64, 4}, {PCO_F32, 2, 31, 64, 6}, {PCO_F16, 1, 3, 1008, 3},
                {PCO_F16, 20, 40, 24, 1}, {PCO_F16, 1, 1, 1008, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof CUTS / sizeof *CUTS; i++) {
        pco_device device = device_of(0, 4096); /* 1008 elements of f32 wherever they begin, 1024 of f16 */
        pco_graph *g = norm_of(CUTS[i].weights, CUTS[i].m, CUTS[i].n, CUTS[i].k);
        assert_true(supported(&device, g));
        lowered(&device, g, PCO_NONE, 1);
        assert_int_equal(last.count, CUTS[i].launches);
        int64_t elements = 0;
        for (uint32_t l = 0; l < last.count; l++)
            elements += (int64_t)last.launches[l].groups[1] * PARAMETER(l, norm_matmul, n_columns);
        assert_int_equal(elements, CUTS[i].m * CUTS[i].n);
        forget(g);
    }
    pco_device device = device_of(0, 4096);
    for (int64_t k = 1007; k < 1012; k++) {
        pco_graph *g = norm_of(PCO_F16, 2, 1, k);
        assert_int_equal(supported(&device, g), k <= 1008);
        forget(g);
    }
}

/* ---- conv1d ---- */

typedef struct conv_form {
    int64_t samples, groups, channels, length, outputs, taps; /* channels and outputs of a group */
    pco_dtype weights;
    uint32_t launches; /* 0: refused */
} conv_form;

static pco_graph *conv_of(const conv_form *form)
{
    const pco_conv1d_attrs attrs = {.stride = 1, .dilation = 1, .groups = form->groups};
    const int64_t x[3] = {form->samples, form->groups * form->channels, form->length},
                  w[3] = {form->groups * form->outputs, form->channels, form->taps};
    pco_graph *g = pco_graph_create();
    const uint32_t in[2] = {pco_graph_input(g, "x", PCO_F32, 3, x), pco_graph_input(g, "w", form->weights, 3, w)};
    return made(g, PCO_OP_CONV1D, &attrs, in, 2);
}

/* With windows of 4 KiB: samples at once while x, all weights and y fit, else outputs of a group of one sample. */
static void test_conv_windows(void **state)
{
    static const conv_form FORMS[] = {
        {20, 1, 4, 30, 3, 3, PCO_F32, 3},  {24, 1, 4, 30, 3, 3, PCO_F32, 3},  /* 8 samples of 120 */
        {5, 1, 21, 6, 12, 4, PCO_F32, 1},  {5, 1, 21, 6, 13, 4, PCO_F32, 10}, /* 1008 weights, and more */
        {5, 2, 21, 6, 7, 4, PCO_F32, 10},  {2, 2, 21, 48, 1, 4, PCO_F32, 4},  /* 1008 of x, 2016 with both groups */
        {3, 1, 21, 48, 1, 4, PCO_F32, 3},  {1, 1, 18, 56, 1, 4, PCO_F32, 1},  {1, 1, 1, 1008, 2, 1, PCO_F32, 2},
        {1, 1, 1, 1009, 2, 1, PCO_F32, 0}, {1, 1, 1009, 1, 2, 1, PCO_F32, 0}, {1, 2, 17, 6, 6, 5, PCO_F16, 1},
        {1, 12, 17, 6, 1, 5, PCO_F32, 12}, {1, 1, 2, 10, 2, 3, PCO_F32, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        const conv_form *form = &FORMS[i];
        pco_device device = device_of(0, 4096); /* 1008 elements of f32 wherever they begin, 1024 of f16 */
        pco_graph *g = conv_of(form);
        assert_int_equal(supported(&device, g), form->launches > 0);
        if (form->launches) {
            int64_t rows = 0;
            lowered(&device, g, 0, 1); /* a channel for an invocation */
            assert_int_equal(last.count, form->launches);
            for (uint32_t l = 0; l < last.count; l++) rows += PARAMETER(l, conv1d, n_rows);
            assert_int_equal(rows, form->samples * form->groups * form->outputs);
        }
        forget(g);
    }
}

/* The large tile is offered on processors, from 12 outputs and two tiles' positions on. */
static void test_conv_tiles(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * 2 * 2; i++) {
        pco_device device = device_of(i & 1, 0);
        pco_graph *g = conv_of(&(conv_form){1, 1, 2, 31 + (i >> 1 & 1), 11 + (i >> 2 & 1), 1, PCO_F32, 0});
        const pco_part part = part_of(g);
        pco_variant variants[32];
        assert_int_equal(pco_gpu_program_api.variants(&device, &part, 0, variants, 32), i == 7 ? 3 : 2);
        forget(g);
    }
}

/* ---- indexed_matmul ---- */

typedef struct indexed_form {
    int64_t matrices, n, k, rows, chosen;
    uint32_t launches; /* 0: refused */
} indexed_form;

static pco_graph *indexed_of(pco_dtype weights, const indexed_form *form)
{
    static const uint8_t none[64]; /* nobody looks at data */
    const pco_indexed_matmul_attrs attrs = {.matrices = form->matrices};
    const int64_t w[2] = {form->matrices * form->n, form->k};
    pco_graph *g = pco_graph_create();
    const uint32_t in[3] = {pco_graph_input(g, "x", PCO_F32, 2, (int64_t[]){form->rows, form->k}),
                            pco_graph_constant(g, "w", weights, 2, w, none),
                            pco_graph_input(g, "indices", PCO_I32, 2, (int64_t[]){form->rows, form->chosen})};
    return made(g, PCO_OP_INDEXED_MATMUL, &attrs, in, 3);
}

/* With windows of 4 KiB: choices while their rows fit, and of the weights matrices while they do, or columns of one. */
static void test_indexed_windows(void **state)
{
    static const indexed_form FORMS[] = {{5, 4, 60, 3, 2, 2},   {6, 4, 60, 3, 2, 2},  {2, 20, 60, 3, 2, 4},
                                         {2, 24, 60, 3, 2, 4},  {5, 4, 60, 40, 1, 6}, {5, 4, 60, 32, 1, 4},
                                         {3, 2, 752, 1, 1, 6},  {3, 2, 756, 1, 1, 0}, {3, 2, 1008, 1, 1, 0},
                                         {3, 2, 1012, 1, 1, 0}, {1, 12, 60, 2, 1, 1}, {1, 13, 60, 2, 1, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++)
        for (uint32_t v = 0; v < 3; v++) {
            const indexed_form *form = &FORMS[i];
            pco_device device = device_of(0, 4096); /* 1008 elements of x, 752 weights */
            pco_graph *g = indexed_of(PCO_F32, form);
            assert_int_equal(supported_as(&device, g, v), form->launches > 0);
            int64_t products = 0;
            if (form->launches) {
                lowered(&device, g, v, 1);
                assert_int_equal(last.count, form->launches);
                for (uint32_t l = 0; l < last.count; l++) {
                    const uint32_t first = PARAMETER(l, indexed_matmul, matrix_first),
                                   end = PARAMETER(l, indexed_matmul, matrix_end);
                    assert_true(first < end && end <= form->matrices);
                    products += (int64_t)PARAMETER(l, indexed_matmul, m_rows) * (end - first) *
                                PARAMETER(l, indexed_matmul, n_columns);
                }
                assert_int_equal(products, form->rows * form->chosen * form->matrices * form->n);
            }
            forget(g);
        }
}

/* Weights of a launch count in 32 bits with a sign, of which 2 GiB of quants may hold more. */
static void test_indexed_weights(void **state)
{
    (void)state;
    pco_device device = device_of(0, UINT32_MAX - 3);
    device.gpu.limits.max_allocation = UINT64_C(1) << 40;
    pco_graph *g = indexed_of(PCO_Q4_0, &(indexed_form){8, 1 << 13, 1 << 17, 1, 1, 0});
    lowered(&device, g, 0, 0);
    for (uint32_t l = 0; l < last.count; l++)
        assert_int_equal(PARAMETER(l, indexed_matmul, matrix_end) - PARAMETER(l, indexed_matmul, matrix_first), 1);
    assert_int_equal(last.count, 8);
    forget(g);
}

/* An invocation looks at all choices of its launch. Of each of them, or of four at once of a matrix, it takes its
 * terms, four at a time, and adds what other lanes have. No fewer rounds are asked for; choices are taken apart to need
 * fewer. */
static void test_indexed_rounds(void **state)
{
    enum { K = 320, LANES = 32 };
    (void)state;
    for (uint32_t v = 0; v < 3; v++) {
        const uint32_t four = v == 2, tile = four ? 4 : 1, of_each = (K + 4 * LANES - 1) / (4 * LANES) + 16 * tile + 64;
        pco_device device = device_of(0, 0);
        pco_graph *g = indexed_of(PCO_F32, &(indexed_form){3, 8, K, 8, 1, 0});
        for (uint32_t choices = 8; choices; choices /= 2) {
            device.gpu.limits.max_rounds = choices + (four ? (choices + 3) / 4 : 1) * of_each + 64;
            assert_true(supported_as(&device, g, v));
            lowered(&device, g, v, 0);
            assert_int_equal(last.count, 8 / choices);
            device.gpu.limits.max_rounds--;
            assert_int_equal(supported_as(&device, g, v), choices > 1);
        }
        forget(g);
    }
}

/* ---- scatter_add ---- */

static pco_graph *scatter_of(pco_dtype type, int64_t indices, int64_t inner)
{
    const pco_scatter_add_attrs attrs = {.axis = 0};
    pco_graph *g = pco_graph_create();
    const uint32_t in[3] = {pco_graph_input(g, "x", type, 2, (int64_t[]){5, inner}),
                            pco_graph_input(g, "indices", PCO_I32, 1, (int64_t[]){indices}),
                            pco_graph_input(g, "updates", type, 2, (int64_t[]){indices, inner})};
    return made(g, PCO_OP_SCATTER_ADD, &attrs, in, 3);
}

/* An invocation goes along the links of its elements: all indices at worst, for each of the elements of a word, and for
 * each word that is its own, of which it has one where that would be too many rounds. */
static void test_scatter_rounds(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++)
        for (int64_t inner = 4095; inner < 4097; inner++) {
            enum { INDICES = 100 };
            const uint32_t rounds = INDICES * (half && inner % 2 == 0 ? 2 : 1);
            pco_device device = device_of(1, 0);
            pco_graph *g = scatter_of(half ? PCO_F16 : PCO_F32, INDICES, inner);
            lowered(&device, g, PCO_NONE, 0);
            const uint32_t at = last.count - 1, per = (uint32_t)CONSTANT(at, scatter_add, per);
            assert_true(last.launches[at].kernel == GPU_KERNEL_scatter_add && per > 1);
            for (int less = 0; less < 2; less++) {
                device.gpu.limits.max_rounds = per * (rounds + 8) - (uint32_t)less;
                lowered(&device, g, PCO_NONE, 0);
                assert_int_equal(CONSTANT(at, scatter_add, per), less ? 1 : per);
                device.gpu.limits.max_rounds = rounds + 64 - (uint32_t)less;
                assert_int_equal(supported(&device, g), !less);
            }
            forget(g);
        }
}

/* ---- training ---- */

/* A target to ignore is one that an i32 can be. */
static void test_ignored_targets(void **state)
{
    static const struct {
        int64_t index;
        uint32_t ignores;
    } EDGES[] = {{INT32_MIN - INT64_C(1), 0}, {INT32_MIN, 1}, {-100, 1}, {INT32_MAX, 1}, {INT32_MAX + INT64_C(1), 0}};
    (void)state;
    for (size_t i = 0; i < sizeof EDGES / sizeof *EDGES; i++)
        for (int backward = 0; backward < 2; backward++) {
            const pco_cross_entropy_attrs attrs = {.ignore_index = EDGES[i].index};
            pco_device device = device_of(0, 0);
            pco_graph *g = pco_graph_create();
            const uint32_t in[3] = {pco_graph_input(g, "x", PCO_F32, 2, (int64_t[]){3, 8}),
                                    pco_graph_input(g, "target", PCO_I32, 1, (int64_t[]){3}),
                                    backward ? pco_graph_input(g, "gradient", PCO_F32, 1, (int64_t[]){3}) : PCO_NONE};
            made(g, backward ? PCO_OP_CROSS_ENTROPY_BACKWARD : PCO_OP_CROSS_ENTROPY, &attrs, in, backward ? 3 : 2);
            lowered(&device, g, PCO_NONE, 0);
            assert_int_equal(backward ? PARAMETER(0, cross_entropy_backward, has_ignored)
                                      : PARAMETER(0, cross_entropy, has_ignored),
                             EDGES[i].ignores);
            assert_int_equal(backward ? PARAMETER(0, cross_entropy_backward, ignored)
                                      : PARAMETER(0, cross_entropy, ignored),
                             (uint32_t)EDGES[i].index);
            forget(g);
        }
}

/* The words of a workspace that launches are told of, which may begin behind where a binding may; returns how many. */
static uint32_t check_workspace(const pco_graph *g)
{
    static const struct {
        uint32_t kernel, word;
    } READ[] = {{GPU_KERNEL_scatter_link, offsetof(gpu_scatter_link_params, links_first) / 4},
                {GPU_KERNEL_scatter_add, offsetof(gpu_scatter_add_params, links_first) / 4},
                {GPU_KERNEL_optimise_scalars, offsetof(gpu_optimise_scalars_params, work_first) / 4},
                {GPU_KERNEL_optimise_moments, offsetof(gpu_optimise_moments_params, work_first) / 4},
                {GPU_KERNEL_optimise_step, offsetof(gpu_optimise_step_params, work_first) / 4},
                {GPU_KERNEL_optimise_sgd, offsetof(gpu_optimise_sgd_params, work_first) / 4}};
    uint32_t found = 0;
    pco_device device = device_of(0, 0);
    layout.workspace = 12;
    lowered(&device, g, PCO_NONE, 0);
    layout.workspace = 0;
    for (uint32_t l = 0; l < last.count; l++)
        for (size_t i = 0; i < sizeof READ / sizeof *READ; i++)
            if (last.launches[l].kernel == READ[i].kernel) {
                assert_int_equal(last.launches[l].params[READ[i].word], 3);
                found++;
            }
    return found;
}

/* Links of scatter_add and scalars of a step of an optimiser. */
static void test_workspaces(void **state)
{
    (void)state;
    pco_graph *scatter = scatter_of(PCO_F32, 6, 7);
    assert_int_equal(check_workspace(scatter), 2);
    forget(scatter);
    for (int adam = 0; adam < 2; adam++) {
        const int64_t shape[1] = {70}, run[1] = {adam ? 3 : 1};
        pco_graph *g = pco_graph_create();
        uint32_t in[5] = {pco_graph_state(g, "param", PCO_F32, 1, shape), pco_graph_state(g, "m", PCO_F32, 1, shape)},
                 n = 2;
        if (adam) in[n++] = pco_graph_state(g, "v", PCO_F32, 1, shape);
        in[n++] = pco_graph_input(g, "gradient", PCO_F32, 1, shape);
        in[n++] = pco_graph_input(g, "run", PCO_F32, 1, run);
        pco_graph_add(g, adam ? PCO_OP_ADAMW : PCO_OP_SGD, adam ? (const void *)&(pco_adamw_attrs){.eps = 1} : NULL, in,
                      n, NULL);
        check_ok(pco_graph_check(g, &err));
        assert_int_equal(check_workspace(g), adam ? 3 : 2);
        forget(g);
    }
}

/* ---- operations of one's own ---- */

/* A workgroup that is asked for is there or the node is refused; where nobody has asked, a smaller one will do, unless
 * it goes with a row. Operands and results begin where bindings do. */
static void test_own(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * 2 * 2; i++) {
        const uint32_t asked = (const uint32_t[]){0, 32, 64}[i % 3], by_row = i / 3 % 2, most = i / 6 ? 64 : 32;
        const uint32_t wanted = asked ? asked : 64, size = wanted < most ? wanted : most;
        const pco_op_declaration declaration = {.size = sizeof declaration,
                                                .name = "own",
                                                .signature = "x:f32[R,K] w:f32[K] -> y:f32[R,K] z:f32[K]",
                                                .kernel = "KERNEL(own)\n{\n}\n",
                                                .workgroup = asked,
                                                .group_per_row = by_row};
        const pco_own_attrs attrs = {.declaration = &declaration};
        pco_tensor tensors[4];
        for (uint32_t t = 0; t < 4; t++)
            tensors[t] =
                (pco_tensor){.rank = t % 2 ? 1 : 2, .alias = PCO_NONE, .shape = {6, 50}, .name = "", .bytes = 1200};
        tensors[1].shape[0] = tensors[3].shape[0] = 50;
        pco_node node = {.op = PCO_OP_OWN + 1,
                         .n_inputs = 2,
                         .n_outputs = 2,
                         .inputs = {0, 1},
                         .outputs = {2, 3},
                         .variant = PCO_NONE,
                         .attrs_size = sizeof attrs,
                         .attrs = &attrs,
                         .name = "own"};
        const pco_graph g = {.n_tensors = 4, .tensors = tensors, .n_nodes = 1, .nodes = &node};
        pco_device device = device_of(0, 0);
        device.gpu.limits.max_workgroup = most;
        const int runs = size == wanted || (!asked && !by_row);
        assert_int_equal(supported(&device, &g), runs);
        if (runs) {
            layout.alignment = 4;
            lowered(&device, &g, PCO_NONE, 3);
            layout.alignment = 0;
            assert_int_equal(last.count, 1);
            assert_int_equal(last.launches[0].specs[0], size);
            assert_true(last.launches[0].specs[1] == 1 && last.launches[0].specs[2] == 1);
            assert_int_equal(last.launches[0].groups[0], by_row ? 6 : (300 + size - 1) / size);
            for (uint32_t t = 0; t < 4; t++) assert_int_equal(last.launches[0].bindings[t].write, t >= 2);
        }
        pco_gpu_forget_made(&device.gpu);
    }
}

/* ---- values and copies ---- */

static void check_bits(float value)
{
    const uint16_t half = pco_f16_from_f32(value), brain = pco_bf16_from_f32(value);
    const float as_half = pco_f16_to_f32(half), as_brain = pco_bf16_to_f32(brain);
    uint32_t bits[3];
    memcpy(bits, &value, 4), memcpy(bits + 1, &as_half, 4), memcpy(bits + 2, &as_brain, 4);
    if (isnan(value)) { /* some NaN */
        assert_true((gpu_element_bits(PCO_F16, (double)value) & 0x7fff) > 0x7c00);
        assert_true((gpu_element_bits(PCO_BF16, (double)value) & 0x7fff) > 0x7f80);
        return;
    }
    assert_int_equal(gpu_element_bits(PCO_F32, (double)value), bits[0]);
    assert_int_equal(gpu_element_bits(PCO_F16, (double)value), half);
    assert_int_equal(gpu_element_bits(PCO_BF16, (double)value), brain);
    assert_int_equal(gpu_value_bits(PCO_F16, (double)value), bits[1]);
    assert_int_equal(gpu_value_bits(PCO_BF16, (double)value), bits[2]);
}

/* An attribute becomes the bits that a tensor of its type would have: at powers of two and halfway between neighbours,
 * and around them, from the smallest number to the largest. */
static void test_values(void **state)
{
    (void)state;
    check_bits(0.0f), check_bits(-0.0f), check_bits(INFINITY), check_bits(-INFINITY), check_bits(NAN), check_bits(-NAN);
    for (int exponent = -149; exponent < 128; exponent++)
        for (int tail = 0; tail < 48; tail++) {
            const double half = ldexp(1 + ldexp(tail % 16, -(7 + tail / 16 * 2)), exponent);
            const float value = (float)half;
            check_bits(value), check_bits(-value);
            check_bits(nextafterf(value, 0)), check_bits(nextafterf(value, INFINITY));
        }
    assert_int_equal(gpu_value_bits(PCO_I32, NAN), 0);
    assert_int_equal(gpu_value_bits(PCO_I32, 2147483648.0), INT32_MAX);
    assert_int_equal(gpu_value_bits(PCO_I32, -2147483649.0), (uint32_t)INT32_MIN);
    assert_int_equal(gpu_element_bits(PCO_BOOL, -0.0), 0);
    assert_int_equal(gpu_element_bits(PCO_BOOL, -0.5), 1);
}

/* A slice that lies where its elements are has nothing to do; one that lies beside them has. */
static void test_slices_in_place(void **state)
{
    (void)state;
    for (uint64_t at = 8; at <= 16; at += 4)
        for (int rank = 1; rank < 3; rank++) {
            pco_device device = device_of(0, 0);
            device.gpu.limits.offset_alignment = 4;
            pco_graph *g = pco_graph_create();
            const uint32_t x = pco_graph_input(g, "x", PCO_F32, (uint32_t)rank, (int64_t[]){rank == 1 ? 10 : 1, 10});
            const uint32_t y = pco_slice_axis(g, x, rank - 1, 3, 4);
            pco_graph_output(g, y, "y");
            check_ok(pco_graph_check(g, &err));
            g->tensors[y].alias = x;
            layout.alias = at;
            lowered(&device, g, PCO_NONE, 1);
            layout.alias = 0;
            assert_int_equal(last.count, at != 12);
            forget(g);
        }
}

/* Halves without elements. */
static void test_empty_halves(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        pco_device device = device_of(0, 0);
        pco_graph *g = pco_graph_create();
        const uint32_t gate = pco_graph_input(g, "gate", PCO_F32, 2, (int64_t[]){i != 0 ? 3 : 0, i != 1 ? 8 : 0});
        lowered(&device, made(g, PCO_OP_SWIGLU, NULL, &gate, 1), PCO_NONE, 0);
        assert_int_equal(last.count, i == 2);
        forget(g);
    }
}

/* ---- lists ---- */

/* Of the variants there are as many listed as there is room for, and all are counted. A node that the device refuses
 * needs no machine code. */
static void test_lists(void **state)
{
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        pco_device device = device_of(0, 0);
        pco_graph *g = refused ? norm_of(PCO_F32, 1, 1 << 12, 1 << 10) : conv_of(&(conv_form){1, 1, 2, 9, 2, 1, 0, 0});
        const pco_part part = part_of(g);
        pco_variant all[8], some[8];
        uint64_t codes[8];
        const uint32_t n = pco_gpu_program_api.variants(&device, &part, 0, all, 8);
        assert_int_equal(n, 2);
        for (uint32_t capacity = 0; capacity <= n; capacity++) {
            memset(some, 0, sizeof some);
            assert_int_equal(pco_gpu_program_api.variants(&device, &part, 0, some, capacity), n);
            for (uint32_t i = 0; i < 8; i++)
                assert_string_equal(some[i].name ? some[i].name : "", i < capacity ? all[i].name : "");
        }
        assert_int_equal(supported(&device, g), !refused);
        assert_int_equal(pco_gpu_program_api.pipelines(&device, &part, 0, codes, 8), !refused);
        forget(g);
    }
}

/* ---- alignment ---- */

/* Kernels that read vectors are chosen wherever tensors lie as they ask to, also on a device that lets bindings begin
 * at every word. */
static void check_alignment(pco_graph *g, int devices)
{
    for (int i = 0; i < devices; i++) {
        pco_device device = device_of(i & 1, 0);
        device.gpu.limits.offset_alignment = i & 2 ? 64 : 4;
        const pco_part part = part_of(g);
        pco_variant variants[32];
        const uint32_t n = pco_gpu_program_api.variants(&device, &part, 0, variants, 32);
        for (uint32_t v = 0; v < n; v++) {
            static pco_gpu_recording first;
            lowered(&device, g, v, 0);
            first = last;
            layout.alignment = 4;
            lowered(&device, g, v, 3);
            layout.alignment = 0;
            assert_int_equal(last.count, first.count);
            for (uint32_t l = 0; l < last.count; l++) {
                const pco_gpu_dispatch *a = &first.launches[l], *b = &last.launches[l];
                if (a->kernel != b->kernel)
                    fail_msg("variant %s: %s becomes %s", variants[v].name, pco_gpu_kernels[a->kernel].name,
                             pco_gpu_kernels[b->kernel].name);
                assert_memory_equal(a->specs, b->specs, sizeof a->specs);
            }
        }
    }
    forget(g);
}

/* Each kind of weights: operands, or constants in blocks, of which plugins make planes. */
static uint32_t weights_of(pco_graph *g, pco_dtype type, int64_t n, int64_t k)
{
    static const uint8_t none[64];
    const int64_t shape[2] = {n, k};
    return pco_dtype_is_quantised(type) ? pco_graph_constant(g, "w", type, 2, shape, none)
                                        : pco_graph_input(g, "w", type, 2, shape);
}

static void test_alignment(void **state)
{
    static const pco_dtype TYPES[] = {PCO_F32, PCO_F16, PCO_Q8_0, PCO_Q4_0, PCO_Q5_1, PCO_Q6_K, PCO_MXFP4};
    (void)state;
    for (int i = 0; i < 14; i++) {
        const pco_dtype a = TYPES[i % 2], b = TYPES[i / 2];
        const int quantised = pco_dtype_is_quantised(b);
        pco_graph *g;
        if (a == PCO_F32 && !quantised) check_alignment(norm_of(b, 3, 8, 64), 4);
        for (int along = quantised; along < 2; along++) {
            g = pco_graph_create();
            const pco_matmul_attrs attrs = {.transpose_b = along, .accumulate = PCO_F32, .dtype = -1};
            const uint32_t in[2] = {pco_graph_input(g, "a", a, 2, (int64_t[]){8, 256}),
                                    along ? weights_of(g, b, 128, 256) : weights_of(g, b, 256, 128)};
            check_alignment(made(g, PCO_OP_MATMUL, &attrs, in, 2), 4);
        }
        g = pco_graph_create();
        const pco_indexed_matmul_attrs attrs = {.matrices = 3};
        const uint32_t in[3] = {pco_graph_input(g, "x", a, 2, (int64_t[]){4, 256}), weights_of(g, b, 3 * 8, 256),
                                pco_graph_input(g, "indices", PCO_I32, 2, (int64_t[]){4, 2})};
        check_alignment(made(g, PCO_OP_INDEXED_MATMUL, &attrs, in, 3), 4);
        g = pco_graph_create();
        const pco_gather_attrs rows = {.dtype = quantised ? PCO_F32 : -1};
        const uint32_t taken[2] = {weights_of(g, b, 9, 256), pco_graph_input(g, "indices", PCO_I32, 1, (int64_t[]){4})};
        check_alignment(made(g, PCO_OP_GATHER, &rows, taken, 2), 4);
        if (quantised) continue;
        g = pco_graph_create();
        const uint32_t qkv[3] = {pco_graph_input(g, "q", a, 4, (int64_t[]){1, 2, 3, 64}),
                                 pco_graph_input(g, "k", b, 4, (int64_t[]){1, 2, 9, 64}),
                                 pco_graph_input(g, "v", b, 4, (int64_t[]){1, 2, 9, 64})};
        check_alignment(made(g, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, NULL, qkv, 3), 2); /* asks for nothing */
    }
}

/* ---- counts ---- */

/* Blocks of four random numbers count in 32 bits. */
static void test_random_blocks(void **state)
{
    (void)state;
    for (int64_t more = -1; more < 2; more++)
        for (int drops = 0; drops < 2; drops++) {
            pco_device device = device_of(0, 1u << 31);
            device.gpu.limits.max_allocation = UINT64_C(1) << 40;
            pco_graph *g = pco_graph_create();
            const int64_t shape[2] = {UINT32_MAX + more, 4};
            const uint32_t seed = pco_graph_input(g, "seed", PCO_I32, 1, (int64_t[]){2});
            const uint32_t in[2] = {drops ? pco_graph_input(g, "x", PCO_F16, 2, shape) : seed, seed};
            pco_random_bits_attrs bits = {.n_shape = 2, .shape = {shape[0], shape[1]}};
            pco_dropout_attrs dropout = {.p = 0.5};
            made(g, drops ? PCO_OP_DROPOUT : PCO_OP_RANDOM_BITS, drops ? (void *)&dropout : &bits, in, drops ? 2 : 1);
            assert_int_equal(supported(&device, g), more < 0);
            forget(g);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norm_rows),
                                       cmocka_unit_test(test_norm_windows),
                                       cmocka_unit_test(test_alignment),
                                       cmocka_unit_test(test_random_blocks),
                                       cmocka_unit_test(test_conv_windows),
                                       cmocka_unit_test(test_conv_tiles),
                                       cmocka_unit_test(test_ignored_targets),
                                       cmocka_unit_test(test_workspaces),
                                       cmocka_unit_test(test_lists),
                                       cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_slices_in_place),
                                       cmocka_unit_test(test_empty_halves),
                                       cmocka_unit_test(test_own),
                                       cmocka_unit_test(test_indexed_windows),
                                       cmocka_unit_test(test_indexed_weights),
                                       cmocka_unit_test(test_indexed_rounds),
                                       cmocka_unit_test(test_scatter_rounds)};
    return cmocka_run_group_tests_name("edges", tests, NULL, NULL);
}
