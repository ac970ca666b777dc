/* What there is to do in an isolated run, and what is known already: cases in order, groups of them, records.
 */
#include "cases/cases.h"
#include "isolate/isolate.h"
#include "run/result.h"

#include "base/error.h"
#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

/* Room for one more element; *items is NULL at first. False: no memory. */
static bool conf_grow(void **items, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity) return true;
    uint32_t more = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(*items, more * size);
    if (!grown) return false;
    *items = grown, *capacity = more;
    return true;
}

/* ---- cases ---- */

typedef struct conf_list_build {
    conf_list *list;
    const pco_conformance_options *options;
    bool failed;
} conf_list_build;

static bool conf_list_visit(void *user, const conf_case *one)
{
    conf_list_build *build = user;
    conf_list *list = build->list;
    if (!conf_case_is_selected(one, build->options)) return true;
    void *items = list->items;
    build->failed = !conf_grow(&items, list->count, &list->capacity, sizeof *list->items);
    list->items = items;
    if (build->failed) return false;
    conf_listed *listed = &list->items[list->count];
    *listed = (conf_listed){.op = one->op,
                            .id = one->id,
                            .op_name = conf_case_op(one)->name,
                            .regime = conf_regime_name(one->regime),
                            .dtype = conf_case_dtype(one),
                            .label = strdup(one->label)};
    build->failed = !listed->label;
    list->count += !build->failed;
    return !build->failed;
}

typedef struct conf_list_key {
    uint32_t id, index;
} conf_list_key;

static int conf_list_compare(const void *left, const void *right)
{
    const conf_list_key *a = left, *b = right;
    return a->id < b->id ? -1 : a->id > b->id;
}

pco_status conf_list_make(conf_list *list, const pco_conformance_options *options, const pco_device_info *info,
                          pco_error *err)
{
    *list = (conf_list){0};
    conf_list_build build = {.list = list, .options = options};
    conf_cases_visit_all(info, options, conf_list_visit, &build);
    conf_list_key *keys = malloc((list->count + 1) * sizeof *keys);
    list->by_id = malloc((list->count + 1) * sizeof *list->by_id);
    if (build.failed || !keys || !list->by_id) {
        free(keys);
        conf_list_clear(list);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the list of cases");
    }
    for (uint32_t i = 0; i < list->count; i++) keys[i] = (conf_list_key){list->items[i].id, i};
    qsort(keys, list->count, sizeof *keys, conf_list_compare);
    for (uint32_t i = 0; i < list->count; i++) list->by_id[i] = keys[i].index;
    free(keys);
    return PCO_OK;
}

void conf_list_clear(conf_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) free(list->items[i].label);
    free(list->items);
    free(list->by_id);
    *list = (conf_list){0};
}

uint32_t conf_list_find(const conf_list *list, uint32_t id)
{
    uint32_t low = 0, high = list->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list->items[list->by_id[middle]].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->count && list->items[list->by_id[low]].id == id ? list->by_id[low] : PCO_NONE;
}

/* ---- records ---- */

pco_status conf_units_add(conf_units *units, uint32_t order, uint32_t unit, const pco_conformance_case *one,
                          pco_error *err)
{
    void *items = units->items;
    if (!conf_grow(&items, units->count, &units->capacity, sizeof *units->items))
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
    units->items = items;
    conf_unit *added = &units->items[units->count];
    *added = (conf_unit){.order = order, .unit = unit};
    pco_status status = conf_case_copy(one, &added->one, err);
    if (!status) units->count++;
    return status;
}

void conf_units_clear(conf_units *units)
{
    for (uint32_t i = 0; i < units->count; i++) conf_case_free(&units->items[i].one);
    free(units->items);
    *units = (conf_units){0};
}

static int conf_units_compare(const void *left, const void *right)
{
    const conf_unit *a = left, *b = right;
    if (a->order != b->order) return a->order < b->order ? -1 : 1;
    return a->unit < b->unit ? -1 : a->unit > b->unit;
}

void conf_units_sort(conf_units *units)
{
    if (units->count) qsort(units->items, units->count, sizeof *units->items, conf_units_compare);
}

pco_conformance_state conf_units_banned(const conf_units *units, uint32_t op, const char *variant, uint32_t width,
                                        uint32_t order)
{
    uint32_t last = PCO_NONE; /* the crash that was counted last */
    pco_conformance_state state = PCO_CASE_PASS;
    for (int round = 0; round < CONF_MAX_CRASHES; round++) {
        uint32_t next = PCO_NONE;
        for (uint32_t i = 0; i < units->count; i++) {
            const conf_unit *unit = &units->items[i];
            if (unit->one.op != op || unit->order >= order || unit->one.width != width ||
                (last != PCO_NONE && unit->order <= last) || (next != PCO_NONE && unit->order >= next) ||
                strcmp(unit->one.variant, variant) != 0)
                continue;
            next = unit->order;
            state = unit->one.state;
        }
        if (next == PCO_NONE) return PCO_CASE_PASS;
        last = next;
    }
    return state;
}

int pco_conformance_is_given_up(const pco_conformance_case *one)
{
    return strncmp(one->detail, CONF_NOT_RUN, strcspn(CONF_NOT_RUN, "%")) == 0;
}

/* ---- groups ---- */

pco_status conf_queue_add(conf_queue *queue, const conf_group *group, pco_error *err)
{
    void *groups = queue->groups;
    if (!conf_grow(&groups, queue->count, &queue->capacity, sizeof *queue->groups))
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the list of cases");
    queue->groups = groups;
    queue->groups[queue->count] = *group;
    queue->groups[queue->count++].taken = false;
    queue->open++;
    return PCO_OK;
}

pco_status conf_queue_make(conf_queue *queue, const conf_list *list, pco_error *err)
{
    pco_status status = PCO_OK;
    *queue = (conf_queue){.list = list};
    for (uint32_t begin = 0, end; begin < list->count && !status; begin = end) {
        uint32_t cases = 0;
        for (end = begin; end < list->count && cases < CONF_GROUP; end++) {
            if (list->items[end].op != list->items[begin].op) break;
            cases += !list->items[end].done;
        }
        if (cases) status = conf_queue_add(queue, &(conf_group){.begin = begin, .end = end}, err);
    }
    return status;
}

/* A family belongs to the last of its groups that is still there. */
void conf_queue_clear(conf_queue *queue)
{
    for (uint32_t i = 0; i < queue->count; i++) {
        conf_family *family = queue->groups[i].family;
        if (!family) continue;
        for (uint32_t k = i; k < queue->count; k++)
            if (queue->groups[k].family == family) queue->groups[k].family = NULL;
        conf_units_clear(&family->held);
        free(family);
    }
    free(queue->groups);
    *queue = (conf_queue){0};
}

bool conf_queue_take(conf_queue *queue, uint32_t op, const uint32_t *others, uint32_t n, conf_group *group)
{
    conf_group *best = NULL;
    int best_rank = 5;
    for (uint32_t i = 0; i < queue->count && queue->open && best_rank; i++) {
        conf_group *at = &queue->groups[i];
        if (at->taken) continue;
        uint32_t at_op = queue->list->items[at->begin].op;
        /* First what was begun; what takes long before the rest, so that no worker is left alone with it. */
        int rank = at->begun ? 0 : at_op == op ? 1 : conf_cases_is_slow(at_op) ? 2 : 3;
        for (uint32_t k = 0; k < n && rank >= 2; k++)
            if (others[k] == at_op) rank = 4;
        if (rank < best_rank) best = at, best_rank = rank;
    }
    if (!best) return false;
    best->taken = true;
    queue->open--;
    *group = *best;
    return true;
}
