/* JSON schemas (draft 2020-12, what of it says which texts there are) as grammars. Each schema becomes a rule; what
 * changes nothing about the text is passed over, and all else is refused by name. */
#include "text/grammar.h"

#include "base/writer.h"
#include "formats/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEMA_DEPTH = 64, SCHEMA_RULES = 4096, SCHEMA_MEMBERS = 1000 };

typedef struct schema_reader {
    const cJSON *root;
    const char *name;
    pco_writer out;
    const cJSON **known; /* [SCHEMA_RULES]: rule i is of this schema */
    int count, depth;
    pco_status status;
    pco_error *err;
} schema_reader;

static const char schema_prelude[] =
    "root ::= s0\n"
    "ws ::= [ \\n\\t]{0,16}\n"
    "char ::= [^\"\\\\\\x00-\\x1f\\x7f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4})\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15})\n"
    "number ::= integer (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?\n"
    "boolean ::= \"true\" | \"false\"\n"
    "null ::= \"null\"\n"
    "array ::= \"[\" ws (value ws (\",\" ws value ws)*)? \"]\"\n"
    "object ::= \"{\" ws (string ws \":\" ws value ws (\",\" ws string ws \":\" ws value ws)*)? \"}\"\n"
    "value ::= string | number | boolean | null | array | object\n";

static void schema_fail(schema_reader *r, const char *what, const char *which)
{
    if (!r->status) r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED, "%s: %s '%.100s'", r->name, what, which);
}

static void schema_write(schema_reader *r, const char *text) { pco_write(&r->out, text, strlen(text)); }

static void schema_number(schema_reader *r, const char *before, int64_t number, const char *behind)
{
    char text[80];
    snprintf(text, sizeof text, "%s%" PRId64 "%s", before, number, behind);
    schema_write(r, text);
}

/* A value as it stands in JSON, as a literal. */
static void schema_literal(schema_reader *r, const cJSON *value)
{
    char *json = cJSON_PrintUnformatted(value);
    if (!json) {
        if (!r->status) r->status = pco_fail(r->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a schema");
        return;
    }
    schema_write(r, "\"");
    for (const char *c = json; *c; c++) {
        if (*c == '"' || *c == '\\') schema_write(r, "\\");
        pco_write(&r->out, c, 1);
    }
    schema_write(r, "\"");
    cJSON_free(json);
}

/* Known, and of no matter here, or read where it matters. */
static void schema_check_keys(schema_reader *r, const cJSON *schema)
{
    static const char *const known[] = {"type",      "properties",  "required", "additionalProperties",
                                        "items",     "minItems",    "maxItems", "minLength",
                                        "maxLength", "enum",        "const",    "anyOf",
                                        "oneOf",     "$ref",        "$defs",    "definitions",
                                        "title",     "description", "default",  "examples",
                                        "$schema",   "$id",         "$comment", "deprecated",
                                        "readOnly",  "writeOnly"};
    const cJSON *member;
    cJSON_ArrayForEach(member, schema)
    {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(known[i], member->string) != 0) i++;
        if (i == sizeof known / sizeof *known) schema_fail(r, "this keyword is not supported:", member->string);
    }
}

static int schema_rule(schema_reader *r, const cJSON *schema);

static int64_t schema_whole(schema_reader *r, const cJSON *schema, const char *key, int64_t otherwise)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(schema, key);
    if (!value) return otherwise;
    if (cJSON_IsNumber(value) && value->valuedouble >= 0 && value->valuedouble <= 1000 &&
        value->valuedouble == (double)(int64_t)value->valuedouble)
        return (int64_t)value->valuedouble;
    schema_fail(r, "this must be a whole number up to 1000:", key);
    return otherwise;
}

/* "{least,most}"; most below 0: any number. */
static void schema_times(schema_reader *r, int64_t least, int64_t most)
{
    schema_number(r, "{", least, ",");
    if (most >= 0) schema_number(r, "", most, "");
    schema_write(r, "} ");
}

static void schema_string(schema_reader *r, const cJSON *schema)
{
    schema_write(r, "\"\\\"\" char");
    schema_times(r, schema_whole(r, schema, "minLength", 0), schema_whole(r, schema, "maxLength", -1));
    schema_write(r, "\"\\\"\"\n");
}

static void schema_array(schema_reader *r, const cJSON *schema, int rule)
{
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(schema, "items");
    const int64_t least = schema_whole(r, schema, "minItems", 0), most = schema_whole(r, schema, "maxItems", -1);
    const int item = items ? schema_rule(r, items) : -1;
    char name[32] = "value";
    if (item >= 0) snprintf(name, sizeof name, "s%d", item);
    if (most >= 0 && most < least) schema_fail(r, "this is less than minItems:", "maxItems");
    schema_number(r, "s", rule, " ::= \"[\" ws ");
    if (most != 0) {
        schema_write(r, least == 0 ? "(" : "");
        schema_write(r, name);
        schema_write(r, " ws (\",\" ws ");
        schema_write(r, name);
        schema_write(r, " ws)");
        schema_times(r, least > 0 ? least - 1 : 0, most < 0 ? -1 : most - 1);
        schema_write(r, least == 0 ? ")? " : "");
    }
    schema_write(r, "\"]\"\n");
}

static int schema_required(const cJSON *schema, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(schema, "required"))
    {
        if (cJSON_IsString(item) && strcmp(item->valuestring, name) == 0) return 1;
    }
    return 0;
}

/* The properties in the order of the schema. Rule oN-I: what follows from property I on where nothing stands before;
 * rule cN-I: the same where something does. */
static void schema_properties(schema_reader *r, const cJSON *schema, const cJSON *properties, int rule)
{
    const cJSON *property;
    int at = 0;
    cJSON_ArrayForEach(property, properties)
    {
        const int value = schema_rule(r, property), required = schema_required(schema, property->string);
        cJSON *key = cJSON_CreateString(property->string);
        for (int behind = 0; behind < 2 && !r->status; behind++) {
            schema_number(r, behind ? "c" : "o", rule, "-");
            schema_number(r, "", at, " ::= ");
            if (behind) schema_write(r, "\",\" ws ");
            schema_literal(r, key);
            schema_number(r, " ws \":\" ws s", value, " ws ");
            schema_number(r, "c", rule, "-");
            schema_number(r, "", at + 1, "");
            if (!required) {
                schema_number(r, behind ? " | c" : " | o", rule, "-");
                schema_number(r, "", at + 1, "");
            }
            schema_write(r, "\n");
        }
        cJSON_Delete(key);
        at++;
    }
    for (int behind = 0; behind < 2; behind++) {
        schema_number(r, behind ? "c" : "o", rule, "-");
        schema_number(r, "", at, " ::= \"\"\n");
    }
    schema_number(r, "s", rule, " ::= \"{\" ws ");
    schema_number(r, "o", rule, "-0 \"}\"\n");
}

static void schema_object(schema_reader *r, const cJSON *schema, int rule)
{
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties"), *name;
    const cJSON *others = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
    const cJSON *required = cJSON_GetObjectItemCaseSensitive(schema, "required");
    if (cJSON_GetArraySize(properties) > SCHEMA_MEMBERS || cJSON_GetArraySize(required) > SCHEMA_MEMBERS) {
        schema_fail(r, "there are more than 1000 of:", "properties");
        return;
    }
    cJSON_ArrayForEach(name, required)
    {
        if (cJSON_IsString(name) && cJSON_GetObjectItemCaseSensitive(properties, name->valuestring)) continue;
        schema_fail(r, "this is required, and no property:", cJSON_IsString(name) ? name->valuestring : "?");
    }
    if (properties && cJSON_IsObject(others))
        schema_fail(r, "beside properties, this must be a boolean:", others->string);
    if (properties) {
        schema_properties(r, schema, properties, rule);
    } else if (cJSON_IsObject(others)) {
        const int value = schema_rule(r, others);
        schema_number(r, "s", rule, " ::= \"{\" ws (string ws \":\" ws s");
        schema_number(r, "", value, " ws (\",\" ws string ws \":\" ws s");
        schema_number(r, "", value, " ws)*)? \"}\"\n");
    } else {
        schema_number(r, "s", rule, cJSON_IsFalse(others) ? " ::= \"{\" ws \"}\"\n" : " ::= object\n");
    }
}

/* The alternatives of a list: schemas, or values. */
static void schema_any(schema_reader *r, const cJSON *list, int rule, int values)
{
    int rules[256], count = 0;
    const cJSON *item;
    if (!cJSON_IsArray(list) || !list->child || cJSON_GetArraySize(list) > 256) {
        schema_fail(r, "this must be a list of 1 to 256:", list->string ? list->string : "?");
        return;
    }
    if (!values) cJSON_ArrayForEach(item, list) rules[count++] = schema_rule(r, item);
    schema_number(r, "s", rule, " ::= ");
    count = 0;
    cJSON_ArrayForEach(item, list)
    {
        if (item != list->child) schema_write(r, " | ");
        if (values)
            schema_literal(r, item);
        else
            schema_number(r, "s", rules[count++], "");
    }
    schema_write(r, "\n");
}

/* One type, by name. */
static void schema_type(schema_reader *r, const cJSON *schema, const char *type, int rule)
{
    static const char *const plain[] = {"integer", "number", "boolean", "null"};
    if (strcmp(type, "object") == 0) {
        schema_object(r, schema, rule);
        return;
    }
    if (strcmp(type, "array") == 0) {
        schema_array(r, schema, rule);
        return;
    }
    schema_number(r, "s", rule, " ::= ");
    if (strcmp(type, "string") == 0) {
        schema_string(r, schema);
        return;
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(type, plain[i]) == 0) {
            schema_write(r, type);
            schema_write(r, "\n");
            return;
        }
    schema_fail(r, "this type is not known:", type);
}

static void schema_types(schema_reader *r, const cJSON *types, int rule)
{
    const cJSON *type;
    if (!types->child) schema_fail(r, "this list is empty:", "type");
    schema_number(r, "s", rule, " ::= ");
    cJSON_ArrayForEach(type, types)
    {
        if (!cJSON_IsString(type) || strcmp(type->valuestring, "object") == 0 ||
            strcmp(type->valuestring, "array") == 0)
            schema_fail(r, "in a list of types this is not supported (take anyOf):",
                        cJSON_IsString(type) ? type->valuestring : "?");
        else
            schema_write(r, type->valuestring);
        schema_write(r, type->next ? " | " : "\n");
    }
}

/* What "$ref" names: "#", or "#/$defs/NAME" and its like. */
static const cJSON *schema_resolve(schema_reader *r, const char *reference)
{
    const cJSON *at = r->root;
    const char *rest = reference;
    if (*rest++ != '#') at = NULL;
    while (at && *rest == '/') {
        char name[128];
        const size_t length = strcspn(++rest, "/");
        if (length >= sizeof name) return NULL;
        memcpy(name, rest, length);
        name[length] = 0;
        at = cJSON_GetObjectItemCaseSensitive(at, name);
        rest += length;
    }
    return *rest ? NULL : at;
}

static void schema_body(schema_reader *r, const cJSON *schema, int rule)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(schema, "type"), *one;
    if (cJSON_IsTrue(schema)) {
        schema_number(r, "s", rule, " ::= value\n");
        return;
    }
    if (!cJSON_IsObject(schema)) {
        schema_fail(r, "a schema is an object or true, not", cJSON_IsFalse(schema) ? "false" : "something else");
        return;
    }
    schema_check_keys(r, schema);
    if ((one = cJSON_GetObjectItemCaseSensitive(schema, "$ref"))) {
        const cJSON *target = cJSON_IsString(one) ? schema_resolve(r, one->valuestring) : NULL;
        const int other = target ? schema_rule(r, target) : 0;
        if (!target) schema_fail(r, "this reference leads nowhere:", cJSON_IsString(one) ? one->valuestring : "?");
        schema_number(r, "s", rule, " ::= ");
        schema_number(r, "s", other, "\n");
    } else if ((one = cJSON_GetObjectItemCaseSensitive(schema, "const"))) {
        schema_number(r, "s", rule, " ::= ");
        schema_literal(r, one);
        schema_write(r, "\n");
    } else if ((one = cJSON_GetObjectItemCaseSensitive(schema, "enum"))) {
        schema_any(r, one, rule, 1);
    } else if ((one = cJSON_GetObjectItemCaseSensitive(schema, "anyOf")) ||
               (one = cJSON_GetObjectItemCaseSensitive(schema, "oneOf"))) {
        schema_any(r, one, rule, 0);
    } else if (cJSON_IsArray(type)) {
        schema_types(r, type, rule);
    } else if (cJSON_IsString(type)) {
        schema_type(r, schema, type->valuestring, rule);
    } else if (cJSON_GetObjectItemCaseSensitive(schema, "properties")) {
        schema_object(r, schema, rule);
    } else {
        schema_number(r, "s", rule, " ::= value\n");
    }
}

/* The number of its rule, which is written once. */
static int schema_rule(schema_reader *r, const cJSON *schema)
{
    for (int i = 0; i < r->count; i++)
        if (r->known[i] == schema) return i;
    if (r->count == SCHEMA_RULES || r->depth == SCHEMA_DEPTH) {
        schema_fail(r, "schemas are nested too deeply, or too many, at", schema->string ? schema->string : "a list");
        return 0;
    }
    if (r->status) return 0;
    const int rule = r->count++;
    r->known[rule] = schema;
    r->depth++;
    schema_body(r, schema, rule);
    r->depth--;
    return rule;
}

pco_status pco_grammar_of_schema(const char *text, size_t size, const char *name, pco_grammar **grammar, pco_error *err)
{
    schema_reader r = {.name = name, .err = err};
    cJSON *root;
    *grammar = NULL;
    pco_status status = pco_json_parse(text, size, name, &root, err);
    if (status) return status;
    r.root = root;
    r.known = malloc(SCHEMA_RULES * sizeof *r.known);
    if (!r.known) r.status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a schema");
    schema_write(&r, schema_prelude);
    if (!r.status) (void)schema_rule(&r, root);
    if (!r.status) r.status = pco_writer_check(&r.out, "a grammar", err);
    if (!r.status) r.status = pco_grammar_parse(r.out.data, r.out.size, name, grammar, err);
    pco_writer_release(&r.out);
    free(r.known);
    cJSON_Delete(root);
    return r.status;
}
