/* Cases of operations that are declared outside of the table: shapes from their list, or from the letters of their
 * signature; every type that each letter can be. */
#include "cases/lists.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* What letters and symbols stand for in one case. */
typedef struct own_choice {
    int64_t size[26];
    uint32_t type[26];
    const char *lead;        /* of `..` */
    const char *const *star; /* of `*`, operand by operand, the last again and again */
    bool optional;           /* operands that may be absent are there */
} own_choice;

/* The type behind "name:", and the dimensions; returns what is behind them. */
static const char *own_operand(const char *at, const own_choice *choice, uint32_t *type, bool *optional, char *dims)
{
    const char *colon = strchr(at, ':') + 1, *open = strchr(colon, '['), *close = strchr(open, ']');
    *optional = colon[-2] == '?';
    *type = PCO_F32;
    if (open - colon == 1 && *colon != '@') *type = choice->type[*colon - 'A'];
    for (uint32_t t = 0; t < PCO_DTYPE_COUNT && open - colon > 1; t++)
        if (strlen(pco_dtype_name(t)) == (size_t)(open - colon) &&
            !strncmp(pco_dtype_name(t), colon, (size_t)(open - colon)))
            *type = t;
    snprintf(dims, 32, "%.*s", (int)(close - open - 1), open + 1);
    at = close + 1;
    return at + strspn(at, " ");
}

/* "..,K,2" as "2,5,65,2"; false where the signature does not say it. */
static bool own_shape(const char *dims, const own_choice *choice, uint32_t star, char *text, size_t room)
{
    size_t used = 0;
    text[0] = 0;
    if (*dims == '@') return false;
    if (*dims == '*') {
        const char *const *shape = choice->star;
        while (star-- > 0 && shape[1]) shape++;
        snprintf(text, room, "%s", *shape);
        return true;
    }
    if (!strncmp(dims, "..", 2)) {
        used += (size_t)snprintf(text, room, "%s", choice->lead);
        dims += 2;
    }
    for (; *dims && used + 24 < room; dims++) {
        if (*dims == ',') continue;
        const long long size = isdigit((unsigned char)*dims) ? *dims - '0' : (long long)choice->size[*dims - 'A'];
        used += (size_t)snprintf(text + used, room - used, "%s%lld", used ? "," : "", size);
    }
    return true;
}

/* Indices and counts: what the declaration says of them, or 0. */
static void own_values(conf_case *one, const pco_operation *own, uint32_t input)
{
    conf_operand *operand = &one->in[input];
    const pco_op_range *range = pco_op_range_of(&own->info, input);
    if (operand->dtype == PCO_I32) operand->fill = CONF_FILL_INTEGER;
    if (operand->dtype == PCO_I32 && range) operand->low = range->low, operand->high = range->high;
}

/* One case; `shapes` NULL: by the signature. */
static void own_emit(conf_cases_context *context, const pco_operation *own, const own_choice *choice,
                     const char *shapes, conf_regime regime)
{
    conf_case *one = conf_cases_begin_row(context, &own->info, regime);
    const char *at = own->info.signature + strspn(own->info.signature, " ");
    for (uint32_t star = 0; *at && strncmp(at, "->", 2) != 0; star++) {
        char dims[32], text[96];
        uint32_t type;
        bool optional;
        at = own_operand(at, choice, &type, &optional, dims);
        if (shapes) {
            const size_t length = strcspn(shapes, " ");
            snprintf(text, sizeof text, "%.*s", (int)length, shapes);
            shapes += length;
            if (*shapes) shapes++;
        } else if (!own_shape(dims, choice, star, text, sizeof text)) {
            return;
        }
        if (shapes ? !strcmp(text, "-") : optional && !choice->optional) {
            conf_cases_absent(one);
            continue;
        }
        conf_cases_in(one, type, "%s", text);
        own_values(one, own, one->n_inputs - 1);
    }
    while (one->n_inputs && !one->in[one->n_inputs - 1].present) one->n_inputs--;
    conf_cases_emit(context);
}

/* Small whole numbers may lie outside of what the operation takes. */
static void own_regimes(conf_cases_context *context, const pco_operation *own, const own_choice *choice,
                        const char *shapes)
{
    own_emit(context, own, choice, shapes, CONF_RANDOM);
    if (!own->declaration.ranges) own_emit(context, own, choice, shapes, CONF_EXACT);
}

/* Does a letter stand for a size? */
static bool own_has_letters(const char *signature)
{
    bool inside = false, found = false;
    for (; *signature; signature++) {
        inside = *signature == '[' || (inside && *signature != ']');
        found |= inside && isupper((unsigned char)*signature);
    }
    return found;
}

static void own_shapes(conf_cases_context *context, const pco_operation *own, own_choice *choice)
{
    enum { N_LEADS = 6 };
    static const char *const LEADS[N_LEADS] = {"3", "", "2,5", "0", "1", "2,3,2"};
    static const char *const WHOLE[N_LEADS] = {"1025", "7,37", "", "0,4", "2,3,5", "4099"};
    static const char *const STARS[][3] = {{"1025"},    {"7,37"},         {"2,3,5", "5"},
                                           {"", "7,3"}, {"4,1,6", "3,1"}, {"0,3", "3"}};
    static const int64_t SIZES[] = {65, 7, 257, 1, 32, 3, 128, 63, 31, 1023};
    enum { N_SIZES = sizeof SIZES / sizeof *SIZES };
    const uint32_t rounds = conf_cases_standard(context) ? N_SIZES : N_LEADS;
    if (own->declaration.shapes) {
        for (uint32_t i = 0; own->declaration.shapes[i]; i++)
            own_regimes(context, own, choice, own->declaration.shapes[i]);
        return;
    }
    const bool letters = own_has_letters(own->info.signature);
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t l = 0; l < 26; l++) choice->size[l] = SIZES[(round + l) % N_SIZES];
        choice->lead = (letters ? LEADS : WHOLE)[round % N_LEADS];
        choice->star = STARS[round % (sizeof STARS / sizeof *STARS)];
        choice->optional = round % 2 == 0;
        own_regimes(context, own, choice, NULL);
    }
    for (uint32_t e = 0; e < context->n_edges && conf_cases_standard(context); e++) /* beside the kernels' edges */
        for (int beside = -1; beside <= 1; beside++) {
            const int64_t size = (int64_t)context->edges[e] + beside;
            if (size < 1 || size > 4096) continue;
            for (uint32_t l = 0; l < 26; l++) choice->size[l] = l == 'K' - 'A' ? size : 3;
            choice->lead = "3", choice->star = STARS[0], choice->optional = true;
            own_emit(context, own, choice, NULL, CONF_RANDOM);
        }
}

/* The i-th type of a letter's list, counted round; returns how many there are. */
static uint32_t own_type(const char *types, char letter, uint32_t i, uint32_t *type)
{
    uint32_t listed[PCO_DTYPE_COUNT], n = 0;
    const char *at = types;
    while (at && !(at[0] == letter && at[1] == '=')) at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;
    if (!at) return 0;
    for (at += 2; *at && *at != ' ';) {
        const size_t length = strcspn(at, ", ");
        for (uint32_t t = 0; t < PCO_DTYPE_COUNT; t++)
            if (strlen(pco_dtype_name(t)) == length && !strncmp(pco_dtype_name(t), at, length)) listed[n++] = t;
        at += length + (at[length] == ',');
    }
    if (n) *type = listed[i % n];
    return n;
}

void conf_cases_own(conf_cases_context *context, const pco_operation *own)
{
    enum { MOST = 24 }; /* combinations of types */
    own_choice choice = {.lead = ""};
    uint32_t combinations = 1;
    for (uint32_t l = 0; l < 26; l++) {
        const uint32_t n = own_type(own->info.types, (char)('A' + l), 0, &choice.type[l]);
        if (n) combinations = combinations * n < MOST ? combinations * n : MOST;
    }
    for (uint32_t c = 0; c < combinations; c++) {
        uint32_t rest = c;
        for (uint32_t l = 0; l < 26; l++) {
            const uint32_t n = own_type(own->info.types, (char)('A' + l), rest, &choice.type[l]);
            if (n) rest /= n;
        }
        own_shapes(context, own, &choice);
    }
}
