/* portico eval: how good a model is on a file. */
#include "cli/model.h"

#include "train/bleu.h"
#include "train/dates.h"
#include "train/pairs.h"

#include "base/error.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct eval_arguments {
    const char *model, *data, *device, *adapter;
    int64_t columns[2], limit, seed, wrong, context;
    double held_out;
    int json;
} eval_arguments;

enum { EVAL_NAMED = 10 }; /* lines of pairs that were left out which are named */

typedef struct eval_result {
    int64_t tokens, lines, exact; /* of the targets, or of the text */
    int64_t skipped;              /* pairs that do not fit into the model's context */
    uint32_t skipped_lines[EVAL_NAMED];
    double log_probability; /* sum, in nats */
    pco_bleu bleu;
} eval_result;

static pco_status eval_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for an evaluation");
}

/* ---- a text, for a language model ---- */

/* Windows of the model's context side by side, as in training: each token but the first is predicted once. */
static pco_status eval_windows(pco_model *model, const eval_arguments *a, const int32_t *ids, size_t count,
                               eval_result *result, pco_error *err)
{
    const int64_t context = model->context_length, vocab = model->file->spec.vocab_size[PCO_DECODER];
    float *logits = malloc((size_t)(context * vocab) * sizeof *logits);
    cli_progress progress;
    pco_status status = PCO_OK;
    if (!logits) return eval_no_memory(err);
    cli_progress_start(&progress, "evaluating", "tokens");
    for (int64_t at = 0; at + 1 < (int64_t)count && !status && !cli_interrupted(); at += context) {
        int64_t rows = (int64_t)count - 1 - at < context ? (int64_t)count - 1 - at : context;
        if (a->limit && result->lines >= a->limit) break;
        status = pco_model_logits(model, ids + at, (size_t)rows, logits, err);
        for (int64_t i = 0; i < rows && !status; i++)
            result->log_probability +=
                (double)logits[i * vocab + ids[at + i + 1]] - cli_log_total(logits + i * vocab, vocab);
        result->tokens += rows;
        result->lines++;
        cli_progress_update(&progress, (uint64_t)(at + rows), count);
    }
    cli_progress_end(&progress);
    free(logits);
    return status;
}

static int eval_text(pco_model *model, const eval_arguments *a, eval_result *result)
{
    char *text = NULL;
    size_t size = 0, count = 0;
    int32_t *ids = NULL;
    pco_error err = {""};
    if (!cli_read_text(a->data, &text, &size)) return CLI_FAILED;
    size_t begin = a->held_out > 0 ? (size_t)((double)size * (1 - a->held_out)) : 0; /* as training cuts it */
    while (begin < size && ((unsigned char)text[begin] & 0xC0) == 0x80) begin++;
    pco_status status = PCO_OK;
    if (size == 0 || pco_utf8_check(text, size) < size) {
        cli_error("%s: the file is %s", a->data, size ? "not UTF-8; convert it to UTF-8" : "empty");
        free(text);
        return CLI_FAILED;
    }
    status = pco_model_tokenize(model, text + begin, size - begin, 0, &ids, &count, &err);
    if (!status) status = eval_windows(model, a, ids, count, result, &err);
    free(ids);
    free(text);
    return status ? cli_fail(&err) : CLI_OK;
}

/* ---- pairs, for an encoder-decoder ---- */

typedef struct eval_answer {
    char *text;
    size_t size;
    int failed;
} eval_answer;

static int eval_piece(void *user, const char *text, size_t bytes)
{
    eval_answer *answer = user;
    char *grown = realloc(answer->text, answer->size + bytes + 1);
    if (!grown) return answer->failed = 1;
    memcpy(grown + answer->size, text, bytes);
    grown[answer->size += bytes] = 0;
    answer->text = grown;
    return cli_interrupted();
}

static void eval_print_wrong(const char *source, const char *target, const char *answer)
{
    const char *const texts[][2] = {{"wrong: ", source}, {"    is ", target}, {"   not ", answer}};
    for (int i = 0; i < 3; i++) {
        fputs(texts[i][0], stderr);
        cli_text(stderr, texts[i][1]);
        fputc('\n', stderr);
    }
}

static pco_status eval_pair(pco_model *model, const eval_arguments *a, const char *source, const char *target,
                            eval_result *result, pco_error *err)
{
    const pco_generate_params params = {.size = sizeof params};
    eval_answer answer = {calloc(1, 1), 0, 0};
    double *log_probs = NULL;
    size_t count = 0;
    pco_status status = answer.text ? PCO_OK : eval_no_memory(err);
    if (!status) status = pco_model_generate(model, source, &params, eval_piece, &answer, NULL, err);
    if (!status) status = pco_model_score(model, source, target, &log_probs, &count, err);
    if (!status && answer.failed) status = eval_no_memory(err);
    if (!status && !cli_interrupted()) { /* an answer that was cut short is none */
        for (size_t i = 0; i < count; i++) result->log_probability += log_probs[i];
        int exact = strcmp(answer.text, target) == 0;
        result->exact += exact;
        result->tokens += (int64_t)count;
        if (!exact && result->lines - result->exact < a->wrong) eval_print_wrong(source, target, answer.text);
        result->lines++;
        status = pco_bleu_add(&result->bleu, answer.text, &target, 1, err);
    }
    free(log_probs);
    free(answer.text);
    return status;
}

/* Do source and target fit into the model's context? As training leaves pairs out. */
static pco_status eval_fits(const pco_model *model, const pco_pair *pair, int *fits, pco_error *err)
{
    int32_t *ids[2] = {NULL, NULL};
    size_t count[2] = {0, 0};
    pco_status status = pco_model_tokenize(model, pair->text[0], pair->size[0], 1, &ids[0], &count[0], err);
    if (!status && !model->file->target)
        status = pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no tokenizer", model->file->path);
    if (!status)
        status = pco_tokenizer_encode(model->file->target, pair->text[1], pair->size[1], PCO_ENCODE_EOS, &ids[1],
                                      &count[1], err);
    *fits = (int64_t)count[0] <= model->context_length && (int64_t)count[1] <= model->context_length;
    free(ids[0]);
    free(ids[1]);
    return status;
}

static pco_status eval_line(pco_model *model, const eval_arguments *a, const pco_pair *pair, eval_result *result,
                            pco_error *err)
{
    int fits = 0;
    pco_status status = eval_fits(model, pair, &fits, err);
    if (!status && !fits) {
        if (result->skipped < EVAL_NAMED) result->skipped_lines[result->skipped] = pair->line;
        result->skipped++;
        return PCO_OK;
    }
    if (status) return status;
    char *source = strndup(pair->text[0], pair->size[0]), *target = strndup(pair->text[1], pair->size[1]);
    status = source && target ? eval_pair(model, a, source, target, result, err) : eval_no_memory(err);
    free(source);
    free(target);
    return status;
}

static int eval_dates(pco_model *model, const eval_arguments *a, eval_result *result)
{
    pco_dates *dates = pco_dates_create();
    pco_error err = {""};
    cli_progress progress;
    const int64_t count = a->limit ? a->limit : 1000;
    pco_status status = dates ? PCO_OK : eval_no_memory(&err);
    cli_progress_start(&progress, "evaluating", "dates");
    for (int64_t i = 0; i < count && !status && !cli_interrupted(); i++) {
        char written[PCO_DATES_WRITTEN], iso[PCO_DATES_ISO];
        pco_dates_pair(dates, PCO_DATES_TEST, (uint64_t)a->seed, (uint64_t)i, written, iso);
        status = eval_pair(model, a, written, iso, result, &err);
        cli_progress_update(&progress, (uint64_t)i + 1, (uint64_t)count);
    }
    cli_progress_end(&progress);
    pco_dates_destroy(dates);
    return status ? cli_fail(&err) : CLI_OK;
}

static int eval_lines(pco_model *model, const eval_arguments *a, eval_result *result)
{
    const pco_pairs_params params = {{a->columns[0], a->columns[1]}, a->held_out};
    pco_map map;
    pco_pair *pairs = NULL;
    uint32_t count = 0;
    cli_progress progress;
    pco_error err = {""};
    pco_status status = pco_map_open(a->data, &map, &err);
    if (status) return cli_fail(&err);
    status = pco_pairs_read(&map, a->data, &params, &pairs, &count, &err);
    cli_progress_start(&progress, "evaluating", "pairs");
    for (uint32_t i = 0; i < count && !status && !cli_interrupted(); i++) {
        const pco_pair *pair = &pairs[i];
        cli_progress_update(&progress, i + 1, count);
        if (a->held_out > 0 && !pair->held_out) continue;
        if (a->limit && result->lines >= a->limit) break;
        status = eval_line(model, a, pair, result, &err);
        if (status) pco_fail_prefix(&err, status, "%s:%u", a->data, pair->line);
    }
    cli_progress_end(&progress);
    free(pairs);
    pco_map_close(&map);
    return status ? cli_fail(&err) : CLI_OK;
}

/* ---- printing ---- */

/* "12 (lines 3, 8, 9 ...)" */
static void eval_print_skipped(const eval_result *r, int64_t context)
{
    const int64_t named = r->skipped < EVAL_NAMED ? r->skipped : EVAL_NAMED;
    printf("left out      %" PRId64 " pair%s longer than the model's context of %" PRId64 " tokens: line%s", r->skipped,
           r->skipped == 1 ? "" : "s", context, r->skipped == 1 ? "" : "s");
    for (int64_t i = 0; i < named; i++) printf("%s %u", i ? "," : "", r->skipped_lines[i]);
    printf("%s\n", named < r->skipped ? " ..." : "");
}

static void eval_print(const eval_arguments *a, const eval_result *r, int pairs, int64_t context)
{
    double precisions[PCO_BLEU_ORDER], brevity, bleu = pco_bleu_score(&r->bleu, &brevity, precisions);
    const double loss = -r->log_probability / (double)r->tokens, share = (double)r->exact / (double)r->lines;
    if (a->json) {
        printf("{\"tokens\":%" PRId64 ",\"loss\":%.9g,\"perplexity\":%.9g", r->tokens, loss, exp(loss));
        if (pairs)
            printf(",\"pairs\":%" PRId64 ",\"left_out\":%" PRId64 ",\"exact\":%" PRId64
                   ",\"exact_match\":%.9g,\"bleu\":%.9g",
                   r->lines, r->skipped, r->exact, share, bleu);
        printf("}\n");
        return;
    }
    printf("tokens        %" PRId64 "\nloss          %.5f nats for a token\nperplexity    %.4f\n", r->tokens, loss,
           exp(loss));
    if (!pairs) return;
    printf("exact match   %.2f %% (%" PRId64 " of %" PRId64 ")\n", 100 * share, r->exact, r->lines);
    printf("BLEU          %.2f (%.1f/%.1f/%.1f/%.1f, brevity penalty %.3f, %" PRId64 " tokens for %" PRId64
           "; 13a, exp smoothing, as sacreBLEU)\n",
           bleu, precisions[0], precisions[1], precisions[2], precisions[3], brevity, r->bleu.length,
           r->bleu.reference_length);
    if (r->skipped) eval_print_skipped(r, context);
}

static int eval_model(pco_context *context, const eval_arguments *a)
{
    pco_model *model;
    pco_error err = {""};
    eval_result result = {0};
    const int dates = strcmp(a->data, "dates") == 0;
    if (cli_open_model(context, a->model, CLI_OPEN_ADAPTED(a->device, a->context, a->adapter), &model, &err))
        return cli_fail(&err);
    const int pairs = model->seq2seq != NULL;
    int status = CLI_FAILED;
    if (dates && !pairs)
        cli_error("eval: dates are for an encoder-decoder, and %s continues text", a->model);
    else
        status = dates   ? eval_dates(model, a, &result)
                 : pairs ? eval_lines(model, a, &result)
                         : eval_text(model, a, &result);
    if (!status && result.tokens == 0) {
        if (result.skipped)
            cli_error("eval: nothing was evaluated: no pair fits into the model's context of %" PRId64
                      " tokens, and %" PRId64 " were left out",
                      model->context_length, result.skipped);
        else
            cli_error("eval: nothing was evaluated");
        status = CLI_FAILED;
    }
    if (cli_interrupted()) fputs("interrupted\n", stderr);
    if (!status) eval_print(a, &result, pairs, model->context_length);
    pco_model_close(model);
    return status;
}

static const cli_option EVAL_OPTIONS[] = {
    {CLI_OPERAND("a model", eval_arguments, model)},
    {CLI_TEXT("--data", eval_arguments, data)},
    {CLI_NUMBER("--held-out", eval_arguments, held_out, 0, 0.9)},
    {CLI_WHOLE("--context", eval_arguments, context, 1, 1 << 24)},
    {CLI_WHOLE("--limit", eval_arguments, limit, 1, INT32_MAX)},
    {CLI_WHOLE("--source-column", eval_arguments, columns[0], 1, INT32_MAX)},
    {CLI_WHOLE("--target-column", eval_arguments, columns[1], 1, INT32_MAX)},
    {CLI_WHOLE("--show-wrong", eval_arguments, wrong, 0, INT32_MAX)},
    {CLI_WHOLE("--seed", eval_arguments, seed, 0, INT32_MAX)},
    {CLI_FLAG("--json", eval_arguments, json)},
    {CLI_TEXT("--adapter", eval_arguments, adapter)},
    {CLI_TEXT("--device", eval_arguments, device), .traits = CLI_MAY_BE_EMPTY},
};

static int eval_parse(int argc, char **argv, eval_arguments *a)
{
    *a = (eval_arguments){.columns = {1, 2}};
    if (cli_parse(&cli_eval, argc, argv, a, NULL)) return CLI_USAGE;
    if (a->data) return CLI_OK;
    cli_error("eval: --data is missing; see portico eval --help");
    return CLI_USAGE;
}

static int eval_run(int argc, char **argv)
{
    eval_arguments arguments;
    int status = eval_parse(argc, argv, &arguments);
    if (status) return status;
    cli_watch_signals();
    pco_context *context = cli_context(arguments.device, &status);
    if (!context) return status;
    status = eval_model(context, &arguments);
    pco_context_destroy(context);
    return cli_exit_status(status);
}

const cli_command cli_eval = {
    .name = "eval",
    .summary = "measures a model on a file: perplexity, exact match, BLEU",
    .help = "usage: portico eval MODEL --data FILE [--adapter DIR] [--device D] [--held-out P] [--limit N] [--json]\n"
            "                    [--context N] [--source-column N] [--target-column N] [--show-wrong N] [--seed S]\n\n"
            "For an encoder-decoder FILE has a pair in each line, columns between tabs. Each source is answered, "
            "always\n"
            "with the likeliest token: the share of answers equal to the target, and BLEU as sacreBLEU defines "
            "it (13a\n"
            "tokens, case kept, exponential smoothing), and the perplexity of the targets. A model that "
            "continues text\n"
            "gets a text file, cut into windows of its context, and has a perplexity alone. Pairs that are longer "
            "than the\n"
            "model's context are left out, counted, and the first ten of them named by their lines.\n\n"
            "  --data FILE          `dates` stands for the built-in test dates, which no training uses\n"
            "  --held-out P         only what portico train holds out with \"held_out\": P\n"
            "  --context N          windows of N tokens (default: what the model says, at most 4096)\n"
            "  --limit N            at most N pairs, windows or dates (dates: 1000 by default)\n"
            "  --source-column N    column of the source (default 1); --target-column of the target (default 2)\n"
            "  --show-wrong N       print the first N answers that are wrong, on stderr\n"
            "  --seed S             other test dates (default 0)\n"
            "  --json               one JSON object\n"
            "  --adapter DIR        a low-rank adapter (LoRA) as PEFT and portico train write it\n"
            "  --device D           as PORTICO_BACKEND, and before it\n\n"
            "Exit status: 0 done, 1 failed, 2 wrong usage, 128 + N ended by signal N.\n",
    CLI_OPTIONS(EVAL_OPTIONS),
    .run = eval_run,
};
