/* portico embed: texts or images in, one vector each out. */
#include "cli/images.h"
#include "cli/model.h"

#include "formats/json.h"
#include "formats/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct embed_arguments {
    const char *model, *prompt, *input, *output, *device, *adapter;
    cli_image_list images; /* their paths */
    int64_t context;
    int pooling, json, normalize, raw;
} embed_arguments;

static const char *const EMBED_POOLINGS[] = {"default", "mean", "cls", "last", NULL};

static int embed_image(void *arguments, const char *option, const char *value)
{
    (void)option;
    return cli_images_add(&((embed_arguments *)arguments)->images, value);
}

static const cli_option EMBED_OPTIONS[] = {
    {CLI_OPERAND("a model", embed_arguments, model)},
    {CLI_TEXT("--prompt", embed_arguments, prompt), .letter = "-p"},
    {CLI_TEXT("--input", embed_arguments, input)},
    {CLI_READ("--image", embed_image)},
    {CLI_WORD("--pooling", embed_arguments, pooling, EMBED_POOLINGS)},
    {CLI_FLAG("--normalize", embed_arguments, normalize)},
    {CLI_FLAG("--raw", embed_arguments, raw)},
    {CLI_FLAG("--json", embed_arguments, json)},
    {CLI_TEXT("--output", embed_arguments, output)},
    {CLI_WHOLE("--context", embed_arguments, context, 1, 1 << 24)},
    {CLI_TEXT("--adapter", embed_arguments, adapter)},
    {CLI_TEXT("--device", embed_arguments, device), .traits = CLI_MAY_BE_EMPTY},
};

static int embed_parse(int argc, char **argv, embed_arguments *a)
{
    if (cli_parse(&cli_embed, argc, argv, a, NULL)) return CLI_USAGE;
    const int texts = a->prompt || a->input;
    const char *wrong = a->prompt && a->input           ? "--prompt and --input exclude each other"
                        : a->images.count && texts      ? "--image excludes --prompt and --input"
                        : a->images.count && a->context ? "--context is for texts, and not for --image"
                        : a->json && a->output          ? "--json and --output exclude each other"
                        : a->normalize && a->raw        ? "--normalize and --raw exclude each other"
                        : texts || a->images.count      ? NULL
                        : isatty(STDIN_FILENO) ? "what to embed is missing: --prompt TEXT, --input FILE, --image FILE, "
                                                 "or lines on stdin"
                                               : NULL;
    if (wrong) cli_error("embed: %s", wrong);
    if (!texts && !a->images.count) a->input = "-";
    return wrong ? CLI_USAGE : CLI_OK;
}

/* The lines of text, which are cut apart in place; *lines (free) has *count of them. 0 without memory. */
static int embed_lines(char *text, size_t size, const char ***lines, size_t *count)
{
    *count = 0;
    size_t most = 1;
    for (size_t i = 0; i < size; i++) most += text[i] == '\n';
    *lines = malloc(most * sizeof **lines);
    if (!*lines) return 0;
    for (char *at = text, *end; at < text + size; at = end + 1) {
        end = strchr(at, '\n');
        if (!end) end = text + size;
        if (end > at && end[-1] == '\r') end[-1] = 0;
        *end = 0;
        (*lines)[(*count)++] = at;
    }
    return 1;
}

static int embed_progress(void *user, size_t done, size_t count)
{
    if (cli_terminal() || count > 1) cli_progress_update(user, done, count);
    return cli_interrupted() != 0;
}

static void embed_print(const float *rows, size_t count, int64_t width)
{
    for (size_t i = 0; i < count; i++)
        for (int64_t k = 0; k < width; k++)
            printf("%.9g%c", (double)rows[(int64_t)i * width + k], k + 1 < width ? ' ' : '\n');
}

static pco_status embed_json(const embed_arguments *a, const float *rows, size_t count, int64_t width)
{
    pco_writer text = {0};
    pco_json_writer json = {.out = &text};
    pco_json_begin_object(&json);
    pco_json_key(&json, "model");
    pco_json_write_string(&json, a->model);
    pco_json_key(&json, "width");
    pco_json_write_int(&json, width);
    pco_json_key(&json, "embeddings");
    pco_json_begin_array(&json);
    for (size_t i = 0; i < count; i++) {
        pco_json_begin_array(&json);
        for (int64_t k = 0; k < width; k++) pco_json_write_number(&json, (double)rows[(int64_t)i * width + k]);
        pco_json_end_array(&json);
    }
    pco_json_end_array(&json);
    pco_json_end_object(&json);
    const pco_status status = text.status;
    if (!status) fwrite(text.data, 1, text.size, stdout), putchar('\n');
    pco_writer_release(&text);
    return status;
}

/* Where the rows go, as the options say. */
static pco_status embed_write(const embed_arguments *a, const float *rows, size_t count, int64_t width, pco_error *err)
{
    const pco_weight array = {.dtype = PCO_F32,
                              .rank = 2,
                              .shape = {(int64_t)count, width},
                              .bytes = count * (size_t)width * sizeof *rows,
                              .data = rows};
    if (a->output) return pco_npy_write(a->output, &array, err);
    if (a->json) return embed_json(a, rows, count, width);
    embed_print(rows, count, width);
    return PCO_OK;
}

/* texts[count], or the images that were named. */
static int embed_all(pco_model *model, const embed_arguments *a, const char *const *texts, size_t count)
{
    const int of_images = a->images.count != 0;
    if (of_images) count = a->images.count;
    const int64_t width = pco_model_embedding_width(model, of_images, (pco_pooling)a->pooling);
    float *rows = malloc(count * (size_t)width * sizeof *rows + 1);
    cli_progress progress;
    const pco_embed_params params = {.size = sizeof params,
                                     .pooling = (pco_pooling)a->pooling,
                                     .normalize = a->normalize ? 1
                                                  : a->raw     ? -1
                                                               : 0,
                                     .progress = embed_progress,
                                     .progress_user = &progress};
    pco_error err = {""};
    size_t cut = 0;
    if (!rows) {
        cli_error("out of host memory for %zu embeddings", count);
        return CLI_FAILED;
    }
    cli_progress_start(&progress, "embedding", "");
    pco_status status = of_images ? pco_model_embed_images(model, a->images.items, count, &params, rows, &err)
                                  : pco_model_embed(model, texts, count, &params, rows, &cut, &err);
    cli_progress_end(&progress);
    if (!status && cut) cli_note("%zu of %zu texts were longer than the model reads, and cut\n", cut, count);
    if (!status) status = embed_write(a, rows, count, width, &err);
    free(rows);
    if (status == PCO_ERROR_CANCELLED) return CLI_OK;
    return status ? cli_fail(&err) : CLI_OK;
}

static int embed_run(int argc, char **argv)
{
    embed_arguments arguments = {0};
    pco_model *model = NULL;
    pco_error err = {""};
    char *text = NULL;
    const char **lines = NULL;
    size_t size = 0, count = 1;
    int status = embed_parse(argc, argv, &arguments);
    if (!status) status = cli_images_read(&arguments.images);
    if (status) {
        cli_images_release(&arguments.images);
        return status;
    }
    cli_watch_signals();
    if (arguments.input && !cli_read_text(arguments.input, &text, &size)) return cli_exit_status(CLI_FAILED);
    if (text && !embed_lines(text, size, &lines, &count)) {
        cli_error("out of host memory for %s", arguments.input);
        free(text);
        return CLI_FAILED;
    }
    pco_context *context = cli_context(arguments.device, &status);
    if (context) {
        pco_status opened =
            cli_open_any_model(context, arguments.model,
                               CLI_OPEN_ADAPTED(arguments.device, arguments.context, arguments.adapter), &model, &err);
        if (opened)
            status = opened == PCO_ERROR_CANCELLED ? CLI_OK : cli_fail(&err);
        else
            status = embed_all(model, &arguments, lines ? lines : &arguments.prompt, count);
    }
    pco_model_close(model);
    pco_context_destroy(context);
    cli_images_release(&arguments.images);
    free(lines);
    free(text);
    return cli_exit_status(status);
}

const cli_command cli_embed = {
    .name = "embed",
    .summary = "turn texts or images into vectors",
    .help = "usage: portico embed MODEL [--prompt TEXT | --input FILE | --image FILE ...] [OPTION ...]\n\n"
            "MODEL is an encoder (a folder of BERT and its kin, of ViT or CLIP), or any model that `portico\n"
            "run` takes. Each text gives one vector: what the last layer makes of its tokens, pooled; with\n"
            "ViT each image, with CLIP both, in the same space. stdout carries a line of numbers for each,\n"
            "unless an option says otherwise.\n\n"
            "  --prompt, -p TEXT   one text\n"
            "  --input FILE        each line is a text; `-`: stdin, which is also read when nothing says where\n"
            "                      the texts are\n"
            "  --image FILE        a PNG, JPEG or PNM file; may be given several times\n"
            "  --pooling P         mean, cls (the first token) or last (default: CLIP's projection, ViT's pooler or\n"
            "                      its class token; as the model's modules.json says, else mean)\n"
            "  --normalize         every vector to length 1 (default: as modules.json says, else not)\n"
            "  --raw               as they are, whatever modules.json says\n"
            "  --json              one JSON object with the list \"embeddings\"\n"
            "  --output FILE       a NumPy file, f32 [texts,width]\n"
            "  --context N         most tokens of a text (default: what the model says); longer texts are "
            "cut\n" CLI_ADAPTER_HELP "  --device D          as PORTICO_BACKEND, and before it\n\n"
            "Exit status: 0 done, 1 failed, 2 wrong usage.\n",
    CLI_OPTIONS(EMBED_OPTIONS),
    .run = embed_run,
};
