/* Which tensor went bad first: the update's batches once more, with every tensor as an output. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "train/trainer_internal.h"

static int diagnose_finite(const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i])) return 0;
    return 1;
}

/* Of what nodes make: minus infinity is what masks are made of. */
static int diagnose_good(const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (isnan(values[i]) || values[i] == INFINITY) return 0;
    return 1;
}

/* Is this parameter bad already? */
static pco_status diagnose_parameter(const pco_trainer *trainer, const pco_nn_parameter *parameter, int *bad,
                                     pco_error *err)
{
    const int64_t count = pco_nn_elements(parameter);
    float *values = malloc((size_t)count * sizeof *values + 1);
    if (!values) return trainer_no_memory(err);
    pco_status status = pco_trainer_read(trainer, parameter->name, values, count, err);
    *bad = !status && !diagnose_finite(values, count);
    free(values);
    return status;
}

/* The first bad output of a node, in the order in which they ran; NULL: none. */
static pco_status diagnose_outputs(const trainer_stage *stage, const char **name, pco_error *err)
{
    const pco_graph *graph = pco_executable_graph(stage->executable);
    pco_status status = PCO_OK;
    for (uint32_t n = 0; n < graph->n_nodes && !status && !*name; n++)
        for (uint32_t k = 0; k < graph->nodes[n].n_outputs && !status && !*name; k++) {
            uint32_t t = graph->nodes[n].outputs[k];
            if (t == PCO_NONE || graph->tensors[t].kind != PCO_KIND_OUTPUT) continue;
            const pco_tensor *x = &graph->tensors[t];
            const int64_t count = pco_tensor_elements(x);
            void *data = malloc(x->bytes + 1);
            float *values = malloc((size_t)count * sizeof *values + 1);
            status = data && values ? pco_executable_read(stage->executable, t, data, x->bytes, err)
                                    : trainer_no_memory(err);
            if (!status) status = pco_dtype_to_f32(x->dtype, data, count, values, err);
            if (!status && !diagnose_good(values, count)) *name = x->name;
            free(values);
            free(data);
        }
    return status;
}

static pco_status diagnose_batch(pco_trainer *trainer, int64_t index, const char **name, pco_error *err)
{
    pco_data_batch batch;
    trainer_stage *stage;
    trainer_read_batch(trainer, PCO_DATA_TRAIN, index, &batch);
    pco_status status = trainer_stage_for(trainer, PCO_TRAIN_DIAGNOSE, &batch, &stage, err);
    if (!status)
        status = trainer_write_batch(trainer, stage, &batch, trainer_factor(trainer, batch.tokens), index, err);
    if (!status) status = pco_executable_run(stage->executable, err);
    if (!status) status = diagnose_outputs(stage, name, err);
    return status;
}

pco_status trainer_diagnose(pco_trainer *trainer, double loss, double norm, int *found, pco_error *err)
{
    const int64_t count = trainer->config->accumulation;
    const char *what = isfinite(loss) ? "the norm of the gradients" : "the loss", *name = NULL;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < trainer->training.count && !status && !name; i++) {
        int bad = 0;
        status = diagnose_parameter(trainer, &trainer->training.items[i], &bad, err);
        if (bad) name = trainer->training.items[i].name;
    }
    for (int64_t i = 0; i < count && !status && !name; i++)
        status = diagnose_batch(trainer, trainer->step * count + i, &name, err);
    *found = name != NULL;
    if (status) return status;
    return pco_fail(err, PCO_ERROR_INVALID, "%s of step %lld is %g: %s%s%s; %s", what, (long long)trainer->step + 1,
                    isfinite(loss) ? norm : loss,
                    name ? "the first tensor that is not finite is '" : "every tensor is finite when run node by node",
                    name ? name : "", name ? "'" : "", trainer_kept(trainer));
}
