/* Einsum: operands joined one after the other, each pair as a batch of matrix products. */
#include "models/onnx/map_internal.h"

#include <string.h>

/* What the dimensions of a tensor are called: letters, and 0 .. 7 for those of the ellipsis, the last of which is 7. */
typedef struct onnx_einsum {
    uint32_t tensor, rank;
    char names[2 * PCO_MAX_RANK];
} onnx_einsum;

enum { ELLIPSIS_END = PCO_MAX_RANK };

static bool onnx_einsum_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int onnx_einsum_find(const onnx_einsum *term, char name)
{
    for (uint32_t d = 0; d < term->rank; d++)
        if (term->names[d] == name) return (int)d;
    return -1;
}

/* One term of an equation, up to its comma or end, for a tensor of `rank` dimensions; without one (rank < 0) the
 * ellipsis is `ellipsis` dimensions. NULL: it is none. */
static const char *onnx_einsum_read(const char *text, int rank, int ellipsis, onnx_einsum *term)
{
    int letters = 0, dots = 0;
    for (const char *c = text; *c && *c != ',' && *c != '-'; c++) {
        if (strncmp(c, "...", 3) == 0)
            dots++, c += 2;
        else if (onnx_einsum_letter(*c))
            letters++;
        else
            return NULL;
    }
    if (rank >= 0) ellipsis = rank - letters;
    if (dots > 1 || ellipsis < 0 || ellipsis > PCO_MAX_RANK || letters > PCO_MAX_RANK ||
        (!dots && rank >= 0 && ellipsis))
        return NULL;
    term->rank = 0;
    for (; *text && *text != ',' && *text != '-'; text++) {
        if (*text != '.') {
            term->names[term->rank++] = *text;
            continue;
        }
        for (int i = 0; i < ellipsis; i++) term->names[term->rank++] = (char)(ELLIPSIS_END - ellipsis + i + 1);
        text += 2;
    }
    return term->rank <= PCO_MAX_RANK ? text : NULL;
}

/* A letter that occurs twice: the diagonal, which is every (n + 1)th element of the last two dimensions. */
static void onnx_einsum_diagonals(pco_onnx_map *map, onnx_einsum *term)
{
    for (uint32_t a = 0; a < term->rank; a++)
        for (uint32_t b = a + 1; b < term->rank; b++) {
            if (term->names[a] != term->names[b]) continue;
            int64_t dims[PCO_MAX_RANK], shape[PCO_MAX_RANK];
            uint32_t n_dims = 0;
            const pco_tensor desc = *onnx_desc(map, term->tensor);
            const int64_t n = desc.shape[a];
            if (n != desc.shape[b] || desc.rank != term->rank) {
                onnx_skip(map, "Einsum with a letter of two sizes");
                return;
            }
            for (uint32_t d = 0; d < term->rank; d++)
                if (d != a && d != b) shape[n_dims] = desc.shape[d], dims[n_dims++] = d;
            dims[n_dims] = a, dims[n_dims + 1] = b;
            shape[n_dims] = n * n;
            pco_slice_attrs attrs = {.n_starts = n_dims + 1, .n_sizes = n_dims + 1, .n_steps = n_dims + 1};
            for (uint32_t d = 0; d <= n_dims; d++) attrs.sizes[d] = d < n_dims ? shape[d] : n, attrs.steps[d] = 1;
            attrs.steps[n_dims] = n + 1;
            uint32_t x = pco_reshape(map->graph, pco_permute(map->graph, term->tensor, dims), n_dims + 1, shape);
            term->tensor = pco_graph_add(map->graph, PCO_OP_SLICE, &attrs, &x, 1, NULL);
            const char name = term->names[a];
            char names[PCO_MAX_RANK];
            for (uint32_t d = 0; d < n_dims; d++) names[d] = term->names[dims[d]];
            memcpy(term->names, names, n_dims);
            term->names[n_dims] = name;
            term->rank = n_dims + 1;
            onnx_einsum_diagonals(map, term);
            return;
        }
}

/* Is a dimension wanted by the result or by an operand that is still to come? */
static bool onnx_einsum_wanted(char name, const onnx_einsum *rest, uint32_t n_rest, const onnx_einsum *result)
{
    bool wanted = onnx_einsum_find(result, name) >= 0;
    for (uint32_t i = 0; i < n_rest; i++) wanted |= onnx_einsum_find(&rest[i], name) >= 0;
    return wanted;
}

/* Sums over the dimensions that nobody else has. */
static void onnx_einsum_sum(pco_onnx_map *map, onnx_einsum *term, const onnx_einsum *rest, uint32_t n_rest,
                            const onnx_einsum *result)
{
    uint32_t mask = 0, kept = 0;
    for (uint32_t d = 0; d < term->rank; d++) {
        if (onnx_einsum_wanted(term->names[d], rest, n_rest, result))
            term->names[kept++] = term->names[d];
        else
            mask |= 1u << d;
    }
    if (mask) term->tensor = onnx_sum_axes(map, PCO_OP_SUM, term->tensor, mask, 0);
    term->rank = kept;
}

/* A term's dimensions in the order of `names`, merged into [batch.., rows, inner] sizes; dimensions that it lacks
 * are 1. */
static uint32_t onnx_einsum_ordered(pco_onnx_map *map, const onnx_einsum *term, const char *names, uint32_t n)
{
    int64_t dims[PCO_MAX_RANK], shape[PCO_MAX_RANK];
    uint32_t rank = 0;
    const pco_tensor desc = *onnx_desc(map, term->tensor);
    for (uint32_t i = 0; i < n; i++) {
        const int at = onnx_einsum_find(term, names[i]);
        shape[i] = at >= 0 ? desc.shape[at] : 1;
        if (at >= 0) dims[rank++] = at;
    }
    return pco_reshape(map->graph, pco_permute(map->graph, term->tensor, dims), n, shape);
}

static int64_t onnx_einsum_size(const pco_onnx_map *map, const onnx_einsum *term, char name)
{
    const int at = onnx_einsum_find(term, name);
    return at < 0 ? 1 : onnx_desc(map, term->tensor)->shape[at];
}

/* a and b as one: dimensions of both that are wanted on are the batch, those of both that are not are summed over. */
static void onnx_einsum_join(pco_onnx_map *map, onnx_einsum *a, const onnx_einsum *b, const onnx_einsum *rest,
                             uint32_t n_rest, const onnx_einsum *result)
{
    pco_graph *graph = map->graph;
    char names[4][PCO_MAX_RANK]; /* batch, a's own, summed, b's own */
    uint32_t count[4] = {0};
    int64_t left[PCO_MAX_RANK + 2], right[PCO_MAX_RANK + 2], out[2 * PCO_MAX_RANK], rows = 1, inner = 1, columns = 1;
    for (uint32_t d = 0; d < a->rank; d++) {
        const char name = a->names[d];
        const bool both = onnx_einsum_find(b, name) >= 0, on = onnx_einsum_wanted(name, rest, n_rest, result);
        const int kind = !both ? 1 : on ? 0 : 2;
        const int64_t x = onnx_einsum_size(map, a, name), y = onnx_einsum_size(map, b, name);
        if (both && x != y && (x != 1 || kind == 2) && (y != 1 || kind == 2))
            onnx_skip(map, "Einsum with a letter of two sizes");
        names[kind][count[kind]++] = name;
        *(kind == 1 ? &rows : kind == 2 ? &inner : &(int64_t){1}) *= x;
    }
    for (uint32_t d = 0; d < b->rank; d++) {
        if (onnx_einsum_find(a, b->names[d]) >= 0) continue;
        names[3][count[3]++] = b->names[d];
        columns *= onnx_einsum_size(map, b, b->names[d]);
    }
    const uint32_t batch = count[0], rank = batch + count[1] + count[3];
    if (map->skip[0]) return;
    if (rank > PCO_MAX_RANK || batch + 2 > PCO_MAX_RANK) {
        onnx_skip(map, "Einsum of more dimensions than there are");
        return;
    }
    char order[2][2 * PCO_MAX_RANK];
    memcpy(order[0], names[0], batch), memcpy(order[1], names[0], batch);
    memcpy(order[0] + batch, names[1], count[1]), memcpy(order[0] + batch + count[1], names[2], count[2]);
    memcpy(order[1] + batch, names[2], count[2]), memcpy(order[1] + batch + count[2], names[3], count[3]);
    uint32_t x = onnx_einsum_ordered(map, a, order[0], batch + count[1] + count[2]);
    uint32_t y = onnx_einsum_ordered(map, b, order[1], batch + count[2] + count[3]);
    for (uint32_t i = 0; i < batch; i++) {
        left[i] = onnx_einsum_size(map, a, names[0][i]), right[i] = onnx_einsum_size(map, b, names[0][i]);
        out[i] = left[i] == 1 ? right[i] : left[i];
    }
    left[batch] = rows, left[batch + 1] = inner, right[batch] = inner, right[batch + 1] = columns;
    x = pco_reshape(graph, x, batch + 2, left), y = pco_reshape(graph, y, batch + 2, right);
    for (uint32_t i = 0; i < count[1]; i++) out[batch + i] = onnx_einsum_size(map, a, names[1][i]);
    for (uint32_t i = 0; i < count[3]; i++) out[batch + count[1] + i] = onnx_einsum_size(map, b, names[3][i]);
    a->tensor = pco_reshape(graph, pco_matmul(graph, x, y, 0, 0), rank, out);
    memcpy(a->names, names[0], batch), memcpy(a->names + batch, names[1], count[1]);
    memcpy(a->names + batch + count[1], names[3], count[3]);
    a->rank = rank;
}

/* Without "->": the letters that occur once, in the order of the alphabet, behind the ellipsis. */
static void onnx_einsum_implied(const onnx_einsum *terms, uint32_t count, onnx_einsum *result)
{
    int most = 0;
    for (uint32_t i = 0; i < count; i++) {
        int here = 0;
        for (uint32_t d = 0; d < terms[i].rank; d++) here += terms[i].names[d] <= ELLIPSIS_END;
        most = here > most ? here : most;
    }
    result->rank = 0;
    for (int i = 0; i < most; i++) result->names[result->rank++] = (char)(ELLIPSIS_END - most + i + 1);
    for (int c = 'A'; c <= 'z' && result->rank < PCO_MAX_RANK; c++) {
        int seen = 0;
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t d = 0; d < terms[i].rank; d++) seen += terms[i].names[d] == c;
        if (seen == 1 && onnx_einsum_letter((char)c)) result->names[result->rank++] = (char)c;
    }
}

/* The equation's terms and what is asked for; false where it is skipped. */
static bool onnx_einsum_parse(pco_onnx_map *map, onnx_einsum *terms, uint32_t count, onnx_einsum *result)
{
    char equation[128];
    int widest = 0;
    onnx_text(map, "equation", "", equation, sizeof equation);
    char *to = equation;
    for (const char *from = equation; *from; from++)
        if (*from != ' ') *to++ = *from;
    *to = 0;
    const char *at = equation;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t x = onnx_in(map, i);
        int here = 0;
        terms[i].tensor = x;
        if (at && i) at = *at == ',' ? at + 1 : NULL;
        if (at) at = onnx_einsum_read(at, (int)onnx_desc(map, x)->rank, 0, &terms[i]);
        for (uint32_t d = 0; at && d < terms[i].rank; d++) here += terms[i].names[d] <= ELLIPSIS_END;
        widest = here > widest ? here : widest;
    }
    if (at && *at == 0)
        onnx_einsum_implied(terms, count, result);
    else if (at)
        at = strncmp(at, "->", 2) == 0 ? onnx_einsum_read(at + 2, -1, widest, result) : NULL;
    if (!at || *at) onnx_skip(map, "Einsum with an equation that does not fit its operands");
    for (uint32_t d = 0; at && d < result->rank; d++) {
        bool there = false;
        for (uint32_t i = 0; i < count; i++) there |= onnx_einsum_find(&terms[i], result->names[d]) >= 0;
        if (!there || onnx_einsum_find(result, result->names[d]) != (int)d)
            onnx_skip(map, "Einsum with a result that its operands have not");
    }
    return !map->skip[0] && !map->graph->status;
}

static uint32_t onnx_einsum_map(pco_onnx_map *map)
{
    enum { MOST = 8 };
    onnx_einsum terms[MOST], result;
    const uint32_t count = map->node->n_inputs;
    int64_t dims[PCO_MAX_RANK];
    if (!count || count > MOST) return onnx_skip(map, "Einsum of more than %d operands", MOST);
    if (!onnx_einsum_parse(map, terms, count, &result)) return PCO_NONE;
    const pco_dtype type = (pco_dtype)onnx_desc(map, terms[0].tensor)->dtype;
    for (uint32_t i = 0; i < count && !map->skip[0]; i++) {
        if (type == PCO_I32 && count > 1) return onnx_skip(map, "Einsum of whole numbers");
        onnx_einsum_diagonals(map, &terms[i]);
    }
    for (uint32_t i = 1; i < count && !map->skip[0]; i++) {
        onnx_einsum_sum(map, &terms[0], terms + i, count - i, &result);
        onnx_einsum others[MOST] = {terms[0]};
        memcpy(others + 1, terms + i + 1, (count - i - 1) * sizeof *others);
        onnx_einsum_sum(map, &terms[i], others, count - i, &result);
        onnx_einsum_join(map, &terms[0], &terms[i], terms + i + 1, count - i - 1, &result);
    }
    if (map->skip[0]) return PCO_NONE;
    onnx_einsum_sum(map, &terms[0], NULL, 0, &result);
    for (uint32_t d = 0; d < result.rank; d++) dims[d] = onnx_einsum_find(&terms[0], result.names[d]);
    return pco_permute(map->graph, terms[0].tensor, dims);
}

const onnx_rule ONNX_EINSUM[] = {{"Einsum", onnx_einsum_map, 0, 0}, {0}};
