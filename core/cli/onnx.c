/* portico onnx: what an ONNX model is, and runs of it. */
#include "cli/compare.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "formats/npy.h"
#include "portico/onnx.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ONNX_MOST_INPUTS = 64 };

typedef struct onnx_arguments {
    const char *model, *device, *output, *given[ONNX_MOST_INPUTS];
    uint32_t n_given;
    int compare, json;
    pco_npy files[ONNX_MOST_INPUTS];
    pco_onnx_array arrays[ONNX_MOST_INPUTS];
    char *names[ONNX_MOST_INPUTS];
} onnx_arguments;

static const struct {
    const char *name; /* of a .npy type */
    int32_t dtype, type;
} ONNX_NPY[] = {{"", PCO_F32, PCO_ONNX_FLOAT}, {"", PCO_F16, PCO_ONNX_FLOAT16}, {"", PCO_I32, PCO_ONNX_INT32},
                {"", PCO_BOOL, PCO_ONNX_BOOL}, {"F64", -1, PCO_ONNX_DOUBLE},    {"I64", -1, PCO_ONNX_INT64},
                {"I8", -1, PCO_ONNX_INT8},     {"U8", -1, PCO_ONNX_UINT8}};
enum { N_ONNX_NPY = sizeof ONNX_NPY / sizeof *ONNX_NPY };

static int onnx_given(void *user, const char *option, const char *value)
{
    onnx_arguments *arguments = user;
    if (!strchr(value, '=') || *value == '=') {
        cli_error("%s takes NAME=FILE.npy, and not '%s'", option, value);
        return 0;
    }
    if (arguments->n_given == ONNX_MOST_INPUTS) {
        cli_error("onnx: at most %d inputs", ONNX_MOST_INPUTS);
        return 0;
    }
    arguments->given[arguments->n_given++] = value;
    return 1;
}

static void onnx_problem(void *user, const char *op, const char *node, const char *why)
{
    (void)user;
    cli_error("onnx: %s '%s': %s", op, node, why);
}

/* ---- what it is ---- */

static void onnx_print_value(const char *what, const pco_onnx_value *value)
{
    printf("%-7s ", what);
    cli_text(stdout, value->name);
    printf("  %s", pco_onnx_type_name(value->type));
    for (uint32_t d = 0; value->shaped && d < value->rank; d++) {
        fputs(d ? ", " : " [", stdout);
        if (value->dims[d] >= 0)
            printf("%" PRId64, value->dims[d]);
        else
            cli_text(stdout, *value->symbols[d] ? value->symbols[d] : "?");
    }
    printf("%s%s\n", value->shaped && value->rank ? "]" : "", value->optional ? "  (has values of its own)" : "");
}

static void onnx_write_value(pco_json_writer *json, const pco_onnx_value *value)
{
    pco_json_begin_object(json);
    pco_json_key(json, "name");
    pco_json_write_string(json, value->name);
    pco_json_key(json, "type");
    pco_json_write_string(json, pco_onnx_type_name(value->type));
    pco_json_key(json, "shape");
    if (!value->shaped) pco_json_write_null(json);
    if (value->shaped) pco_json_begin_array(json);
    for (uint32_t d = 0; value->shaped && d < value->rank; d++) {
        if (value->dims[d] >= 0)
            pco_json_write_int(json, value->dims[d]);
        else
            pco_json_write_string(json, value->symbols[d]);
    }
    if (value->shaped) pco_json_end_array(json);
    pco_json_end_object(json);
}

static int onnx_describe(const onnx_arguments *arguments, const pco_onnx_model *model)
{
    pco_writer text = {0};
    pco_json_writer json = {.out = &text, .indent = 2};
    const uint32_t missing = pco_onnx_check(model, onnx_problem, NULL);
    pco_error err;
    if (arguments->json) {
        pco_json_begin_object(&json);
        pco_json_key(&json, "opset");
        pco_json_write_int(&json, pco_onnx_opset(model));
        pco_json_key(&json, "nodes");
        pco_json_write_int(&json, pco_onnx_nodes(model));
        pco_json_key(&json, "missing");
        pco_json_write_int(&json, missing);
    } else {
        printf("operator set %" PRId64 ", %u nodes, %u without mapping\n", pco_onnx_opset(model), pco_onnx_nodes(model),
               missing);
    }
    for (int out = 0; out < 2; out++) {
        const uint32_t count = out ? pco_onnx_outputs(model) : pco_onnx_inputs(model);
        if (arguments->json) pco_json_key(&json, out ? "outputs" : "inputs");
        if (arguments->json) pco_json_begin_array(&json);
        for (uint32_t i = 0; i < count; i++) {
            pco_onnx_value value = {.size = sizeof value};
            if (out ? pco_onnx_output(model, i, &value, &err) : pco_onnx_input(model, i, &value, &err)) continue;
            if (arguments->json)
                onnx_write_value(&json, &value);
            else
                onnx_print_value(out ? "output" : "input", &value);
        }
        if (arguments->json) pco_json_end_array(&json);
    }
    if (arguments->json) pco_json_end_object(&json);
    const int printed = arguments->json ? cli_print(&text) : CLI_OK;
    return missing ? CLI_FAILED : printed;
}

/* ---- inputs and outputs ---- */

static pco_status onnx_read_inputs(onnx_arguments *arguments, pco_error *err)
{
    for (uint32_t i = 0; i < arguments->n_given; i++) {
        const char *equals = strchr(arguments->given[i], '=');
        arguments->names[i] = strndup(arguments->given[i], (size_t)(equals - arguments->given[i]));
        if (!arguments->names[i]) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for an input");
        pco_status status = pco_npy_open(equals + 1, &arguments->files[i], err);
        if (status) return status;
        const pco_weight *from = &arguments->files[i].array;
        pco_onnx_array *array = &arguments->arrays[i];
        *array = (pco_onnx_array){.size = sizeof *array,
                                  .name = arguments->names[i],
                                  .rank = from->rank,
                                  .data = from->data,
                                  .bytes = from->bytes};
        memcpy(array->shape, from->shape, sizeof array->shape);
        for (int k = 0; k < N_ONNX_NPY; k++)
            if (from->dtype == ONNX_NPY[k].dtype &&
                (from->dtype >= 0 || strcmp(from->type_name, ONNX_NPY[k].name) == 0))
                array->type = ONNX_NPY[k].type;
    }
    return PCO_OK;
}

/* DIR/NAME.npy; what is no letter, digit, point or dash of a name becomes '_'. */
static pco_status onnx_write(const char *folder, const pco_onnx_array *array, pco_error *err)
{
    char path[4096];
    pco_weight weight = {.name = (char *)(size_t) "array",
                         .dtype = -1,
                         .rank = array->rank,
                         .bytes = array->bytes,
                         .data = array->data,
                         .type_name = pco_onnx_type_name(array->type)};
    const int base = snprintf(path, sizeof path, "%s/", folder);
    const int whole = base + snprintf(path + base, sizeof path - (size_t)base, "%s.npy", array->name);
    if (whole >= (int)sizeof path)
        return pco_fail(err, PCO_ERROR_INVALID, "the path for '%.100s' is too long", array->name);
    for (char *at = path + base; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", *at)) *at = '_';
    if (path[base] == '.') path[base] = '_';
    memcpy(weight.shape, array->shape, sizeof weight.shape);
    for (int k = 0; k < N_ONNX_NPY; k++)
        if (array->type == ONNX_NPY[k].type) weight.dtype = ONNX_NPY[k].dtype, weight.type_name = ONNX_NPY[k].name;
    return pco_npy_write(path, &weight, err);
}

/* ---- runs ---- */

typedef struct onnx_difference {
    double ratio, most; /* worst over its bound; largest */
} onnx_difference;

/* The bound of `portico compare` in each row of the last dimension; whole numbers and truth must be equal. */
static onnx_difference onnx_differ(const pco_onnx_array *y, const pco_onnx_array *reference)
{
    onnx_difference worst = {0, 0};
    const bool same_shape = y->type == reference->type && y->bytes == reference->bytes;
    if (!same_shape) return (onnx_difference){(double)INFINITY, (double)INFINITY};
    if (y->type != PCO_ONNX_FLOAT) {
        const bool equal = memcmp(y->data, reference->data, y->bytes) == 0;
        return equal ? worst : (onnx_difference){(double)INFINITY, (double)INFINITY};
    }
    const int64_t count = (int64_t)(y->bytes / 4), row = y->rank && count ? y->shape[y->rank - 1] : 1;
    for (int64_t at = 0; at < count; at += row) {
        double off = 0;
        const float *a = (const float *)y->data + at, *b = (const float *)reference->data + at;
        const double ratio = compare_row(a, b, row, NULL, &off);
        if (ratio > worst.ratio) worst.ratio = ratio;
        if (off > worst.most) worst.most = off;
    }
    return worst;
}

typedef struct onnx_run_state {
    pco_session *session;
    pco_onnx_runner *runner;
} onnx_run_state;

static pco_status onnx_start(pco_context *context, const char *device, const pco_onnx_model *model,
                             const onnx_arguments *arguments, onnx_run_state *state, pco_error *err)
{
    pco_status status = pco_session_open(context, device, &state->session, err);
    if (!status) status = pco_onnx_runner_create(state->session, model, &state->runner, err);
    if (status) return status;
    pco_onnx_runner_tell(state->runner, onnx_problem, NULL);
    return pco_onnx_run(state->runner, arguments->arrays, arguments->n_given, err);
}

static void onnx_stop(onnx_run_state *state)
{
    pco_onnx_runner_destroy(state->runner);
    pco_session_close(state->session);
}

static void onnx_result(pco_json_writer *json, const pco_onnx_array *array, const onnx_difference *difference)
{
    char shape[192];
    pco_shape_text(array->rank, array->shape, shape, sizeof shape);
    if (!json->out) {
        cli_text(stdout, array->name);
        printf("  %s %s", pco_onnx_type_name(array->type), shape);
        if (difference) printf("  diff/bound %.2g, max diff %.2g", difference->ratio, difference->most);
        putchar('\n');
        return;
    }
    pco_json_begin_object(json);
    pco_json_key(json, "name");
    pco_json_write_string(json, array->name);
    pco_json_key(json, "type");
    pco_json_write_string(json, pco_onnx_type_name(array->type));
    pco_json_key(json, "shape");
    pco_json_begin_array(json);
    for (uint32_t d = 0; d < array->rank; d++) pco_json_write_int(json, array->shape[d]);
    pco_json_end_array(json);
    if (difference) {
        pco_json_key(json, "difference_over_bound");
        pco_json_write_number(json, difference->ratio);
        pco_json_key(json, "max_difference");
        pco_json_write_number(json, difference->most);
    }
    pco_json_end_object(json);
}

/* Prints the outputs, with their differences, and writes them. */
static int onnx_results(const onnx_arguments *arguments, const pco_onnx_model *model, const onnx_run_state *state,
                        const onnx_run_state *reference)
{
    pco_writer text = {0};
    pco_json_writer json = {.out = arguments->json ? &text : NULL, .indent = 2};
    pco_error err = {""};
    int result = CLI_OK;
    if (arguments->json) pco_json_begin_array(&json);
    for (uint32_t i = 0; i < pco_onnx_outputs(model); i++) {
        pco_onnx_array array = {.size = sizeof array}, other = array;
        onnx_difference difference = {0, 0};
        pco_status status = pco_onnx_runner_output(state->runner, i, &array, &err);
        if (!status && reference->runner) status = pco_onnx_runner_output(reference->runner, i, &other, &err);
        if (!status && reference->runner) difference = onnx_differ(&array, &other);
        if (!status) onnx_result(&json, &array, reference->runner ? &difference : NULL);
        if (!status && arguments->output) status = onnx_write(arguments->output, &array, &err);
        if (status) result = cli_fail(&err);
        if (!(difference.ratio <= 1)) result = CLI_FAILED;
    }
    if (!arguments->json && reference->runner)
        printf("bound of an element y: %g (|y| + rms of its row), against cpu:reference\n", COMPARE_BOUND);
    if (!arguments->json) return result;
    pco_json_end_array(&json);
    const int printed = cli_print(&text);
    return result ? result : printed;
}

static int onnx_execute(onnx_arguments *arguments, const pco_onnx_model *model)
{
    int status = CLI_OK;
    pco_error err = {""};
    onnx_run_state state = {0}, reference = {0};
    pco_status result = onnx_read_inputs(arguments, &err);
    if (!result && arguments->output) result = pco_folder_make(arguments->output, &err);
    if (result) return cli_fail(&err);
    pco_context *context = cli_context(arguments->device, &status);
    if (!context) return status;
    result = onnx_start(context, arguments->device, model, arguments, &state, &err);
    if (!result && arguments->compare)
        result = onnx_start(context, "cpu:reference", model, arguments, &reference, &err);
    status = result ? cli_fail(&err) : onnx_results(arguments, model, &state, &reference);
    onnx_stop(&reference);
    onnx_stop(&state);
    pco_context_destroy(context);
    return status;
}

static const cli_option ONNX_OPTIONS[] = {
    {CLI_OPERAND("a model", onnx_arguments, model)},
    {CLI_READ("--input", onnx_given), .letter = "-i"},
    {CLI_TEXT("--device", onnx_arguments, device), .letter = "-d"},
    {CLI_TEXT("--output", onnx_arguments, output), .letter = "-o"},
    {CLI_FLAG("--compare", onnx_arguments, compare)},
    {CLI_FLAG("--json", onnx_arguments, json)},
};

static int onnx_run_command(int argc, char **argv)
{
    onnx_arguments arguments = {0};
    pco_onnx_model *model = NULL;
    pco_error err = {""};
    int status = cli_parse(&cli_onnx, argc, argv, &arguments, NULL);
    if (status) return status;
    cli_watch_signals();
    if (pco_onnx_open(arguments.model, &model, &err)) return cli_fail(&err);
    const bool runs = arguments.n_given || !pco_onnx_inputs(model) || arguments.compare || arguments.output;
    status = runs ? onnx_execute(&arguments, model) : onnx_describe(&arguments, model);
    for (uint32_t i = 0; i < arguments.n_given; i++) {
        pco_npy_close(&arguments.files[i]);
        free(arguments.names[i]);
    }
    pco_onnx_close(model);
    return cli_exit_status(status);
}

const cli_command cli_onnx = {
    .name = "onnx",
    .summary = "runs an ONNX model",
    .help = "usage: portico onnx FILE [--input NAME=FILE.npy]... [--device D] [--output DIR] [--compare]\n"
            "                    [--json]\n\n"
            "Runs the model on these inputs and prints names, types and shapes of its outputs. Without inputs\n"
            "it says what goes in and comes out, and lists every operator that has no mapping.\n\n"
            "  -i, --input NAME=FILE.npy   the array for an input; once for each. Open dimensions of the model\n"
            "                              become those of the arrays\n"
            "  -d, --device D              as in PORTICO_BACKEND\n"
            "  -o, --output DIR            writes each output to DIR/NAME.npy\n"
            "  --compare                   runs on cpu:reference, too, and prints the largest difference of each\n"
            "                              output, also over its bound 1e-4 (|y| + rms of its row); whole\n"
            "                              numbers must be equal\n"
            "  --json                      an object, or an array of outputs, instead of text\n\n"
            "Exit status: 0 done, 1 failed, something cannot be expressed, or a difference is beyond its\n"
            "bound; 2 wrong usage.\n",
    CLI_OPTIONS(ONNX_OPTIONS),
    .run = onnx_run_command,
};
