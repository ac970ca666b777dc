/* The kernel variants of a node, as a plugin lists them (plugin.h), and what people call them. */
#ifndef PCO_RUNTIME_VARIANT_H
#define PCO_RUNTIME_VARIANT_H

#include "portico/plugin.h"

enum {
    PCO_VARIANTS = 64, /* of a node, at most */
    PCO_TUNABLES = 8,  /* of a variant */
    PCO_VARIANT_NAME = 32,
    PCO_VARIANT_TEXT = PCO_VARIANT_NAME + 12
};

/* An open device, with its plugin and its description. All borrowed. */
typedef struct pco_open_device {
    const pco_plugin *plugin;
    pco_device *device;
    const pco_device_info *info;
} pco_open_device;

/* The variants of a node: what the plugin lists, or one, "default", where it has no list. Errors: INTERNAL, the list is
 * not as plugin.h says. */
pco_status pco_variants(const pco_open_device *on, const pco_part *part, uint32_t node,
                        pco_variant variants[PCO_VARIANTS], uint32_t *count, pco_error *err) PCO_NODISCARD;

/* What pco_node.variant has to be for variant `index` of that list. */
uint32_t pco_variant_forced(const pco_open_device *on, uint32_t index);

/* The same way to compute, of this node or of another? */
int pco_variant_same(const pco_variant *a, const pco_variant *b);
/* Its index among variants[count]; PCO_NONE when it is not there. */
uint32_t pco_variant_find(const pco_variant *variants, uint32_t count, const pco_variant *wanted);

/* What reports, messages and the keys of verdicts call it: "gemv", "gemv_subgroup@32" where a width is required,
 * "register@gpu" and "register@cpu" for what another kind of device would run. Returns `text`. */
const char *pco_variant_text(const pco_variant *variant, char text[PCO_VARIANT_TEXT]);

/* The tunables of an op's variant: none where the plugin has no list. Errors: INTERNAL, the list is not as plugin.h
 * says. */
pco_status pco_variant_tunables(const pco_open_device *on, uint32_t op, const pco_variant *variant,
                                pco_tunable tunables[PCO_TUNABLES], uint32_t *count, pco_error *err) PCO_NODISCARD;
/* Sets one of them (plugin.h: tune). */
pco_status pco_variant_tune(const pco_open_device *on, uint32_t op, const pco_variant *variant,
                            const pco_tunable *tunable, uint32_t value, pco_error *err) PCO_NODISCARD;

/* Is it one of those that a person asked for: does that text match the shell pattern? NULL: all are. */
int pco_variant_matches(const pco_variant *variant, const char *pattern);

#endif
