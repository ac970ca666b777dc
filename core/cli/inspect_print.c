/* What `portico inspect` says, as text and as JSON. */
#include "cli/inspect.h"
#include "cli/model.h"

#include "base/dtype.h"
#include "base/printable.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { INSPECT_NAME = 1024 }; /* a name as it is shown */

static int inspect_is_real(const pco_gguf_entry *entry)
{
    return entry->type == PCO_GGUF_F32 || entry->type == PCO_GGUF_F64;
}

static double inspect_real(const pco_gguf_entry *entry)
{
    float single = 0;
    double value = 0;
    memcpy(entry->type == PCO_GGUF_F32 ? (void *)&single : &value, entry->data,
           entry->type == PCO_GGUF_F32 ? sizeof single : sizeof value);
    return entry->type == PCO_GGUF_F32 ? (double)single : value;
}

/* Of a whole number; a U64 as the same bits. */
static int64_t inspect_whole(const pco_gguf_entry *entry)
{
#define INSPECT_AS(type) \
    do { \
        type value; \
        memcpy(&value, entry->data, sizeof value); \
        return value; \
    } while (0)
    switch (entry->type) {
    case PCO_GGUF_I8: INSPECT_AS(int8_t);
    case PCO_GGUF_U16: INSPECT_AS(uint16_t);
    case PCO_GGUF_I16: INSPECT_AS(int16_t);
    case PCO_GGUF_U32: INSPECT_AS(uint32_t);
    case PCO_GGUF_I32: INSPECT_AS(int32_t);
    case PCO_GGUF_U64:
    case PCO_GGUF_I64: INSPECT_AS(int64_t);
    default: return *entry->data;
    }
#undef INSPECT_AS
}

/* A text as it is, with control characters made visible, cut at about 60 bytes. */
static void inspect_text(const char *text, size_t size)
{
    char shown[60 * PCO_PRINTABLE_MOST + 1];
    size_t length = size < 60 ? size : 60;
    while (length < size && length > 56 && ((unsigned char)text[length] & 0xC0) == 0x80)
        length--; /* whole characters */
    printf("%s", pco_printable(text, length, shown, sizeof shown));
    if (size > 60) printf("... (%zu bytes)", size);
}

static const char *inspect_name(const char *name, char shown[INSPECT_NAME])
{
    return pco_printable(name, strlen(name), shown, INSPECT_NAME);
}

static void inspect_entry(const pco_gguf_entry *entry)
{
    char name[INSPECT_NAME], number[PCO_NUMBER_TEXT];
    printf("  %-42s ", inspect_name(entry->key, name));
    if (entry->is_array)
        printf("[%" PRIu64 " x %s]", entry->count, pco_gguf_type_name(entry->type));
    else if (entry->type == PCO_GGUF_STRING)
        inspect_text(entry->strings[0].data, entry->strings[0].size);
    else if (entry->type == PCO_GGUF_BOOL)
        printf(*entry->data ? "true" : "false");
    else if (inspect_is_real(entry))
        printf("%s", pco_number_text(inspect_real(entry), number));
    else if (entry->type == PCO_GGUF_U64)
        printf("%" PRIu64, (uint64_t)inspect_whole(entry));
    else
        printf("%" PRId64, inspect_whole(entry));
    putchar('\n');
}

static void inspect_config(const inspect_file *file)
{
    char name[INSPECT_NAME], number[PCO_NUMBER_TEXT];
    if (file->gguf) {
        printf("\nmetadata, %" PRIu64 " keys\n", pco_gguf_entry_count(file->gguf));
        for (uint64_t i = 0; i < pco_gguf_entry_count(file->gguf); i++) inspect_entry(pco_gguf_entry_at(file->gguf, i));
        return;
    }
    if (file->weights->note_count) printf("\nnotes of the file\n");
    for (uint32_t i = 0; i < file->weights->note_count; i++) {
        const pco_weights_note *note = &file->weights->notes[i];
        printf("  %-42s ", inspect_name(note->key, name));
        inspect_text(note->value, strlen(note->value));
        putchar('\n');
    }
    if (!file->config) return;
    printf("\nconfiguration, %s\n", inspect_name(file->config_path, name));
    const cJSON *item;
    cJSON_ArrayForEach(item, file->config)
    {
        printf("  %-42s ", inspect_name(item->string ? item->string : "", name));
        if (cJSON_IsString(item))
            inspect_text(item->valuestring, strlen(item->valuestring));
        else if (cJSON_IsNumber(item))
            printf("%s", pco_number_text(item->valuedouble, number));
        else if (cJSON_IsBool(item))
            printf(cJSON_IsTrue(item) ? "true" : "false");
        else if (cJSON_IsArray(item))
            printf("[%d elements]", cJSON_GetArraySize(item));
        else
            printf("-");
        putchar('\n');
    }
}

static uint64_t inspect_elements(const pco_weight *weight)
{
    int64_t count = 0;
    pco_error err;
    return pco_shape_count(weight->rank, weight->shape, &count, &err) ? 0 : (uint64_t)count;
}

static void inspect_totals(const inspect_file *file, uint64_t *parameters, uint64_t *bytes)
{
    *parameters = *bytes = 0;
    for (uint32_t i = 0; i < file->weights->count; i++) {
        *parameters += inspect_elements(&file->weights->items[i]);
        *bytes += file->weights->items[i].bytes;
    }
}

static void inspect_tensors(const inspect_file *file)
{
    char shape[192], name[INSPECT_NAME];
    int widest = 4, widest_shape = 5;
    for (uint32_t i = 0; i < file->weights->count; i++) {
        const pco_weight *w = &file->weights->items[i];
        int width = (int)strlen(inspect_name(w->name, name));
        int width_shape = (int)strlen(pco_shape_text(w->rank, w->shape, shape, sizeof shape));
        if (width > widest) widest = width < 64 ? width : 64;
        if (width_shape > widest_shape) widest_shape = width_shape;
    }
    printf("\ntensors\n  %-*s  %-8s  %-*s  %12s\n", widest, "name", "type", widest_shape, "shape", "bytes");
    for (uint32_t i = 0; i < file->weights->count; i++) {
        const pco_weight *w = &file->weights->items[i];
        printf("  %-*s  %-8s  %-*s  %12" PRIu64 "%s\n", widest, inspect_name(w->name, name), w->type_name, widest_shape,
               pco_shape_text(w->rank, w->shape, shape, sizeof shape), w->bytes,
               w->dtype < 0 && w->rank ? "  cannot run" : ""); /* CTranslate2 has options as tensors */
    }
}

static const char *inspect_architecture(const inspect_file *file)
{
    const pco_gguf_entry *entry = file->gguf ? pco_gguf_find(file->gguf, "general.architecture") : NULL;
    if (file->model) return file->model->family->name;
    return entry && entry->text ? entry->text : "unknown";
}

static void inspect_print_plan(const inspect_plan *plan)
{
    char a[32], b[32];
    printf("\nmemory on %s (%s), context %" PRId64 "\n", plan->device_id, plan->device_name, plan->context);
    if (!plan->fits) {
        printf("  %s: %s\n", plan->out_of_memory ? "does not fit" : "cannot run", plan->message);
        return;
    }
    printf("  weights      %12s\n  cache        %12s\n", cli_bytes(plan->constants, a), cli_bytes(plan->states, b));
    printf("  arena        %12s  at least needed: %s\n", cli_bytes(plan->arena, a), cli_bytes(plan->arena_bound, b));
    printf("  in and out   %12s\n", cli_bytes(plan->io, a));
    printf("  peak         %12s  all programs together; the device has %s\n", cli_bytes(plan->peak, a),
           plan->device_memory ? cli_bytes(plan->device_memory, b) : "an unknown amount");
    printf("  fits on %s\n", plan->device_id);
    printf("  %u nodes in %u part%s; %u decomposed, %u on the CPU\n", plan->nodes, plan->parts,
           plan->parts == 1 ? "" : "s", plan->decomposed, plan->cpu_nodes);
}

/* Does the file itself say a version of GGUF? */
static int inspect_is_gguf(const inspect_file *file) { return file->gguf && strcmp(file->format, "GGUF") == 0; }

void inspect_print(const inspect_file *file, const inspect_plan *plan)
{
    uint64_t parameters, bytes;
    char text[32], name[INSPECT_NAME];
    inspect_totals(file, &parameters, &bytes);
    printf("file           %s\nformat         %s", inspect_name(file->path, name), file->format);
    if (inspect_is_gguf(file)) printf(" version %u", pco_gguf_version(file->gguf));
    printf("%s\n", file->header_only ? ", header only: the tensors' data are not in the file" : "");
    printf("tensors        %u, %" PRIu64 " parameters, %s\n", file->weights->count, parameters, cli_bytes(bytes, text));
    printf("architecture   %s\n", inspect_name(inspect_architecture(file), name));
    printf("verdict        the file is valid; ");
    if (file->model) {
        const char *who = api_who_runs(file->model);
        printf("the model can run%s%s\n", who ? "; " : "", who ? who : "");
    } else {
        printf("it cannot run: ");
        cli_wrap(file->reason.message, 54, 15);
    }
    inspect_config(file);
    if (file->weights->count) inspect_tensors(file);
    if (plan) inspect_print_plan(plan);
}

/* ---- JSON ---- */

static void inspect_key_uint(pco_json_writer *json, const char *key, uint64_t value)
{
    pco_json_key(json, key);
    pco_json_write_uint(json, value);
}

static void inspect_key_text(pco_json_writer *json, const char *key, const char *value)
{
    pco_json_key(json, key);
    pco_json_write_string(json, value);
}

static void inspect_json_metadata(pco_json_writer *json, const inspect_file *file)
{
    pco_json_key(json, "metadata");
    pco_json_begin_object(json);
    for (uint64_t i = 0; file->gguf && i < pco_gguf_entry_count(file->gguf); i++) {
        const pco_gguf_entry *entry = pco_gguf_entry_at(file->gguf, i);
        pco_json_key(json, entry->key);
        if (entry->is_array) { /* its size: tokens are many */
            pco_json_begin_object(json);
            inspect_key_text(json, "array", pco_gguf_type_name(entry->type));
            inspect_key_uint(json, "count", entry->count);
            pco_json_end_object(json);
        } else if (entry->type == PCO_GGUF_STRING) {
            pco_json_write_bytes(json, entry->strings[0].data, entry->strings[0].size);
        } else if (entry->type == PCO_GGUF_BOOL) {
            pco_json_write_bool(json, *entry->data != 0);
        } else if (inspect_is_real(entry)) {
            pco_json_write_number(json, inspect_real(entry));
        } else if (entry->type == PCO_GGUF_U64) {
            pco_json_write_uint(json, (uint64_t)inspect_whole(entry));
        } else {
            pco_json_write_int(json, inspect_whole(entry));
        }
    }
    for (uint32_t i = 0; !file->gguf && i < file->weights->note_count; i++)
        inspect_key_text(json, file->weights->notes[i].key, file->weights->notes[i].value);
    pco_json_end_object(json);
}

static void inspect_json_tensors(pco_json_writer *json, const inspect_file *file)
{
    pco_json_key(json, "tensors");
    pco_json_begin_array(json);
    for (uint32_t i = 0; i < file->weights->count; i++) {
        const pco_weight *w = &file->weights->items[i];
        pco_json_begin_object(json);
        inspect_key_text(json, "name", w->name);
        inspect_key_text(json, "type", w->type_name);
        pco_json_key(json, "shape");
        pco_json_begin_array(json);
        for (uint32_t d = 0; d < w->rank; d++) pco_json_write_int(json, w->shape[d]);
        pco_json_end_array(json);
        inspect_key_uint(json, "bytes", w->bytes);
        pco_json_key(json, "can_run");
        pco_json_write_bool(json, w->dtype >= 0);
        pco_json_end_object(json);
    }
    pco_json_end_array(json);
}

static void inspect_json_plan(pco_json_writer *json, const inspect_plan *plan)
{
    pco_json_key(json, "memory");
    pco_json_begin_object(json);
    inspect_key_text(json, "device", plan->device_id);
    inspect_key_text(json, "device_name", plan->device_name);
    inspect_key_uint(json, "device_memory", plan->device_memory);
    inspect_key_uint(json, "context", (uint64_t)plan->context);
    pco_json_key(json, "fits");
    pco_json_write_bool(json, plan->fits);
    if (!plan->fits) {
        inspect_key_text(json, "reason", plan->message);
    } else {
        inspect_key_uint(json, "weights", plan->constants);
        inspect_key_uint(json, "cache", plan->states);
        inspect_key_uint(json, "arena", plan->arena);
        inspect_key_uint(json, "arena_lower_bound", plan->arena_bound);
        inspect_key_uint(json, "io", plan->io);
        inspect_key_uint(json, "peak", plan->peak);
        inspect_key_uint(json, "nodes", plan->nodes);
        inspect_key_uint(json, "parts", plan->parts);
        inspect_key_uint(json, "cpu_nodes", plan->cpu_nodes);
        inspect_key_uint(json, "decomposed", plan->decomposed);
    }
    pco_json_end_object(json);
}

int inspect_json(const inspect_file *file, const inspect_plan *plan)
{
    uint64_t parameters, bytes;
    inspect_totals(file, &parameters, &bytes);
    pco_writer text = {0};
    pco_json_writer json = {.out = &text, .indent = 2};
    pco_json_begin_object(&json);
    inspect_key_text(&json, "file", file->path);
    inspect_key_text(&json, "format", file->format);
    if (inspect_is_gguf(file)) inspect_key_uint(&json, "version", pco_gguf_version(file->gguf));
    pco_json_key(&json, "header_only");
    pco_json_write_bool(&json, file->header_only);
    inspect_key_uint(&json, "parameters", parameters);
    inspect_key_uint(&json, "bytes", bytes);
    inspect_key_text(&json, "architecture", inspect_architecture(file));
    pco_json_key(&json, "can_run");
    pco_json_write_bool(&json, file->model != NULL);
    inspect_key_text(&json, "reason", file->reason.message);
    inspect_json_metadata(&json, file);
    inspect_json_tensors(&json, file);
    if (plan) inspect_json_plan(&json, plan);
    pco_json_end_object(&json);
    return cli_print(&text);
}
