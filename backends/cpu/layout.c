#include "layout.h"

uint64_t cpu_panels_bytes(const cpu_kernels *kernels, int64_t k, int64_t n)
{
    const int64_t wide = kernels->tile_columns;
    return (uint64_t)((n + wide - 1) / wide * wide * k) * sizeof(float);
}

/* ---- what is proposed ---- */

/* A layout that no node has asked for yet. */
#define CPU_LAYOUT_UNREAD UINT32_MAX

static void cpu_layout_vote(const cpu_node *node, const cpu_variant *variant, const pco_node *from,
                            pco_proposal *proposal)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (from->inputs[i] == PCO_NONE) continue;
        uint32_t *layout = &proposal->tensors[from->inputs[i]].layout;
        const uint32_t wanted = variant->layout ? (uint32_t)variant->layout(node, i) : CPU_LAYOUT_FILE;
        *layout = *layout == CPU_LAYOUT_UNREAD || *layout == wanted ? wanted : CPU_LAYOUT_FILE;
    }
}

void cpu_layout_propose(const pco_device *device, const pco_part *part, pco_proposal *proposal)
{
    for (uint32_t t = 0; t < part->n_tensors; t++)
        proposal->tensors[t].layout = part->tensors[t].kind == PCO_KIND_CONSTANT ? CPU_LAYOUT_UNREAD : CPU_LAYOUT_FILE;
    for (uint32_t t = 0; t < part->n_tensors; t++)
        if (part->tensors[t].alias != PCO_NONE) /* also read as another tensor, or as an output of the graph */
            proposal->tensors[part->tensors[t].alias].layout = proposal->tensors[t].layout = CPU_LAYOUT_FILE;
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        cpu_node node;
        const cpu_variant *variant;
        if (cpu_node_parse(device, part, i, &node, NULL)) continue;
        if (!cpu_node_choose(&node, proposal->nodes[i].variant, &variant, NULL))
            cpu_layout_vote(&node, variant, &part->nodes[i], proposal);
    }
    for (uint32_t t = 0; t < part->n_tensors; t++) {
        const pco_tensor *x = &part->tensors[t];
        pco_tensor_proposal *out = &proposal->tensors[t];
        if (x->kind != PCO_KIND_CONSTANT) {
            out->layout = CPU_LAYOUT_FILE;
        } else if (out->layout == CPU_LAYOUT_PANELS) {
            out->bytes = cpu_panels_bytes(device->kernels, x->shape[x->rank - 2], x->shape[x->rank - 1]);
            out->alignment = 64;
        } else { /* no kernel needs more than the alignment of elements: weights can be used where a file has them */
            const uint32_t size = x->dtype < PCO_DTYPE_COUNT ? cpu_size(x->dtype) : 0;
            out->layout = CPU_LAYOUT_FILE;
            out->alignment = size ? size : 2;
        }
    }
}

void cpu_layout_apply(cpu_node *node, const pco_node *from, const pco_proposal *proposal)
{
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (from->inputs[i] != PCO_NONE) node->in[i].layout = proposal->tensors[from->inputs[i]].layout;
}

/* ---- converting ---- */

typedef struct cpu_panels {
    void (*load)(void *y, const void *x, int64_t n); /* widens the file's elements */
    const unsigned char *from;
    float *to;
    int64_t k, n, wide, size; /* size of an element of the file, in bytes */
} cpu_panels;

static void cpu_panels_slice(void *argument, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_panels *task = argument;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t columns = cpu_min(task->wide, task->n - panel * task->wide);
        float *to = task->to + panel * task->wide * task->k;
        const unsigned char *from = task->from + panel * task->wide * task->size;
        for (int64_t k = 0; k < task->k; k++, to += task->wide, from += task->n * task->size) {
            task->load(to, from, columns);
            memset(to + columns, 0, (size_t)(task->wide - columns) * sizeof *to);
        }
    }
}

pco_status cpu_layout_convert(pco_device *device, const pco_tensor *tensor, uint32_t layout, const void *from, void *to,
                              uint64_t bytes, pco_error *err)
{
    if (layout != CPU_LAYOUT_PANELS || !cpu_panels_take(tensor->dtype) || tensor->rank < 2)
        return cpu_fail(err, PCO_ERROR_INVALID, "%.200s: there is no layout %u for it", tensor->name, layout);
    cpu_panels task = {.load = device->kernels->load[tensor->dtype],
                       .from = from,
                       .to = to,
                       .k = tensor->shape[tensor->rank - 2],
                       .n = tensor->shape[tensor->rank - 1],
                       .wide = device->kernels->tile_columns,
                       .size = cpu_size(tensor->dtype)};
    if (bytes != cpu_panels_bytes(device->kernels, task.k, task.n))
        return cpu_fail(err, PCO_ERROR_INVALID, "%.200s: panels of %llu bytes, where they need %llu", tensor->name,
                        (unsigned long long)bytes,
                        (unsigned long long)cpu_panels_bytes(device->kernels, task.k, task.n));
    device->host->parallel_for(device->host->user, (task.n + task.wide - 1) / task.wide, 1, cpu_panels_slice, &task);
    return PCO_OK;
}
