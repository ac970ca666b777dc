/* Models as folders of Hugging Face: config.json, generation_config.json, model.safetensors, and the tokenizer's files.
 * They are written beside their place, read back, and then moved there. */
#include "models/convert_internal.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "formats/safetensors.h"
#include "models/chat.h"
#include "text/tokenizer_write.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct folder_job {
    convert_job job;
    const pco_model_file *file;
    convert_target target;
    convert_items items;
    cJSON *config;
    char *path; /* of the folder while it is made */
    pco_convert_result *result;
} folder_job;

/* ---- files of the folder -------------------------------------------------------------------------------- */

static pco_status folder_name(const char *folder, const char *name, char **path, pco_error *err)
{
    if (asprintf(path, "%s/%s", folder, name) >= 0) return PCO_OK;
    *path = NULL;
    return convert_no_memory(err);
}

static pco_status folder_write(const folder_job *f, const char *name, const void *data, size_t size, pco_error *err)
{
    char *path;
    pco_status status = folder_name(f->path, name, &path, err);
    if (!status) status = pco_file_write(path, data, size, err);
    free(path);
    return status;
}

static pco_status folder_write_json(const folder_job *f, const char *name, const cJSON *root, pco_error *err)
{
    char *text = cJSON_Print(root);
    pco_status status = text ? folder_write(f, name, text, strlen(text), err) : convert_no_memory(err);
    free(text);
    return status;
}

/* The same file of the folder that is read, where it has one. */
static pco_status folder_copy(const folder_job *f, const char *name, pco_error *err)
{
    char *path;
    pco_map map = {0};
    pco_status status = pco_file_find(f->file->path, name, &path, err);
    if (!status && path) {
        status = pco_map_open(path, &map, err);
        if (!status) status = folder_write(f, name, map.data ? (const void *)map.data : "", map.size, err);
        pco_map_close(&map);
    }
    free(path);
    return status;
}

/* Makes PATH.portico-N beside the place of the folder. */
static pco_status folder_begin(folder_job *f, const char *out, pco_error *err)
{
    size_t size = strlen(out);
    while (size > 1 && out[size - 1] == '/') size--;
    for (int i = 0; i < 100; i++) {
        if (asprintf(&f->path, "%.*s.portico-%ld-%d", (int)size, out, (long)getpid(), i) < 0) {
            f->path = NULL;
            return convert_no_memory(err);
        }
        if (mkdir(f->path, 0777) == 0) return PCO_OK;
        if (errno != EEXIST) break;
        free(f->path);
        f->path = NULL;
    }
    const pco_status status = pco_fail(err, PCO_ERROR_IO, "%s cannot be made: %m", out);
    free(f->path);
    f->path = NULL;
    return status;
}

static void folder_remove(const char *folder)
{
    DIR *list = opendir(folder);
    for (const struct dirent *entry; list && (entry = readdir(list));) {
        char *path = NULL;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (asprintf(&path, "%s/%s", folder, entry->d_name) < 0) path = NULL;
        if (path && unlink(path) != 0 && pco_is_directory(path)) folder_remove(path); /* of a tokenizer */
        free(path);
    }
    if (list) closedir(list);
    (void)rmdir(folder);
}

/* Moves it to its place, which may be an empty folder. */
static pco_status folder_end(folder_job *f, const char *out, pco_status status, pco_error *err)
{
    if (!f->path) return status;
    if (!status && rename(f->path, out) != 0)
        status = errno == ENOTEMPTY || errno == EEXIST
                     ? pco_fail(err, PCO_ERROR_IO, "%s is there already, and not empty", out)
                     : pco_fail(err, PCO_ERROR_IO, "%s cannot be made: %m", out);
    if (status) folder_remove(f->path);
    free(f->path);
    f->path = NULL;
    return status;
}

/* ---- weights -------------------------------------------------------------------------------------------- */

/* The type of most matrices, which config.json names, and vectors have where it holds them exactly. */
static uint32_t folder_choose_types(folder_job *f)
{
    static const uint32_t types[] = {PCO_F32, PCO_F16, PCO_BF16};
    const int32_t wanted = f->job.options->type;
    uint64_t elements[PCO_DTYPE_COUNT] = {0};
    uint32_t main = PCO_F32;
    for (uint32_t i = 0; i < f->items.count; i++) {
        convert_item *item = &f->items.items[i];
        const uint32_t before = (uint32_t)item->weight->dtype;
        item->dtype = wanted >= 0 ? (uint32_t)wanted : pco_dtype_is_quantised(before) ? PCO_F32 : before;
        if (item->rank >= 2) elements[item->dtype] += item->weight->bytes / pco_dtype_block_bytes(before);
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (elements[types[i]] > elements[main]) main = types[i];
    for (uint32_t i = 0; i < f->items.count; i++) {
        convert_item *item = &f->items.items[i];
        if (item->rank < 2 && (item->weight->dtype == PCO_F32 || wanted >= 0))
            item->dtype = item->scale == 0 && convert_fits(item->weight, main, 1) ? main : PCO_F32;
        f->result->tensors[item->dtype]++;
    }
    return main;
}

static pco_status folder_send(folder_job *f, const pco_weight *described, pco_error *err)
{
    static const pco_weights_note note = {"format", "pt"}; /* transformers asks for it */
    pco_writer head = {0};
    char *path = NULL;
    uint32_t *order = calloc((size_t)f->items.count + 1, sizeof *order);
    pco_status status = order ? folder_name(f->path, "model.safetensors", &path, err) : convert_no_memory(err);
    if (!status)
        status = pco_safetensors_head(described, f->items.count, &note, 1, &head, order, &f->result->bytes_out, err);
    if (!status) status = pco_file_stream_open(path, &f->job.stream, err);
    if (!status) status = pco_file_stream_send(f->job.stream, head.data, head.size, err);
    for (uint32_t i = 0; i < f->items.count && !status; i++)
        status = convert_send(&f->job, &f->items.items[order[i]], err);
    if (f->job.stream) status = pco_file_stream_close(f->job.stream, status, err);
    f->job.stream = NULL;
    pco_writer_release(&head);
    free(order);
    free(path);
    return status;
}

static pco_status folder_put_weights(folder_job *f, pco_error *err)
{
    pco_weight *described = calloc((size_t)f->items.count + 1, sizeof *described);
    pco_status status = described ? convert_threads(&f->job, err) : convert_no_memory(err);
    for (uint32_t i = 0; i < f->items.count && !status; i++) {
        const convert_item *item = &f->items.items[i];
        described[i] = (pco_weight){.name = (char *)item->name, .dtype = (int32_t)item->dtype, .rank = item->rank};
        memcpy(described[i].shape, item->shape, sizeof item->shape);
        f->job.total += item->rank == 3 || item->first == 0 ? item->weight->bytes : 0;
    }
    f->result->bytes_in = f->job.total;
    if (!status) status = folder_send(f, described, err);
    if (f->job.threads) pco_threads_destroy(f->job.threads);
    free(described);
    return status;
}

/* ---- config.json, generation_config.json ---------------------------------------------------------------- */

static int folder_put_id(cJSON *to, const char *key, int32_t id)
{
    return pco_json_give(to, key, id >= 0 ? cJSON_CreateNumber(id) : cJSON_CreateNull());
}

/* BOS, padding, and one token or several that end a text; null says that there are none, as families have defaults. */
static pco_status folder_put_ids(const folder_job *f, cJSON *to, pco_error *err)
{
    const pco_model_file *file = f->file;
    const pco_tokenizer_special none = {-1, -1, -1, -1},
                                said = {file->spec.bos_token_id, file->spec.eos_token_id, file->spec.pad_token_id, -1},
                                special = !file->spec.decoder_only ? said
                                          : file->target           ? pco_tokenizer_specials(file->target)
                                                                   : none;
    cJSON *ends = cJSON_CreateArray();
    int32_t last = -1, count = 0, good = ends != NULL;
    for (int32_t id = 0; id < file->spec.vocab_size[PCO_DECODER] && good; id++) {
        if (!pco_model_file_ends(file, id) && id != special.eos) continue;
        good = pco_json_give(ends, NULL, cJSON_CreateNumber(id));
        last = id;
        count++;
    }
    good = good && folder_put_id(to, "bos_token_id", special.bos) && folder_put_id(to, "pad_token_id", special.pad);
    if (good && count > 1) {
        good = pco_json_give(to, "eos_token_id", ends);
    } else {
        cJSON_Delete(ends);
        good = good && folder_put_id(to, "eos_token_id", last);
    }
    return good ? PCO_OK : convert_no_memory(err);
}

/* A config.json: that of a folder, or one that is made of the spec; and what reading it gives. */
static pco_status folder_read_config(folder_job *f, pco_error *err)
{
    const pco_family *family = f->target.family;
    char *path = NULL;
    pco_status status = PCO_OK;
    if (f->file->family->hub && !f->file->gguf && !f->file->is_part) {
        status = folder_name(f->file->path, "config.json", &path, err);
        if (!status) status = pco_json_load(path, &f->config, err);
        free(path);
    } else {
        status = pco_hub_write(family->model_type, family->hub, &f->target.spec, &f->config, err);
        if (!status) status = folder_put_ids(f, f->config, err);
    }
    char *text = status ? NULL : cJSON_Print(f->config);
    cJSON *read = NULL; /* as others will: numbers in it are written as they are to stand in the file */
    if (!status && !text) status = convert_no_memory(err);
    if (!status) status = pco_json_parse(text, strlen(text), "config.json", &read, err);
    if (!status) status = pco_family_of_config(read, "config.json", &family, &f->target.names, err);
    cJSON_Delete(read);
    free(text);
    return status ? pco_fail_prefix(err, PCO_ERROR_UNSUPPORTED,
                                    "%s: folders of Hugging Face with model_type '%s' cannot say all of it",
                                    f->file->path, f->target.family->model_type)
                  : PCO_OK;
}

/* Where in a text of JSON, an object, the value of one of its keys begins and ends; 0 for a key that it has not.
 * The value is a text or null; the text as a whole was parsed before. */
static int folder_find_text(const char *json, const char *key, size_t *begin, size_t *end)
{
    const size_t size = strlen(key);
    int depth = 0;
    for (size_t at = 0, first; json[at]; at++) {
        depth += (json[at] == '{' || json[at] == '[') - (json[at] == '}' || json[at] == ']');
        if (json[at] != '"') continue;
        for (first = ++at; json[at] && json[at] != '"'; at++) at += json[at] == '\\' && json[at + 1];
        if (!json[at]) return 0;
        if (depth != 1 || at - first != size || strncmp(json + first, key, size) != 0) continue;
        *begin = at + 1 + strspn(json + at + 1, " \t\r\n");
        if (json[*begin] != ':') continue; /* a value */
        *begin += 1 + strspn(json + *begin + 1, " \t\r\n");
        *end =
            *begin + (json[*begin] == '"' ? strcspn(json + *begin + 1, "\"") + 2 : strcspn(json + *begin, ",} \t\r\n"));
        return 1;
    }
    return 0;
}

/* The config.json of a folder, with another type: character by character, since transformers tells 0 from 0.0. */
static pco_status folder_copy_config(const folder_job *f, const char *key, const char *type, pco_error *err)
{
    char *path = NULL, *text = NULL;
    pco_map map = {0};
    pco_writer made = {0};
    size_t begin = 0, end = 0;
    pco_status status = folder_name(f->file->path, "config.json", &path, err);
    if (!status) status = pco_map_open(path, &map, err);
    if (!status && !(text = strndup(map.data ? (const char *)map.data : "", map.size))) status = convert_no_memory(err);
    if (!status && !folder_find_text(text, key, &begin, &end)) {
        begin = end = strcspn(text, "{") + 1;
        pco_write(&made, text, begin);
        pco_print(&made, "\n  \"%s\": \"%s\",", key, type);
    } else if (!status) {
        pco_write(&made, text, begin);
        pco_print(&made, "\"%s\"", type);
    }
    if (!status) pco_write(&made, text + end, strlen(text) - end);
    if (!status && made.status) status = convert_no_memory(err);
    if (!status) status = folder_write(f, "config.json", made.data, made.size, err);
    pco_writer_release(&made);
    pco_map_close(&map);
    free(text);
    free(path);
    return status;
}

static pco_status folder_put_config(folder_job *f, uint32_t dtype, pco_error *err)
{
    const char *name = dtype == PCO_F16 ? "float16" : dtype == PCO_BF16 ? "bfloat16" : "float32";
    const char *key = cJSON_HasObjectItem(f->config, "dtype") ? "dtype" : "torch_dtype";
    if (f->file->family->hub && !f->file->gguf && !f->file->is_part) return folder_copy_config(f, key, name, err);
    cJSON_DeleteItemFromObjectCaseSensitive(f->config, key);
    if (!pco_json_give(f->config, key, cJSON_CreateString(name))) return convert_no_memory(err);
    pco_status status = folder_write_json(f, "config.json", f->config, err);
    if (status || f->file->is_part) return status; /* generation_config.json is copied */
    cJSON *generation = cJSON_CreateObject();
    status = generation ? folder_put_ids(f, generation, err) : convert_no_memory(err);
    if (!status && !f->file->spec.decoder_only &&
        !folder_put_id(generation, "decoder_start_token_id", f->file->spec.decoder_start_token_id))
        status = convert_no_memory(err);
    if (!status) status = folder_write_json(f, "generation_config.json", generation, err);
    cJSON_Delete(generation);
    return status;
}

/* Where the tokenizers of an encoder-decoder are that has two. */
static const char *const folder_sides[] = {"encoder/", "decoder/"};

/* ---- the tokenizer -------------------------------------------------------------------------------------- */

/* Of the folder, or of one in it, whose name then ends with /. */
static pco_status folder_copy_side(const folder_job *f, const char *side, pco_error *err)
{
    static const char *const names[] = {
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "target_vocab.json",
        "merges.txt",
        "vocab.txt",
        "tokenizer.model",
        "spiece.model",
        "chat_template.jinja",
        "chat_template.json",
        "sentencepiece.bpe.model",
        "source.spm",
        "target.spm",
        "preprocessor_config.json",
        "normalizer.json",
    };
    char name[64], *from = NULL, *to = NULL;
    pco_status status = folder_name(f->file->path, side, &from, err);
    if (!status) status = folder_name(f->path, side, &to, err);
    const int there = !status && pco_is_directory(from);
    if (there && *side) status = pco_folder_make(to, err);
    for (size_t i = 0; i < sizeof names / sizeof *names && !status && there; i++) {
        if (f->file->is_part && strcmp(names[i], "preprocessor_config.json") == 0) continue; /* of images */
        snprintf(name, sizeof name, "%s%s", side, names[i]);
        status = folder_copy(f, name, err);
    }
    free(from);
    free(to);
    return status;
}

static pco_status folder_copy_all(const folder_job *f, pco_error *err)
{
    pco_status status = folder_copy_side(f, "", err);
    for (int i = 0; i < 2 && !status && !f->file->spec.decoder_only; i++)
        status = folder_copy_side(f, folder_sides[i], err);
    return status;
}

/* tokenizer_config.json, in the folder or one of it (`side` ends with /): special tokens by their texts, and the chat
 * template. */
static pco_status folder_put_tokenizer_config(const folder_job *f, const char *side, pco_error *err)
{
    char name[64];
    cJSON *root = cJSON_CreateObject();
    char *source = NULL;
    int good =
        root && pco_json_give(root, "tokenizer_class", cJSON_CreateString("PreTrainedTokenizerFast")) &&
        pco_json_give(root, "clean_up_tokenization_spaces", cJSON_CreateFalse()) &&
        pco_json_give(root, "model_max_length", cJSON_CreateNumber((double)f->file->spec.max_position_embeddings));
    pco_status status = good ? pco_model_chat_tokens(f->file, root, err) : convert_no_memory(err);
    if (!status) status = pco_model_chat_source(f->file, &source, err);
    if (status == PCO_ERROR_NOT_FOUND) status = PCO_OK;
    if (!status && source && !pco_json_give(root, "chat_template", cJSON_CreateString(source)))
        status = convert_no_memory(err);
    snprintf(name, sizeof name, "%stokenizer_config.json", side);
    if (!status) status = folder_write_json(f, name, root, err);
    free(source);
    cJSON_Delete(root);
    return status;
}

static pco_status folder_put_tokenizer(const folder_job *f, const char *side, const cJSON *root, pco_error *err)
{
    char name[64], *path;
    snprintf(name, sizeof name, "%stokenizer.json", side);
    pco_status status = folder_name(f->path, side, &path, err);
    if (!status && *side) status = pco_folder_make(path, err);
    if (!status) status = folder_write_json(f, name, root, err);
    free(path);
    return status ? status : folder_put_tokenizer_config(f, side, err);
}

/* The tokenizers of an encoder-decoder: one where they are the same, else each in a folder of its own, from which
 * transformers takes it as a subfolder. */
static pco_status folder_put_pair(const folder_job *f, pco_error *err)
{
    const pco_tokenizer *const tokenizers[] = {f->file->source, f->file->target};
    const uint32_t source = pco_model_around(f->file, PCO_ENCODER), target = pco_model_around(f->file, PCO_DECODER);
    cJSON *roots[3] = {NULL, NULL, NULL}; /* the last: the target's, with the ends of a source */
    pco_status status = PCO_OK;
    for (int i = 0; i < 3 && !status; i++)
        status = pco_tokenizer_make_json(tokenizers[i > 0], i == 1 ? target : source, &roots[i], err);
    if (status) status = pco_fail_prefix(err, status, "%s", f->file->path);
    const int same = !status && cJSON_Compare(roots[0], roots[2], 1);
    if (same) status = folder_put_tokenizer(f, "", roots[0], err);
    for (int i = 0; i < 2 && !status && !same; i++) status = folder_put_tokenizer(f, folder_sides[i], roots[i], err);
    for (int i = 0; i < 3; i++) cJSON_Delete(roots[i]);
    return status;
}

static pco_status folder_put_tokens(const folder_job *f, pco_error *err)
{
    cJSON *root = NULL;
    f->result->no_tokenizer = !f->file->target;
    if (f->file->family->hub && !f->file->gguf) return folder_copy_all(f, err);
    if (!f->file->target) return PCO_OK;
    if (!f->file->spec.decoder_only) return folder_put_pair(f, err);
    pco_status status = pco_tokenizer_make_json(f->file->target, pco_model_around(f->file, PCO_DECODER), &root, err);
    if (status) return pco_fail_prefix(err, status, "%s", f->file->path);
    status = folder_put_tokenizer(f, "", root, err);
    cJSON_Delete(root);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------------------ */

static pco_status folder_read_back(const folder_job *f, pco_error *err)
{
    pco_model_file *made = NULL;
    pco_status status = PCO_OK;
    if (pco_model_file_open(f->path, &made, err))
        status = pco_fail_prefix(err, PCO_ERROR_UNSUPPORTED, "%s: a folder of Hugging Face cannot say all of it",
                                 f->file->path);
    if (!status) status = convert_compare_specs(f->file->path, &f->target, &made->spec, err);
    if (!status) status = convert_compare_ids(f->file, made, 1, err);
    pco_model_file_close(made);
    return status;
}

/* Biases that a GGUF file has or has not, as the config is to say it: those of the first layer. */
static void folder_find_biases(const pco_model_file *file, pco_model_spec *spec)
{
    const pco_layer_names *names = &spec->names;
    struct {
        pco_bias *bias;
        const char *part;
    } found[] = {{&spec->attention_bias, names->fused ? names->fused : names->query},
                 {&spec->output_bias, names->output},
                 {&spec->ffn_bias, names->down ? names->down : names->fc2}};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        char name[PCO_SPEC_NAME], bias[PCO_SPEC_NAME + 8];
        if (*found[i].bias != PCO_BIAS_FOUND || !found[i].part) continue;
        snprintf(bias, sizeof bias, "%s.bias", pco_spec_layer_name(spec, PCO_DECODER, 0, found[i].part, name));
        *found[i].bias = pco_weights_find(file->weights, bias) ? PCO_BIAS_ALL : PCO_BIAS_NONE;
    }
}

/* The config, and tensors under their names. */
static pco_status folder_prepare(folder_job *f, pco_error *err)
{
    const pco_model_file *file = f->file;
    f->target = (convert_target){.family = convert_family(file, 1), .folder = 1, .spec = file->spec};
    if (!f->target.family)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: no family of Hugging Face that Portico writes computes what this model of type '%s' does",
                        file->path, file->family->name);
    convert_trained_spec(file, f->target.family, &f->target.spec);
    folder_find_biases(file, &f->target.spec);
    pco_status status = folder_read_config(f, err);
    if (!status && file->family->any_parts &&
        !file->spec.decoder_only) /* before tensors that follow from it are missed */
        status = convert_compare_specs(file->path, &f->target, &f->target.names, err);
    if (!status) status = convert_list(&f->job, file->weights, file->path, &f->items, err);
    if (!status) status = convert_rename(file, &f->target, &f->items, err);
    if (!status) status = convert_trained_items(file, &f->target, &f->items, err);
    return status ? status : convert_store_names(&f->target, &f->items, err);
}

static pco_status folder_put(folder_job *f, pco_error *err)
{
    pco_status status = folder_put_config(f, folder_choose_types(f), err);
    if (!status) status = folder_put_tokens(f, err);
    return status ? status : folder_put_weights(f, err);
}

static void folder_release(folder_job *f)
{
    convert_release(&f->items);
    cJSON_Delete(f->config);
    free(f->path);
}

pco_status pco_convert_to_folder(const char *in, const char *out, const pco_convert_options *options,
                                 pco_convert_result *result, pco_error *err)
{
    pco_model_file *file = NULL;
    *result = (pco_convert_result){0};
    if (options->output_type >= 0 || (options->type >= 0 && !pco_dtype_is_float((uint32_t)options->type)))
        return pco_fail(err, PCO_ERROR_INVALID,
                        "folders of Hugging Face have one type for all weights: f32, f16 or bf16");
    pco_status status = pco_model_file_open(in, &file, err);
    if (status) return status;
    folder_job f = {.job = {.options = options}, .file = file, .result = result};
    if (options->adapter) status = pco_adapter_open(file, options->adapter, err);
    if (!status && options->adapter) f.job.adapted = file->weights;
    if (!status) status = folder_prepare(&f, err);
    if (!status) status = folder_begin(&f, out, err);
    if (!status) status = folder_put(&f, err);
    if (!status) status = folder_read_back(&f, err);
    status = folder_end(&f, out, status, err);
    folder_release(&f);
    pco_model_file_close(file);
    return status;
}

int pco_convert_writes_folder(const pco_model_file *file)
{
    return file->family->hub && !file->gguf && convert_family(file, 1) == file->family;
}

pco_status pco_convert_trained_to_folder(const pco_model_file *file, const pco_weights *trained, const char *folder,
                                         const pco_convert_options *options, pco_convert_result *result, pco_error *err)
{
    folder_job f = {.job = {.options = options, .trained = trained}, .file = file, .result = result};
    *result = (pco_convert_result){0};
    pco_status status = (f.path = strdup(folder)) ? folder_prepare(&f, err) : convert_no_memory(err);
    if (!status) status = folder_put(&f, err);
    folder_release(&f);
    return status;
}
