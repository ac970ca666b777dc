#include "graph/fusion.h"

#include "base/dtype.h"
#include "base/error.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- the patterns ---- */

enum {
    MATMUL_B = 1,
    MATMUL_BIAS = 2,
    MATMUL_C = 3
}; /* operands of matmul, which computes activation(a b + bias) + c */

#define ATTR(op, attr, number) \
    { \
        .given = 1, .offset = offsetof(pco_##op##_attrs, attr), .value = (number) \
    }

#define MATMUL_ACTIVATION(reader_name, reader_op, number) \
    .name = (reader_name), .op = PCO_OP_MATMUL, .absent = 1u << MATMUL_C, .unless = ATTR(matmul, activation, 0), \
    .reader = (reader_op), .operand = PCO_NONE, .sets = ATTR(matmul, activation, number)

static const pco_fusion FUSIONS[] = {
    {.name = "matmul, bias",
     .op = PCO_OP_MATMUL,
     .absent = 1u << MATMUL_BIAS | 1u << MATMUL_C,
     .unless = ATTR(matmul, activation, 0),
     .reader = PCO_OP_ADD,
     .other = PCO_FUSION_ROW,
     .operand = MATMUL_BIAS},
    {.name = "matmul, residual",
     .op = PCO_OP_MATMUL,
     .absent = 1u << MATMUL_C,
     .reader = PCO_OP_ADD,
     .other = PCO_FUSION_TENSOR,
     .operand = MATMUL_C},
    {MATMUL_ACTIVATION("matmul, relu", PCO_OP_RELU, 1)},
    {MATMUL_ACTIVATION("matmul, gelu", PCO_OP_GELU, 2), .where = ATTR(gelu, approximate, 0)},
    {MATMUL_ACTIVATION("matmul, gelu (tanh)", PCO_OP_GELU, 3), .where = ATTR(gelu, approximate, 1)},
    {MATMUL_ACTIVATION("matmul, silu", PCO_OP_SILU, 4)},
};
enum { N_FUSIONS = sizeof FUSIONS / sizeof *FUSIONS };

static const pco_join JOINS[] = {
    {.name = "gate and up",
     .op = PCO_OP_MATMUL,
     .behind = 1u << MATMUL_B | 1u << MATMUL_BIAS,
     .absent = 1u << MATMUL_C,
     .where = ATTR(matmul, transpose_b, 1),
     .readers = PCO_JOIN_PAIR,
     .reader = PCO_OP_SWIGLU},
    {.name = "q, k and v",
     .op = PCO_OP_MATMUL,
     .behind = 1u << MATMUL_B | 1u << MATMUL_BIAS,
     .absent = 1u << MATMUL_C,
     .where = ATTR(matmul, transpose_b, 1),
     .readers = PCO_JOIN_ANY},
};
enum { N_JOINS = sizeof JOINS / sizeof *JOINS };

enum { NORM_WEIGHT = 3 }; /* operands of norm_matmul: x, b and bias as of matmul, then this and the norm's bias */
_Static_assert(NORM_WEIGHT > (int)MATMUL_BIAS, "operands that a matmul keeps come first");

#define COPY(from_op, from_attr, to_op, to_attr) \
    { \
        .from = offsetof(pco_##from_op##_attrs, from_attr), .to = offsetof(pco_##to_op##_attrs, to_attr) \
    }

#define INTAKE_MATMUL \
    .reader = PCO_OP_MATMUL, .absent = 1u << MATMUL_C, .matrices = 1u << MATMUL_B, \
    .where = {ATTR(matmul, transpose_a, 0), ATTR(matmul, transpose_b, 1)}, .becomes = PCO_OP_NORM_MATMUL, \
    .operand = NORM_WEIGHT, .reads = COPY(matmul, activation, norm_matmul, activation)

static const pco_intake INTAKES[] = {
    {.name = "rms_norm in front of matmul",
     .op = PCO_OP_RMS_NORM,
     .always = {ATTR(rms_norm, stats, 0)},
     .sets = ATTR(norm_matmul, norm, 0),
     .gone = COPY(rms_norm, eps, norm_matmul, eps),
     INTAKE_MATMUL},
    {.name = "layer_norm in front of matmul",
     .op = PCO_OP_LAYER_NORM,
     .always = {ATTR(layer_norm, stats, 0), ATTR(layer_norm, form, 0), ATTR(layer_norm, correction, 0)},
     .sets = ATTR(norm_matmul, norm, 1),
     .gone = COPY(layer_norm, eps, norm_matmul, eps),
     INTAKE_MATMUL},
};
enum { N_INTAKES = sizeof INTAKES / sizeof *INTAKES };

const pco_fusion *pco_fusion_table(uint32_t *count)
{
    *count = N_FUSIONS;
    return FUSIONS;
}

const pco_intake *pco_intake_table(uint32_t *count)
{
    *count = N_INTAKES;
    return INTAKES;
}

const pco_join *pco_join_table(uint32_t *count)
{
    *count = N_JOINS;
    return JOINS;
}

/* Is there a pattern in which a node of this op takes in its reader? */
static int fusion_keeps(uint32_t op)
{
    for (uint32_t i = 0; i < N_FUSIONS; i++)
        if ((uint32_t)FUSIONS[i].op == op) return 1;
    return 0;
}

/* ---- matching ---- */

typedef struct fusion_search {
    const pco_graph *graph;
    const uint32_t *readers;
    const unsigned char *live, *apart;
    pco_fusions *found;
    uint32_t *owner; /* tensor -> node that now makes it, if that may still take a reader in, or PCO_NONE */
} fusion_search;

static int fusion_has(const void *attrs, pco_fusion_attr attr)
{
    int64_t value;
    if (!attr.given) return 1;
    memcpy(&value, (const char *)attrs + attr.offset, sizeof value);
    return value == attr.value;
}

static int fusion_same(const pco_tensor *a, const pco_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof(int64_t)) == 0;
}

/* Is `other`, a tensor or PCO_NONE, what the row wants beside the result y? */
static int fusion_takes(const fusion_search *search, const pco_fusion *row, uint32_t y, uint32_t other)
{
    const pco_tensor *tensors = search->graph->tensors, *result = &tensors[y];
    if (row->other == PCO_FUSION_NOTHING) return other == PCO_NONE;
    if (other == PCO_NONE) return 0;
    const pco_tensor *x = &tensors[other];
    if (row->other == PCO_FUSION_TENSOR) return fusion_same(x, result);
    return x->rank == 1 && result->rank > 1 && x->shape[0] == result->shape[result->rank - 1];
}

static int fusion_matches(const fusion_search *search, const pco_fusion *row, const pco_node *node,
                          const pco_node *reader, uint32_t y, uint32_t other)
{
    if ((uint32_t)row->op != node->op || (uint32_t)row->reader != reader->op) return 0;
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++)
        if (row->absent >> i & 1 && node->inputs[i] != PCO_NONE) return 0;
    return fusion_has(node->attrs, row->unless) && fusion_has(reader->attrs, row->where) &&
           fusion_takes(search, row, y, other);
}

/* Can the reader of y be taken into the node that makes it? If so it is. */
static int fusion_take(fusion_search *search, uint32_t owner, const pco_node *reader, uint32_t y)
{
    const pco_tensor *tensors = search->graph->tensors, *out = &tensors[reader->outputs[0]];
    pco_node *node = &search->found->nodes[owner];
    if (out->dtype != PCO_F32 || !fusion_same(out, &tensors[y]) || reader->n_inputs > 2) return 0;
    const uint32_t other = reader->n_inputs < 2     ? PCO_NONE
                           : reader->inputs[0] == y ? reader->inputs[1]
                                                    : reader->inputs[0];
    for (uint32_t i = 0; i < N_FUSIONS; i++) {
        const pco_fusion *row = &FUSIONS[i];
        if (!fusion_matches(search, row, node, reader, y, other)) continue;
        if (row->operand != PCO_NONE) {
            node->inputs[row->operand] = other;
            if (node->n_inputs <= row->operand) node->n_inputs = row->operand + 1;
        }
        if (row->sets.given) memcpy((char *)node->attrs + row->sets.offset, &row->sets.value, sizeof row->sets.value);
        return 1;
    }
    return 0;
}

/* A node that reads what `writer` writes in place must stay in front of it. */
static void fusion_stay(fusion_search *search, const pco_node *writer)
{
    const pco_graph *graph = search->graph;
    for (uint32_t k = 0; k < writer->n_outputs; k++) {
        if (pco_op_written(pco_node_op(writer), k) == PCO_NONE) continue;
        uint32_t root = pco_graph_root(graph, writer->outputs[k]);
        for (uint32_t t = 0; t < graph->n_tensors; t++) {
            const pco_node *node = search->owner[t] == PCO_NONE ? NULL : &search->found->nodes[search->owner[t]];
            for (uint32_t i = 0; node && i < node->n_inputs; i++)
                if (node->inputs[i] != PCO_NONE && pco_graph_root(graph, node->inputs[i]) == root)
                    search->owner[t] = PCO_NONE;
        }
    }
}

/* A node that has to stay as it is, or of which a variant was asked for. */
static int fusion_is_fixed(const fusion_search *search, uint32_t i)
{
    return (search->apart && search->apart[i]) || search->graph->nodes[i].variant != PCO_NONE;
}

/* Node i may take in what reads its result. */
static int fusion_begin(fusion_search *search, uint32_t i)
{
    const pco_node *node = &search->graph->nodes[i];
    if (fusion_is_fixed(search, i) || !fusion_keeps(node->op)) return 1;
    void *attrs = pco_arena_copy(&search->found->arena, node->attrs, node->attrs_size);
    if (!attrs) return 0;
    search->found->nodes[i] = *node;
    search->found->nodes[i].attrs = attrs;
    search->found->into[i] = i;
    search->owner[node->outputs[0]] = i;
    return 1;
}

/* Takes node i into the node that makes one of its operands, if nothing else reads that, and it itself only once. */
static int fusion_end(fusion_search *search, uint32_t i)
{
    const pco_graph *graph = search->graph;
    const pco_node *reader = &graph->nodes[i];
    for (uint32_t k = 0; k < reader->n_inputs; k++) {
        const uint32_t y = reader->inputs[k], owner = y == PCO_NONE ? PCO_NONE : search->owner[y];
        if (owner == PCO_NONE || search->readers[y] != 1) continue;
        if (!fusion_take(search, owner, reader, y)) continue;
        search->found->moved[graph->producers[y]] = 1; /* where it would have been emitted so far */
        search->found->into[i] = owner;
        search->owner[reader->outputs[0]] = owner;
        return 1;
    }
    return 0;
}

/* ---- joining ---- */

/* Is the constant `second` a continuation of `first`, in memory and in its first dimension? Only constants have data.
 */
static int fusion_is_behind(const pco_graph *graph, uint32_t first, uint32_t second)
{
    if (first == PCO_NONE || second == PCO_NONE) return first == second;
    const pco_tensor *a = &graph->tensors[first], *b = &graph->tensors[second];
    return a->data && a->bytes && b->bytes && (const char *)a->data + a->bytes == b->data && a->dtype == b->dtype &&
           a->rank == b->rank && a->rank > 0 && a->rank <= 2 &&
           memcmp(a->shape + 1, b->shape + 1, (a->rank - 1) * sizeof(int64_t)) == 0;
}

static int fusion_joins(const fusion_search *search, const pco_join *row, uint32_t first, uint32_t second)
{
    const pco_graph *graph = search->graph;
    const pco_node *a = &graph->nodes[first], *b = &graph->nodes[second];
    if ((uint32_t)row->op != a->op || (uint32_t)row->op != b->op) return 0;
    if (fusion_is_fixed(search, first) || fusion_is_fixed(search, second)) return 0;
    if (memcmp(a->attrs, b->attrs, a->attrs_size) != 0) return 0;
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) {
        if (row->absent >> i & 1 && a->inputs[i] != PCO_NONE) return 0;
        if (row->behind >> i & 1 ? !fusion_is_behind(graph, a->inputs[i], b->inputs[i]) : a->inputs[i] != b->inputs[i])
            return 0;
        /* one of the two changes its place in the list: what it reads must not be written in between */
        if (a->inputs[i] != PCO_NONE && graph->tensors[pco_graph_root(graph, a->inputs[i])].kind == PCO_KIND_STATE)
            return 0;
    }
    return fusion_has(a->attrs, row->where);
}

/* May the row make this node one with others? It must be needed, have a single row and constants of types without
 * blocks, neither be taken in by another nor have taken one in, and the host must not read it. */
static int fusion_may_join(const fusion_search *search, const pco_join *row, uint32_t i)
{
    const pco_graph *graph = search->graph;
    const pco_fusions *found = search->found;
    if ((uint32_t)row->op != graph->nodes[i].op || !search->live[i]) return 0;
    const pco_tensor *y = &graph->tensors[graph->nodes[i].outputs[0]];
    if (y->kind != PCO_KIND_TRANSIENT || y->rank == 0 || pco_tensor_elements(y) != y->shape[y->rank - 1]) return 0;
    for (uint32_t k = 0; k < PCO_MAX_INPUTS; k++) {
        const uint32_t t = graph->nodes[i].inputs[k];
        if (!(row->behind >> k & 1) || t == PCO_NONE) continue;
        if (!graph->tensors[t].data || pco_dtype_block(graph->tensors[t].dtype) > 1) return 0;
    }
    return !found->moved[i] && found->joined[i] == PCO_NONE && (found->into[i] == PCO_NONE || found->into[i] == i);
}

/* The node whose constants lie behind those of node i, or PCO_NONE. */
static uint32_t fusion_next(const fusion_search *search, const pco_join *row, uint32_t i)
{
    for (uint32_t k = 0; k < search->graph->n_nodes; k++)
        if (k != i && fusion_may_join(search, row, k) && fusion_joins(search, row, i, k)) return k;
    return PCO_NONE;
}

/* Makes nodes whose constants lie in a row one, and that is emitted where the first of them stands in the list. */
static void fusion_join_row(fusion_search *search, const pco_join *row, uint32_t head)
{
    const pco_graph *graph = search->graph;
    pco_fusions *found = search->found;
    uint32_t place = head, next;
    for (uint32_t i = head; (next = fusion_next(search, row, i)) != PCO_NONE; i = next) {
        found->joined[i] = next;
        found->moved[next] = 1;
        if (next < place) place = next;
    }
    if (found->joined[head] == PCO_NONE) return;
    found->moved[head] = 1;
    found->moved[place] = 0;
    found->nodes[head] = graph->nodes[head];
    found->split[head] = 1;
    found->into[place] = head;
}

/* Makes the nodes that a reader has as operands one, if they match. The one that comes first is emitted. */
static void fusion_join_pair(fusion_search *search, uint32_t i)
{
    const pco_graph *graph = search->graph;
    const pco_node *reader = &graph->nodes[i];
    if (reader->n_inputs != 2 || fusion_is_fixed(search, i)) return;
    const uint32_t gate = graph->producers[reader->inputs[0]], up = graph->producers[reader->inputs[1]];
    if (gate == PCO_NONE || up == PCO_NONE || gate == up) return;
    if (search->readers[reader->inputs[0]] != 1 || search->readers[reader->inputs[1]] != 1) return;
    for (uint32_t k = 0; k < N_JOINS; k++) {
        pco_fusions *found = search->found;
        if (JOINS[k].readers != PCO_JOIN_PAIR || (uint32_t)JOINS[k].reader != reader->op ||
            !fusion_joins(search, &JOINS[k], gate, up))
            continue;
        const uint32_t place = gate < up ? gate : up;
        found->nodes[gate] = graph->nodes[gate];
        found->joined[gate] = up;
        found->into[place] = gate;
        found->moved[gate < up ? up : gate] = 1;
        found->nodes[i] = *reader;
        found->nodes[i].n_inputs = 1;
        found->nodes[i].inputs[0] = graph->nodes[place].outputs[0];
        found->nodes[i].inputs[1] = PCO_NONE;
        found->into[i] = i;
        return;
    }
}

/* Rows begin with a node whose constants lie behind no other's. */
static void fusion_join_rows(fusion_search *search, const pco_join *row)
{
    const uint32_t n = search->graph->n_nodes;
    for (uint32_t i = 0; i < n; i++) {
        int first = fusion_may_join(search, row, i);
        for (uint32_t k = 0; first && k < n; k++)
            first = k == i || !fusion_may_join(search, row, k) || !fusion_joins(search, row, k, i);
        if (first) fusion_join_row(search, row, i);
    }
}

static void fusion_join(fusion_search *search)
{
    for (uint32_t i = 0; i < search->graph->n_nodes; i++)
        if (search->live[i]) fusion_join_pair(search, i);
    for (uint32_t k = 0; k < N_JOINS; k++)
        if (JOINS[k].readers == PCO_JOIN_ANY) fusion_join_rows(search, &JOINS[k]);
}

/* ---- taking in ---- */

/* May node i go, by this row? */
static int intake_may_go(const fusion_search *search, const pco_intake *row, uint32_t i)
{
    const pco_graph *graph = search->graph;
    const pco_node *node = &graph->nodes[i];
    if ((uint32_t)row->op != node->op || !search->live[i] || fusion_is_fixed(search, i)) return 0;
    const pco_tensor *y = &graph->tensors[node->outputs[0]];
    if (y->kind != PCO_KIND_TRANSIENT || y->dtype != PCO_F32 || pco_tensor_elements(y) != y->shape[y->rank - 1])
        return 0;
    for (uint32_t k = 0; k < node->n_inputs; k++) /* readers stand behind it, where a state may be another */
        if (node->inputs[k] != PCO_NONE &&
            graph->tensors[pco_graph_root(graph, node->inputs[k])].kind == PCO_KIND_STATE)
            return 0;
    for (uint32_t k = 0; k < sizeof row->always / sizeof *row->always; k++)
        if (!fusion_has(node->attrs, row->always[k])) return 0;
    return 1;
}

/* Does what is emitted in the place of node i read the result y of such a node, as the row wants? */
static int intake_reads(const fusion_search *search, const pco_intake *row, uint32_t i, uint32_t y)
{
    const pco_fusions *found = search->found;
    const pco_tensor *tensors = search->graph->tensors;
    if (!search->live[i] || found->moved[i] || found->into[i] == PCO_NONE) return 0;
    const pco_node *node = &found->nodes[found->into[i]];
    if ((uint32_t)row->reader != node->op || node->inputs[0] != y) return 0;
    if (tensors[node->outputs[0]].dtype != PCO_F32) return 0;
    for (uint32_t k = 1; k < PCO_MAX_INPUTS; k++) {
        const uint32_t t = node->inputs[k];
        if (t == y || (row->absent >> k & 1 && t != PCO_NONE)) return 0;
        if (row->matrices >> k & 1 && (t == PCO_NONE || tensors[t].rank != 2 || pco_dtype_block(tensors[t].dtype) > 1))
            return 0;
    }
    for (uint32_t k = 0; k < sizeof row->where / sizeof *row->where; k++)
        if (!fusion_has(node->attrs, row->where[k])) return 0;
    return 1;
}

static void intake_copy(void *to, const void *from, pco_fusion_copy copy)
{
    memcpy((char *)to + copy.to, (const char *)from + copy.from, sizeof(int64_t));
}

/* Makes node `owner`, as fusing left it, one that makes for itself what node i made. */
static int intake_take(fusion_search *search, const pco_intake *row, uint32_t i, uint32_t owner)
{
    const pco_node *gone = &search->graph->nodes[i];
    pco_node *node = &search->found->nodes[owner];
    const pco_op_info *info = pco_op_find(row->becomes);
    unsigned char *attrs = pco_arena_allocate(&search->found->arena, pco_op_attrs_size(info));
    if (!attrs) return 0;
    pco_op_default_attrs(info, attrs);
    memcpy(attrs + row->sets.offset, &row->sets.value, sizeof row->sets.value);
    intake_copy(attrs, gone->attrs, row->gone);
    intake_copy(attrs, node->attrs, row->reads);
    node->op = (uint32_t)row->becomes;
    node->attrs = attrs;
    node->attrs_size = (uint32_t)pco_op_attrs_size(info);
    node->inputs[0] = gone->inputs[0];
    for (uint32_t k = 1; row->operand + k - 1 < PCO_MAX_INPUTS; k++)
        node->inputs[row->operand + k - 1] = k < gone->n_inputs ? gone->inputs[k] : PCO_NONE;
    node->n_inputs = row->operand + gone->n_inputs - 1;
    search->found->taken[owner] = i;
    search->found->moved[i] = 1;
    return 1;
}

static int fusion_intake(fusion_search *search, const pco_intake *row, uint32_t i)
{
    const pco_fusions *found = search->found;
    const uint32_t n = search->graph->n_nodes, y = search->graph->nodes[i].outputs[0];
    uint32_t readers = 0;
    for (uint32_t k = i + 1; k < n; k++)
        for (uint32_t r = intake_reads(search, row, k, y) ? found->into[k] : PCO_NONE; r != PCO_NONE;
             r = found->joined[r])
            readers++;
    if (readers != search->readers[y]) return 1;
    for (uint32_t k = i + 1; k < n; k++)
        if (intake_reads(search, row, k, y) && !intake_take(search, row, i, found->into[k])) return 0;
    return 1;
}

static int fusion_intakes(fusion_search *search)
{
    for (uint32_t i = 0; i < search->graph->n_nodes; i++)
        for (uint32_t k = 0; k < N_INTAKES; k++)
            if (intake_may_go(search, &INTAKES[k], i) && !fusion_intake(search, &INTAKES[k], i)) return 0;
    return 1;
}

pco_status pco_fusions_find(const pco_graph *graph, const unsigned char *live, const uint32_t *readers,
                            const unsigned char *apart, pco_fusions *fusions, pco_error *err)
{
    const uint32_t n = graph->n_nodes + 1;
    *fusions = (pco_fusions){.into = malloc(n * sizeof *fusions->into),
                             .joined = malloc(n * sizeof *fusions->joined),
                             .taken = malloc(n * sizeof *fusions->taken),
                             .split = calloc(n, 1),
                             .moved = calloc(n, 1),
                             .nodes = calloc(n, sizeof *fusions->nodes)};
    fusion_search search = {.graph = graph,
                            .readers = readers,
                            .live = live,
                            .apart = apart,
                            .found = fusions,
                            .owner = malloc((graph->n_tensors + 1) * sizeof *search.owner)};
    int room = fusions->into && fusions->joined && fusions->taken && fusions->split && fusions->moved &&
               fusions->nodes && search.owner;
    for (uint32_t i = 0; room && i < n; i++) fusions->into[i] = fusions->joined[i] = fusions->taken[i] = PCO_NONE;
    for (uint32_t t = 0; room && t < graph->n_tensors; t++) search.owner[t] = PCO_NONE;
    for (uint32_t i = 0; room && i < graph->n_nodes; i++) {
        if (!live[i]) continue;
        if (pco_op_has_effect(pco_node_op(&graph->nodes[i]))) fusion_stay(&search, &graph->nodes[i]);
        if (!fusion_end(&search, i)) room = fusion_begin(&search, i);
    }
    if (room) fusion_join(&search);
    if (room) room = fusion_intakes(&search);
    free(search.owner);
    return room ? PCO_OK : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while fusing a graph");
}

void pco_fusions_release(pco_fusions *fusions)
{
    free(fusions->into);
    free(fusions->joined);
    free(fusions->taken);
    free(fusions->split);
    free(fusions->moved);
    free(fusions->nodes);
    pco_arena_release(&fusions->arena);
}
