/* A graph of one's own: softmax(x w) v. Ten steps of AdamW teach it to find row i of v for row i of x. The device is
 * what PORTICO_BACKEND says. */
#include <portico/portico.h>
#include <portico/session.h>

#include <math.h>
#include <stdio.h>

enum { ROWS = 8, WIDTH = 16, STEPS = 10 };

#define TRY(call) \
    if (call) return fprintf(stderr, "graph: %s\n", err.message), 1

int main(void)
{
    pco_context *context;
    pco_session *session;
    pco_executable *step;
    pco_error err;
    float inputs[ROWS * WIDTH], target[ROWS * WIDTH], values[WIDTH * WIDTH], loss;
    for (int i = 0; i < WIDTH * WIDTH; i++) values[i] = cosf((float)(i * i));
    for (int i = 0; i < ROWS * WIDTH; i++) inputs[i] = sinf((float)(i * i)), target[i] = values[i];

    const int64_t rows[] = {ROWS, WIDTH}, square[] = {WIDTH, WIDTH};
    pco_graph *g = pco_graph_create();
    const uint32_t x = pco_graph_input(g, "x", PCO_F32, 2, rows);
    const uint32_t v = pco_graph_constant(g, "v", PCO_F32, 2, square, values);
    const uint32_t wanted = pco_graph_constant(g, "target", PCO_F32, 2, rows, target);
    const uint32_t w = pco_graph_state(g, "w", PCO_F32, 2, square); /* zeros at first, and so are the moments */
    const uint32_t m1 = pco_graph_state(g, "w.m", PCO_F32, 2, square),
                   m2 = pco_graph_state(g, "w.v", PCO_F32, 2, square);
    const uint32_t run = pco_graph_value(g, "run", PCO_F32, 1, (const int64_t[]){3}); /* as pco_adamw says */

    const uint32_t y = pco_matmul(g, pco_softmax(g, pco_matmul(g, x, w, 0, 0), -1), v, 0, 0);
    const uint32_t off = pco_sub(g, y, wanted);
    const uint32_t mean = pco_mean(g, pco_mul(g, off, off), &(pco_mean_attrs){.n_axes = 2, .axes = {0, 1}});
    uint32_t gradient;
    TRY(pco_gradients(g, mean, &w, 1, &gradient, &err));
    pco_adamw(g, w, m1, m2, gradient, run, PCO_NONE, NULL, NULL);
    pco_graph_output(g, mean, "loss");

    TRY(pco_context_create(NULL, &context, &err));
    TRY(pco_session_open(context, NULL, &session, &err));
    TRY(pco_executable_create(session, g, NULL, &step, &err)); /* says what was wrong with the graph, too */
    pco_graph_destroy(g);
    TRY(pco_executable_write(step, pco_executable_tensor(step, "x"), inputs, sizeof inputs, &err));
    for (int t = 1; t <= STEPS; t++) {
        const float rates[] = {0.1f, (float)(1 - pow(0.9, t)), (float)(1 - pow(0.999, t))};
        TRY(pco_executable_write(step, pco_executable_tensor(step, "run"), rates, sizeof rates, &err));
        TRY(pco_executable_run(step, &err));
        TRY(pco_executable_read(step, pco_executable_tensor(step, "loss"), &loss, sizeof loss, &err));
        if (t == 1 || t == STEPS) printf("step %2d: loss %.4f\n", t, loss);
    }
    pco_executable_destroy(step);
    pco_session_close(session);
    pco_context_destroy(context);
    return 0;
}
