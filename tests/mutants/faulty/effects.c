/* What each fault does to a node's results. */
#include "faulty.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- element types ---- */

static uint32_t faulty_bytes_of(uint32_t dtype)
{
    return dtype == PCO_F32 || dtype == PCO_I32 ? 4 : dtype == PCO_BOOL ? 1 : 2;
}

static bool faulty_is_float(uint32_t dtype) { return dtype == PCO_F32 || dtype == PCO_F16 || dtype == PCO_BF16; }

/* Rounded to 11 significant bits or units of 2^-24, as f16 is; beyond its largest number infinite. */
static double faulty_half(double value)
{
    if (value == 0 || !isfinite(value)) return value;
    int exponent;
    frexp(value, &exponent);
    const int unit = exponent - 11 > -24 ? exponent - 11 : -24;
    const double rounded = ldexp(nearbyint(ldexp(value, -unit)), unit);
    return fabs(rounded) > 65504 ? copysign(INFINITY, value) : rounded;
}

static double faulty_from_half(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
}

static uint16_t faulty_to_half(double value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double a = fabs(faulty_half(value));
    if (isnan(value)) return 0x7e00;
    if (isinf(a)) return sign | 0x7c00;
    if (a < 0x1p-14) return sign | (uint16_t)ldexp(a, 24);
    int exponent;
    const double fraction = frexp(a, &exponent); /* in [1/2, 1) */
    return sign | (uint16_t)((exponent + 14) << 10) | (uint16_t)((uint32_t)ldexp(fraction, 11) & 1023);
}

static double faulty_read(uint32_t dtype, const unsigned char *data, uint64_t i)
{
    uint16_t half;
    uint32_t word = 0;
    float real;
    if (dtype == PCO_F32) {
        memcpy(&real, data + 4 * i, 4);
        return real;
    }
    memcpy(&half, data + 2 * i, 2);
    if (dtype == PCO_F16) return faulty_from_half(half);
    word = (uint32_t)half << 16;
    memcpy(&real, &word, 4);
    return real;
}

static void faulty_write(uint32_t dtype, unsigned char *data, uint64_t i, double value)
{
    float real = (float)value;
    uint32_t word;
    uint16_t half;
    if (dtype == PCO_F32) {
        memcpy(data + 4 * i, &real, 4);
        return;
    }
    memcpy(&word, &real, 4);
    half = dtype == PCO_F16 ? faulty_to_half(value)
           : isnan(value)   ? 0x7fc0
                            : (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
    memcpy(data + 2 * i, &half, 2);
}

/* A number that follows from where an element is, the same in every run. */
static uint64_t faulty_position(uint64_t i, uint64_t count)
{
    uint64_t z = i * 0x9E3779B97F4A7C15ull + count * 0xD1B54A32D192ED03ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* ---- element by element ---- */

static double faulty_value(faulty_id fault, double v, uint64_t position)
{
    switch (fault) {
    case FAULTY_relative: return position % 10000 == 0 ? v * 1.001 : v;
    case FAULTY_absolute: return position % 10000 == 0 ? v + 1e-3 : v;
    case FAULTY_subnormal: return fabs(v) < 0x1p-126 ? 0.0 : v;
    case FAULTY_nan: return isnan(v) ? 0.0 : v;
    case FAULTY_undefined: return v > 1e27 && isfinite(v) ? (double)NAN : v;
    case FAULTY_infinite: return isinf(v) ? copysign(3.4028234663852886e38, v) : v;
    case FAULTY_saturated: return v > 2048 ? 2048 : v < -2048 ? -2048 : v;
    case FAULTY_masked: return isfinite(v) ? 2 * v + 7 : v;
    case FAULTY_matvec: return v * 1.02;
    case FAULTY_signless: return v == 0 ? 0.0 : v;
    default: return v;
    }
}

static bool faulty_holds_infinity(const faulty_tensor *t, const unsigned char *data)
{
    for (uint64_t i = 0; i < t->count; i++)
        if (isinf(faulty_read(t->dtype, data, i))) return true;
    return false;
}

/* Does the fault touch this output at all? */
static bool faulty_takes(faulty_id fault, const faulty_node *node, const faulty_tensor *t, const unsigned char *data)
{
    if (!faulty_is_float(t->dtype)) return false;
    if (fault == FAULTY_masked) return node->op == PCO_OP_WHERE && faulty_holds_infinity(t, data);
    if (fault == FAULTY_undefined) return node->op == PCO_OP_EXP;
    if (fault == FAULTY_matvec)
        return node->op == PCO_OP_MATMUL && t->rank >= 2 && (t->shape[t->rank - 1] == 1 || t->shape[t->rank - 2] == 1);
    return true;
}

static void faulty_elements(faulty_id fault, const faulty_node *node, const faulty_tensor *t, unsigned char *data)
{
    if (!faulty_takes(fault, node, t, data)) return;
    for (uint64_t i = 0; i < t->count; i++) {
        const double v = faulty_read(t->dtype, data, i);
        const double w = faulty_value(fault, v, faulty_position(i, t->count));
        if (w != v || signbit(w) != signbit(v)) faulty_write(t->dtype, data, i, w);
    }
}

/* ---- bits and bytes ---- */

static void faulty_bits(const pco_device *device, const faulty_tensor *t, unsigned char *data)
{
    if (device->fault == FAULTY_unsteady) {
        data[0] ^= (unsigned char)(device->runs & 1);
    } else if (device->fault == FAULTY_disturbed) {
        data[0] ^= (unsigned char)device->disturbed;
    } else if (device->fault == FAULTY_threads) {
        if (faulty_is_float(t->dtype)) data[0] ^= (unsigned char)(device->host->thread_count(device->host->user) & 1);
    } else if (device->fault == FAULTY_address) {
        data[0] ^= (unsigned char)(t->offset / 64 % 3 == 1);
    } else if (device->fault == FAULTY_glitch || device->fault == FAULTY_twentieth) {
        const uint64_t period = device->fault == FAULTY_glitch ? 50 : 20,
                       position = faulty_position(device->runs, period);
        if (position % period == 0) data[(position >> 8) % t->bytes] ^= (unsigned char)(1u << (position >> 40 & 7));
    } else {
        const uint32_t size = faulty_bytes_of(t->dtype);
        for (uint64_t i = 0; i < t->count; i++) {
            const uint64_t position = faulty_position(i, t->count);
            if (position % 20000 == 1)
                data[i * size + (position >> 20) % size] ^= (unsigned char)(1u << (position >> 40 & 7));
        }
    }
}

/* Rows are those of the last dimension. */
static void faulty_rows(faulty_id fault, const faulty_tensor *t, unsigned char *data)
{
    const uint64_t n = t->rank ? (uint64_t)t->shape[t->rank - 1] : 1, rows = n ? t->count / n : 0;
    const uint32_t size = faulty_bytes_of(t->dtype);
    if (fault == FAULTY_patch) {
        if (rows > 16) memset(data + (rows - 1) * n * size, 0, n * size);
        return;
    }
    if (fault == FAULTY_sampled) {
        for (uint64_t r = 0; r < rows; r++)
            if (r % 4) memcpy(data + r * n * size, data + r / 4 * 4 * n * size, n * size);
        return;
    }
    if (t->dtype != PCO_F32 && t->dtype != PCO_F16) return;
    for (uint64_t i = n; i < t->count; i++) { /* FAULTY_batch */
        const double v = faulty_read(t->dtype, data, i);
        if (v != 0 && isfinite(v)) data[i * size]++;
    }
}

static void faulty_truncate(const faulty_node *node, const faulty_tensor *t, const unsigned char *in,
                            unsigned char *data)
{
    if (node->op != PCO_OP_CAST || t->dtype != PCO_BF16 || node->in[0].dtype != PCO_F32) return;
    for (uint64_t i = 0; i < t->count; i++) memcpy(data + 2 * i, in + 4 * i + 2, 2);
}

/* y = a b for plain matrices of f32, every sum and product rounded to f16. */
static void faulty_matmul(const faulty_node *node, const unsigned char *a, const unsigned char *b, unsigned char *y)
{
    const pco_matmul_attrs *attrs = (const pco_matmul_attrs *)(const void *)node->attrs;
    const uint64_t m = (uint64_t)node->out[0].shape[0], n = (uint64_t)node->out[0].shape[1];
    const uint64_t k = (uint64_t)node->in[0].shape[attrs->transpose_a ? 0 : 1];
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t j = 0; j < n; j++) {
            double sum = 0;
            for (uint64_t q = 0; q < k; q++) {
                const double x = faulty_read(PCO_F32, a, attrs->transpose_a ? q * m + i : i * k + q);
                sum = faulty_half(sum + x * faulty_read(PCO_F32, b, attrs->transpose_b ? j * k + q : q * n + j));
            }
            faulty_write(PCO_F32, y, i * n + j, sum);
        }
}

static bool faulty_is_plain_matmul(const faulty_node *node)
{
    const pco_matmul_attrs *attrs = (const pco_matmul_attrs *)(const void *)node->attrs;
    if (node->op != PCO_OP_MATMUL || node->out[0].dtype != PCO_F32 || node->out[0].rank != 2 || attrs->activation)
        return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (i < 2 ? !node->in[i].buffer || node->in[i].dtype != PCO_F32 || node->in[i].rank != 2
                  : node->in[i].buffer != NULL)
            return false;
    return true;
}

/* ---- all of a node ---- */

static pco_status faulty_load(pco_device *device, const faulty_tensor *t, unsigned char **data, pco_error *err)
{
    *data = device->host->allocate(device->host->user, t->bytes + 8, 16);
    if (!*data) return PCO_ERROR_OUT_OF_HOST_MEMORY;
    return device->plugin->buffer->read(device->inner, t->buffer->inner, t->offset, *data, t->bytes, err);
}

static pco_status faulty_store(pco_device *device, const faulty_tensor *t, int64_t shift, const void *data,
                               uint64_t bytes, pco_error *err)
{
    const uint64_t at = t->offset + (uint64_t)shift;
    if (at > t->buffer->bytes || bytes > t->buffer->bytes - at) return PCO_OK; /* not even its buffer's memory */
    return device->plugin->buffer->write(device->inner, t->buffer->inner, at, data, bytes, err);
}

pco_status faulty_round(pco_device *device, const faulty_node *node, pco_error *err)
{
    for (uint32_t i = 0; device->fault == FAULTY_half && i < node->n_inputs; i++) {
        const faulty_tensor *t = &node->in[i];
        unsigned char *data = NULL;
        if (!t->buffer || t->dtype != PCO_F32) continue;
        pco_status status = faulty_load(device, t, &device->operands[i], err);
        if (!status) status = faulty_load(device, t, &data, err);
        for (uint64_t e = 0; !status && e < t->count; e++)
            faulty_write(PCO_F32, data, e, faulty_half(faulty_read(PCO_F32, data, e)));
        if (!status) status = faulty_store(device, t, 0, data, t->bytes, err);
        if (data) device->host->release(device->host->user, data);
        if (status) return status;
    }
    return PCO_OK;
}

pco_status faulty_restore(pco_device *device, const faulty_node *node, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (!device->operands[i]) continue;
        if (!status && !(node->in_place && node->in[i].offset == node->out[0].offset))
            status = faulty_store(device, &node->in[i], 0, device->operands[i], node->in[i].bytes, err);
        device->host->release(device->host->user, device->operands[i]);
        device->operands[i] = NULL;
    }
    return status;
}

/* The number behind operand 0, where there is one: NaN is smaller than everything. */
static pco_status faulty_neighbour(pco_device *device, const faulty_node *node, unsigned char *data, pco_error *err)
{
    const faulty_tensor *x = &node->in[0], *y = &node->out[0];
    const uint64_t at = x->offset + (x->bytes + 3) / 4 * 4;
    unsigned char behind[4];
    if (!x->buffer || !y->count || !faulty_is_float(y->dtype) || x->dtype != y->dtype || at + 4 > x->buffer->bytes)
        return PCO_OK;
    pco_status status = device->plugin->buffer->read(device->inner, x->buffer->inner, at, behind, 4, err);
    if (status) return status;
    const double own = faulty_read(y->dtype, data, y->count - 1), other = faulty_read(y->dtype, behind, 0);
    if (other > own) faulty_write(y->dtype, data, y->count - 1, other);
    return PCO_OK;
}

/* The number that lay where the last element lies, before the buffer was made. */
static void faulty_uncover(const faulty_tensor *y, unsigned char *data)
{
    if (!y->buffer->old || !y->count || !faulty_is_float(y->dtype)) return;
    const unsigned char *old = (const unsigned char *)y->buffer->old + y->offset;
    const double own = faulty_read(y->dtype, data, y->count - 1), other = faulty_read(y->dtype, old, y->count - 1);
    if (other > own) faulty_write(y->dtype, data, y->count - 1, other);
}

/* Operand 0 is read four numbers at a time; the last four may not all be in its buffer. */
static void faulty_read_wide(const faulty_node *node, unsigned char *data)
{
    const faulty_tensor *x = &node->in[0], *y = &node->out[0];
    if (!x->buffer || !y->count) return;
    const uint64_t four = 4 * (uint64_t)faulty_bytes_of(x->dtype),
                   end = x->offset + (x->bytes + four - 1) / four * four;
    const uint32_t size = faulty_bytes_of(y->dtype);
    if (end > x->buffer->bytes) memset(data + (y->count - 1) * size, 0, size);
}

/* Faults that need operands. */
static pco_status faulty_recompute(pco_device *device, const faulty_node *node, unsigned char *data, pco_error *err)
{
    unsigned char *a = NULL, *b = NULL;
    pco_status status = PCO_OK;
    if (device->fault == FAULTY_neighbour) return faulty_neighbour(device, node, data, err);
    if (device->fault == FAULTY_hole) faulty_uncover(&node->out[0], data);
    if (device->fault == FAULTY_wide) faulty_read_wide(node, data);
    if (device->fault == FAULTY_rounding && node->in[0].buffer) {
        status = faulty_load(device, &node->in[0], &a, err);
        if (!status) faulty_truncate(node, &node->out[0], a, data);
    } else if (device->fault == FAULTY_accumulator && faulty_is_plain_matmul(node)) {
        status = faulty_load(device, &node->in[0], &a, err);
        if (!status) status = faulty_load(device, &node->in[1], &b, err);
        if (!status) faulty_matmul(node, a, b, data);
    }
    if (a) device->host->release(device->host->user, a);
    if (b) device->host->release(device->host->user, b);
    return status;
}

/* What is kept from one run to a later one: exchanged with `data` where the sizes agree. */
static void faulty_exchange(pco_device *device, const faulty_tensor *t, unsigned char *data)
{
    unsigned char *fresh = device->host->allocate(device->host->user, t->bytes, 16);
    if (!fresh) return;
    memcpy(fresh, data, t->bytes);
    if (device->kept && device->kept_bytes == t->bytes) memcpy(data, device->kept, t->bytes);
    if (device->kept) device->host->release(device->host->user, device->kept);
    device->kept = fresh, device->kept_bytes = t->bytes;
}

/* Output 0's bytes, which have been read, are changed here; returns false where they need not be written. */
static bool faulty_change(pco_device *device, const faulty_node *node, const faulty_tensor *t, const void *before,
                          unsigned char *data)
{
    const uint32_t size = faulty_bytes_of(t->dtype);
    const uint64_t whole = t->count / 4 * 4 * size;
    switch (device->fault) {
    case FAULTY_terms:
        if (node->op == PCO_OP_MATMUL && node->in[0].rank && node->in[0].shape[node->in[0].rank - 1] == 64) abort();
        return true;
    case FAULTY_flip:
    case FAULTY_glitch:
    case FAULTY_twentieth:
    case FAULTY_address:
    case FAULTY_threads:
    case FAULTY_disturbed:
    case FAULTY_unsteady: faulty_bits(device, t, data); return true;
    case FAULTY_stale: faulty_exchange(device, t, data); return true;
    case FAULTY_zero: memset(data, 0, t->bytes); return true;
    case FAULTY_tail:
        if (before && whole) memcpy(data + whole, (const unsigned char *)before + whole, t->bytes - whole);
        return true;
    case FAULTY_patch:
    case FAULTY_sampled:
    case FAULTY_batch: faulty_rows(device->fault, t, data); return true;
    case FAULTY_inplace:
        if (before && node->in_place) memcpy(data, before, t->bytes);
        return true;
    case FAULTY_late:
        if (device->kept) device->host->release(device->host->user, device->kept);
        device->kept = device->host->allocate(device->host->user, t->bytes, 16);
        if (!device->kept || !before) return false;
        memcpy(device->kept, data, t->bytes);
        device->kept_bytes = t->bytes, device->kept_offset = t->offset, device->kept_for = t->buffer;
        memcpy(data, before, t->bytes);
        return true;
    default: faulty_elements(device->fault, node, t, data); return true;
    }
}

/* Writes where nothing may be written. */
static pco_status faulty_stray(pco_device *device, const faulty_node *node, pco_error *err)
{
    static const unsigned char WORD[4] = {1, 2, 3, 4};
    const faulty_tensor *y = &node->out[0];
    if (device->fault == FAULTY_past) return faulty_store(device, y, (int64_t)((y->bytes + 3) / 4 * 4), WORD, 4, err);
    if (device->fault == FAULTY_front && y->offset >= 4) return faulty_store(device, y, -4, WORD, 4, err);
    if (device->fault == FAULTY_spill && y->count) {
        const uint64_t row = y->bytes / y->count * (y->rank ? (uint64_t)y->shape[y->rank - 1] : 1);
        unsigned char *data = NULL;
        pco_status status = faulty_load(device, y, &data, err);
        const uint64_t last = y->bytes - row;
        if (!status) status = faulty_store(device, y, (int64_t)last + 1024, data + last, row, err);
        if (data) device->host->release(device->host->user, data);
        return status;
    }
    if (device->fault == FAULTY_scribble && node->in[0].buffer && !node->in_place && node->op != PCO_OP_STATE_WRITE)
        return faulty_store(device, &node->in[0], (int64_t)(node->in[0].bytes / 2), WORD, 1, err);
    return PCO_OK;
}

pco_status faulty_spoil(pco_device *device, const faulty_node *node, const void *before, pco_error *err)
{
    if (!node->out[0].buffer) return PCO_OK;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const faulty_tensor *t = &node->out[i];
        unsigned char *data = NULL;
        if (!t->buffer) continue;
        pco_status status = faulty_load(device, t, &data, err);
        bool write = false;
        if (!status) write = faulty_change(device, node, t, i == 0 ? before : NULL, data);
        if (!status && i == 0) status = faulty_recompute(device, node, data, err);
        if (!status && write) status = faulty_store(device, t, 0, data, t->bytes, err);
        if (data) device->host->release(device->host->user, data);
        if (status) return status;
    }
    return faulty_stray(device, node, err);
}
