/* Ops that make data: fill, iota, random numbers, and dropout, which uses them. */
#include "elementwise.h"

#include <math.h>

static pco_status gpu_lower_fill_node(gpu_lowering *gpu)
{
    const pco_tensor *y = gpu_output(gpu, 0);
    pco_fill_attrs room;
    const pco_fill_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    uint32_t word = gpu_element_bits(y->dtype, attrs->value);
    for (uint32_t bits = 8 * gpu_element_bytes(y->dtype); bits < 32; bits *= 2) word |= word << bits;
    const uint64_t total = gpu_count(y), window = gpu_window(gpu, gpu_element_bytes(y->dtype));
    for (uint64_t first = 0; first < total && gpu->status == PCO_OK; first += window) {
        const uint64_t count = gpu_min(window, total - first), words = gpu_div_up(count, gpu_lanes(y->dtype));
        const uint32_t left = (uint32_t)(words * gpu_lanes(y->dtype) - count); /* elements of the last word, not y's */
        const gpu_rows cover = gpu_cover_rows(gpu, words, 1);
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_fill, cover.local_x, 1, 1);
        gpu_set_specs(gpu, &d, fill, .per = (int32_t)cover.per);
        gpu_set_params(gpu, &d, fill, .n_words = (uint32_t)words,
                       .y_first_word =
                           gpu_bind_elements(gpu, &d, GPU_fill_y, gpu_output_index(gpu, 0), first, count, 1) /
                           gpu_lanes(y->dtype),
                       .value = word, .last = word >> (8 * gpu_element_bytes(y->dtype) * left));
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_fill = {.lower = gpu_lower_fill_node};

static pco_status gpu_lower_iota_node(gpu_lowering *gpu)
{
    const pco_tensor *y = gpu_output(gpu, 0);
    pco_iota_attrs room;
    const pco_iota_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const uint32_t axis = (uint32_t)attrs->axis, as = y->dtype == PCO_I32 ? PCO_I32 : PCO_F32;
    const uint64_t total = gpu_count(y), window = gpu_window(gpu, gpu_element_bytes(y->dtype));
    if (total > UINT32_MAX) return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "a result of more than 2^32 elements");
    for (uint64_t first = 0; first < total && gpu->status == PCO_OK; first += window) {
        const uint64_t count = gpu_min(window, total - first), words = gpu_div_up(count, gpu_lanes(y->dtype));
        const gpu_rows cover = gpu_cover_rows(gpu, words, 1);
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_iota, cover.local_x, 1, 1);
        gpu_set_specs(gpu, &d, iota, .y = (int32_t)y->dtype, .per = (int32_t)cover.per);
        gpu_set_params(gpu, &d, iota, .n = (uint32_t)count,
                       .y_first_word =
                           gpu_bind_elements(gpu, &d, GPU_iota_y, gpu_output_index(gpu, 0), first, count, 1) /
                           gpu_lanes(y->dtype),
                       .index_first = (uint32_t)first, .inner = (uint32_t)gpu_product(y, axis + 1, y->rank),
                       .axis_size = (uint32_t)(y->rank ? y->shape[axis] : 1), .start = gpu_value_bits(as, attrs->start),
                       .step = gpu_value_bits(as, attrs->step));
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_iota = {.lower = gpu_lower_iota_node};

/* A pair of words (seed, offset) of an input, if it is there; returns the first word's place. */
static uint32_t gpu_bind_pair(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t input)
{
    if (!gpu_input(gpu, input)) return 0;
    return gpu_bind_elements(gpu, d, buffer, gpu_input_index(gpu, input), 0, 2, 0);
}

/* Blocks of four elements count in 32 bits. */
static pco_status gpu_check_blocks(gpu_lowering *gpu, uint64_t total)
{
    if (total / 4 < UINT32_MAX) return PCO_OK;
    return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "a result of more than 2^34 elements");
}

static pco_status gpu_lower_random_bits_node(gpu_lowering *gpu)
{
    const pco_tensor *y = gpu_output(gpu, 0);
    pco_random_bits_attrs room;
    const pco_random_bits_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const uint64_t total = gpu_count(y), window = gpu_window(gpu, 4) & ~UINT64_C(3);
    gpu_check_blocks(gpu, total);
    for (uint64_t first = 0; first < total && gpu->status == PCO_OK; first += window) {
        const uint64_t count = gpu_min(window, total - first);
        const gpu_rows cover = gpu_cover_rows(gpu, gpu_div_up(count, 4), 1);
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_random_bits, cover.local_x, 1, 1);
        gpu_set_specs(gpu, &d, random_bits, .per = (int32_t)cover.per, .has_offset = gpu_input(gpu, 1) != NULL);
        gpu_set_params(
            gpu, &d, random_bits, .n = (uint32_t)count, .seed_first = gpu_bind_pair(gpu, &d, GPU_random_bits_seed, 0),
            .offset_first = gpu_bind_pair(gpu, &d, GPU_random_bits_offset, 1),
            .y_first = gpu_bind_elements(gpu, &d, GPU_random_bits_y, gpu_output_index(gpu, 0), first, count, 1),
            .block_first = (uint32_t)(first / 4), .stream = (uint32_t)attrs->stream);
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_random_bits = {.lower = gpu_lower_random_bits_node};

static pco_status gpu_lower_dropout_node(gpu_lowering *gpu)
{
    const pco_tensor *y = gpu_output(gpu, 0);
    pco_dropout_attrs room;
    const pco_dropout_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const uint64_t total = gpu_count(y), window = gpu_window(gpu, gpu_element_bytes(y->dtype)) & ~UINT64_C(3);
    const uint64_t threshold = (uint64_t)llrint(attrs->p * 4294967296.0);
    gpu_check_blocks(gpu, total);
    for (uint64_t first = 0; first < total && gpu->status == PCO_OK; first += window) {
        const uint64_t count = gpu_min(window, total - first);
        const gpu_rows cover = gpu_cover_rows(gpu, gpu_div_up(count, 4), 1);
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_dropout, cover.local_x, 1, 1);
        gpu_set_specs(gpu, &d, dropout, .x = (int32_t)y->dtype, .per = (int32_t)cover.per,
                      .has_offset = gpu_input(gpu, 2) != NULL);
        gpu_set_params(gpu, &d, dropout, .n = (uint32_t)count,
                       .x_first = gpu_bind_elements(gpu, &d, GPU_dropout_x, gpu_input_index(gpu, 0), first, count, 0),
                       .seed_first = gpu_bind_pair(gpu, &d, GPU_dropout_seed, 1),
                       .offset_first = gpu_bind_pair(gpu, &d, GPU_dropout_offset, 2),
                       .y_first_word =
                           gpu_bind_elements(gpu, &d, GPU_dropout_y, gpu_output_index(gpu, 0), first, count, 1) /
                           gpu_lanes(y->dtype),
                       .block_first = (uint32_t)(first / 4), .stream = (uint32_t)attrs->stream,
                       .threshold = (uint32_t)gpu_min(threshold, UINT32_MAX), .scale = (float)(1.0 / (1.0 - attrs->p)),
                       .drop_all = threshold > UINT32_MAX);
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_dropout = {.in_place = 1, .lower = gpu_lower_dropout_node};
