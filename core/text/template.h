/* Chat templates: the part of Jinja that they use, rendered as jinja2 does with the settings of transformers
 * (trim_blocks, lstrip_blocks, no autoescape, break and continue, generation blocks, tojson, raise_exception,
 * strftime_now). What is not known is refused, by name and line, where it is reached: nothing is rendered wrongly.
 *
 * A template is read-only once parsed and may be rendered by several threads at once. */
#ifndef PCO_TEXT_TEMPLATE_H
#define PCO_TEXT_TEMPLATE_H

#include "formats/json.h"

typedef struct pco_template pco_template;

enum { PCO_TEMPLATE_MOST = 1 << 19 }; /* bytes of a template */

/* Parses text[size]. `label` is the file, for messages. The caller gives *made to pco_template_destroy. Errors, with
 * the line: FORMAT for what is no template, or longer than PCO_TEMPLATE_MOST; UNSUPPORTED for a tag or an operator that
 * is not known; OUT_OF_HOST_MEMORY. */
pco_status pco_template_parse(const char *text, size_t size, const char *label, pco_template **made,
                              pco_error *err) PCO_NODISCARD;

/* NULL is allowed. */
void pco_template_destroy(pco_template *made);

/* Renders with the members of the object `variables`, whose texts are UTF-8; whole numbers are integers there. `now`:
 * seconds since 1970, for strftime_now. *text (free) ends with NUL, *bytes before it. Errors, with the line: INVALID
 * for what the template refuses (raise_exception), for values that do not fit together, and for a template that takes
 * too many steps, too much memory or too deep calls (each bounded by the sizes of template and variables); UNSUPPORTED
 * for a filter, test, method or function that is not known; OUT_OF_HOST_MEMORY. */
pco_status pco_template_render(const pco_template *made, const cJSON *variables, int64_t now, char **text,
                               size_t *bytes, pco_error *err) PCO_NODISCARD;

#endif
