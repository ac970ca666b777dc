#include "models/ct2_model.h"

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "formats/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CT2_STACK(side) \
    { \
        .embed_scope = side, .head_scope = side, .embedding = side ".embeddings.weight", .layer = side ".layer_*", \
        .last_norm = side ".layer_norm" \
    }

/* What CTranslate2's first specifications fix, and later ones say: pre-norm, ReLU, sinuses at positions counted from 1.
 */
static const pco_model_spec ct2_spec = {
    .program = "decoder",
    .stacks = {CT2_STACK("encoder"), CT2_STACK("decoder")},
    .names = {.self_attention_norm = "self_attention.layer_norm",
              .cross_attention_norm = "attention.layer_norm",
              .ffn_norm = "ffn.layer_norm",
              .query = "self_attention.linear_0",
              .key = "self_attention.linear_0",
              .value = "self_attention.linear_0",
              .fused = "self_attention.linear_0",
              .output = "self_attention.linear_1",
              .cross_query = "attention.linear_0",
              .cross_key = "attention.key",
              .cross_value = "attention.value",
              .cross_output = "attention.linear_2",
              .fc1 = "ffn.linear_0",
              .fc2 = "ffn.linear_1"},
    .lm_head = "decoder.projection.weight",
    .logits_bias = "decoder.projection.bias",
    .activation_function = PCO_NN_RELU,
    .normalize_before = 1,
    .norm.eps = 1e-5,
    .final_norm = 1,
    .attention_bias = PCO_BIAS_ALL,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_SINUSOIDAL,
    .sinusoidal_layout = 1,
    .position_offset = 1,
    .scale_embedding = 1,
    .max_position_embeddings = 512,
};

static const pco_family ct2_family = {.name = "ct2", .spec = &ct2_spec};

/* The tokens of a file, in *text: one a line, or, from version 5 on, a list in JSON, which is kept in *list. */
static pco_status ct2_tokens(const char *path, int64_t size, char **text, cJSON **list, const char **tokens,
                             int64_t *count, pco_error *err)
{
    pco_map map;
    const cJSON *item;
    pco_status status = PCO_OK;
    if (pco_text_ends(path, ".json")) {
        status = pco_json_load(path, list, err);
        if (!status && !cJSON_IsArray(*list)) status = pco_fail(err, PCO_ERROR_FORMAT, "%s is no list of tokens", path);
        cJSON_ArrayForEach(item, *list)
        {
            if (!status && !cJSON_IsString(item))
                status = pco_fail(err, PCO_ERROR_FORMAT, "%s is no list of tokens", path);
            if (status) break;
            if (*count < size) tokens[*count] = item->valuestring;
            ++*count;
        }
        return status;
    }
    status = pco_map_open(path, &map, err);
    if (status) return status;
    *text = strndup(map.data ? (const char *)map.data : "", map.size);
    pco_map_close(&map);
    if (!*text) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
    for (char *at = *text, *end; *at; at = end, ++*count) {
        end = strchr(at, '\n');
        if (end)
            *end++ = 0;
        else
            end = at + strlen(at);
        if (*count < size) tokens[*count] = at;
    }
    return PCO_OK;
}

/* A vocabulary as a tokenizer; `size` tokens are expected. */
static pco_status ct2_vocabulary(const char *path, int64_t size, pco_tokenizer_special *special,
                                 pco_tokenizer **tokenizer, pco_error *err)
{
    int64_t count = 0;
    char *text = NULL;
    cJSON *list = NULL;
    const char **tokens = calloc((size_t)size + 1, sizeof *tokens);
    pco_status status = tokens ? ct2_tokens(path, size, &text, &list, tokens, &count, err)
                               : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
    for (int64_t i = 0; i < count && i < size && !status; i++) {
        if (strcmp(tokens[i], "<s>") == 0) special->bos = (int32_t)i;
        if (strcmp(tokens[i], "</s>") == 0) special->eos = (int32_t)i;
        if (strcmp(tokens[i], "<blank>") == 0) special->pad = (int32_t)i;
        if (strcmp(tokens[i], "<unk>") == 0) special->unk = (int32_t)i;
    }
    if (!status && count == size - 1) { /* the unknown token is the last, and not in the file */
        special->unk = (int32_t)count;
        tokens[count++] = "<unk>";
    }
    if (!status && count != size)
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s has %" PRId64 " tokens and the embeddings have %" PRId64, path,
                          count, size);
    if (!status) status = pco_tokenizer_from_vocab(tokens, (uint32_t)count, special, tokenizer, err);
    free(tokens);
    free(text);
    cJSON_Delete(list);
    return status;
}

static int64_t ct2_size(const pco_weights *weights, const char *name, uint32_t dimension)
{
    const pco_weight *weight = pco_weights_find(weights, name);
    return weight && weight->rank == 2 ? weight->shape[dimension] : 0;
}

/* A number about the model, of any type; NaN where there is none. */
static double ct2_number(const pco_weights *weights, const char *name)
{
    const pco_weight *weight = pco_weights_find(weights, name);
    int8_t i8;
    int16_t i16;
    int32_t i32;
    float f32;
    if (!weight || weight->rank || !weight->data) return NAN;
    if (strcmp(weight->type_name, "I8") == 0) return memcpy(&i8, weight->data, 1), (double)i8;
    if (strcmp(weight->type_name, "I16") == 0) return memcpy(&i16, weight->data, 2), (double)i16;
    if (strcmp(weight->type_name, "I32") == 0) return memcpy(&i32, weight->data, 4), (double)i32;
    if (strcmp(weight->type_name, "F32") == 0) return memcpy(&f32, weight->data, 4), (double)f32;
    return NAN;
}

/* The number of both sides, which must be the same. */
static pco_status ct2_both(const pco_weights *weights, const char *name, double fallback, double *value, pco_error *err)
{
    char full[2][64];
    double found[2];
    for (int side = 0; side < 2; side++) {
        snprintf(full[side], sizeof full[side], "%s.%s", side ? "decoder" : "encoder", name);
        found[side] = ct2_number(weights, full[side]);
        if (isnan(found[side])) found[side] = fallback;
    }
    *value = found[0];
    if (found[0] == found[1]) return PCO_OK;
    return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: '%s' is %g and '%s' is %g, which Portico cannot run",
                    weights->label, full[0], found[0], full[1], found[1]);
}

/* Is it part of what Portico builds of a TransformerSpec? Numbers are looked at one by one. */
static int ct2_is_known(const pco_weight *weight)
{
    static const char *const parts[] = {"self_attention.layer_norm",
                                        "self_attention.linear_0",
                                        "self_attention.linear_1",
                                        "attention.layer_norm",
                                        "attention.linear_0",
                                        "attention.linear_1",
                                        "attention.linear_2",
                                        "attention.key",
                                        "attention.value",
                                        "ffn.layer_norm",
                                        "ffn.linear_0",
                                        "ffn.linear_1"};
    static const char *const outside[] = {
        "embeddings.weight", "embeddings_0.weight", "layer_norm.weight",           "layer_norm.bias",
        "projection.weight", "projection.bias",     "position_encodings.encodings"};
    const char *name = strchr(weight->name, '.');
    int known = 0;
    if (!weight->rank) return 1;
    if (!name || (strncmp(weight->name, "encoder.", 8) != 0 && strncmp(weight->name, "decoder.", 8) != 0)) return 0;
    name++;
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) known |= strcmp(name, outside[i]) == 0;
    if (known || strncmp(name, "layer_", 6) != 0) return known;
    name += 6 + strspn(name + 6, "0123456789");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const size_t size = strlen(parts[i]);
        if (*name == '.' && strncmp(name + 1, parts[i], size) == 0)
            known |= strcmp(name + 1 + size, ".weight") == 0 || strcmp(name + 1 + size, ".bias") == 0;
    }
    return known;
}

/* What later specifications say by numbers (ctranslate2.specs.TransformerSpec). */
static pco_status ct2_read_options(const pco_weights *weights, pco_model_spec *spec, int64_t *heads, pco_error *err)
{
    static const char *const zeros[] = {"alibi", "scale_alibi", "start_from_zero_embedding", "multi_query_attention"};
    static const pco_nn_activation activations[] = {PCO_NN_RELU, PCO_NN_GELU_TANH, PCO_NN_SILU, PCO_NN_GELU};
    static const char tables[2][40] = {"encoder.position_encodings.encodings", "decoder.position_encodings.encodings"};
    double number, activation, before, scale, unused;
    pco_status status = ct2_both(weights, "num_heads", 8, &number, err);
    if (!status) status = ct2_both(weights, "activation", 0, &activation, err);
    if (!status) status = ct2_both(weights, "pre_norm", 1, &before, err);
    if (!status) status = ct2_both(weights, "scale_embeddings", 1, &scale, err);
    for (int i = 0; i < 4 && !status; i++) {
        char name[64];
        snprintf(name, sizeof name, "decoder.%s", zeros[i]);
        unused = ct2_number(weights, name);
        if (!isnan(unused) && unused != 0)
            status = pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: '%s' is %g, which Portico cannot run; it runs 0",
                              weights->label, name, unused);
    }
    for (uint32_t i = 0; i < weights->count && !status; i++)
        if (!ct2_is_known(&weights->items[i]))
            status = pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s has a variable '%s', which Portico does not know",
                              weights->label, weights->items[i].name);
    if (!status && !(number >= 1 && number <= 4096 && activation >= 0 && activation <= 3))
        status = pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: %g heads, or activation %g, which Portico cannot run",
                          weights->label, number, activation);
    const pco_weight *table[2] = {pco_weights_find(weights, tables[0]), pco_weights_find(weights, tables[1])};
    if (!status && (!table[0] != !table[1] || (table[0] && (table[0]->rank != 2 || table[1]->rank != 2 ||
                                                            table[0]->shape[0] != table[1]->shape[0]))))
        status = pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: encoder and decoder have other positions", weights->label);
    if (status) return status;
    *heads = (int64_t)number;
    spec->activation_function = activations[(int)activation];
    spec->normalize_before = before != 0;
    spec->scale_embedding = scale != 0;
    spec->final_norm = pco_weights_find(weights, "decoder.layer_norm.weight") != NULL;
    if (pco_weights_find(weights, "encoder.embeddings_0.weight"))
        spec->stacks[PCO_ENCODER].embedding = "encoder.embeddings_0.weight";
    if (!pco_weights_find(weights, spec->logits_bias)) spec->logits_bias = NULL;
    if (!table[0]) return PCO_OK;
    spec->position_embedding = PCO_POSITION_LEARNED;
    spec->position_offset = 0;
    spec->max_position_embeddings = table[0]->shape[0];
    for (int side = 0; side < 2; side++) spec->stacks[side].positions = tables[side];
    return PCO_OK;
}

static pco_status ct2_read_spec(const pco_weights *weights, pco_model_spec *spec, pco_error *err)
{
    static const char *const sides[] = {"encoder", "decoder"};
    const char *kind = pco_weights_note_value(weights, "spec");
    int64_t heads = strcmp(kind, "TransformerBase") == 0 ? 8 : strcmp(kind, "TransformerBig") == 0 ? 16 : 0;
    char name[64];
    *spec = ct2_spec;
    const int says = strcmp(kind, "TransformerSpec") == 0;
    if (!heads && !says)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s is of '%.100s'; Portico reads TransformerSpec, TransformerBase and TransformerBig",
                        weights->label, kind);
    if (says) {
        const pco_status status = ct2_read_options(weights, spec, &heads, err);
        if (status) return status;
    }
    spec->d_model = ct2_size(weights, "decoder.embeddings.weight", 1);
    for (int side = 0; side < 2; side++) {
        int64_t layers = 0;
        spec->vocab_size[side] = ct2_size(weights, spec->stacks[side].embedding, 0);
        snprintf(name, sizeof name, "%s.layer_0.ffn.linear_0.weight", sides[side]);
        spec->ffn_dim[side] = ct2_size(weights, name, 0);
        do snprintf(name, sizeof name, "%s.layer_%" PRId64 ".ffn.linear_0.weight", sides[side], layers);
        while (pco_weights_find(weights, name) && ++layers);
        spec->layers[side] = layers;
        spec->attention_heads[side] = spec->kv_heads[side] = heads;
        spec->head_dim[side] = spec->d_model / heads;
        if (spec->vocab_size[side] < 1 || spec->ffn_dim[side] < 1 || spec->d_model < 1 || spec->d_model % (2 * heads))
            return pco_fail(err, PCO_ERROR_FORMAT, "%s has not the weights of a %s of %" PRId64 " heads",
                            weights->label, sides[side], heads);
    }
    pco_spec_set_norm(spec);
    spec->last_norm = spec->norm;
    return PCO_OK;
}

/* config.json of later versions: how sources end, the token that answers begin with, and the epsilon of norms. */
static pco_status ct2_read_config(const char *folder, pco_model_spec *spec, const pco_tokenizer *target, pco_error *err)
{
    char *path;
    cJSON *root;
    const char *start = NULL;
    int begins = 0;
    pco_status status = pco_json_load_if(folder, "config.json", &path, &root, err);
    if (status || !root) {
        free(path);
        return status;
    }
    const cJSON *eps = cJSON_GetObjectItemCaseSensitive(root, "layer_norm_epsilon");
    if (!status && eps && !cJSON_IsNull(eps))
        status = pco_json_number(root, path, "layer_norm_epsilon", 0x1p-149, 1e3, &spec->norm.eps, err);
    if (!status) status = pco_json_bool_or(root, path, "add_source_eos", 0, &spec->add_eos_to_source, err);
    if (!status) status = pco_json_bool_or(root, path, "add_source_bos", 0, &begins, err);
    if (!status && begins)
        status = pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: 'add_source_bos' is true, which Portico cannot run", path);
    if (!status) status = pco_json_string_or(root, path, "decoder_start_token", NULL, &start, err);
    const uint32_t vocab = pco_tokenizer_vocab_size(target);
    uint32_t id = 0;
    while (!status && start && id < vocab && strcmp(pco_tokenizer_token(target, (int32_t)id, NULL), start) != 0) id++;
    if (!status && start && id == vocab)
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: 'decoder_start_token' is '%.100s', which the vocabulary has not",
                          path, start);
    if (!status && start) spec->decoder_start_token_id = (int32_t)id;
    spec->last_norm = spec->norm;
    cJSON_Delete(root);
    free(path);
    return status;
}

/* A vocabulary, as JSON or as lines; *found: the folder has it, or (needed: 1) must have it. */
static pco_status ct2_find(const char *folder, const char *name, int needed, int64_t size,
                           pco_tokenizer_special *special, int *found, pco_tokenizer **tokenizer, pco_error *err)
{
    char file[64], *path = NULL;
    pco_status status = PCO_OK;
    for (int json = 1; !status && !path && json >= 0; json--) {
        snprintf(file, sizeof file, "%s_vocabulary.%s", name, json ? "json" : "txt");
        status = pco_file_find(folder, file, &path, err);
    }
    *found = path || needed;
    if (!status && path) status = ct2_vocabulary(path, size, special, tokenizer, err);
    if (!status && needed && !path)
        status = pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has neither %s_vocabulary.json nor %s", folder, name, file);
    free(path);
    return status;
}

pco_status pco_ct2_read_model(const char *folder, const pco_weights *weights, const pco_family **family,
                              pco_model_spec *spec, pco_tokenizer **source, pco_tokenizer **target, pco_error *err)
{
    pco_tokenizer_special special[2] = {{-1, -1, -1, -1}, {-1, -1, -1, -1}};
    int shared, found;
    *family = &ct2_family;
    pco_status status = ct2_read_spec(weights, spec, err);
    if (status) return status;
    status = ct2_find(folder, "shared", 0, spec->vocab_size[0], &special[0], &shared, source, err);
    if (!status && shared) *target = *source;
    if (!status && !shared)
        status = ct2_find(folder, "source", 1, spec->vocab_size[0], &special[0], &found, source, err);
    if (!status && !shared)
        status = ct2_find(folder, "target", 1, spec->vocab_size[1], &special[1], &found, target, err);
    const pco_tokenizer_special *ends = &special[shared ? 0 : 1];
    spec->pad_token_id = ends->pad < 0 ? 0 : ends->pad;
    spec->bos_token_id = spec->decoder_start_token_id = ends->bos;
    spec->eos_token_id = ends->eos;
    if (!status && (ends->bos < 0 || ends->eos < 0))
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: the vocabulary of the target has no '<s>' or no '</s>'", folder);
    return status || strcmp(pco_weights_note_value(weights, "spec"), "TransformerSpec") != 0
               ? status
               : ct2_read_config(folder, spec, *target, err);
}
