/* Cases of operations that are declared outside of the table: shapes from their list, or from the letters of their
 * signature; every combination of types, or, of very many, every pair; attributes as they are at first and as the
 * declaration lists them. */
#include "cases/cases_own.h"
#include "cases/lists.h"

#include "base/dtype.h"
#include "base/error.h"
#include "graph/infer.h"
#include "graph/op_signature.h"
#include "portico/graph.h"

#include <string.h>

/* What letters and symbols stand for in one case. */
typedef struct own_choice {
    int64_t size[26];
    uint32_t type[26];
    const char *lead;        /* of `..` */
    const char *const *star; /* of `*`, operand by operand, the last again and again */
    const char *whole;       /* of `@` */
    const char *listed;      /* shapes of all operands, as declared; NULL: by the signature */
    bool optional;           /* operands that may be absent are there */
    const double *settings;  /* of the attributes; NULL: their initial values */
} own_choice;

/* The list under way. */
typedef struct own_list {
    conf_cases_context *context;
    const pco_operation *own;
    conf_own_coverage *coverage;
} own_list;

/* "..,K,2" as "2,5,65,2". */
static void own_shape(const pco_signature_operand *operand, const own_choice *choice, char *text, size_t room)
{
    const char *const *star = choice->star;
    size_t used = 0;
    text[0] = 0;
    if (operand->is_free) snprintf(text, room, "%s", choice->whole);
    for (uint32_t i = 0; operand->broadcasts && i < operand->index && star[1]; i++) star++;
    if (operand->broadcasts) snprintf(text, room, "%s", *star);
    if (operand->leads) used = (size_t)snprintf(text, room, "%s", choice->lead);
    for (const char *size = operand->sizes; *size && used + 24 < room; size++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", used ? "," : "",
                                 *size <= '9' ? *size - '0' : (long long)choice->size[*size - 'A']);
}

/* Indices and counts: what the declaration says of them, or 0. */
static void own_values(conf_case *one, const pco_operation *own, uint32_t input)
{
    conf_operand *operand = &one->in[input];
    const pco_op_range *range = pco_op_range_of(&own->info, input);
    if (operand->dtype == PCO_I32) operand->fill = CONF_FILL_INTEGER;
    if (operand->dtype == PCO_I32 && range) operand->low = range->low, operand->high = range->high;
}

static void own_operand(conf_case *one, const own_list *list, const pco_signature_operand *operand,
                        const own_choice *choice, const char **listed)
{
    char text[96];
    const bool by_letter = operand->type[1] == 0 && operand->type[0] != '@';
    const uint32_t named = pco_signature_dtype(operand->type, strlen(operand->type));
    bool absent = operand->optional && !choice->optional;
    if (*listed) {
        const size_t length = strcspn(*listed, " ");
        snprintf(text, sizeof text, "%.*s", (int)length, *listed);
        *listed += length + ((*listed)[length] == ' ');
        absent = strcmp(text, "-") == 0;
    } else {
        own_shape(operand, choice, text, sizeof text);
    }
    if (absent) {
        conf_cases_absent(one);
        return;
    }
    conf_cases_in(one,
                  by_letter           ? choice->type[operand->type[0] - 'A']
                  : named == PCO_NONE ? PCO_F32
                                      : named,
                  "%s", text);
    own_values(one, list->own, one->n_inputs - 1);
}

static void own_attributes(conf_case *one, const pco_operation *own, const double *settings)
{
    const pco_attr_info *attr;
    for (uint32_t i = 0; settings && (attr = pco_op_attr(&own->info, i)); i++) {
        const int64_t whole = (int64_t)settings[i];
        memcpy(one->attrs.bytes + attr->offset, attr->type == PCO_ATTR_FLOAT ? (const void *)&settings[i] : &whole, 8);
    }
}

/* Does the operation take it? Its function `shape` may refuse what its signature allows. */
static bool own_accepts(const conf_case *one, conf_own_coverage *coverage)
{
    pco_tensor tensors[PCO_MAX_INPUTS];
    pco_error why = {""};
    pco_shape_context context = {
        .op = conf_case_op(one), .attrs = one->attrs.bytes, .node_name = "case", .n_inputs = one->n_inputs};
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        if (!one->in[i].present) continue;
        tensors[i] = conf_operand_tensor(one, i);
        context.inputs[i] = &tensors[i];
    }
    if (!pco_infer(&context, &why)) return true;
    if (!coverage->refused++) snprintf(coverage->refusal, sizeof coverage->refusal, "%s", why.message);
    return false;
}

static void own_emit(const own_list *list, const own_choice *choice, conf_regime regime)
{
    conf_case *one = conf_cases_begin_row(list->context, &list->own->info, regime);
    pco_signature_reader reader = {.at = list->own->info.signature};
    pco_signature_operand operand;
    const char *listed = choice->listed;
    while (pco_signature_next_input(&reader, &operand)) own_operand(one, list, &operand, choice, &listed);
    while (one->n_inputs && !one->in[one->n_inputs - 1].present) one->n_inputs--;
    own_attributes(one, list->own, choice->settings);
    if (!own_accepts(one, list->coverage)) return;
    list->coverage->accepted++;
    conf_cases_emit(list->context);
}

/* Small whole numbers may lie outside of what the operation takes. */
static void own_regimes(const own_list *list, const own_choice *choice)
{
    own_emit(list, choice, CONF_RANDOM);
    if (!list->own->declaration.ranges) own_emit(list, choice, CONF_EXACT);
}

/* The letter that kernels loop over, as far as can be told: K, or the last size of the first operand that has one.
 * 0: there is none. */
static char own_inner(const char *signature)
{
    pco_signature_reader reader = {.at = signature};
    pco_signature_operand operand;
    char found = 0;
    while (pco_signature_next_input(&reader, &operand)) {
        char last = 0;
        for (const char *size = operand.sizes; *size; size++)
            if (*size >= 'A') last = *size;
        if (strchr(operand.sizes, 'K')) return 'K';
        if (!found) found = last;
    }
    return found;
}

static void own_edges(const own_list *list, own_choice *choice)
{
    const conf_cases_context *context = list->context;
    const char inner = own_inner(list->own->info.signature);
    for (uint32_t e = 0; e < context->n_edges; e++)
        for (int beside = -1; beside <= 1; beside++) {
            const int64_t size = (int64_t)context->edges[e] + beside;
            char text[24];
            if (size < 1 || size > 4096) continue;
            snprintf(text, sizeof text, "%lld", (long long)size);
            for (uint32_t l = 0; l < 26; l++) choice->size[l] = (char)('A' + l) == inner ? size : 3;
            choice->lead = inner ? "3" : text, choice->star = (const char *const[]){text, NULL}, choice->whole = text;
            choice->optional = true;
            own_emit(list, choice, CONF_RANDOM);
        }
}

/* All shapes, with the types and settings that were chosen. */
static void own_shapes(const own_list *list, own_choice *choice, bool all)
{
    enum { N_LEADS = 7, FEW = 2 };
    static const char *const LEADS[N_LEADS] = {"3", "", "2,5", "0", "1", "2,3,2", "7"};
    static const char *const WHOLE[N_LEADS] = {"1025", "7,37", "", "0,4", "2,3,5", "4099", "5"};
    static const char *const STARS[][3] = {{"1025"},    {"7,37"},         {"2,3,5", "5"},
                                           {"", "7,3"}, {"4,1,6", "3,1"}, {"0,3", "3"}};
    static const int64_t SIZES[] = {65, 7, 257, 1, 32, 3, 128, 63, 31, 1023};
    enum { N_SIZES = sizeof SIZES / sizeof *SIZES };
    const bool standard = conf_cases_standard(list->context);
    const char *const *listed = list->own->declaration.shapes;
    for (uint32_t i = 0; listed && listed[i]; i++) {
        const uint32_t before = list->coverage->accepted;
        choice->listed = listed[i];
        own_regimes(list, choice);
        if (list->coverage->accepted != before && i < 64) list->coverage->shapes_taken |= UINT64_C(1) << i;
    }
    if (listed) return;
    const bool letters = own_inner(list->own->info.signature) != 0;
    for (uint32_t round = 0; round < (standard ? N_SIZES : N_LEADS) && (all || standard || round < FEW); round++) {
        for (uint32_t l = 0; l < 26; l++) choice->size[l] = SIZES[(round + l) % N_SIZES];
        choice->lead = (letters ? LEADS : WHOLE)[round % N_LEADS];
        choice->whole = WHOLE[round % N_LEADS];
        choice->star = STARS[round % (sizeof STARS / sizeof *STARS)];
        choice->optional = round % 2 == 0;
        own_regimes(list, choice);
    }
    if (standard) own_edges(list, choice);
}

/* ---- types ---- */

/* The letters of operands' types, and how many types each has. */
typedef struct own_types {
    uint32_t n;
    char letter[PCO_MAX_INPUTS];
    uint32_t count[PCO_MAX_INPUTS];
    uint32_t type[PCO_MAX_INPUTS][PCO_DTYPE_COUNT];
} own_types;

static own_types own_types_of(const pco_operation *own)
{
    own_types types = {.n = 0};
    pco_signature_reader reader = {.at = own->info.signature};
    pco_signature_operand operand;
    while (pco_signature_next_input(&reader, &operand)) {
        const char *word;
        size_t length;
        const char *at = operand.type[1] ? NULL : pco_signature_types(own->info.types, operand.type[0], &length);
        if (!at || memchr(types.letter, operand.type[0], types.n)) continue;
        types.letter[types.n] = operand.type[0];
        for (const char *end = at + length; pco_signature_type_word(&at, end, &word, &length);)
            types.type[types.n][types.count[types.n]++] = pco_signature_dtype(word, length);
        types.n++;
    }
    return types;
}

/* All combinations of types, up to `most`. Of more, letter l has type (a + b l) mod p in combination (a, b), with a
 * prime p that neither the letters nor the types of one are more than: then any two letters have every pair of their
 * types at least once, since (a + b l, a + b m) takes each pair of remainders for l != m. */
static void own_each_type(const own_list *list, own_choice *choice, bool all)
{
    static const uint32_t PRIMES[] = {2, 3, 5, 7, 11, 13};
    const own_types types = own_types_of(list->own);
    const uint64_t most = conf_cases_standard(list->context) ? 256 : 32;
    uint64_t combinations = 1;
    uint32_t widest = types.n, p = 13;
    for (uint32_t l = 0; l < types.n; l++) {
        combinations *= types.count[l];
        if (types.count[l] > widest) widest = types.count[l];
    }
    for (size_t i = sizeof PRIMES / sizeof *PRIMES; i-- > 0;)
        if (PRIMES[i] >= widest) p = PRIMES[i];
    const uint64_t tried = combinations <= most ? combinations : (uint64_t)p * p;
    list->coverage->combinations = combinations, list->coverage->tried = tried;
    for (uint64_t c = 0; c < tried; c++) {
        uint64_t rest = c;
        for (uint32_t l = 0; l < types.n; l++) {
            const uint64_t i = combinations <= most ? rest : (c / p + c % p * l) % p;
            choice->type[types.letter[l] - 'A'] = types.type[l][i % types.count[l]];
            rest /= types.count[l];
        }
        own_shapes(list, choice, all);
    }
}

static void own_cases(conf_cases_context *context, const pco_operation *own, conf_own_coverage *coverage)
{
    const pco_op_declaration *d = &own->declaration;
    const own_list list = {.context = context, .own = own, .coverage = coverage};
    own_choice choice = {.lead = ""};
    own_each_type(&list, &choice, true);
    for (uint32_t i = 0; i < d->n_settings; i++) {
        const uint32_t before = coverage->accepted;
        choice = (own_choice){.lead = "", .settings = d->settings + (size_t)i * d->n_attributes};
        own_each_type(&list, &choice, false);
        if (coverage->accepted == before) coverage->setting_refused = i + 1;
    }
}

void conf_cases_own(conf_cases_context *context, const pco_operation *own)
{
    conf_own_coverage coverage = {.accepted = 0};
    own_cases(context, own, &coverage);
}

static bool own_pass(void *user, const conf_case *one)
{
    (void)one;
    ((conf_own_coverage *)user)->cases++;
    return true;
}

pco_status conf_cases_own_coverage(const pco_operation *own, pco_conformance_tier tier, conf_own_coverage *coverage,
                                   pco_error *err)
{
    conf_cases_context context = {.tier = tier, .visit = own_pass, .user = coverage};
    const char *name = own->info.name, *const *shapes = own->declaration.shapes;
    *coverage = (conf_own_coverage){.accepted = 0};
    own_cases(&context, own, coverage);
    for (uint32_t i = 0; shapes && shapes[i] && i < 64; i++)
        if (!(coverage->shapes_taken >> i & 1))
            return pco_fail(err, PCO_ERROR_INVALID, "op '%s': it refuses the shapes \"%s\" of its own list: %s", name,
                            shapes[i], coverage->refusal);
    if (coverage->setting_refused)
        return pco_fail(err, PCO_ERROR_INVALID, "op '%s': it refuses row %u of its settings: %s", name,
                        coverage->setting_refused - 1, coverage->refusal);
    if (!coverage->accepted)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "op '%s': no case follows from its signature \"%s\": list shapes in its declaration (%s)", name,
                        own->info.signature, coverage->refusal);
    return PCO_OK;
}

/* ---- gradients ---- */

typedef struct own_few {
    conf_visit_fn visit;
    void *user;
    uint32_t count;
} own_few;

/* What a difference quotient for each element can be afforded for, with floats among the operands. */
static bool own_small(void *user, const conf_case *one)
{
    enum { MOST = 24, ELEMENTS = 1200 };
    own_few *few = user;
    int64_t elements = 0, floats = 0;
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        if (!one->in[i].present) continue;
        const pco_tensor x = conf_operand_tensor(one, i);
        const int64_t count = pco_tensor_elements(&x);
        elements += count;
        if (pco_dtype_is_float(x.dtype)) floats += count;
    }
    if (!floats || elements > ELEMENTS) return true;
    return few->visit(few->user, one) && ++few->count < MOST;
}

/* Small sizes with one combination of types: each letter's first type of floats, or its first. */
static void own_small_cases(const own_list *list, const double *settings)
{
    static const char *const LEADS[] = {"2", "", "2,3"}, *const WHOLE[] = {"7", "2,3", "2,3,2"};
    static const char *const STARS[][3] = {{"5"}, {"2,3", "3"}, {"2,1,3", "2,1"}};
    static const int64_t SIZES[] = {3, 2, 4, 5};
    const own_types types = own_types_of(list->own);
    own_choice choice = {.settings = settings};
    for (uint32_t l = 0; l < types.n; l++) {
        uint32_t at = 0;
        for (uint32_t i = types.count[l]; i-- > 0;)
            if (pco_dtype_is_float(types.type[l][i])) at = i;
        choice.type[types.letter[l] - 'A'] = types.type[l][at];
    }
    const char *const *listed = list->own->declaration.shapes;
    for (uint32_t i = 0; listed ? listed[i] != NULL : i < 3; i++) {
        for (uint32_t l = 0; l < 26; l++) choice.size[l] = SIZES[(i + l) % 4];
        if (listed) choice.listed = listed[i];
        choice.lead = LEADS[i % 3], choice.whole = WHOLE[i % 3], choice.star = STARS[i % 3];
        choice.optional = i % 2 == 0;
        own_emit(list, &choice, CONF_RANDOM);
    }
}

void conf_cases_own_small(const pco_operation *own, conf_visit_fn visit, void *user)
{
    own_few few = {.visit = visit, .user = user};
    conf_cases_context context = {.tier = PCO_CONFORMANCE_QUICK, .visit = own_small, .user = &few};
    conf_own_coverage coverage = {.accepted = 0};
    const own_list list = {.context = &context, .own = own, .coverage = &coverage};
    const pco_op_declaration *d = &own->declaration;
    own_small_cases(&list, NULL);
    for (uint32_t i = 0; i < d->n_settings; i++) own_small_cases(&list, d->settings + (size_t)i * d->n_attributes);
}
