/* An operation of one's own: snake(x) = x + sin(a x)^2 / a (Ziyin et al. 2020), with gradient and kernel, on the
 * devices that are named. As a shared object (-shared -fPIC) it is judged: portico conformance --ops-from ./own_op.so
 */
#include <math.h>
#include <portico/op.h>
#include <portico/portico.h>
#include <portico/session.h>
#include <stdio.h>

#define TRY(call) \
    if (call) return fprintf(stderr, "own_op: %s\n", err.message), 1

static pco_status snake(const pco_op_call *call, const double *const *in, double *const *out, pco_error *err)
{
    (void)err;
    for (int64_t i = 0; i < pco_tensor_elements(call->inputs[0]); i++) {
        const double a = in[1][i % call->inputs[1]->shape[0]], s = sin(a * in[0][i]);
        out[0][i] = in[0][i] + s * s / a;
    }
    return PCO_OK;
}

/* dy/dx = 1 + sin(2 a x), dy/da = (x sin(2 a x) - sin(a x)^2 / a) / a */
static void snake_gradient(pco_graph *g, const pco_op_call *call, const uint32_t *in, const uint32_t *out,
                           const uint32_t *upstream, uint32_t *gradients)
{
    (void)call, (void)out;
    const uint32_t ax = pco_mul(g, in[0], in[1]), s = pco_sin(g, ax), twice = pco_sin(g, pco_add(g, ax, ax));
    const uint32_t by_a = pco_sub(g, pco_mul(g, in[0], twice), pco_div(g, pco_mul(g, s, s), in[1]));
    gradients[0] = pco_mul(g, upstream[0], pco_binary_scalar(g, PCO_OP_ADD, twice, 1));
    gradients[1] = pco_mul(g, upstream[0], pco_div(g, by_a, in[1]));
}

static const char KERNEL[] = /* each invocation writes a word of y: one element or two */
    "KERNEL(snake) { ENTER\n"
    "    const int w = GROUP() * LOCAL_X + LANE_X(), first = w * PER_WORD(Y);\n"
    "    uint word = 0u;\n"
    "    for (int i = first; i < first + PER_WORD(Y) && i < Y_SIZE; ++i) {\n"
    "        const float v = LOAD(x, X, i), a = LOAD(alpha, ALPHA, i % DIM_K), s = pco_sin(a * v);\n"
    "        word |= pco_bits(Y, v + s * s / a) << LANE_AT(Y, TO_UINT(i));\n"
    "    }\n"
    "    if (w < Y_WORDS) y[w] = word; }\n";
/* For tests, with 1/4 <= x, alpha <= 4: sin is off by 8 u, its argument by a x u, so y by (2 (8 + a x) / a + 3 y) u. */
static const pco_op_range RANGES[] = {{0.25, 4}, {0.25, 4}};
/* clang-format off */
static const pco_op_declaration SNAKE = {.size = sizeof SNAKE, .name = "snake", .types = "F=f32,f16,bf16",
    .signature = "x:F[..,K] alpha:f32[K] -> y:F[..,K]", .compute = snake, .gradient = snake_gradient,
    .kernel = KERNEL, .ranges = RANGES, .ulps = 300};
/* clang-format on */
const pco_op_declaration *pco_ops_query(uint32_t index) { return index == 0 ? &SNAKE : NULL; }

int main(int argc, char **argv)
{
    pco_error err;
    pco_context *context;
    const pco_operation *op;
    float x[] = {-1, 0.5F, 2, 0, 1, -3}, alpha[] = {1, 0.5F, 2}, y[6], slope[3];
    pco_graph *g = pco_graph_create();
    const uint32_t in[] = {pco_graph_constant(g, "x", PCO_F32, 2, (int64_t[]){2, 3}, x),
                           pco_graph_constant(g, "alpha", PCO_F32, 1, (int64_t[]){3}, alpha)};
    TRY(pco_context_create(NULL, &context, &err) || pco_op_register(context, &SNAKE, &op, &err));
    const uint32_t out = pco_graph_apply(g, op, NULL, in, 2, NULL);
    uint32_t loss = pco_sum(g, out, &(pco_sum_attrs){.n_axes = 2, .axes = {0, 1}}), gradient;
    TRY(pco_gradients(g, loss, &in[1], 1, &gradient, &err));
    pco_graph_output(g, out, "y"), pco_graph_output(g, gradient, "slope");
    for (int i = 1; i < argc; i++) {
        pco_session *session;
        pco_executable *run;
        TRY(pco_session_open(context, argv[i], &session, &err) || pco_executable_create(session, g, NULL, &run, &err));
        TRY(pco_executable_run(run, &err) ||
            pco_executable_read(run, pco_executable_tensor(run, "y"), y, sizeof y, &err));
        TRY(pco_executable_read(run, pco_executable_tensor(run, "slope"), slope, sizeof slope, &err));
        printf("%s: y[2] = %.4f, slope[0] = %.4f\n", argv[i], (double)y[2], (double)slope[0]);
        pco_executable_destroy(run), pco_session_close(session);
    }
    pco_graph_destroy(g), pco_context_destroy(context);
    return 0;
}
