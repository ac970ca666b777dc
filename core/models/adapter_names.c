/* Projections by their two names, that of the model's graph and that of transformers; and the order of their rows. */
#include "models/adapter_internal.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART(name) (int)(offsetof(pco_layer_names, name) / sizeof(const char *))

/* What modules are called in layers, and the layers themselves. */
typedef struct adapter_naming {
    const char *layer;
    const pco_layer_names *names;
} adapter_naming;

static adapter_naming adapter_of_graph(const pco_model_file *file, pco_model_side side)
{
    return (adapter_naming){file->spec.stacks[side].layer, pco_spec_names(&file->spec, side)};
}

const pco_hub *adapter_hub(const pco_model_file *file)
{
    return file->family->hub ? pco_family_of_folder(file->family, &file->spec)->hub : NULL;
}

/* What all names of the family begin with. */
static const char *adapter_prefix(const pco_model_file *file)
{
    const pco_hub *hub = adapter_hub(file);
    return hub && hub->prefix ? hub->prefix : "";
}

/* A GGUF file has names of its own. Of what folders call encoders and encoder-decoders, the spec leaves out the
 * beginning, which is not part of a naming here. */
static adapter_naming adapter_of_hub(const pco_model_file *file, pco_model_side side)
{
    const pco_hub *hub = adapter_hub(file);
    if (!file->gguf || !hub) return adapter_of_graph(file, side);
    return (adapter_naming){hub->stack.layer, &hub->names};
}

/* Is that part of a layer a projection that stands alone? */
static int adapter_adapts(const pco_model_file *file, pco_model_side side, int part)
{
    const pco_model_spec *spec = &file->spec;
    const pco_layer_names *names = pco_spec_names(spec, side);
    const int gated = spec->activation_function == PCO_NN_SWIGLU || spec->activation_function == PCO_NN_GEGLU,
              experts = side == PCO_DECODER && spec->experts > 0;
    if (part == PART(query) || part == PART(key) || part == PART(value)) return !names->fused;
    if (part == PART(gate) || part == PART(up)) return gated && !names->gate_up;
    if (part == PART(down)) return gated;
    if (part == PART(gate_up)) return gated && !experts;
    if (part == PART(fc1) || part == PART(fc2)) return !gated && !experts;
    return part == PART(fused) || part == PART(output) || part == PART(cross_query) || part == PART(cross_key) ||
           part == PART(cross_value) || part == PART(cross_output);
}

enum { ADAPTER_PARTS = sizeof(pco_layer_names) / sizeof(const char *) };

int adapter_is_stack(const pco_model_file *file, const adapter_projection *which)
{
    return which->side == PCO_DECODER && file->spec.experts > 0 &&
           (which->part == PART(gate) || which->part == PART(up) || which->part == PART(down));
}

/* Takes the number of an expert out of a name of transformers; -1: there is none. */
static int64_t adapter_take_expert(const pco_model_file *file, char *name)
{
    const pco_hub *hub = adapter_hub(file);
    size_t begin, end;
    const int64_t expert = hub && hub->experts && file->spec.experts ? pco_hub_expert(hub, name, &begin, &end) : -1;
    if (expert >= 0) memmove(name + begin, name + end, strlen(name + end) + 1);
    return expert;
}

int adapter_expert_module(const pco_model_file *file, const char *stack, int64_t expert, char **module)
{
    const char *before = adapter_hub(file)->experts, *found = strstr(stack, before);
    const int size = found ? (int)(found - stack + (ptrdiff_t)strlen(before)) : 0;
    if (found && asprintf(module, "%.*s%" PRId64 ".%s", size, stack, expert, stack + size) >= 0) return 1;
    *module = NULL;
    return 0;
}

/* What a name has behind the number of a layer of `side`, from the dot on, and that number; NULL: it is of no layer. */
static const char *adapter_in_layer(const pco_model_file *file, pco_model_side side, const adapter_naming *naming,
                                    const char *name, int64_t *layer)
{
    if (!file->spec.layers[side] || !naming->layer) return NULL;
    const size_t star = strcspn(naming->layer, "*");
    if (strncmp(name, naming->layer, star) != 0 || name[star] < '0' || name[star] > '9') return NULL;
    char *end;
    *layer = strtoll(name + star, &end, 10);
    const char *behind = naming->layer[star] ? naming->layer + star + 1 : "";
    if (*layer >= file->spec.layers[side] || strncmp(end, behind, strlen(behind)) != 0) return NULL;
    end += strlen(behind);
    return *end == '.' ? end : NULL;
}

/* A module of transformers without what all names of the family begin with. */
static const char *adapter_bare(const pco_model_file *file, const char *module)
{
    const char *prefix = adapter_prefix(file);
    return strncmp(module, prefix, strlen(prefix)) == 0 ? module + strlen(prefix) : module;
}

int adapter_all_experts(const pco_model_file *file, const char *module, int64_t *layer)
{
    static const char *const parts[] = {".mlp.experts", ".mlp.experts.base_layer", ".block_sparse_moe.experts",
                                        ".block_sparse_moe.experts.base_layer"};
    const adapter_naming naming = adapter_of_hub(file, PCO_DECODER);
    const char *part = adapter_in_layer(file, PCO_DECODER, &naming, adapter_bare(file, module), layer);
    if (!part || !file->spec.experts) return 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(part, parts[i]) == 0) return 1;
    return 0;
}

int adapter_find(const pco_model_file *file, const char *called, int of_hub, adapter_projection *which)
{
    char name[PCO_SPEC_NAME];
    if (snprintf(name, sizeof name, "%s", called) >= (int)sizeof name) return 0;
    const int64_t expert = of_hub ? adapter_take_expert(file, name) : -1;
    for (int side = PCO_ENCODER; side <= PCO_DECODER; side++) {
        const adapter_naming naming =
            of_hub ? adapter_of_hub(file, (pco_model_side)side) : adapter_of_graph(file, (pco_model_side)side);
        const char *const *parts = (const char *const *)naming.names;
        int64_t layer;
        const char *end = adapter_in_layer(file, (pco_model_side)side, &naming, name, &layer);
        for (int part = 0; part < ADAPTER_PARTS && end; part++)
            if (parts[part] && strcmp(end + 1, parts[part]) == 0 && adapter_adapts(file, (pco_model_side)side, part)) {
                *which = (adapter_projection){(pco_model_side)side, layer, part, expert};
                return adapter_is_stack(file, which) == (expert >= 0) || !of_hub;
            }
    }
    return 0;
}

static int adapter_name(const pco_model_file *file, const adapter_projection *which, int of_hub,
                        char name[PCO_SPEC_NAME])
{
    const adapter_naming naming = of_hub ? adapter_of_hub(file, which->side) : adapter_of_graph(file, which->side);
    const char *part = ((const char *const *)naming.names)[which->part];
    const char *prefix = of_hub ? adapter_prefix(file) : "";
    const size_t star = strcspn(naming.layer, "*");
    return part && snprintf(name, PCO_SPEC_NAME, "%s%.*s%" PRId64 "%s.%s", prefix, (int)star, naming.layer,
                            which->layer, naming.layer[star] ? naming.layer + star + 1 : "", part) < PCO_SPEC_NAME;
}

int pco_adapter_module(const pco_model_file *file, const char *projection, char module[PCO_SPEC_NAME])
{
    adapter_projection which;
    return adapter_find(file, projection, 0, &which) && adapter_name(file, &which, 1, module);
}

int adapter_of_module(const pco_model_file *file, const char *module, char projection[PCO_SPEC_NAME],
                      adapter_projection *which)
{
    return adapter_find(file, adapter_bare(file, module), 1, which) && adapter_name(file, which, 0, projection);
}

int pco_adapter_matches(const char *module, const char *target)
{
    const size_t all = strlen(module), size = strlen(target);
    if (size > all || strcmp(module + all - size, target) != 0) return 0;
    return size == all || module[all - size - 1] == '.';
}

const char *adapter_hub_part(const pco_model_file *file, const adapter_projection *which)
{
    return ((const char *const *)adapter_of_hub(file, which->side).names)[which->part];
}

/* Pairs of rows that RoPE turns together: side by side in GGUF, half a head apart in transformers. */
static int adapter_pairs(const pco_model_file *file, const adapter_projection *which)
{
    return adapter_hub(file) && file->gguf && file->spec.rope_interleaved &&
           (which->part == PART(query) || which->part == PART(key));
}

static int adapter_groups(const pco_model_file *file, const adapter_projection *which)
{
    const pco_hub *hub = adapter_hub(file);
    return hub && hub->grouped && which->part == PART(fused);
}

int64_t adapter_moved_rows(const pco_model_file *file, const adapter_projection *which)
{
    const pco_model_spec *spec = &file->spec;
    const int64_t heads = spec->attention_heads[which->side], groups = spec->kv_heads[which->side],
                  head_dim = spec->head_dim[which->side];
    if (adapter_pairs(file, which)) return (which->part == PART(query) ? heads : groups) * head_dim;
    return adapter_groups(file, which) ? (heads + 2 * groups) * head_dim : 0;
}

int64_t adapter_hub_row(const pco_model_file *file, const adapter_projection *which, int64_t row)
{
    const pco_model_spec *spec = &file->spec;
    const int64_t heads = spec->attention_heads[which->side], groups = spec->kv_heads[which->side],
                  head_dim = spec->head_dim[which->side];
    if (adapter_pairs(file, which))
        return pco_hub_paired_row(row, head_dim, spec->rope_dimensions ? spec->rope_dimensions : head_dim);
    if (!adapter_groups(file, which)) return row;
    const int64_t head = row / head_dim, queries = heads / groups;
    const int64_t group = head < heads ? head / queries : (head - heads) % groups,
                  within = head < heads ? head % queries : queries + (head - heads) / groups;
    return (group * (queries + 2) + within) * head_dim + row % head_dim;
}

int adapter_transposed(const pco_model_file *file, const adapter_projection *which)
{
    const pco_hub *hub = adapter_hub(file);
    const char *part = adapter_hub_part(file, which);
    for (const char *const *name = hub ? hub->transposed : NULL; name && *name && part; name++)
        if (strcmp(*name, part) == 0) return 1;
    return 0;
}

int pco_adapter_usual(const pco_model_file *file, const char *projection)
{
    static const int parts[] = {PART(query), PART(value), PART(fused), PART(cross_query), PART(cross_value)};
    adapter_projection which;
    if (!adapter_find(file, projection, 0, &which)) return 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (which.part == parts[i]) return 1;
    return 0;
}

int pco_adapter_of_experts(const pco_model_file *file, const char *projection)
{
    adapter_projection which;
    return adapter_find(file, projection, 0, &which) && adapter_is_stack(file, &which);
}

/* The projections of a model, one after the other; start with zeros and layer -1. 0: there are no more. */
static int adapter_next(const pco_model_file *file, adapter_projection *which)
{
    for (;;) {
        const pco_model_side side = which->side;
        if (++which->layer >= file->spec.layers[side]) {
            which->layer = 0;
            if (++which->part == ADAPTER_PARTS) {
                if (side == PCO_DECODER) return 0;
                *which = (adapter_projection){PCO_DECODER, -1, 0, -1};
                continue;
            }
        }
        if (which->layer < file->spec.layers[side] &&
            ((const char *const *)pco_spec_names(&file->spec, side))[which->part] && adapter_hub_part(file, which) &&
            adapter_adapts(file, side, which->part))
            return 1;
    }
}

int pco_adapter_has(const pco_model_file *file, const char *target)
{
    adapter_projection which = {PCO_ENCODER, -1, 0, -1};
    char module[PCO_SPEC_NAME];
    while (adapter_next(file, &which))
        if (adapter_name(file, &which, 1, module) && pco_adapter_matches(module, target)) return 1;
    return 0;
}

const char *pco_adapter_parts(const pco_model_file *file, char *text, size_t size)
{
    adapter_projection which = {PCO_ENCODER, -1, 0, -1};
    size_t used = 0;
    *text = 0;
    while (adapter_next(file, &which)) {
        if (which.layer || used >= size) continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", adapter_hub_part(file, &which));
    }
    return text;
}
