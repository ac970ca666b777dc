#include "models/convert_internal.h"

#include "base/utf8.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "formats/llama2c.h"
#include "models/chat.h"
#include "models/gguf_spec.h"
#include "text/tokenizer_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---------------------------------------------------------------------------------------------- */

static double convert_bits(uint32_t dtype) { return 8.0 * pco_dtype_block_bytes(dtype) / pco_dtype_block(dtype); }

/* Tables that are added, and what chooses experts, are small, and what follows hangs on them. */
static int convert_is_matrix(const convert_item *item)
{
    return item->rank >= 2 && pco_text_ends(item->name, ".weight") && !strstr(item->name, "position_embd") &&
           !strstr(item->name, "token_types") && !strstr(item->name, "ffn_gate_inp");
}

/* For rows that are no whole blocks of anything: half of F32, where that holds all numbers. */
static uint32_t convert_float_type(const convert_item *item)
{
    if (item->weight->dtype == PCO_BF16 || item->weight->dtype == PCO_F16) return (uint32_t)item->weight->dtype;
    return convert_fits(item->weight, PCO_F16, 0) ? PCO_F16 : PCO_F32;
}

static uint32_t convert_matrix_type(const convert_item *item, int is_output, const pco_convert_options *options)
{
    const int64_t columns = item->shape[item->rank - 1];
    uint32_t dtype = (uint32_t)options->type;
    if (is_output && options->output_type >= 0)
        dtype = (uint32_t)options->output_type;
    else if (is_output && convert_bits(dtype) < convert_bits(PCO_Q6_K))
        dtype = PCO_Q6_K;
    if (columns % pco_dtype_block(dtype)) dtype = pco_dtype_instead(dtype);
    return columns % pco_dtype_block(dtype) ? convert_float_type(item) : dtype;
}

static void convert_choose_types(const convert_items *all, const pco_convert_options *options,
                                 pco_convert_result *result)
{
    int tied = 1;
    for (uint32_t i = 0; i < all->count; i++) tied = tied && strcmp(all->items[i].name, "output.weight") != 0;
    for (uint32_t i = 0; i < all->count; i++) {
        convert_item *item = &all->items[i];
        const uint32_t before = (uint32_t)item->weight->dtype;
        const int is_output = strcmp(item->name, tied ? "token_embd.weight" : "output.weight") == 0;
        item->dtype = before;
        if (options->type >= 0 && convert_is_matrix(item) && pco_dtype_class_of(before) != PCO_DTYPE_WHOLE) {
            item->dtype = convert_matrix_type(item, is_output, options);
            result->odd += !is_output && item->dtype != (uint32_t)options->type;
            result->requants +=
                pco_dtype_is_quantised(before) && item->dtype != before && pco_dtype_is_quantised(item->dtype);
        } else if (item->rank < 2 && pco_dtype_is_float(before)) {
            item->dtype = PCO_F32;
        }
        result->tensors[item->dtype]++;
    }
}

static pco_status convert_send_all(convert_job *job, const convert_items *all, const char *path,
                                   pco_convert_result *result, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < all->count && !status; i++) {
        const convert_item *item = &all->items[i];
        uint64_t bytes = 0;
        status =
            pco_gguf_put_tensor(&job->out, item->name, item->rank, item->shape, pco_ggml_type_of(item->dtype), err);
        if (!status) status = pco_dtype_bytes(item->dtype, item->rank, item->shape, &bytes, err);
        job->total += item->weight->bytes;
        result->bytes_out += bytes;
    }
    result->bytes_in = job->total;
    if (!status) status = pco_gguf_write_open(&job->out, path, err);
    for (uint32_t i = 0; i < all->count && !status; i++) status = convert_send(job, &all->items[i], err);
    return status;
}

/* ---- where models come from ----------------------------------------------------------------------------- */

/* Keys that say of another file what may not be so of this one. */
static int convert_drops(const char *key)
{
    static const char *const keys[] = {"general.alignment", "general.file_type", "general.quantization_version"};
    int drops = strncmp(key, "split.", 6) == 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) drops = drops || strcmp(key, keys[i]) == 0;
    return drops;
}

static void convert_put_type(pco_gguf_writer *out, const convert_items *all, const pco_convert_options *options)
{
    uint32_t most = PCO_F32;
    uint64_t bytes = 0, largest = 0;
    for (uint32_t dtype = 0; dtype < PCO_DTYPE_COUNT && options->type < 0; dtype++, bytes = 0) {
        for (uint32_t i = 0; i < all->count; i++)
            bytes += all->items[i].dtype == dtype ? all->items[i].weight->bytes : 0;
        if (bytes > largest) most = dtype;
        if (bytes > largest) largest = bytes;
    }
    if (options->type >= 0) most = (uint32_t)options->type;
    const pco_ggml_type *type = pco_ggml_type_of(most);
    if (type && type->file_type >= 0) pco_gguf_put_u32(out, "general.file_type", (uint32_t)type->file_type);
    pco_gguf_put_u32(out, "general.quantization_version", 2); /* that of ggml's blocks as they are since 2023 */
}

static pco_status convert_run(convert_job *job, convert_items *all, const char *path, pco_convert_result *result,
                              pco_error *err)
{
    convert_choose_types(all, job->options, result);
    convert_put_type(&job->out, all, job->options);
    pco_status status = convert_threads(job, err);
    if (!status) status = convert_send_all(job, all, path, result, err);
    pco_threads_destroy(job->threads);
    return status;
}

static pco_status convert_gguf(const pco_gguf *gguf, const char *path, convert_job *job, pco_convert_result *result,
                               pco_error *err)
{
    convert_items all = {0};
    const pco_family *family;
    pco_model_spec spec;
    /* of a model that nobody here knows, it is not known either which tensors may have another type */
    pco_status status = job->options->type >= 0 ? pco_family_of_gguf(gguf, &family, &spec, err) : PCO_OK;
    if (!status) status = convert_list(job, pco_gguf_weights(gguf), pco_gguf_label(gguf), &all, err);
    for (uint64_t i = 0; i < pco_gguf_entry_count(gguf) && !status; i++)
        if (!convert_drops(pco_gguf_entry_at(gguf, i)->key)) pco_gguf_put_entry(&job->out, pco_gguf_entry_at(gguf, i));
    if (!status) status = convert_run(job, &all, path, result, err);
    convert_release(&all);
    return status;
}

/* Is the file that was written the model that was read? */
static pco_status convert_read_back(const pco_model_file *file, const convert_target *target,
                                    const pco_gguf_writer *out, int exact, pco_error *err)
{
    pco_model_file *made = NULL;
    pco_map map = {0};
    pco_status status = pco_gguf_write_map(out, &map, err);
    if (!status && pco_model_file_open_memory(map.data, map.size, &made, err))
        status = pco_fail_prefix(err, PCO_ERROR_UNSUPPORTED, "%s: GGUF cannot say all of it", file->path);
    if (!status) status = convert_compare_specs(file->path, target, &made->spec, err);
    if (!status) status = convert_compare_ids(file, made, exact, err);
    pco_model_file_close(made);
    pco_map_close(&map);
    return status;
}

/* The chat template, wherever the folder has it. */
static pco_status convert_put_template(const pco_model_file *file, convert_job *job, pco_error *err)
{
    char *source;
    pco_status status = pco_model_chat_source(file, &source, err);
    if (status == PCO_ERROR_NOT_FOUND) return PCO_OK;
    if (!status) pco_gguf_put_text(&job->out, "tokenizer.chat_template", source);
    free(source);
    return status;
}

static pco_status convert_put_tokens(const pco_model_file *file, convert_job *job, pco_convert_result *result,
                                     pco_error *err)
{
    int exact = 1;
    result->no_tokenizer = !file->target;
    if (!file->target) return PCO_OK;
    pco_status status = pco_tokenizer_put_gguf(file->target, (uint32_t)file->spec.vocab_size[PCO_DECODER], file->ends,
                                               file->n_ends, &job->out, &exact, err);
    result->other_ids = !exact;
    return status ? pco_fail_prefix(err, status, "%s", file->path) : convert_put_template(file, job, err);
}

static pco_status convert_model(const pco_model_file *file, const char *path, convert_job *job,
                                pco_convert_result *result, pco_error *err)
{
    convert_items all = {0};
    convert_target target = {.family = convert_family(file, 0), .spec = file->spec};
    if (!target.family)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: GGUF has no models of type '%s' that Portico knows of%s",
                        file->path, file->family->name, file->family->any_parts ? ", built as this one" : "");
    convert_trained_spec(file, target.family, &target.spec);
    target.names = *target.family->spec;
    if (file->spec.experts) pco_gguf_name_experts(&target.names.names);
    pco_status status = convert_list(job, file->weights, file->path, &all, err);
    if (!status) status = convert_rename(file, &target, &all, err);
    if (!status) status = convert_trained_items(file, &target, &all, err);
    if (!status) status = convert_add_factors(&file->spec, &all, err);
    if (!status) convert_put_spec(&job->out, file, &target);
    if (!status) status = convert_put_tokens(file, job, result, err);
    if (!status) status = convert_run(job, &all, path, result, err);
    if (!status) status = convert_read_back(file, &target, &job->out, !result->other_ids, err);
    convert_release(&all);
    return status;
}

static pco_status convert_check(const pco_convert_options *options, pco_error *err)
{
    const int32_t types[] = {options->type, options->output_type};
    for (int i = 0; i < 2; i++)
        if (types[i] >= 0 &&
            (!pco_ggml_type_of((uint32_t)types[i]) || pco_dtype_class_of((uint32_t)types[i]) == PCO_DTYPE_WHOLE))
            return pco_fail(err, PCO_ERROR_INVALID, "weights of GGUF files cannot be of type %s",
                            pco_dtype_name((uint32_t)types[i]));
    return PCO_OK;
}

static pco_status convert_file(const pco_model_file *file, const char *out, convert_job *job,
                               pco_convert_result *result, pco_error *err)
{
    return file->gguf ? convert_gguf(file->gguf, out, job, result, err) : convert_model(file, out, job, result, err);
}

pco_status pco_convert_to_gguf(const char *in, const char *out, const pco_convert_options *options,
                               pco_convert_result *result, pco_error *err)
{
    pco_gguf *gguf = NULL;
    pco_model_file *file = NULL;
    convert_job job = {.options = options};
    *result = (pco_convert_result){0};
    int is_llama2c = 0;
    pco_status status = convert_check(options, err);
    if (!status && !pco_is_directory(in)) status = pco_llama2c_is(in, &is_llama2c, err);
    /* a GGUF file need not be one that Portico runs */
    const int opened = options->adapter || is_llama2c || pco_is_directory(in);
    if (!status) status = opened ? pco_model_file_open(in, &file, err) : pco_gguf_open(in, 0, &gguf, err);
    if (!status && options->adapter) status = pco_adapter_open(file, options->adapter, err);
    if (!status && options->adapter) job.adapted = file->weights;
    if (!status)
        status = opened ? convert_file(file, out, &job, result, err) : convert_gguf(gguf, out, &job, result, err);
    status = pco_gguf_write_close(&job.out, status, err);
    pco_gguf_close(gguf);
    pco_model_file_close(file);
    return status;
}

int pco_convert_writes(const pco_model_file *file) { return file->gguf || convert_family(file, 0); }

pco_status pco_convert_trained(const pco_model_file *file, const pco_weights *trained, const char *out,
                               const pco_convert_options *options, pco_convert_result *result, pco_error *err)
{
    convert_job job = {.options = options, .trained = trained};
    *result = (pco_convert_result){0};
    pco_status status = convert_check(options, err);
    if (!status) status = convert_file(file, out, &job, result, err);
    return pco_gguf_write_close(&job.out, status, err);
}
