/* Trains an encoder-decoder from nothing to write sequences of tokens backwards, and lets it write one. The device is
 * what PORTICO_BACKEND says. */
#include <portico/portico.h>
#include <portico/train.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, LENGTH = 6, VOCAB = 12, WIDTH = 32, STEPS = 150, BEGIN = 0 }; /* tokens are 1 .. VOCAB - 1 */

#define TRY(call) \
    if (call) return fprintf(stderr, "train: %s\n", err.message), 1

static pco_error err;

/* Ids of source and target, i32 [rows,LENGTH], to logits, f32 [rows,LENGTH,VOCAB]. */
static uint32_t model(pco_nn *nn, pco_graph *graph, int64_t rows)
{
    const int64_t shape[] = {rows, LENGTH};
    const pco_nn_transformer_params params = {
        .size = sizeof params, .width = WIDTH, .heads = 4, .hidden = 64, .layers = 1, .normalize_before = 1};
    const pco_nn_linear_params head = {
        .size = sizeof head, .name = "head", .in_features = WIDTH, .out_features = VOCAB};
    uint32_t x[2];
    for (int i = 0; i < 2; i++) {
        const uint32_t ids = pco_graph_input(graph, i ? "target" : "source", PCO_I32, 2, shape);
        x[i] = pco_nn_embedding(nn, ids, i ? "target.weight" : "source.weight", VOCAB, WIDTH);
        x[i] = pco_nn_sinusoidal(nn, x[i], PCO_NONE, 0);
    }
    return pco_nn_linear(nn, pco_nn_transformer(nn, x[0], x[1], "model", &params, NULL), &head);
}

static int write_ids(pco_executable *executable, const char *name, const int32_t *ids, int rows)
{
    return pco_executable_write(executable, pco_executable_tensor(executable, name), ids,
                                (uint64_t)rows * LENGTH * sizeof *ids, &err);
}

int main(void)
{
    static int32_t source[BATCH * LENGTH], target[BATCH * LENGTH], labels[BATCH * LENGTH];
    pco_context *context;
    pco_session *session;
    pco_training *training;
    pco_executable *step, *writer;
    TRY(pco_context_create(NULL, &context, &err));
    TRY(pco_session_open(context, NULL, &session, &err));
    const pco_training_params params = {.size = sizeof params,
                                        .learning_rate = 5e-3,
                                        .schedule = PCO_SCHEDULE_COSINE,
                                        .warmup_steps = 20,
                                        .steps = STEPS,
                                        .max_grad_norm = 1};
    TRY(pco_training_create(session, &params, &training, &err));

    pco_graph *graph = pco_graph_create();
    pco_nn *nn = pco_nn_create(graph, NULL);
    uint32_t logits = model(nn, graph, BATCH);
    const uint32_t wanted = pco_graph_input(graph, "labels", PCO_I32, 2, (const int64_t[]){BATCH, LENGTH});
    TRY(pco_training_add(training, nn, pco_nn_cross_entropy(nn, logits, wanted, 0), &step, &err));
    pco_nn_destroy(nn);
    pco_graph_destroy(graph);
    TRY(pco_training_initialize(training, NULL, &err));
    for (int t = 1; t <= STEPS; t++) {
        pco_training_result result = {.size = sizeof result};
        for (int i = 0; i < BATCH * LENGTH; i++) source[i] = 1 + (int32_t)((unsigned)rand() % (VOCAB - 1));
        for (int i = 0; i < BATCH * LENGTH; i++) labels[i] = source[i - i % LENGTH + LENGTH - 1 - i % LENGTH];
        for (int i = 0; i < BATCH * LENGTH; i++) target[i] = i % LENGTH ? labels[i - 1] : BEGIN;
        TRY(write_ids(step, "source", source, BATCH) || write_ids(step, "target", target, BATCH) ||
            write_ids(step, "labels", labels, BATCH));
        TRY(pco_training_step(training, step, &result, &err));
        if (t == 1 || t % 50 == 0) printf("step %3d: loss %.3f\n", t, result.loss);
    }

    graph = pco_graph_create(); /* the same names in the same session: the trained weights */
    nn = pco_nn_create(graph, NULL);
    pco_graph_output(graph, pco_argmax(graph, model(nn, graph, 1), -1, 0), "tokens");
    TRY(pco_executable_create(session, graph, NULL, &writer, &err));
    pco_nn_destroy(nn);
    pco_graph_destroy(graph);
    const int32_t text[LENGTH] = {3, 1, 4, 1, 5, 9};
    int32_t tokens[LENGTH], written[LENGTH] = {BEGIN};
    for (int i = 0; i < LENGTH; i++) { /* a token more each time */
        TRY(write_ids(writer, "source", text, 1) || write_ids(writer, "target", written, 1));
        TRY(pco_executable_run(writer, &err));
        TRY(pco_executable_read(writer, pco_executable_tensor(writer, "tokens"), tokens, sizeof tokens, &err));
        if (i + 1 < LENGTH) written[i + 1] = tokens[i];
    }
    printf("3 1 4 1 5 9 backwards:");
    for (int i = 0; i < LENGTH; i++) printf(" %d", (int)tokens[i]);
    printf("\n");
    pco_executable_destroy(writer);
    pco_training_destroy(training);
    pco_session_close(session);
    pco_context_destroy(context);
    return 0;
}
