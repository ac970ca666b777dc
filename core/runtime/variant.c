#include "runtime/variant.h"

#include "base/error.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const FORMS[] = {[PCO_FORM_OWN] = "", [PCO_FORM_GPU] = "@gpu", [PCO_FORM_CPU] = "@cpu"};
enum { N_FORMS = sizeof FORMS / sizeof *FORMS };

int pco_variant_same(const pco_variant *a, const pco_variant *b)
{
    return strcmp(a->name, b->name) == 0 && a->subgroup_width == b->subgroup_width && a->form == b->form;
}

uint32_t pco_variant_find(const pco_variant *variants, uint32_t count, const pco_variant *wanted)
{
    for (uint32_t i = 0; i < count; i++)
        if (pco_variant_same(&variants[i], wanted)) return i;
    return PCO_NONE;
}

const char *pco_variant_text(const pco_variant *variant, char text[PCO_VARIANT_TEXT])
{
    const char *form = FORMS[variant->form < N_FORMS ? variant->form : PCO_FORM_OWN];
    if (variant->subgroup_width)
        snprintf(text, PCO_VARIANT_TEXT, "%.31s@%" PRIu32 "%s", variant->name, variant->subgroup_width, form);
    else
        snprintf(text, PCO_VARIANT_TEXT, "%.31s%s", variant->name, form);
    return text;
}

int pco_variant_matches(const pco_variant *variant, const char *pattern)
{
    char text[PCO_VARIANT_TEXT];
    return !pattern || fnmatch(pattern, pco_variant_text(variant, text), 0) == 0;
}

uint32_t pco_variant_forced(const pco_open_device *on, uint32_t index)
{
    return on->plugin->program->variants ? index : PCO_NONE;
}

/* ---- what a plugin lists ---- */

static pco_status variant_refuse(const pco_node *node, const pco_variant *variant, const char *what, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_INTERNAL, "the plugin lists the variant '%.40s' for node '%s' (%s), %s",
                    variant->name, node->name, pco_node_op_name(node), what);
}

/* A name as variants and their tunables have them. */
static int variant_is_name(const char *name)
{
    const size_t length = strnlen(name, PCO_VARIANT_NAME);
    return length && length < PCO_VARIANT_NAME && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

static pco_status variant_check(const pco_device_info *info, const pco_node *node, const pco_variant *variants,
                                uint32_t index, pco_error *err)
{
    const pco_variant *variant = &variants[index];
    const uint32_t width = variant->subgroup_width;
    if (!variant->name)
        return pco_fail(err, PCO_ERROR_INTERNAL, "the plugin lists a variant without a name for node '%s' (%s)",
                        node->name, pco_node_op_name(node));
    if (!variant_is_name(variant->name))
        return variant_refuse(node, variant, "which is not made of up to 31 of a-z, 0-9 and _", err);
    if (variant->form >= N_FORMS) return variant_refuse(node, variant, "whose form does not exist", err);
    if (width && (width & (width - 1) || width < info->subgroup_min || width > info->subgroup_max))
        return variant_refuse(node, variant, "with a width of subgroups that the device does not have", err);
    if (variant->needs & ~info->features)
        return variant_refuse(node, variant, "which needs features that the device does not declare", err);
    if (pco_variant_find(variants, index, variant) != PCO_NONE) return variant_refuse(node, variant, "twice", err);
    return PCO_OK;
}

pco_status pco_variants(const pco_open_device *on, const pco_part *part, uint32_t node,
                        pco_variant variants[PCO_VARIANTS], uint32_t *count, pco_error *err)
{
    const pco_program_api *program = on->plugin->program;
    pco_status status = PCO_OK;
    variants[0] = (pco_variant){.name = "default"};
    *count = program->variants ? program->variants(on->device, part, node, variants, PCO_VARIANTS) : 1;
    if (*count > PCO_VARIANTS) *count = PCO_VARIANTS;
    for (uint32_t i = 0; i < *count && !status; i++)
        status = variant_check(on->info, &part->nodes[node], variants, i, err);
    return status;
}

/* ---- tunables ---- */

/* What is wrong with tunable `index` of the list, or NULL. */
static const char *tunable_fault(const pco_tunable *tunables, uint32_t index)
{
    const pco_tunable *one = &tunables[index];
    uint32_t initial = 0;
    if (!one->name || !variant_is_name(one->name)) return "whose name is not made of up to 31 of a-z, 0-9 and _";
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(tunables[i].name, one->name) == 0) return "twice";
    if (one->n_values < 2 || !one->values) return "which has no two values";
    for (uint32_t v = 0; v < one->n_values; v++) {
        if (v && one->values[v] <= one->values[v - 1]) return "whose values do not ascend";
        initial += one->values[v] == one->initial;
    }
    return initial ? NULL : "whose initial value is none of its values";
}

pco_status pco_variant_tunables(const pco_open_device *on, uint32_t op, const pco_variant *variant,
                                pco_tunable tunables[PCO_TUNABLES], uint32_t *count, pco_error *err)
{
    const pco_program_api *program = on->plugin->program;
    *count = program->tunables && program->tune
                 ? program->tunables(on->device, op, variant->name, tunables, PCO_TUNABLES)
                 : 0;
    if (*count > PCO_TUNABLES) *count = PCO_TUNABLES;
    for (uint32_t i = 0; i < *count; i++) {
        const char *fault = tunable_fault(tunables, i);
        if (fault)
            return pco_fail(err, PCO_ERROR_INTERNAL, "the plugin lists the tunable '%.40s' for variant '%s' of %s, %s",
                            tunables[i].name ? tunables[i].name : "", variant->name, pco_op_name(op), fault);
    }
    return PCO_OK;
}

pco_status pco_variant_tune(const pco_open_device *on, uint32_t op, const pco_variant *variant,
                            const pco_tunable *tunable, uint32_t value, pco_error *err)
{
    return on->plugin->program->tune(on->device, op, variant->name, tunable->name, value, err);
}
