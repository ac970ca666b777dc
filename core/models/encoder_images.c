/* Encoders whose tokens are patches of an image. */
#include "models/encoder.h"

#include "base/error.h"
#include "models/graphs.h"
#include "models/stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pco_image_encoder {
    pco_session *session;
    const pco_weights *weights;
    pco_model_spec spec;
    struct {
        pco_stage stage;
        uint32_t patches, output;     /* handles */
    } stages[PCO_ENCODER_OUTPUTS][2]; /* of one image, and of a batch */
    float *pixels, *patches;          /* of one image, [channels,height,width]; of a batch, as the graph has them */
};

static int64_t images_pixels(const pco_patches *p) { return p->channels * p->image[0] * p->image[1]; }

/* Pixels of an image that are in a patch. */
static int64_t images_in_patches(const pco_patches *p)
{
    return pco_patch_count(p) * p->channels * p->patch[0] * p->patch[1];
}

void pco_image_encoder_build(const pco_nn *nn, const pco_model_spec *spec, int64_t batch, pco_encoder_output output)
{
    const pco_patches *p = &spec->patches;
    const int64_t shape[3] = {batch, pco_patch_count(p), p->channels * p->patch[0] * p->patch[1]};
    const uint32_t patches = pco_graph_input(nn->graph, "patches", PCO_F32, 3, shape);
    pco_encoder_end(nn, spec, pco_spec_encode_patches(nn, spec, patches), PCO_NONE, output);
}

pco_status pco_image_encoder_create(pco_session *session, const pco_weights *weights, const pco_model_spec *spec,
                                    pco_image_encoder **out, pco_error *err)
{
    *out = NULL;
    pco_image_encoder *run = calloc(1, sizeof *run);
    if (run) {
        run->pixels = calloc((size_t)images_pixels(&spec->patches), sizeof *run->pixels);
        run->patches = calloc((size_t)(PCO_IMAGE_BATCH * images_in_patches(&spec->patches)), sizeof *run->patches);
    }
    if (!run || !run->pixels || !run->patches) {
        pco_image_encoder_destroy(run);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a model");
    }
    run->session = session;
    run->weights = weights;
    run->spec = *spec;
    *out = run;
    return PCO_OK;
}

void pco_image_encoder_destroy(pco_image_encoder *run)
{
    if (!run) return;
    for (int output = 0; output < PCO_ENCODER_OUTPUTS; output++)
        for (int full = 0; full < 2; full++) pco_stage_destroy(&run->stages[output][full].stage);
    free(run->pixels);
    free(run->patches);
    free(run);
}

static pco_status images_stage(pco_image_encoder *run, pco_encoder_output output, int full, pco_error *err)
{
    pco_stage *stage = &run->stages[output][full].stage;
    const int64_t batch = full ? PCO_IMAGE_BATCH : 1;
    char name[80];
    if (stage->executable) return PCO_OK;
    snprintf(name, sizeof name, "encoder, %" PRId64 " image%s", batch, full ? "s" : "");
    pco_graph *graph = pco_graph_create();
    if (graph) pco_image_encoder_build(&(pco_nn){.graph = graph, .weights = run->weights}, &run->spec, batch, output);
    const pco_status status =
        pco_stage_create(run->session, graph, name, 1 + pco_patch_count(&run->spec.patches), stage, err);
    if (status) return status;
    run->stages[output][full].patches = pco_executable_tensor(stage->executable, "patches");
    run->stages[output][full].output = pco_executable_tensor(stage->executable, "output");
    return PCO_OK;
}

pco_status pco_image_encoder_warm_up(pco_image_encoder *run, pco_encoder_output output, pco_error *err)
{
    pco_status status = pco_encoder_check_output(&run->spec, output, err);
    for (int full = 0; !status && full < 2; full++) status = images_stage(run, output, full, err);
    return status;
}

pco_executable_stats pco_image_encoder_inspect(const pco_image_encoder *run, pco_encoder_output output)
{
    for (int full = 1; full >= 0; full--)
        if (run->stages[output][full].stage.executable)
            return pco_executable_counts(run->stages[output][full].stage.executable);
    return (pco_executable_stats){0};
}

/* Patches in rows, from the top; each [channels,height,width], as the matrix of a convolution has them. */
static void images_unfold(const pco_patches *p, const float *pixels, float *patches)
{
    const int64_t high = p->image[0] / p->patch[0], wide = p->image[1] / p->patch[1];
    for (int64_t i = 0; i < high * wide; i++)
        for (int64_t c = 0; c < p->channels; c++)
            for (int64_t y = 0; y < p->patch[0]; y++, patches += p->patch[1]) {
                const int64_t row = c * p->image[0] + i / wide * p->patch[0] + y;
                memcpy(patches, pixels + row * p->image[1] + i % wide * p->patch[1],
                       (size_t)p->patch[1] * sizeof *patches);
            }
}

/* `count` images from number `first` on. */
static pco_status images_batch(pco_image_encoder *run, pco_encoder_output output, pco_image_source source, void *user,
                               int64_t first, int64_t count, float *results, pco_error *err)
{
    const pco_patches *p = &run->spec.patches;
    const int full = count > 1;
    const int64_t batch = full ? PCO_IMAGE_BATCH : 1, each = images_in_patches(p);
    const int64_t rows = output == PCO_ENCODER_HIDDEN ? 1 + pco_patch_count(p) : 1;
    pco_status status = images_stage(run, output, full, err);
    for (int64_t i = 0; i < count && !status; i++) {
        status = source(user, first + i, run->pixels, err);
        if (!status) images_unfold(p, run->pixels, run->patches + i * each);
    }
    if (status) return status;
    memset(run->patches + count * each, 0, (size_t)((batch - count) * each) * sizeof *run->patches);
    pco_executable *executable = run->stages[output][full].stage.executable;
    status = pco_executable_write(executable, run->stages[output][full].patches, run->patches,
                                  (uint64_t)(batch * each) * sizeof *run->patches, err);
    if (!status) status = pco_executable_run(executable, err);
    if (!status)
        status = pco_executable_read(executable, run->stages[output][full].output, results,
                                     (uint64_t)(count * rows * pco_encoder_width(&run->spec, output)) * sizeof *results,
                                     err);
    return status;
}

pco_status pco_image_encoder_run(pco_image_encoder *run, pco_encoder_output output, pco_image_source source,
                                 int64_t count, float *results, pco_encoder_progress progress, void *user,
                                 pco_error *err)
{
    const int64_t rows = output == PCO_ENCODER_HIDDEN ? 1 + pco_patch_count(&run->spec.patches) : 1,
                  width = pco_encoder_width(&run->spec, output);
    pco_status status = pco_encoder_check_output(&run->spec, output, err);
    for (int64_t done = 0, n; !status && done < count; done += n) {
        n = count - done < PCO_IMAGE_BATCH ? count - done : PCO_IMAGE_BATCH;
        status = images_batch(run, output, source, user, done, n, results + done * rows * width, err);
        if (!status && progress && progress(user, done + n))
            status = pco_fail(err, PCO_ERROR_CANCELLED, "reading images was cancelled");
    }
    return status;
}
