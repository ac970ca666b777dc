/* portico convert: models as GGUF files or folders of Hugging Face, in other types. */
#include "cli/cli.h"

#include "base/dtype.h"
#include "base/env.h"
#include "base/file.h"
#include "base/utf8.h"
#include "formats/json.h"
#include "models/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct convert_arguments {
    const char *in, *out, *adapter;
    int32_t type, output_type;
    int json;
} convert_arguments;

static int convert_read_type(const char *option, const char *value, int32_t *type)
{
    pco_dtype dtype;
    pco_error err;
    if (pco_dtype_from_name(value, &dtype, &err)) {
        cli_error("convert: %s: %s", option, err.message);
        return 0;
    }
    *type = (int32_t)dtype;
    return 1;
}

static int convert_read_all(void *arguments, const char *option, const char *value)
{
    return convert_read_type(option, value, &((convert_arguments *)arguments)->type);
}

static int convert_read_output(void *arguments, const char *option, const char *value)
{
    return convert_read_type(option, value, &((convert_arguments *)arguments)->output_type);
}

static const cli_option CONVERT_OPTIONS[] = {
    {CLI_OPERAND("a model", convert_arguments, in)},
    {CLI_OPERAND("a file or folder to write", convert_arguments, out)},
    {CLI_READ("--type", convert_read_all), .letter = "-t"},
    {CLI_READ("--output-type", convert_read_output)},
    {CLI_TEXT("--adapter", convert_arguments, adapter)},
    {CLI_FLAG("--json", convert_arguments, json)},
};

static int convert_progress(void *user, uint64_t done, uint64_t total)
{
    cli_progress_update(user, done >> 20, total >> 20);
    return cli_interrupted() != 0;
}

static void convert_print(const convert_arguments *a, const pco_convert_result *result)
{
    FILE *to = strcmp(a->out, "/dev/stdout") == 0 ? stderr : stdout;
    char in[32], out[32];
    fprintf(to, "%s: %s of tensors as ", a->out, cli_bytes(result->bytes_out, out));
    int begun = 0;
    for (uint32_t dtype = 0; dtype < PCO_DTYPE_COUNT; dtype++)
        if (result->tensors[dtype])
            fprintf(to, "%s%s (%" PRIu32 ")", begun++ ? ", " : "", pco_dtype_name(dtype), result->tensors[dtype]);
    fprintf(to, "; %s before\n", cli_bytes(result->bytes_in, in));
    if (result->odd)
        fprintf(to,
                "%" PRIu32 " matrices have rows that are not whole blocks of %s, and got the nearest type that fits\n",
                result->odd, pco_dtype_name((uint32_t)a->type));
    if (result->no_tokenizer)
        fprintf(to, "the folder has no tokenizer, and so the file has none: it runs from ids only\n");
    if (result->other_ids)
        fprintf(to,
                "the tokenizer normalises texts, which GGUF cannot say: texts that are not normalised get other ids\n");
    if (result->requants)
        fprintf(to, "%" PRIu32 " matrices were quantised before; what that lost stays lost\n", result->requants);
}

static int convert_json(const convert_arguments *a, const pco_convert_result *result)
{
    pco_writer text = {0};
    pco_json_writer json = {.out = &text};
    pco_json_begin_object(&json);
    pco_json_key(&json, "file");
    pco_json_write_string(&json, a->out);
    pco_json_key(&json, "bytes");
    pco_json_write_int(&json, (int64_t)result->bytes_out);
    pco_json_key(&json, "bytes_before");
    pco_json_write_int(&json, (int64_t)result->bytes_in);
    pco_json_key(&json, "tensors");
    pco_json_begin_object(&json);
    for (uint32_t dtype = 0; dtype < PCO_DTYPE_COUNT; dtype++)
        if (result->tensors[dtype]) {
            pco_json_key(&json, pco_dtype_name(dtype));
            pco_json_write_int(&json, result->tensors[dtype]);
        }
    pco_json_end_object(&json);
    pco_json_key(&json, "other_type");
    pco_json_write_int(&json, result->odd);
    pco_json_key(&json, "quantised_again");
    pco_json_write_int(&json, result->requants);
    pco_json_key(&json, "no_tokenizer");
    pco_json_write_bool(&json, result->no_tokenizer);
    pco_json_key(&json, "other_ids");
    pco_json_write_bool(&json, result->other_ids);
    pco_json_end_object(&json);
    pco_write_char(&text, '\n');
    return cli_print(&text);
}

/* A name that is no file's, or a folder's. */
static int convert_wants_folder(const char *out)
{
    if (pco_is_directory(out)) return 1;
    return !pco_text_ends_like(out, ".gguf") && access(out, F_OK) != 0;
}

static int convert_run(int argc, char **argv)
{
    convert_arguments arguments = {.type = PCO_CONVERT_KEEP, .output_type = PCO_CONVERT_KEEP};
    pco_convert_result result;
    cli_progress progress;
    pco_config config;
    pco_error err = {""};
    if (cli_parse(&cli_convert, argc, argv, &arguments, NULL)) return CLI_USAGE;
    if (arguments.output_type >= 0 && arguments.type < 0) {
        cli_error("convert: --output-type needs --type");
        return CLI_USAGE;
    }
    if (pco_config_read(&config, &err)) {
        cli_fail(&err);
        return CLI_USAGE;
    }
    cli_watch_signals();
    cli_progress_start(&progress, "converting", "MiB");
    const pco_convert_options options = {.type = arguments.type,
                                         .output_type = arguments.output_type,
                                         .adapter = arguments.adapter,
                                         .threads = config.threads,
                                         .progress = convert_progress,
                                         .user = &progress};
    const int folder = convert_wants_folder(arguments.out);
    const pco_status done = folder ? pco_convert_to_folder(arguments.in, arguments.out, &options, &result, &err)
                                   : pco_convert_to_gguf(arguments.in, arguments.out, &options, &result, &err);
    cli_progress_end(&progress);
    if (done == PCO_ERROR_CANCELLED) return cli_exit_status(CLI_OK);
    if (done) return cli_exit_status(cli_fail(&err));
    if (arguments.json) return convert_json(&arguments, &result);
    convert_print(&arguments, &result);
    return CLI_OK;
}

const cli_command cli_convert = {
    .name = "convert",
    .summary = "write a model as a GGUF file or a folder of Hugging Face, in another type",
    .help =
        "usage: portico convert MODEL FILE.gguf|FOLDER [OPTION ...]\n\n"
        "MODEL is a GGUF file (the first of several, too), a checkpoint of llama2.c, or the folder of a language\n"
        "model or an encoder-decoder: of Hugging Face, or of portico train. FILE.gguf is read by llama.cpp, too,\n"
        "and FOLDER by transformers: it has config.json, model.safetensors and the tokenizer, and must not be\n"
        "there yet, or be empty. What is written is read back, and is there whole or not at all.\n\n"
        "  --type, -t T        for all matrices: f32, f16, bf16, q8_0, q6_k, q5_k, q4_k and so on (default: each\n"
        "                      as it is). Vectors stay f32; a matrix whose rows are not whole blocks of T gets\n"
        "                      the nearest type that fits. In a folder f32, f16 or bf16; what is quantised becomes\n"
        "                      f32 there if nothing is said\n"
        "  --output-type T     for the output projection, or the embeddings where they are it (default: q6_k where\n"
        "                      --type has fewer bits, else as --type)\n"
        "  --adapter DIR       a low-rank adapter (LoRA), merged into the matrices before they get their type\n"
        "  --json              what was written as one JSON object\n\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage.\n",
    CLI_OPTIONS(CONVERT_OPTIONS),
    .run = convert_run,
};
