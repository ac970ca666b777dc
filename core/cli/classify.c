/* portico classify: images in, labels out. */
#include "cli/images.h"
#include "cli/model.h"
#include "formats/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct classify_arguments {
    const char *model, *labels, *labels_file, *device;
    cli_image_list images;
    int64_t top;
    int json;
} classify_arguments;

static int classify_image(void *arguments, const char *option, const char *value)
{
    (void)option;
    return cli_images_add(&((classify_arguments *)arguments)->images, value);
}

static const cli_option CLASSIFY_OPTIONS[] = {
    {CLI_OPERAND("a model", classify_arguments, model)},
    {CLI_OPERANDS("an image", classify_image)},
    {CLI_TEXT("--labels", classify_arguments, labels)},
    {CLI_TEXT("--labels-file", classify_arguments, labels_file)},
    {CLI_WHOLE("--top", classify_arguments, top, 1, 1 << 20), .letter = "-k"},
    {CLI_FLAG("--json", classify_arguments, json)},
    {CLI_TEXT("--device", classify_arguments, device), .traits = CLI_MAY_BE_EMPTY},
};

/* The labels to choose from, cut out of `text`. */
typedef struct classify_labels {
    char *text;
    const char **names;
    size_t count;
} classify_labels;

static void classify_release(classify_labels *labels)
{
    free(labels->text);
    free(labels->names);
}

/* Labels stand between commas, or in lines; blanks around one and empty ones do not count. 0 after a message. */
static int classify_cut(classify_labels *labels, char between)
{
    size_t most = 1;
    for (const char *at = labels->text; *at; at++) most += *at == between;
    labels->names = malloc(most * sizeof *labels->names);
    if (!labels->names) return cli_error("out of host memory"), 0;
    for (char *at = labels->text, *end; at; at = end) {
        end = strchr(at, between);
        if (end) *end++ = 0;
        at += strspn(at, " \t\r");
        for (size_t size = strlen(at); size && strchr(" \t\r", at[size - 1]); size--) at[size - 1] = 0;
        if (*at) labels->names[labels->count++] = at;
    }
    if (!labels->count) cli_error("classify: there are no labels");
    return labels->count != 0;
}

/* What the options say, in *labels; none is no error. 0 after a message. */
static int classify_read_labels(const classify_arguments *a, classify_labels *labels)
{
    size_t size;
    if (a->labels_file) return cli_read_text(a->labels_file, &labels->text, &size) && classify_cut(labels, '\n');
    if (!a->labels) return 1;
    labels->text = strdup(a->labels);
    if (!labels->text) return cli_error("out of host memory"), 0;
    return classify_cut(labels, ',');
}

/* The places of the `top` largest of scores[count], the largest first; of equal ones the first. */
static void classify_order(const float *scores, size_t count, size_t top, size_t *order)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = used < top ? used++ : top;
        for (; at > 0 && scores[order[at - 1]] < scores[i]; at--)
            if (at < top) order[at] = order[at - 1];
        if (at < top) order[at] = i;
    }
}

static void classify_print(const classify_arguments *a, const char *const *names, const float *scores, size_t top,
                           const size_t *order, size_t image)
{
    if (a->images.count > 1) {
        if (image) putchar('\n');
        cli_text(stdout, a->images.paths[image]);
        puts(":");
    }
    for (size_t i = 0; i < top; i++) {
        printf("%.6f  ", (double)scores[order[i]]);
        cli_text(stdout, names[order[i]]);
        putchar('\n');
    }
}

static void classify_json(pco_json_writer *json, const char *const *names, const float *scores, size_t top,
                          const size_t *order, const char *path)
{
    pco_json_begin_object(json);
    pco_json_key(json, "image");
    pco_json_write_string(json, path);
    pco_json_key(json, "labels");
    pco_json_begin_array(json);
    for (size_t i = 0; i < top; i++) {
        pco_json_begin_object(json);
        pco_json_key(json, "label");
        pco_json_write_string(json, names[order[i]]);
        pco_json_key(json, "score");
        pco_json_write_number(json, (double)scores[order[i]]);
        pco_json_end_object(json);
    }
    pco_json_end_array(json);
    pco_json_end_object(json);
}

static int classify_show(const classify_arguments *a, const char *const *names, size_t count, const float *scores)
{
    const size_t top = a->top && (size_t)a->top < count ? (size_t)a->top : count;
    size_t *order = malloc((top + 1) * sizeof *order);
    pco_writer text = {0};
    pco_json_writer json = {.out = &text};
    if (!order) return cli_error("out of host memory"), CLI_FAILED;
    pco_json_begin_array(&json);
    for (size_t i = 0; i < a->images.count; i++, scores += count) {
        classify_order(scores, count, top, order);
        if (a->json)
            classify_json(&json, names, scores, top, order, a->images.paths[i]);
        else
            classify_print(a, names, scores, top, order, i);
    }
    pco_json_end_array(&json);
    pco_write_char(&text, '\n');
    free(order);
    if (a->json) return cli_print(&text);
    pco_writer_release(&text);
    return CLI_OK;
}

static int classify_progress(void *user, size_t done, size_t count)
{
    if (cli_terminal() || count > 1) cli_progress_update(user, done, count);
    return cli_interrupted() != 0;
}

static int classify_all(pco_model *model, const classify_arguments *a, const classify_labels *labels)
{
    const char *const *names = labels->names;
    size_t count = labels->count;
    cli_progress progress;
    pco_error err = {""};
    const pco_classify_params params = {.size = sizeof params,
                                        .labels = labels->names,
                                        .label_count = labels->count,
                                        .progress = classify_progress,
                                        .progress_user = &progress};
    pco_status status = names ? PCO_OK : pco_model_labels(model, &names, &count, &err);
    float *scores = malloc(a->images.count * (count ? count : 1) * sizeof *scores);
    if (!scores) return cli_error("out of host memory"), CLI_FAILED;
    cli_progress_start(&progress, "classifying", "");
    if (!status) status = pco_model_classify(model, a->images.items, a->images.count, &params, scores, &err);
    cli_progress_end(&progress);
    int result = status == PCO_ERROR_CANCELLED ? CLI_OK : status ? cli_fail(&err) : CLI_OK;
    if (!status) result = classify_show(a, names, count, scores);
    free(scores);
    return result;
}

static int classify_opened(const classify_arguments *a, const classify_labels *labels)
{
    pco_model *model = NULL;
    pco_error err = {""};
    int status = CLI_OK;
    cli_watch_signals();
    pco_context *context = cli_context(a->device, &status);
    if (!context) return status;
    const pco_status opened = cli_open_any_model(context, a->model, CLI_OPEN_ADAPTED(a->device, 0, NULL), &model, &err);
    if (opened)
        status = opened == PCO_ERROR_CANCELLED ? CLI_OK : cli_fail(&err);
    else
        status = classify_all(model, a, labels);
    pco_model_close(model);
    pco_context_destroy(context);
    return status;
}

static int classify_run(int argc, char **argv)
{
    classify_arguments a = {.top = 5};
    classify_labels labels = {0};
    int status = cli_parse(&cli_classify, argc, argv, &a, NULL) ? CLI_USAGE : CLI_OK;
    if (!status && a.labels && a.labels_file) {
        cli_error("classify: --labels and --labels-file exclude each other");
        status = CLI_USAGE;
    }
    if (!status) status = classify_read_labels(&a, &labels) ? CLI_OK : CLI_USAGE;
    if (!status) status = cli_images_read(&a.images);
    if (!status) status = classify_opened(&a, &labels);
    classify_release(&labels);
    cli_images_release(&a.images);
    return cli_exit_status(status);
}

const cli_command cli_classify = {
    .name = "classify",
    .summary = "say what images show",
    .help = "usage: portico classify MODEL IMAGE ... [OPTION ...]\n\n"
            "MODEL is a folder of ViT with a classifier, or of CLIP, which chooses among the labels that you\n"
            "give. IMAGE is a PNG, JPEG or PNM file. stdout carries the likeliest labels of each image, with\n"
            "their probabilities among all labels.\n\n"
            "  --labels LIST       texts with commas between them: \"a cat,a dog\" (CLIP)\n"
            "  --labels-file FILE  the same, each line a text; `-`: stdin\n"
            "  --top, -k N         so many labels of each image (default 5)\n"
            "  --json              one JSON list, with an object for each image\n"
            "  --device D          as PORTICO_BACKEND, and before it\n\n"
            "Exit status: 0 done, 1 failed, 2 wrong usage.\n",
    CLI_OPTIONS(CLASSIFY_OPTIONS),
    .run = classify_run,
};
