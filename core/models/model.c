#include "models/model.h"

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "formats/ct2.h"
#include "formats/llama2c.h"
#include "formats/shards.h"
#include "formats/torch_file.h"
#include "models/causal.h"
#include "models/ct2_model.h"
#include "models/encoder.h"
#include "models/refuse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MODEL_CONTEXT_DEFAULT = 4096, MODEL_CONTEXT_MOST = 1 << 24 };

/* Is it, or are rows of it, a constant of the graph? */
static int model_uses(const pco_graph *graph, const pco_weight *weight)
{
    const char *begin = weight->data, *end = begin + weight->bytes;
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        const char *data = graph->tensors[t].data;
        if (graph->tensors[t].kind == PCO_KIND_CONSTANT && data >= begin && data < end) return 1;
    }
    return 0;
}

/* The graphs that use all tensors of the model: of what reads or writes texts, and of what reads images. */
static void model_build(const pco_model_file *file, pco_graph *const graphs[2])
{
    const pco_nn texts = {.graph = graphs[0], .weights = file->weights},
                 images = {.graph = graphs[1], .weights = file->weights};
    if (file->images) pco_image_encoder_build(&images, file->images, 1, PCO_ENCODER_HIDDEN);
    if (!pco_model_reads_texts(file)) return;
    if (file->spec.encoder_only)
        pco_encoder_build(&texts, &file->spec, 1, 1,
                          file->spec.masked_head.dense ? PCO_ENCODER_LOGITS : PCO_ENCODER_HIDDEN);
    else
        pco_causal_build(&texts, &file->spec, PCO_CAUSAL_ROWS(1, 1));
}

/* What no graph uses would be left out of what the model computes: biases and norms that its family does not have,
 * layers beyond block_count, scales of other tensors. What cannot be built is refused by model_check_graphs. */
static pco_status model_check_tensors(const pco_model_file *file, pco_error *err)
{
    pco_graph *const graphs[2] = {pco_graph_create(), pco_graph_create()};
    pco_status status = PCO_OK;
    const pco_model_side side = file->spec.encoder_only ? PCO_ENCODER : PCO_DECODER;
    if (graphs[0] && graphs[1])
        model_build(file, graphs);
    else
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", file->path);
    for (uint32_t i = 0; !status && i < file->weights->count && !graphs[0]->status && !graphs[1]->status; i++) {
        const pco_weight *weight = &file->weights->items[i];
        if (!model_uses(graphs[0], weight) && !model_uses(graphs[1], weight) &&
            !(file->spec.rope_factor_count && strncmp(weight->name, "rope_f", 6) == 0) &&
            !(file->family->hub && pco_hub_unused(file->family->hub, weight->name)))
            status = pco_fail(err, PCO_ERROR_UNSUPPORTED,
                              "%s has a tensor '%s', which a model of architecture '%s' with %" PRId64
                              " layers has not; Portico does not run the file, as it would leave the tensor out",
                              file->path, weight->name, file->family->name, file->spec.layers[side]);
    }
    pco_graph_destroy(graphs[0]);
    pco_graph_destroy(graphs[1]);
    return status;
}

/* What file->gguf has, which the caller opened. */
static pco_status model_read_gguf(const char *path, pco_model_file *file, pco_error *err)
{
    pco_status status = pco_model_check_kind(path, file->gguf, err);
    if (!status) status = pco_family_of_gguf(file->gguf, &file->family, &file->spec, err);
    if (status) return status;
    file->weights = pco_gguf_weights(file->gguf);
    status = model_check_tensors(file, err);
    if (status || !pco_gguf_find(file->gguf, "tokenizer.ggml.model")) return status;
    status = pco_tokenizer_from_gguf(file->gguf, &file->target, err);
    file->source = file->target;
    const int64_t vocab = file->spec.vocab_size[PCO_DECODER];
    if (!status && pco_tokenizer_vocab_size(file->target) != (uint64_t)vocab)
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: the tokenizer has %u tokens and '%s' %" PRId64, path,
                          pco_tokenizer_vocab_size(file->target), file->spec.stacks[PCO_DECODER].embedding, vocab);
    return status;
}

static pco_status model_open_gguf(const char *path, pco_model_file *file, pco_error *err)
{
    const pco_status status = pco_gguf_open(path, 0, &file->gguf, err);
    return status ? status : model_read_gguf(path, file, err);
}

static pco_status model_open_llama2c(const char *path, pco_model_file *file, pco_error *err)
{
    const pco_status status = pco_llama2c_open(path, &file->gguf, err);
    return status ? status : model_read_gguf(path, file, err);
}

/* Ids that the model is given or that end its text must be rows of its tables. */
static pco_status model_check_ids(const char *path, const pco_model_spec *spec, pco_error *err)
{
    const struct {
        const char *key;
        int32_t id;
    } ids[] = {{"decoder_start_token_id", spec->decoder_start_token_id},
               {"eos_token_id", spec->eos_token_id},
               {"bos_token_id", spec->bos_token_id},
               {"pad_token_id", spec->pad_token_id}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i].id >= spec->vocab_size[PCO_DECODER])
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: %s is %d, outside the vocabulary of %" PRId64, path, ids[i].key,
                            ids[i].id, spec->vocab_size[PCO_DECODER]);
    return PCO_OK;
}

/* "eos_token_id" of a JSON file: a number or a list of them; null and absent say nothing. */
static pco_status model_add_ends(pco_model_file *file, const cJSON *root, const char *path, pco_error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, "eos_token_id");
    if (cJSON_IsArray(item)) item = item->child;
    for (const cJSON *next; item && !cJSON_IsNull(item); item = next) {
        int64_t id;
        next = item->string ? NULL : item->next; /* a list's elements have no names */
        if (!pco_json_whole(item, &id) || id < 0 || id > INT32_MAX)
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: 'eos_token_id' must be a token, or a list of tokens", path);
        if (pco_model_file_ends(file, (int32_t)id)) continue;
        if (file->n_ends == PCO_MODEL_ENDS)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: 'eos_token_id' has more than %d tokens", path,
                            PCO_MODEL_ENDS);
        file->ends[file->n_ends++] = (int32_t)id;
    }
    return PCO_OK;
}

/* "bad_words_ids": lists of one token each, of an encoder-decoder. Marian's has its padding there, whose logit is 0. */
static pco_status model_add_never(pco_model_file *file, const cJSON *root, const char *path, pco_error *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "bad_words_ids"), *item;
    if (file->spec.decoder_only || file->spec.encoder_only || !list || cJSON_IsNull(list)) return PCO_OK;
    cJSON_ArrayForEach(item, list)
    {
        int64_t id;
        if (!cJSON_IsArray(item) || !pco_json_whole(item->child, &id) || id < 0 ||
            id >= file->spec.vocab_size[PCO_DECODER])
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: 'bad_words_ids' must be a list of lists of tokens", path);
        if (item->child->next)
            return pco_fail(
                err, PCO_ERROR_UNSUPPORTED,
                "%s: 'bad_words_ids' with several tokens behind each other is not supported; take that list "
                "out if they may be written",
                path);
        int32_t *more = realloc(file->never, ((size_t)file->n_never + 1) * sizeof *more);
        if (!more) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
        file->never = more;
        file->never[file->n_never++] = (int32_t)id;
    }
    return PCO_OK;
}

/* The tokenizer of a folder as Hugging Face's; of an encoder-decoder perhaps one for each side, in folders of it. None
 * is no error: ids alone can be run and judged. */
static pco_status model_open_tokenizers(const char *folder, const char *path, pco_model_file *file, pco_error *err)
{
    static const char *const sides[] = {"encoder", "decoder"};
    pco_tokenizer **const tokenizers[] = {&file->source, &file->target};
    pco_error why;
    pco_status status = pco_tokenizer_open_folder(folder, &file->target, &why);
    file->source = file->target;
    if (!status && !file->spec.decoder_only && !file->spec.encoder_only) {
        pco_tokenizer *target = NULL;
        status = pco_tokenizer_open_target(folder, &target, &why);
        if (!status) file->target = target;
        if (status == PCO_ERROR_NOT_FOUND) status = PCO_OK;
    }
    const int pair = status == PCO_ERROR_NOT_FOUND && !file->spec.decoder_only && !file->spec.encoder_only;
    for (int side = 0; side < 2 && pair; side++) {
        char *within = NULL;
        if (asprintf(&within, "%s/%s", folder, sides[side]) < 0)
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
        status =
            pco_is_directory(within) ? pco_tokenizer_open_folder(within, tokenizers[side], &why) : PCO_ERROR_NOT_FOUND;
        free(within);
        if (status) break;
    }
    if (status == PCO_ERROR_NOT_FOUND && !file->source) return PCO_OK;
    if (status) return pco_fail(err, status, "%s", why.message);
    for (int side = 0; side < 2 && !status; side++) {
        const int64_t vocab = file->spec.vocab_size[side];
        if (pco_tokenizer_vocab_size(*tokenizers[side]) > (uint64_t)vocab)
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s: the tokenizer has %u tokens and 'vocab_size' is %" PRId64,
                              path, pco_tokenizer_vocab_size(*tokenizers[side]), vocab);
    }
    return status;
}

/* What ends a text and what is never written, also by generation_config.json, and the tokenizer of a folder as Hugging
 * Face's. */
static pco_status model_read_hub(const char *folder, const char *path, const cJSON *root, pco_model_file *file,
                                 pco_error *err)
{
    char *name = NULL;
    cJSON *generation = NULL;
    pco_status status = model_add_ends(file, root, path, err);
    if (!status) status = pco_json_load_if(folder, "generation_config.json", &name, &generation, err);
    if (!status && generation) status = model_add_ends(file, generation, name, err);
    if (!status) status = model_add_never(file, root, path, err);
    if (!status && generation) status = model_add_never(file, generation, name, err);
    cJSON_Delete(generation);
    free(name);
    return status ? status : model_open_tokenizers(folder, path, file, err);
}

/* The spec of what reads images, where something does. */
static pco_status model_read_images(const cJSON *root, const char *path, pco_model_file *file, pco_error *err)
{
    if (file->spec.patches.projection) file->images = &file->spec;
    if (!file->family->images) return PCO_OK;
    file->second = *file->family->images;
    file->images = &file->second;
    return pco_hub_read_images(file->family->hub, root, path, &file->second, err);
}

static pco_status model_read_config(const char *folder, const char *path, pco_model_file *file, pco_error *err)
{
    cJSON *root;
    pco_status status = pco_json_load(path, &root, err);
    if (status) return status;
    pco_model_spec *spec = &file->spec;
    status = pco_family_of_config(root, path, &file->family, spec, err);
    file->is_part = !status && pco_hub_text_part(file->family->hub, root) != NULL;
    if (!status) status = model_read_images(root, path, file, err);
    if (!status && pco_model_reads_texts(file) && (spec->vocab_size[0] < 1 || spec->vocab_size[1] < 1))
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: vocab_size is missing", path);
    if (!status && pco_model_reads_texts(file)) status = model_check_ids(path, spec, err);
    if (!status && pco_model_reads_texts(file) && file->family->hub)
        status = model_read_hub(folder, path, root, file, err);
    for (int side = 0; side < 2 && !status && file->family->read_tokenizer; side++)
        status = file->family->read_tokenizer(root, path, spec, (pco_model_side)side,
                                              side == PCO_ENCODER ? &file->source : &file->target, err);
    cJSON_Delete(root);
    return status;
}

/* A head that the file has not is none. */
static void model_check_head(const pco_model_file *file, pco_row_head *head)
{
    char name[PCO_SPEC_NAME];
    snprintf(name, sizeof name, "%s.weight", head->linear ? head->linear : "");
    if (head->linear && !pco_weights_find(file->weights, name)) *head = (pco_row_head){0};
}

/* The tensors of a folder of Hugging Face as the spec has them. The head that guesses masked tokens is built only where
 * there is one. */
static pco_status model_prepare_hub(pco_model_file *file, pco_error *err)
{
    char name[PCO_SPEC_NAME];
    pco_model_spec *spec = &file->spec;
    pco_status status = file->is_part ? pco_hub_take_text_part(file->family->hub, file->safetensors, err) : PCO_OK;
    if (!status) status = pco_hub_prepare(file->family->hub, spec, file->safetensors, err);
    if (status) return status;
    snprintf(name, sizeof name, "%s.weight", spec->masked_head.dense ? spec->masked_head.dense : "");
    if (spec->masked_head.dense && !pco_weights_find(file->weights, name)) spec->masked_head = (pco_masked_head){0};
    for (int i = 0; i < 2; i++) {
        model_check_head(file, i ? &file->second.features : &spec->features);
        model_check_head(file, i ? &file->second.classes : &spec->classes);
    }
    if (spec->lm_head && pco_weights_find(file->weights, spec->lm_head)) spec->tie_word_embeddings = 0;
    return spec->encoder_only || spec->decoder_only ? model_check_tensors(file, err) : PCO_OK;
}

/* model.bin is CTranslate2's, with or without a config.json of its own. */
static pco_status model_open_ct2(const char *path, const char *weights, pco_model_file *file, pco_error *err)
{
    pco_status status = pco_ct2_open(weights, &file->safetensors, err);
    file->weights = file->safetensors;
    if (!status)
        status = pco_ct2_read_model(path, file->weights, &file->family, &file->spec, &file->source, &file->target, err);
    return status ? status : model_check_ids(path, &file->spec, err);
}

/* Folders whose weights are not those of Hugging Face, by what pco_model_find_other has found. */
static pco_status model_open_other(const char *path, const char *found, pco_model_file *file, pco_error *err)
{
    if (pco_text_ends(found, ".bin")) return model_open_ct2(path, found, file, err);
    if (pco_text_ends(found, ".gguf")) return model_open_gguf(found, file, err);
    return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                    "%s is an adapter, which runs beside the model that it was trained with: give that, and this as "
                    "--adapter",
                    path);
}

static pco_status model_open_folder(const char *path, pco_model_file *file, pco_error *err)
{
    char *name;
    pco_status status = pco_model_find_other(path, &name, err);
    if (!status && name) status = model_open_other(path, name, file, err);
    const int other = name != NULL;
    free(name);
    if (status || other) return status;
    status = pco_model_check_folder(path, err);
    if (status) return status;
    if (asprintf(&name, "%s/config.json", path) < 0)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
    status = model_read_config(path, name, file, err);
    free(name);
    if (status) return status;
    name = pco_model_find_weights(path);
    if (!name) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
    const char *end = strrchr(name, '.');
    status = end && strcmp(end, ".bin") == 0 ? pco_torch_open(name, &file->safetensors, err)
                                             : pco_shards_open(name, &file->safetensors, err);
    free(name);
    file->weights = file->safetensors;
    return status || !file->family->hub ? status : model_prepare_hub(file, err);
}

uint32_t pco_model_around(const pco_model_file *file, pco_model_side side)
{
    const pco_tokenizer *tokenizer = side == PCO_ENCODER ? file->source : file->target;
    const int alone = file->spec.decoder_only || file->spec.encoder_only,
              says = alone || file->family->hub != NULL; /* else lists of tokens, of which the config says all */
    const int eos = !alone && side == PCO_ENCODER && file->spec.add_eos_to_source;
    return (says && pco_tokenizer_adds_bos(tokenizer) ? PCO_ENCODE_BOS : 0u) |
           (eos || (says && pco_tokenizer_adds_eos(tokenizer)) ? PCO_ENCODE_EOS : 0u);
}

int pco_model_file_ends(const pco_model_file *file, int32_t id)
{
    if (file->target && pco_tokenizer_ends(file->target, id)) return 1;
    for (uint32_t i = 0; i < file->n_ends; i++)
        if (file->ends[i] == id) return 1;
    return 0;
}

/* Does the file begin as GGUF files do? */
static pco_status model_is_gguf(const char *path, int *is, pco_error *err)
{
    pco_map map;
    const pco_status status = pco_map_open(path, &map, err);
    *is = !status && map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
    pco_map_close(&map);
    return status;
}

static pco_model_file *model_file_create(const char *path, pco_error *err)
{
    pco_model_file *file = calloc(1, sizeof *file);
    if (file && (file->path = strdup(path))) return file;
    free(file);
    pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
    return NULL;
}

/* All graphs of the model, as small as they may be: what lacks a tensor, or has one of another shape, is no model, and
 * nobody is to hear that from the middle of a conversion or a training. */
static pco_status model_check_graphs(const pco_model_file *file, pco_error *err)
{
    pco_memory_estimate unused;
    pco_error why;
    const pco_status status = pco_model_estimate(file, 1, 1, PCO_F32, &unused, &why);
    if (!status) return PCO_OK;
    if (status == PCO_ERROR_OUT_OF_HOST_MEMORY || strncmp(why.message, file->path, strlen(file->path)) == 0)
        return pco_fail(err, status, "%s", why.message); /* of weights: it says where they are, and what may be wrong */
    return pco_fail(
        err, status,
        "%s: what its tensors and numbers describe is no model: %s; the file is damaged or mixes two models: "
        "download or convert it again",
        file->path, why.message);
}

pco_status pco_model_file_open_memory(const void *data, size_t size, pco_model_file **out, pco_error *err)
{
    pco_model_file *file = model_file_create("a model in memory", err);
    *out = NULL;
    if (!file) return PCO_ERROR_OUT_OF_HOST_MEMORY;
    pco_status status = pco_gguf_parse(data, size, file->path, 0, &file->gguf, err);
    if (!status) status = model_read_gguf(file->path, file, err);
    if (!status) status = model_check_graphs(file, err);
    if (status)
        pco_model_file_close(file);
    else
        *out = file;
    return status;
}

pco_status pco_model_file_open(const char *path, pco_model_file **out, pco_error *err)
{
    struct stat info;
    *out = NULL;
    if (!*path) return pco_fail(err, PCO_ERROR_INVALID, "the name of the model is empty");
    if (stat(path, &info)) return pco_fail(err, PCO_ERROR_IO, "%s cannot be opened: %m", path);
    pco_model_file *file = model_file_create(path, err);
    if (!file) return PCO_ERROR_OUT_OF_HOST_MEMORY;
    pco_status status = PCO_OK;
    int is_gguf = 0, is_llama2c = 0;
    if (!S_ISDIR(info.st_mode)) status = model_is_gguf(path, &is_gguf, err);
    if (!S_ISDIR(info.st_mode) && !status && !is_gguf) status = pco_llama2c_is(path, &is_llama2c, err);
    if (S_ISDIR(info.st_mode))
        status = model_open_folder(path, file, err);
    else if (is_gguf)
        status = model_open_gguf(path, file, err);
    else if (is_llama2c)
        status = model_open_llama2c(path, file, err);
    else if (!status)
        status = pco_model_refuse(path, err);
    if (!status) status = model_check_graphs(file, err);
    if (status) {
        pco_model_file_close(file);
        return status;
    }
    *out = file;
    return PCO_OK;
}

void pco_model_file_close(pco_model_file *file)
{
    if (!file) return;
    if (file->source != file->target) pco_tokenizer_destroy(file->source);
    pco_tokenizer_destroy(file->target);
    pco_gguf_close(file->gguf);
    pco_weights_close(file->safetensors);
    free(file->never);
    free(file->path);
    free(file);
}

pco_status pco_model_context(const pco_model_file *file, int64_t wanted, int64_t *context, pco_error *err)
{
    const int64_t most = file->spec.max_position_embeddings;
    if (wanted < 0 || wanted > MODEL_CONTEXT_MOST)
        return pco_fail(err, PCO_ERROR_INVALID, "a context of %" PRId64 " tokens is not possible; it can be 1 to %d",
                        wanted, MODEL_CONTEXT_MOST);
    if (file->spec.position_embedding == PCO_POSITION_LEARNED && wanted > most)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "a context of %" PRId64 " tokens is not possible; %s has learned %" PRId64 " positions", wanted,
                        file->path, most);
    *context = wanted ? wanted : most < MODEL_CONTEXT_DEFAULT ? most : MODEL_CONTEXT_DEFAULT;
    return PCO_OK;
}
