/* The gradient of each op on the suite's own cases: a few small ones. */
enum { CASES_OF_AN_OP = 5, CASES_BESIDE_A_GRAPH = 2, CASE_ELEMENTS = 220 };

typedef struct case_list {
    uint32_t op, count;
    conf_case cases[CASES_OF_AN_OP];
} case_list;

/* The same shapes and attributes, in other types or with other values? */
static bool case_is_like(const conf_case *one, const conf_case *other)
{
    bool same = memcmp(&one->attrs, &other->attrs, sizeof one->attrs) == 0;
    for (uint32_t i = 0; i < one->n_inputs && same; i++)
        same = one->in[i].present == other->in[i].present && one->in[i].rank == other->in[i].rank &&
               memcmp(one->in[i].shape, other->in[i].shape, sizeof one->in[i].shape) == 0;
    return same;
}

/* Random operands; for sums, which have no corners, whole numbers, too. Small ones in two types. */
static bool case_collect(void *user, const conf_case *one)
{
    case_list *list = user;
    const bool sum = pco_op_find(one->op)->bound == PCO_BOUND_SUM;
    int64_t elements = 0, floats = 0;
    if (one->op != list->op || one->large || one->chain) return true;
    if (one->regime != CONF_RANDOM && !(sum && one->regime == CONF_EXACT)) return true;
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        const conf_operand *in = &one->in[i];
        const pco_tensor x = conf_operand_tensor(one, i);
        if (!in->present) continue;
        if (pco_dtype_is_quantised(x.dtype) || in->fill == CONF_FILL_TIES || in->fill == CONF_FILL_EQUAL) return true;
        if (pco_tensor_elements(&x) == 0) return true;
        elements += pco_tensor_elements(&x);
        if (pco_dtype_is_float(x.dtype)) floats += pco_tensor_elements(&x);
    }
    if (floats == 0 || elements > CASE_ELEMENTS) return true;
    for (uint32_t k = 0, like = 0; k < list->count; k++) {
        like += case_is_like(one, &list->cases[k]);
        if (like > (elements <= 40) || (like && one->in[0].dtype == list->cases[k].in[0].dtype)) return true;
    }
    list->cases[list->count++] = *one;
    return list->count < CASES_OF_AN_OP;
}

static case_list case_list_of(const pco_op_info *op)
{
    case_list list = {.op = op->op};
    conf_cases_visit(PCO_CONFORMANCE_STANDARD, op->name, case_collect, &list);
    return list;
}

/* The case as a graph: its operands are inputs, and those of floats are differentiated. */
static void case_build(gradient_case *c, const conf_case *one)
{
    uint32_t in[PCO_MAX_INPUTS];
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        const pco_tensor x = conf_operand_tensor(one, i);
        in[i] = PCO_NONE;
        if (!one->in[i].present) continue;
        const int64_t count = pco_tensor_elements(&x);
        void *data = malloc(x.bytes + 4);
        conf_operand_fill(one, i, conf_case_seed(one, 0), data);
        c->wrt[c->n_leaves] = pco_dtype_is_float(x.dtype);
        in[i] = leaf(c, (pco_dtype)x.dtype, 0, 1, x.rank, x.shape);
        oracle_decode(x.dtype, data, c->data[c->n_leaves - 1], count);
        free(data);
    }
    pco_graph_add(c->graph, one->op, one->attrs.bytes, in, one->n_inputs, c->out);
}

static void case_make(gradient_case *c, const conf_case *one)
{
    *c = (gradient_case){.graph = pco_graph_create(), .name = one->label, .seed = 20240607};
    for (uint32_t k = 0; k < MOST_OUTPUTS; k++) c->out[k] = PCO_NONE;
    case_build(c, one);
    gradient_finish(c);
}

/* Operands of cases may lie at a corner, or where a function is so steep that no difference tells its slope: two
 * quotients, of steps of 2^-10 and of 2^-13, do not agree there, and such an element is not judged. At most a tenth of
 * a case may be so. A loss that is NaN, as of a target that is no class, has no slope. The bound is that of
 * gradient_check_float64. */
static void case_check_float64(const gradient_case *c)
{
    pco_graph *lowered = eval_lowered(c->graph);
    double **values = gradient_values(c, lowered);
    int64_t judged = 0, all = 0;
    const bool has_slope = isfinite(values[pco_graph_find(lowered, "loss")][0]);
    for (uint32_t at = 0; at < c->n_leaves && has_slope; at++) {
        char name[16];
        if (!c->wrt[at]) continue;
        snprintf(name, sizeof name, "g%u", at);
        const double *g = values[pco_graph_find(lowered, name)];
        const int64_t count = oracle_count(&c->graph->tensors[c->leaf[at]]);
        double largest = 1;
        for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(g[i]));
        for (int64_t i = 0; i < count; i++, all++) {
            const double far = gradient_quotient(c, lowered, at, i, 0x1p-10);
            judged++;
            if (fabs(g[i] - far) <= 1e-6 * largest) continue;
            const double near = gradient_quotient(c, lowered, at, i, 0x1p-13);
            if (fabs(far - near) <= 1e-6 * largest)
                fail_msg("%s: d L / d in%u[%lld] is %.10g, the difference quotient says %.10g", c->name, at,
                         (long long)i, g[i], far);
            judged--;
        }
    }
    if (judged < all - all / 10)
        fail_msg("%s: %lld of %lld elements judged", c->name, (long long)judged, (long long)all);
    eval_free(lowered, values);
    pco_graph_destroy(lowered);
}

/* Does a graph of gradient_cases.h have the op? */
static int case_has_graph(uint32_t op)
{
    int found = 0;
    for (size_t i = 0; i < sizeof GRADIENT_ROWS / sizeof *GRADIENT_ROWS && !found; i++) {
        gradient_case c = {.graph = pco_graph_create(), .name = "", .seed = 1};
        GRADIENT_ROWS[i].build(&c);
        for (uint32_t k = 0; k < c.graph->n_nodes; k++) found |= c.graph->nodes[k].op == op;
        gradient_clear(&c);
    }
    return found;
}

/* Every op that says it has a rule, on its cases; on the device, too, where nothing else has its rule run there. */
static void test_cases(void **state)
{
    (void)state;
    uint32_t count;
    const pco_op_info *table = pco_op_table(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (!pco_op_gradient(table[i].op)) continue;
        case_list list = case_list_of(&table[i]);
        const int on_device = !case_has_graph(table[i].op);
        if (on_device && !list.count) fail_msg("the gradient of '%s' is not tried", table[i].name);
        for (uint32_t k = 0; k < list.count && (on_device || k < CASES_BESIDE_A_GRAPH); k++) {
            gradient_case c;
            case_make(&c, &list.cases[k]);
            case_check_float64(&c);
            if (on_device) device_case(&c);
            gradient_clear(&c);
        }
    }
}
