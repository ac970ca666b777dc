/* What the example programs share: a device, weights that are made up, one graph at a time, a table's checks.
 *
 * An error ends the program with one line and status 1, so that the examples show what they are about. They
 * are built here, against the headers of core/, for they also look at weights and at the memory of what runs; what
 * they build with is in portico/nn.h. The device is the one that PORTICO_BACKEND picks. */
#ifndef PCO_EXAMPLES_KIT_H
#define PCO_EXAMPLES_KIT_H

#include "nn/nn.h"
#include "runtime/memory.h"

typedef struct kit {
    const char *name; /* of the program, for messages */
    pco_registry *registry;
    pco_session *session;
    pco_weights *weights;
    pco_nn nn; /* the graph that is being built, and the weights */
    pco_executable *program;
    int failed; /* a check did not hold */
} kit;

/* Opens the device; prints which one it is. Give all to kit_close, whose result main returns. */
void kit_open(kit *k, const char *name);
int kit_close(kit *k);

/* Draws numbers with the mean and deviation of a standard normal distribution times `scale`: the same ones
 * everywhere for the same seed. */
void kit_random(float *x, int64_t count, uint32_t seed, float mean, float scale);

/* ---- weights, by name, as PyTorch begins with them: uniform within 1/sqrt(inputs), norms 1 and 0 ---- */

void kit_linear(kit *k, const char *name, int64_t out_features, int64_t in_features, int bias);
void kit_norm(kit *k, const char *name, const pco_nn_norm_params *params);
void kit_ffn(kit *k, const pco_nn_ffn_params *params);
void kit_attention(kit *k, const pco_nn_attention_params *params);
/* Causal self-attention with biases, `width` = heads x head_dim; the caller names its weights. */
pco_nn_attention_params kit_causal(int64_t width, int64_t heads);
/* Of an encoder layer; with `cross` of a decoder layer. */
void kit_layer(kit *k, const pco_nn_layer_params *params, int cross);
/* Rows first .. first+count-1 of the tensor `of`, under a name of their own. */
void kit_rows(kit *k, const char *name, const char *of, int64_t first, int64_t count);
/* Elements of all weights whose name begins with `prefix`. */
int64_t kit_parameters(const kit *k, const char *prefix);

/* ---- one graph at a time: begin, build with k->nn, ready; then write, run, read ---- */

void kit_begin(kit *k);
void kit_ready(kit *k);
void kit_write(kit *k, const char *tensor, const void *data, uint64_t bytes);
void kit_run(kit *k);
void kit_read(kit *k, const char *tensor, void *data, uint64_t bytes);
/* Seconds of a run: the shortest of several. */
double kit_seconds(kit *k);
/* Memory of the program, over all devices that it has a part on. */
pco_memory_use kit_memory(const kit *k);

/* Input "x" f32 [rank dimensions] in, output "y" out. */
void kit_map(kit *k, const float *x, int64_t n_x, float *y, int64_t n_y);

/* ---- figures ---- */

/* Root of the mean square; the largest |a - b|. */
double kit_rms(const float *x, int64_t count);
double kit_difference(const float *a, const float *b, int64_t count);
/* Says what did not hold, and remembers it. */
void kit_check(kit *k, int holds, const char *what);

#endif
