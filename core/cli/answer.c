#include "cli/answer.h"

#include <math.h>
#include <stdio.h>

const char *cli_stop_reason(pco_stop_reason reason)
{
    static const char *const reasons[] = {"end", "max_tokens", "context", "callback", "stop"};
    return reasons[reason];
}

void cli_answer_begin(cli_answer *answer, pco_model *model, int64_t logprobs)
{
    *answer = (cli_answer){.model = model, .logprobs = logprobs};
    answer->json = (pco_json_writer){.out = &answer->tokens};
    pco_json_begin_array(&answer->json);
}

int cli_answer_text(void *user, const char *text, size_t bytes)
{
    pco_write(&((cli_answer *)user)->text, text, bytes);
    return cli_interrupted();
}

/* The members of one token; its object stays open. log softmax(logits)[id], in nats. */
static void answer_token(cli_answer *answer, int32_t id, double logprob)
{
    size_t bytes;
    const char *token = pco_model_token(answer->model, id, &bytes);
    pco_json_begin_object(&answer->json);
    pco_json_key(&answer->json, "id");
    pco_json_write_int(&answer->json, id);
    pco_json_key(&answer->json, "token");
    if (token)
        pco_json_write_bytes(&answer->json, token, bytes);
    else
        pco_json_write_null(&answer->json);
    if (answer->logprobs < 0) return;
    pco_json_key(&answer->json, "logprob");
    pco_json_write_number(&answer->json, logprob);
}

/* The likeliest first, the lower id of equals. */
static void answer_top(cli_answer *answer, const pco_token *token, double log_total)
{
    int32_t ids[CLI_MOST_LOGPROBS];
    int64_t count = 0;
    for (int64_t i = 0; i < token->vocab_size; i++) {
        int64_t at = count < answer->logprobs ? count++ : count;
        for (; at > 0 && token->logits[ids[at - 1]] < token->logits[i]; at--)
            if (at < count) ids[at] = ids[at - 1];
        if (at < count) ids[at] = (int32_t)i;
    }
    pco_json_key(&answer->json, "top");
    pco_json_begin_array(&answer->json);
    for (int64_t i = 0; i < count; i++) {
        answer_token(answer, ids[i], (double)token->logits[ids[i]] - log_total);
        pco_json_end_object(&answer->json);
    }
    pco_json_end_array(&answer->json);
}

int cli_answer_token(void *user, const pco_token *token)
{
    cli_answer *answer = user;
    const double log_total = answer->logprobs < 0 ? 0 : cli_log_total(token->logits, token->vocab_size);
    answer_token(answer, token->id, (double)token->logits[token->id] - log_total);
    if (answer->logprobs > 0) answer_top(answer, token, log_total);
    pco_json_end_object(&answer->json);
    return cli_interrupted();
}

void cli_answer_release(cli_answer *answer)
{
    pco_writer_release(&answer->text);
    pco_writer_release(&answer->tokens);
}

pco_status cli_answer_print(cli_answer *answer, const pco_generate_stats *stats, int *written, pco_error *err)
{
    pco_writer out = {0};
    pco_json_writer json = {.out = &out};
    pco_json_end_array(&answer->json);
    pco_json_begin_object(&json);
    pco_json_key(&json, "text");
    pco_json_write_bytes(&json, answer->text.data ? answer->text.data : "", answer->text.size);
    pco_json_key(&json, "stop_reason");
    pco_json_write_string(&json, cli_stop_reason(stats->stop_reason));
    pco_json_key(&json, "prompt_tokens");
    pco_json_write_int(&json, stats->prompt_tokens);
    pco_json_key(&json, "tokens");
    if (answer->tokens.data) pco_write(&out, answer->tokens.data, answer->tokens.size);
    pco_json_end_object(&json);
    pco_write_char(&out, '\n');
    pco_status status = pco_writer_check(&answer->text, "an answer", err);
    if (!status) status = pco_writer_check(&answer->tokens, "an answer", err);
    if (!status) status = pco_writer_check(&out, "an answer", err);
    *written = status || (fwrite(out.data, 1, out.size, stdout) == out.size && fflush(stdout) == 0);
    pco_writer_release(&out);
    cli_answer_release(answer);
    return status;
}

pco_status cli_answer_print_text(cli_answer *answer, int *written, pco_error *err)
{
    pco_write_char(&answer->text, '\n');
    const pco_status status = pco_writer_check(&answer->text, "an answer", err);
    *written =
        status || (fwrite(answer->text.data, 1, answer->text.size, stdout) == answer->text.size && fflush(stdout) == 0);
    cli_answer_release(answer);
    return status;
}
