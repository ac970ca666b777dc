#include "formats/json.h"

/* Is there something to read? */
static int reader_has(const pco_json_reader *reader, const char *key)
{
    return !reader->status && !cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(reader->root, key));
}

int64_t pco_json_read_int(pco_json_reader *reader, const char *key, int64_t least, int64_t most, int64_t fallback)
{
    int64_t value = fallback;
    if (reader_has(reader, key))
        reader->status = pco_json_int_or(reader->root, reader->label, key, least, most, fallback, &value, reader->err);
    return reader->status ? fallback : value;
}

double pco_json_read_number(pco_json_reader *reader, const char *key, double least, double most, double fallback)
{
    double value = fallback;
    if (reader_has(reader, key))
        reader->status =
            pco_json_number_or(reader->root, reader->label, key, least, most, fallback, &value, reader->err);
    return reader->status ? fallback : value;
}

int pco_json_read_bool(pco_json_reader *reader, const char *key, int fallback)
{
    int value = fallback;
    if (reader_has(reader, key))
        reader->status = pco_json_bool_or(reader->root, reader->label, key, fallback, &value, reader->err);
    return reader->status ? fallback : value;
}

uint32_t pco_json_read_enum(pco_json_reader *reader, const char *key, const char *const *names, uint32_t count,
                            uint32_t fallback)
{
    uint32_t value = fallback;
    if (reader_has(reader, key))
        reader->status =
            pco_json_enum_or(reader->root, reader->label, key, names, count, fallback, &value, reader->err);
    return reader->status ? fallback : value;
}
