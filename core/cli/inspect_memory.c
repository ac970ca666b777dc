/* portico inspect --memory: where the memory of a model goes. */
#include "cli/inspect.h"
#include "cli/model.h"

#include "runtime/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The nodes of one scope ("blk.3"), over all programs. */
typedef struct memory_block {
    char name[96], last[96]; /* the last of those that are alike: "blk.0", "blk.4" */
    uint32_t count;          /* of those that are alike */
    uint64_t parameters, weights;
    uint64_t activations; /* made by its nodes in one run of the program where these are the most */
} memory_block;

typedef struct memory_blocks {
    memory_block *items;
    uint32_t count;
} memory_blocks;

/* ---- blocks ---- */

/* The scope of a node: its name without the last part, "op_17". */
static void memory_scope(const pco_node *node, char name[96])
{
    const char *dot = strrchr(node->name, '.');
    snprintf(name, 96, "%.*s", dot ? (int)(dot - node->name) : 0, node->name);
    if (!*name) snprintf(name, 96, "(no block)");
}

static memory_block *memory_block_of(memory_blocks *blocks, const char *name)
{
    for (uint32_t i = 0; i < blocks->count; i++)
        if (strcmp(blocks->items[i].name, name) == 0) return &blocks->items[i];
    memory_block *grown = realloc(blocks->items, (blocks->count + 1) * sizeof *grown);
    if (!grown) return NULL;
    blocks->items = grown;
    memory_block *block = &grown[blocks->count++];
    *block = (memory_block){.count = 1};
    snprintf(block->name, sizeof block->name, "%s", name);
    snprintf(block->last, sizeof block->last, "%s", name);
    return block;
}

/* Is x the constant `held`, or one of those that it was made of? */
static int memory_is_held(const pco_tensor *held, const pco_tensor *x)
{
    const unsigned char *data = x->data, *begin = held->data;
    if (held->kind != PCO_KIND_CONSTANT) return 0;
    return (data && begin && data >= begin && data + x->bytes <= begin + held->bytes) ||
           strcmp(held->name, x->name) == 0;
}

/* Has a node before (program, node) used a constant? Weights are shared by programs. */
static int memory_used_before(const pco_session *session, uint32_t program, uint32_t node, const pco_tensor *x)
{
    for (uint32_t p = 0; p <= program; p++) {
        const pco_graph *graph = pco_executable_graph(pco_session_executable(session, p));
        uint32_t n = p < program ? graph->n_nodes : node;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < graph->nodes[i].n_inputs; k++) {
                const uint32_t t = graph->nodes[i].inputs[k];
                if (t != PCO_NONE && memory_is_held(&graph->tensors[t], x)) return 1;
            }
    }
    return 0;
}

static int memory_add_node(memory_blocks *blocks, const pco_session *session, uint32_t program, uint32_t i,
                           uint64_t *made)
{
    char name[96];
    const pco_graph *graph = pco_executable_graph(pco_session_executable(session, program));
    const pco_node *node = &graph->nodes[i];
    memory_scope(node, name);
    memory_block *block = memory_block_of(blocks, name);
    if (!block) return 0;
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        const pco_tensor *x = node->inputs[k] == PCO_NONE ? NULL : &graph->tensors[node->inputs[k]];
        if (!x || x->kind != PCO_KIND_CONSTANT || memory_used_before(session, program, i, x)) continue;
        int twice = 0; /* by this very node */
        for (uint32_t other = 0; other < k; other++) twice |= node->inputs[other] == node->inputs[k];
        if (twice) continue;
        block->weights += x->bytes;
        if (x->dtype != PCO_I32 && x->dtype != PCO_BOOL) block->parameters += (uint64_t)pco_tensor_elements(x);
    }
    for (uint32_t k = 0; k < node->n_outputs; k++) {
        const pco_tensor *x = node->outputs[k] == PCO_NONE ? NULL : &graph->tensors[node->outputs[k]];
        if (!x || x->alias != PCO_NONE || x->kind != PCO_KIND_TRANSIENT) continue;
        made[block - blocks->items] += x->bytes;
    }
    return 1;
}

/* "blk.3" and "blk.4": the same name but for a number at the end. */
static int memory_alike(const memory_block *a, const memory_block *b)
{
    const char *x = strrchr(a->last, '.'), *y = strrchr(b->name, '.');
    if (!x || !y || x - a->last != y - b->name || strncmp(a->last, b->name, (size_t)(x - a->last))) return 0;
    if (strspn(x + 1, "0123456789") != strlen(x + 1) || strspn(y + 1, "0123456789") != strlen(y + 1)) return 0;
    return a->parameters == b->parameters && a->weights == b->weights && a->activations == b->activations;
}

/* Blocks in the order in which they run first; neighbours that are alike become one. 0 without memory. */
static int memory_find_blocks(const pco_session *session, memory_blocks *blocks)
{
    const pco_executable *executable;
    *blocks = (memory_blocks){0};
    for (uint32_t p = 0; (executable = pco_session_executable(session, p)); p++) {
        const pco_graph *graph = pco_executable_graph(executable);
        uint64_t *made = calloc(blocks->count + graph->n_nodes + 1, sizeof *made);
        int good = made != NULL;
        for (uint32_t i = 0; good && i < graph->n_nodes; i++) good = memory_add_node(blocks, session, p, i, made);
        for (uint32_t b = 0; good && b < blocks->count; b++)
            if (made[b] > blocks->items[b].activations) blocks->items[b].activations = made[b];
        free(made);
        if (!good) return 0;
    }
    uint32_t kept = 0;
    for (uint32_t b = 0; b < blocks->count; b++) {
        if (kept && memory_alike(&blocks->items[kept - 1], &blocks->items[b])) {
            memcpy(blocks->items[kept - 1].last, blocks->items[b].name, sizeof blocks->items[b].name);
            blocks->items[kept - 1].count++;
        } else {
            blocks->items[kept++] = blocks->items[b];
        }
    }
    blocks->count = kept;
    return 1;
}

/* ---- text ---- */

static void memory_print_total(const pco_memory_total *total)
{
    const struct {
        const char *name, *what;
        uint64_t bytes;
    } rows[] = {{"weights", "and tables, once for all programs", total->weights},
                {"states", "caches", total->states},
                {"arenas", "activations and workspace of all programs", total->arenas},
                {"in and out", "inputs, run values, outputs", total->io},
                {"total", "", total->total}};
    char text[32], has[32];
    printf("\n%-12s %12s %7s\n", total->device, "memory", "share");
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("  %-10s %12s %5.1f %%  %s%s%s\n", rows[i].name, cli_bytes(rows[i].bytes, text),
               total->total ? 100 * (double)rows[i].bytes / (double)total->total : 0, rows[i].what,
               i == 4 ? "the device has " : "",
               i < 4                  ? ""
               : total->device_memory ? cli_bytes(total->device_memory, has)
                                      : "an unknown amount");
}

static void memory_print_programs(const pco_session *session)
{
    const pco_executable *executable;
    const char *const columns[] = {"activations", "workspace", "arena", "at least", "unplanned"};
    printf("\n%-22s %-10s %5s", "program", "device", "nodes");
    for (int i = 0; i < 5; i++) printf(" %11s", columns[i]);
    printf("\n");
    for (uint32_t p = 0; (executable = pco_session_executable(session, p)); p++) {
        pco_memory_use uses[PCO_MEMORY_DEVICES];
        uint32_t n = pco_executable_memory(executable, uses);
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t bytes[] = {uses[i].activations, uses[i].workspace, uses[i].arena, uses[i].lower_bound,
                                      uses[i].unplanned};
            char text[32];
            printf("  %-20s %-10s %5u", i ? "" : pco_executable_name(executable), uses[i].device, uses[i].nodes);
            for (int k = 0; k < 5; k++) printf(" %11s", cli_bytes(bytes[k], text));
            printf("\n");
        }
    }
    printf("  activations, workspace: the most that one node needs; arena: what the plan takes for both,\n"
           "  beside the least that any plan could take, and what it were without a plan\n");
}

static void memory_print_blocks(const memory_blocks *blocks)
{
    char weights[32], activations[32];
    uint64_t parameters = 0;
    printf("\n%-42s %12s %12s %12s\n", "block", "parameters", "weights", "activations");
    for (uint32_t i = 0; i < blocks->count; i++) {
        const memory_block *b = &blocks->items[i];
        char name[224];
        if (b->count > 1)
            snprintf(name, sizeof name, "%s to %s, each", b->name, b->last);
        else
            snprintf(name, sizeof name, "%s", b->name);
        printf("  %-40s %12" PRIu64 " %12s %12s\n", name, b->parameters, cli_bytes(b->weights, weights),
               cli_bytes(b->activations, activations));
        parameters += b->parameters * b->count;
    }
    printf("  %-40s %12" PRIu64 "\n", "all", parameters);
}

/* ---- JSON ---- */

static void memory_json_uint(pco_json_writer *json, const char *key, uint64_t value)
{
    pco_json_key(json, key);
    pco_json_write_uint(json, value);
}

static void memory_json_text(pco_json_writer *json, const char *key, const char *value)
{
    pco_json_key(json, key);
    pco_json_write_string(json, value);
}

static void memory_json_devices(pco_json_writer *json, const pco_session *session)
{
    pco_memory_total totals[PCO_MEMORY_DEVICES];
    uint32_t n = pco_session_totals(session, totals);
    pco_json_key(json, "devices");
    pco_json_begin_array(json);
    for (uint32_t i = 0; i < n; i++) {
        pco_json_begin_object(json);
        memory_json_text(json, "device", totals[i].device);
        memory_json_uint(json, "device_memory", totals[i].device_memory);
        memory_json_uint(json, "weights", totals[i].weights);
        memory_json_uint(json, "states", totals[i].states);
        memory_json_uint(json, "arenas", totals[i].arenas);
        memory_json_uint(json, "io", totals[i].io);
        memory_json_uint(json, "total", totals[i].total);
        pco_json_end_object(json);
    }
    pco_json_end_array(json);
}

static void memory_json_programs(pco_json_writer *json, const pco_session *session)
{
    const pco_executable *executable;
    pco_json_key(json, "programs");
    pco_json_begin_array(json);
    for (uint32_t p = 0; (executable = pco_session_executable(session, p)); p++) {
        pco_memory_use uses[PCO_MEMORY_DEVICES];
        uint32_t n = pco_executable_memory(executable, uses);
        for (uint32_t i = 0; i < n; i++) {
            pco_json_begin_object(json);
            memory_json_text(json, "program", pco_executable_name(executable));
            memory_json_text(json, "device", uses[i].device);
            memory_json_uint(json, "nodes", uses[i].nodes);
            memory_json_uint(json, "weights", uses[i].weights);
            memory_json_uint(json, "states", uses[i].states);
            memory_json_uint(json, "activations", uses[i].activations);
            memory_json_uint(json, "workspace", uses[i].workspace);
            memory_json_uint(json, "arena", uses[i].arena);
            memory_json_uint(json, "arena_lower_bound", uses[i].lower_bound);
            memory_json_uint(json, "unplanned", uses[i].unplanned);
            memory_json_uint(json, "io", uses[i].io);
            pco_json_end_object(json);
        }
    }
    pco_json_end_array(json);
}

static int memory_json(const inspect_file *file, const pco_session *session, const memory_blocks *blocks)
{
    uint64_t peak;
    pco_writer text = {0};
    pco_json_writer json = {.out = &text, .indent = 2};
    pco_json_begin_object(&json);
    memory_json_text(&json, "file", file->path);
    memory_json_uint(&json, "context", (uint64_t)file->context);
    memory_json_uint(&json, "held", pco_session_memory(session, &peak));
    memory_json_uint(&json, "peak", peak);
    memory_json_devices(&json, session);
    memory_json_programs(&json, session);
    pco_json_key(&json, "blocks");
    pco_json_begin_array(&json);
    for (uint32_t i = 0; i < blocks->count; i++) {
        const memory_block *b = &blocks->items[i];
        pco_json_begin_object(&json);
        memory_json_text(&json, "first", b->name);
        memory_json_text(&json, "last", b->last);
        memory_json_uint(&json, "count", b->count);
        memory_json_uint(&json, "parameters", b->parameters);
        memory_json_uint(&json, "weights", b->weights);
        memory_json_uint(&json, "activations", b->activations);
        pco_json_end_object(&json);
    }
    pco_json_end_array(&json);
    pco_json_end_object(&json);
    return cli_print(&text);
}

/* ---- command ---- */

static void memory_print(const inspect_file *file, const pco_session *session, const memory_blocks *blocks)
{
    pco_memory_total totals[PCO_MEMORY_DEVICES];
    uint32_t n = pco_session_totals(session, totals);
    printf("memory of %s on %s (%s), context %" PRId64 "\n", file->path, pco_session_device_id(session),
           pco_session_device(session)->name, file->context);
    for (uint32_t i = 0; i < n; i++) memory_print_total(&totals[i]);
    memory_print_programs(session);
    memory_print_blocks(blocks);
}

int inspect_memory(const inspect_file *file, const inspect_arguments *arguments)
{
    int status = CLI_OK;
    pco_model *model = NULL;
    pco_error err;
    memory_blocks blocks = {0};
    cli_watch_signals();
    pco_context *context = cli_context(arguments->device, &status);
    if (!context) return status;
    if (inspect_open_model(arguments, context, &model, &err)) {
        status = cli_fail(&err);
    } else if (!memory_find_blocks(model->session, &blocks)) {
        cli_error("out of host memory for the blocks of a model");
        status = CLI_FAILED;
    } else if (arguments->json) {
        status = memory_json(file, model->session, &blocks);
    } else {
        memory_print(file, model->session, &blocks);
    }
    free(blocks.items);
    pco_model_close(model);
    pco_context_destroy(context);
    return cli_exit_status(status);
}
