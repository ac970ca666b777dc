/* Keys and values that the device keeps. In PCO_Q8_0 a row of G*D elements is blocks of 32 with one factor, as in the
 * quantised type of that name: d = max |x| / 127 (kept as f16), q = x / d rounded to nearest. Devices have no element
 * type of 8 bits, so four q stand in a word, as the digits of sum of q_i 256^i: they are balanced (|q| <= 127), so that
 * each is what is left over after rounding the word to multiples of the next power. The four of a word are a quarter
 * of a row apart: each digit of all words is a part of the row as it lies. */
#include "nn/nn.h"

#include "base/dtype.h"

enum { CACHE_DIGITS = 4 };

pco_nn_cache pco_nn_cache_state(const pco_nn *nn, const char *name, uint32_t type, const int64_t shape[4])
{
    pco_graph *graph = nn->graph;
    const int64_t row = shape[2] * shape[3], block = pco_dtype_block(type);
    pco_nn_cache cache = {type, PCO_NONE, PCO_NONE, shape[2], shape[3]};
    if (type == PCO_F32 || type == PCO_F16) {
        cache.state = pco_graph_state(graph, name, type, 4, shape);
    } else if (type != PCO_Q8_0) {
        pco_graph_fail(graph, PCO_ERROR_UNSUPPORTED, "a cache can be f32, f16 or q8_0, not %s", pco_dtype_name(type));
    } else if (row % block) {
        pco_graph_fail(graph, PCO_ERROR_UNSUPPORTED,
                       "a cache of q8_0 has blocks of %lld, and a token has %lld elements of keys here; take f16",
                       (long long)block, (long long)row);
    } else {
        cache.state = pco_graph_state(graph, name, PCO_I32, 3, (int64_t[]){shape[0], shape[1], row / CACHE_DIGITS});
        cache.scales = pco_graph_state(graph, pco_nn_name(nn, "%s.scale", name), PCO_F16, 3,
                                       (int64_t[]){shape[0], shape[1], row / block});
    }
    return cache;
}

const pco_nn_cache *pco_nn_cache_create(const pco_nn *nn, const char *name, pco_dtype type, int64_t lanes,
                                        int64_t tokens, int64_t heads, int64_t head_dim)
{
    const int64_t shape[4] = {lanes, tokens, heads, head_dim};
    static const char *const sizes[4] = {"lanes", "tokens", "heads", "head_dim"};
    if (!nn || !pco_nn_named(nn, __func__, name)) return NULL;
    for (int i = 0; i < 4; i++)
        if (!pco_nn_size(nn, name, sizes[i], shape[i])) return NULL;
    if (!pco_nn_size(nn, name, "heads * head_dim", heads * head_dim)) return NULL;
    if ((uint32_t)type >= PCO_DTYPE_COUNT) {
        pco_graph_fail(nn->graph, PCO_ERROR_INVALID, "%s: there is no type %d", name, (int)type);
        return NULL;
    }
    const pco_nn_cache made = pco_nn_cache_state(nn, pco_nn_scoped(nn, name), type, shape);
    pco_nn_cache *cache = pco_arena_allocate(&nn->graph->arena, sizeof *cache);
    if (!cache) pco_graph_fail(nn->graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while building a graph");
    if (nn->graph->status) return NULL;
    *cache = made;
    return cache;
}

/* x f32 [B,S,G,D] as words [B,S,G*D/4] and scales f32 [B,S,G*D/block]. */
static void cache_quantise(pco_graph *graph, uint32_t x, int64_t block, uint32_t *words, uint32_t *scales)
{
    static const int32_t powers[CACHE_DIGITS] = {1, 1 << 8, 1 << 16, 1 << 24};
    if (graph->status) return;
    const int64_t *shape = graph->tensors[x].shape;
    const int64_t batch = shape[0], rows = shape[1], blocks = shape[2] * shape[3] / block;
    const int64_t words_of_row = blocks * block / CACHE_DIGITS;
    x = pco_cast(graph, pco_reshape(graph, x, 4, (int64_t[]){batch, rows, blocks, block}), PCO_F32);
    const uint32_t largest = pco_reduce(graph, PCO_OP_AMAX, pco_unary(graph, PCO_OP_ABS, x), 3, 1);
    const uint32_t scale = pco_binary_scalar(graph, PCO_OP_DIV, largest, 127);
    const uint32_t zero = pco_binary_scalar(graph, PCO_OP_EQ, scale, 0);
    const uint32_t safe = pco_where(graph, zero, pco_scalar(graph, PCO_F32, 1), scale);
    uint32_t q = pco_binary_scalar(graph, PCO_OP_ADD, pco_binary(graph, PCO_OP_DIV, x, safe), 0.5);
    q = pco_cast(graph, pco_unary(graph, PCO_OP_FLOOR, q), PCO_I32);
    q = pco_reshape(graph, q, 4, (int64_t[]){batch, rows, CACHE_DIGITS, words_of_row});
    const uint32_t digits =
        pco_graph_constant_copy(graph, "cache.digits", PCO_I32, 2, (int64_t[]){CACHE_DIGITS, 1}, powers);
    *words = pco_reduce(graph, PCO_OP_SUM, pco_binary(graph, PCO_OP_MUL, q, digits), 2, 0);
    *scales = pco_reshape(graph, scale, 3, (int64_t[]){batch, rows, blocks});
}

static uint32_t cache_put(pco_graph *graph, uint32_t state, uint32_t x, uint32_t index, uint32_t take)
{
    if (take != PCO_NONE) x = pco_gather(graph, x, take, 0);
    return pco_state_write(graph, state, x, index, 1);
}

pco_nn_cache pco_nn_cache_write(const pco_nn *nn, const pco_nn_cache *cache, uint32_t x, uint32_t index, uint32_t take)
{
    pco_nn_cache after = *cache;
    uint32_t words = x, scales = PCO_NONE;
    if (cache->type == PCO_Q8_0) {
        cache_quantise(nn->graph, x, pco_dtype_block(cache->type), &words, &scales);
        after.scales = cache_put(nn->graph, cache->scales, scales, index, take);
    }
    after.state = cache_put(nn->graph, cache->state, words, index, take);
    return after;
}

/* The digit of that power, f32: what is below it is less than half of it. */
static uint32_t cache_digit(pco_graph *graph, uint32_t words, double power)
{
    const uint32_t above = pco_binary_scalar(graph, PCO_OP_MUL, words, 1 / power);
    return pco_unary(graph, PCO_OP_FLOOR, pco_binary_scalar(graph, PCO_OP_ADD, above, 0.5));
}

static uint32_t cache_rest(pco_graph *graph, uint32_t words, uint32_t digit, double power)
{
    return pco_binary(graph, PCO_OP_SUB, words, pco_binary_scalar(graph, PCO_OP_MUL, digit, power));
}

/* In f32, which devices are quick at. The highest digit is that of the word in f32 too: the lower ones are at most
 * 127 (2^16 + 2^8 + 1) < 0.4981 * 2^24, and the cast moves the word by at most 2^6. Without that digit the rest is
 * below 2^23, and all that follows is exact. */
uint32_t pco_nn_cache_read(const pco_nn *nn, const pco_nn_cache *cache)
{
    pco_graph *graph = nn->graph;
    uint32_t digits[CACHE_DIGITS], words = cache->state;
    if (cache->type != PCO_Q8_0 || graph->status) return words;
    const int64_t lanes = graph->tensors[words].shape[0], tokens = graph->tensors[words].shape[1];
    const int64_t row = cache->heads * cache->head_dim, block = pco_dtype_block(cache->type);
    words = pco_reshape(graph, words, 4, (int64_t[]){lanes, tokens, 1, row / CACHE_DIGITS});
    digits[3] = cache_digit(graph, pco_cast(graph, words, PCO_F32), 0x1p24);
    const uint32_t high = pco_cast(graph, pco_binary_scalar(graph, PCO_OP_MUL, digits[3], 0x1p24), PCO_I32);
    words = pco_cast(graph, pco_binary(graph, PCO_OP_SUB, words, high), PCO_F32);
    digits[2] = cache_digit(graph, words, 0x1p16);
    words = cache_rest(graph, words, digits[2], 0x1p16);
    digits[1] = cache_digit(graph, words, 0x1p8);
    digits[0] = cache_rest(graph, words, digits[1], 0x1p8);
    uint32_t q = pco_concat(graph, digits, CACHE_DIGITS, 2);
    q = pco_reshape(graph, q, 4, (int64_t[]){lanes, tokens, row / block, block});
    uint32_t scales = pco_cast(graph, cache->scales, PCO_F32);
    scales = pco_reshape(graph, scales, 4, (int64_t[]){lanes, tokens, row / block, 1});
    return pco_reshape(graph, pco_binary(graph, PCO_OP_MUL, q, scales), 4,
                       (int64_t[]){lanes, tokens, cache->heads, cache->head_dim});
}
