/* What the example programs share: a device, one graph at a time, figures and their checks. Like the programs it needs
 * the installed headers alone:
 *
 *     cc -o norms norms.c kit.c $(pkg-config --cflags --libs portico) -lm
 *
 * An error ends the program with one line and status 1, so that the examples show what they are about. The device is
 * the one that PORTICO_BACKEND picks. */
#ifndef KIT_H
#define KIT_H

#include <portico/nn.h>
#include <portico/portico.h>

typedef struct kit {
    const char *name; /* of the program, for messages */
    pco_context *context;
    pco_session *session;
    pco_graph *graph; /* that is being built */
    pco_nn *nn;       /* its blocks */
    pco_executable *program;
    int failed; /* a check did not hold */
} kit;

/* Opens the device; prints which one it is. Give all to kit_close, whose result main returns. */
void kit_open(kit *k, const char *name);
int kit_close(kit *k);

/* Draws numbers with the mean and deviation of a standard normal distribution times `scale`: the same ones
 * everywhere for the same seed. */
void kit_random(float *x, int64_t count, uint32_t seed, float mean, float scale);

/* ---- one graph at a time: begin, build with k->graph and k->nn, ready; then write, run, read ---- */

/* `params` may be NULL. */
void kit_begin(kit *k, const pco_nn_params *params);
/* Weights begin as PyTorch's: uniform within 1/sqrt(inputs), biases 0, norms 1 and 0; those of a name are the same in
 * each graph. */
void kit_ready(kit *k);
void kit_write(kit *k, const char *tensor, const void *data, uint64_t bytes);
void kit_run(kit *k);
void kit_read(kit *k, const char *tensor, void *data, uint64_t bytes);
/* Seconds of a run: the shortest of several. */
double kit_seconds(kit *k);
/* What the plan of the program takes. */
pco_executable_stats kit_memory(const kit *k);
/* Elements of all weights of the graph. */
int64_t kit_parameters(const kit *k);
/* Writes the weights `parts`, [count] of `bytes` each, one behind the other into the weight `whole`. */
void kit_join(kit *k, const char *whole, const char *const *parts, int count, uint64_t bytes);

/* Input "x" f32 [rank dimensions] in, output "y" out. */
void kit_map(kit *k, const float *x, int64_t n_x, float *y, int64_t n_y);

/* ---- figures ---- */

/* Root of the mean square; the largest |a - b|. */
double kit_rms(const float *x, int64_t count);
double kit_difference(const float *a, const float *b, int64_t count);
/* Says what did not hold, and remembers it. */
void kit_check(kit *k, int holds, const char *what);

#endif
