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

static pco_status variant_check(const pco_device_info *info, const pco_node *node, const pco_variant *variants,
                                uint32_t index, pco_error *err)
{
    const pco_variant *variant = &variants[index];
    const uint32_t width = variant->subgroup_width;
    if (!variant->name)
        return pco_fail(err, PCO_ERROR_INTERNAL, "the plugin lists a variant without a name for node '%s' (%s)",
                        node->name, pco_node_op_name(node));
    const size_t length = strnlen(variant->name, PCO_VARIANT_NAME);
    if (!length || length == PCO_VARIANT_NAME ||
        strspn(variant->name, "abcdefghijklmnopqrstuvwxyz0123456789_") != length)
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
