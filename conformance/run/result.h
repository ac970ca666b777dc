/* Adding records up to a result. */
#ifndef CONF_RESULT_H
#define CONF_RESULT_H

#include "run/constants.h"
#include "run/pipelines.h"

typedef struct conf_result_builder {
    pco_conformance_result *result;
    uint32_t capacity; /* of result->cases */
    uint32_t units;    /* records of the case that came last */
    uint32_t last_id;
    uint64_t last_seed;
} conf_result_builder;

/* Starts an empty result, to be cleared also after an error. Errors: OUT_OF_HOST_MEMORY. */
pco_status conf_result_start(conf_result_builder *builder, const pco_conformance_options *options,
                             const char *device_id, pco_conformance_result *result, pco_error *err) PCO_NODISCARD;
/* Counts a record and keeps a copy. Records of one case come in a row. Errors: OUT_OF_HOST_MEMORY. */
pco_status conf_result_add(conf_result_builder *builder, const pco_conformance_case *one, pco_error *err) PCO_NODISCARD;
/* The same for a record that is not worth keeping: it is only counted. */
void conf_result_count(conf_result_builder *builder, const pco_conformance_case *one);
/* Medians and maxima of the rows. Errors: OUT_OF_HOST_MEMORY. */
pco_status conf_result_finish(conf_result_builder *builder, pco_error *err) PCO_NODISCARD;

/* Gives the table to the result; *constants is empty then. */
void conf_result_constants(pco_conformance_result *result, conf_constants *constants);
void conf_result_pipelines(pco_conformance_result *result, conf_pipelines *pipelines);

/* Copies a record with strings of its own; conf_case_free releases them. Errors: OUT_OF_HOST_MEMORY. */
pco_status conf_case_copy(const pco_conformance_case *one, pco_conformance_case *copy, pco_error *err) PCO_NODISCARD;
void conf_case_free(pco_conformance_case *one);

#endif
