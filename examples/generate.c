/* Continues a prompt: generate MODEL [PROMPT [TOKENS]]. The device is what PORTICO_BACKEND says. */
#include <portico/portico.h>

#include <stdio.h>
#include <stdlib.h>

static int print(void *user, const char *text, size_t bytes)
{
    fwrite(text, 1, bytes, user);
    return fflush(user) != 0; /* stop when nobody reads any more */
}

static int complain(const char *what, const pco_error *err)
{
    fprintf(stderr, "generate: %s: %s\n", what, err->message);
    return 1;
}

int main(int argc, char **argv)
{
    pco_context *context = NULL;
    pco_model *model = NULL;
    pco_model_info info = {.size = sizeof info};
    pco_generate_stats stats = {.size = sizeof stats};
    pco_error err;
    int failed = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [PROMPT [TOKENS]]\n", argv[0]);
        return 2;
    }
    const pco_generate_params params = {.size = sizeof params, .max_tokens = argc > 3 ? atoll(argv[3]) : 0};
    if (pco_context_create(NULL, &context, &err)) return complain("no context", &err);
    if (pco_model_open(context, argv[1], NULL, &model, &err)) {
        failed = complain("the model could not be opened", &err);
    } else if (pco_model_generate(model, argc > 2 ? argv[2] : "", &params, print, stdout, &stats, &err)) {
        failed = complain("generation failed", &err);
    } else {
        pco_model_describe(model, &info);
        fprintf(stderr, "\n%s on %s: %lld tokens in %.3f s\n", info.architecture, info.device,
                (long long)stats.generated_tokens, stats.generation_seconds);
    }
    pco_model_close(model);
    pco_context_destroy(context);
    return failed;
}
