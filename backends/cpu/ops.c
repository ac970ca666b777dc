/* The table of ops (ops.def), and which variant of an op that has several runs. */
#include "attention.h"
#include "matmul.h"
#include "parse.h"

static const cpu_variant cpu_matmul_variants[] = {
    {"gemm", cpu_run_native_gemm, cpu_native_gemm_workspace, NULL},
    {"gemv", cpu_run_native_gemv, cpu_native_gemv_workspace, NULL},
    {"naive", cpu_run_native_matmul_naive, NULL, NULL},
};

/* Up to this many rows, reading b where it lies is faster than packing it. [K,N] is read once per row, [N,K]
 * once per four. */
enum { CPU_GEMV_ROWS = 24, CPU_GEMV_ROWS_BY_COLUMNS = 3 };

const cpu_variant *cpu_matmul_choose(const cpu_node *node)
{
    const cpu_matmul *plan = &node->plan.matmul;
    return &cpu_matmul_variants[plan->m <= (plan->b_by_rows ? CPU_GEMV_ROWS : CPU_GEMV_ROWS_BY_COLUMNS) ? 1 : 0];
}

static bool cpu_without_weights(const cpu_node *node) { return !node->out[1].present; }

static const cpu_variant cpu_attention_variants[] = {
    {"stream", cpu_run_native_attention_stream, cpu_native_attention_stream_workspace, cpu_without_weights},
    {"rows", cpu_run_native_attention_rows, cpu_native_attention_rows_workspace, cpu_without_weights},
    {"whole", cpu_run_native_attention_whole, cpu_native_attention_whole_workspace, NULL},
};

/* Up to this many queries per key head, packing the keys costs more than it saves. */
enum { CPU_ATTENTION_ROWS = 8 };

const cpu_variant *cpu_attention_choose(const cpu_node *node)
{
    const cpu_attention *plan = &node->plan.attention;
    if (node->out[1].present) return &cpu_attention_variants[2];
    bool few = plan->g == 0 || plan->h / plan->g * plan->s <= CPU_ATTENTION_ROWS;
    return &cpu_attention_variants[few ? 1 : 0];
}

/* How native and reference of a row become fields of cpu_op. */
#define CPU_VARIANTS_PLAIN(run) \
    &(const cpu_variant) \
    { \
        "default", cpu_run_##run, NULL, NULL \
    }
#define CPU_VARIANTS_MEMORY(run) \
    &(const cpu_variant) \
    { \
        "default", cpu_run_##run, cpu_##run##_workspace, NULL \
    }
#define CPU_NATIVE_PLAIN(run)  .n_native = 1, .native = CPU_VARIANTS_PLAIN(run)
#define CPU_NATIVE_MEMORY(run) .n_native = 1, .native = CPU_VARIANTS_MEMORY(run)
#define CPU_NATIVE_CHOICE(list) \
    .n_native = sizeof cpu_##list##_variants / sizeof *cpu_##list##_variants, .native = cpu_##list##_variants, \
    .choose = cpu_##list##_choose

static const cpu_op CPU_OPS[PCO_OP_LIMIT] = {
#define CPU_OP(NAME, parse_, in_place_, native_, reference_) \
    [PCO_OP_##NAME] = {.op = PCO_OP_##NAME, \
                       .parse = cpu_parse_##parse_, \
                       .in_place = in_place_, \
                       CPU_NATIVE_##native_, \
                       .reference = CPU_VARIANTS_##reference_},
#include "ops.def"
};

/* An op of plugin.h without a row is no number here. */
enum {
#define CPU_OP(NAME, ...) CPU_ROW_OF_##NAME,
#include "ops.def"
#define CPU_HAS(NAME, name, family) CPU_HAS_##NAME = CPU_ROW_OF_##NAME,
    PCO_OPERATIONS(CPU_HAS)
};

#define CPU_ATTRS(NAME, name) [PCO_OP_##NAME] = sizeof(pco_##name##_attrs),
static const uint32_t CPU_ATTRS_SIZES[PCO_OP_LIMIT] = {PCO_OPERATIONS_WITH_ATTRS(CPU_ATTRS)};

const cpu_op *cpu_op_find(uint32_t op) { return op < PCO_OP_LIMIT && CPU_OPS[op].parse ? &CPU_OPS[op] : NULL; }

uint32_t cpu_attrs_size(uint32_t op) { return op < PCO_OP_LIMIT ? CPU_ATTRS_SIZES[op] : 0; }
