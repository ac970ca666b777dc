#include "models/hf_config.h"

#include "base/error.h"

#include <inttypes.h>
#include <string.h>

pco_nn_activation pco_hf_activation(pco_json_reader *reader, const char *key, pco_nn_activation fallback)
{
    static const struct {
        const char *name;
        pco_nn_activation value;
    } rows[] = {{"gelu", PCO_NN_GELU},
                {"relu", PCO_NN_RELU},
                {"silu", PCO_NN_SILU},
                {"swish", PCO_NN_SILU},
                {"gelu_new", PCO_NN_GELU_TANH},
                {"gelu_fast", PCO_NN_GELU_TANH},
                {"gelu_pytorch_tanh", PCO_NN_GELU_TANH}};
    enum { ROWS = sizeof rows / sizeof *rows };
    const char *names[ROWS];
    if (!cJSON_GetObjectItemCaseSensitive(reader->root, key)) return fallback;
    for (int i = 0; i < ROWS; i++) names[i] = rows[i].name;
    return rows[pco_json_read_enum(reader, key, names, ROWS, 0)].value;
}

int32_t pco_hf_token(pco_json_reader *reader, const char *key, int32_t fallback)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(reader->root, key);
    int64_t first;
    if (!reader->status && cJSON_IsArray(item) && item->child && pco_json_whole(item->child, &first) && first >= 0 &&
        first <= INT32_MAX)
        return (int32_t)first;
    return (int32_t)pco_json_read_int(reader, key, -1, INT32_MAX, fallback);
}

/* A choice of which only one is there. */
static void hf_only(pco_json_reader *reader, const char *key, const char *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(reader->root, key);
    if (reader->status || !cJSON_IsString(item) || strcmp(item->valuestring, value) == 0) return;
    reader->status = pco_fail(reader->err, PCO_ERROR_UNSUPPORTED, "%s: '%s' is '%s'; Portico runs '%s' only",
                              reader->label, key, item->valuestring, value);
}

static void hf_refuse(pco_json_reader *reader, const char *key)
{
    if (!pco_json_read_bool(reader, key, 0) || reader->status) return;
    reader->status = pco_fail(reader->err, PCO_ERROR_UNSUPPORTED,
                              "%s: '%s' is true, and Portico runs the family as an "
                              "encoder only",
                              reader->label, key);
}

static int64_t hf_size(pco_json_reader *reader, const char *key, int64_t most)
{
    const int64_t value = pco_json_read_int(reader, key, 1, most, 0);
    if (!reader->status && value < 1)
        reader->status = pco_fail(reader->err, PCO_ERROR_FORMAT, "%s: key '%s' is missing", reader->label, key);
    return value;
}

void pco_hf_read_encoder_keys(pco_json_reader *reader, const pco_hf_encoder_keys *keys, pco_model_spec *spec)
{
    spec->vocab_size[PCO_ENCODER] = spec->vocab_size[PCO_DECODER] = hf_size(reader, "vocab_size", INT32_MAX);
    spec->d_model = hf_size(reader, keys->width, 1 << 20);
    spec->layers[PCO_ENCODER] = hf_size(reader, keys->layers, 1024);
    const int64_t heads = hf_size(reader, keys->heads, 4096);
    spec->ffn_dim[PCO_ENCODER] = hf_size(reader, keys->hidden, 1 << 24);
    const int64_t positions = hf_size(reader, "max_position_embeddings", 1 << 24);
    spec->activation_function = pco_hf_activation(reader, keys->activation, spec->activation_function);
    spec->norm.eps = pco_json_read_number(reader, "layer_norm_eps", 0, 1, spec->norm.eps);
    spec->pad_token_id = pco_hf_token(reader, "pad_token_id", spec->pad_token_id);
    spec->bos_token_id = spec->eos_token_id = spec->decoder_start_token_id = -1;
    hf_only(reader, "position_embedding_type", "absolute");
    hf_refuse(reader, "is_decoder");
    hf_refuse(reader, "add_cross_attention");
    if (reader->status) return;
    if (spec->d_model % heads) {
        reader->status = pco_fail(reader->err, PCO_ERROR_FORMAT, "%s: '%s' %" PRId64 " is no multiple of '%s' %" PRId64,
                                  reader->label, keys->width, spec->d_model, keys->heads, heads);
        return;
    }
    spec->attention_heads[PCO_ENCODER] = spec->kv_heads[PCO_ENCODER] = heads;
    spec->head_dim[PCO_ENCODER] = spec->d_model / heads;
    spec->norm.size = spec->d_model;
    spec->position_rows = positions;
    spec->max_position_embeddings = positions - spec->position_offset;
    if (spec->max_position_embeddings < 1)
        reader->status =
            pco_fail(reader->err, PCO_ERROR_FORMAT,
                     "%s: 'max_position_embeddings' is %" PRId64 ", of which the first %" PRId64 " are for padding",
                     reader->label, positions, spec->position_offset);
}

void pco_hf_read_encoder(pco_json_reader *reader, pco_model_spec *spec)
{
    static const pco_hf_encoder_keys keys = {"hidden_size", "num_hidden_layers", "num_attention_heads",
                                             "intermediate_size", "hidden_act"};
    pco_hf_read_encoder_keys(reader, &keys, spec);
}
