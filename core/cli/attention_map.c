#include "cli/attention_map.h"

#include "base/error.h"
#include "base/utf8.h"
#include "formats/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAP_LEVELS = 32,     /* shades; level of a weight w: floor(w * 32 + 1/2), 0 is not drawn */
    MAP_CELLS = 4000000, /* most that one picture holds: some 50 MB, as far as browsers go */
    MAP_LABEL = 14,      /* most characters of a token */
    MAP_GAP = 18,        /* pixels between panels */
    MAP_LETTER = 60      /* width of a letter, in hundredths of the font's size (monospace) */
};

/* One label: a token, printable. */
typedef struct map_label {
    char text[8 * MAP_LABEL + 8];
    uint32_t width; /* letters */
} map_label;

/* One attention, kept until all are there. */
typedef struct map_item {
    pco_attention_map map; /* weights owned */
} map_item;

typedef struct map_set {
    map_item *items;
    uint32_t count;
    map_label *source, *target; /* of the tokens of each side */
    size_t n_source, n_target;
    int64_t layer; /* wanted, or -1 */
    int failed;    /* out of memory */
} map_set;

static const char *const map_kinds[] = {"encoder self-attention", "decoder self-attention", "cross-attention"};
static const char *const map_keys[] = {"encoder", "decoder", "cross"};

/* ---- labels ---- */

/* Appends one character, and makes visible what does not print. */
static void map_append(map_label *label, const char *bytes, size_t size, uint32_t code)
{
    char text[16];
    if (size == 0 || code < 32 || code == 127 || (code >= 0xfffe && code <= 0xffff))
        snprintf(text, sizeof text, code == '\n' ? "\\n" : "\\x%02x", (unsigned char)*bytes);
    else if (code == ' ')
        snprintf(text, sizeof text, "\xe2\x90\xa3"); /* U+2423, open box */
    else
        snprintf(text, sizeof text, "%.*s", (int)size, bytes);
    size_t length = strlen(label->text);
    if (length + strlen(text) + 4 > sizeof label->text) return;
    memcpy(label->text + length, text, strlen(text) + 1);
    label->width += *text == '\\' ? (uint32_t)strlen(text) : 1;
}

static void map_spell(const pco_tokenizer *tokenizer, int32_t id, map_label *label)
{
    size_t size = 0;
    const char *text = pco_tokenizer_token(tokenizer, id, &size);
    *label = (map_label){{0}, 0};
    for (size_t at = 0; text && at < size;) {
        uint32_t code = 0;
        size_t step = pco_utf8_decode(text + at, size - at, &code);
        if (label->width >= MAP_LABEL - 1) {
            strcat(label->text, "\xe2\x80\xa6"); /* an ellipsis; map_append leaves room for it */
            label->width++;
            return;
        }
        map_append(label, text + at, step, code);
        at += step ? step : 1;
    }
    if (!*label->text) snprintf(label->text, sizeof label->text, "%d", id), label->width = 4;
}

/* ---- collecting ---- */

static int map_receive(void *user, const pco_attention_map *map)
{
    map_set *set = user;
    if (set->layer >= 0 && map->layer != set->layer) return 0;
    size_t bytes = (size_t)(map->heads * map->queries * map->keys) * sizeof *map->weights;
    map_item *grown = realloc(set->items, (set->count + 1) * sizeof *grown);
    if (grown) set->items = grown;
    float *weights = malloc(bytes ? bytes : 1);
    if (!grown || !weights) {
        free(weights);
        return set->failed = 1;
    }
    memcpy(weights, map->weights, bytes);
    set->items[set->count].map = *map;
    set->items[set->count++].map.weights = weights;
    return 0;
}

/* The labels of the rows and columns of an attention. */
static const map_label *map_rows(const map_set *set, const pco_attention_map *map)
{
    return map->kind == PCO_ATTENTION_ENCODER ? set->source : set->target;
}

static const map_label *map_columns(const map_set *set, const pco_attention_map *map)
{
    return map->kind == PCO_ATTENTION_DECODER ? set->target : set->source;
}

/* ---- SVG ---- */

typedef struct map_layout {
    double cell, font, left, top; /* of a panel: pixels; room for labels */
    double width, height;         /* of the picture */
} map_layout;

static double map_widest(const map_label *labels, int64_t count)
{
    uint32_t widest = 0;
    for (int64_t i = 0; i < count; i++)
        if (labels[i].width > widest) widest = labels[i].width;
    return widest;
}

/* Sizes, from the longest text. */
static map_layout map_measure(const map_set *set)
{
    map_layout l = {.cell = 14};
    int64_t longest = 1;
    double left = 0, top = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        const pco_attention_map *map = &set->items[i].map;
        if (map->queries > longest) longest = map->queries;
        if (map->keys > longest) longest = map->keys;
        double rows = map_widest(map_rows(set, map), map->queries);
        double columns = map_widest(map_columns(set, map), map->keys);
        if (rows > left) left = rows;
        if (columns > top) top = columns;
    }
    if (l.cell * (double)longest > 600) l.cell = 600 / (double)longest;
    if (l.cell < 2) l.cell = 2;
    l.font = 0.8 * l.cell;
    l.left = l.font * left * MAP_LETTER / 100 + 4;
    l.top = l.font * top * MAP_LETTER / 100 + 4;
    return l;
}

static double map_panel_width(const map_layout *l, const pco_attention_map *map)
{
    return l->left + l->cell * (double)map->keys + MAP_GAP;
}

static double map_panel_height(const map_layout *l, const pco_attention_map *map)
{
    return 14 + l->top + l->cell * (double)map->queries + MAP_GAP;
}

static int map_level(float weight)
{
    int level = (int)((double)weight * MAP_LEVELS + 0.5);
    return level < 0 || weight != weight ? 0 : level > MAP_LEVELS ? MAP_LEVELS : level;
}

/* From near the page's colour over blue to its opposite: on a white page, and on a dark one. */
static void map_colours(pco_writer *out, int dark)
{
    static const int pages[2][3][3] = {{{232, 240, 250}, {62, 130, 196}, {6, 24, 66}},
                                       {{22, 34, 52}, {62, 130, 196}, {226, 240, 255}}};
    const int(*stops)[3] = pages[dark];
    for (int level = 1; level <= MAP_LEVELS; level++) {
        double at = 2.0 * level / MAP_LEVELS;
        int from = at < 1 ? 0 : 1, colour[3];
        for (int c = 0; c < 3; c++)
            colour[c] = (int)(stops[from][c] + (at - from) * (stops[from + 1][c] - stops[from][c]) + 0.5);
        pco_print(out, ".c%d{fill:#%02x%02x%02x}\n", level, colour[0], colour[1], colour[2]);
    }
}

/* The cells of one shade: runs of neighbours in a row are one piece of the path. */
static void map_shade(pco_writer *out, const float *weights, int64_t queries, int64_t keys, int level)
{
    int open = 0;
    for (int64_t q = 0; q < queries; q++)
        for (int64_t k = 0; k < keys; k++) {
            int64_t run = 0;
            while (k + run < keys && map_level(weights[q * keys + k + run]) == level) run++;
            if (run == 0) continue;
            pco_print(out, "%sM%" PRId64 " %" PRId64 "h%" PRId64 "v1h-%" PRId64 "z", open ? "" : "<path d=\"", k, q,
                      run, run);
            open = 1;
            k += run;
        }
    if (open) pco_print(out, "\" class=\"c%d\"/>\n", level);
}

/* A text element that has been begun, with its attributes. */
static void map_text(pco_writer *out, const char *text)
{
    pco_write_char(out, '>');
    pco_write_xml(out, text);
    pco_write_text(out, "</text>\n");
}

static void map_labels(pco_writer *out, const map_set *set, const map_layout *l, const pco_attention_map *map)
{
    const map_label *rows = map_rows(set, map), *columns = map_columns(set, map);
    pco_print(out, "<g class=\"t\" font-size=\"%.2f\">\n", l->font);
    for (int64_t q = 0; q < map->queries; q++) {
        pco_print(out, "<text x=\"-3\" y=\"%.2f\" text-anchor=\"end\"", l->cell * ((double)q + 0.8));
        map_text(out, rows[q].text);
    }
    for (int64_t k = 0; k < map->keys; k++) {
        pco_print(out, "<text transform=\"translate(%.2f -3) rotate(-90)\"", l->cell * ((double)k + 0.8));
        map_text(out, columns[k].text);
    }
    pco_print(out, "</g>\n");
}

static void map_panel(pco_writer *out, const map_set *set, const map_layout *l, const pco_attention_map *map,
                      int64_t head, double x, double y)
{
    const float *weights = map->weights + head * map->queries * map->keys;
    pco_print(out,
              "<g class=\"p\" transform=\"translate(%.2f %.2f)\" data-kind=\"%s\" data-layer=\"%" PRId64
              "\" data-head=\"%" PRId64 "\" data-queries=\"%" PRId64 "\" data-keys=\"%" PRId64 "\">\n",
              x + l->left, y + 14 + l->top, map_keys[map->kind], map->layer, head, map->queries, map->keys);
    pco_print(out, "<title>%s, layer %" PRId64 ", head %" PRId64 "</title>\n", map_kinds[map->kind], map->layer, head);
    pco_print(out, "<text x=\"0\" y=\"%.2f\" font-size=\"11\">layer %" PRId64 ", head %" PRId64 "</text>\n",
              -l->top - 4, map->layer, head);
    map_labels(out, set, l, map);
    pco_print(out, "<g transform=\"scale(%.4f)\" shape-rendering=\"crispEdges\">\n", l->cell);
    for (int level = 1; level <= MAP_LEVELS; level++) map_shade(out, weights, map->queries, map->keys, level);
    pco_print(out, "</g>\n<rect class=\"f\" width=\"%.2f\" height=\"%.2f\"/>\n</g>\n", l->cell * (double)map->keys,
              l->cell * (double)map->queries);
}

static void map_legend(pco_writer *out, double x, double y)
{
    pco_print(out, "<g transform=\"translate(%.2f %.2f)\" font-size=\"11\">\n<text x=\"0\" y=\"10\">weight 0</text>\n",
              x, y);
    for (int level = 1; level <= MAP_LEVELS; level++)
        pco_print(out, "<path class=\"c%d\" d=\"M%d 0h6v12h-6z\"/>\n", level, 54 + 6 * (level - 1));
    pco_print(out, "<text x=\"%d\" y=\"10\">1</text>\n</g>\n", 58 + 6 * MAP_LEVELS);
}

static void map_svg(pco_writer *out, const map_set *set, const char *device)
{
    map_layout l = map_measure(set);
    l.width = 640;
    l.height = 66;
    for (uint32_t i = 0; i < set->count; i++) {
        const pco_attention_map *map = &set->items[i].map;
        double width = 20 + (double)map->heads * map_panel_width(&l, map);
        if (width > l.width) l.width = width;
        if (i == 0 || map->kind != set->items[i - 1].map.kind) l.height += 24;
        l.height += map_panel_height(&l, map);
    }
    pco_print(out,
              "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
              "version=\"1.1\" "
              "role=\"img\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\">\n"
              "<title>Attention weights</title>\n<style>\n.t{font-family:monospace}\n"
              ".f{fill:none;stroke:#999;stroke-width:.5}\n.page{fill:#fff}text{fill:#111}\n",
              l.width, l.height, l.width, l.height);
    map_colours(out, 0);
    pco_write_text(out, "@media (prefers-color-scheme: dark){\n.page{fill:#0d1117}text{fill:#e6edf3}\n");
    map_colours(out, 1);
    pco_print(out, "}\n</style>\n<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n"
                   "<text x=\"20\" y=\"22\" font-size=\"14\">Attention weights, computed on ");
    pco_write_xml(out, device);
    pco_write_text(out, "</text>\n<text x=\"20\" y=\"38\" font-size=\"11\">a row is a token that looks, a column one "
                        "that is looked at; a row sums to 1</text>\n");
    map_legend(out, 20, 46);
    double y = 66;
    for (uint32_t i = 0; i < set->count; i++) {
        const pco_attention_map *map = &set->items[i].map;
        if (i == 0 || map->kind != set->items[i - 1].map.kind) {
            y += 24;
            pco_print(out, "<text x=\"20\" y=\"%.2f\" font-size=\"13\" font-weight=\"bold\">%s</text>\n", y - 6,
                      map_kinds[map->kind]);
        }
        for (int64_t head = 0; head < map->heads; head++)
            map_panel(out, set, &l, map, head, 20 + (double)head * map_panel_width(&l, map), y);
        y += map_panel_height(&l, map);
    }
    pco_print(out, "</svg>\n");
}

/* ---- JSON ---- */

static void map_json_tokens(pco_json_writer *json, const char *key, const pco_tokenizer *tokenizer, const int32_t *ids,
                            size_t count)
{
    pco_json_key(json, key);
    pco_json_begin_array(json);
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        const char *text = pco_tokenizer_token(tokenizer, ids[i], &size);
        pco_json_write_bytes(json, text ? text : "", size);
    }
    pco_json_end_array(json);
}

static void map_json_attention(pco_json_writer *json, const pco_attention_map *map)
{
    const float *at = map->weights;
    pco_json_begin_object(json);
    pco_json_key(json, "kind");
    pco_json_write_string(json, map_keys[map->kind]);
    pco_json_key(json, "layer");
    pco_json_write_int(json, map->layer);
    pco_json_key(json, "weights"); /* [head][query][key] */
    pco_json_begin_array(json);
    for (int64_t head = 0; head < map->heads; head++) {
        pco_json_begin_array(json);
        for (int64_t q = 0; q < map->queries; q++) {
            pco_json_begin_array(json);
            for (int64_t k = 0; k < map->keys; k++) pco_json_write_number(json, (double)*at++);
            pco_json_end_array(json);
        }
        pco_json_end_array(json);
    }
    pco_json_end_array(json);
    pco_json_end_object(json);
}

/* ---- the whole ---- */

/* Ids of the side that looks: for an encoder-decoder, the start token is in front. NULL without memory. */
static int32_t *map_target(const pco_model *model, size_t *count)
{
    size_t first = model->seq2seq ? 1 : 0;
    int32_t *ids = malloc((model->own.count + 1) * sizeof *ids);
    if (!ids) return NULL;
    if (first) ids[0] = model->file->spec.decoder_start_token_id;
    memcpy(ids + first, model->own.ids, model->own.count * sizeof *ids);
    *count = model->own.count + first;
    return ids;
}

static void map_write(pco_writer *out, const map_set *set, const pco_model *model, const int32_t *source,
                      const int32_t *target, const attention_picture *picture)
{
    const char *device = pco_session_device_id(model->session);
    if (!pco_text_ends_like(picture->path, ".json")) {
        map_svg(out, set, device);
        return;
    }
    pco_json_writer json = {.out = out};
    pco_json_begin_object(&json);
    pco_json_key(&json, "device");
    pco_json_write_string(&json, device);
    map_json_tokens(&json, "source", model->file->source, source, set->n_source);
    map_json_tokens(&json, "target", model->file->target, target, set->n_target);
    pco_json_key(&json, "attentions");
    pco_json_begin_array(&json);
    for (uint32_t i = 0; i < set->count; i++) map_json_attention(&json, &set->items[i].map);
    pco_json_end_array(&json);
    pco_json_end_object(&json);
    pco_write_char(out, '\n');
}

static pco_status map_save(const map_set *set, const pco_model *model, const int32_t *source, const int32_t *target,
                           const attention_picture *picture, pco_error *err)
{
    pco_writer out = {0};
    map_write(&out, set, model, source, target, picture);
    pco_status status = pco_writer_save(&out, picture->path, err);
    pco_writer_release(&out);
    return status;
}

static pco_status map_check(const map_set *set, const attention_picture *picture, pco_error *err)
{
    int64_t cells = 0;
    if (set->failed) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for attention weights");
    if (set->count == 0)
        return pco_fail(err, PCO_ERROR_INVALID, "the model has no layer %" PRId64 " (layers count from 0)", set->layer);
    for (uint32_t i = 0; i < set->count; i++)
        cells += set->items[i].map.heads * set->items[i].map.queries * set->items[i].map.keys;
    if (cells <= MAP_CELLS || pco_text_ends_like(picture->path, ".json")) return PCO_OK;
    return pco_fail(err, PCO_ERROR_INVALID,
                    "%" PRId64
                    " cells are more than a picture holds, %d; draw one layer (--attention-layer), a shorter "
                    "text, or write numbers (a path that ends in .json)",
                    cells, MAP_CELLS);
}

pco_status attention_draw(pco_model *model, const int32_t *source, size_t source_count,
                          const attention_picture *picture, pco_error *err)
{
    map_set set = {.layer = picture->layer, .n_source = source_count};
    int32_t *target = map_target(model, &set.n_target);
    set.source = calloc(source_count + 1, sizeof *set.source);
    if (target) set.target = calloc(set.n_target + 1, sizeof *set.target);
    pco_status status = PCO_OK;
    if (!target || !set.source || !set.target)
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for attention weights");
    for (size_t i = 0; !status && i < source_count; i++) map_spell(model->file->source, source[i], &set.source[i]);
    for (size_t i = 0; !status && i < set.n_target; i++) map_spell(model->file->target, target[i], &set.target[i]);
    if (!status)
        status =
            pco_model_attention(model, source, source_count, model->own.ids, model->own.count, map_receive, &set, err);
    if (!status) status = map_check(&set, picture, err);
    if (!status) status = map_save(&set, model, source, target, picture, err);
    for (uint32_t i = 0; i < set.count; i++) free((void *)(uintptr_t)set.items[i].map.weights);
    free(set.items);
    free(set.source);
    free(set.target);
    free(target);
    return status;
}
