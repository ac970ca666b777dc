#include "layout.h"
#include "lower.h"

#include <stdio.h>
#include <string.h>

/* BLOCK_q8_0, QUANTS_q8_0, SCALES_q8_0 ...: of each format, as its row in dtypes.def and its .inc have them. */
#define GPU_SIZES(NAME, name, block, bytes, quants, scales) \
    BLOCK_##name = block, QUANTS_##name = quants, SCALES_##name = scales,
enum { GPU_FORMATS(GPU_SIZES) };

/* Of each format: from a block in the file to what its kernels read (shaders/quant_NAME.inc). */

static void gpu_part_q8_0(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    memcpy(scales, block, SCALES_q8_0);
    memcpy(quants, block + SCALES_q8_0, QUANTS_q8_0);
}

static void gpu_part_q4_0(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    memcpy(scales, block, SCALES_q4_0);
    memcpy(quants, block + SCALES_q4_0, QUANTS_q4_0);
}

static void gpu_part_q4_1(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    memcpy(scales, block, SCALES_q4_1);
    memcpy(quants, block + SCALES_q4_1, QUANTS_q4_1);
}

/* Weight i of 256, by 32: its low bits as in Q4_0, its high ones in bits 2 c and 2 c + 1 of byte e, where i mod 16 is
 * 4 c + e. */
static void gpu_part_q6_k(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    memset(quants, 0, QUANTS_q6_k);
    memset(scales, 0, SCALES_q6_k);
    for (int i = 0; i < BLOCK_q6_k; i++) {
        const int half = i / 128, g = i % 128 / 32, l = i % 32;
        const int low = block[64 * half + 32 * (g % 2) + l] >> (g / 2 * 4) & 15;
        const int high = block[128 + 32 * half + l] >> (2 * g) & 3;
        quants[i / 32 * 16 + i % 16] |= (unsigned char)(low << (i & 16 ? 4 : 0));
        scales[i / 16 * 4 + i % 4] |= (unsigned char)(high << (i % 16 / 4 * 2));
    }
    memcpy(scales + 64, block + 192, 18);
}

/* Scales of 6 bits as bytes, and nibbles so that 32 weights are as in Q4_0. */
static void gpu_part_six_bits(const unsigned char *packed, unsigned char *scales)
{
    for (int g = 0; g < 4; g++) {
        scales[g] = packed[g] & 63;
        scales[8 + g] = packed[4 + g] & 63;
        scales[4 + g] = (unsigned char)((packed[8 + g] & 15) | packed[g] >> 6 << 4);
        scales[12 + g] = (unsigned char)(packed[8 + g] >> 4 | packed[4 + g] >> 6 << 4);
    }
}

static void gpu_part_nibbles(const unsigned char *levels, unsigned char *quants)
{
    memset(quants, 0, QUANTS_q4_k);
    for (int i = 0; i < BLOCK_q4_k; i++)
        quants[i / 32 * 16 + i % 16] |=
            (unsigned char)((levels[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15) << (i & 16 ? 4 : 0));
}

static void gpu_part_q4_k(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    gpu_part_six_bits(block + 4, scales);
    memcpy(scales + 16, block, 4);
    gpu_part_nibbles(block + 16, quants);
}

/* Bit `bit` of weight i of 32, where weight 4 p + e has bit p of byte e of a word. */
static void gpu_part_bit(unsigned char *word, int i, int bit) { word[i % 4] |= (unsigned char)(bit << (i / 4)); }

static void gpu_part_q5_k(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    memset(scales, 0, SCALES_q5_k);
    gpu_part_six_bits(block + 4, scales);
    memcpy(scales + 16, block, 4);
    for (int i = 0; i < BLOCK_q5_k; i++)
        gpu_part_bit(scales + 20 + i / 32 * 4, i % 32, block[16 + i % 32] >> (i / 32) & 1);
    gpu_part_nibbles(block + 48, quants);
}

static void gpu_part_q5_0(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    memset(scales, 0, SCALES_q5_0);
    for (int i = 0; i < BLOCK_q5_0; i++) gpu_part_bit(scales, i, block[2 + i / 8] >> (i % 8) & 1);
    memcpy(scales + 4, block, 2);
    memcpy(quants, block + 6, QUANTS_q5_0);
}

static void gpu_part_q5_1(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    memset(scales, 0, SCALES_q5_1);
    for (int i = 0; i < BLOCK_q5_1; i++) gpu_part_bit(scales, i, block[4 + i / 8] >> (i % 8) & 1);
    memcpy(scales + 4, block, 4);
    memcpy(quants, block + 8, QUANTS_q5_1);
}

/* Weight 16 s + 4 w + e of 64 in bits 2 s and 2 s + 1 of byte e of word w. */
static void gpu_part_pairs(const unsigned char *levels, unsigned char *quants)
{
    memset(quants, 0, QUANTS_q2_k);
    for (int i = 0; i < BLOCK_q2_k; i++)
        quants[i / 64 * 16 + i % 16] |=
            (unsigned char)((levels[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) << (i % 64 / 16 * 2));
}

static void gpu_part_q2_k(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    memcpy(scales, block, 16);
    memcpy(scales + 16, block + 80, 4);
    gpu_part_pairs(block + 16, quants);
}

static void gpu_part_q3_k(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    const unsigned char *packed = block + 96;
    memset(scales, 0, SCALES_q3_k);
    for (int g = 0; g < 16; g++) {
        const int low = packed[g % 8] >> (g / 8 * 4) & 15, high = packed[8 + g % 4] >> (g / 4 * 2) & 3;
        scales[g] = (unsigned char)((low | high << 4) - 32);
    }
    for (int i = 0; i < BLOCK_q3_k; i++) gpu_part_bit(scales + 16 + i / 32 * 4, i % 32, block[i % 32] >> (i / 32) & 1);
    memcpy(scales + 48, block + 108, 2);
    gpu_part_pairs(block + 32, quants);
}

static void gpu_part_iq4_nl(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    gpu_part_q4_0(block, quants, scales);
}

static void gpu_part_iq4_xs(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    memset(scales, 0, SCALES_iq4_xs);
    for (int g = 0; g < 8; g++) {
        const int low = block[4 + g / 2] >> (g % 2 * 4) & 15, high = block[2 + g / 4] >> (g % 4 * 2) & 3;
        scales[g] = (unsigned char)((low | high << 4) - 32);
    }
    memcpy(scales + 8, block, 2);
    memcpy(quants, block + 8, QUANTS_iq4_xs);
}

/* 2^(e - 128) as a bf16, of which the two least are subnormal. */
static void gpu_part_mxfp4(const unsigned char *block, unsigned char *quants, unsigned char *scales)
{
    const uint32_t bits = *block < 2 ? 0x20u << *block : (uint32_t)(*block - 1) << 7;
    scales[0] = (unsigned char)bits;
    scales[1] = (unsigned char)(bits >> 8);
    memcpy(quants, block + 1, QUANTS_mxfp4);
}

const gpu_format *gpu_format_of(uint32_t dtype)
{
#define GPU_NUMBER(NAME, name, ...) GPU_FORMAT_##name,
    enum { GPU_FORMATS(GPU_NUMBER) };
#define GPU_FORMAT(NAME, name, block, bytes, quants, scales) \
    [GPU_FORMAT_##name] = {GPU_FORMAT_##name, block, bytes, quants, scales, gpu_part_##name},
    static const gpu_format formats[] = {GPU_FORMATS(GPU_FORMAT)};
#define GPU_CASE(NAME, name, ...) \
    case PCO_##NAME: return &formats[GPU_FORMAT_##name];
    switch (dtype) {
        GPU_FORMATS(GPU_CASE)
    default: return NULL;
    }
}

static uint64_t gpu_plane_quants(const pco_tensor *tensor, const gpu_format *format)
{
    return gpu_count(tensor) / format->block * format->quants;
}

static uint64_t gpu_plane_bytes(const pco_tensor *tensor, const gpu_format *format)
{
    return gpu_plane_quants(tensor, format) + (gpu_count(tensor) / format->block * format->scales + 3) / 4 * 4;
}

gpu_planes gpu_bind_planes(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t quants, uint32_t scales, uint32_t tensor,
                           uint64_t first, uint64_t count)
{
    const pco_tensor *t = &gpu->part->tensors[tensor];
    const gpu_format *format = gpu_format_of(t->dtype);
    const uint64_t block = first / format->block, blocks = count / format->block, behind = gpu_plane_quants(t, format);
    const uint32_t unit = format->scales % 4 ? 2 : 4;
    const uint32_t before = gpu_bind_read(gpu, d, quants, tensor, block * format->quants, blocks * format->quants);
    const uint32_t scale =
        gpu_bind_read(gpu, d, scales, tensor, behind + block * format->scales, blocks * format->scales);
    if (before % format->quants || scale % unit)
        gpu_fail(gpu, PCO_ERROR_INTERNAL, "%s is not aligned to its blocks", t->name);
    /* Kernels count the blocks of both planes alike, from the first weight of the window of quants. */
    const uint32_t skipped = before / format->quants;
    return (gpu_planes){before, skipped * format->block, scale / unit,
                        scale / unit - skipped * (format->scales / unit)};
}

void gpu_want_planes(pco_proposal *proposal, const pco_part *part, uint32_t tensor)
{
    const pco_tensor *t = &part->tensors[tensor];
    const gpu_format *format = gpu_format_of(t->dtype);
    if (!format || t->kind != PCO_KIND_CONSTANT) return;
    proposal->tensors[tensor].layout = GPU_LAYOUT_PLANES;
    proposal->tensors[tensor].bytes = gpu_plane_bytes(t, format);
    /* Wherever a window begins, it begins with a block. */
    if (proposal->tensors[tensor].alignment < format->quants) proposal->tensors[tensor].alignment = format->quants;
}

pco_status gpu_convert(pco_device *device, const pco_tensor *tensor, uint32_t layout, const void *from, void *to,
                       uint64_t bytes, pco_error *err)
{
    (void)device;
    const gpu_format *format = gpu_format_of(tensor->dtype);
    if (layout != GPU_LAYOUT_PLANES || !format || bytes < gpu_plane_bytes(tensor, format)) {
        snprintf(err->message, sizeof err->message, "%s: no layout %u of %llu bytes for this type", tensor->name,
                 layout, (unsigned long long)bytes);
        return PCO_ERROR_INVALID;
    }
    const uint64_t blocks = gpu_count(tensor) / format->block;
    const unsigned char *block = from;
    unsigned char *quants = to, *scales = quants + gpu_plane_quants(tensor, format);
    memset(to, 0, (size_t)bytes);
    for (uint64_t i = 0; i < blocks; i++, block += format->bytes)
        format->part(block, quants + format->quants * i, scales + format->scales * i);
    return PCO_OK;
}
