/* What plugin.h says the host has checked, a plugin does not check again: so the host's checks have to be enough. Nodes
 * of the suite's cases are changed at random, in types, shapes, attributes and operands, to what is wrong as often as
 * not. What the graph refuses reaches no plugin. What it accepts runs on both devices of the cpu plugin, which looks at
 * nothing any more, and changes nothing but its results. */
#include "check.h"

#include "cases/cases.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "runtime/session_internal.h"
#include "runtime/trial.h"

#include <math.h>

enum {
    CASES = 8,     /* of an op */
    CHANGED = 24,  /* nodes of a case */
    ROOM = 1 << 17 /* bytes of a node that is run, at most */
};

typedef struct checks_run {
    pco_session *session; /* of a plugin that is watched */
    pco_open_device on[2];
    uint64_t random;
    uint32_t accepted[PCO_OP_LIMIT], refused[PCO_OP_LIMIT], ran;
} checks_run;

static struct {
    const pco_program_api *program;
    uint32_t asked; /* how often */
} watched;

static pco_status watched_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *e)
{
    watched.asked++;
    return watched.program->supports(device, part, node, e);
}

static uint64_t checks_random(checks_run *run, uint64_t below)
{
    uint64_t z = run->random += 0x9e3779b97f4a7c15u; /* splitmix64 (Steele et al. 2014) */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

/* ---- a node that may be wrong ---- */

static int64_t checks_size(checks_run *run, int64_t now)
{
    now = now < 0 || now > 1 << 20 ? 1 : now;
    const int64_t sizes[] = {0, 1, 2, 3, 5, 32, now - 1, now + 1, 2 * now, -1, INT64_C(1) << 31, INT64_C(1) << 62};
    return sizes[checks_random(run, sizeof sizes / sizeof *sizes)];
}

static int64_t checks_whole(checks_run *run, int64_t now)
{
    const uint64_t bits = (uint64_t)now; /* sums may leave 64 bits */
    const int64_t values[] = {0,  1,  2,       3,          (int64_t)(bits - 1), (int64_t)(bits + 1),
                              -1, -2, 1 << 20, -(now / 2), INT64_MAX,           INT64_MIN};
    return values[checks_random(run, sizeof values / sizeof *values)];
}

static double checks_float(checks_run *run, double now)
{
    const double values[] = {0, 1, -1, 2, 0.5, -now, 1e300, (double)INFINITY, (double)NAN};
    return values[checks_random(run, sizeof values / sizeof *values)];
}

static void checks_change_operand(checks_run *run, conf_case *one)
{
    conf_operand *in = &one->in[checks_random(run, PCO_MAX_INPUTS)];
    switch (checks_random(run, 6)) {
    case 0:
        in->present = !in->present;
        one->n_inputs = PCO_MAX_INPUTS;
        break;
    case 1: in->dtype = (uint32_t)checks_random(run, PCO_DTYPE_COUNT + 1); break;
    case 2:
        in->rank = (uint32_t)checks_random(run, PCO_MAX_RANK + 2);
        for (uint32_t i = 0; i < PCO_MAX_RANK; i++)
            if (in->shape[i] == 0) in->shape[i] = 1;
        break;
    case 3: *in = one->in[checks_random(run, PCO_MAX_INPUTS)]; break;
    default:
        if (in->rank == 0 || in->rank > PCO_MAX_RANK) return;
        int64_t *size = &in->shape[checks_random(run, in->rank)];
        *size = checks_size(run, *size);
    }
}

static void checks_change_attribute(checks_run *run, conf_case *one)
{
    const pco_op_info *op = pco_op_find(one->op);
    const pco_attr_info *attr;
    uint32_t n = 0;
    while (pco_op_attr(op, n)) n++;
    if (n == 0) return;
    attr = pco_op_attr(op, (uint32_t)checks_random(run, n));
    void *at = one->attrs.bytes + attr->offset;
    if (attr->type == PCO_ATTR_FLOAT) {
        double value;
        memcpy(&value, at, sizeof value);
        value = checks_float(run, value);
        memcpy(at, &value, sizeof value);
        return;
    }
    int64_t *whole = at; /* n_field of a vector, or an element */
    if (attr->type == PCO_ATTR_VECTOR && checks_random(run, 4)) whole += 1 + checks_random(run, PCO_MAX_RANK);
    *whole = checks_whole(run, *whole);
}

/* The node in a graph of its own. */
static pco_graph *checks_graph(const conf_case *one)
{
    const pco_op_info *op = pco_op_find(one->op);
    pco_graph *g = pco_graph_create();
    uint32_t in[PCO_MAX_INPUTS];
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        const conf_operand *x = &one->in[i];
        const char name[2] = {(char)('a' + i), 0};
        in[i] = PCO_NONE;
        if (x->present)
            in[i] = (pco_op_writes(op, i) ? pco_graph_state : pco_graph_input)(g, name, (pco_dtype)x->dtype, x->rank,
                                                                               x->shape);
    }
    pco_graph_add(g, (pco_op)one->op, one->attrs.bytes, in, one->n_inputs, NULL);
    return g;
}

/* ---- running it ---- */

static void checks_run_on(const pco_open_device *on, const pco_graph *g, const void *const *data)
{
    static const pco_trial_placement placement = {.guard = 256, .around = {0xff, 0xff, 0xff, 0xff}};
    const pco_part part = {
        .size = sizeof part, .n_tensors = g->n_tensors, .n_nodes = 1, .tensors = g->tensors, .nodes = g->nodes};
    pco_trial trial = pco_trial_of(on, &part);
    pco_trial_memory memory;
    pco_program *program = NULL;
    check_ok(pco_trial_supports(&trial, &err));
    check_ok(pco_trial_propose(&trial, &err));
    pco_trial_lay_out(&trial, &placement, data, &memory);
    check_ok(pco_trial_memory_create(&memory, &err));
    check_ok(pco_trial_memory_write(&memory, &err));
    check_ok(pco_trial_prepare(&trial, &memory, &program, &err));
    check_ok(pco_trial_run(&trial, program, on->plugin->program->segments(program), UINT64_MAX, &err));
    check_ok(pco_trial_memory_read(&memory, &err));
    check_ok(pco_trial_memory_check(&memory, &err));
    on->plugin->program->destroy(on->device, program);
    pco_trial_memory_destroy(&memory);
    pco_trial_clear(&trial);
}

/* Operands are ones: as indices, lengths and positions, they are in range where there is a range. */
static void checks_run_node(checks_run *run, const pco_graph *g)
{
    uint64_t total = 0;
    for (uint32_t t = 0; t < g->n_tensors; t++) total += g->tensors[t].bytes < ROOM ? g->tensors[t].bytes : ROOM;
    if (total >= ROOM) return;
    const void *data[PCO_TRIAL_TENSORS] = {NULL};
    static union {
        int32_t whole[ROOM / 4];
        float real[ROOM / 4];
        uint8_t bytes[ROOM];
    } ones, whole, zeros;
    memset(ones.bytes, 1, sizeof ones);
    for (int i = 0; i < ROOM / 4; i++) whole.whole[i] = 1;
    for (uint32_t k = 0; k < g->nodes[0].n_inputs; k++) {
        const uint32_t t = g->nodes[0].inputs[k];
        if (t == PCO_NONE) continue;
        const uint32_t dtype = g->tensors[t].dtype;
        data[t] = dtype == PCO_I32 ? whole.bytes : dtype == PCO_BOOL ? ones.bytes : zeros.bytes;
    }
    for (int i = 0; i < 2; i++) checks_run_on(&run->on[i], g, data);
    run->ran++;
}

static void checks_try(checks_run *run, const conf_case *one)
{
    pco_graph *g = checks_graph(one);
    pco_error why;
    pco_executable *executable;
    if (pco_graph_check(g, &why) == PCO_OK) {
        run->accepted[one->op]++;
        checks_run_node(run, g);
    } else {
        run->refused[one->op]++;
        watched.asked = 0;
        check_fails(pco_executable_create(run->session, g, NULL, &executable, &err), PCO_ERROR_INVALID, why.message);
        assert_int_equal(watched.asked, 0);
    }
    pco_graph_destroy(g);
}

static bool checks_visit(void *user, const conf_case *one)
{
    checks_run *run = user;
    if (one->large || one->chain || run->accepted[one->op] + run->refused[one->op] >= CASES * (CHANGED + 1))
        return true;
    checks_try(run, one);
    for (uint32_t k = 0; k < CHANGED; k++) {
        conf_case other = *one;
        for (uint64_t changes = 1 + checks_random(run, 2); changes > 0; changes--)
            (checks_random(run, 2) ? checks_change_operand : checks_change_attribute)(run, &other);
        checks_try(run, &other);
    }
    return true;
}

static void test_host_checks(void **state)
{
    (void)state;
    static checks_run run;
    pco_config config;
    pco_registry *registry;
    pco_session *sessions[2];
    check_ok(pco_config_read(&config, &err));
    check_ok(pco_registry_create(&config, &registry, &err));
    for (int i = 0; i < 2; i++) {
        check_ok(pco_registry_open(registry, i ? "cpu:reference" : "cpu:native", &sessions[i], &err));
        const session_slot *slot = &sessions[i]->slots[0];
        run.on[i] = (pco_open_device){slot->plugin, slot->device, &slot->entry->info};
    }
    pco_plugin plugin = *sessions[0]->slots[0].plugin;
    pco_program_api program = *plugin.program;
    watched.program = plugin.program;
    program.supports = watched_supports;
    plugin.program = &program;
    check_ok(pco_registry_open(registry, "cpu:reference", &run.session, &err));
    run.session->slots[0].plugin = &plugin;
    conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, checks_visit, &run);
    /* what is accepted does ask it */
    pco_graph *g = pco_graph_create();
    pco_executable *executable;
    const uint32_t x = pco_graph_input(g, "x", PCO_F32, 1, (int64_t[]){3});
    pco_graph_output(g, pco_graph_add(g, PCO_OP_NEG, NULL, &x, 1, NULL), "y");
    watched.asked = 0;
    check_ok(pco_executable_create(run.session, g, NULL, &executable, &err));
    assert_true(watched.asked > 0);
    pco_executable_destroy(executable);
    pco_graph_destroy(g);
    uint32_t count, one_sided = 0;
    const pco_op_info *table = pco_op_table(&count);
    for (uint32_t i = 0; i < count; i++)
        if ((!run.accepted[table[i].op] || !run.refused[table[i].op]) && ++one_sided)
            print_error("%s: %u accepted, %u refused\n", table[i].name, run.accepted[table[i].op],
                        run.refused[table[i].op]);
    assert_int_equal(one_sided, 0);
    assert_true(run.ran > 20 * count);
    pco_session_close(run.session);
    for (int i = 0; i < 2; i++) pco_session_close(sessions[i]);
    pco_registry_destroy(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_host_checks)};
    return cmocka_run_group_tests_name("host_checks", tests, NULL, NULL);
}
