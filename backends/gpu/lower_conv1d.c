/* conv1d: samples at once while x, the weights and y fit into windows, else channels of one group of one sample. */
#include "lower.h"

enum { CONV1D_SINGLE, CONV1D_FOUR, CONV1D_TILE };

static const gpu_variant conv1d_variants[] = {{"channel", .constants = {{"workgroup", 64, {32, 64, 128, 256}}}},
                                              {"channels_4", .constants = {{"workgroup", 64, {32, 64, 128, 256}}}},
                                              {"tile_16x16", .constants = {{"workgroup", 64, {16, 32, 64, 128}}}}};
_Static_assert(GPU_KERNEL_conv1d_1x4 + CONV1D_TILE == GPU_KERNEL_conv1d_16x16, "order of rows");

/* Channels and positions of an invocation, by variant. */
static const uint32_t CONV1D_SIZES[][2] = {{1, 4}, {4, 4}, {16, 16}};

/* x [samples, groups, channels, length], weight [groups, outputs, channels, taps], y [samples, groups, outputs,
 * positions] */
typedef struct conv1d_sizes {
    uint64_t samples, groups, channels, length, outputs, taps, positions;
} conv1d_sizes;

/* What a dispatch computes: all groups of some samples, or some outputs of one group of one. */
typedef struct conv1d_part {
    uint64_t sample, samples, group, groups, output, outputs;
} conv1d_part;

static const pco_conv1d_attrs *conv1d_attrs(const gpu_lowering *gpu, pco_conv1d_attrs *room)
{
    return gpu_attrs(gpu, room, sizeof *room);
}

static conv1d_sizes conv1d_sizes_of(const gpu_lowering *gpu)
{
    pco_conv1d_attrs room;
    const uint64_t groups = (uint64_t)conv1d_attrs(gpu, &room)->groups;
    const pco_tensor *x = gpu_input(gpu, 0), *weight = gpu_input(gpu, 1), *y = gpu_output(gpu, 0);
    return (conv1d_sizes){.samples = gpu_product(x, 0, x->rank - 2),
                          .groups = groups,
                          .channels = (uint64_t)weight->shape[1],
                          .length = (uint64_t)x->shape[x->rank - 1],
                          .outputs = (uint64_t)weight->shape[0] / groups,
                          .taps = (uint64_t)weight->shape[2],
                          .positions = (uint64_t)y->shape[y->rank - 1]};
}

static void conv1d_emit(gpu_lowering *gpu, const conv1d_sizes *s, const conv1d_part *part)
{
    pco_conv1d_attrs room;
    const pco_conv1d_attrs *attrs = conv1d_attrs(gpu, &room);
    const pco_tensor *bias = gpu_input(gpu, 2);
    const uint32_t channels = CONV1D_SIZES[gpu->variant][0], positions = CONV1D_SIZES[gpu->variant][1];
    const uint64_t terms = s->channels * s->taps;
    const uint64_t rows = part->samples * part->groups * gpu_div_up(part->outputs, channels);
    /* Few sizes, whatever the number of positions: each is a pipeline. */
    const uint32_t most = gpu_workgroup(gpu, gpu_tuned(gpu, &conv1d_variants[gpu->variant], 0));
    uint32_t lanes = 1, lines = 1;
    while (lanes < most && lanes * positions < s->positions) lanes *= 4;
    lanes = lanes < most ? lanes : most;
    while (lanes * lines < most && lines * 2 <= gpu->limits->max_local[1]) lines *= 2;
    const uint64_t chunks = gpu_div_up(s->positions, (uint64_t)lanes * positions);
    const uint64_t x_all = s->channels * s->length, y_all = part->outputs * s->positions;
    const uint64_t x_first = (part->sample * s->groups + part->group) * x_all;
    const uint64_t output = part->group * s->outputs + part->output;
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, GPU_KERNEL_conv1d_1x4 + gpu->variant, lanes, lines, 1);
    gpu_set_specs(gpu, &d, conv1d, .x = (int32_t)gpu_input(gpu, 0)->dtype, .w = (int32_t)gpu_input(gpu, 1)->dtype,
                  .bias_t = bias ? (int32_t)bias->dtype : -1);
    gpu_conv1d_params p = {.n_rows = (uint32_t)rows,
                           .chunks = (uint32_t)chunks,
                           .channels = (uint32_t)s->channels,
                           .length = (uint32_t)s->length,
                           .taps = (uint32_t)s->taps,
                           .positions = (uint32_t)s->positions,
                           .outputs = (uint32_t)part->outputs,
                           .groups = (uint32_t)part->groups,
                           .stride = (uint32_t)attrs->stride,
                           .padding = (uint32_t)attrs->padding,
                           .dilation = (uint32_t)attrs->dilation,
                           .x_first = gpu_bind_elements(gpu, &d, GPU_conv1d_x, gpu_input_index(gpu, 0), x_first,
                                                        part->samples * part->groups * x_all, 0),
                           .weight_first = gpu_bind_elements(gpu, &d, GPU_conv1d_weight, gpu_input_index(gpu, 1),
                                                             output * terms, part->groups * part->outputs * terms, 0),
                           .y_first = gpu_bind_elements(gpu, &d, GPU_conv1d_y, gpu_output_index(gpu, 0),
                                                        (part->sample * s->groups * s->outputs + output) * s->positions,
                                                        part->samples * part->groups * y_all, 1)};
    if (bias)
        p.bias_first = gpu_bind_elements(gpu, &d, GPU_conv1d_bias, gpu_input_index(gpu, 2), output,
                                         part->groups * part->outputs, 0);
    else
        gpu_bind_again(gpu, &d, GPU_conv1d_bias, GPU_conv1d_weight);
    gpu_set_params_from(gpu, &d, conv1d, &p);
    gpu_emit(gpu, &d, gpu_div_up(rows, lines) * chunks);
}

/* Outputs of one group of one sample, as many as fit. */
static void conv1d_emit_apart(gpu_lowering *gpu, const conv1d_sizes *s, uint64_t step)
{
    for (uint64_t n = 0; n < s->samples && gpu->status == PCO_OK; n++)
        for (uint64_t g = 0; g < s->groups && gpu->status == PCO_OK; g++)
            for (uint64_t o = 0; o < s->outputs && gpu->status == PCO_OK; o += step)
                conv1d_emit(gpu, s, &(conv1d_part){n, 1, g, 1, o, gpu_min(step, s->outputs - o)});
}

static pco_status conv1d_lower(gpu_lowering *gpu)
{
    const conv1d_sizes s = conv1d_sizes_of(gpu);
    const uint64_t window = gpu_window(gpu, gpu_element_bytes(gpu_input(gpu, 0)->dtype));
    const uint64_t weights = gpu_window(gpu, gpu_element_bytes(gpu_input(gpu, 1)->dtype));
    const uint64_t terms = s.channels * s.taps, x_all = s.channels * s.length;
    if (gpu_count(gpu_output(gpu, 0)) == 0) return gpu->status;
    if (gpu_need_rounds(gpu, s.channels * (s.taps + 1) + 64)) return gpu->status;
    const uint64_t step = window / (s.groups * gpu_max(x_all, s.outputs * s.positions));
    if (step > 0 && s.groups * s.outputs * terms <= weights) {
        for (uint64_t n = 0; n < s.samples && gpu->status == PCO_OK; n += step)
            conv1d_emit(gpu, &s, &(conv1d_part){n, gpu_min(step, s.samples - n), 0, s.groups, 0, s.outputs});
        return gpu->status;
    }
    const uint64_t outputs = gpu_min(window / s.positions, weights / terms);
    if (x_all > window || outputs == 0) {
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED,
                        "channels [%llu,%llu] of a group, and [%llu,%llu] weights, exceed the device's binding limit",
                        (unsigned long long)s.channels, (unsigned long long)s.length, (unsigned long long)s.channels,
                        (unsigned long long)s.taps);
    }
    conv1d_emit_apart(gpu, &s, outputs);
    return gpu->status;
}

/* A large tile is for what fills it, and takes long to compile. */
/* On a processor a load costs as much as several products (see lower_matmul_kernels.c): large tiles load least. They
 * are for processors alone: 256 sums are more than an invocation of any GPU has registers. */
static int conv1d_eligible(const gpu_lowering *gpu, uint32_t variant)
{
    const conv1d_sizes s = conv1d_sizes_of(gpu);
    return variant != CONV1D_TILE ||
           (gpu->software && !gpu->limits->small_kernels && s.outputs >= 12 && s.positions >= 2 * 16);
}

static uint32_t conv1d_choose(const gpu_lowering *gpu)
{
    const conv1d_sizes s = conv1d_sizes_of(gpu);
    const int fills_vectors = s.positions >= 8 * 16;
    if (fills_vectors && conv1d_eligible(gpu, CONV1D_TILE)) return CONV1D_TILE;
    return s.outputs >= 3 ? CONV1D_FOUR : CONV1D_SINGLE;
}

const gpu_lowerer gpu_lower_conv1d = {.variants = conv1d_variants,
                                      .n_variants = sizeof conv1d_variants / sizeof *conv1d_variants,
                                      .eligible = conv1d_eligible,
                                      .choose = conv1d_choose,
                                      .lower = conv1d_lower};
