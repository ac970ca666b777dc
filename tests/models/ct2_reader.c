#include "ct2_reader.h"

#include "base/error.h"
#include "formats/json.h"
#include "formats/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reading position; `bad` once something was cut off. */
typedef struct ct2_cursor {
    const unsigned char *data;
    size_t size, at;
    int bad;
} ct2_cursor;

static const void *ct2_take(ct2_cursor *c, size_t bytes)
{
    static const unsigned char zeros[8];
    if (c->bad || bytes > c->size - c->at) {
        c->bad = 1;
        return bytes <= sizeof zeros ? zeros : NULL;
    }
    c->at += bytes;
    return c->data + c->at - bytes;
}

static uint32_t ct2_number(ct2_cursor *c, size_t bytes)
{
    const unsigned char *p = ct2_take(c, bytes);
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint32_t)p[i] << (8 * i);
    return value;
}

static void ct2_string(ct2_cursor *c, char *text, size_t size)
{
    size_t length = ct2_number(c, 2);
    const char *bytes = ct2_take(c, length);
    text[0] = 0;
    if (c->bad || length == 0 || length > size) {
        c->bad = 1;
        return;
    }
    memcpy(text, bytes, length);
    text[length - 1] = 0;
}

static void ct2_variable_read(ct2_cursor *c, ct2_variable *v)
{
    ct2_string(c, v->name, sizeof v->name);
    v->rank = ct2_number(c, 1);
    if (v->rank > 4) c->bad = 1;
    for (uint32_t i = 0; i < v->rank && !c->bad; i++) v->shape[i] = ct2_number(c, 4);
    uint32_t item = ct2_number(c, 1);
    v->count = ct2_number(c, 4);
    const unsigned char *bytes = ct2_take(c, (size_t)v->count * item);
    v->data = calloc((size_t)v->count + 1, sizeof *v->data);
    if (c->bad || !v->data) return;
    for (int64_t i = 0; i < v->count; i++) {
        int16_t wide;
        if (item == 4) memcpy(&v->data[i], bytes + 4 * i, 4);
        if (item == 2) memcpy(&wide, bytes + 2 * i, 2), v->data[i] = wide;
        if (item == 1) v->data[i] = (signed char)bytes[i];
    }
    if (item != 1 && item != 2 && item != 4) c->bad = 1;
}

static ct2_variable *ct2_find(const ct2_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->count; i++)
        if (strcmp(model->variables[i].name, name) == 0) return &model->variables[i];
    return NULL;
}

/* real = stored / scale; one scale, or one per row. */
static void ct2_dequantize(ct2_model *model)
{
    for (uint32_t i = 0; i < model->count; i++) {
        ct2_variable *scale = &model->variables[i];
        char name[128];
        size_t length = strlen(scale->name);
        if (length < 6 || strcmp(scale->name + length - 6, "_scale") != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)(length - 6), scale->name);
        ct2_variable *v = ct2_find(model, name);
        for (int64_t k = 0; v && k < v->count; k++)
            v->data[k] /= scale->count > 1 ? scale->data[k / (v->count / scale->count)] : scale->data[0];
    }
}

pco_status ct2_read(const char *path, ct2_model *model, pco_error *err)
{
    pco_map map;
    char spec[128];
    *model = (ct2_model){0};
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    ct2_cursor cursor = {.data = map.data, .size = map.size};
    uint32_t version = ct2_number(&cursor, 4);
    ct2_string(&cursor, spec, sizeof spec);
    ct2_number(&cursor, 4);
    uint32_t count = ct2_number(&cursor, 4);
    if (version == 2 && !cursor.bad && count < 100000 && (model->variables = calloc(count, sizeof *model->variables)))
        for (; model->count < count && !cursor.bad; model->count++)
            ct2_variable_read(&cursor, &model->variables[model->count]);
    if (version != 2 || cursor.bad || model->count != count)
        status =
            pco_fail(err, PCO_ERROR_FORMAT, "%s is no CTranslate2 model of version 2 (offset %zu)", path, cursor.at);
    else
        ct2_dequantize(model);
    pco_map_close(&map);
    if (status) ct2_release(model);
    return status;
}

void ct2_release(ct2_model *model)
{
    for (uint32_t i = 0; i < model->count; i++) free(model->variables[i].data);
    free(model->variables);
    *model = (ct2_model){0};
}

/* ---- conversion ------------------------------------------------------------------------------------- */

typedef struct ct2_writer {
    const ct2_model *model;
    pco_weight weights[512];
    char names[512][96];
    uint32_t count;
    pco_status status;
    pco_error *err;
} ct2_writer;

/* Variable `from`, rows first .. first+rows-1 of its first dimension (rows 0: all), as tensor `to`. */
static void ct2_put(ct2_writer *w, const char *to, const char *from, int64_t first, int64_t rows)
{
    const ct2_variable *v = ct2_find(w->model, from);
    if (w->status) return;
    if (!v || v->rank < 1 || w->count == 512 || (rows && first + rows > v->shape[0])) {
        w->status = pco_fail(w->err, PCO_ERROR_FORMAT, "the model has no variable '%s' as expected", from);
        return;
    }
    pco_weight *weight = &w->weights[w->count];
    snprintf(w->names[w->count], sizeof w->names[0], "%s", to);
    *weight = (pco_weight){.name = w->names[w->count], .type_name = "F32", .dtype = PCO_F32, .rank = v->rank};
    memcpy(weight->shape, v->shape, sizeof v->shape);
    int64_t row = v->count / v->shape[0];
    if (rows) weight->shape[0] = rows;
    weight->bytes = (uint64_t)(weight->shape[0] * row) * sizeof(float);
    weight->data = v->data + first * row;
    w->count++;
}

/* Weight and bias of a linear layer, or (norm) gamma and beta. `to` ends in '.' or '_'. */
static void ct2_put_pair(ct2_writer *w, const char *to, const char *from, int norm, int64_t first, int64_t rows)
{
    char source[192], target[192];
    snprintf(source, sizeof source, "%s/%s", from, norm ? "gamma" : "weight");
    snprintf(target, sizeof target, "%sweight", to);
    ct2_put(w, target, source, first, rows);
    snprintf(source, sizeof source, "%s/%s", from, norm ? "beta" : "bias");
    snprintf(target, sizeof target, "%sbias", to);
    ct2_put(w, target, source, first, rows);
}

static void ct2_put_layer(ct2_writer *w, const char *side, int index, int64_t width)
{
    static const struct {
        const char *to, *from;
        int norm, rows, decoder; /* rows: 1 the first `width` rows, 2 the next */
    } table[] = {
        {"self_attn_layer_norm.", "self_attention/layer_norm", 1, 0, 0},
        {"self_attn.in_proj_", "self_attention/linear_0", 0, 0, 0},
        {"self_attn.out_proj.", "self_attention/linear_1", 0, 0, 0},
        {"encoder_attn_layer_norm.", "attention/layer_norm", 1, 0, 1},
        {"encoder_attn.q_proj.", "attention/linear_0", 0, 0, 1},
        {"encoder_attn.k_proj.", "attention/linear_1", 0, 1, 1},
        {"encoder_attn.v_proj.", "attention/linear_1", 0, 2, 1},
        {"encoder_attn.out_proj.", "attention/linear_2", 0, 0, 1},
        {"final_layer_norm.", "ffn/layer_norm", 1, 0, 0},
        {"fc1.", "ffn/linear_0", 0, 0, 0},
        {"fc2.", "ffn/linear_1", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char to[80], from[100];
        if (table[i].decoder && strcmp(side, "decoder") != 0) continue;
        snprintf(to, sizeof to, "%s.layers.%d.%s", side, index, table[i].to);
        snprintf(from, sizeof from, "%s/layer_%d/%s", side, index, table[i].from);
        ct2_put_pair(w, to, from, table[i].norm, table[i].rows == 2 ? width : 0, table[i].rows ? width : 0);
    }
}

/* A vocabulary file, one token in a line, as an array of `rows` tokens. CTranslate2 puts <unk> behind a
 * vocabulary that lacks it: the table has a row for it. */
static void ct2_put_vocabulary(pco_json_writer *json, const char *key, const char *from, const char *file, int64_t rows)
{
    char path[1200], line[256];
    int64_t count = 0;
    snprintf(path, sizeof path, "%s/%s", from, file);
    FILE *in = fopen(path, "r");
    pco_json_key(json, key);
    pco_json_begin_array(json);
    while (in && fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        pco_json_write_string(json, line);
        count++;
    }
    if (count + 1 == rows) pco_json_write_string(json, "<unk>");
    pco_json_end_array(json);
    if (in) fclose(in);
}

static pco_status ct2_write_config(const ct2_model *model, const char *from, const char *to, int layers, pco_error *err)
{
    static const char *const on[] = {"normalize_before", "final_norm", "fused_qkv", "scale_embedding",
                                     "final_logits_bias"};
    static const char *const off[] = {"share_embeddings", "tie_word_embeddings", "add_eos_to_source"};
    static const struct {
        const char *key;
        int value;
    } fixed[] = {{"encoder_attention_heads", 8},
                 {"decoder_attention_heads", 8},
                 {"position_offset", 1},
                 {"pad_token_id", 0},
                 {"bos_token_id", 1},
                 {"eos_token_id", 2},
                 {"decoder_start_token_id", 1}};
    const ct2_variable *source = ct2_find(model, "encoder/embeddings/weight");
    const ct2_variable *table = ct2_find(model, "decoder/embeddings/weight");
    const ct2_variable *fc1 = ct2_find(model, "encoder/layer_0/ffn/linear_0/weight");
    char path[1200];
    snprintf(path, sizeof path, "%s/config.json", to);
    if (!source || !table || !fc1) return pco_fail(err, PCO_ERROR_FORMAT, "%s: a variable is missing", from);
    pco_writer text = {0};
    pco_json_writer json = {.out = &text, .indent = 1};
#define NUMBER(key, value) (pco_json_key(&json, key), pco_json_write_int(&json, value))
#define TEXT(key, value)   (pco_json_key(&json, key), pco_json_write_string(&json, value))
    pco_json_begin_object(&json);
    TEXT("model_type", "transformer");
    TEXT("activation_function", "relu");
    TEXT("sinusoidal_layout", "half");
    NUMBER("d_model", table->shape[1]);
    NUMBER("encoder_layers", layers);
    NUMBER("decoder_layers", layers);
    NUMBER("encoder_ffn_dim", fc1->shape[0]);
    NUMBER("decoder_ffn_dim", fc1->shape[0]);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) NUMBER(fixed[i].key, fixed[i].value);
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) pco_json_key(&json, on[i]), pco_json_write_bool(&json, 1);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) pco_json_key(&json, off[i]), pco_json_write_bool(&json, 0);
    NUMBER("encoder_vocab_size", source->shape[0]);
    NUMBER("decoder_vocab_size", table->shape[0]);
    ct2_put_vocabulary(&json, "encoder_vocab", from, "source_vocabulary.txt", source->shape[0]);
    ct2_put_vocabulary(&json, "decoder_vocab", from, "target_vocabulary.txt", table->shape[0]);
    pco_json_end_object(&json);
#undef NUMBER
#undef TEXT
    pco_status status = pco_writer_save(&text, path, err);
    pco_writer_release(&text);
    return status;
}

pco_status ct2_convert(const char *from, const char *to, pco_error *err)
{
    static const char *const sides[] = {"encoder", "decoder"};
    char path[1200];
    ct2_model model;
    snprintf(path, sizeof path, "%s/model.bin", from);
    pco_status status = ct2_read(path, &model, err);
    if (status) return status;
    ct2_writer *writer = calloc(1, sizeof *writer);
    if (!writer) abort();
    writer->model = &model;
    writer->err = err;
    const ct2_variable *table = ct2_find(&model, "decoder/embeddings/weight");
    int layers = 0;
    for (int s = 0; s < 2; s++) {
        char source[128], target[96];
        snprintf(source, sizeof source, "%s/embeddings/weight", sides[s]);
        snprintf(target, sizeof target, "%s.embed_tokens.weight", sides[s]);
        ct2_put(writer, target, source, 0, 0);
        snprintf(source, sizeof source, "%s/layer_norm", sides[s]);
        snprintf(target, sizeof target, "%s.layer_norm.", sides[s]);
        ct2_put_pair(writer, target, source, 1, 0, 0);
        for (layers = 0; table && layers < 64; layers++) {
            snprintf(source, sizeof source, "%s/layer_%d/ffn/linear_0/weight", sides[s], layers);
            if (!ct2_find(&model, source)) break;
            ct2_put_layer(writer, sides[s], layers, table->shape[1]);
        }
    }
    ct2_put(writer, "lm_head.weight", "decoder/projection/weight", 0, 0);
    ct2_put(writer, "final_logits_bias", "decoder/projection/bias", 0, 0);
    status = writer->status;
    snprintf(path, sizeof path, "%s/model.safetensors", to);
    if (!status) status = pco_safetensors_write(path, writer->weights, writer->count, NULL, 0, err);
    if (!status) status = ct2_write_config(&model, from, to, layers, err);
    free(writer);
    ct2_release(&model);
    return status;
}
