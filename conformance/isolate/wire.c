#include "isolate/wire.h"

#include "base/error.h"
#include "graph/op.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char LABEL[] = "a record";
static const char *const COMPARED[] = {"rows", "chunks"}, *const DIFFERED[] = {"rows_differ", "chunks_differ"};

static void wire_text(pco_json_writer *writer, const char *key, const char *text)
{
    pco_json_key(writer, key);
    pco_json_write_string(writer, text);
}

static void wire_uint(pco_json_writer *writer, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    wire_text(writer, key, text);
}

static void wire_real(pco_json_writer *writer, const char *key, double value)
{
    if (isnan(value))
        wire_text(writer, key, signbit(value) ? "-nan" : "nan");
    else if (isinf(value))
        wire_text(writer, key, value < 0 ? "-inf" : "inf");
    else {
        pco_json_key(writer, key);
        pco_json_write_number(writer, value);
    }
}

void conf_wire_write(pco_json_writer *writer, const pco_conformance_case *one)
{
    char id[12];
    snprintf(id, sizeof id, "%08" PRIx32, one->id);
    wire_text(writer, "case", id);
    wire_text(writer, "op", one->op_name);
    wire_text(writer, "label", one->label);
    wire_text(writer, "variant", one->variant);
    if (one->waiver) wire_text(writer, "waiver", one->waiver);
    wire_text(writer, "state", pco_conformance_state_name(one->state));
    wire_uint(writer, "width", one->width);
    wire_uint(writer, "seed", one->seed);
    wire_real(writer, "seconds", one->seconds);
    wire_real(writer, "ratio", one->ratio);
    wire_uint(writer, "output", one->output);
    wire_uint(writer, "element", (uint64_t)one->element);
    wire_uint(writer, "elements", (uint64_t)one->elements);
    wire_uint(writer, "wrong", (uint64_t)one->wrong);
    wire_real(writer, "expected", one->expected);
    wire_real(writer, "got", one->got);
    wire_real(writer, "bound", one->bound);
    for (int kind = 0; kind < PCO_PIECE_THREADS; kind++)
        if (one->invariance.compared[kind]) {
            wire_uint(writer, COMPARED[kind], one->invariance.compared[kind]);
            wire_uint(writer, DIFFERED[kind], one->invariance.differed[kind]);
        }
    if (one->bits) wire_uint(writer, "bits", one->bits);
    if (one->replays.executions) {
        wire_uint(writer, "executions", one->replays.executions);
        wire_uint(writer, "differed", one->replays.differed);
        wire_uint(writer, "wrong_executions", one->replays.wrong);
        wire_uint(writer, "distinct", one->replays.distinct);
    }
    if (one->explains) wire_uint(writer, "explains", one->explains);
    if (one->evidence) wire_uint(writer, "evidence", one->evidence);
    wire_text(writer, "detail", one->detail);
    wire_text(writer, "repeat", one->repeat);
}

pco_status conf_wire_uint(const cJSON *object, const char *key, uint64_t *value, pco_error *err)
{
    const char *text;
    char *end;
    pco_status status = pco_json_string(object, LABEL, key, &text, err);
    if (status) return status;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno) return PCO_OK;
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' is '%.40s', which is no whole number", LABEL, key, text);
}

/* 0 where it is not written. */
static pco_status wire_read_mask(const cJSON *object, const char *key, uint64_t *mask, pco_error *err)
{
    *mask = 0;
    return cJSON_GetObjectItemCaseSensitive(object, key) ? conf_wire_uint(object, key, mask, err) : PCO_OK;
}

static pco_status wire_read_uint32(const cJSON *object, const char *key, uint32_t *out, pco_error *err)
{
    uint64_t value = 0;
    pco_status status = conf_wire_uint(object, key, &value, err);
    if (!status && value > UINT32_MAX) status = pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' is too large", LABEL, key);
    *out = (uint32_t)value;
    return status;
}

static pco_status wire_read_int(const cJSON *object, const char *key, int64_t *out, pco_error *err)
{
    uint64_t value = 0;
    pco_status status = conf_wire_uint(object, key, &value, err);
    *out = (int64_t)value;
    return status;
}

static pco_status wire_read_real(const cJSON *object, const char *key, double *out, pco_error *err)
{
    static const char *const NAMES[] = {"inf", "-inf", "nan", "-nan"};
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsString(member)) return pco_json_number(object, LABEL, key, -HUGE_VAL, HUGE_VAL, out, err);
    const double values[] = {INFINITY, -INFINITY, copysign(NAN, 1.0), copysign(NAN, -1.0)};
    for (int i = 0; i < 4; i++)
        if (strcmp(member->valuestring, NAMES[i]) == 0) {
            *out = values[i];
            return PCO_OK;
        }
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' is '%.40s', which is no number", LABEL, key, member->valuestring);
}

static pco_status wire_read_text(const cJSON *object, const char *key, char *out, size_t size, pco_error *err)
{
    const char *text;
    pco_status status = pco_json_string(object, LABEL, key, &text, err);
    if (!status) snprintf(out, size, "%s", text);
    return status;
}

static pco_status wire_read_state(const cJSON *object, pco_conformance_state *state, pco_error *err)
{
    const char *names[PCO_CASE_STATES];
    uint32_t index = 0;
    for (int i = 0; i < PCO_CASE_STATES; i++) names[i] = pco_conformance_state_name((pco_conformance_state)i);
    pco_status status = pco_json_enum(object, LABEL, "state", names, PCO_CASE_STATES, &index, err);
    *state = (pco_conformance_state)index;
    return status;
}

pco_status conf_wire_id(const cJSON *object, const char *key, uint32_t *id, pco_error *err)
{
    const char *text;
    char *end;
    pco_status status = pco_json_string(object, LABEL, key, &text, err);
    if (status) return status;
    *id = (uint32_t)strtoul(text, &end, 16);
    if (strlen(text) == 8 && !*end) return PCO_OK;
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' is '%.40s', which is no case", LABEL, key, text);
}

pco_status conf_wire_read(const cJSON *object, pco_conformance_case *one, pco_error *err)
{
    pco_status status = conf_wire_id(object, "case", &one->id, err);
    if (!status) status = pco_json_string(object, LABEL, "variant", &one->variant, err);
    if (!status) status = pco_json_string_or(object, LABEL, "waiver", NULL, &one->waiver, err);
    if (!status) status = wire_read_state(object, &one->state, err);
    if (!status) status = wire_read_uint32(object, "width", &one->width, err);
    if (!status) status = conf_wire_uint(object, "seed", &one->seed, err);
    if (!status) status = wire_read_real(object, "seconds", &one->seconds, err);
    if (!status) status = wire_read_real(object, "ratio", &one->ratio, err);
    if (!status) status = wire_read_uint32(object, "output", &one->output, err);
    if (!status) status = wire_read_int(object, "element", &one->element, err);
    if (!status) status = wire_read_int(object, "elements", &one->elements, err);
    if (!status) status = wire_read_int(object, "wrong", &one->wrong, err);
    if (!status) status = wire_read_real(object, "expected", &one->expected, err);
    if (!status) status = wire_read_real(object, "got", &one->got, err);
    if (!status) status = wire_read_real(object, "bound", &one->bound, err);
    for (int kind = 0; kind < PCO_PIECE_THREADS && !status; kind++) {
        if (!cJSON_HasObjectItem(object, COMPARED[kind])) continue;
        status = wire_read_uint32(object, COMPARED[kind], &one->invariance.compared[kind], err);
        if (!status) status = wire_read_uint32(object, DIFFERED[kind], &one->invariance.differed[kind], err);
    }
    if (!status && cJSON_HasObjectItem(object, "bits")) status = conf_wire_uint(object, "bits", &one->bits, err);
    if (!status && cJSON_HasObjectItem(object, "executions")) {
        status = conf_wire_uint(object, "executions", &one->replays.executions, err);
        if (!status) status = conf_wire_uint(object, "differed", &one->replays.differed, err);
        if (!status) status = conf_wire_uint(object, "wrong_executions", &one->replays.wrong, err);
        if (!status) status = conf_wire_uint(object, "distinct", &one->replays.distinct, err);
    }
    if (!status) status = wire_read_mask(object, "explains", &one->explains, err);
    if (!status) status = wire_read_mask(object, "evidence", &one->evidence, err);
    if (!status) status = wire_read_text(object, "detail", one->detail, sizeof one->detail, err);
    if (!status) status = wire_read_text(object, "repeat", one->repeat, sizeof one->repeat, err);
    return status;
}

void conf_wire_write_constant(pco_json_writer *writer, const pco_conformance_constant *seen)
{
    wire_text(writer, "kernel", seen->kernel);
    wire_text(writer, "name", seen->name);
    pco_json_key(writer, "number");
    pco_json_write_int(writer, seen->number);
    pco_json_key(writer, "value");
    pco_json_write_int(writer, seen->values[0]);
}

pco_status conf_wire_read_constant(const cJSON *object, pco_conformance_constant *seen, pco_error *err)
{
    int64_t number = 0, value = 0;
    *seen = (pco_conformance_constant){.n_values = 1};
    pco_status status = wire_read_text(object, "kernel", seen->kernel, sizeof seen->kernel, err);
    if (!status) status = wire_read_text(object, "name", seen->name, sizeof seen->name, err);
    if (!status) status = pco_json_int(object, LABEL, "number", 0, PCO_DISPATCH_SPECS - 1, &number, err);
    if (!status) status = pco_json_int(object, LABEL, "value", INT32_MIN, INT32_MAX, &value, err);
    seen->number = (uint32_t)number, seen->values[0] = (int32_t)value;
    return status;
}

void conf_wire_write_pipeline(pco_json_writer *writer, const pco_conformance_pipeline *seen)
{
    wire_uint(writer, "identity", seen->identity);
    wire_text(writer, "kernel", seen->kernel);
    wire_text(writer, "op", seen->op);
    wire_text(writer, "variant", seen->variant);
    wire_uint(writer, "width", seen->width);
    pco_json_key(writer, "specs");
    pco_json_begin_array(writer);
    for (uint32_t i = 0; i < seen->n_specs; i++) pco_json_write_int(writer, seen->specs[i]);
    pco_json_end_array(writer);
    pco_json_key(writer, "figures");
    pco_json_begin_array(writer);
    for (uint32_t i = 0; i < seen->n_figures; i++) {
        const pco_conformance_figure *figure = &seen->figures[i];
        pco_json_begin_object(writer);
        wire_text(writer, "code", figure->code);
        wire_uint(writer, "width", figure->width);
        wire_text(writer, "name", figure->name);
        wire_real(writer, "value", figure->value);
        pco_json_end_object(writer);
    }
    pco_json_end_array(writer);
}

static pco_status wire_read_figure(const cJSON *object, pco_conformance_figure *figure, pco_error *err)
{
    pco_status status = wire_read_text(object, "code", figure->code, sizeof figure->code, err);
    if (!status) status = wire_read_text(object, "name", figure->name, sizeof figure->name, err);
    if (!status) status = wire_read_uint32(object, "width", &figure->width, err);
    return status ? status : wire_read_real(object, "value", &figure->value, err);
}

pco_status conf_wire_read_pipeline(const cJSON *object, pco_conformance_pipeline *seen, pco_error *err)
{
    *seen = (pco_conformance_pipeline){0};
    pco_status status = conf_wire_uint(object, "identity", &seen->identity, err);
    if (!status) status = wire_read_text(object, "kernel", seen->kernel, sizeof seen->kernel, err);
    if (!status) status = wire_read_text(object, "op", seen->op, sizeof seen->op, err);
    if (!status) status = wire_read_text(object, "variant", seen->variant, sizeof seen->variant, err);
    if (!status) status = wire_read_uint32(object, "width", &seen->width, err);
    if (status) return status;
    const cJSON *item, *specs = cJSON_GetObjectItemCaseSensitive(object, "specs");
    const cJSON *figures = cJSON_GetObjectItemCaseSensitive(object, "figures");
    cJSON_ArrayForEach(item, specs)
    {
        int64_t value;
        if (seen->n_specs == PCO_DISPATCH_SPECS || !pco_json_whole(item, &value))
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: 'specs' is no list of up to %d numbers", LABEL,
                            PCO_DISPATCH_SPECS);
        seen->specs[seen->n_specs++] = (int32_t)value;
    }
    const int count = cJSON_GetArraySize(figures);
    seen->figures = calloc((size_t)count + 1, sizeof *seen->figures);
    if (!seen->figures) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the figures of a pipeline");
    cJSON_ArrayForEach(item, figures)
    {
        status = wire_read_figure(item, &seen->figures[seen->n_figures++], err);
        if (status) return status;
    }
    return PCO_OK;
}
