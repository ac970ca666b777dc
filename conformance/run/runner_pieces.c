/* The same work in other pieces must give the same bits within one variant: equal operands as one tensor or
 * in one place, a row alone as in its batch, a prompt in chunks as at once. A piece is a problem of its own,
 * cut out of the whole one; its result is compared with that part of the whole result. */
#include "run/runner.h"

#include "base/dtype.h"
#include "base/error.h"
#include "graph/work.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WHOLE = PCO_ROWS_WHOLE };

/* Along which dimension each operand and result is cut. */
typedef struct conf_cut {
    pco_node_rows rows;
    pco_conformance_piece kind; /* PCO_PIECE_KINDS: the whole with other operands */
} conf_cut;

/* The pieces of one dimension of a tensor: `outer` blocks of `n` slices of `bytes` each. */
typedef struct conf_slices {
    uint64_t outer, n, bytes;
} conf_slices;

static conf_slices conf_slices_of(const pco_tensor *tensor, int dim)
{
    conf_slices s = {1, (uint64_t)tensor->shape[dim], 0};
    for (int d = 0; d < dim; d++) s.outer *= (uint64_t)tensor->shape[d];
    s.bytes = s.outer && s.n ? tensor->bytes / s.outer / s.n : 0;
    return s;
}

/* ---- building a piece ---- */

static pco_status conf_piece_operand(conf_problem *piece, uint32_t i, const pco_tensor *desc, const void *data, int dim,
                                     int64_t from, int64_t count, pco_error *err)
{
    uint32_t at = piece->n_tensors++;
    pco_tensor *tensor = &piece->tensors[at];
    *tensor = *desc;
    if (dim != WHOLE) tensor->shape[dim] = count;
    tensor->bytes = oracle_bytes(tensor);
    piece->node.inputs[i] = at;
    uint8_t *to = piece->data[i] = malloc(tensor->bytes + 8);
    if (!to) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a piece of a case");
    if (dim == WHOLE) {
        memcpy(to, data, tensor->bytes);
    } else {
        conf_slices s = conf_slices_of(desc, dim);
        for (uint64_t o = 0; o < s.outer; o++)
            memcpy(to + o * (uint64_t)count * s.bytes, (const uint8_t *)data + (o * s.n + (uint64_t)from) * s.bytes,
                   (uint64_t)count * s.bytes);
    }
    if (tensor->kind == PCO_KIND_CONSTANT) tensor->data = to;
    return PCO_OK;
}

/* Operands cut; outputs are inferred later (conf_piece_run). `merge`: operands that are twins become one
 * tensor. */
static pco_status conf_piece_make(conf_problem *piece, const conf_problem *whole, const conf_cut *cut, int64_t from,
                                  int64_t count, bool merge, pco_error *err)
{
    *piece = (conf_problem){.one = whole->one, .rules = whole->rules, .node = whole->node};
    piece->oracle.op = whole->oracle.op, piece->oracle.attrs = whole->oracle.attrs;
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) piece->node.inputs[i] = PCO_NONE;
    for (uint32_t i = 0; i < whole->node.n_inputs; i++) {
        uint32_t t = whole->node.inputs[i], twin = whole->one->in[i].twin;
        if (t == PCO_NONE) continue;
        if (merge && twin) {
            piece->node.inputs[i] = piece->node.inputs[twin - 1];
            continue;
        }
        pco_status status =
            conf_piece_operand(piece, i, &whole->tensors[t], whole->data[i], cut->rows.in[i], from, count, err);
        if (status) return status;
    }
    return PCO_OK;
}

/* Takes the whole's variant for the piece; false when it has none such. */
static bool conf_piece_force(const conf_run_state *whole, conf_run_state *run)
{
    pco_variant variants[PCO_VARIANTS];
    uint32_t count;
    pco_error why = {""};
    if (pco_trial_supports(&run->trial, &why)) return false;
    if (pco_trial_variants(&run->trial, variants, &count, &why)) return false;
    const uint32_t v = pco_variant_find(variants, count, &whole->variant);
    if (v != PCO_NONE) conf_run_force(run, variants, v);
    return v != PCO_NONE;
}

/* Is there NaN in both? Its sign and payload are nobody's promise, and compilers differ between shapes. */
static bool conf_piece_both_nan(uint32_t dtype, const uint8_t *a, const uint8_t *b)
{
    double x, y;
    if (!pco_dtype_is_float(dtype)) return false;
    oracle_decode(dtype, a, &x, 1);
    oracle_decode(dtype, b, &y, 1);
    return isnan(x) && isnan(y);
}

/* Where the bits differ, both values, and, for pieces of rows, the way out. */
static pco_status conf_piece_differs(const pco_tensor *y, const pco_variant *variant, const char *what, uint64_t at,
                                     const uint8_t *expected, const uint8_t *got, bool rows, pco_error *err)
{
    const uint64_t step = oracle_block_bytes(y->dtype), element = at / step;
    double both[2];
    char place[128] = "", text[PCO_VARIANT_TEXT], texts[2][PCO_NUMBER_TEXT];
    oracle_decode(y->dtype, expected, &both[0], 1);
    oracle_decode(y->dtype, got, &both[1], 1);
    uint64_t rest = element, size = y->bytes / step;
    for (uint32_t d = 0, length = 0; d < y->rank; d++) {
        size /= (uint64_t)y->shape[d];
        length += (uint32_t)snprintf(place + length, sizeof place - length, "%s%" PRIu64, d ? "," : "", rest / size);
        rest %= size;
    }
    pco_status status =
        pco_fail(err, PCO_ERROR_INTERNAL, "%s differs from the whole: '%s' [%s] is %s there and %s in the whole", what,
                 y->name, place, pco_number_text(both[1], texts[1]), pco_number_text(both[0], texts[0]));
    const size_t length = strlen(err->message);
    if (rows)
        snprintf(err->message + length, sizeof err->message - length,
                 "; one variant has one result for any number of rows: what adds in another order for some of them "
                 "must be listed by `variants` under a name of its own, beside '%s'",
                 pco_variant_text(variant, text));
    return status;
}

static pco_status conf_piece_compare(const conf_run_state *whole, const conf_run_state *piece, const conf_cut *cut,
                                     int64_t from, int64_t count, const char *what, pco_error *err)
{
    for (uint32_t i = 0; i < piece->problem->node.n_outputs; i++) {
        const pco_tensor *y = &whole->problem->tensors[whole->problem->node.outputs[i]];
        const uint8_t *all = whole->first[i], *part = piece->first[i];
        if (!all || !part) continue;
        int dim = cut->rows.out[i];
        conf_slices s = dim == WHOLE ? (conf_slices){1, 1, y->bytes} : conf_slices_of(y, dim);
        uint64_t bytes = (dim == WHOLE ? 1 : (uint64_t)count) * s.bytes;
        for (uint64_t o = 0; o < s.outer; o++) {
            const uint8_t *expected = all + (o * s.n + (dim == WHOLE ? 0 : (uint64_t)from)) * s.bytes;
            const uint8_t *got = part + o * bytes;
            for (uint64_t at = 0, step = oracle_block_bytes(y->dtype); at < bytes; at += step)
                if (memcmp(expected + at, got + at, step) != 0 &&
                    !conf_piece_both_nan(y->dtype, expected + at, got + at))
                    return conf_piece_differs(y, &whole->variant, what, (uint64_t)(expected - all) + at, expected + at,
                                              got + at, dim != WHOLE, err);
        }
    }
    return PCO_OK;
}

/* Runs a piece, if this variant can, and compares. Releases the piece. `overlay`: twins lie in one place. */
static pco_status conf_piece_run(const conf_run_state *whole, conf_problem *piece, const conf_cut *cut, int64_t from,
                                 int64_t count, bool overlay, const char *what, pco_error *err)
{
    pco_status status = conf_problem_infer(piece, err);
    conf_run_state run = conf_run_start(whole->device, piece);
    run.constants = whole->constants;
    bool runs = false;
    if (!status) {
        piece->node.variant = PCO_NONE;
        runs = conf_piece_force(whole, &run);
    }
    for (uint32_t i = 0; i < piece->node.n_inputs && overlay; i++)
        if (whole->problem->one->in[i].twin) {
            run.overlay[0] = piece->node.inputs[i];
            run.overlay[1] = piece->node.inputs[whole->problem->one->in[i].twin - 1];
        }
    if (!status && runs) {
        status = conf_run_propose(&run, err);
        if (!status) status = conf_run_times(&run, PCO_NONE, 1, what, err);
        if (status == PCO_ERROR_UNSUPPORTED)
            status = PCO_OK; /* the piece does not suit the variant */
        else if (status)
            status = pco_fail_prefix(err, status, "%s", what);
        else
            status = conf_piece_compare(whole, &run, cut, from, count, what, err);
        if (whole->invariance && cut->kind < PCO_PIECE_KINDS && (!status || status == PCO_ERROR_INTERNAL)) {
            whole->invariance->compared[cut->kind]++;
            whole->invariance->differed[cut->kind] += status != PCO_OK;
        }
    }
    conf_run_clear(&run);
    conf_problem_clear(piece);
    return status;
}

/* ---- where a case can be cut ---- */

static conf_cut conf_cut_none(void) { return (conf_cut){.rows = pco_node_rows_whole(), .kind = PCO_PIECE_KINDS}; }

static const pco_tensor *conf_cut_tensor(const conf_problem *p, uint32_t input)
{
    return input < p->node.n_inputs && p->node.inputs[input] != PCO_NONE ? &p->tensors[p->node.inputs[input]] : NULL;
}

/* ---- prompts in chunks ---- */

static bool conf_chunk_fits(const conf_problem *p)
{
    if (p->node.op != PCO_OP_SCALED_DOT_PRODUCT_ATTENTION) return false;
    const pco_scaled_dot_product_attention_attrs *attrs = p->node.attrs;
    const pco_tensor *q = conf_cut_tensor(p, 0), *k = conf_cut_tensor(p, 1);
    int row = attrs->heads_first ? 2 : 1;
    return attrs->causal && !attrs->window && !attrs->weights && q->shape[row] > 1 && k->shape[row] > 0;
}

/* Adds an operand of one i32 per sequence. */
static pco_status conf_chunk_numbers(conf_problem *piece, uint32_t input, const int32_t *values, int64_t batch,
                                     pco_error *err)
{
    pco_tensor desc = {.dtype = PCO_I32,
                       .kind = PCO_KIND_INPUT,
                       .rank = 1,
                       .alias = PCO_NONE,
                       .shape = {batch},
                       .bytes = 4 * (uint64_t)batch,
                       .name = input == 4 ? "in4" : "in5"};
    if (piece->node.n_inputs <= input) piece->node.n_inputs = input + 1;
    return conf_piece_operand(piece, input, &desc, values, WHOLE, 0, 0, err);
}

/* Keys and values that a cache would not hold yet. */
static void conf_chunk_forget(conf_problem *piece, uint32_t input, int row, const int32_t *lengths)
{
    pco_tensor *x = &piece->tensors[piece->node.inputs[input]];
    conf_slices s = conf_slices_of(x, row);
    uint64_t per = s.outer / (uint64_t)x->shape[0];
    double garbage = piece->rules.nan_inf ? (double)NAN : 100.0;
    uint64_t step = oracle_block_bytes(x->dtype);
    for (uint64_t o = 0; o < s.outer; o++)
        for (uint64_t t = (uint64_t)lengths[o / per]; t < s.n; t++)
            for (uint64_t at = 0; at < s.bytes; at += step)
                oracle_encode(x->dtype, &garbage, (uint8_t *)piece->data[input] + (o * s.n + t) * s.bytes + at, 1);
}

/* Queries from .. from + count, over a cache that holds what came up to then and garbage behind it. */
static pco_status conf_chunk_run(const conf_run_state *whole, int64_t from, int64_t count, pco_error *err)
{
    enum { MAX_BATCH = 16 };
    const conf_problem *p = whole->problem;
    const pco_scaled_dot_product_attention_attrs *attrs = p->node.attrs;
    const pco_tensor *q = conf_cut_tensor(p, 0), *k = conf_cut_tensor(p, 1), *mask = conf_cut_tensor(p, 3);
    int row = attrs->heads_first ? 2 : 1;
    int64_t batch = q->shape[0], keys = k->shape[row];
    int32_t lengths[MAX_BATCH], starts[MAX_BATCH];
    if (batch > MAX_BATCH) return PCO_OK;
    for (int64_t b = 0; b < batch; b++) {
        int32_t length = (int32_t)keys, start = 0;
        if (conf_cut_tensor(p, 4)) memcpy(&length, (const char *)p->data[4] + 4 * b, 4);
        if (conf_cut_tensor(p, 5)) memcpy(&start, (const char *)p->data[5] + 4 * b, 4);
        starts[b] = start + (int32_t)from;
        lengths[b] = start + (int32_t)(from + count) < length ? start + (int32_t)(from + count) : length;
        if (lengths[b] < 0) lengths[b] = 0;
    }
    conf_cut cut = conf_cut_none();
    cut.rows.in[0] = cut.rows.out[0] = row;
    cut.kind = PCO_PIECE_CHUNKS;
    if (mask && mask->rank >= 2 && mask->shape[mask->rank - 2] == q->shape[row] && q->shape[row] > 1)
        cut.rows.in[3] = (int)mask->rank - 2;
    conf_problem without = *p, piece;
    without.node.n_inputs = without.node.n_inputs > 4 ? 4 : without.node.n_inputs;
    pco_status status = conf_piece_make(&piece, &without, &cut, from, count, false, err);
    if (!status) status = conf_chunk_numbers(&piece, 4, lengths, batch, err);
    if (!status) status = conf_chunk_numbers(&piece, 5, starts, batch, err);
    for (uint32_t i = 1; i < 3 && !status; i++) conf_chunk_forget(&piece, i, row, lengths);
    if (status) {
        conf_problem_clear(&piece);
        return status;
    }
    char what[96];
    snprintf(what, sizeof what, "the chunk of %" PRId64 " queries from %" PRId64 " on", count, from);
    return conf_piece_run(whole, &piece, &cut, from, count, false, what, err);
}

static pco_status conf_run_chunks(const conf_run_state *whole, pco_error *err)
{
    const pco_scaled_dot_product_attention_attrs *attrs = whole->problem->node.attrs;
    int64_t rows = conf_cut_tensor(whole->problem, 0)->shape[attrs->heads_first ? 2 : 1];
    int64_t first = (rows + 1) / 2;
    pco_status status = conf_chunk_run(whole, 0, first, err);
    if (!status) status = conf_chunk_run(whole, first, rows - first, err);
    return status ? status : conf_chunk_run(whole, rows - 1, 1, err);
}

/* ---- all of them ---- */

static bool conf_run_has_twins(const conf_problem *p)
{
    for (uint32_t i = 0; i < p->node.n_inputs; i++)
        if (p->one->in[i].twin) return true;
    return false;
}

/* Equal operands: once as one tensor, once as two tensors in one place. */
static pco_status conf_run_aliased(const conf_run_state *whole, pco_error *err)
{
    conf_cut cut = conf_cut_none();
    for (int overlay = 0; overlay < 2; overlay++) {
        conf_problem piece;
        pco_status status = conf_piece_make(&piece, whole->problem, &cut, 0, 0, !overlay, err);
        if (status) {
            conf_problem_clear(&piece);
            return status;
        }
        status = conf_piece_run(whole, &piece, &cut, 0, 0, overlay,
                                overlay ? "with equal operands in one place, the result"
                                        : "with one tensor for equal operands, the result",
                                err);
        if (status) return status;
    }
    return PCO_OK;
}

pco_status conf_run_pieces(const conf_run_state *whole, int rows, pco_error *err)
{
    const conf_problem *p = whole->problem;
    pco_status status = PCO_OK;
    if (conf_run_has_twins(p)) status = conf_run_aliased(whole, err);
    if (!status && rows && conf_chunk_fits(p)) status = conf_run_chunks(whole, err);
    const conf_cut cut = {.rows = pco_node_rows_of(p->tensors, &p->node), .kind = PCO_PIECE_ROWS};
    if (cut.rows.n < 2) return status;
    for (int r = 0; r < rows && r < cut.rows.n && !status; r++) {
        conf_problem piece;
        int64_t at = (p->one->id / 7 + r * (cut.rows.n / rows + 1)) % cut.rows.n;
        char what[64];
        snprintf(what, sizeof what, "row %" PRId64 " alone", at);
        status = conf_piece_make(&piece, p, &cut, at, 1, false, err);
        if (status)
            conf_problem_clear(&piece);
        else
            status = conf_piece_run(whole, &piece, &cut, at, 1, false, what, err);
    }
    return status;
}
