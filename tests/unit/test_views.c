/* Slices that are a piece of their operand in memory: which are, that the device then has nothing to do for them, that
 * nothing else comes to lie on what they share, and what the nodes around them make. The device is what PORTICO_BACKEND
 * picks. */
#include "check_device.h"

#include "graph/graph.h"
#include "runtime/session_internal.h"

/* Slices of y = -x, x [2,3,n], where n elements are a multiple of the device's alignment. */
typedef struct cut {
    const char *name;
    int64_t starts[3], sizes[3], steps[3]; /* in the last dimension, quarters of n */
    int view;
} cut;

static const cut CUTS[] = {
    {"all of it", {0, 0, 0}, {2, 3, 4}, {1, 1, 1}, 1},
    {"the second of the outermost", {1, 0, 0}, {1, 3, 4}, {1, 1, 1}, 1},
    {"two rows of the first", {0, 1, 0}, {1, 2, 4}, {1, 1, 1}, 1},
    {"a part of a row", {1, 2, 1}, {1, 1, 2}, {1, 1, 1}, 1},
    {"one, whatever the step", {1, 2, 0}, {1, 1, 4}, {1, 3, 1}, 1},
    {"a row of each", {0, 1, 0}, {2, 1, 4}, {1, 1, 1}, 0},
    {"a part of two rows", {0, 0, 0}, {1, 2, 2}, {1, 1, 1}, 0},
    {"every other row", {0, 0, 0}, {1, 2, 4}, {1, 2, 1}, 0},
};
enum { N_CUTS = sizeof CUTS / sizeof *CUTS, WHOLE = 2 * 3 };

#define SHAPE(...) \
    (const int64_t[]) \
    { \
        __VA_ARGS__ \
    }

/* Elements of the last dimension: whole alignments in each quarter. */
static int64_t row_elements(void)
{
    const uint32_t alignment = pco_session_device(device_session)->buffer_alignment;
    return 4 * (alignment < 64 ? 64 : alignment) / 4;
}

static pco_slice_attrs attrs_of(const cut *c, int64_t n, int64_t shift)
{
    pco_slice_attrs attrs = {.n_starts = 3, .n_sizes = 3, .n_steps = 3};
    for (int d = 0; d < 3; d++) {
        const int64_t unit = d == 2 ? n / 4 : 1;
        attrs.starts[d] = c->starts[d] * unit;
        attrs.sizes[d] = c->sizes[d] * unit;
        attrs.steps[d] = c->steps[d];
    }
    attrs.starts[2] += shift;
    return attrs;
}

static float value_of(int64_t i) { return (float)(i % 1021 - 510); }

static pco_graph *begin(int64_t n, uint32_t *y)
{
    pco_graph *g = pco_graph_create();
    *y = pco_unary(g, PCO_OP_NEG, pco_graph_input(g, "x", PCO_F32, 3, SHAPE(2, 3, n)));
    return g;
}

/* Runs a graph of x; the caller destroys the executable. */
static pco_executable *run(pco_graph *g, int64_t n)
{
    pco_executable *executable;
    float *x = malloc((size_t)(WHOLE * n) * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < WHOLE * n; i++) x[i] = -value_of(i);
    check_ok(pco_graph_check(g, &err));
    check_ok(pco_executable_create(device_session, g, NULL, &executable, &err));
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "x"), x,
                                  (uint64_t)(WHOLE * n) * sizeof *x, &err));
    check_ok(pco_executable_run(executable, &err));
    free(x);
    return executable;
}

static float *result(pco_executable *executable, const char *name)
{
    const uint32_t handle = pco_executable_tensor(executable, name);
    const uint64_t bytes = pco_executable_describe(executable, handle)->bytes;
    float *y = malloc(bytes);
    assert_non_null(y);
    check_ok(pco_executable_read(executable, handle, y, bytes, &err));
    return y;
}

/* How many kernels the device runs for a node; 0 where it does not say. */
static uint32_t launches(const pco_executable *executable, uint32_t node)
{
    const session_part *part = &executable->parts[0];
    const session_slot *slot = &executable->session->slots[part->slot];
    pco_dispatch_info info;
    pco_error err;
    uint32_t count = 0;
    for (uint32_t i = 0; slot->plugin->program->describe; i++) {
        if (slot->plugin->program->describe(slot->device, part->program, i, &info, &err)) break;
        count += info.node == node;
    }
    return count;
}

/* Is the output of the node a piece of its operand? If so it lies there. */
static int is_view(const pco_executable *executable, uint32_t node, uint64_t offset)
{
    const session_part *part = &executable->parts[0];
    const uint32_t x = part->nodes[node].inputs[0], y = part->nodes[node].outputs[0];
    if (part->tensors[y].alias == PCO_NONE) return 0;
    assert_int_equal(part->tensors[y].alias, x);
    assert_int_equal(part->places[y].buffer, part->places[x].buffer);
    assert_int_equal(part->places[y].offset, part->places[x].offset + offset);
    assert_true(part->places[y].bytes >= part->tensors[y].bytes);
    assert_true(offset + part->places[y].bytes <= part->places[x].bytes);
    return 1;
}

/* No node writes where an operand of it lies, unless that begins at the same place, in full. */
static void check_places(const pco_executable *executable)
{
    const session_part *part = &executable->parts[0];
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const pco_node *node = &part->nodes[i];
        const pco_place *y = &part->places[node->outputs[0]];
        if (part->tensors[node->outputs[0]].alias != PCO_NONE) continue;
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            const pco_place *x = &part->places[node->inputs[k]];
            if (x->buffer != y->buffer || x->offset >= y->offset + y->bytes || y->offset >= x->offset + x->bytes)
                continue;
            assert_int_equal(x->offset, y->offset);
            assert_true(x->bytes >= y->bytes);
        }
    }
}

static void check_cut(const cut *c, int64_t shift)
{
    const int64_t n = row_elements();
    const pco_slice_attrs attrs = attrs_of(c, n, shift);
    uint32_t y;
    pco_graph *g = begin(n, &y);
    const uint32_t piece = pco_graph_add(g, PCO_OP_SLICE, &attrs, &y, 1, NULL);
    pco_graph_output(g, pco_unary(g, PCO_OP_NEG, piece), "z");
    pco_executable *executable = run(g, n);
    const int64_t begins = (attrs.starts[0] * 3 + attrs.starts[1]) * n + attrs.starts[2];
    const int view = is_view(executable, 1, (uint64_t)begins * sizeof(float));
    if (view != (c->view && !shift))
        fail_msg("%s%s: it is %sa view", c->name, shift ? ", shifted" : "", view ? "" : "not ");
    if (view && launches(executable, 1)) fail_msg("%s: the device copies what is there", c->name);
    if (!view && launches(executable, 0) && !launches(executable, 1)) fail_msg("%s: nothing is copied", c->name);
    check_places(executable);
    float *z = result(executable, "z"), *at = z;
    for (int64_t i = 0; i < attrs.sizes[0]; i++)
        for (int64_t j = 0; j < attrs.sizes[1]; j++)
            for (int64_t k = 0; k < attrs.sizes[2]; k++, at++) {
                const int64_t row = (attrs.starts[0] + i * attrs.steps[0]) * 3 + attrs.starts[1] + j * attrs.steps[1];
                const float expected = -value_of(row * n + attrs.starts[2] + k * attrs.steps[2]);
                if (*at != expected) fail_msg("%s: element %d is %g, not %g", c->name, (int)(at - z), *at, expected);
            }
    free(z);
    pco_executable_destroy(executable);
    pco_graph_destroy(g);
}

static void test_cuts(void **state)
{
    (void)state;
    for (int i = 0; i < N_CUTS; i++) check_cut(&CUTS[i], 0);
    check_cut(&CUTS[3], 1); /* it begins between two alignments */
}

/* A piece of a piece, under another shape. */
static void test_pieces_of_pieces(void **state)
{
    (void)state;
    const int64_t n = row_elements();
    uint32_t y;
    pco_graph *g = begin(n, &y);
    const uint32_t half = pco_slice_axis(g, y, 0, 1, 1), rows = pco_reshape(g, half, 2, SHAPE(3, n)),
                   row = pco_slice_axis(g, rows, 0, 1, 1), part = pco_slice_axis(g, row, 1, n / 4, n / 2);
    pco_graph_output(g, pco_unary(g, PCO_OP_NEG, part), "z");
    pco_executable *executable = run(g, n);
    assert_true(is_view(executable, 1, (uint64_t)(3 * n) * sizeof(float)));
    assert_true(is_view(executable, 2, 0));
    assert_true(is_view(executable, 3, (uint64_t)n * sizeof(float)));
    assert_true(is_view(executable, 4, (uint64_t)(n / 4) * sizeof(float)));
    float *z = result(executable, "z");
    for (int64_t k = 0; k < n / 2; k++) assert_float_equal(z[k], -value_of(4 * n + n / 4 + k), 0);
    free(z);
    pco_executable_destroy(executable);
    pco_graph_destroy(g);
}

/* What the host reads has memory of its own, and what it writes is not shared. */
static void test_outputs(void **state)
{
    (void)state;
    const int64_t n = row_elements();
    for (int whole = 0; whole < 2; whole++) {
        uint32_t y;
        pco_graph *g = begin(n, &y);
        if (whole) pco_graph_output(g, y, "y");
        const uint32_t piece = pco_slice_axis(g, y, 0, 1, 1);
        pco_graph_output(g, whole ? pco_unary(g, PCO_OP_NEG, piece) : piece, "z");
        pco_executable *executable = run(g, n);
        assert_false(is_view(executable, 1, 0));
        float *z = result(executable, "z");
        for (int64_t i = 0; i < 3 * n; i++) assert_float_equal(z[i], (float)(whole ? -1 : 1) * value_of(3 * n + i), 0);
        free(z);
        pco_executable_destroy(executable);
        pco_graph_destroy(g);
    }
    pco_graph *g = pco_graph_create();
    const uint32_t x = pco_graph_input(g, "x", PCO_F32, 3, SHAPE(2, 3, n));
    pco_graph_output(g, pco_unary(g, PCO_OP_NEG, pco_slice_axis(g, x, 0, 1, 1)), "z");
    pco_executable *executable = run(g, n);
    assert_false(is_view(executable, 0, 0));
    pco_executable_destroy(executable);
    pco_graph_destroy(g);
}

/* The owner's memory is in use until the last piece was read, and nothing is written over it in place: a reader of one
 * piece would write over another, or over itself a little further on. */
static void test_lifetimes(void **state)
{
    (void)state;
    const int64_t n = row_elements();
    uint32_t y, sum = PCO_NONE;
    pco_graph *g = begin(n, &y);
    const uint32_t first = pco_slice_axis(g, y, 0, 0, 1), second = pco_slice_axis(g, y, 0, 1, 1);
    for (int i = 0; i < 4; i++) { /* others that would like the memory */
        const uint32_t more = pco_unary(g, PCO_OP_ABS, pco_unary(g, PCO_OP_NEG, i ? sum : second));
        sum = pco_binary(g, PCO_OP_ADD, more, i ? sum : second);
    }
    const uint32_t late = pco_unary(g, PCO_OP_NEG, first);
    pco_graph_output(g, pco_binary(g, PCO_OP_ADD, pco_binary(g, PCO_OP_ADD, sum, late), second), "z");
    pco_executable *executable = run(g, n);
    check_places(executable);
    float *z = result(executable, "z");
    for (int64_t i = 0; i < 3 * n; i++) {
        float expected = value_of(3 * n + i);
        for (int k = 0; k < 4; k++) expected += expected < 0 ? -expected : expected;
        expected = expected - value_of(i) + value_of(3 * n + i);
        if (z[i] != expected) fail_msg("element %d is %g, not %g", (int)i, z[i], expected);
    }
    free(z);
    pco_executable_destroy(executable);
    pco_graph_destroy(g);
}

/* A reader of the last piece alone may not take the owner's memory, which begins in front of it. */
static void test_in_place(void **state)
{
    (void)state;
    const int64_t n = row_elements();
    uint32_t y;
    pco_graph *g = begin(n, &y);
    const uint32_t row = pco_reshape(g, y, 1, SHAPE(WHOLE * n));
    const uint32_t most = pco_slice_axis(g, row, 0, n / 4, WHOLE * n - n / 4);
    pco_graph_output(g, pco_unary(g, PCO_OP_ABS, pco_unary(g, PCO_OP_NEG, most)), "z");
    pco_executable *executable = run(g, n);
    assert_true(is_view(executable, 2, (uint64_t)(n / 4) * sizeof(float)));
    check_places(executable);
    float *z = result(executable, "z");
    for (int64_t i = 0; i < WHOLE * n - n / 4; i++) {
        const float expected = value_of(n / 4 + i);
        assert_float_equal(z[i], expected < 0 ? -expected : expected, 0);
    }
    free(z);
    pco_executable_destroy(executable);
    pco_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cuts), cmocka_unit_test(test_pieces_of_pieces),
                                       cmocka_unit_test(test_outputs), cmocka_unit_test(test_lifetimes),
                                       cmocka_unit_test(test_in_place)};
    return cmocka_run_group_tests_name("views", tests, device_open, device_close);
}
