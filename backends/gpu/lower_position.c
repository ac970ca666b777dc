/* rope and sinusoidal_positions: angles from 64-bit fractions of a turn. */
#include "elementwise.h"

static pco_status gpu_lower_rope_node(gpu_lowering *gpu)
{
    const pco_tensor *x = gpu_input(gpu, 0), *positions = gpu_input(gpu, 1), *phase = gpu_input(gpu, 2);
    pco_rope_attrs room;
    const pco_rope_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const uint32_t lanes = gpu_lanes(x->dtype), in = gpu_input_index(gpu, 0), out = gpu_output_index(gpu, 0);
    const uint64_t n = (uint64_t)x->shape[3], total = gpu_product(x, 0, 3);
    const uint64_t s = (uint64_t)x->shape[attrs->heads_first ? 2 : 1],
                   h = (uint64_t)x->shape[attrs->heads_first ? 1 : 2];
    if (gpu_count(x) == 0) return gpu->status;
    uint64_t step = gpu_window(gpu, gpu_element_bytes(x->dtype)) / n;
    if (step < total) step &= ~UINT64_C(3); /* whole words of every type */
    if (step == 0) return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "rows exceed the device's binding limit");
    for (uint64_t first = 0; first < total && gpu->status == PCO_OK; first += step) {
        const uint64_t rows = gpu_min(step, total - first), all = rows * n;
        const int32_t mode = n % lanes ? 1 : 0;
        const gpu_rows cover = gpu_cover_rows(gpu, gpu_div_up(mode ? all : n, lanes), mode ? 1 : rows);
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_rope, cover.local_x, cover.local_y, 1);
        gpu_set_specs(gpu, &d, rope, .x = (int32_t)x->dtype, .per = (int32_t)cover.per, .mode = mode,
                      .interleaved = attrs->interleaved != 0, .heads_first = attrs->heads_first != 0);
        gpu_set_params(
            gpu, &d, rope, .n = (uint32_t)n, .x_first = gpu_bind_elements(gpu, &d, GPU_rope_x, in, first * n, all, 0),
            .positions_first =
                gpu_bind_elements(gpu, &d, GPU_rope_positions, gpu_input_index(gpu, 1), 0, gpu_count(positions), 0),
            .phase_first = gpu_bind_elements(gpu, &d, GPU_rope_phase, gpu_input_index(gpu, 2), 0, gpu_count(phase), 0),
            .y_first_word = gpu_bind_elements(gpu, &d, GPU_rope_y, out, first * n, all, 1) / lanes,
            .chunks = cover.chunks, .n_rows = (uint32_t)(mode ? 1 : rows), .n_pairs = (uint32_t)phase->shape[0],
            .n_positions = (uint32_t)s, .n_heads = (uint32_t)h,
            .positions_step = positions->shape[0] > 1 ? (uint32_t)s : 0, .scale = (float)attrs->scale,
            .backwards = attrs->inverse != 0, .n_all = (uint32_t)all, .row_first = (uint32_t)first);
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_rope = {.lower = gpu_lower_rope_node};

static pco_status gpu_lower_sinusoidal_node(gpu_lowering *gpu)
{
    const pco_tensor *phase = gpu_input(gpu, 1), *y = gpu_output(gpu, 0);
    pco_sinusoidal_positions_attrs room;
    const pco_sinusoidal_positions_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const uint32_t lanes = gpu_lanes(y->dtype);
    const uint64_t n = 2 * (uint64_t)phase->shape[0], total = gpu_count(gpu_input(gpu, 0));
    if (gpu_count(y) == 0) return gpu->status;
    uint64_t step = gpu_window(gpu, gpu_element_bytes(y->dtype)) / n;
    if (step < total) step &= ~UINT64_C(3);
    if (step == 0) return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "rows exceed the device's binding limit");
    for (uint64_t first = 0; first < total && gpu->status == PCO_OK; first += step) {
        const uint64_t rows = gpu_min(step, total - first), count = rows * n;
        const gpu_rows cover = gpu_cover_rows(gpu, gpu_div_up(count, lanes), 1);
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_sinusoidal, cover.local_x, 1, 1);
        gpu_set_specs(gpu, &d, sinusoidal, .y = (int32_t)y->dtype, .per = (int32_t)cover.per,
                      .layout = attrs->layout != 0);
        gpu_set_params(
            gpu, &d, sinusoidal, .n = (uint32_t)count,
            .positions_first =
                gpu_bind_elements(gpu, &d, GPU_sinusoidal_positions, gpu_input_index(gpu, 0), first, rows, 0),
            .phase_first =
                gpu_bind_elements(gpu, &d, GPU_sinusoidal_phase, gpu_input_index(gpu, 1), 0, gpu_count(phase), 0),
            .y_first_word =
                gpu_bind_elements(gpu, &d, GPU_sinusoidal_y, gpu_output_index(gpu, 0), first * n, count, 1) / lanes,
            .n_pairs = (uint32_t)phase->shape[0]);
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_sinusoidal_positions = {.lower = gpu_lower_sinusoidal_node};
