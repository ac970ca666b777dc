/* Records as lines of JSON: between the processes of a run, and in its log. Every field comes back as it was,
 * to the last bit; what follows from the list of cases (op, label, regime, type) is not read but looked up.
 */
#ifndef CONF_WIRE_H
#define CONF_WIRE_H

#include "conformance.h"

#include "formats/json.h"

/* Writes the members of an object that the caller has begun. */
void conf_wire_write(pco_json_writer *writer, const pco_conformance_case *one);

/* Reads the members that conf_wire_write wrote. `variant` and `waiver` belong to the document; op_name,
 * regime, dtype and label are left as they are. Errors: FORMAT. */
pco_status conf_wire_read(const cJSON *object, pco_conformance_case *one, pco_error *err) PCO_NODISCARD;

/* A value of a specialisation constant: the first of values[]. */
void conf_wire_write_constant(pco_json_writer *writer, const pco_conformance_constant *seen);
pco_status conf_wire_read_constant(const cJSON *object, pco_conformance_constant *seen, pco_error *err) PCO_NODISCARD;

/* A pipeline; its figures are to be freed after reading. */
void conf_wire_write_pipeline(pco_json_writer *writer, const pco_conformance_pipeline *seen);
pco_status conf_wire_read_pipeline(const cJSON *object, pco_conformance_pipeline *seen, pco_error *err) PCO_NODISCARD;

/* Case ids are eight hexadecimal digits. Errors: FORMAT. */
pco_status conf_wire_id(const cJSON *object, const char *key, uint32_t *id, pco_error *err) PCO_NODISCARD;

/* A whole number of up to 64 bits, which is written as a string: JSON's numbers have 53. Errors: FORMAT. */
pco_status conf_wire_uint(const cJSON *object, const char *key, uint64_t *value, pco_error *err) PCO_NODISCARD;

#endif
