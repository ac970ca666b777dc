/* JSON files that stand beside a model, from anywhere: what Whisper, image processors, classifiers,
 * sentence-transformers, PEFT, chats and models in several files are told by theirs. None may crash, hang or take more
 * memory than is promised, and none may make its reader open another file than those of the model's folder. An input
 * begins with the letter of its row below. With libFuzzer: scripts/fuzz. Alone: fuzz_files.h, with the files of
 * tests/fuzz/configs. */
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/shards.h"
#include "models/adapter.h"
#include "models/chat.h"
#include "models/image_processor.h"
#include "models/labels.h"
#include "models/sentence.h"
#include "models/speech.h"

/* A vocabulary's marks, and 4,096 names of files. */
#define FUZZ_FIXED (1 << 18)
#include "fuzz_files.h"

static pco_status fuzz_speech(pco_model_file *file, pco_error *err)
{
    pco_speech speech;
    const pco_status status = pco_speech_read(file, &speech, err);
    if (!status) {
        float *logits = calloc((size_t)speech.vocab_size, sizeof *logits);
        const int32_t ids[] = {1, 2, 3};
        if (!logits || speech.n_languages > PCO_SPEECH_LANGUAGES) abort();
        for (uint32_t i = 0; i < speech.n_languages; i++)
            if (speech.languages[i].id >= speech.vocab_size || !memchr(speech.languages[i].code, 0, PCO_SPEECH_CODE))
                abort();
        for (int64_t count = 0; count < 4; count++)
            pco_speech_allow(&speech, speech.first_timestamp >= 0, ids, count, logits);
        free(logits);
    }
    pco_speech_release(&speech);
    return status;
}

static pco_status fuzz_processor(pco_model_file *file, pco_error *err)
{
    pco_image_processor processor = {.factor = 0};
    const pco_status status = pco_image_processor_read(file, &processor, err);
    if (status) return status;
    const int edge = processor.shortest_edge > 0 || (processor.size[0] > 0 && processor.size[1] > 0);
    if ((processor.resizes && !edge) || (processor.crops && (processor.crop[0] < 1 || processor.crop[1] < 1))) abort();
    for (int i = 0; i < 3 && processor.normalizes; i++)
        if (!isfinite(1 / processor.deviation[i]) || !isfinite(processor.mean[i])) abort();
    return PCO_OK;
}

static pco_status fuzz_labels(pco_model_file *file, pco_error *err)
{
    pco_labels *labels;
    const pco_status status = pco_labels_read(file, 5, &labels, err);
    for (size_t i = 0; !status && i < 5; i++)
        if (!labels->names[i]) abort();
    if (!status) pco_labels_destroy(labels);
    return status;
}

static pco_status fuzz_sentence(pco_model_file *file, pco_error *err)
{
    pco_sentence sentence;
    const pco_status status = pco_sentence_read(file->path, &sentence, err);
    if (!status && (sentence.max_tokens < 0 || sentence.pooling > PCO_ENCODER_LOGITS)) abort();
    return status;
}

/* The folder has no tensors: what is missing is found behind the config. */
static pco_status fuzz_adapter(pco_model_file *file, pco_error *err)
{
    const pco_status status = pco_adapter_open(file, file->path, err);
    if (!status) abort();
    return strstr(err->message, "save the adapter as safetensors") ? PCO_OK : status;
}

static pco_status fuzz_chat(pco_model_file *file, pco_error *err)
{
    char *source = NULL;
    const pco_status status = pco_model_chat_source(file, &source, err);
    free(source);
    return status;
}

/* There are no shards. */
static pco_status fuzz_shards(pco_model_file *file, pco_error *err)
{
    char path[256];
    pco_weights *weights;
    snprintf(path, sizeof path, "%.200s/model.safetensors.index.json", file->path);
    const pco_status status = pco_shards_open(path, &weights, err);
    if (!status) pco_weights_close(weights);
    if (status == PCO_ERROR_IO && !strstr(err->message, file->path)) abort();
    return status == PCO_ERROR_IO ? PCO_OK : status;
}

/* By letter, from a: whose model, which file of its folder, and another one beside it that is as it should be. */
static const struct {
    const char *model, *file, *beside;
    pco_status (*read)(pco_model_file *file, pco_error *err);
} fuzz_rows[] = {{"speech/whisper", "generation_config.json", NULL, fuzz_speech},
                 {"speech/whisper", "preprocessor_config.json", NULL, fuzz_speech},
                 {"images/vit", "preprocessor_config.json", NULL, fuzz_processor},
                 {"images/clip", "preprocessor_config.json", NULL, fuzz_processor},
                 {"images/clip", "processor_config.json", NULL, fuzz_processor},
                 {"images/vit", "config.json", NULL, fuzz_labels},
                 {"encoders/bert_relu", "modules.json", "1_Pooling/config.json", fuzz_sentence},
                 {"encoders/bert_relu", "sentence_bert_config.json", NULL, fuzz_sentence},
                 {"encoders/bert_relu", "1_Pooling/config.json", "modules.json", fuzz_sentence},
                 {"speech/whisper", "adapter_config.json", NULL, fuzz_adapter},
                 {"speech/whisper", "tokenizer_config.json", NULL, fuzz_chat},
                 {"speech/whisper", "chat_template.json", NULL, fuzz_chat},
                 {"speech/whisper", "model.safetensors.index.json", NULL, fuzz_shards}};
enum { FUZZ_ROWS = sizeof fuzz_rows / sizeof *fuzz_rows };

/* For each row a model whose folder is one of the test's own, FOLDER/x, with links to the input and to what is beside.
 */
static struct {
    int input;
    char folder[64];
    pco_model_file *models[FUZZ_ROWS];
} fuzz_all;

static void fuzz_path(char path[256], uint32_t row, const char *name)
{
    snprintf(path, 256, "%s/%c%s%s", fuzz_all.folder, 'a' + (int)row, name ? "/" : "", name ? name : "");
}

static void fuzz_end(void)
{
    char path[256];
    for (uint32_t i = 0; i < FUZZ_ROWS; i++) {
        const char *const names[] = {fuzz_rows[i].file, fuzz_rows[i].beside, "1_Pooling", NULL};
        for (int n = 0; n < 4; n++) {
            fuzz_path(path, i, names[n]);
            if (n != 1 || names[n]) (void)remove(path);
        }
        pco_model_file_close(fuzz_all.models[i]);
    }
    (void)rmdir(fuzz_all.folder);
}

static void fuzz_link(uint32_t row, const char *name, const char *to)
{
    char path[256];
    fuzz_path(path, row, "1_Pooling");
    if (strncmp(name, "1_Pooling/", 10) == 0 && mkdir(path, 0700) != 0) abort();
    fuzz_path(path, row, name);
    if (symlink(to, path) != 0) abort();
}

static void fuzz_begin(void)
{
    char path[256], input[64];
    pco_error err;
    fuzz_all.input = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(input, sizeof input, "/proc/self/fd/%d", fuzz_all.input);
    snprintf(fuzz_all.folder, sizeof fuzz_all.folder, "/tmp/portico-configs-XXXXXX");
    if (fuzz_all.input < 0 || !mkdtemp(fuzz_all.folder)) abort();
    for (uint32_t i = 0; i < FUZZ_ROWS; i++) {
        snprintf(path, sizeof path, FUZZ_GOLDEN "/%s", fuzz_rows[i].model);
        if (pco_model_file_open(path, &fuzz_all.models[i], &err)) {
            fprintf(stderr, "%s\n", err.message);
            abort();
        }
        fuzz_path(path, i, NULL);
        free(fuzz_all.models[i]->path);
        if (!(fuzz_all.models[i]->path = strdup(path)) || mkdir(path, 0700) != 0) abort();
        fuzz_link(i, fuzz_rows[i].file, input);
        snprintf(path, sizeof path, FUZZ_GOLDEN "/%s/%s", fuzz_rows[i].model, fuzz_rows[i].beside);
        if (fuzz_rows[i].beside) fuzz_link(i, fuzz_rows[i].beside, path);
    }
    atexit(fuzz_end);
}

static int fuzz_input(const uint8_t *data, size_t size)
{
    pco_error err = {""};
    if (!size || *data < 'a' || *data >= 'a' + FUZZ_ROWS) return 0;
    const uint32_t row = *data - 'a';
    if (ftruncate(fuzz_all.input, 0) || pwrite(fuzz_all.input, data + 1, size - 1, 0) != (ssize_t)size - 1) abort();
    if (!fuzz_rows[row].read(fuzz_all.models[row], &err)) fuzz_parsed++;
    return 0;
}

#ifdef PCO_LIBFUZZER

FUZZ_INITIALIZE(fuzz_begin)

#else

static size_t fuzz_change(uint8_t *text, size_t size)
{
    if (fuzz_below(4) == 0) return fuzz_change_bytes(text, size);
    return 1 + fuzz_change_signs(text + 1, size - 1, "{}[]\",:.-+ \n0123456789eEtrufalsn\\");
}

int main(int argc, char **argv)
{
    fuzz_begin();
    return fuzz_changed(argc, argv, 1, fuzz_change);
}

#endif
