#include "tiny_llama.h"

#include "models_test.h"

#include "base/dtype.h"

typedef struct tiny_tensor {
    char name[48];
    int rows, columns; /* rows 0: a vector */
    float bound, offset;
    float *values; /* as they are after rounding to the type of the file */
    void *data;    /* as in the file */
    uint64_t bytes;
} tiny_tensor;

typedef struct tiny_tensors {
    int count;
    tiny_tensor items[TINY_TENSORS];
} tiny_tensors;

static void tiny_add(tiny_tensors *all, const tiny_llama *model, const char *name, int rows, int columns)
{
    tiny_tensor *t = &all->items[all->count];
    int64_t count = (int64_t)(rows ? rows : 1) * columns;
    uint32_t dtype = rows ? (uint32_t)model->dtype : PCO_F32, block = pco_dtype_block(dtype);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->rows = rows;
    t->columns = columns;
    t->bound = rows ? sqrtf(3.0f / (float)columns) : 0.1f;
    t->offset = rows ? 0 : 1;
    if (strcmp(name, "token_embd.weight") == 0) t->bound = 1;
    t->values = malloc((size_t)count * sizeof *t->values);
    t->bytes = (uint64_t)count / block * pco_dtype_block_bytes(dtype);
    t->data = malloc(t->bytes);
    for (int64_t i = 0; i < count; i++) t->values[i] = models_uniform(7, (uint32_t)all->count, i, t->bound, t->offset);
    if (strcmp(name, "rope_freqs.weight") == 0)
        for (int64_t i = 0; i < count; i++) t->values[i] = 1 + 0.5f * (float)i;
    check_ok(pco_dtype_from_f32(dtype, t->values, count, t->data, &err));
    check_ok(pco_dtype_to_f32(dtype, t->data, count, t->values, &err));
    all->count++;
}

static int tiny_width(const tiny_llama *model) { return model->width ? model->width : TINY_WIDTH; }

static int tiny_hidden(const tiny_llama *model) { return model->hidden ? model->hidden : TINY_HIDDEN; }

static int tiny_head(const tiny_llama *model) { return tiny_width(model) / TINY_HEADS; }

static int tiny_rope_dimensions(const tiny_llama *model)
{
    return model->rope_dimensions ? model->rope_dimensions : tiny_head(model);
}

static void tiny_make(const tiny_llama *model, tiny_tensors *all)
{
    const int width = tiny_width(model), hidden = tiny_hidden(model), keys = TINY_GROUPS * tiny_head(model);
    const struct {
        const char *name;
        int rows, columns;
    } layer[] = {{"attn_norm", 0, width},     {"attn_q", width, width},      {"attn_k", keys, width},
                 {"attn_v", keys, width},     {"attn_output", width, width}, {"ffn_norm", 0, width},
                 {"ffn_gate", hidden, width}, {"ffn_up", hidden, width},     {"ffn_down", width, hidden}};
    all->count = 0;
    tiny_add(all, model, "token_embd.weight", TINY_VOCAB, tiny_width(model));
    tiny_add(all, model, "output_norm.weight", 0, tiny_width(model));
    for (int l = 0; l < TINY_LAYERS; l++)
        for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) {
            char name[48];
            snprintf(name, sizeof name, "blk.%d.%s.weight", l, layer[i].name);
            tiny_add(all, model, name, layer[i].rows, layer[i].columns);
        }
    if (model->own_output) tiny_add(all, model, "output.weight", TINY_VOCAB, tiny_width(model));
    if (model->rope_factors) tiny_add(all, model, "rope_freqs.weight", 0, tiny_rope_dimensions(model) / 2);
}

static void tiny_release(tiny_tensors *all)
{
    for (int i = 0; i < all->count; i++) {
        free(all->items[i].values);
        free(all->items[i].data);
    }
}

/* ---- the file --------------------------------------------------------------------------------------- */

static void tiny_put(FILE *out, uint64_t value, size_t bytes)
{
    fwrite(&value, 1, bytes, out); /* little endian, as all hosts of Portico are */
}

static void tiny_text(FILE *out, const char *text)
{
    tiny_put(out, strlen(text), 8);
    fwrite(text, 1, strlen(text), out);
}

static uint64_t tiny_keys(const tiny_llama *model, FILE *out)
{
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {{"llama.embedding_length", (uint32_t)tiny_width(model)},
                 {"llama.block_count", TINY_LAYERS},
                 {"llama.feed_forward_length", (uint32_t)tiny_hidden(model)},
                 {"llama.attention.head_count", TINY_HEADS},
                 {"llama.attention.head_count_kv", TINY_GROUPS},
                 {"llama.context_length", TINY_CONTEXT},
                 {"llama.rope.dimension_count", (uint32_t)tiny_rope_dimensions(model)}};
    const struct {
        const char *name;
        float value;
    } numbers[] = {{"llama.attention.layer_norm_rms_epsilon", 1e-5f},
                   {"llama.rope.freq_base", (float)(model->rope_base > 0 ? model->rope_base : 10000)},
                   {"llama.rope.scaling.factor", (float)(model->rope_scale > 0 ? model->rope_scale : 1)}};
    uint64_t count = 2;
    tiny_text(out, "general.architecture");
    tiny_put(out, 8, 4);
    tiny_text(out, model->architecture ? model->architecture : "llama");
    tiny_text(out, "llama.rope.scaling.type");
    tiny_put(out, 8, 4);
    tiny_text(out, model->rope_scale > 0 ? "linear" : "none");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (model->without && strcmp(model->without, sizes[i].name) == 0) continue;
        tiny_text(out, sizes[i].name);
        tiny_put(out, 4, 4);
        tiny_put(out, sizes[i].value, 4);
        count++;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (model->without && strcmp(model->without, numbers[i].name) == 0) continue;
        tiny_text(out, numbers[i].name);
        tiny_put(out, 6, 4);
        fwrite(&numbers[i].value, 4, 1, out);
        count++;
    }
    return count;
}

static uint64_t tiny_file_bytes(const tiny_llama *model, const tiny_tensor *t)
{
    if (model->as_q8_1 && strcmp(model->as_q8_1, t->name) == 0) return (uint64_t)t->rows * t->columns / 32 * 36;
    if (model->wrong_shape && strcmp(model->wrong_shape, t->name) == 0) return t->bytes + t->bytes / (uint64_t)t->rows;
    return t->bytes;
}

static void tiny_tensor_info(const tiny_llama *model, const tiny_tensor *t, uint64_t offset, FILE *out)
{
    static const uint32_t ids[] = {
        [PCO_F32] = 0,   [PCO_F16] = 1,     [PCO_BF16] = 30,   [PCO_Q8_0] = 8,  [PCO_Q4_0] = 2,  [PCO_Q4_1] = 3,
        [PCO_Q6_K] = 14, [PCO_Q5_0] = 6,    [PCO_Q5_1] = 7,    [PCO_Q2_K] = 10, [PCO_Q3_K] = 11, [PCO_Q4_K] = 12,
        [PCO_Q5_K] = 13, [PCO_IQ4_NL] = 20, [PCO_IQ4_XS] = 23, [PCO_MXFP4] = 39};
    int longer = model->wrong_shape && strcmp(model->wrong_shape, t->name) == 0;
    int q8_1 = model->as_q8_1 && strcmp(model->as_q8_1, t->name) == 0;
    tiny_text(out, t->name);
    tiny_put(out, t->rows ? 2 : 1, 4);
    tiny_put(out, (uint64_t)t->columns, 8);
    if (t->rows) tiny_put(out, (uint64_t)t->rows + (longer ? 1 : 0), 8);
    tiny_put(out, q8_1 ? 9 : t->rows ? ids[model->dtype] : 0, 4);
    tiny_put(out, offset, 8);
}

int tiny_llama_write(const tiny_llama *model, const char *path)
{
    tiny_tensors all;
    FILE *out = fopen(path, "wb");
    if (!out) return 0;
    tiny_make(model, &all);
    int left_out = 0;
    for (int i = 0; i < all.count; i++) left_out += model->without && strcmp(model->without, all.items[i].name) == 0;
    fwrite("GGUF", 1, 4, out);
    tiny_put(out, 3, 4);
    tiny_put(out, (uint64_t)(all.count - left_out), 8);
    long keys_at = ftell(out);
    tiny_put(out, 0, 8);
    uint64_t keys = tiny_keys(model, out), offset = 0;
    for (int i = 0; i < all.count; i++) {
        if (model->without && strcmp(model->without, all.items[i].name) == 0) continue;
        tiny_tensor_info(model, &all.items[i], offset, out);
        offset += (tiny_file_bytes(model, &all.items[i]) + 31) / 32 * 32;
    }
    while (ftell(out) % 32) tiny_put(out, 0, 1);
    for (int i = 0; i < all.count; i++) {
        if (model->without && strcmp(model->without, all.items[i].name) == 0) continue;
        uint64_t bytes = tiny_file_bytes(model, &all.items[i]), own = all.items[i].bytes;
        fwrite(all.items[i].data, 1, own < bytes ? own : bytes, out);
        for (uint64_t k = own < bytes ? own : bytes; k < bytes; k++) tiny_put(out, 0, 1);
        while (ftell(out) % 32) tiny_put(out, 0, 1);
    }
    fseek(out, keys_at, SEEK_SET);
    tiny_put(out, keys, 8);
    tiny_release(&all);
    int failed = ferror(out) | fclose(out);
    return !failed;
}

/* ---- the reference ------------------------------------------------------------------------------------ */

static const tiny_tensor *tiny_find(const tiny_tensors *all, const char *name)
{
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->items[i].name, name) == 0) return &all->items[i];
    return NULL;
}

static const tiny_tensor *tiny_layer(const tiny_tensors *all, int layer, const char *what)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    return tiny_find(all, name);
}

static void tiny_linear(const tiny_tensor *w, const double *x, double *y)
{
    for (int r = 0; r < w->rows; r++) {
        y[r] = 0;
        for (int c = 0; c < w->columns; c++) y[r] += (double)w->values[r * w->columns + c] * x[c];
    }
}

static void tiny_norm(const tiny_tensor *w, const double *x, double *y)
{
    double squares = 0;
    for (int i = 0; i < w->columns; i++) squares += x[i] * x[i];
    for (int i = 0; i < w->columns; i++)
        y[i] = x[i] / sqrt(squares / w->columns + (double)1e-5f) * (double)w->values[i];
}

static void tiny_rope(const tiny_llama *model, const tiny_tensors *all, double *x, int heads, int position)
{
    const tiny_tensor *factors = tiny_find(all, "rope_freqs.weight");
    const int dimensions = tiny_rope_dimensions(model), head = tiny_head(model);
    const double base = model->rope_base > 0 ? model->rope_base : 10000;
    const double scale = model->rope_scale > 0 ? model->rope_scale : 1;
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < dimensions / 2; i++) {
            double *pair = x + h * head + 2 * i, a = pair[0], b = pair[1];
            double angle = position * pow(base, -2.0 * i / dimensions) / scale;
            if (factors) angle /= (double)factors->values[i];
            pair[0] = a * cos(angle) - b * sin(angle);
            pair[1] = a * sin(angle) + b * cos(angle);
        }
}

/* One query row over keys and values 0 .. position, [position][groups][head]. Head h's weights go to
 * weights[h * stride], unless it is NULL. */
static void tiny_attend(int head, const double *query, const double *keys, const double *values, int position,
                        double *out, double *weights, int stride)
{
    const int row = TINY_GROUPS * head;
    double scores[TINY_CONTEXT];
    for (int h = 0; h < TINY_HEADS; h++) {
        const int at = h / (TINY_HEADS / TINY_GROUPS) * head;
        double largest = -INFINITY, sum = 0;
        for (int j = 0; j <= position; j++) {
            scores[j] = 0;
            for (int d = 0; d < head; d++) scores[j] += query[h * head + d] * keys[j * row + at + d];
            scores[j] /= sqrt(head);
            largest = fmax(largest, scores[j]);
        }
        for (int j = 0; j <= position; j++) sum += scores[j] = exp(scores[j] - largest);
        for (int j = 0; weights && j <= position; j++) weights[h * stride + j] = scores[j] / sum;
        for (int d = 0; d < head; d++) {
            out[h * head + d] = 0;
            for (int j = 0; j <= position; j++) out[h * head + d] += scores[j] / sum * values[j * row + at + d];
        }
    }
}

static void tiny_ffn(const tiny_tensors *all, int layer, double *x)
{
    double normed[TINY_MOST], gate[TINY_MOST], up[TINY_MOST], down[TINY_MOST];
    const tiny_tensor *back = tiny_layer(all, layer, "ffn_down");
    tiny_norm(tiny_layer(all, layer, "ffn_norm"), x, normed);
    tiny_linear(tiny_layer(all, layer, "ffn_gate"), normed, gate);
    tiny_linear(tiny_layer(all, layer, "ffn_up"), normed, up);
    for (int i = 0; i < back->columns; i++) gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    tiny_linear(back, gate, down);
    for (int i = 0; i < back->rows; i++) x[i] += down[i];
}

/* Either result may be NULL. */
static void tiny_run(const tiny_llama *model, const int32_t *ids, int count, double *logits, double *weights)
{
    const int width = tiny_width(model), at = TINY_GROUPS * tiny_head(model); /* values of a position's keys */
    tiny_tensors all;
    tiny_make(model, &all);
    const tiny_tensor *table = tiny_find(&all, "token_embd.weight"), *head = tiny_find(&all, "output.weight");
    double *keys = calloc((size_t)TINY_LAYERS * TINY_CONTEXT * (size_t)at, sizeof *keys);
    double *values = calloc((size_t)TINY_LAYERS * TINY_CONTEXT * (size_t)at, sizeof *values);
    for (int t = 0; t < count; t++) {
        double x[TINY_MOST], normed[TINY_MOST], query[TINY_MOST], mixed[TINY_MOST], out[TINY_MOST];
        for (int i = 0; i < width; i++) x[i] = (double)table->values[ids[t] * width + i];
        for (int l = 0; l < TINY_LAYERS; l++) {
            double *k = keys + (size_t)l * TINY_CONTEXT * (size_t)at,
                   *v = values + (size_t)l * TINY_CONTEXT * (size_t)at;
            tiny_norm(tiny_layer(&all, l, "attn_norm"), x, normed);
            tiny_linear(tiny_layer(&all, l, "attn_q"), normed, query);
            tiny_linear(tiny_layer(&all, l, "attn_k"), normed, k + t * at);
            tiny_linear(tiny_layer(&all, l, "attn_v"), normed, v + t * at);
            tiny_rope(model, &all, query, TINY_HEADS, t);
            tiny_rope(model, &all, k + t * at, TINY_GROUPS, t);
            double *row = weights ? weights + (l * TINY_HEADS * count + t) * count : NULL;
            tiny_attend(tiny_head(model), query, k, v, t, mixed, row, count * count);
            tiny_linear(tiny_layer(&all, l, "attn_output"), mixed, out);
            for (int i = 0; i < width; i++) x[i] += out[i];
            tiny_ffn(&all, l, x);
        }
        tiny_norm(tiny_find(&all, "output_norm.weight"), x, normed);
        if (logits) tiny_linear(head ? head : table, normed, logits + (size_t)t * TINY_VOCAB);
    }
    free(keys);
    free(values);
    tiny_release(&all);
}

void tiny_llama_logits(const tiny_llama *model, const int32_t *ids, int count, double *logits)
{
    tiny_run(model, ids, count, logits, NULL);
}

void tiny_llama_attention(const tiny_llama *model, const int32_t *ids, int count, double *weights)
{
    memset(weights, 0, sizeof *weights * TINY_LAYERS * TINY_HEADS * (size_t)count * (size_t)count);
    tiny_run(model, ids, count, NULL, weights);
}
