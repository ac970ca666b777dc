/* Runs the case of a self-test through the plugin ABI, and compares two results. */
#include "runtime/selftest_internal.h"

#include "base/dtype.h"
#include "base/error.h"
#include "runtime/plugin_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run: everything lies in one buffer. */
typedef struct selftest_state {
    const pco_open_device *place;
    const selftest_case *one;
    pco_part view;
    pco_node node;
    pco_node_proposal node_proposal;
    pco_tensor_proposal tensor_proposals[SELFTEST_TENSORS];
    pco_place places[SELFTEST_TENSORS], workspace;
    uint64_t bytes;
    pco_buffer *buffer;
    pco_program *program;
} selftest_state;

static uint64_t selftest_up(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

static pco_status selftest_propose(selftest_state *s, uint32_t variant, pco_error *err)
{
    const pco_graph *graph = s->one->graph;
    uint32_t alignment = s->place->info->buffer_alignment;
    if (alignment < 16) alignment = 16;
    s->node = graph->nodes[0];
    s->node.variant = variant;
    s->view = selftest_part(s->one, &s->node);
    s->node_proposal = (pco_node_proposal){.variant = PCO_NONE, .fused_into = PCO_NONE};
    for (uint32_t t = 0; t < graph->n_tensors; t++)
        s->tensor_proposals[t] =
            (pco_tensor_proposal){.alignment = alignment, .bytes = graph->tensors[t].bytes};
    pco_proposal proposal = {
        .size = sizeof proposal, .nodes = &s->node_proposal, .tensors = s->tensor_proposals};
    pco_status status = s->place->plugin->program->propose(s->place->device, &s->view, &proposal, err);
    return status ? status : pco_proposal_check(s->place->plugin, &s->view, &proposal, err);
}

pco_status selftest_proposed(const pco_open_device *place, const selftest_case *one, uint32_t *variant)
{
    selftest_state s = {.place = place, .one = one};
    pco_error why;
    pco_status status = selftest_propose(&s, PCO_NONE, &why);
    *variant = s.node_proposal.variant;
    return status;
}

/* The operand whose memory output 0 may take, or PCO_NONE: in a part only what a node made is given away. */
static uint32_t selftest_giver(const selftest_state *s)
{
    const pco_tensor *tensors = s->view.tensors;
    const uint32_t out = s->node.outputs[0];
    if (tensors[out].alias != PCO_NONE) return PCO_NONE;
    for (uint32_t k = 0; k < s->node.n_inputs; k++) {
        const uint32_t t = s->node.inputs[k];
        if (!(s->node_proposal.in_place >> k & 1) || t == PCO_NONE || tensors[t].kind != PCO_KIND_INPUT ||
            tensors[t].bytes < tensors[out].bytes)
            continue;
        uint32_t uses = 0;
        for (uint32_t other = 0; other < s->node.n_inputs; other++)
            uses += s->node.inputs[other] == t && !(s->node_proposal.in_place >> other & 1);
        if (uses == 0) return t;
    }
    return PCO_NONE;
}

static void selftest_plan(selftest_state *s, int in_place)
{
    const uint32_t giver = in_place ? selftest_giver(s) : PCO_NONE;
    uint32_t alignment = s->place->info->buffer_alignment;
    if (alignment < 16) alignment = 16;
    for (uint32_t t = 0; t < s->view.n_tensors; t++) {
        uint32_t from = s->view.tensors[t].alias;
        if (t == s->node.outputs[0] && giver != PCO_NONE) from = giver;
        const uint64_t room = selftest_up(s->tensor_proposals[t].bytes, 4);
        if (from != PCO_NONE) {
            s->places[t] = s->places[from];
        } else if (room == 0) {
            s->places[t] = (pco_place){.buffer = PCO_NONE};
        } else {
            const uint64_t at = selftest_up(s->bytes, s->tensor_proposals[t].alignment);
            s->places[t] = (pco_place){.offset = at, .bytes = room};
            s->bytes = at + room;
        }
    }
    s->workspace = (pco_place){.buffer = PCO_NONE};
    if (s->node_proposal.workspace) {
        const uint64_t at = selftest_up(s->bytes, alignment),
                       room = selftest_up(s->node_proposal.workspace, 4);
        s->workspace = (pco_place){.offset = at, .bytes = room};
        s->bytes = at + room;
    }
    if (s->bytes == 0) s->bytes = 4;
}

static pco_status selftest_upload(selftest_state *s, uint32_t t, pco_error *err)
{
    const pco_plugin *plugin = s->place->plugin;
    const pco_tensor *x = &s->view.tensors[t];
    const pco_tensor_proposal *want = &s->tensor_proposals[t];
    const void *data = s->one->data[t];
    void *converted = NULL;
    pco_status status = PCO_OK;
    if (!data || s->places[t].buffer == PCO_NONE) return PCO_OK;
    if (want->layout) {
        if (!(converted = calloc(1, want->bytes + 1)))
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
        status = plugin->program->convert
                     ? plugin->program->convert(s->place->device, x, want->layout, data, converted,
                                                want->bytes, err)
                     : pco_fail(err, PCO_ERROR_INTERNAL, "it cannot convert its own layout");
        data = converted;
    }
    if (!status)
        status = plugin->buffer->write(s->place->device, s->buffer, s->places[t].offset, data,
                                       want->layout ? want->bytes : x->bytes, err);
    free(converted);
    return status;
}

/* Memory full of NaN (of every float type), then the operands. */
static pco_status selftest_write(selftest_state *s, pco_error *err)
{
    const pco_plugin *plugin = s->place->plugin;
    pco_status status = plugin->buffer->create(s->place->device, s->bytes, PCO_USAGE_DEVICE, &s->buffer, err);
    if (status) return status;
    void *garbage = malloc(s->bytes);
    if (!garbage) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
    memset(garbage, 0xff, s->bytes);
    status = plugin->buffer->write(s->place->device, s->buffer, 0, garbage, s->bytes, err);
    free(garbage);
    for (uint32_t t = 0; !status && t < s->view.n_tensors; t++) status = selftest_upload(s, t, err);
    return status;
}

static pco_status selftest_execute(selftest_state *s, pco_error *err)
{
    const pco_plugin *plugin = s->place->plugin;
    pco_device *device = s->place->device;
    uint64_t ticket = 0;
    pco_proposal proposal = {
        .size = sizeof proposal, .nodes = &s->node_proposal, .tensors = s->tensor_proposals};
    const pco_plan plan = {.size = sizeof plan,
                           .n_buffers = 1,
                           .buffers = &s->buffer,
                           .tensors = s->places,
                           .workspaces = &s->workspace};
    pco_status status = plugin->program->prepare(device, &s->view, &proposal, &plan, &s->program, err);
    if (!status)
        status =
            plugin->queue->submit(device, s->program, 0, plugin->program->segments(s->program), &ticket, err);
    if (!status) status = plugin->queue->wait(device, ticket, UINT64_MAX, err);
    return status;
}

static pco_status selftest_read(selftest_state *s, void **results, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t k = 0; !status && k < s->node.n_outputs; k++) {
        const uint32_t t = s->node.outputs[k];
        if (t == PCO_NONE) continue;
        const uint64_t bytes = s->view.tensors[t].bytes;
        if (!(results[k] = calloc(1, bytes + 8)))
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
        if (bytes && s->places[t].buffer != PCO_NONE)
            status = s->place->plugin->buffer->read(s->place->device, s->buffer, s->places[t].offset,
                                                    results[k], bytes, err);
    }
    return status;
}

void selftest_results_free(void **results)
{
    for (uint32_t k = 0; k < PCO_MAX_OUTPUTS; k++) {
        free(results[k]);
        results[k] = NULL;
    }
}

pco_status selftest_run(const pco_open_device *place, const selftest_case *one, uint32_t variant, int in_place,
                        int *was_in_place, void **results, pco_error *err)
{
    selftest_state s = {.place = place, .one = one};
    for (uint32_t k = 0; k < PCO_MAX_OUTPUTS; k++) results[k] = NULL;
    *was_in_place = 0;
    pco_status status = selftest_propose(&s, variant, err);
    if (status) return status;
    *was_in_place = in_place && selftest_giver(&s) != PCO_NONE;
    if (in_place && !*was_in_place) return PCO_OK;
    selftest_plan(&s, in_place);
    status = selftest_write(&s, err);
    if (!status) status = selftest_execute(&s, err);
    if (!status) status = selftest_read(&s, results, err);
    if (s.program) place->plugin->program->destroy(place->device, s.program);
    if (s.buffer) place->plugin->buffer->destroy(place->device, s.buffer);
    if (status) selftest_results_free(results);
    return status;
}

/* ---- comparing ---- */

/* A whole unit in the last place, relative to the number: twice the rounding error to nearest. */
static double selftest_unit(uint32_t type)
{
    switch (type) {
    case PCO_CONTRACT_F64:
        return 0x1p-52;
    case PCO_F16:
        return 0x1p-10;
    case PCO_BF16:
        return 0x1p-7;
    default:
        return 0x1p-23;
    }
}

/* Terms of the longest sum. */
static double selftest_terms(const selftest_case *one)
{
    double most = 1;
    for (uint32_t t = 0; t < one->graph->n_tensors; t++)
        for (uint32_t i = 0; i < one->graph->tensors[t].rank; i++)
            if ((double)one->graph->tensors[t].shape[i] > most)
                most = (double)one->graph->tensors[t].shape[i];
    const pco_tensor *x = &one->graph->tensors[0]; /* sums over several axes */
    return one->graph->n_tensors && x->rank && one->graph->nodes[0].op >= PCO_OP_SUM &&
                   one->graph->nodes[0].op <= PCO_OP_AMAX
               ? (double)pco_tensor_elements(x)
               : most;
}

/* How far apart two right results may be, as a part of |y| + the largest |y|. For a contract with unit u of
 * its arithmetic it is the sum of
 *
 *   2 u_out: both results are rounded to their type;
 *   4 * 16 sqrt(n) u: rounding errors in a sum of n terms grow like a random walk and pass lambda sqrt(n) u
 * with a probability of 2 exp(-lambda^2 / 2) (Higham & Mary 2019, SIAM J. Sci. Comput. 41(5)). lambda = 16; 4
 *     for attention, which has three sums in a row;
 *   16 F u: functions are right to F ulps, the largest figure of the contract; up to four of them stand in a
 *     row, and condition numbers are at most 4 on our operands (pow: |b ln a| <= 2.8).
 *
 * The largest |y| counts as 1 at least where terms can cancel. In f32 with F = 4 and n = 128 that is 9e-5; a
 * wrong tile, mask or lane is wrong by about 1. It is never above 1/4, so that zeros are found whatever a
 * contract declares: with sums in f16 too, since our operands' products are multiples of 1/64, which f16 adds
 * without error up to 16. */
static double selftest_tolerance(const selftest_case *one, const pco_tensor *y, const pco_contract *c)
{
    const pco_node *node = &one->graph->nodes[0];
    const pco_op_info *info = pco_op_find(node->op);
    int converts = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != PCO_NONE && one->graph->tensors[node->inputs[i]].dtype >= PCO_Q8_0)
            converts = 1;
    if (y->dtype == PCO_I32 || y->dtype == PCO_BOOL || (info->bound == PCO_BOUND_EXACT && !converts))
        return 0;
    double sums = selftest_unit(c->accumulate_f32), figure = 0.5;
    if (selftest_unit(c->accumulate_f16) > sums) sums = selftest_unit(c->accumulate_f16);
    if (selftest_unit(c->accumulate_bf16) > sums) sums = selftest_unit(c->accumulate_bf16);
    if (selftest_unit(c->compute) > sums) sums = selftest_unit(c->compute);
    if (node->op == PCO_OP_MATMUL && ((const pco_matmul_attrs *)node->attrs)->accumulate == PCO_F16)
        sums = 0x1p-10;
    const float figures[] = {c->div_ulp, c->sqrt_ulp, c->rsqrt_ulp, c->function_ulp};
    for (int i = 0; i < 4; i++)
        if ((double)figures[i] > figure) figure = (double)figures[i];
    const double functions = selftest_unit(c->compute == PCO_CONTRACT_F64 ? PCO_F32 : c->compute);
    return fmin(0.25, 2 * selftest_unit(y->dtype) + 4 * 16 * sqrt(selftest_terms(one)) * sums +
                          16 * figure * functions);
}

/* Sums that cancel have terms of order 1, whatever is left: a gradient of a norm over one element is nothing
 * but rounding. */
static double selftest_largest(const selftest_case *one, const float *want, int64_t count)
{
    const uint32_t bound = (uint32_t)pco_op_find(one->graph->nodes[0].op)->bound;
    double largest = bound == PCO_BOUND_SUM || bound == PCO_BOUND_COMPOSITE ? 1 : 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(want[i]) && fabs((double)want[i]) > largest) largest = fabs((double)want[i]);
    return largest;
}

static int selftest_differs(double got, double want, double tolerance, double largest)
{
    if (!isfinite(want)) return 0; /* whatever a device makes of it */
    return !(fabs(got - want) <= tolerance * (fabs(want) + largest));
}

/* *agree: 1 or 0. Errors: OUT_OF_HOST_MEMORY. */
static pco_status selftest_agree_floats(const selftest_case *one, const pco_tensor *y, double tolerance,
                                        const void *got, const void *want, int *agree, char *seen,
                                        size_t size, pco_error *err)
{
    const int64_t count = pco_tensor_elements(y);
    float *values = malloc((2 * (size_t)count + 1) * sizeof *values);
    int64_t wrong = 0, first = 0;
    if (!values)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
    pco_status status = pco_dtype_to_f32(y->dtype, got, count, values, err);
    if (!status) status = pco_dtype_to_f32(y->dtype, want, count, values + count, err);
    if (status) {
        free(values);
        return status;
    }
    const double largest = selftest_largest(one, values + count, count);
    for (int64_t i = count; i-- > 0;)
        if (selftest_differs((double)values[i], (double)values[count + i], tolerance, largest))
            wrong++, first = i;
    if (wrong)
        snprintf(seen, size,
                 "%" PRId64 " of %" PRId64 " elements are wrong, element %" PRId64
                 " is %.6g and cpu:reference has %.6g",
                 wrong, count, first, (double)values[first], (double)values[count + first]);
    free(values);
    *agree = wrong == 0;
    return PCO_OK;
}

static int selftest_agree_whole(const pco_tensor *y, const void *got, const void *want, char *seen,
                                size_t size)
{
    const int64_t count = pco_tensor_elements(y);
    int64_t wrong = 0, first = 0, a = 0, b = 0;
    for (int64_t i = count; i-- > 0;) {
        const int64_t x = y->dtype == PCO_I32 ? ((const int32_t *)got)[i] : ((const unsigned char *)got)[i];
        const int64_t w = y->dtype == PCO_I32 ? ((const int32_t *)want)[i] : ((const unsigned char *)want)[i];
        if (x != w) wrong++, first = i, a = x, b = w;
    }
    if (wrong)
        snprintf(seen, size,
                 "%" PRId64 " of %" PRId64 " elements are wrong, element %" PRId64 " is %" PRId64
                 " and cpu:reference has %" PRId64,
                 wrong, count, first, a, b);
    return wrong == 0;
}

pco_status selftest_agree(const selftest_case *one, const pco_contract *contract, void *const *got,
                          void *const *want, pco_verdict *verdict, char *seen, size_t size, pco_error *err)
{
    const pco_node *node = &one->graph->nodes[0];
    int agree = 1;
    pco_status status = PCO_OK;
    for (uint32_t k = 0; !status && agree && k < node->n_outputs; k++) {
        if (node->outputs[k] == PCO_NONE) continue;
        const pco_tensor *y = &one->graph->tensors[node->outputs[k]];
        if (y->dtype == PCO_I32 || y->dtype == PCO_BOOL)
            agree = selftest_agree_whole(y, got[k], want[k], seen, size);
        else
            status = selftest_agree_floats(one, y, selftest_tolerance(one, y, contract), got[k], want[k],
                                           &agree, seen, size, err);
    }
    *verdict = agree ? PCO_VERDICT_GOOD : PCO_VERDICT_BAD;
    return status;
}
