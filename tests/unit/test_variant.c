/* Variants: what a plugin lists is looked at, people's names for them, and picking them by these. */
#include "check.h"

#include "runtime/variant.h"

static pco_variant listed[2];

static uint32_t list(pco_device *device, const pco_part *part, uint32_t node, pco_variant *variants, uint32_t capacity)
{
    (void)device, (void)part, (void)node;
    for (uint32_t i = 0; i < 2 && i < capacity; i++) variants[i] = listed[i];
    return 2;
}

static const pco_program_api PROGRAM = {.size = sizeof PROGRAM, .variants = list}, WITHOUT = {.size = sizeof WITHOUT};
static const pco_device_info INFO = {
    .size = sizeof INFO, .subgroup_min = 8, .subgroup_max = 32, .features = PCO_FEATURE_SUBGROUPS};

static pco_status ask(const pco_program_api *program, pco_variant *variants, uint32_t *count, pco_error *err)
{
    const pco_plugin plugin = {.size = sizeof plugin, .program = program};
    const pco_open_device on = {.plugin = &plugin, .info = &INFO};
    const pco_node node = {.op = PCO_OP_SOFTMAX, .name = "s"};
    const pco_part part = {.size = sizeof part, .n_nodes = 1, .nodes = &node};
    return pco_variants(&on, &part, 0, variants, count, err);
}

static void test_list(void **state)
{
    (void)state;
    pco_variant variants[PCO_VARIANTS];
    uint32_t count;
    listed[0] = (pco_variant){.name = "rows", .needs = PCO_FEATURE_SUBGROUPS};
    listed[1] = (pco_variant){.name = "rows", .needs = PCO_FEATURE_SUBGROUPS, .subgroup_width = 16};
    check_ok(ask(&PROGRAM, variants, &count, &err));
    assert_int_equal(count, 2);
    assert_int_equal(pco_variant_find(variants, count, &listed[1]), 1);
    check_ok(ask(&WITHOUT, variants, &count, &err));
    assert_int_equal(count, 1);
    assert_string_equal(variants[0].name, "default");
    assert_int_equal(pco_variant_find(variants, count, &listed[1]), PCO_NONE);
}

static void test_mistakes(void **state)
{
    (void)state;
    static const struct {
        pco_variant variant;
        const char *says;
    } MISTAKES[] = {{{.name = NULL}, "a variant without a name for node 's' (softmax)"},
                    {{.name = ""}, "''"},
                    {{.name = "rows@32"}, "'rows@32' for node 's' (softmax), which is not made of"},
                    {{.name = "a_name_of_more_characters_than_31"}, "which is not made of"},
                    {{.name = "x", .form = 3}, "form"},
                    {{.name = "x", .subgroup_width = 12}, "width"},
                    {{.name = "x", .subgroup_width = 4}, "width"},
                    {{.name = "x", .subgroup_width = 64}, "width"},
                    {{.name = "x", .needs = PCO_FEATURE_F64}, "features"},
                    {{.name = "rows", .needs = PCO_FEATURE_SUBGROUPS}, "'rows' for node 's' (softmax), twice"}};
    listed[0] = (pco_variant){.name = "rows"};
    for (size_t i = 0; i < sizeof MISTAKES / sizeof *MISTAKES; i++) {
        pco_variant variants[PCO_VARIANTS];
        uint32_t count;
        listed[1] = MISTAKES[i].variant;
        check_fails(ask(&PROGRAM, variants, &count, &err), PCO_ERROR_INTERNAL, MISTAKES[i].says);
    }
}

/* A text belongs to one variant only: verdicts are kept under it, and reports have it. */
static void test_text(void **state)
{
    (void)state;
    static const struct {
        pco_variant variant;
        const char *text;
    } TEXTS[] = {{{.name = "gemv"}, "gemv"},
                 {{.name = "gemv_subgroup", .subgroup_width = 32}, "gemv_subgroup@32"},
                 {{.name = "register", .form = PCO_FORM_GPU}, "register@gpu"},
                 {{.name = "register", .form = PCO_FORM_CPU}, "register@cpu"},
                 {{.name = "rows", .form = PCO_FORM_GPU, .subgroup_width = 8}, "rows@8@gpu"}};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        char text[PCO_VARIANT_TEXT];
        assert_string_equal(pco_variant_text(&TEXTS[i].variant, text), TEXTS[i].text);
        for (size_t k = 0; k < sizeof TEXTS / sizeof *TEXTS; k++)
            assert_int_equal(pco_variant_matches(&TEXTS[i].variant, TEXTS[k].text), i == k);
        assert_true(pco_variant_matches(&TEXTS[i].variant, NULL));
    }
    assert_true(pco_variant_matches(&TEXTS[1].variant, "gemv*"));
    assert_false(pco_variant_matches(&TEXTS[2].variant, "*@cpu"));
}

static const pco_tunable *tunables_listed;
static uint32_t n_tunables_listed;

static uint32_t list_tunables(pco_device *device, uint32_t op, const char *variant, pco_tunable *tunables,
                              uint32_t capacity)
{
    (void)device;
    assert_int_equal(op, PCO_OP_SOFTMAX);
    assert_string_equal(variant, "rows");
    for (uint32_t i = 0; i < n_tunables_listed && i < capacity; i++) tunables[i] = tunables_listed[i];
    return n_tunables_listed;
}

static pco_status tune(pco_device *device, uint32_t op, const char *variant, const char *tunable, uint32_t value,
                       pco_error *err)
{
    (void)device, (void)op, (void)variant, (void)tunable, (void)value, (void)err;
    return PCO_OK;
}

static pco_status ask_tunables(const pco_program_api *program, const pco_tunable *listing, uint32_t n,
                               pco_tunable *tunables, uint32_t *count, pco_error *err)
{
    const pco_plugin plugin = {.size = sizeof plugin, .program = program};
    const pco_open_device on = {.plugin = &plugin, .info = &INFO};
    const pco_variant rows = {.name = "rows"};
    tunables_listed = listing;
    n_tunables_listed = n;
    return pco_variant_tunables(&on, PCO_OP_SOFTMAX, &rows, tunables, count, err);
}

static void test_tunables(void **state)
{
    (void)state;
    static const uint32_t VALUES[] = {8, 16, 32}, FALLING[] = {16, 8}, SAME[] = {8, 8};
    static const pco_tunable GOOD[] = {{"lanes", 16, 3, VALUES}, {"workgroup", 8, 2, VALUES}};
    static const struct {
        pco_tunable tunable;
        const char *says;
    } MISTAKES[] = {{{NULL, 16, 3, VALUES}, "name"},
                    {{"Lanes", 16, 3, VALUES}, "'Lanes' for variant 'rows' of softmax, whose name"},
                    {{"lanes", 16, 3, VALUES}, "twice"},
                    {{"x", 8, 1, VALUES}, "no two values"},
                    {{"x", 8, 2, NULL}, "no two values"},
                    {{"x", 8, 2, FALLING}, "ascend"},
                    {{"x", 8, 2, SAME}, "ascend"},
                    {{"x", 64, 3, VALUES}, "initial"}};
    static const pco_program_api ALL = {.size = sizeof ALL, .tunables = list_tunables, .tune = tune},
                                 HALF = {.size = sizeof HALF, .tunables = list_tunables};
    pco_tunable tunables[PCO_TUNABLES], listing[2] = {GOOD[0]};
    uint32_t count;
    check_ok(ask_tunables(&ALL, GOOD, 2, tunables, &count, &err));
    assert_int_equal(count, 2);
    assert_string_equal(tunables[1].name, "workgroup");
    check_ok(ask_tunables(&HALF, GOOD, 2, tunables, &count, &err)); /* nobody could set them */
    assert_int_equal(count, 0);
    check_ok(ask_tunables(&WITHOUT, GOOD, 2, tunables, &count, &err));
    assert_int_equal(count, 0);
    for (size_t i = 0; i < sizeof MISTAKES / sizeof *MISTAKES; i++) {
        listing[1] = MISTAKES[i].tunable;
        check_fails(ask_tunables(&ALL, listing, 2, tunables, &count, &err), PCO_ERROR_INTERNAL, MISTAKES[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list), cmocka_unit_test(test_mistakes),
                                       cmocka_unit_test(test_text), cmocka_unit_test(test_tunables)};
    return cmocka_run_group_tests_name("variant", tests, NULL, NULL);
}
