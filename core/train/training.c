/* portico/train.h: updates of any graph, whose batches the caller writes. */
#include "train/training.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/passes.h"
#include "train/initialization.h"

static pco_status training_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for training");
}

/* ---- what is asked for ---- */

static int training_between(double value, double least, double most) { return value >= least && value <= most; }

/* 0 becomes what the header says, and what makes no sense an error. */
static pco_status training_complete(pco_training_params *p, pco_error *err)
{
    const char *wrong = NULL;
    if (p->beta1 == 0) p->beta1 = 0.9;
    if (p->beta2 == 0) p->beta2 = 0.999;
    if (p->eps == 0) p->eps = 1e-8;
    if (p->accumulation == 0) p->accumulation = 1;
    if (p->loss_scale == 0) p->loss_scale = 65536;
    if (p->loss_scale_interval == 0) p->loss_scale_interval = 1000;
    int exponent;
    const int falls = p->schedule == PCO_SCHEDULE_LINEAR || p->schedule == PCO_SCHEDULE_COSINE;
    if ((uint32_t)p->optimizer > PCO_OPTIMIZER_ADAM) wrong = "optimizer is none of adamw, sgd and adam";
    if ((uint32_t)p->schedule > PCO_SCHEDULE_INVERSE_SQRT) wrong = "schedule is no pco_schedule_type";
    if (!training_between(p->beta1, 0, 0.999999) || !training_between(p->beta2, 0, 0.999999))
        wrong = "beta1 and beta2 must be from 0 to 0.999999";
    if (!training_between(p->eps, 0x1p-126, 1)) wrong = "eps must be from 2^-126 to 1";
    if (!training_between(p->momentum, 0, 0.999999)) wrong = "momentum must be from 0 to 0.999999";
    if (p->nesterov && !(p->momentum > 0)) wrong = "nesterov needs a momentum";
    if (!training_between(p->weight_decay, 0, 100)) wrong = "weight_decay must be from 0 to 100";
    if (!(p->learning_rate > 0 && p->learning_rate <= 1e6)) wrong = "learning_rate must be above 0, and at most 1e6";
    if (!training_between(p->min_learning_rate, 0, p->learning_rate))
        wrong = "min_learning_rate must be from 0 to learning_rate";
    if (!training_between((double)p->warmup_steps, 0, INT32_MAX) || !training_between((double)p->steps, 0, INT32_MAX))
        wrong = "warmup_steps and steps must be from 0 to 2^31 - 1";
    if (falls && p->steps <= p->warmup_steps) wrong = "a rate that falls needs more steps than warmup_steps";
    if (p->schedule == PCO_SCHEDULE_INVERSE_SQRT && p->width < 1) wrong = "inverse_sqrt needs the model's width";
    if (!training_between(p->max_grad_norm, 0, 1e30)) wrong = "max_grad_norm must be 0 or more";
    if (!training_between((double)p->accumulation, 1, 1 << 20)) wrong = "accumulation must be from 1 to 2^20";
    if (p->dtype != PCO_F32 && p->dtype != PCO_F16 && p->dtype != PCO_BF16)
        wrong = "dtype is none of f32, f16 and bf16";
    if (!training_between(p->loss_scale, 1, PCO_LOSS_SCALE_MOST) || frexp(p->loss_scale, &exponent) != 0.5)
        wrong = "loss_scale must be a power of two from 1 to 2^24";
    if (!training_between((double)p->loss_scale_interval, 1, INT32_MAX))
        wrong = "loss_scale_interval must be from 1 to 2^31 - 1";
    return wrong ? pco_fail(err, PCO_ERROR_INVALID, "pco_training_create: %s", wrong) : PCO_OK;
}

pco_status pco_training_create(pco_session *session, const pco_training_params *params, pco_training **training,
                               pco_error *err)
{
    PCO_NEEDS(training);
    *training = NULL;
    PCO_NEEDS(session);
    PCO_NEEDS(params);
    PCO_ENTER(pco_session_registry(session));
    pco_training_params known = {.size = sizeof known};
    pco_status status = pco_copy_sized(&known, sizeof known, params, params->size, err);
    if (!status) status = training_complete(&known, err);
    if (status) return status;
    pco_training *made = calloc(1, sizeof *made);
    if (!made) return training_no_memory(err);
    const pco_loss_scaling scaling = {known.loss_scale, known.loss_scale_interval};
    made->session = session;
    made->params = known;
    made->optimizer = (pco_optimizer_config){.type = known.optimizer,
                                             .beta1 = known.beta1,
                                             .beta2 = known.beta2,
                                             .eps = known.eps,
                                             .momentum = known.momentum,
                                             .nesterov = known.nesterov != 0,
                                             .weight_decay = known.weight_decay,
                                             .decay_all = known.decay_all != 0};
    made->schedule = (pco_schedule){.type = known.schedule,
                                    .learning_rate = known.learning_rate,
                                    .min_learning_rate = known.min_learning_rate,
                                    .warmup_steps = known.warmup_steps,
                                    .steps = known.steps,
                                    .d_model = known.width};
    made->scale = pco_loss_scale_begin(known.dtype, &scaling);
    pco_session_hold(session);
    *training = made;
    return PCO_OK;
}

void pco_training_destroy(pco_training *training)
{
    if (!training) return;
    for (uint32_t i = 0; i < training->n_batches; i++) pco_executable_destroy(training->batches[i]);
    pco_executable_destroy(training->apply);
    free(training->batches);
    pco_nn_training_release(&training->parameters);
    pco_session_release(training->session);
    free(training);
}

int64_t pco_training_steps(const pco_training *training) { return training ? training->step : 0; }

/* ---- graphs ---- */

/* The parameters of all graphs, which are those of the first. */
static pco_status training_take_parameters(pco_training *training, const pco_nn_training *of, pco_error *err)
{
    pco_nn_training *list = &training->parameters;
    if (!of->count) return pco_fail(err, PCO_ERROR_INVALID, "pco_training_add: the graph has no parameters");
    if (!list->count) return pco_nn_training_copy(list, of) ? PCO_OK : training_no_memory(err);
    const char *odd = NULL;
    for (uint32_t i = 0; i < of->count && !odd; i++) {
        const pco_nn_parameter *p = &of->items[i], *known = pco_nn_training_find(list, p->name);
        if (!known || known->rank != p->rank || memcmp(known->shape, p->shape, p->rank * sizeof *p->shape) != 0)
            odd = p->name;
    }
    for (uint32_t i = 0; i < list->count && !odd; i++)
        if (!pco_nn_training_find(of, list->items[i].name)) odd = list->items[i].name;
    if (!odd) return PCO_OK;
    return pco_fail(err, PCO_ERROR_INVALID,
                    "pco_training_add: '%s' is not the same in this graph and in the one before; all graphs of a "
                    "training have the same parameters",
                    odd);
}

/* Behind the loss: gradients, and the update or sums. */
static pco_status training_finish(const pco_training *training, pco_nn *nn, uint32_t loss, pco_error *err)
{
    pco_graph *graph = nn->graph;
    const pco_nn_training *parameters = nn->training;
    const pco_training_params *p = &training->params;
    uint32_t *gradients = calloc(2 * (size_t)parameters->count, sizeof *gradients),
             *wrt = gradients + parameters->count;
    if (!gradients) return training_no_memory(err);
    pco_graph_scope(graph, "loss");
    const int64_t one[1] = {1};
    loss = pco_reshape(graph, loss, 1, one);
    const uint32_t factor = pco_graph_value(graph, "loss_scale", PCO_F32, 1, one);
    const uint32_t scaled = pco_binary(graph, PCO_OP_MUL, loss, factor);
    for (uint32_t i = 0; i < parameters->count; i++) wrt[i] = parameters->items[i].tensor;
    pco_status status = pco_gradients(graph, scaled, wrt, parameters->count, gradients, err);
    for (const pco_nn_layer_scope *layer = parameters->layers; layer && p->recompute && !status; layer = layer->before)
        pco_graph_recompute(graph, scaled, layer->name);
    if (!status && p->accumulation > 1)
        pco_update_accumulate(nn, gradients);
    else if (!status)
        pco_update_build(nn, &training->optimizer, p->max_grad_norm, training->scale.on, gradients);
    pco_graph_output(graph, loss, "loss");
    free(gradients);
    return status ? status : pco_graph_check(graph, err);
}

/* The update from summed gradients, which has no batch. */
static pco_status training_build_apply(pco_training *training, pco_error *err)
{
    const pco_executable_params params = {.size = sizeof params, .name = "the update"};
    pco_graph *graph = pco_graph_create();
    const pco_nn nn = {.graph = graph, .training = &training->parameters};
    uint32_t *gradients = calloc(training->parameters.count, sizeof *gradients);
    pco_status status = graph && gradients ? PCO_OK : training_no_memory(err);
    if (!status) {
        pco_update_apply(&nn, &training->optimizer, training->params.max_grad_norm, training->scale.on, gradients);
        status = pco_graph_check(graph, err);
    }
    if (!status) status = pco_executable_create(training->session, graph, &params, &training->apply, err);
    free(gradients);
    pco_graph_destroy(graph);
    return status;
}

static pco_status training_check_graph(const pco_training *training, const pco_nn *nn, uint32_t loss, pco_error *err)
{
    pco_tensor x;
    pco_status status = pco_graph_check(nn->graph, err);
    if (status) return status;
    if (!nn->training)
        return pco_fail(err, PCO_ERROR_INVALID, "pco_training_add: these weights are a file's, and no parameters");
    if (nn->training->dtype != training->params.dtype)
        return pco_fail(err, PCO_ERROR_INVALID, "pco_training_add: dtype is another one than in pco_training_params");
    status = pco_graph_describe(nn->graph, loss, &x, err);
    if (!status && (x.dtype != PCO_F32 || pco_tensor_elements(&x) != 1))
        status =
            pco_fail(err, PCO_ERROR_INVALID, "pco_training_add: the loss '%s' is not f32 with one element", x.name);
    return status;
}

static pco_status training_make(pco_training *training, pco_nn *nn, uint32_t loss, pco_error *err)
{
    const pco_executable_params params = {.size = sizeof params, .name = "training"};
    pco_executable **grown = realloc(training->batches, (training->n_batches + 1) * sizeof *grown);
    if (!grown) return training_no_memory(err);
    training->batches = grown;
    pco_status status = training_finish(training, nn, loss, err);
    if (!status && training->params.accumulation > 1 && !training->apply) status = training_build_apply(training, err);
    if (!status)
        status = pco_executable_create(training->session, nn->graph, &params, &grown[training->n_batches], err);
    if (!status) training->n_batches++;
    return status;
}

pco_status pco_training_add(pco_training *training, pco_nn *nn, uint32_t loss, pco_executable **executable,
                            pco_error *err)
{
    PCO_NEEDS(executable);
    *executable = NULL;
    PCO_NEEDS(training);
    PCO_NEEDS(nn);
    PCO_ENTER(pco_session_registry(training->session));
    pco_status status = training_check_graph(training, nn, loss, err);
    if (!status) status = training_take_parameters(training, nn->training, err);
    if (!status) status = training_make(training, nn, loss, err);
    if (!status) {
        *executable = training->batches[training->n_batches - 1];
    } else if (!training->n_batches) { /* the next graph is the first */
        pco_nn_training_release(&training->parameters);
        pco_executable_destroy(training->apply);
        training->apply = NULL;
    }
    return status;
}

pco_status training_has_graph(const pco_training *training, const char *function, pco_error *err)
{
    if (training->n_batches) return PCO_OK;
    return pco_fail(err, PCO_ERROR_INVALID, "%s: there is nothing to train yet: call pco_training_add first", function);
}

pco_status pco_training_initialize(pco_training *training, const pco_initialization *how, pco_error *err)
{
    PCO_NEEDS(training);
    PCO_ENTER(pco_session_registry(training->session));
    pco_status status = training_has_graph(training, __func__, err);
    return status ? status : pco_initialize_parameters(&training->parameters, training->session, how, err);
}

/* ---- steps ---- */

static pco_status training_write(pco_executable *executable, const char *name, const void *data, uint64_t bytes,
                                 pco_error *err)
{
    const uint32_t handle = pco_executable_tensor(executable, name);
    return handle == PCO_NONE ? PCO_OK : pco_executable_write(executable, handle, data, bytes, err);
}

static pco_status training_read(pco_executable *executable, const char *name, double *value, pco_error *err)
{
    float read = 0;
    pco_status status =
        pco_executable_read(executable, pco_executable_tensor(executable, name), &read, sizeof read, err);
    *value = (double)read;
    return status;
}

/* One batch, which is number step * accumulation + pending. */
static pco_status training_batch(const pco_training *training, pco_executable *executable, pco_error *err)
{
    const pco_training_params *p = &training->params;
    const uint64_t index = (uint64_t)(training->step * p->accumulation + training->pending);
    const int32_t seed[2] = {(int32_t)(uint32_t)p->seed, (int32_t)(uint32_t)(p->seed >> 32)},
                  offset[2] = {(int32_t)(uint32_t)index, (int32_t)(uint32_t)(index >> 32)};
    const float factor = (float)(training->scale.factor / (double)p->accumulation), keep = training->pending > 0;
    pco_status status = training_write(executable, "loss_scale", &factor, sizeof factor, err);
    if (!status) status = training_write(executable, "keep", &keep, sizeof keep, err);
    if (!status) status = training_write(executable, "dropout_seed", seed, sizeof seed, err);
    if (!status) status = training_write(executable, "dropout_offset", offset, sizeof offset, err);
    return status;
}

/* The numbers of the next update. */
static pco_status training_write_run(const pco_training *training, pco_executable *executable, double rate,
                                     pco_error *err)
{
    const double t = (double)(training->step - training->scale.skipped) + 1; /* moments know no skipped update */
    return pco_update_write(executable, &training->optimizer, rate, t, training->scale.factor, err);
}

/* A parameter that is not finite; NULL: there is none. */
static pco_status training_find_bad(const pco_training *training, const char **name, pco_error *err)
{
    for (uint32_t i = 0; i < training->parameters.count; i++) {
        const pco_nn_parameter *p = &training->parameters.items[i];
        const int64_t count = pco_nn_elements(p);
        float *values = malloc((size_t)count * sizeof *values + 1);
        pco_status status =
            values ? pco_session_read_state(training->session, p->name, values, (uint64_t)count * sizeof *values, err)
                   : training_no_memory(err);
        for (int64_t k = 0; k < count && !status; k++)
            if (!isfinite(values[k])) *name = p->name;
        free(values);
        if (status || *name) return status;
    }
    return PCO_OK;
}

static pco_status training_not_finite(pco_training *training, const pco_training_result *result, pco_error *err)
{
    const char *name = NULL;
    pco_status status = training_find_bad(training, &name, err);
    if (status) return status;
    const int of_loss = !isfinite(result->loss);
    return pco_fail(err, PCO_ERROR_INVALID, "%s of step %" PRId64 " is %g: %s%s%s",
                    of_loss ? "the loss" : "the norm of the gradients", training->step + 1,
                    of_loss ? result->loss : result->grad_norm, name ? "parameter '" : "all parameters are finite",
                    name ? name : "", name ? "' is not finite" : ", and as they were before it");
}

/* Runs the batch, and the update that it ends. */
static pco_status training_run(pco_training *training, pco_executable *executable, pco_training_result *result,
                               pco_error *err)
{
    const int many = training->params.accumulation > 1;
    pco_executable *last = many ? training->apply : executable;
    result->updated = training->pending + 1 == training->params.accumulation;
    result->learning_rate = pco_schedule_rate(&training->schedule, training->step + 1);
    result->loss_scale = training->scale.factor;
    pco_status status = training_batch(training, executable, err);
    if (!status && result->updated) status = training_write_run(training, last, result->learning_rate, err);
    if (!status) status = pco_executable_run(executable, err);
    if (!status) status = training_read(executable, "loss", &result->loss, err);
    /* the forward pass knows no factor, so a bad loss is no overflow that a smaller one would cure */
    if (!status && !isfinite(result->loss)) return training_not_finite(training, result, err);
    if (status || !result->updated) return status;
    if (many) status = pco_executable_run(last, err);
    if (!status) status = training_read(last, "grad_norm", &result->grad_norm, err);
    if (status) return status;
    result->skipped = !isfinite(result->grad_norm);
    if (!pco_loss_scale_step(&training->scale, !result->skipped)) return training_not_finite(training, result, err);
    training->step++;
    return PCO_OK;
}

pco_status pco_training_step(pco_training *training, pco_executable *executable, pco_training_result *result,
                             pco_error *err)
{
    PCO_NEEDS(training);
    PCO_NEEDS(executable);
    PCO_ENTER(pco_session_registry(training->session));
    pco_training_result known = {.size = sizeof known};
    pco_status status = result ? pco_check_sized(sizeof known, result->size, err) : PCO_OK;
    uint32_t i = 0;
    while (i < training->n_batches && training->batches[i] != executable) i++;
    if (!status && i == training->n_batches)
        status = pco_fail(err, PCO_ERROR_INVALID, "pco_training_step: the executable is none of this training's");
    if (status) return status;
    status = training_run(training, executable, &known, err);
    training->pending = status || known.updated ? 0 : training->pending + 1;
    if (status) return status;
    known.step = training->step;
    return result ? pco_fill_sized(result, &known, sizeof known, err) : PCO_OK;
}
