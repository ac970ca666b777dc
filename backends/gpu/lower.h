/* Inside gpu/: how a node of the graph becomes kernel dispatches.
 *
 * Every op has a gpu_lowerer. Its `lower` writes dispatches through the helpers below; the same function runs
 * dry (plan NULL, nothing is kept) to answer supports, to find the workspace and to check limits, so a node
 * that was said to be supported can be prepared. Helpers remember the first error in the gpu_lowering: code
 * may go on and return gpu->status at its end.
 *
 * Sizes: a kernel sees windows of tensors, of at most `binding` bytes, and indexes in 32 bits within them.
 * A window begins where the device allows it (offset_alignment); what remains to the tensor's first element
 * is a parameter of the kernel, so tensors need 4-byte alignment only. */
#ifndef PCO_GPU_LOWER_H
#define PCO_GPU_LOWER_H

#include "gpu.h"
#include "kernels.h" /* generated: GPU_KERNEL_unary ..., and what each kernel declares */

/* Layouts of constants: as in the file, or, of quantised ones, the planes of layout.h. */
enum { GPU_LAYOUT_FILE = 0, GPU_LAYOUT_PLANES = 1 };

/* The dispatches of a program, with the exact bytes that each binding touches (for hazards). */
typedef struct gpu_range {
    uint32_t buffer, write;
    uint64_t first, end;
} gpu_range;

typedef struct gpu_list {
    const pco_host *host;
    pco_gpu_dispatch *dispatches;
    gpu_range (*ranges)[PCO_GPU_MAX_BINDINGS]; /* [count][n_bindings] */
    uint32_t count, capacity;
} gpu_list;

enum { GPU_NAMED_SPECS = 1, GPU_NAMED_PARAMS = 2 };

/* The work at hand: one node of a part. */
typedef struct gpu_lowering {
    pco_gpu_device *device;
    const pco_host *host;
    const pco_gpu_limits *limits;
    const pco_part *part;
    const pco_node *node;
    uint32_t node_index;
    uint32_t variant; /* id: index into the lowerer's own table */
    uint32_t width;   /* of subgroups; 0: the driver's own */
    uint64_t binding; /* bytes visible through one binding: the device's, or less if the part says so */
    int other;        /* the variant's form is that of the other kind of device (gpu_set_form) */
    int software;     /* lower as for a GPU API on a processor: the device is one, or, in the other's form, is none */
    const pco_plan *plan;                     /* NULL: a dry run */
    gpu_list *list;                           /* NULL in a dry run */
    uint64_t workspace;                       /* bytes that gpu_workspace has been asked for */
    gpu_range building[PCO_GPU_MAX_BINDINGS]; /* ranges of the dispatch being built */
    uint32_t named;                           /* GPU_NAMED_*: what that dispatch has been given */
    pco_status status;                        /* of the first helper that failed */
    pco_error *err;
} gpu_lowering;

/* A number of a variant on which speed depends and results do not, but for the order in which sums are added: together
 * they are what a tuner has to search. Lowerings cut a workgroup that is too large for the device down to one that is
 * not. Which value is fast is a matter of the device; the initial ones are what is chosen without a tuner. */
enum { GPU_MAX_VALUES = 5, GPU_MAX_CONSTANTS = 4 };
typedef struct gpu_constant {
    const char *name;
    uint32_t initial;
    uint32_t values[GPU_MAX_VALUES]; /* all that are legal, ascending; zeros behind */
    uint32_t medium;                 /* the initial one of devices with medium tiles; 0: the same */
    uint32_t small;                  /* that of devices with small tiles; 0: as with medium ones */
    uint32_t smallest;               /* that of devices with the smallest tiles; 0: as with small ones */
} gpu_constant;

/* Are tiles of 32 sums too large for that device? */
int gpu_smallest_tiles(const pco_gpu_limits *limits);

/* The value on such a device that nobody has set. */
uint32_t gpu_initial(const pco_gpu_limits *limits, const gpu_constant *constant);

/* A way to compute an op. A variant is offered where the device meets `needs` and, if the lowerer has one, its
 * `eligible` agrees; one that needs subgroups also with each width that can be required; one that has forms also as it
 * would be lowered on the other kind of device, so that what a GPU runs can be judged without one. */
typedef struct gpu_variant {
    const char *name;
    uint32_t needs;                            /* PCO_GPU_NEEDS_* */
    int has_forms;                             /* kernels or tiles depend on gpu->software */
    gpu_constant constants[GPU_MAX_CONSTANTS]; /* those in front of one without a name */
} gpu_variant;

/* The value of a variant's constant number i: what the device's settings say, or the device's initial one. */
uint32_t gpu_tuned(const gpu_lowering *gpu, const gpu_variant *variant, uint32_t i);

typedef struct gpu_lowerer {
    const gpu_variant *variants; /* NULL: one, "default" */
    uint32_t n_variants;
    uint32_t in_place; /* bit i: output 0 may lie in input i's memory when type and element count agree */
    int (*eligible)(const gpu_lowering *gpu, uint32_t variant); /* NULL: all are */
    uint32_t (*choose)(const gpu_lowering *gpu);                /* the default's id; NULL: the first eligible */
    /* Says why the node cannot run here (gpu_fail), before the dry run of lower; NULL: the dry run is enough.
     */
    pco_status (*supports)(gpu_lowering *gpu);
    /* Layouts and alignment of tensors; workspace and in_place are filled in for it. NULL: nothing to add. */
    void (*propose)(gpu_lowering *gpu, pco_proposal *proposal);
    pco_status (*lower)(gpu_lowering *gpu);
} gpu_lowerer;

/* The lowerer of each family of operations, which has its name but for those of these families. */
#define gpu_lower_compare                gpu_lower_binary
#define gpu_lower_logical                gpu_lower_binary
#define gpu_lower_logical_not            gpu_lower_unary
#define gpu_lower_clamp                  gpu_lower_unary
#define gpu_lower_cast                   gpu_lower_unary
#define gpu_lower_layer_norm             gpu_lower_norm
#define gpu_lower_rms_norm               gpu_lower_norm
#define gpu_lower_cross_entropy_backward gpu_lower_cross_entropy
#define GPU_LOWERER(NAME, name, family)  extern const gpu_lowerer gpu_lower_##family;
PCO_OPERATIONS(GPU_LOWERER)
#undef GPU_LOWERER
extern const gpu_lowerer gpu_lower_own; /* of all operations that are declared outside of the table */

/* The lowerer of an op and the op's name, or NULL. */
const gpu_lowerer *gpu_find_lowerer(const pco_node *node, const char **name);

/* ---- the node's operands ---- */

/* Tensor index of operand i, PCO_NONE when absent; the tensor, NULL when absent. */
uint32_t gpu_input_index(const gpu_lowering *gpu, uint32_t i);
uint32_t gpu_output_index(const gpu_lowering *gpu, uint32_t i);
const pco_tensor *gpu_input(const gpu_lowering *gpu, uint32_t i);
const pco_tensor *gpu_output(const gpu_lowering *gpu, uint32_t i);
/* Elements of a tensor; bytes of an element (0 for quantised types); elements in a 32-bit word. */
uint64_t gpu_count(const pco_tensor *tensor);
uint32_t gpu_element_bytes(uint32_t dtype);
uint32_t gpu_lanes(uint32_t dtype);
/* The attribute struct, complete: fields that the caller's older struct lacks are zero. `size` is ours. */
const void *gpu_attrs(const gpu_lowering *gpu, void *room, size_t size);
/* Product of shape[first .. end-1]. */
uint64_t gpu_product(const pco_tensor *tensor, uint32_t first, uint32_t end);
/* 1 if both tensors occupy some of the same memory (dry run: the same tensor or alias). */
int gpu_same_memory(const gpu_lowering *gpu, uint32_t a, uint32_t b);
/* 1 if the plan has put element i of a where it has put element k of b, and they are of one type. */
int gpu_same_element(const gpu_lowering *gpu, uint32_t a, uint64_t i, uint32_t b, uint64_t k);

/* Asks for GPU_LAYOUT_PLANES for the tensor if it is a quantised constant (others keep the file's layout,
 * which no kernel reads: refuse them): for lowerer.propose. */
void gpu_want_planes(pco_proposal *proposal, const pco_part *part, uint32_t tensor);

/* ---- errors ---- */

/* Notes status and message (the first one stays) and returns gpu->status. */
pco_status gpu_fail(gpu_lowering *gpu, pco_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- building a dispatch ---- */

/* Empties *d for a kernel with workgroup x, y, z. Then its buffers are bound and its constants and parameters set, all
 * of them by the names that its .kern file declares (shaders/interface.py): for interface I there are GPU_I_buffer,
 * gpu_I_specs and gpu_I_params. */
void gpu_begin(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t kernel, uint32_t x, uint32_t y, uint32_t z);
/* Sets all constants or parameters; what is not named is 0:
 *     gpu_set_specs(gpu, &d, fill, .per = 4);
 *     gpu_set_params(gpu, &d, fill, .words = words, .first = first, .value = word);
 * or, from a struct that was filled step by step, gpu_set_params_from(gpu, &d, fill, &params). */
#define gpu_set_specs(gpu, d, name, ...)  gpu_set_specs_from(gpu, d, name, (&(const gpu_##name##_specs){__VA_ARGS__}))
#define gpu_set_params(gpu, d, name, ...) gpu_set_params_from(gpu, d, name, (&(const gpu_##name##_params){__VA_ARGS__}))
#define gpu_set_specs_from(gpu, d, name, specs) \
    gpu_set_spec_words(gpu, d, GPU_INTERFACE_##name, specs, sizeof(gpu_##name##_specs))
#define gpu_set_params_from(gpu, d, name, params) \
    gpu_set_param_words(gpu, d, GPU_INTERFACE_##name, params, sizeof(gpu_##name##_params))
void gpu_set_spec_words(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t interface, const void *specs, size_t bytes);
void gpu_set_param_words(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t interface, const void *params, size_t bytes);
/* Does the dispatch's kernel have this buffer of its interface? */
int gpu_has_buffer(const pco_gpu_dispatch *d, uint32_t buffer);
/* Binds bytes [first, first + bytes) of a tensor to a buffer, GPU_I_name. Returns what lies between the window's
 * beginning and the tensor's byte `first`, in bytes. Fails if the window exceeds the binding limit. */
uint32_t gpu_bind_read(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t tensor, uint64_t first,
                       uint64_t bytes);
uint32_t gpu_bind_write(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t tensor, uint64_t first,
                        uint64_t bytes);
/* The same in elements: binds elements [first, first + count), returns an offset in elements. */
uint32_t gpu_bind_elements(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t tensor, uint64_t first,
                           uint64_t count, int write);
/* Binds both planes of elements [first, first + count), whole blocks, of a quantised constant. */
typedef struct gpu_planes {
    uint32_t quants_byte;  /* where they begin in the window of quants, */
    uint32_t quants_first; /* in weights, */
    uint32_t scales_at; /* and in the window of scales, in halves, or in words if a block has a multiple of 4 bytes */
    uint32_t scales_first; /* the same, less what the blocks before quants_first would take */
} gpu_planes;
gpu_planes gpu_bind_planes(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t quants, uint32_t scales, uint32_t tensor,
                           uint64_t first, uint64_t count);
/* Binds a slice of the node's workspace. The node's workspace becomes at least first + bytes. */
uint32_t gpu_bind_workspace(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint64_t first, uint64_t bytes,
                            int write);
/* Lets an unused buffer see what another one sees, read only (every binding of a kernel must exist). */
void gpu_bind_again(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t other);
/* Appends the dispatch, with `groups` workgroups in three dimensions (the kernel finds its number with
 * LINEAR_GROUP(); there may be more groups than asked for) or with a grid of its own. 0 groups: nothing. */
pco_status gpu_emit(gpu_lowering *gpu, pco_gpu_dispatch *d, uint64_t groups);
pco_status gpu_emit_grid(gpu_lowering *gpu, pco_gpu_dispatch *d, uint64_t x, uint64_t y, uint64_t z);

/* May an invocation go round loops so often? Rounds of all loops count together, inner ones for each round of the outer
 * one. Lowerers ask with an upper bound for kernels whose loops grow with the operands. */
int gpu_rounds_fit(const gpu_lowering *gpu, uint64_t rounds);
/* The same, as an error. */
pco_status gpu_need_rounds(gpu_lowering *gpu, uint64_t rounds);

/* ---- sizes ---- */

/* A workgroup of one dimension: the largest power of two that is at most `wanted` and what the device can. */
uint32_t gpu_workgroup(const gpu_lowering *gpu, uint32_t wanted);
/* Elements of `bytes` each that fit into one window of any tensor, whatever its offset: a multiple of 1024,
 * or at least of 4, when that is possible. */
uint64_t gpu_window(const gpu_lowering *gpu, uint64_t bytes);

static inline uint64_t gpu_div_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
static inline uint64_t gpu_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t gpu_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* ---- strided views ---- */

/* Dimensions, outermost first, with a stride in elements for each of up to four operands. */
enum { GPU_MAX_VIEWS = 4 };
typedef struct gpu_view {
    uint32_t rank, n; /* n operands */
    uint64_t size[PCO_MAX_RANK];
    int64_t stride[GPU_MAX_VIEWS][PCO_MAX_RANK];
    uint64_t offset[GPU_MAX_VIEWS]; /* element at index 0 */
} gpu_view;

/* Drops dimensions of size 1 and joins neighbours that all operands step through evenly. Rank is at least 1.
 */
void gpu_view_coalesce(gpu_view *view);
/* Row-major strides of shape[rank]. */
void gpu_strides(const int64_t *shape, uint32_t rank, int64_t *stride);
/* Strides of a tensor broadcast (as NumPy does) to rank dimensions. */
void gpu_broadcast_strides(const pco_tensor *tensor, uint32_t rank, const int64_t *shape, int64_t *stride);
/* Elements between the first and the last that operand k touches, both included. */
uint64_t gpu_view_span(const gpu_view *view, uint32_t k);

/* Calls `emit` for parts of the view in which operand k spans at most limit[k] elements, in row-major order
 * of the cuts. Cuts of the innermost dimension are at multiples of 1024 when that is possible. */
typedef pco_status (*gpu_view_fn)(gpu_lowering *gpu, const gpu_view *part, void *context);
pco_status gpu_view_split(gpu_lowering *gpu, const gpu_view *view, const uint64_t *limit, gpu_view_fn emit,
                          void *context);

/* ---- hazards (hazard.c) ---- */

/* Sets barrier_before: on every dispatch that touches bytes which one since the last barrier wrote, or writes
 * bytes which one since then read. Buffers are compared by identity, ranges in whole words. */
pco_status gpu_find_hazards(const pco_plan *plan, gpu_list *list, pco_error *err);

#endif
