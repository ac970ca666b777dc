/* Strided views: how several operands step through the same index space. */
#include "lower.h"

#include <string.h>

void gpu_strides(const int64_t *shape, uint32_t rank, int64_t *stride)
{
    int64_t step = 1;
    for (uint32_t d = rank; d-- > 0;) {
        stride[d] = step;
        step *= shape[d];
    }
}

void gpu_broadcast_strides(const pco_tensor *tensor, uint32_t rank, const int64_t *shape, int64_t *stride)
{
    int64_t own[PCO_MAX_RANK] = {0};
    const uint32_t lead = rank - tensor->rank;
    gpu_strides(tensor->shape, tensor->rank, own);
    for (uint32_t d = 0; d < rank; d++) {
        const int repeated = d < lead || (tensor->shape[d - lead] == 1 && shape[d] != 1);
        stride[d] = repeated ? 0 : own[d - lead];
    }
}

/* Removes dimension d. */
static void gpu_view_drop(gpu_view *view, uint32_t d)
{
    const uint32_t after = view->rank - d - 1;
    memmove(&view->size[d], &view->size[d + 1], after * sizeof view->size[0]);
    for (uint32_t k = 0; k < view->n; k++) {
        memmove(&view->stride[k][d], &view->stride[k][d + 1], after * sizeof view->stride[0][0]);
    }
    view->rank--;
}

void gpu_view_coalesce(gpu_view *view)
{
    for (uint32_t d = view->rank; d-- > 0;) {
        if (view->size[d] == 1 && view->rank > 1) gpu_view_drop(view, d);
    }
    for (uint32_t d = view->rank; d-- > 1;) {
        int joined = 1;
        for (uint32_t k = 0; k < view->n; k++) {
            joined &= view->stride[k][d - 1] == view->stride[k][d] * (int64_t)view->size[d];
        }
        if (!joined) continue;
        view->size[d] *= view->size[d - 1];
        gpu_view_drop(view, d - 1);
    }
    if (view->rank == 0) view->rank = 1, view->size[0] = 1;
    if (view->rank == 1 && view->size[0] == 1) {
        for (uint32_t k = 0; k < view->n; k++) view->stride[k][0] = 1;
    }
}

uint64_t gpu_view_span(const gpu_view *view, uint32_t k)
{
    uint64_t span = 1;
    for (uint32_t d = 0; d < view->rank; d++) {
        if (view->size[d] == 0) return 0;
        span += (view->size[d] - 1) * (uint64_t)view->stride[k][d];
    }
    return span;
}

pco_status gpu_view_split(gpu_lowering *gpu, const gpu_view *view, const uint64_t *limit, gpu_view_fn emit,
                          void *context)
{
    for (uint32_t k = 0; k < view->n; k++) {
        if (gpu_view_span(view, k) <= limit[k]) continue;
        uint32_t widest = 0;
        uint64_t most = 0;
        for (uint32_t d = 0; d < view->rank; d++) {
            const uint64_t reach = (view->size[d] - 1) * (uint64_t)view->stride[k][d];
            if (reach > most) {
                most = reach;
                widest = d;
            }
        }
        if (most == 0) return gpu_fail(gpu, PCO_ERROR_INTERNAL, "a window holds less than one element");
        const uint64_t size = view->size[widest];
        const uint64_t unit = size > 2048 ? 1024 : size >= 8 ? 4 : 1;
        const uint64_t cut = gpu_max(size / 2 / unit, 1) * unit;
        gpu_view half = *view;
        half.size[widest] = cut;
        if (gpu_view_split(gpu, &half, limit, emit, context) != PCO_OK) return gpu->status;
        half.size[widest] = size - cut;
        for (uint32_t j = 0; j < view->n; j++) half.offset[j] += cut * (uint64_t)view->stride[j][widest];
        return gpu_view_split(gpu, &half, limit, emit, context);
    }
    gpu_view part = *view;
    gpu_view_coalesce(&part);
    return emit(gpu, &part, context);
}
