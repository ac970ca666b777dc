#include "train/initialization.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "runtime/registry.h"
#include "runtime/session.h"
#include "train/random.h"

/* Uniform in [-1, 1), a multiple of 2^-23: exact in f32. */
static double init_uniform(const pco_philox *block, int word)
{
    return ((double)(block->word[word] >> 8) * 0x1p-24 - 0.5) * 2;
}

/* Two uniform words to a normal number (Box & Muller 1958); the first is never 0. */
static double init_normal(uint32_t a, uint32_t b)
{
    const double two_pi = 6.28318530717958647692;
    return sqrt(-2 * log(((double)a + 1) * 0x1p-32)) * cos(two_pi * ((double)b * 0x1p-32));
}

/* How many products an element is a sum of, and in how many sums an element is; of more than two dimensions, the last
 * ones are places, as of a convolution. */
static void init_fans(const pco_nn_parameter *parameter, double *in, double *out)
{
    const int64_t *shape = parameter->shape + (parameter->stack ? 1 : 0);
    const uint32_t rank = parameter->rank - (parameter->stack ? 1 : 0);
    double places = 1;
    for (uint32_t i = 2; i < rank; i++) places *= (double)shape[i];
    *out = (double)shape[0] * places;
    *in = rank >= 2 ? (double)shape[1] * places : *out;
}

void pco_initialize(const pco_initialization *how, uint64_t seed, const pco_nn_parameter *parameter, int64_t layers,
                    float *values)
{
    const char *name = parameter->name;
    const int matrix = parameter->rank >= 2;
    const int64_t count = pco_nn_elements(parameter);
    double bound = 0, std = 0, in, out;
    init_fans(parameter, &in, &out);
    if (parameter->role == PCO_NN_ROLE_NORM) {
        for (int64_t i = 0; i < count; i++) values[i] = 1;
        return;
    }
    if (how->type == PCO_INITIALIZATION_ZEROS || (int)parameter->role == PCO_NN_ROLE_ZERO)
        std = 0;
    else if (parameter->role == PCO_NN_ROLE_EMBEDDING)
        std = how->embedding_std > 0 ? how->embedding_std : 1 / sqrt(in);
    else if (matrix && how->type == PCO_INITIALIZATION_NORMAL)
        std = how->std / (parameter->role == PCO_NN_ROLE_RESIDUAL ? sqrt(2 * (double)(layers ? layers : 1)) : 1);
    else if (matrix)
        bound = how->type == PCO_INITIALIZATION_XAVIER ? sqrt(6 / (in + out)) : 1 / sqrt(in);
    if (std == 0 && bound == 0) {
        for (int64_t i = 0; i < count; i++) values[i] = 0;
        return;
    }
    const uint64_t key = seed ^ pco_hash(PCO_HASH_START, name, strlen(name));
    for (int64_t i = 0; i < count; i++) {
        pco_philox r = pco_random_block(key, PCO_RANDOM_WEIGHTS, 0, (uint64_t)(std > 0 ? i / 2 : i / 4));
        int k = (int)(i % 2) * 2;
        values[i] = (float)(std > 0 ? std * init_normal(r.word[k], r.word[k + 1]) : bound * init_uniform(&r, i % 4));
    }
}

static pco_status init_check(const pco_initialization *how, pco_error *err)
{
    if ((uint32_t)how->type > PCO_INITIALIZATION_ZEROS)
        return pco_fail(err, PCO_ERROR_INVALID, "pco_nn_initialize: there is no type %d", (int)how->type);
    if (!(how->std >= 0 && how->std < INFINITY && how->embedding_std >= 0 && how->embedding_std < INFINITY) ||
        (how->type == PCO_INITIALIZATION_NORMAL && how->std == 0))
        return pco_fail(err, PCO_ERROR_INVALID,
                        "pco_nn_initialize: std is %g and embedding_std %g, and should be finite and not negative; "
                        "normal values need a std above 0",
                        how->std, how->embedding_std);
    if (how->layers < 0) return pco_fail(err, PCO_ERROR_INVALID, "pco_nn_initialize: layers is below 0");
    return PCO_OK;
}

pco_status pco_initialize_parameters(const pco_nn_training *training, pco_session *session,
                                     const pco_initialization *how, pco_error *err)
{
    pco_initialization known = {.size = sizeof known};
    pco_status status = how ? pco_copy_sized(&known, sizeof known, how, how->size, err) : PCO_OK;
    if (!status) status = init_check(&known, err);
    for (uint32_t i = 0; i < training->count && !status; i++) {
        const pco_nn_parameter *p = &training->items[i];
        const uint64_t bytes = (uint64_t)pco_nn_elements(p) * sizeof(float);
        float *values = malloc(bytes ? bytes : 1);
        if (!values) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for '%s'", p->name);
        pco_initialize(&known, known.seed, p, known.layers, values);
        status = pco_session_write_state(session, p->name, values, bytes, err);
        free(values);
    }
    return status;
}

pco_status pco_nn_initialize(const pco_nn *nn, pco_session *session, const pco_initialization *how, pco_error *err)
{
    PCO_NEEDS(nn);
    PCO_NEEDS(session);
    PCO_ENTER(pco_session_registry(session));
    if (!nn->training)
        return pco_fail(err, PCO_ERROR_INVALID, "pco_nn_initialize: these weights are a file's, and no parameters");
    return pco_initialize_parameters(nn->training, session, how, err);
}
