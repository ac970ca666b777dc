/* portico tokenizer: training tokenizers, and what they make of texts. */
#include "cli/model.h"
#include "cli/tokenize.h"

#include "base/error.h"
#include "text/vocabulary.h"
#include "train/pairs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tokenizer_arguments {
    const char *action, *file, *text, *out;
    int64_t size, columns[2];
    int kind, n_columns, no_special, target;
    tokenize_options tokenize;
} tokenizer_arguments;

/* The actions, as bits for which options say something. */
enum { ACTION_TRAIN = 1, ACTION_ENCODE = 2, ACTION_DECODE = 4, ACTION_BENCH = 8 };
static const char *const TOKENIZER_ACTIONS[] = {"train", "encode", "decode", "bench"};

enum { TOKENIZER_NONE = -1, TOKENIZER_BPE, TOKENIZER_CHAR };
static const char *const TOKENIZER_KINDS[] = {[TOKENIZER_BPE] = "bpe", [TOKENIZER_CHAR] = "char", NULL};

/* "2" or "1,2" */
static int tokenizer_columns(void *arguments, const char *option, const char *text)
{
    tokenizer_arguments *a = arguments;
    char *end;
    a->columns[0] = strtoll(text, &end, 10);
    a->n_columns = 1;
    if (end != text && *end == ',') {
        const char *second = end + 1;
        a->columns[1] = strtoll(second, &end, 10);
        a->n_columns = end == second ? 0 : 2;
    }
    if (a->n_columns && !*end && a->columns[0] > 0 && (a->n_columns == 1 || a->columns[1] > 0)) return 1;
    cli_error("option %s: '%s' is not one column or two, as in 2 or 1,2", option, text);
    return 0;
}

#define ARGUMENTS tokenizer_arguments
static const cli_option TOKENIZER_OPTIONS[] = {
    {CLI_OPERAND("'train', 'encode', 'decode' or 'bench'", ARGUMENTS, action), .uses = ~0u},
    {CLI_OPERAND(NULL, ARGUMENTS, file), .uses = ~0u},
    {CLI_OPERAND(NULL, ARGUMENTS, text), .uses = ACTION_ENCODE | ACTION_DECODE | ACTION_BENCH},
    {CLI_TEXT("--out", ARGUMENTS, out), .uses = ACTION_TRAIN},
    {CLI_WORD("--kind", ARGUMENTS, kind, TOKENIZER_KINDS), .uses = ACTION_TRAIN},
    {CLI_WHOLE("--size", ARGUMENTS, size, 256, 1 << 24), .uses = ACTION_TRAIN},
    {CLI_READ("--columns", tokenizer_columns), .uses = ACTION_TRAIN},
    {CLI_FLAG("--no-special", ARGUMENTS, no_special), .uses = ACTION_TRAIN},
    {CLI_FLAG("--lines", ARGUMENTS, tokenize.lines), .uses = ACTION_ENCODE | ACTION_DECODE},
    {CLI_FLAG("--json", ARGUMENTS, tokenize.json), .uses = ACTION_ENCODE | ACTION_DECODE | ACTION_BENCH},
    {CLI_FLAG("--special", ARGUMENTS, tokenize.special), .uses = ACTION_ENCODE},
    {CLI_FLAG("--ends", ARGUMENTS, tokenize.ends), .uses = ACTION_ENCODE},
    {CLI_FLAG("--target", ARGUMENTS, target), .uses = ACTION_ENCODE | ACTION_DECODE},
    {CLI_NUMBER("--seconds", ARGUMENTS, tokenize.seconds, 0, 3600), .uses = ACTION_BENCH},
};

static int tokenizer_parse(int argc, char **argv, tokenizer_arguments *a, unsigned *action)
{
    uint64_t given;
    if (cli_parse(&cli_tokenizer, argc, argv, a, &given)) return CLI_USAGE;
    *action = 0;
    for (unsigned i = 0; i < 4; i++)
        if (strcmp(a->action, TOKENIZER_ACTIONS[i]) == 0) *action = 1u << i;
    if (!*action) {
        cli_error("tokenizer: there is no action '%s', only train, encode, decode and bench; see portico tokenizer "
                  "--help",
                  a->action);
        return CLI_USAGE;
    }
    for (uint32_t i = 0; i < cli_tokenizer.n_options; i++) {
        if (!(given >> i & 1) || (TOKENIZER_OPTIONS[i].uses & *action)) continue;
        cli_error("tokenizer %s: %s is not for this action; see portico tokenizer --help", a->action,
                  TOKENIZER_OPTIONS[i].name ? TOKENIZER_OPTIONS[i].name : "a third word");
        return CLI_USAGE;
    }
    const int trains = *action == ACTION_TRAIN;
    const char *missing = !a->file                                         ? trains ? "a text file" : "a tokenizer"
                          : trains && !a->out                              ? "--out"
                          : trains && a->kind == TOKENIZER_NONE            ? "--kind"
                          : trains && a->kind == TOKENIZER_BPE && !a->size ? "--size"
                                                                           : NULL;
    if (!missing) return CLI_OK;
    cli_error("tokenizer %s: %s is missing; see portico tokenizer --help", a->action, missing);
    return CLI_USAGE;
}

/* The text to train on: the file, or its columns, a line each. */
static int tokenizer_text(const tokenizer_arguments *a, char **text, size_t *size)
{
    pco_pair *pairs = NULL;
    uint32_t count = 0;
    pco_error err = {""};
    if (!cli_read_text(a->file, text, size)) return 0;
    if (!a->n_columns) return 1;
    const pco_map map = {(const unsigned char *)*text, *size};
    const pco_pairs_params params = {{a->columns[0], a->columns[a->n_columns - 1]}, 0};
    char *joined = NULL;
    pco_status status = pco_pairs_read(&map, a->file, &params, &pairs, &count, &err);
    if (!status && !(joined = malloc(2 * *size + 2 * (size_t)count + 1)))
        status = pco_fail(&err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", a->file);
    *size = 0;
    for (uint32_t i = 0; i < count && !status; i++)
        for (int side = 0; side < a->n_columns; side++) {
            memcpy(joined + *size, pairs[i].text[side], pairs[i].size[side]);
            *size += pairs[i].size[side];
            joined[(*size)++] = '\n';
        }
    if (status) cli_fail(&err);
    free(pairs);
    free(*text);
    *text = joined;
    return !status;
}

static int tokenizer_train(const tokenizer_arguments *a)
{
    pco_vocabulary vocabulary = {0};
    pco_error err = {""};
    char *text = NULL;
    size_t size = 0;
    if (!tokenizer_text(a, &text, &size)) return CLI_FAILED;
    pco_status result = a->kind == TOKENIZER_BPE
                            ? pco_vocabulary_train_bpe(text, size, a->size, !a->no_special, &vocabulary, &err)
                            : pco_vocabulary_train_characters(text, size, !a->no_special, &vocabulary, &err);
    free(text);
    if (result) {
        cli_error("%s: %s", a->file, err.message);
        return CLI_FAILED;
    }
    result = pco_vocabulary_write(a->out, &vocabulary, &err);
    if (!result) printf("%s: %u tokens, %u merges\n", a->out, vocabulary.count, vocabulary.merge_count);
    pco_vocabulary_release(&vocabulary);
    return result ? cli_fail(&err) : CLI_OK;
}

/* encode, decode, bench */
static int tokenizer_use(const tokenizer_arguments *a, unsigned action)
{
    const tokenize_options *options = &a->tokenize;
    pco_tokenizer *tokenizer;
    pco_error err = {""};
    pco_writer out = {0};
    char *text = NULL;
    size_t size = 0;
    if (a->target ? pco_tokenizer_open_target(a->file, &tokenizer, &err)
                  : pco_tokenizer_open(a->file, &tokenizer, &err))
        return cli_fail(&err);
    int failed = !cli_read_text(a->text ? a->text : "-", &text, &size);
    if (!failed) {
        pco_status status = action == ACTION_ENCODE   ? tokenize_encode(tokenizer, text, size, options, &out, &err)
                            : action == ACTION_DECODE ? tokenize_decode(tokenizer, text, size, options, &out, &err)
                                                      : tokenize_bench(tokenizer, text, size, options, &out, &err);
        failed = status ? cli_fail(&err) : cli_print(&out);
        if (status) pco_writer_release(&out);
    }
    free(text);
    pco_tokenizer_destroy(tokenizer);
    return failed ? CLI_FAILED : CLI_OK;
}

static int tokenizer_run(int argc, char **argv)
{
    tokenizer_arguments a = {.kind = TOKENIZER_NONE, .tokenize.seconds = 1};
    unsigned action;
    int status = tokenizer_parse(argc, argv, &a, &action);
    if (status) return status;
    return action == ACTION_TRAIN ? tokenizer_train(&a) : tokenizer_use(&a, action);
}

const cli_command cli_tokenizer = {
    .name = "tokenizer",
    .summary = "trains a tokenizer on a text, and shows what one makes of texts",
    .help =
        "usage: portico tokenizer train FILE --kind bpe|char [--size N] --out F.json [--columns A[,B]] "
        "[--no-special]\n"
        "       portico tokenizer encode TOKENIZER [FILE] [--lines] [--json] [--special] [--ends] [--target]\n"
        "       portico tokenizer decode TOKENIZER [FILE] [--lines] [--json] [--target]\n"
        "       portico tokenizer bench TOKENIZER [FILE] [--seconds S] [--json]\n\n"
        "`train` writes a vocabulary that configs of portico train name as \"tokenizer\". `char`: each character of "
        "the text\n"
        "is a token. `bpe`: byte-level byte pair encoding (as GPT-2's), which has tokens for any text.\n\n"
        "  --size N        tokens of the BPE: 3 special ones, 256 bytes, and merges\n"
        "  --columns A,B   FILE has columns between tabs, and these are the text\n"
        "  --no-special    without the tokens <pad>, <s> and </s>, which pairs need\n\n"
        "`encode` prints the ids of the text in FILE (stdin), `decode` the text of the ids, `bench` how fast encode\n"
        "is. TOKENIZER is a GGUF file, a tokenizer.json, a SentencePiece model, a vocab.txt of BERT, or a folder as\n"
        "Hugging Face's.\n\n"
        "  --lines         each line of FILE is a text of its own; a line of ids for each\n"
        "  --json          each line is a JSON string, and a JSON list of ids; of bench: the figures\n"
        "  --special       control tokens that the text spells out become ids\n"
        "  --ends          what the model wants around a text, as BOS in front\n"
        "  --target        of a folder that has two, as Marian's, that of what is written\n"
        "  --seconds S     bench goes on that long (1)\n\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage.\n",
    CLI_OPTIONS(TOKENIZER_OPTIONS),
    .run = tokenizer_run,
};
