/* Which attention is offered where a device multiplies matrices: what its tiles hold, and what they take of shared
 * memory and of rounds of loops. Nothing runs: devices are described. */
#include "edges.h"

typedef struct matrix_form {
    uint32_t m, n, k; /* of the device's matrices */
    int64_t depth, value_depth;
    uint32_t kernel, most; /* most: elements of a value that it holds; 0: not offered */
} matrix_form;

static pco_graph *attention_of(pco_dtype q, pco_dtype kv, const matrix_form *form, int64_t rows, int64_t keys)
{
    const int64_t at = form->depth, of = form->value_depth;
    pco_graph *g = pco_graph_create();
    const uint32_t in[3] = {pco_graph_input(g, "q", q, 4, (int64_t[]){1, 2, rows, at}),
                            pco_graph_input(g, "k", kv, 4, (int64_t[]){1, 2, keys, at}),
                            pco_graph_input(g, "v", kv, 4, (int64_t[]){1, 2, keys, of})};
    return made(g, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, NULL, in, 3);
}

/* The number of that variant, or PCO_NONE. */
static uint32_t offered(pco_device *device, const pco_graph *g, const char *name)
{
    const pco_part part = part_of(g);
    pco_variant variants[32];
    const uint32_t n = pco_gpu_program_api.variants(device, &part, 0, variants, 32);
    for (uint32_t v = 0; v < n; v++)
        if (strcmp(variants[v].name, name) == 0) return v;
    return PCO_NONE;
}

static uint64_t more(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* A device with the form's matrices, in subgroups of that width, and more shared memory than any tile takes. */
static pco_device device_with(const matrix_form *form, uint32_t width)
{
    pco_device device = device_of(0, 0);
    pco_gpu_limits *limits = &device.gpu.limits;
    limits->needs_met |= PCO_GPU_NEEDS_COOPERATIVE_MATRIX | PCO_GPU_NEEDS_STORAGE_16 | PCO_GPU_NEEDS_F16;
    limits->shared_memory = 1 << 17, limits->matrix_width = width, limits->subgroups_settable = 8;
    limits->matrix[0] = form->m, limits->matrix[1] = form->n, limits->matrix[2] = form->k;
    return device;
}

/* The variant is not offered where queries, keys or both are f32. */
static void for_halves_alone(pco_device *device,
                             pco_graph *(*of)(pco_dtype, pco_dtype, const matrix_form *, int64_t, int64_t),
                             const matrix_form *form, const char *variant)
{
    for (int i = 1; i < 4; i++) {
        pco_graph *g = of(i & 1 ? PCO_F32 : PCO_F16, i & 2 ? PCO_F32 : PCO_F16, form, 40, 70);
        assert_true(offered(device, g, variant) == PCO_NONE);
        forget(g);
    }
}

/* Which tile goes with a depth, and what it takes of shared memory and of rounds of loops: no more, and no less. Lines
 * have 16 bytes to spare. */
static void check_matrix(const matrix_form *form)
{
    enum { WIDTH = 32, KEYS = 32, LANES = 4 * WIDTH };
    pco_device device = device_with(form, WIDTH);
    pco_gpu_limits *limits = &device.gpu.limits;
    pco_graph *g = attention_of(PCO_F16, PCO_F16, form, 40, 70);
    const uint32_t v = offered(&device, g, "matrix"), rows = 2 * form->m;
    assert_int_equal(v != PCO_NONE, form->most > 0);
    if (form->most) {
        if (pco_gpu_sources[form->kernel]) { /* not every compiler can make them */
            lowered(&device, g, v, 0);
            assert_int_equal(last.launches[last.count - 1].kernel, form->kernel);
        }
        const uint64_t line = (uint64_t)(form->depth + 15) / 16 * 32 + 16, value = 2 * form->most + 16;
        const uint64_t queries = rows * line, keys = KEYS * more(line, value), weights = 2 * rows * (2 * KEYS + 16),
                       scores = rows * (4 * KEYS + 16), corrections = rows * form->n * 4, masks = (LANES + KEYS) * 4;
        limits->shared_memory = (uint32_t)(queries + keys + weights + scores + corrections + masks);
        assert_true(offered(&device, g, "matrix") != PCO_NONE);
        limits->shared_memory--;
        assert_true(offered(&device, g, "matrix") == PCO_NONE);
        limits->shared_memory = 1 << 17;
        const uint64_t fill = (KEYS * (more((uint64_t)form->depth, form->most) / 8 + 2) + LANES - 1) / LANES + 1;
        limits->max_rounds =
            (uint32_t)((70 + 2 * KEYS - 1) / KEYS * (3 * fill + 2 * ((uint64_t)form->depth / 8 + 3) + 64) + fill + 512);
        assert_true(offered(&device, g, "matrix") != PCO_NONE);
        limits->max_rounds--;
        assert_true(offered(&device, g, "matrix") == PCO_NONE);
        limits->max_rounds = 0;
    }
    forget(g);
    for_halves_alone(&device, attention_of, form, "matrix");
}

static void test_attention_matrices(void **state)
{
    static const matrix_form FORMS[] = {{16, 16, 16, 64, 64, GPU_KERNEL_attention_matrix_2, 64},
                                        {16, 16, 16, 40, 65, GPU_KERNEL_attention_matrix_4, 128},
                                        {16, 16, 16, 128, 128, GPU_KERNEL_attention_matrix_4, 128},
                                        {16, 16, 16, 96, 129, GPU_KERNEL_attention_matrix_8, 256},
                                        {16, 16, 16, 256, 256, GPU_KERNEL_attention_matrix_8, 256},
                                        {16, 16, 16, 257, 64, 0, 0},
                                        {16, 16, 16, 64, 257, 0, 0},
                                        {16, 8, 16, 64, 32, GPU_KERNEL_attention_matrix_2, 32},
                                        {16, 8, 16, 64, 128, GPU_KERNEL_attention_matrix_8, 128},
                                        {16, 8, 16, 64, 129, 0, 0},
                                        {8, 16, 8, 64, 64, GPU_KERNEL_attention_matrix_2, 64},
                                        {32, 8, 16, 64, 32, 0, 0},
                                        {8, 32, 16, 64, 32, 0, 0},
                                        {16, 16, 32, 64, 32, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) check_matrix(&FORMS[i]);
}

/* The same of the kernel whose scores never leave matrices: a product has as many terms as columns, and an invocation
 * looks at a key. */
static void check_matrix2(const matrix_form *form)
{
    enum { WIDTH = 32, LANES = 4 * WIDTH };
    pco_device device = device_with(form, WIDTH);
    pco_gpu_limits *limits = &device.gpu.limits;
    pco_graph *g = attention_of(PCO_F16, PCO_F16, form, 40, 70);
    assert_true(offered(&device, g, "matrix2") == PCO_NONE);
    limits->needs_met |= PCO_GPU_NEEDS_COOPERATIVE_MATRIX2;
    const uint32_t v = offered(&device, g, "matrix2"), rows = 4 * form->m, keys = 2 * form->n;
    assert_int_equal(v != PCO_NONE, form->most > 0);
    if (form->most) {
        if (pco_gpu_sources[form->kernel]) {
            lowered(&device, g, v, 0);
            assert_int_equal(last.launches[last.count - 1].kernel, form->kernel);
        }
        const uint64_t line = (uint64_t)(form->depth + 15) / 16 * 32 + 16, value = 2 * form->most + 16;
        limits->shared_memory =
            (uint32_t)(rows * line + keys * more(line, value) + 4 * 2 * form->m * form->n * 4 + keys * 4);
        assert_true(offered(&device, g, "matrix2") != PCO_NONE);
        limits->shared_memory--;
        assert_true(offered(&device, g, "matrix2") == PCO_NONE);
        limits->shared_memory = 1 << 17;
        const uint64_t lines = more(rows, keys) * (more((uint64_t)form->depth, form->most) / 8 + 2);
        const uint64_t fill = (lines + LANES - 1) / LANES + 1, tiles = (70 + 2 * keys - 1) / keys;
        limits->max_rounds = (uint32_t)(tiles * (3 * fill + 2 * ((uint64_t)form->depth / 8 + 3) + 64) + fill + 512);
        assert_true(offered(&device, g, "matrix2") != PCO_NONE);
        limits->max_rounds--;
        assert_true(offered(&device, g, "matrix2") == PCO_NONE);
        limits->max_rounds = 0;
        limits->matrix_width = keys / 4;
        assert_true(offered(&device, g, "matrix2") != PCO_NONE);
        limits->matrix_width = keys / 4 - 1;
        assert_true(offered(&device, g, "matrix2") == PCO_NONE);
        limits->matrix_width = WIDTH;
    }
    forget(g);
    for_halves_alone(&device, attention_of, form, "matrix2");
}

static void test_attention_matrices2(void **state)
{
    static const matrix_form FORMS[] = {{16, 16, 16, 64, 64, GPU_KERNEL_attention_matrix2_4, 64},
                                        {16, 16, 16, 40, 65, GPU_KERNEL_attention_matrix2_8, 128},
                                        {16, 16, 16, 128, 129, GPU_KERNEL_attention_matrix2_16, 256},
                                        {16, 16, 16, 256, 256, GPU_KERNEL_attention_matrix2_16, 256},
                                        {16, 16, 16, 257, 64, 0, 0},
                                        {16, 16, 16, 64, 257, 0, 0},
                                        {8, 8, 8, 34, 32, GPU_KERNEL_attention_matrix2_4, 32},
                                        {16, 8, 8, 64, 33, GPU_KERNEL_attention_matrix2_8, 64},
                                        {16, 8, 16, 64, 32, 0, 0},
                                        {16, 16, 8, 64, 32, 0, 0},
                                        {32, 8, 8, 64, 32, 0, 0},
                                        {8, 32, 32, 64, 32, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) check_matrix2(&FORMS[i]);
}

/* The gradients of the same. */
static pco_graph *gradient_of(pco_dtype q, pco_dtype kv, const matrix_form *form, int64_t rows, int64_t keys)
{
    const int64_t at = form->depth, of = form->value_depth;
    const pco_scaled_dot_product_attention_backward_attrs attrs = {.heads_first = 1};
    pco_graph *g = pco_graph_create();
    const uint32_t in[7] = {pco_graph_input(g, "q", q, 4, (int64_t[]){1, 2, rows, at}),
                            pco_graph_input(g, "k", kv, 4, (int64_t[]){1, 2, keys, at}),
                            pco_graph_input(g, "v", kv, 4, (int64_t[]){1, 2, keys, of}),
                            PCO_NONE,
                            PCO_NONE,
                            PCO_NONE,
                            pco_graph_input(g, "gradient", q, 4, (int64_t[]){1, 2, rows, of})};
    return made(g, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD, &attrs, in, 7);
}

/* The kernels of gradients by matrices: own rows and the lines that they are multiplied with; that of keys has the
 * most, and goes along rows. */
static void check_backward(const matrix_form *form)
{
    enum { WIDTH = 32, LINES = 32, LANES = 4 * WIDTH, KEYS = 70 };
    pco_device device = device_with(form, WIDTH);
    pco_gpu_limits *limits = &device.gpu.limits;
    pco_graph *g = gradient_of(PCO_F16, PCO_F16, form, 40, KEYS);
    const uint32_t v = offered(&device, g, "matrix"), own = 2 * form->m;
    assert_int_equal(v != PCO_NONE, form->most > 0);
    if (form->most) {
        if (pco_gpu_sources[form->kernel]) {
            lowered(&device, g, v, 0);
            assert_int_equal(last.count, 3);
            assert_int_equal(last.launches[2].kernel, form->kernel);
        }
        const uint64_t key = (uint64_t)(form->depth + 15) / 16 * 32 + 16,
                       value = (uint64_t)(form->value_depth + 15) / 16 * 32 + 16, sum = 2 * form->most + 16;
        const uint64_t lines = LINES * more(sum, more(key, value)), area = own * (2 * LINES * 4 + 16);
        limits->shared_memory = (uint32_t)(own * (key + value) + lines + area + LINES * 8 * 4);
        assert_true(offered(&device, g, "matrix") != PCO_NONE);
        limits->shared_memory--;
        assert_true(offered(&device, g, "matrix") == PCO_NONE);
        limits->shared_memory = 1 << 17;
        const uint64_t longest = more(form->most, more((uint64_t)form->depth, (uint64_t)form->value_depth));
        const uint64_t fill = (more(LINES, own) * (longest / 8 + 2) + LANES - 1) / LANES + 1,
                       size = (uint64_t)(form->depth + form->value_depth) / 4;
        limits->max_rounds =
            (uint32_t)((KEYS + 2 * LINES - 1) / LINES * (3 * fill + size + 4 * LINES + 64) + 2 * fill + 1024);
        assert_true(offered(&device, g, "matrix") != PCO_NONE);
        limits->max_rounds--;
        assert_true(offered(&device, g, "matrix") == PCO_NONE);
        limits->max_rounds = 0;
    }
    forget(g);
    for_halves_alone(&device, gradient_of, form, "matrix");
}

static void test_gradients_matrices(void **state)
{
    static const matrix_form FORMS[] = {{16, 16, 16, 64, 64, GPU_KERNEL_attention_backward_matrix_keys_2, 64},
                                        {16, 16, 16, 40, 65, GPU_KERNEL_attention_backward_matrix_keys_4, 128},
                                        {16, 16, 16, 65, 40, GPU_KERNEL_attention_backward_matrix_keys_4, 128},
                                        {16, 16, 16, 96, 129, GPU_KERNEL_attention_backward_matrix_keys_8, 256},
                                        {16, 16, 16, 256, 256, GPU_KERNEL_attention_backward_matrix_keys_8, 256},
                                        {16, 8, 16, 64, 33, GPU_KERNEL_attention_backward_matrix_keys_4, 64},
                                        {16, 8, 16, 64, 129, 0, 0},
                                        {16, 8, 16, 129, 64, 0, 0},
                                        {8, 16, 8, 64, 64, GPU_KERNEL_attention_backward_matrix_keys_2, 64},
                                        {32, 8, 16, 64, 32, 0, 0},
                                        {8, 32, 16, 64, 32, 0, 0},
                                        {16, 16, 32, 64, 32, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) check_backward(&FORMS[i]);
}

/* FLAGS of a launch: the constant is at the same place in all of their interfaces. */
static int32_t flags_of(uint32_t launch)
{
    return last.launches[launch].specs[3 + offsetof(gpu_attention_specs, flags) / 4];
}
_Static_assert(offsetof(gpu_attention_specs, flags) == offsetof(gpu_attention_split_specs, flags), "one place");
_Static_assert(offsetof(gpu_attention_specs, flags) == offsetof(gpu_attention_stats_specs, flags), "one place");
_Static_assert(offsetof(gpu_attention_specs, flags) == offsetof(gpu_attention_gradients_specs, flags), "one place");

/* Rows that all begin at even elements may be read two elements at a time, and only those: wherever tensors lie, and
 * whichever of them it is that has odd ones; by all three kernels of the gradients ("default"). */
static void test_attention_even(void **state)
{
    enum { EVEN = 8 };
    static const struct {
        const char *variant;
        int64_t rows, depth, value_depth;
        uint32_t alignment; /* of tensors, which lie that many bytes into their buffers */
        int32_t even;
        uint32_t launches; /* how many of them have FLAGS */
    } PLACED[] = {
        {"tiled", 40, 64, 64, 4, EVEN, 1},   {"tiled", 40, 64, 64, 2, 0, 1},    {"split", 4, 64, 64, 4, EVEN, 1},
        {"split", 4, 64, 64, 2, 0, 1},       {"tiled", 40, 66, 34, 4, EVEN, 1}, {"tiled", 40, 65, 64, 4, 0, 1},
        {"tiled", 40, 64, 65, 4, 0, 1},      {"split", 4, 65, 64, 4, 0, 1},     {"split", 4, 64, 65, 4, 0, 1},
        {"default", 40, 64, 64, 4, EVEN, 3}, {"default", 40, 64, 64, 2, 0, 3},  {"default", 40, 65, 64, 4, 0, 3},
        {"default", 40, 64, 65, 4, 0, 3}};
    pco_device device = device_of(0, 0);
    (void)state;
    for (size_t i = 0; i < sizeof PLACED / sizeof *PLACED; i++) {
        const matrix_form form = {.depth = PLACED[i].depth, .value_depth = PLACED[i].value_depth};
        pco_graph *g = PLACED[i].launches == 3 ? gradient_of(PCO_F16, PCO_F16, &form, PLACED[i].rows, 70)
                                               : attention_of(PCO_F16, PCO_F16, &form, PLACED[i].rows, 70);
        layout.alignment = PLACED[i].alignment;
        lowered(&device, g, offered(&device, g, PLACED[i].variant), 1);
        assert_true(last.count >= PLACED[i].launches);
        for (uint32_t launch = 0; launch < PLACED[i].launches; launch++)
            assert_int_equal(flags_of(launch) & EVEN, PLACED[i].even);
        forget(g);
    }
    layout.alignment = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention_even), cmocka_unit_test(test_attention_matrices),
                                       cmocka_unit_test(test_attention_matrices2),
                                       cmocka_unit_test(test_gradients_matrices)};
    return cmocka_run_group_tests_name("edges_attention", tests, NULL, NULL);
}
