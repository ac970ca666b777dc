/* test_smollm2 GOLDENS.safetensors MODEL.gguf: SmolLM2-135M-Instruct on the device that PORTICO_BACKEND picks, against
 * transformers in float64 (tests/golden/make_smollm2.py, which says which logits are looked at, and why they suffice).
 * Skipped (77) where the file is not: scripts/fetch-models smollm2 downloads it. */
#include "models_test.h"

#include "formats/safetensors.h"

#include <portico/portico.h>
#include <unistd.h>

enum { POSITIONS = 64, COLUMNS = 256, STEP = 192, TOP = 32, VOCAB = COLUMNS * STEP };

/* |y - want| <= 1e-4 (|want| + rms of the row), as for all whole models (test_families has the derivation). */
static pco_weights *goldens;
static pco_context *context;
static pco_model *model;

static const pco_weight *golden(const char *name, uint64_t count)
{
    const pco_weight *found = pco_weights_find(goldens, name);
    if (!found || !found->data) fail_msg("no golden '%s'", name);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < found->rank; i++) elements *= (uint64_t)found->shape[i];
    if (count) assert_int_equal(elements, count);
    return found;
}

static double ratio_of(float y, float want, double rms)
{
    const double error = fabs((double)y - (double)want) / (MODELS_TOLERANCE * (fabs((double)want) + rms));
    return error == error ? error : INFINITY;
}

static void test_logits(void **state)
{
    const int32_t *ids = golden("ids", POSITIONS)->data, *top_ids = golden("top_ids", POSITIONS * TOP)->data;
    const float *want = golden("logits", POSITIONS * COLUMNS)->data, *top = golden("top", POSITIONS * TOP)->data;
    const double *rms = golden("rms", POSITIONS)->data;
    double worst = 0;
    float *logits = malloc(sizeof(float) * POSITIONS * VOCAB);
    (void)state;
    check_ok(pco_model_logits(model, ids, POSITIONS, logits, &err));
    for (int p = 0; p < POSITIONS; p++) {
        const float *row = logits + (size_t)p * VOCAB;
        double squares = 0;
        for (int k = 0; k < COLUMNS; k++)
            worst = fmax(worst, ratio_of(row[STEP * k + 3 * p + k % 3], want[p * COLUMNS + k], rms[p]));
        for (int k = 0; k < TOP; k++)
            worst = fmax(worst, ratio_of(row[top_ids[p * TOP + k]], top[p * TOP + k], rms[p]));
        for (int i = 0; i < VOCAB; i++) squares += (double)row[i] * (double)row[i];
        worst = fmax(worst, ratio_of((float)sqrt(squares / VOCAB), (float)rms[p], rms[p]));
    }
    print_message("  error / bound %.4f over %d positions\n", worst, POSITIONS);
    free(logits);
    assert_true(worst <= 1);
}

typedef struct smol_ids {
    const int32_t *want;
    int64_t count, right;
} smol_ids;

static int smol_token(void *user, const pco_token *token)
{
    smol_ids *ids = user;
    ids->right += token->step < ids->count && token->id == ids->want[token->step];
    return 0;
}

/* The reference's lead of each token is 24 times what two logits within the bound may differ by, at least. */
static void check_greedy(const int32_t *prompt, size_t n_prompt, const char *text, const char *name)
{
    const pco_weight *want = golden(name, 0);
    smol_ids ids = {.want = want->data, .count = (int64_t)want->shape[0]};
    const pco_generate_params params = {.size = sizeof params,
                                        .max_tokens = ids.count,
                                        .prompt_ids = prompt,
                                        .prompt_count = n_prompt,
                                        .token = smol_token};
    check_ok(pco_model_generate(model, text, &params, NULL, &ids, NULL, &err));
    assert_int_equal(ids.right, ids.count);
}

static void test_greedy(void **state)
{
    const pco_weight *prompt = golden("prompt", 0);
    (void)state;
    check_greedy(prompt->data, (size_t)prompt->shape[0], NULL, "answer");
    check_greedy(NULL, 0, "The capital of France is", "paris");
}

static int smol_open(char *const paths[2])
{
    pco_error err = {""};
    const pco_model_params params = {.size = sizeof params, .context_length = 256};
    if (!pco_safetensors_open(paths[0], &goldens, &err) && !pco_context_create(NULL, &context, &err) &&
        !pco_model_open(context, paths[1], &params, &model, &err))
        return 0;
    fprintf(stderr, "%s\n", err.message);
    return -1;
}

static void smol_close(void)
{
    pco_model_close(model);
    pco_context_destroy(context);
    pco_weights_close(goldens);
}

int main(int argc, char **argv)
{
    char *paths[2] = {argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : ""};
    if (!*paths[1] || access(paths[1], R_OK) != 0) {
        printf("skipped: there is no %s; scripts/fetch-models smollm2 downloads it\n", *paths[1] ? paths[1] : "model");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_logits), cmocka_unit_test(test_greedy)};
    if (smol_open(paths)) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    smol_close();
    return failed;
}
