#include "formats/ct2.h"

#include "base/error.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CT2_NAME = 256, CT2_RANK = 4 };

typedef struct ct2_variable {
    char name[CT2_NAME]; /* as the file has it */
    uint32_t rank, item;
    const char *type; /* "F32" and so on; of what version 2 has, by the size of an element */
    int32_t dtype;    /* -1: none that Portico runs */
    int64_t shape[CT2_RANK];
    uint64_t count;
    const unsigned char *data;
} ct2_variable;

typedef struct ct2_reader {
    const unsigned char *data;
    size_t size, at;
    const char *label;
    pco_weights *weights;
    uint32_t version;
    uint64_t copied;
    pco_status status;
    pco_error *err;
} ct2_reader;

static void ct2_damaged(ct2_reader *r)
{
    if (!r->status)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s is a model of CTranslate2 that is cut off or damaged, at byte %zu", r->label, r->at);
}

static const unsigned char *ct2_take(ct2_reader *r, uint64_t bytes)
{
    static const unsigned char zeros[8];
    if (r->status || bytes > r->size - r->at) {
        ct2_damaged(r);
        return zeros;
    }
    r->at += (size_t)bytes;
    return r->data + r->at - bytes;
}

static uint32_t ct2_number(ct2_reader *r, size_t bytes)
{
    const unsigned char *p = ct2_take(r, bytes);
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint32_t)p[i] << (8 * i);
    return value;
}

static void ct2_string(ct2_reader *r, char text[CT2_NAME])
{
    const uint32_t length = ct2_number(r, 2);
    const unsigned char *bytes = ct2_take(r, length);
    text[0] = 0;
    if (r->status) return;
    if (length < 1 || length > CT2_NAME / 2 || memchr(bytes, 0, length) != bytes + length - 1 ||
        pco_utf8_check((const char *)bytes, length - 1) < length - 1)
        ct2_damaged(r);
    else
        memcpy(text, bytes, length);
}

/* From version 4 on files say the type of a variable, by these numbers. */
static const struct {
    const char *name;
    uint32_t item;
    int32_t dtype;
} ct2_types[] = {{"F32", 4, PCO_F32}, {"I8", 1, -1},       {"I16", 2, -1},
                 {"I32", 4, -1},      {"F16", 2, PCO_F16}, {"BF16", 2, PCO_BF16}};

/* The type, and how many elements there are. */
static void ct2_type_read(ct2_reader *r, ct2_variable *v)
{
    static const uint32_t by_size[5] = {0, 1, 2, 0, 0};
    const uint32_t said = ct2_number(r, 1);
    const uint32_t type = r->version >= 4 ? said : said <= 4 ? by_size[said] : 0;
    if (type >= sizeof ct2_types / sizeof *ct2_types) ct2_damaged(r);
    if (r->status) return;
    v->type = ct2_types[type].name;
    v->dtype = ct2_types[type].dtype;
    v->item = ct2_types[type].item;
    v->count = ct2_number(r, 4);
    if (r->version < 4 ? said != v->item : v->count % v->item) ct2_damaged(r);
    if (r->version >= 4) v->count /= v->item;
}

static void ct2_variable_read(ct2_reader *r, ct2_variable *v)
{
    uint64_t count = 1;
    ct2_string(r, v->name);
    v->rank = ct2_number(r, 1);
    if (v->rank > CT2_RANK) ct2_damaged(r);
    for (uint32_t i = 0; i < v->rank && !r->status; i++) {
        v->shape[i] = ct2_number(r, 4);
        if (__builtin_mul_overflow(count, (uint64_t)v->shape[i], &count)) ct2_damaged(r);
    }
    v->item = 1;
    v->count = 0;
    ct2_type_read(r, v);
    if (v->count != count) ct2_damaged(r);
    v->data = ct2_take(r, v->count * v->item);
}

/* Room for the f32 of all weights of fewer bits: at most four times the file, reserved once. */
static float *ct2_room(ct2_reader *r, uint64_t count)
{
    pco_map *copies = &r->weights->copies;
    if (!copies->data && r->size < SIZE_MAX / 8) {
        void *room =
            mmap(NULL, 4 * r->size + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room != MAP_FAILED) *copies = (pco_map){room, 4 * r->size + 64};
    }
    if (!copies->data || count * sizeof(float) > copies->size - r->copied) {
        r->status = pco_fail(r->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", r->label);
        return NULL;
    }
    r->copied += count * sizeof(float);
    return (float *)((unsigned char *)copies->data + r->copied) - count;
}

/* The name that stands in `weights`, without "weight" or "bias" where `part` stands for the last but one word. */
static void ct2_name(const char *from, char to[CT2_NAME])
{
    static const char *const ends[][2] = {{"/gamma", "/weight"}, {"/beta", "/bias"}};
    snprintf(to, CT2_NAME, "%s", from);
    const size_t size = strlen(to);
    for (int i = 0; i < 2; i++) {
        const size_t end = strlen(ends[i][0]);
        if (size > end && strcmp(to + size - end, ends[i][0]) == 0)
            snprintf(to + size - end, CT2_NAME - (size - end), "%s", ends[i][1]);
    }
    for (char *c = to; *c; c++)
        if (*c == '/') *c = '.';
}

/* The halves of a fused key and value. */
static void ct2_add_halves(ct2_reader *r, const char *name, const pco_weight *weight)
{
    static const char fused[] = ".attention.linear_1.", *const parts[] = {"key", "value"};
    const char *at = strstr(name, fused);
    if (!at || weight->rank < 1 || weight->shape[0] % 2) return;
    for (int half = 0; half < 2 && !r->status; half++) {
        char part[CT2_NAME + 16];
        pco_weight item = *weight;
        const int size = snprintf(part, sizeof part, "%.*s.attention.%s.%s", (int)(at - name), name, parts[half],
                                  at + sizeof fused - 1);
        item.shape[0] /= 2;
        item.bytes /= 2;
        item.data = (const unsigned char *)weight->data + (half ? item.bytes : 0);
        r->status = pco_weights_add(r->weights, &item, part, (size_t)size, r->err);
    }
}

static void ct2_add(ct2_reader *r, const ct2_variable *v, const ct2_variable *scale)
{
    char name[CT2_NAME];
    pco_weight weight = {.type_name = "F32", .dtype = PCO_F32, .rank = v->rank, .bytes = v->count * 4, .data = v->data};
    memcpy(weight.shape, v->shape, sizeof v->shape);
    if (scale) {
        const uint64_t each = scale->count ? v->count / scale->count : 0;
        const int whole = strcmp(v->type, "I8") == 0 || strcmp(v->type, "I16") == 0;
        if (!whole || strcmp(scale->type, "F32") != 0 || scale->count == 0 || v->count % scale->count ||
            v->count == 0) {
            r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: the scale of '%s' does not fit it", r->label, v->name);
            return;
        }
        float *values = ct2_room(r, v->count);
        for (uint64_t i = 0; values && i < v->count; i++) {
            int16_t wide;
            float by;
            memcpy(&by, scale->data + i / each * 4, 4);
            if (v->item == 2) memcpy(&wide, v->data + 2 * i, 2);
            values[i] = (v->item == 2 ? (float)wide : (float)(signed char)v->data[i]) / by;
        }
        weight.data = values;
    } else { /* those that do not run are numbers about the model */
        weight.type_name = v->type;
        weight.dtype = v->dtype;
        weight.bytes = v->count * v->item;
    }
    if (r->status) return;
    ct2_name(v->name, name);
    r->status = pco_weights_add(r->weights, &weight, name, strlen(name), r->err);
    if (!r->status && weight.dtype >= 0) ct2_add_halves(r, name, &weight);
}

static int ct2_is_scale_of(const char *scale, const char *name)
{
    const size_t size = strlen(name);
    return strncmp(scale, name, size) == 0 && strcmp(scale + size, "_scale") == 0;
}

/* Variables are sorted: the scale of a weight follows it at once. */
static void ct2_variables(ct2_reader *r, uint32_t count)
{
    ct2_variable v, next;
    int have = 0;
    for (uint32_t i = 0; !r->status && (i < count || have);) {
        if (!have) {
            ct2_variable_read(r, &v);
            i++;
        } else {
            v = next;
        }
        have = 0;
        if (i < count && !r->status) {
            ct2_variable_read(r, &next);
            i++;
            have = 1;
        }
        if (r->status) return;
        const int scaled = have && ct2_is_scale_of(next.name, v.name);
        ct2_add(r, &v, scaled ? &next : NULL);
        if (scaled) have = 0;
    }
}

/* Other names of variables: from version 3 on, behind all. */
static void ct2_aliases(ct2_reader *r)
{
    const uint32_t count = ct2_number(r, 4);
    if (!r->status) r->status = pco_weights_index(r->weights, r->err); /* what they are names of */
    const uint32_t before = r->weights->count;
    for (uint32_t i = 0; i < count && !r->status; i++) {
        char texts[2][CT2_NAME], names[2][CT2_NAME];
        const pco_weight *of = NULL;
        for (int t = 0; t < 2; t++) {
            ct2_string(r, texts[t]);
            ct2_name(texts[t], names[t]);
        }
        if (r->status) return;
        const uint32_t now = r->weights->count;
        r->weights->count = before; /* those that are indexed */
        of = pco_weights_find(r->weights, names[1]);
        r->weights->count = now;
        if (!of)
            r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: '%s' is said to be '%s', which is not there", r->label,
                                 texts[0], texts[1]);
        const pco_weight item = of ? *of : (pco_weight){0};
        if (!r->status) r->status = pco_weights_add(r->weights, &item, names[0], strlen(names[0]), r->err);
        if (!r->status && item.dtype >= 0) ct2_add_halves(r, names[0], &item);
    }
}

pco_status pco_ct2_parse(const void *data, size_t size, const char *label, pco_weights **weights, pco_error *err)
{
    ct2_reader r = {.data = data, .size = size, .label = label, .err = err};
    char spec[CT2_NAME];
    *weights = NULL;
    const uint32_t version = r.version = ct2_number(&r, 4);
    if (!r.status && (version < 2 || version > 6))
        r.status = pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "%s is no CTranslate2 model of version 2 to 6, which Portico reads (it says %" PRIu32 ")",
                            label, version);
    ct2_string(&r, spec);
    ct2_number(&r, 4);
    const uint32_t count = ct2_number(&r, 4);
    if (r.status) return r.status;
    r.weights = pco_weights_create(label);
    if (!r.weights) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", label);
    ct2_variables(&r, count);
    if (!r.status && version >= 3) ct2_aliases(&r);
    if (!r.status && r.at != r.size) ct2_damaged(&r);
    if (!r.status) r.status = pco_weights_add_note(r.weights, "spec", spec, err);
    if (!r.status) r.status = pco_weights_index(r.weights, err);
    if (r.status)
        pco_weights_close(r.weights);
    else
        *weights = r.weights;
    return r.status;
}

pco_status pco_ct2_open(const char *path, pco_weights **weights, pco_error *err)
{
    return pco_weights_open_mapped(path, pco_ct2_parse, weights, err);
}
