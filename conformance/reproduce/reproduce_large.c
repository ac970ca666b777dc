/* The files of a case whose tensors are too large to be stored: one period of each operand, with which repro.c fills
 * the memory, and the rows that are judged. */
#include "reproduce/reproduce_internal.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static pco_status conf_large_operands(conf_writing *w, const conf_large_view *large)
{
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < w->problem->one->n_inputs && !status; i++) {
        char name[80];
        pco_tensor row = w->problem->tensors[w->problem->node.inputs[i]];
        snprintf(name, sizeof name, "%s.npy", row.name);
        row.rank = 1;
        row.shape[0] = (int64_t)(large->buffers[i].period / (uint64_t)oracle_block_bytes(row.dtype));
        row.bytes = large->buffers[i].period;
        status = conf_write_values(w, name, &row, large->buffers[i].table, w->err);
        snprintf(name, sizeof name, "buffer%u.bin", i);
        if (!status) status = conf_folder_write(&w->folder, name, large->buffers[i].table, row.bytes, w->err);
    }
    return status;
}

static void conf_large_memory(conf_writing *w, const conf_large_view *large)
{
    const uint32_t y = w->problem->node.outputs[0];
    pco_print(&w->tables, "static buffer buffers[] = {");
    for (uint32_t b = 0; b < large->n_buffers; b++) {
        pco_print(&w->tables, "%s{.bytes = %" PRIu64 ", .data = %" PRIu64 ", .period = %" PRIu64 ", .file = \"",
                  b % 2 == 0 ? "\n    " : " ", large->buffers[b].bytes, large->buffers[b].data,
                  large->buffers[b].period ? large->buffers[b].period : 1);
        if (large->buffers[b].period) pco_print(&w->tables, "buffer%u.bin", b);
        pco_print(&w->tables, "\"},");
    }
    pco_print(&w->tables, " };\nstatic const window writable[] = {{%u, 0, %" PRIu64 "}", y,
              (w->problem->tensors[y].bytes + 3) / 4 * 4);
    w->n_writable = w->n_fresh = 1;
    for (uint32_t b = w->problem->n_tensors; b < large->n_buffers; b++, w->n_writable++, w->n_fresh++)
        pco_print(&w->tables, ", {%u, 0, %" PRIu64 "}", b, large->buffers[b].bytes); /* the workspace */
    pco_print(&w->tables, "};\n");
}

/* One row into the two arrays, and its line of the table. */
static void conf_large_put(conf_writing *w, const conf_large_view *large, int64_t row, const conf_problem *piece,
                           int64_t from, double *expected, double *bound)
{
    const oracle_output *out = &piece->oracle.out[0];
    const pco_tensor *y = &w->problem->tensors[w->problem->node.outputs[0]];
    const uint64_t step = (uint64_t)oracle_block_bytes(y->dtype);
    memcpy(expected + from, out->value, (size_t)out->count * sizeof *expected);
    conf_bounds(piece, out, bound + from);
    pco_print(&w->tables,
              "\n    {.expected = \"y.expected.npy\", .bound = \"y.bound.npy\", .type = \"%s\", .buffer = "
              "%u, .offset = "
              "%" PRIu64 ", .count = %" PRId64 ", .zero = %d, .edge = %.17g, .from = %" PRId64 ", .step = %" PRId64
              "},",
              oracle_dtype_name(y->dtype), w->problem->node.outputs[0],
              (uint64_t)row * step * (uint64_t)(large->columns ? 1 : out->count), out->count, out->sign_of_zero,
              conf_edge(piece, y->dtype), from, large->columns ? y->shape[1] : 1);
    w->n_outputs++;
}

static pco_status conf_large_rows(conf_writing *w, const conf_large_view *large)
{
    double *expected = NULL, *bound = NULL;
    int64_t count = 0;
    pco_status status = PCO_OK;
    pco_print(&w->tables, "static const output outputs[] = {");
    for (uint32_t i = 0; i < large->n_rows && !status; i++) {
        conf_problem piece;
        status = large->make_row(large->run, large->rows[i], &piece, w->err);
        if (!status && i == 0) {
            count = piece.oracle.out[0].count;
            expected = malloc((size_t)(count * large->n_rows + 1) * sizeof *expected);
            bound = malloc((size_t)(count * large->n_rows + 1) * sizeof *bound);
            if (!expected || !bound) status = pco_fail(w->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
        }
        if (!status) conf_large_put(w, large, large->rows[i], &piece, (int64_t)i * count, expected, bound);
        conf_problem_clear(&piece);
    }
    pco_print(&w->tables, " };\n");
    const pco_tensor desc = {.rank = 2, .shape = {large->n_rows, count}};
    if (!status) status = conf_write_array(w, "y.expected.npy", &desc, -1, expected, w->err);
    if (!status) status = conf_write_array(w, "y.bound.npy", &desc, -1, bound, w->err);
    free(expected);
    free(bound);
    return status;
}

pco_status conf_write_large(conf_writing *w)
{
    const conf_large_view *large = w->execution->large;
    pco_status status = conf_large_operands(w, large);
    if (status) return status;
    conf_large_memory(w, large);
    return conf_large_rows(w, large);
}
