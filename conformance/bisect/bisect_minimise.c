/* Smaller problems with the same fault. Dimensions that belong together are found by trial: a set of equal
 * sizes, in operands and in attributes, may shrink when shape inference accepts the smaller problem. */
#include "bisect/bisect_internal.h"

#include "base/error.h"
#include "graph/infer.h"

#include <stdlib.h>
#include <string.h>

enum { BISECT_MEMBERS = 12 }; /* dimensions that may change together, at most */

/* One size: dimension `dim` of an operand, or (operand PCO_NONE) a whole number at `dim` bytes into the
 * attributes. half: it is half the size of the others (channels in pairs). */
typedef struct bisect_member {
    uint32_t operand, dim;
    bool half;
} bisect_member;

typedef struct bisect_search {
    pco_bisect *bisect;
    uint32_t attempts, made;
    pco_error *err;
    pco_status status;
    uint32_t n_members;
    bisect_member members[BISECT_MEMBERS];
} bisect_search;

static bool bisect_infers(const conf_case *one)
{
    pco_tensor tensors[PCO_MAX_INPUTS];
    pco_error why;
    pco_shape_context context = {
        .op = conf_case_op(one), .attrs = one->attrs.bytes, .node_name = "", .n_inputs = one->n_inputs};
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        if (!one->in[i].present) continue;
        tensors[i] = conf_operand_tensor(one, i);
        context.inputs[i] = &tensors[i];
    }
    return pco_infer(&context, &why) == PCO_OK;
}

/* ---- data ---- */

/* Elements begin .. begin + count - 1 of dimension `dim`. In blocks of a quantised type along the last one.
 */
static void *bisect_slice(const conf_operand *in, uint32_t dim, const void *data, int64_t begin, int64_t count)
{
    int64_t block = oracle_block_count(in->dtype), unit = oracle_block_bytes(in->dtype), outer = 1;
    int64_t inner = unit, size = in->shape[dim];
    const bool last = dim + 1 == in->rank;
    for (uint32_t d = 0; d < dim; d++) outer *= in->shape[d];
    for (uint32_t d = dim + 1; d < in->rank; d++) inner *= d + 1 == in->rank ? in->shape[d] / block : in->shape[d];
    if (last) size /= block, begin /= block, count /= block;
    unsigned char *out = malloc((size_t)(outer * count * inner) + 8);
    for (int64_t o = 0; out && o < outer; o++)
        memcpy(out + o * count * inner, (const unsigned char *)data + (o * size + begin) * inner,
               (size_t)(count * inner));
    return out;
}

/* Lengths of sequences are at most the number of keys. */
static void bisect_limit_lengths(bisect_problem *problem)
{
    conf_case *one = &problem->one;
    bool back = one->op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD;
    if ((one->op != PCO_OP_SCALED_DOT_PRODUCT_ATTENTION && !back) || !one->in[4].present) return;
    const void *attrs = one->attrs.bytes;
    int64_t heads_first = back ? ((const pco_scaled_dot_product_attention_backward_attrs *)attrs)->heads_first
                               : ((const pco_scaled_dot_product_attention_attrs *)attrs)->heads_first;
    int32_t keys = (int32_t)one->in[1].shape[heads_first ? 2 : 1], *lengths = problem->data[4];
    for (int64_t b = 0; b < one->in[4].shape[0]; b++)
        if (lengths[b] > keys) lengths[b] = keys;
}

static int64_t bisect_size(const conf_case *one, const bisect_member *member)
{
    int64_t value;
    if (member->operand != PCO_NONE) return one->in[member->operand].shape[member->dim];
    memcpy(&value, one->attrs.bytes + member->dim, sizeof value);
    return value;
}

/* The case with the members of `mask` at size `size` (halves at half of it); false when that cannot be. */
static bool bisect_shape(const bisect_search *search, uint32_t mask, int64_t size, conf_case *one)
{
    *one = search->bisect->problem.one;
    for (uint32_t i = 0; i < search->n_members; i++) {
        const bisect_member *member = &search->members[i];
        if (!(mask >> i & 1)) continue;
        if (member->half && size % 2) return false;
        int64_t to = member->half ? size / 2 : size;
        if (member->operand == PCO_NONE) {
            memcpy(one->attrs.bytes + member->dim, &to, sizeof to);
            continue;
        }
        conf_operand *in = &one->in[member->operand];
        if (member->dim + 1 == in->rank && to % oracle_block_count(in->dtype)) return false;
        in->shape[member->dim] = to;
    }
    return bisect_infers(one);
}

/* Data for a smaller case: the front or the back of each dimension. */
static bool bisect_cut(const bisect_search *search, uint32_t mask, const conf_case *one, bool back, bisect_problem *out)
{
    const bisect_problem *problem = &search->bisect->problem;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        conf_operand in = problem->one.in[i];
        const void *from = problem->data[i];
        if (!in.present) continue;
        for (uint32_t k = 0; k < search->n_members; k++) {
            const bisect_member *member = &search->members[k];
            if (!(mask >> k & 1) || member->operand != i) continue;
            int64_t count = one->in[i].shape[member->dim], begin = back ? in.shape[member->dim] - count : 0;
            void *cut = bisect_slice(&in, member->dim, from, begin, count);
            free(out->data[i]);
            from = out->data[i] = cut;
            if (!cut) return false;
            in.shape[member->dim] = count;
        }
        if (out->data[i]) continue;
        pco_tensor desc = conf_operand_tensor(one, i);
        out->data[i] = malloc(desc.bytes + 8);
        if (!out->data[i]) return false;
        memcpy(out->data[i], from, desc.bytes);
    }
    out->one = *one;
    bisect_problem_label(out);
    bisect_limit_lengths(out);
    return true;
}

/* ---- trying ---- */

static bool bisect_attempt(bisect_search *search, bisect_problem *smaller)
{
    pco_bisect *bisect = search->bisect;
    pco_conformance_case result = {0};
    char variant[64];
    search->made++;
    search->status = bisect_try(bisect, smaller, NULL, &result, variant, search->err);
    if (search->status || !pco_conformance_state_is_bad(result.state) || result.state == PCO_CASE_MISTRUSTED ||
        result.state != bisect->fault.result.state)
        return false;
    bisect_problem_clear(&bisect->problem);
    bisect->problem = *smaller;
    memset(smaller, 0, sizeof *smaller);
    bisect->fault.result = result;
    snprintf(bisect->fault.variant, sizeof bisect->fault.variant, "%s", variant);
    snprintf(bisect->fault.problem, sizeof bisect->fault.problem, "%s", bisect->problem.one.label);
    return true;
}

/* Does the fault survive at `size`? Then that is the problem from now on. */
static bool bisect_shrink_to(bisect_search *search, uint32_t mask, int64_t size)
{
    conf_case one;
    bool accepted = false;
    if (!bisect_shape(search, mask, size, &one)) return false;
    for (int back = 0; back < 2 && !accepted && search->made < search->attempts && !search->status; back++) {
        bisect_problem smaller;
        if (bisect_cut(search, mask, &one, back, &smaller))
            accepted = bisect_attempt(search, &smaller);
        else
            search->status = bisect_no_memory(search->err);
        bisect_problem_clear(&smaller);
    }
    return accepted;
}

/* From size n: 1, then halves, then what lies between the smallest that is wrong and the largest that is not.
 */
static bool bisect_shrink(bisect_search *search, uint32_t mask, int64_t n)
{
    int64_t low = 1, high = n;
    if (bisect_shrink_to(search, mask, 1)) return true;
    while (high / 2 > low && bisect_shrink_to(search, mask, high / 2)) high /= 2;
    if (high / 2 > low) low = high / 2;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (bisect_shrink_to(search, mask, middle))
            high = middle;
        else
            low = middle;
    }
    return high < n;
}

/* ---- which dimensions ---- */

static void bisect_add_member(bisect_search *search, uint32_t operand, uint32_t dim, int64_t n)
{
    bisect_member member = {operand, dim, false};
    int64_t size = bisect_size(&search->bisect->problem.one, &member);
    member.half = size != n;
    if ((size == n || (n % 2 == 0 && size == n / 2)) && search->n_members < BISECT_MEMBERS)
        search->members[search->n_members++] = member;
}

/* All places that hold the size n, operands first, then attributes, and those that hold half of it. */
static void bisect_find_members(bisect_search *search, int64_t n)
{
    const conf_case *one = &search->bisect->problem.one;
    const pco_op_info *op = conf_case_op(one);
    const pco_attr_info *attr;
    search->n_members = 0;
    for (uint32_t i = 0; i < one->n_inputs; i++)
        for (uint32_t d = 0; one->in[i].present && d < one->in[i].rank; d++) bisect_add_member(search, i, d, n);
    for (uint32_t a = 0; (attr = pco_op_attr(op, a)) != NULL; a++) {
        int64_t count = 0;
        if (attr->type != PCO_ATTR_VECTOR) continue;
        memcpy(&count, one->attrs.bytes + attr->offset, sizeof count);
        for (int64_t e = 0; e < count && e < PCO_MAX_RANK; e++)
            bisect_add_member(search, PCO_NONE, attr->offset + 8 * (uint32_t)(e + 1), n);
    }
}

static int bisect_compare_sizes(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? 1 : a > b ? -1 : 0;
}

/* The sizes above 1 in the problem, the largest first. */
static uint32_t bisect_sizes(const bisect_problem *problem, int64_t *sizes, uint32_t capacity)
{
    const conf_case *one = &problem->one;
    uint32_t count = 0;
    for (uint32_t i = 0; i < one->n_inputs; i++)
        for (uint32_t d = 0; one->in[i].present && d < one->in[i].rank && count < capacity; d++)
            if (one->in[i].shape[d] > 1) sizes[count++] = one->in[i].shape[d];
    if (!one->n_inputs || !count) { /* ops without operands have their shape in the attributes */
        const pco_attr_info *attr;
        for (uint32_t a = 0; (attr = pco_op_attr(conf_case_op(one), a)) != NULL; a++)
            for (uint32_t e = 1; attr->type == PCO_ATTR_VECTOR && e <= PCO_MAX_RANK && count < capacity; e++) {
                int64_t value;
                memcpy(&value, one->attrs.bytes + attr->offset + 8 * e, sizeof value);
                if (value > 1) sizes[count++] = value;
            }
    }
    qsort(sizes, count, sizeof *sizes, bisect_compare_sizes);
    return count;
}

/* Tries every set of members of size n that has one of the full size, small sets first. Returns whether
 * something became smaller. */
static bool bisect_shrink_size(bisect_search *search, int64_t n)
{
    bisect_find_members(search, n);
    uint32_t full = 0;
    for (uint32_t i = 0; i < search->n_members; i++) full |= search->members[i].half ? 0u : 1u << i;
    for (uint32_t bits = 1; bits <= search->n_members; bits++)
        for (uint32_t mask = 1; mask < 1u << search->n_members; mask++) {
            if ((uint32_t)__builtin_popcount(mask) != bits || !(mask & full)) continue;
            if (search->status || search->made >= search->attempts) return false;
            if (bisect_shrink(search, mask, n)) return true;
        }
    return false;
}

pco_status pco_bisect_minimise(pco_bisect *bisect, uint32_t attempts, uint32_t *made, pco_error *err)
{
    bisect_search search = {.bisect = bisect, .attempts = attempts, .err = err};
    bool smaller = bisect->fault.found && bisect->fault.result.state != PCO_CASE_DEVICE_LOST &&
                   bisect->fault.result.state != PCO_CASE_HUNG;
    while (smaller && !search.status && search.made < attempts) {
        int64_t sizes[PCO_MAX_INPUTS * PCO_MAX_RANK];
        uint32_t count = bisect_sizes(&bisect->problem, sizes, PCO_MAX_INPUTS * PCO_MAX_RANK);
        smaller = false;
        for (uint32_t i = 0; i < count && !smaller && !search.status; i++)
            if (i == 0 || sizes[i] != sizes[i - 1]) smaller = bisect_shrink_size(&search, sizes[i]);
    }
    *made = search.made;
    return search.status;
}
