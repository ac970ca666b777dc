#include "cli/prompts.h"

#include "base/grow.h"
#include "cli/answer.h"
#include "cli/lines.h"
#include "formats/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies it. */
static pco_status prompts_add(cli_prompts *prompts, const char *text, pco_error *err)
{
    char **grown = pco_grow(prompts->texts, prompts->count, &prompts->room, sizeof *grown);
    if (grown) prompts->texts = grown;
    char *copy = grown ? strdup(text) : NULL;
    if (!copy) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the prompts");
    prompts->texts[prompts->count++] = copy;
    return PCO_OK;
}

static pco_status prompts_text(void *user, const char *line, pco_error *err) { return prompts_add(user, line, err); }

static pco_status prompts_json(void *user, const char *line, pco_error *err)
{
    cJSON *root = NULL;
    const char *text = NULL;
    if (!line[strspn(line, " \t")]) return PCO_OK; /* an empty line says nothing, in a file of JSON */
    pco_status status = pco_json_parse(line, strlen(line), "a prompt", &root, err);
    if (status) return status;
    if (cJSON_IsString(root))
        text = root->valuestring;
    else if (cJSON_IsObject(root))
        status = pco_json_string(root, "a prompt", "prompt", &text, err);
    else
        status = pco_fail(err, PCO_ERROR_FORMAT, "a prompt is a JSON string, or an object with \"prompt\"");
    if (!status) status = prompts_add(user, text, err);
    cJSON_Delete(root);
    return status;
}

pco_status cli_read_prompts(const char *path, cli_prompts *prompts, pco_error *err)
{
    const size_t length = strlen(path);
    const int json = length > 6 && strcmp(path + length - 6, ".jsonl") == 0;
    *prompts = (cli_prompts){0};
    pco_status status = cli_each_line(path, json ? prompts_json : prompts_text, prompts, NULL, err);
    if (status || prompts->count || cli_interrupted()) return status;
    return pco_fail(err, PCO_ERROR_INVALID, "%.800s has no prompt", path);
}

void cli_prompts_release(cli_prompts *prompts)
{
    for (size_t i = 0; i < prompts->count; i++) free(prompts->texts[i]);
    free(prompts->texts);
    *prompts = (cli_prompts){0};
}

/* All answers, those that are under way and those that wait for one before them. */
typedef struct prompts_batch prompts_batch;
typedef struct prompts_answer {
    cli_answer answer;
    prompts_batch *batch;
    int whole;
    pco_generate_stats stats;
} prompts_answer;

struct prompts_batch {
    const cli_answers *how;
    prompts_answer *answers; /* [count] */
    size_t count, printed;
    pco_status status; /* of what failed in a callback */
    pco_error *err;
};

static int prompts_receive(void *user, const char *text, size_t bytes)
{
    prompts_answer *a = user;
    return cli_answer_text(&a->answer, text, bytes);
}

static int prompts_token(void *user, const pco_token *token)
{
    prompts_answer *a = user;
    return cli_answer_token(&a->answer, token);
}

static int prompts_progress(void *user, int64_t done, int64_t count)
{
    (void)user;
    (void)done;
    (void)count;
    return cli_interrupted();
}

/* Prints those whose turn it is. An answer that a signal cut is none. */
static int prompts_whole(void *user, const pco_generate_stats *stats)
{
    prompts_answer *a = user;
    prompts_batch *b = a->batch;
    if (cli_interrupted()) return 1;
    a->whole = 1;
    a->stats = *stats;
    while (!b->status && b->printed < b->count && b->answers[b->printed].whole && !*b->how->broken) {
        int written = 1;
        prompts_answer *next = &b->answers[b->printed++];
        b->status = b->how->json ? cli_answer_print(&next->answer, &next->stats, &written, b->err)
                                 : cli_answer_print_text(&next->answer, &written, b->err);
        *b->how->broken |= !written;
        if (!b->status) b->how->each(b->how->user, &next->stats);
    }
    return b->status || *b->how->broken;
}

pco_status cli_answer_prompts(pco_model *model, const cli_prompts *prompts, const cli_answers *how,
                              pco_generate_stats *stats, pco_error *err)
{
    pco_generate_params params = *how->params;
    prompts_batch b = {.how = how, .count = prompts->count, .err = err};
    b.answers = calloc(prompts->count, sizeof *b.answers);
    void **users = calloc(prompts->count, sizeof *users);
    pco_status status =
        b.answers && users ? PCO_OK : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the answers");
    for (size_t i = 0; !status && i < prompts->count; i++) {
        b.answers[i].batch = &b;
        users[i] = &b.answers[i];
        cli_answer_begin(&b.answers[i].answer, model, how->logprobs);
    }
    if (how->json) params.token = prompts_token;
    params.progress = model->causal ? prompts_progress : NULL;
    if (!status)
        status = pco_model_generate_batch(model, (const char *const *)prompts->texts, prompts->count, &params,
                                          prompts_receive, prompts_whole, users, stats, err);
    if (status == PCO_ERROR_CANCELLED && cli_interrupted()) status = PCO_OK;
    for (size_t i = 0; b.answers && i < prompts->count; i++) cli_answer_release(&b.answers[i].answer);
    free(b.answers);
    free(users);
    return status ? status : b.status;
}
