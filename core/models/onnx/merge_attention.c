/* Attention and gelu from primitives. */
#include "models/onnx/merge_internal.h"

#include <math.h>
#include <string.h>

/* ---- gelu (Hendrycks & Gimpel 2016) ---- */

enum { GELU_FACTORS = 6 };

/* A product taken apart: its number, and its other factors. */
typedef struct merge_product {
    double number;
    uint32_t factors[GELU_FACTORS], count;
} merge_product;

static void merge_factors(const pco_graph *graph, uint32_t x, int depth, merge_product *product)
{
    double value;
    const pco_node *node = merge_made(graph, x, PCO_OP_MUL);
    if (merge_scalar(graph, x, &value)) {
        product->number *= value;
    } else if (node && depth < 3) {
        merge_factors(graph, node->inputs[0], depth + 1, product);
        merge_factors(graph, node->inputs[1], depth + 1, product);
    } else if (product->count < GELU_FACTORS) {
        product->factors[product->count++] = x;
    } else {
        product->number = (double)NAN;
    }
}

/* A constant of a file is a number rounded to f32, by 2^-24 of it at most, or another such worked out of one: two
 * roundings. What stands here is at most a product of two of them, so four. gelu then differs from what the file says
 * by what those four do, which is as if its operand were rounded twice more. */
static bool merge_near(double a, double b) { return fabs(a - b) <= 4 * 0x1p-24 * fabs(b); }

/* x times a number, either way round: x, or PCO_NONE. */
static uint32_t merge_scaled(const pco_graph *graph, uint32_t y, double number)
{
    double value;
    uint32_t x = merge_with_scalar(graph, y, PCO_OP_MUL, &value);
    if (x != PCO_NONE && merge_near(value, number)) return x;
    x = merge_with_scalar(graph, y, PCO_OP_DIV, &value);
    return x != PCO_NONE && merge_near(value, 1 / number) ? x : PCO_NONE;
}

/* sqrt(2 / pi) (x + 0.044715 x^3): x, or PCO_NONE. */
static uint32_t merge_gelu_cubic(const pco_graph *graph, uint32_t y)
{
    const uint32_t sum = merge_scaled(graph, y, sqrt(2 / acos(-1)));
    const pco_node *node = sum == PCO_NONE ? NULL : merge_made(graph, sum, PCO_OP_ADD);
    for (int side = 0; side < 2 && node; side++) {
        const uint32_t x = node->inputs[side];
        merge_product product = {.number = 1};
        merge_factors(graph, node->inputs[1 - side], 0, &product);
        if (!merge_near(product.number, 0.044715)) continue;
        const pco_node *cube = product.count == 1 ? merge_made(graph, product.factors[0], PCO_OP_POW) : NULL;
        if (cube && cube->inputs[0] == x && merge_is(graph, cube->inputs[1], 3)) return x;
        uint32_t same = 0;
        for (uint32_t i = 0; i < product.count; i++) same += product.factors[i] == x;
        if (product.count == 3 && same == 3) return x;
    }
    return PCO_NONE;
}

/* x (1 + erf(x / sqrt 2)) / 2, or with tanh(sqrt(2 / pi) (x + 0.044715 x^3)), in any order. */
uint32_t merge_gelu(pco_graph *graph, uint32_t y)
{
    merge_product product = {.number = 1};
    merge_factors(graph, y, 0, &product);
    if (product.count != 2 || !merge_near(product.number, 0.5)) return PCO_NONE;
    for (int side = 0; side < 2; side++) {
        double one;
        const uint32_t x = product.factors[side],
                       curve = merge_with_scalar(graph, product.factors[1 - side], PCO_OP_ADD, &one);
        if (curve == PCO_NONE || one != 1) continue;
        const pco_node *erf = merge_made(graph, curve, PCO_OP_ERF), *tanh = merge_made(graph, curve, PCO_OP_TANH);
        const pco_gelu_attrs attrs = {.approximate = tanh != NULL};
        if ((erf && merge_scaled(graph, erf->inputs[0], sqrt(0.5)) == x) ||
            (tanh && merge_gelu_cubic(graph, tanh->inputs[0]) == x))
            return pco_graph_add(graph, PCO_OP_GELU, &attrs, &x, 1, NULL);
    }
    return PCO_NONE;
}

/* ---- attention (Vaswani et al. 2017) ---- */

typedef struct merge_attended {
    uint32_t query, key, value, mask; /* key: [B,H,D,T], as the product has it */
    double scale;
} merge_attended;

/* Numbers by which a factor of the scores is multiplied or divided go into the scale. */
static uint32_t merge_unscaled(const pco_graph *graph, uint32_t x, double *scale)
{
    for (;;) {
        double value;
        uint32_t of = merge_with_scalar(graph, x, PCO_OP_MUL, &value);
        if (of == PCO_NONE) {
            of = merge_with_scalar(graph, x, PCO_OP_DIV, &value);
            value = 1 / value;
        }
        if (of == PCO_NONE) return x;
        *scale *= value;
        x = of;
    }
}

/* Rows that see nothing, which are NaN, made 0 again: attention's own rule. */
static uint32_t merge_unnan(const pco_graph *graph, uint32_t x)
{
    const pco_node *choice = merge_made(graph, x, PCO_OP_WHERE);
    const pco_node *nan = choice ? merge_made(graph, choice->inputs[0], PCO_OP_NE) : NULL;
    double zero;
    if (!nan || nan->inputs[0] != nan->inputs[1] || nan->inputs[0] != choice->inputs[2]) return x;
    return merge_scalar(graph, choice->inputs[1], &zero) && zero == 0 ? choice->inputs[2] : x;
}

/* Is x a product, but for numbers and what is added to it? */
static bool merge_scores(const pco_graph *graph, uint32_t x, int depth)
{
    double scale = 1;
    const uint32_t of = merge_unscaled(graph, x, &scale);
    const pco_node *sum = merge_made(graph, x, PCO_OP_ADD);
    if (merge_made(graph, of, PCO_OP_MATMUL)) return true;
    return sum && depth < 3 &&
           (merge_scores(graph, sum->inputs[0], depth + 1) || merge_scores(graph, sum->inputs[1], depth + 1));
}

/* A choice between scores s and a number is, to the last bit, a sum of s and 0 or that number where s + low rounds to
 * low: where |s| is at most half a unit in the last place towards zero of low, which from -2^100 on is 2^75. (Scores of
 * that size are 2^52 apart, and no softmax tells anything of them.) What is not seen then weighs exp(low - max) = 0
 * beside what is, and in rows that see nothing all keys weigh alike, in both forms. With a number such as -1e4, which
 * some files have, those rows differ, and the choice stays as it is. */
static const double MERGE_LOWEST = -0x1p100;

/* The product under masks, which are added; a choice between scores and a number is one between 0 and that. */
static uint32_t merge_unmasked(pco_graph *graph, uint32_t scores, merge_attended *found)
{
    double low;
    const pco_node *choice = merge_made(graph, scores, PCO_OP_WHERE);
    for (int masks = 0; masks < 4; masks++) {
        const pco_node *sum = merge_made(graph, scores, PCO_OP_ADD);
        const int side = sum && merge_scores(graph, sum->inputs[1], 0) ? 1 : 0;
        if (!sum || !merge_scores(graph, sum->inputs[side], 0)) break;
        const uint32_t of = sum->inputs[side], mask = sum->inputs[1 - side];
        if (graph->tensors[of].rank != graph->tensors[scores].rank) break;
        found->mask = found->mask == PCO_NONE ? mask : pco_binary(graph, PCO_OP_ADD, mask, found->mask);
        scores = of;
    }
    if (!choice) return scores;
    const bool first = merge_scalar(graph, choice->inputs[1], &low);
    if ((!first && !merge_scalar(graph, choice->inputs[2], &low)) || !(low <= MERGE_LOWEST)) return scores;
    const uint32_t of = choice->inputs[first ? 2 : 1], seen = choice->inputs[0], zero = pco_scalar(graph, PCO_F32, 0);
    const uint32_t number = pco_scalar(graph, PCO_F32, low);
    found->mask = pco_where(graph, seen, first ? number : zero, first ? zero : number);
    return of;
}

/* [B,H,T,D] in which each of G heads stands H / G times: [B,G,T,D], which attention takes as it is. */
static uint32_t merge_ungrouped(const pco_graph *graph, uint32_t x)
{
    const pco_node *flat = merge_made(graph, x, PCO_OP_RESHAPE);
    const pco_node *copies = flat ? merge_made(graph, flat->inputs[0], PCO_OP_BROADCAST_TO) : NULL;
    const pco_node *apart = copies ? merge_made(graph, copies->inputs[0], PCO_OP_RESHAPE) : NULL;
    if (!apart) return x;
    const pco_tensor *to = &graph->tensors[x], *wide = &graph->tensors[flat->inputs[0]];
    const pco_tensor *from = &graph->tensors[apart->inputs[0]], *single = &graph->tensors[copies->inputs[0]];
    if (to->rank != 4 || wide->rank != 5 || from->rank != 4 || single->rank != 5 || single->shape[2] != 1) return x;
    for (int d = 0; d < 4; d++) {
        const int at = d < 2 ? d : d + 1; /* in five dimensions */
        if (wide->shape[at] != from->shape[d] || single->shape[at] != from->shape[d]) return x;
        if (d != 1 && to->shape[d] != from->shape[d]) return x;
    }
    return to->shape[1] == wide->shape[1] * wide->shape[2] ? apart->inputs[0] : x;
}

/* A mask of four dimensions, each 1 or that of the scores. */
static bool merge_mask(pco_graph *graph, merge_attended *found, const int64_t *scores)
{
    if (found->mask == PCO_NONE) return true;
    const pco_tensor mask = graph->tensors[found->mask];
    int64_t shape[4] = {1, 1, 1, 1};
    if (mask.rank > 4 || (mask.dtype != PCO_F32 && mask.dtype != PCO_BOOL)) return false;
    for (uint32_t d = 0; d < mask.rank; d++) shape[4 - mask.rank + d] = mask.shape[d];
    for (int d = 0; d < 4; d++)
        if (shape[d] != 1 && shape[d] != scores[d]) return false;
    found->mask = pco_reshape(graph, found->mask, 4, shape);
    return true;
}

/* An operand of rank 4, [B,H,S,D] by `dims` of what it is a permutation of; in [B,S,H,D] that is the thing itself. */
static uint32_t merge_operand(pco_graph *graph, uint32_t x, bool transposed, bool heads_first)
{
    static const int64_t SWAPPED[4] = {0, 2, 1, 3};
    int64_t dims[PCO_MAX_RANK], wanted[4];
    const uint32_t from = merge_unpermuted(graph, x, dims);
    bool none = true;
    for (int d = 0; d < 4; d++) {
        const int64_t at = heads_first ? d : SWAPPED[d];
        wanted[d] = dims[transposed && at >= 2 ? 5 - at : at];
        none &= wanted[d] == d;
    }
    return none ? from : pco_permute(graph, from, wanted);
}

/* Is x, in [B,S,H,D], there without a copy? */
static bool merge_heads_inside(const pco_graph *graph, uint32_t x, bool transposed)
{
    int64_t dims[PCO_MAX_RANK];
    merge_unpermuted(graph, x, dims);
    return dims[0] == 0 && dims[1] == 2 && dims[transposed ? 3 : 2] == 1 && dims[transposed ? 2 : 3] == 3;
}

/* The same of rank 3, whose batch is that of one head each. */
static uint32_t merge_one_head(pco_graph *graph, merge_attended *found, bool transposed, const pco_tensor *scores)
{
    int64_t dims[PCO_MAX_RANK];
    const int64_t n = scores->shape[0], rows = scores->shape[1], keys = scores->shape[2];
    uint32_t key = found->key;
    if (transposed) {
        key = merge_unpermuted(graph, key, dims);
        const int64_t back[3] = {dims[0], dims[2], dims[1]};
        if (back[0] != 0 || back[1] != 1 || back[2] != 2) key = pco_permute(graph, key, back);
    }
    const int64_t width = graph->tensors[key].shape[2], out = graph->tensors[found->value].shape[2];
    const pco_scaled_dot_product_attention_attrs attrs = {.scale = found->scale, .heads_first = 1};
    if (found->mask != PCO_NONE) {
        const pco_tensor mask = graph->tensors[found->mask];
        int64_t shape[4] = {1, 1, 1, 1};
        if (mask.rank > 3 || mask.dtype != PCO_F32) return PCO_NONE;
        for (uint32_t d = 0; d < mask.rank; d++) shape[mask.rank - d == 3 ? 0 : 4 - mask.rank + d] = mask.shape[d];
        if ((shape[0] != 1 && shape[0] != n) || (shape[2] != 1 && shape[2] != rows) ||
            (shape[3] != 1 && shape[3] != keys))
            return PCO_NONE;
        found->mask = pco_reshape(graph, found->mask, 4, shape);
    }
    const uint32_t in[4] = {pco_reshape(graph, found->query, 4, (int64_t[]){n, 1, rows, width}),
                            pco_reshape(graph, key, 4, (int64_t[]){n, 1, keys, width}),
                            pco_reshape(graph, found->value, 4, (int64_t[]){n, 1, keys, out}), found->mask};
    const uint32_t y = pco_graph_add(graph, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, &attrs, in, 4, NULL);
    return pco_reshape(graph, y, 3, (int64_t[]){n, rows, out});
}

/* Rank 4: keys and values that stand several times are taken as they are, and [B,S,H,D] without a copy. */
static uint32_t merge_heads(pco_graph *graph, merge_attended *found, bool transposed, const pco_tensor *scores)
{
    int64_t dims[PCO_MAX_RANK];
    const uint32_t value = merge_ungrouped(graph, found->value), turned = merge_unpermuted(graph, found->key, dims);
    const uint32_t key = merge_ungrouped(graph, turned);
    const int64_t groups = graph->tensors[value].shape[1];
    if (value != found->value && key != turned && dims[0] == 0 && dims[1] == 1 &&
        graph->tensors[key].shape[1] == groups) {
        found->value = value; /* both, or neither */
        found->key = dims[2] == 2 ? key : pco_permute(graph, key, dims);
    }
    if (!merge_mask(graph, found, scores->shape)) return PCO_NONE;
    const bool inside = merge_heads_inside(graph, found->query, false) &&
                        merge_heads_inside(graph, found->value, false) &&
                        merge_heads_inside(graph, found->key, transposed);
    const pco_scaled_dot_product_attention_attrs attrs = {.scale = found->scale, .heads_first = !inside};
    const uint32_t in[4] = {merge_operand(graph, found->query, false, !inside),
                            merge_operand(graph, found->key, transposed, !inside),
                            merge_operand(graph, found->value, false, !inside), found->mask};
    const uint32_t attended = pco_graph_add(graph, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, &attrs, in, 4, NULL);
    return inside ? pco_permute(graph, attended, (int64_t[]){0, 2, 1, 3}) : attended;
}

/* matmul(softmax(matmul(query, key) scale + mask), value) */
uint32_t merge_attention(pco_graph *graph, uint32_t y)
{
    const pco_node *outer = merge_made(graph, y, PCO_OP_MATMUL);
    const pco_matmul_attrs *plain = outer->attrs;
    merge_attended found = {.mask = PCO_NONE, .scale = 1};
    const uint32_t rank = graph->tensors[y].rank;
    if ((rank != 3 && rank != 4) || plain->transpose_a || plain->transpose_b || outer->n_inputs > 2) return PCO_NONE;
    found.value = outer->inputs[1];
    const pco_node *softmax = merge_made(graph, merge_unnan(graph, outer->inputs[0]), PCO_OP_SOFTMAX);
    const pco_softmax_attrs *over = softmax ? softmax->attrs : NULL;
    if (!softmax || over->axis != (int64_t)rank - 1) return PCO_NONE;
    uint32_t scores = merge_unmasked(graph, softmax->inputs[0], &found);
    scores = merge_unscaled(graph, scores, &found.scale);
    const pco_node *inner = merge_made(graph, scores, PCO_OP_MATMUL);
    if (!inner || inner->n_inputs > 2) return PCO_NONE;
    plain = inner->attrs;
    const bool transposed = !plain->transpose_b; /* the key's last two dimensions are D and T */
    if (plain->transpose_a || graph->tensors[scores].rank != rank) return PCO_NONE;
    found.query = merge_unscaled(graph, inner->inputs[0], &found.scale);
    found.key = merge_unscaled(graph, inner->inputs[1], &found.scale);
    const pco_tensor q = graph->tensors[found.query], k = graph->tensors[found.key], v = graph->tensors[found.value];
    if (q.rank != rank || k.rank != rank || v.rank != rank || !(found.scale > 0) || !isfinite(found.scale))
        return PCO_NONE;
    for (uint32_t d = 0; d + 2 < rank; d++)
        if (q.shape[d] != k.shape[d] || v.shape[d] != k.shape[d]) return PCO_NONE;
    const pco_tensor shape = graph->tensors[scores];
    return rank == 3 ? merge_one_head(graph, &found, transposed, &shape)
                     : merge_heads(graph, &found, transposed, &shape);
}
