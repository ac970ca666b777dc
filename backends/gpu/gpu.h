/* What the Vulkan and the OpenCL plugin share: from a part of a graph to a list of kernel dispatches.
 *
 * gpu/ knows the operations, the kernels and what a device of either API can differ in (pco_gpu_limits, is_opencl among
 * it), and calls no API. vulkan/ and opencl/ call theirs and know no operation. A plugin embeds pco_gpu_device as the
 * first member of its pco_device, fills limits and driver at open, and puts pco_gpu_program_api into its pco_plugin
 * table: nothing of a program passes through it but what pco_gpu_driver asks for. */
#ifndef PCO_GPU_H
#define PCO_GPU_H

#include "portico/plugin.h"

enum { PCO_GPU_MAX_BINDINGS = 8, PCO_GPU_MAX_SPECS = 24, PCO_GPU_MAX_PARAMS = 32, PCO_GPU_NO_BINDING = 255 };

/* What the kernels promise of exp, log, sin, cos, tanh and erf, in units in the last place (sin and cos: of
 * 1): shaders/functions.inc measures below 2 with + - * rounded to nearest and divisions of 2.5; the rest is
 * room for other rounding. For pco_contract.function_ulp. */
#define PCO_GPU_FUNCTION_ULP 4.0f

/* Mesa's llvmpipe, as lavapipe and as rusticl, goes round loops so often at most (LP_MAX_TGSI_LOOP_ITERATIONS in its
 * sources, one counter for a function). Seen in 22.3; in 25.0 it is gone. */
static inline uint32_t pco_gpu_llvmpipe_rounds(uint32_t mesa) { return mesa < 25 ? 65535 : 0; }

/* What a kernel needs beyond the baseline (Vulkan 1.1, OpenCL 1.2 without optional features). */
enum {
    PCO_GPU_NEEDS_SUBGROUPS = 1u << 0, /* arithmetic subgroup operations, of any width */
    PCO_GPU_NEEDS_STORAGE_16 = 1u << 1,
    PCO_GPU_NEEDS_F16 = 1u << 2,
    PCO_GPU_NEEDS_INTEGER_DOT = 1u << 3,
    PCO_GPU_NEEDS_COOPERATIVE_MATRIX = 1u << 4, /* pco_gpu_limits.matrix, subgroups of a required width, all full */
    PCO_GPU_NEEDS_VECTOR_16 = 1u << 5,          /* registers for vectors of 16 floats: CPUs, OpenCL only */
    PCO_GPU_NEEDS_MIXED_FLOAT_DOT = 1u << 6,    /* products of two pairs of f16, added to an f32 */
    /* Functions over elements, rows and columns of cooperative matrices, whose sums can be multiplied as f16. */
    PCO_GPU_NEEDS_COOPERATIVE_MATRIX2 = 1u << 7,
};

/* A .kern file of shaders/, compiled with a set of defines. The numbers of rows are the
 * same in both plugins; the code is not. */
typedef struct pco_gpu_kernel {
    const char *name;    /* "unary", "matmul_tiled_8x4" ... */
    const char *file;    /* "unary.kern" */
    const char *defines; /* "-DTM=8 -DTN=4" or "" */
    uint32_t n_bindings;
    uint32_t writable; /* a bit for each binding that it declares for writing */
    uint32_t n_specs;  /* with the workgroup size, which is 0, 1, 2 */
    uint32_t n_params;
    uint32_t needs;                         /* PCO_GPU_NEEDS_* */
    uint64_t hash;                          /* of dialect, file and defines */
    uint32_t interface;                     /* GPU_INTERFACE_*: what its constants, parameters and buffers are called */
    uint8_t bindings[PCO_GPU_MAX_BINDINGS]; /* of the interface's buffers, or PCO_GPU_NO_BINDING */
} pco_gpu_kernel;

extern const pco_gpu_kernel pco_gpu_kernels[];
extern const uint32_t pco_gpu_n_kernels;

/* The SPIR-V of kernel i; NULL data where this build has none, and on OpenCL, whose drivers compile the source. */
typedef struct pco_gpu_code {
    const void *data;
    size_t bytes;
} pco_gpu_code;
extern const pco_gpu_code pco_gpu_codes[];

/* The source of kernel i, GLSL or OpenCL C, as pieces to be joined, which kernels share: at most so many, and NULL data
 * behind them. NULL when this build has no kernel i. */
enum { PCO_GPU_MOST_PIECES = 32 };
extern const pco_gpu_code *const pco_gpu_sources[];

/* What kernels that are made at run time begin with: the dialect, numbers.inc and functions.inc, in the plugin's
 * language. */
extern const pco_gpu_code pco_gpu_prelude;

/* A kernel that was made at run time, of an operation of somebody's own. Their numbers follow those of the table. */
enum { PCO_GPU_MOST_MADE = 256 }; /* of a device: an operation in some combination of types each */
typedef struct pco_gpu_made {
    pco_gpu_kernel row;
    char name[48];
    uint64_t key;           /* of what it was made from */
    pco_gpu_code source;    /* text, allocated */
    pco_gpu_code code;      /* of row: SPIR-V, allocated; empty where drivers compile the source */
    pco_gpu_code pieces[2]; /* the source as a list that ends */
    pco_status status;      /* why there is no code, or OK */
    char why[512];
} pco_gpu_made;

/* Tiles of any size; medium ones, where the compiler spills 64 sums of an invocation; small ones, where it has 64
 * registers or so, or few run at once with more; the smallest, where the compiler spills small ones. */
enum { PCO_GPU_TILES_ANY, PCO_GPU_TILES_MEDIUM, PCO_GPU_TILES_SMALL, PCO_GPU_TILES_SMALLEST, PCO_GPU_TILES };

typedef struct pco_gpu_limits {
    uint32_t type;         /* pco_device_type: the class, for defaults */
    uint32_t needs_met;    /* PCO_GPU_NEEDS_* that this device and this build can serve */
    uint32_t max_bindings; /* storage buffers per kernel, at least 4 */
    uint64_t max_binding;  /* bytes visible through one binding */
    uint64_t max_allocation;
    uint32_t offset_alignment; /* of a binding's offset, bytes, a power of two, at least 4 */
    uint32_t max_workgroup;    /* invocations */
    uint32_t max_local[3];     /* workgroup size per dimension */
    uint32_t max_groups[3];
    uint32_t shared_memory; /* bytes */
    uint32_t subgroup_min, subgroup_max;
    /* Rows, columns and terms of the matrices that a subgroup of `matrix_width` multiplies, f16 by f16 added to f32;
     * where needs_met has COOPERATIVE_MATRIX. Each is 8, 16 or 32. */
    uint32_t matrix[3], matrix_width;
    uint32_t subgroups_settable; /* 0, or how many subgroups a workgroup may have where their width is required */
    uint32_t is_opencl;          /* 1: OpenCL */
    uint32_t tiles;              /* PCO_GPU_TILES_*: those that an invocation's registers hold */
    uint32_t small_kernels;      /* 1: the driver's compiler takes minutes over large unrolled tiles: do without */
    /* 0, or how often an invocation may go round loops, all of them counted together, before the driver leaves every
     * loop without a word: pco_gpu_llvmpipe_rounds. */
    uint32_t max_rounds;
    pco_contract contract;
} pco_gpu_limits;

/* A window of a buffer of the plan. offset is a multiple of offset_alignment. */
typedef struct pco_gpu_binding {
    uint32_t buffer; /* index into pco_plan.buffers */
    uint32_t write;  /* 1: written (and perhaps read) */
    uint64_t offset, bytes;
} pco_gpu_binding;

typedef struct pco_gpu_dispatch {
    uint32_t kernel;
    uint32_t node; /* of the part, for timings and messages */
    uint32_t n_specs, n_bindings, n_params;
    uint32_t width;                   /* of subgroups, required; 0: the driver's own */
    uint32_t barrier_before;          /* 1: must see the writes of all earlier dispatches of the program */
    int32_t specs[PCO_GPU_MAX_SPECS]; /* 0..2: workgroup size */
    pco_gpu_binding bindings[PCO_GPU_MAX_BINDINGS];
    uint32_t params[PCO_GPU_MAX_PARAMS];
    uint32_t groups[3];
} pco_gpu_dispatch;

typedef struct pco_gpu_device pco_gpu_device;
typedef struct pco_gpu_recording pco_gpu_recording; /* defined by the API side */

/* What the API side does for gpu/. */
typedef struct pco_gpu_driver {
    /* Compiles (or finds in memory or in the cache) every pipeline of the list, then records it, in segments
     * of at most `per_segment` dispatches. `list` is not kept. On the way to a first run a pipeline that does
     * not compile is INTERNAL, with the driver's words. */
    pco_status (*record)(pco_gpu_device *device, const pco_plan *plan, const pco_gpu_dispatch *list, uint32_t count,
                         uint32_t per_segment, pco_gpu_recording **recording, pco_error *err);
    void (*discard)(pco_gpu_device *device, pco_gpu_recording *recording);
    uint32_t (*segments)(const pco_gpu_recording *recording);
    /* The driver's part of a description: api, entry, options, source, binary, subgroups, machine code. */
    pco_status (*describe)(pco_gpu_device *device, const pco_gpu_dispatch *dispatch, pco_dispatch_info *info,
                           pco_error *err);
    /* Compiles text of the plugin's language; *code is allocated by the host and the caller's. UNSUPPORTED and why
     * where that cannot be done here; INVALID with the compiler's first line. NULL: text is what the API takes. */
    pco_status (*compile)(pco_gpu_device *device, const char *name, const pco_gpu_code *source, pco_gpu_code *code,
                          pco_error *err);
    /* As pco_program_api.timings, of a recording. */
    uint32_t (*timings)(pco_gpu_device *device, pco_gpu_recording *recording, pco_timing *out, uint32_t capacity);
} pco_gpu_driver;

/* Timings of launches, which stand in the order of their nodes, become those of nodes: adds one to those that are
 * known. `n`: their number, of which out has the first `capacity`; `node`: the last one's. */
typedef struct pco_gpu_timings {
    pco_timing *out;
    uint32_t capacity, n, node;
} pco_gpu_timings;
void pco_gpu_add_timing(pco_gpu_timings *timings, uint32_t node, uint64_t nanoseconds);

/* A constant of a variant (gpu_variant, lower.h) that has another value than its initial one. */
enum { PCO_GPU_MOST_SETTINGS = 64 };
typedef struct pco_gpu_setting {
    const struct gpu_constant *constant;
    uint32_t value;
} pco_gpu_setting;

struct pco_gpu_device {
    const pco_host *host;
    const pco_gpu_driver *driver;
    pco_gpu_limits limits;
    char name[256];
    uint32_t profile; /* timings are taken */
    uint32_t inspect; /* what the compiler says of kernels is kept */
    uint32_t n_made;
    pco_gpu_made *made[PCO_GPU_MOST_MADE];
    uint32_t n_settings;
    pco_gpu_setting settings[PCO_GPU_MOST_SETTINGS]; /* pco_program_api.tune */
};

/* Row, code and source of a kernel, of the table or made; a row is NULL where there is no kernel of that number. */
const pco_gpu_kernel *pco_gpu_row(const pco_gpu_device *device, uint32_t kernel);
const pco_gpu_code *pco_gpu_code_of(const pco_gpu_device *device, uint32_t kernel);
const pco_gpu_code *pco_gpu_source_of(const pco_gpu_device *device, uint32_t kernel);
/* The source in one piece, ended by a 0 that *bytes does not count; the caller releases it. NULL: no memory. */
char *pco_gpu_source_text(const pco_gpu_device *device, uint32_t kernel, size_t *bytes);

/* The number of the made kernel with that key, or PCO_NONE. */
uint32_t pco_gpu_find_made(const pco_gpu_device *device, uint64_t key);
/* Adds one. Its source, allocated by the host, is the device's from here on; where it does not compile, its status says
 * why. Errors: OUT_OF_HOST_MEMORY; UNSUPPORTED, as there are too many. */
pco_status pco_gpu_make(pco_gpu_device *device, const char *name, uint64_t key, const pco_gpu_kernel *row,
                        pco_gpu_code source, uint32_t *kernel, pco_error *err);
/* When the device is closed. */
void pco_gpu_forget_made(pco_gpu_device *device);

/* A prepared program: gpu/ owns it, the API side reads `recording` when it submits. */
struct pco_program {
    pco_gpu_recording *recording;
    uint32_t n_dispatches;
    pco_gpu_dispatch *dispatches; /* as recorded, for describe */
};

extern const pco_program_api pco_gpu_program_api;

/* pco_program_api.tunables and tune (tunables.c). */
uint32_t pco_gpu_tunables(pco_device *device, uint32_t op, const char *variant, pco_tunable *tunables,
                          uint32_t capacity);
pco_status pco_gpu_tune(pco_device *device, uint32_t op, const char *variant, const char *tunable, uint32_t value,
                        pco_error *err);

/* Writes to `out`, for people, what a device of these features (PCO_FEATURE_*) has and kernels may not need (`met`,
 * PCO_GPU_NEEDS_*), separated by ", "; "" for nothing. */
void pco_gpu_not_in_build(uint32_t features, uint32_t met, char *out, size_t room);

/* Fills info->edges: the workgroups, tiles and subgroup widths of the kernels on a device with these limits. */
void pco_gpu_describe_edges(const pco_gpu_limits *limits, pco_device_info *info);

#endif
