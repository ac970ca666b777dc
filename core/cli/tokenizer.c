/* portico tokenizer: training tokenizers. */
#include "cli/model.h"

#include "base/error.h"
#include "text/vocabulary.h"
#include "train/pairs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tokenizer_arguments {
    const char *action, *file, *out;
    int64_t size, columns[2];
    int kind, n_columns, no_special;
} tokenizer_arguments;

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

static const cli_option TOKENIZER_OPTIONS[] = {
    {CLI_OPERAND("'train'", tokenizer_arguments, action)},
    {CLI_OPERAND(NULL, tokenizer_arguments, file)},
    {CLI_TEXT("--out", tokenizer_arguments, out)},
    {CLI_WORD("--kind", tokenizer_arguments, kind, TOKENIZER_KINDS)},
    {CLI_WHOLE("--size", tokenizer_arguments, size, 256, 1 << 24)},
    {CLI_READ("--columns", tokenizer_columns)},
    {CLI_FLAG("--no-special", tokenizer_arguments, no_special)},
};

static int tokenizer_parse(int argc, char **argv, tokenizer_arguments *a)
{
    if (cli_parse(&cli_tokenizer, argc, argv, a, NULL)) return CLI_USAGE;
    if (strcmp(a->action, "train") != 0) {
        cli_error("tokenizer: there is no action '%s', only 'train'; see portico tokenizer --help", a->action);
        return CLI_USAGE;
    }
    const char *missing = !a->file                               ? "a text file"
                          : !a->out                              ? "--out"
                          : a->kind == TOKENIZER_NONE            ? "--kind"
                          : a->kind == TOKENIZER_BPE && !a->size ? "--size"
                                                                 : NULL;
    if (!missing) return CLI_OK;
    cli_error("tokenizer train: %s is missing; see portico tokenizer --help", missing);
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

static int tokenizer_run(int argc, char **argv)
{
    tokenizer_arguments a = {.kind = TOKENIZER_NONE};
    pco_vocabulary vocabulary = {0};
    pco_error err = {""};
    char *text = NULL;
    size_t size = 0;
    int status = tokenizer_parse(argc, argv, &a);
    if (status) return status;
    if (!tokenizer_text(&a, &text, &size)) return CLI_FAILED;
    pco_status result = a.kind == TOKENIZER_BPE
                            ? pco_vocabulary_train_bpe(text, size, a.size, !a.no_special, &vocabulary, &err)
                            : pco_vocabulary_train_characters(text, size, !a.no_special, &vocabulary, &err);
    free(text);
    if (result) {
        cli_error("%s: %s", a.file, err.message);
        return CLI_FAILED;
    }
    result = pco_vocabulary_write(a.out, &vocabulary, &err);
    if (!result) printf("%s: %u tokens, %u merges\n", a.out, vocabulary.count, vocabulary.merge_count);
    pco_vocabulary_release(&vocabulary);
    return result ? cli_fail(&err) : CLI_OK;
}

const cli_command cli_tokenizer = {
    .name = "tokenizer",
    .summary = "trains a tokenizer on a text",
    .help = "usage: portico tokenizer train FILE --kind bpe|char [--size N] --out F.json [--columns A[,B]] "
            "[--no-special]\n\n"
            "Writes a vocabulary that configs of portico train name as \"tokenizer\". `char`: each character of "
            "the text\n"
            "is a token. `bpe`: byte-level byte pair encoding (as GPT-2's), which has tokens for any text.\n\n"
            "  --size N        tokens of the BPE: 3 special ones, 256 bytes, and merges\n"
            "  --columns A,B   FILE has columns between tabs, and these are the text\n"
            "  --no-special    without the tokens <pad>, <s> and </s>, which pairs need\n\n"
            "Exit status: 0 done, 1 failed, 2 wrong usage.\n",
    CLI_OPTIONS(TOKENIZER_OPTIONS),
    .run = tokenizer_run,
};
