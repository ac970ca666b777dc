#include "run/own_gradient.h"

#include "base/dtype.h"
#include "base/error.h"
#include "cases/cases_own.h"
#include "graph/graph.h"
#include "oracle/oracle_graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One case as a graph: operands x0 ..., factors u0 ... of the results, "loss", and the gradient "g0" ... of each
 * operand of floats. */
typedef struct own_trial {
    const conf_case *one;
    pco_graph *graph, *lowered;
    uint32_t in[PCO_MAX_INPUTS], out[PCO_MAX_OUTPUTS];
    double *data[PCO_MAX_INPUTS + PCO_MAX_OUTPUTS]; /* of operands, then of factors */
    pco_error *err;
} own_trial;

static void own_name(char text[16], char kind, uint32_t i) { snprintf(text, 16, "%c%u", kind, i); }

static pco_status own_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a gradient");
}

static pco_status own_operand(own_trial *trial, uint32_t i)
{
    char name[16];
    const pco_tensor x = conf_operand_tensor(trial->one, i);
    trial->in[i] = PCO_NONE;
    if (!trial->one->in[i].present) return PCO_OK;
    own_name(name, 'x', i);
    trial->in[i] = pco_graph_input(trial->graph, name, (pco_dtype)x.dtype, x.rank, x.shape);
    void *stored = malloc(x.bytes + 8);
    trial->data[i] = malloc((size_t)(oracle_count(&x) + 1) * sizeof(double));
    if (stored && trial->data[i]) {
        conf_operand_fill(trial->one, i, conf_case_seed(trial->one, 0), stored);
        oracle_decode(x.dtype, stored, trial->data[i], oracle_count(&x));
    }
    free(stored);
    return trial->data[i] && stored ? PCO_OK : own_no_memory(trial->err);
}

/* Numbers in -1 .. 1, by the finaliser of splitmix64 (Steele, Lea, Flood 2014) over a counter. */
static double own_factor(uint32_t k, int64_t i)
{
    uint64_t z = ((uint64_t)i * 8 + k + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}

/* Adds sum u y of result k to the loss. */
static pco_status own_term(own_trial *trial, uint32_t k, uint32_t *loss)
{
    char name[16];
    pco_graph *g = trial->graph;
    const pco_tensor y = g->tensors[trial->out[k]];
    const int64_t count = pco_tensor_elements(&y), flat[1] = {-1};
    double *factors = trial->data[PCO_MAX_INPUTS + k] = malloc((size_t)(count + 1) * sizeof(double));
    if (!factors) return own_no_memory(trial->err);
    for (int64_t i = 0; i < count; i++) factors[i] = own_factor(k, i);
    own_name(name, 'u', k);
    const uint32_t u = pco_graph_input(g, name, PCO_F32, y.rank, y.shape);
    const uint32_t terms = pco_reshape(g, pco_binary(g, PCO_OP_MUL, pco_cast(g, trial->out[k], PCO_F32), u), 1, flat);
    const uint32_t sum = pco_reduce(g, PCO_OP_SUM, terms, 0, 1);
    *loss = *loss == PCO_NONE ? sum : pco_binary(g, PCO_OP_ADD, *loss, sum);
    return PCO_OK;
}

static int own_is_wanted(const own_trial *trial, uint32_t i)
{
    return trial->one->in[i].present && pco_dtype_is_float(trial->one->in[i].dtype);
}

static pco_status own_build(own_trial *trial)
{
    const conf_case *one = trial->one;
    pco_graph *g = trial->graph;
    uint32_t wrt[PCO_MAX_INPUTS], gradients[PCO_MAX_INPUTS], n = 0, loss = PCO_NONE;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < one->n_inputs && !status; i++) {
        status = own_operand(trial, i);
        if (own_is_wanted(trial, i)) wrt[n++] = trial->in[i];
    }
    if (status) return status;
    for (uint32_t k = 0; k < PCO_MAX_OUTPUTS; k++) trial->out[k] = PCO_NONE;
    pco_graph_add_row(g, conf_case_op(one), one->attrs.bytes, trial->in, one->n_inputs, trial->out);
    status = pco_graph_check(g, trial->err);
    for (uint32_t k = 0; k < PCO_MAX_OUTPUTS && !status; k++)
        if (trial->out[k] != PCO_NONE && pco_dtype_is_float(g->tensors[trial->out[k]].dtype))
            status = own_term(trial, k, &loss);
    if (!status && loss == PCO_NONE)
        status = pco_fail(trial->err, PCO_ERROR_INVALID, "it has a gradient and no result of floats");
    if (!status) status = pco_gradients(g, loss, wrt, n, gradients, trial->err);
    if (status) return status;
    for (uint32_t i = 0, k = 0; i < one->n_inputs; i++) {
        char name[16];
        own_name(name, 'g', i);
        if (own_is_wanted(trial, i)) pco_graph_output(g, gradients[k++], name);
    }
    pco_graph_output(g, loss, "loss");
    status = pco_graph_check(g, trial->err);
    return status ? status : oracle_graph_lower(g, &trial->lowered, trial->err);
}

static void own_clear(own_trial *trial)
{
    pco_graph_destroy(trial->graph);
    pco_graph_destroy(trial->lowered);
    for (size_t i = 0; i < sizeof trial->data / sizeof *trial->data; i++) free(trial->data[i]);
}

/* All values of the graph, or NULL with the error. */
static double **own_values(const own_trial *trial, pco_status *status)
{
    const pco_graph *lowered = trial->lowered;
    double **values = calloc(lowered->n_tensors + 1, sizeof *values);
    *status = values ? PCO_OK : own_no_memory(trial->err);
    for (uint32_t k = 0; k < PCO_MAX_INPUTS + PCO_MAX_OUTPUTS && !*status; k++) {
        char name[16];
        own_name(name, k < PCO_MAX_INPUTS ? 'x' : 'u', k % PCO_MAX_INPUTS);
        const uint32_t t = trial->data[k] ? pco_graph_find(lowered, name) : PCO_NONE;
        if (t == PCO_NONE) continue;
        const size_t bytes = (size_t)(oracle_count(&lowered->tensors[t]) + 1) * sizeof(double);
        values[t] = malloc(bytes);
        if (values[t])
            memcpy(values[t], trial->data[k], bytes - sizeof(double));
        else
            *status = own_no_memory(trial->err);
    }
    if (!*status) *status = oracle_graph_run(lowered, values, trial->err);
    if (!*status) return values;
    oracle_graph_free(lowered, values);
    return NULL;
}

static pco_status own_loss(const own_trial *trial, double *loss)
{
    pco_status status;
    double **values = own_values(trial, &status);
    if (values) *loss = values[pco_graph_find(trial->lowered, "loss")][0];
    oracle_graph_free(trial->lowered, values);
    return status;
}

/* (8 (L(h) - L(-h)) - (L(2h) - L(-2h))) / 12h: wrong by h^4 / 30 of the fifth derivative. */
static pco_status own_quotient(const own_trial *trial, uint32_t k, int64_t i, double h, double *quotient)
{
    static const double STEPS[4] = {1, -1, 2, -2}, FACTORS[4] = {8, -8, -1, 1};
    const double x = trial->data[k][i];
    double sum = 0;
    pco_status status = PCO_OK;
    for (int s = 0; s < 4 && !status; s++) {
        double loss = 0;
        trial->data[k][i] = x + STEPS[s] * h;
        status = own_loss(trial, &loss);
        sum += FACTORS[s] * loss;
    }
    trial->data[k][i] = x;
    *quotient = sum / (12 * h);
    return status;
}

/* One element. The bound is that of the table's rules (test_gradients.c): constants of the formula are f32 in a graph,
 * 2^-24 relative each, four of them; differences with h = 2^-10 are off by h^4/30 = 3e-14 of a fifth derivative below
 * 1e4, and by 2^-53 |L| / h = 1e-13 |L|: together below 4e-7 of the largest, and asked is 1e-6. Where the function has
 * a corner, or is steeper, quotients of two steps differ by more, and the element is not judged. */
static pco_status own_element(const own_trial *trial, uint32_t k, int64_t i, double g, double largest,
                              conf_own_gradient *result)
{
    double far, near;
    const double bound = 1e-6 * largest;
    result->elements++;
    pco_status status = own_quotient(trial, k, i, 0x1p-10, &far);
    if (!status && !(fabs(g - far) <= bound)) {
        status = own_quotient(trial, k, i, 0x1p-13, &near);
        if (status || !(fabs(far - near) <= bound)) return status;
        result->right = 0;
        if (!result->detail[0])
            snprintf(result->detail, sizeof result->detail,
                     "%.250s: the gradient of operand %" PRIu32 ", element %" PRId64
                     ", is %.10g, and differences say %.10g",
                     trial->one->label, k, i, g, far);
    }
    if (status) return status;
    result->judged++;
    if (fabs(g - far) / bound > result->worst) result->worst = fabs(g - far) / bound;
    return PCO_OK;
}

static pco_status own_elements(const own_trial *trial, conf_own_gradient *result)
{
    pco_status status;
    double **values = own_values(trial, &status);
    for (uint32_t k = 0; k < trial->one->n_inputs && !status; k++) {
        char name[16];
        if (!own_is_wanted(trial, k)) continue;
        own_name(name, 'g', k);
        const uint32_t t = pco_graph_find(trial->lowered, name);
        const int64_t count = oracle_count(&trial->lowered->tensors[t]);
        double largest = 1;
        for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(values[t][i]));
        for (int64_t i = 0; i < count && !status; i++) status = own_element(trial, k, i, values[t][i], largest, result);
    }
    oracle_graph_free(trial->lowered, values);
    return status;
}

typedef struct own_visit {
    conf_own_gradient *result;
    pco_error *err;
    pco_status status;
} own_visit;

static bool own_case(void *user, const conf_case *one)
{
    own_visit *visit = user;
    pco_error why = {""};
    own_trial trial = {.one = one, .graph = pco_graph_create(), .err = &why};
    pco_status status = trial.graph ? own_build(&trial) : own_no_memory(&why);
    visit->result->cases++;
    if (!status) status = own_elements(&trial, visit->result);
    own_clear(&trial);
    if (status == PCO_ERROR_OUT_OF_HOST_MEMORY) {
        visit->status = pco_fail(visit->err, status, "%s", why.message);
        return false;
    }
    if (status) {
        visit->result->right = 0;
        snprintf(visit->result->detail, sizeof visit->result->detail, "%.150s: %.240s", one->label, why.message);
    }
    return !status;
}

pco_status conf_own_gradient_judge(const pco_operation *own, conf_own_gradient *result, pco_error *err)
{
    own_visit visit = {result, err, PCO_OK};
    *result = (conf_own_gradient){.right = 1};
    conf_cases_own_small(own, own_case, &visit);
    if (visit.status || !result->right) return visit.status;
    result->right = result->judged > 0 && result->judged >= result->elements - result->elements / 10;
    if (!result->right)
        snprintf(result->detail, sizeof result->detail,
                 "%" PRId64 " of %" PRId64 " elements of %" PRIu32
                 " cases have a slope that differences tell: list small shapes, and ranges where it is smooth",
                 result->judged, result->elements, result->cases);
    return PCO_OK;
}
