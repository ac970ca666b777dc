#include "graph/op_signature.h"

#include "base/dtype.h"

#include <string.h>

size_t pco_signature_word(const char *text)
{
    const size_t length = text ? strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
    return length > 0 && length < 32 && text[0] >= 'a' && text[0] <= 'z' ? length : 0;
}

static int signature_is_size(char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

/* "*", "@", "", "..", or sizes with commas between, behind "..," too; 0: it is none of these. */
static int signature_read_dims(pco_signature_operand *operand)
{
    const char *at = operand->dims;
    operand->broadcasts = !strcmp(at, "*");
    operand->is_free = !strcmp(at, "@");
    if (operand->broadcasts || operand->is_free || !*at) return 1;
    operand->leads = !strncmp(at, "..", 2);
    if (operand->leads) at += 2;
    for (int first = !operand->leads; *at; first = 0) {
        if (!first && *at++ != ',') return 0;
        if (!signature_is_size(*at) || operand->n_sizes == PCO_MAX_RANK) return 0;
        operand->sizes[operand->n_sizes++] = *at++;
    }
    return 1;
}

/* Copies `length` characters, if there are 1 to size - 1 (0 too, where `empty`). */
static int signature_copy(char *to, size_t size, const char *from, size_t length, int empty)
{
    if (length >= size || (!length && !empty)) return 0;
    memcpy(to, from, length);
    to[length] = 0;
    return 1;
}

/* "name?:TYPE[dims]"; returns what is wrong, or NULL. */
static const char *signature_read(pco_signature_reader *reader, pco_signature_operand *operand)
{
    const char *at = reader->at;
    *operand = (pco_signature_operand){.result = reader->result, .index = reader->count};
    const size_t name = pco_signature_word(at);
    if (!name) return "a name is missing, or longer than 31 characters";
    signature_copy(operand->name, sizeof operand->name, at, name, 0);
    at += name;
    operand->optional = *at == '?';
    at += operand->optional;
    if (*at++ != ':') return "a type is missing";
    const size_t type = strcspn(at, "[ ");
    if (!signature_copy(operand->type, sizeof operand->type, at, type, 0)) return "a type is missing";
    at += type;
    if (*at++ != '[') return "dimensions are missing";
    const size_t dims = strcspn(at, "]");
    if (at[dims] != ']') return "dimensions do not end";
    if (!signature_copy(operand->dims, sizeof operand->dims, at, dims, 1) || !signature_read_dims(operand))
        return "dimensions are `*`, `@`, or capital letters and digits with commas between, up to 8 of them, behind "
               "`..` or not";
    at += dims + 1;
    if (*at && *at != ' ') return "there is no space behind dimensions";
    reader->at = at;
    return NULL;
}

/* Moves on to what follows, also behind "->"; 0 at the end. */
static int signature_follows(pco_signature_reader *reader)
{
    reader->at += strspn(reader->at, " ");
    if (strncmp(reader->at, "->", 2) != 0) return *reader->at != 0;
    if (reader->result) return 1; /* no operand begins like that */
    reader->result = 1;
    reader->count = 0;
    reader->at += 2;
    return signature_follows(reader);
}

int pco_signature_next(pco_signature_reader *reader, pco_signature_operand *operand)
{
    const int follows = signature_follows(reader);
    reader->why = follows ? signature_read(reader, operand) : reader->result ? NULL : "there is no \"->\"";
    if (!follows || reader->why) return 0;
    reader->count++;
    return 1;
}

int pco_signature_next_input(pco_signature_reader *reader, pco_signature_operand *operand)
{
    return pco_signature_next(reader, operand) && !operand->result;
}

const char *pco_signature_types(const char *types, char letter, size_t *length)
{
    const char *at = types;
    while (at && !(at[0] == letter && at[1] == '=')) {
        at = strchr(at, ' ');
        if (at) at++;
    }
    if (!at) return NULL;
    at += 2;
    *length = strcspn(at, " ");
    return at;
}

int pco_signature_type_word(const char **at, const char *end, const char **word, size_t *length)
{
    if (*at >= end) return 0;
    *word = *at;
    *length = strcspn(*at, ", ");
    *at += *length;
    if (*at < end && **at == ',') ++*at;
    return 1;
}

uint32_t pco_signature_dtype(const char *name, size_t length)
{
    for (uint32_t type = 0; type < PCO_DTYPE_COUNT; type++)
        if (strlen(pco_dtype_name(type)) == length && !strncmp(pco_dtype_name(type), name, length)) return type;
    return PCO_NONE;
}
