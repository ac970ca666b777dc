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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list), cmocka_unit_test(test_mistakes),
                                       cmocka_unit_test(test_text)};
    return cmocka_run_group_tests_name("variant", tests, NULL, NULL);
}
