#include "models/speech.h"

#include "base/error.h"
#include "formats/json.h"
#include "models/log_mel.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The vocabulary of the models for all languages is one token longer than that of those for English, which have tokens
 * of languages too. */
enum { SPEECH_MULTILINGUAL = 51865 };

/* The id of a token by its name; -1: there is none. */
static int32_t speech_find(const pco_tokenizer *tokenizer, const char *name)
{
    const size_t wanted = strlen(name);
    size_t size;
    for (uint32_t id = pco_tokenizer_vocab_size(tokenizer); id-- > 0;) {
        const char *token = pco_tokenizer_token(tokenizer, (int32_t)id, &size);
        if (token && size == wanted && memcmp(token, name, size) == 0) return (int32_t)id;
    }
    return -1;
}

/* "<|en|>": two or three small letters. */
static int speech_code(const char *token, size_t size, char code[PCO_SPEECH_CODE])
{
    if (size < 6 || size > 7 || memcmp(token, "<|", 2) != 0 || memcmp(token + size - 2, "|>", 2) != 0) return 0;
    for (size_t i = 2; i < size - 2; i++)
        if (token[i] < 'a' || token[i] > 'z') return 0;
    memcpy(code, token + 2, size - 4);
    code[size - 4] = 0;
    return 1;
}

/* The languages stand between the start and the tasks. */
static void speech_name_languages(const pco_tokenizer *tokenizer, pco_speech *speech)
{
    size_t size;
    for (int32_t id = speech->start + 1; speech->n_languages < PCO_SPEECH_LANGUAGES; id++) {
        pco_speech_language *language = &speech->languages[speech->n_languages];
        const char *token = pco_tokenizer_token(tokenizer, id, &size);
        if (!token || !speech_code(token, size, language->code)) return;
        language->id = id;
        speech->n_languages++;
    }
}

static pco_status speech_bad(const char *label, const char *key, const char *what, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' must be %s", label, key, what);
}

/* Is it the id of a token? */
static int speech_id(const pco_speech *speech, const cJSON *item, int32_t *id)
{
    int64_t value;
    if (!pco_json_whole(item, &value) || value < 0 || value >= speech->vocab_size) return 0;
    *id = (int32_t)value;
    return 1;
}

static pco_status speech_read_languages(const cJSON *root, const char *label, pco_speech *speech, pco_error *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "lang_to_id"), *item;
    if (!list || cJSON_IsNull(list)) return PCO_OK;
    speech->n_languages = 0;
    cJSON_ArrayForEach(item, list)
    {
        pco_speech_language *language = &speech->languages[speech->n_languages];
        if (speech->n_languages == PCO_SPEECH_LANGUAGES || !item->string ||
            !speech_code(item->string, strlen(item->string), language->code) || !speech_id(speech, item, &language->id))
            return speech_bad(label, "lang_to_id", "an object of at most 256 languages as '<|en|>', and their tokens",
                              err);
        speech->n_languages++;
    }
    return PCO_OK;
}

static pco_status speech_read_suppressed(const cJSON *root, const char *label, const char *key, unsigned char mark,
                                         pco_speech *speech, pco_error *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, key), *item;
    int32_t id;
    if (!list || cJSON_IsNull(list)) return PCO_OK;
    if (!cJSON_IsArray(list)) return speech_bad(label, key, "a list of tokens", err);
    for (int64_t i = 0; i < speech->vocab_size; i++) speech->suppressed[i] &= (unsigned char)~mark; /* in its place */
    cJSON_ArrayForEach(item, list)
    {
        if (!speech_id(speech, item, &id)) return speech_bad(label, key, "a list of tokens", err);
        speech->suppressed[id] |= mark;
    }
    return PCO_OK;
}

/* config.json, which said all of it once, or generation_config.json. */
static pco_status speech_read_generation(const cJSON *root, const char *label, pco_speech *speech, pco_error *err)
{
    pco_json_reader reader = {.root = root, .label = label, .err = err};
    const cJSON *tasks = cJSON_GetObjectItemCaseSensitive(root, "task_to_id");
    const int64_t last = speech->vocab_size - 1;
    pco_status status = speech_read_languages(root, label, speech, err);
    if (!status) status = speech_read_suppressed(root, label, "suppress_tokens", 1, speech, err);
    if (!status) status = speech_read_suppressed(root, label, "begin_suppress_tokens", 2, speech, err);
    if (status) return status;
    speech->no_timestamps =
        (int32_t)pco_json_read_int(&reader, "no_timestamps_token_id", 0, last, speech->no_timestamps);
    speech->max_initial_timestamp =
        (int32_t)pco_json_read_int(&reader, "max_initial_timestamp_index", 0, INT32_MAX, speech->max_initial_timestamp);
    if (!pco_json_read_bool(&reader, "is_multilingual", 1)) speech->n_languages = 0;
    if (!reader.status && cJSON_IsObject(tasks)) {
        pco_json_reader task = {.root = tasks, .label = label, .err = err};
        speech->transcribe = (int32_t)pco_json_read_int(&task, "transcribe", 0, last, speech->transcribe);
        speech->translate = (int32_t)pco_json_read_int(&task, "translate", 0, last, speech->translate);
        return task.status;
    }
    return reader.status;
}

/* preprocessor_config.json: the spectrogram is the one of log_mel.h, or the model is refused. Its mel_filters follow
 * from the rest. */
static pco_status speech_read_features(const cJSON *root, const char *label, const pco_model_spec *spec, pco_error *err)
{
    const double window = (double)(2 * spec->sound.rows * PCO_LOG_MEL_HOP) / PCO_LOG_MEL_RATE;
    const struct {
        const char *key;
        double value;
    } wanted[] = {{"feature_size", (double)spec->sound.bands},
                  {"sampling_rate", PCO_LOG_MEL_RATE},
                  {"hop_length", PCO_LOG_MEL_HOP},
                  {"n_fft", PCO_LOG_MEL_FFT},
                  {"chunk_length", window},
                  {"padding_value", 0},
                  {"dither", 0}};
    pco_json_reader reader = {.root = root, .label = label, .err = err};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const double value = pco_json_read_number(&reader, wanted[i].key, -1e9, 1e9, wanted[i].value);
        if (!reader.status && value != wanted[i].value)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: '%s' is %g, which Portico cannot run; it runs %g", label,
                            wanted[i].key, value, wanted[i].value);
    }
    return reader.status;
}

/* folder/name as JSON, read by one of the two; nothing where there is no such file. */
static pco_status speech_file(const pco_model_file *file, const char *name, pco_speech *speech, pco_error *err)
{
    char *label;
    cJSON *root;
    pco_status status = pco_json_load_if(file->path, name, &label, &root, err);
    if (status || !root) {
        free(label);
        return status;
    }
    if (!cJSON_IsObject(root))
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: not an object", label);
    else if (speech)
        status = speech_read_generation(root, label, speech, err);
    else
        status = speech_read_features(root, label, &file->spec, err);
    cJSON_Delete(root);
    free(label);
    return status;
}

pco_status pco_speech_read(const pco_model_file *file, pco_speech *speech, pco_error *err)
{
    const pco_model_spec *spec = &file->spec;
    *speech = (pco_speech){.start = spec->decoder_start_token_id,
                           .end = spec->eos_token_id,
                           .vocab_size = spec->vocab_size[PCO_DECODER],
                           .frames = 2 * spec->sound.rows,
                           .max_initial_timestamp = -1};
    if (!file->target) return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no tokenizer", file->path);
    speech->suppressed = calloc((size_t)speech->vocab_size, 1);
    if (!speech->suppressed) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a vocabulary");
    speech->no_timestamps = speech_find(file->target, "<|notimestamps|>");
    speech->transcribe = speech_find(file->target, "<|transcribe|>");
    speech->translate = speech_find(file->target, "<|translate|>");
    if (speech->vocab_size >= SPEECH_MULTILINGUAL) speech_name_languages(file->target, speech);
    pco_status status = speech_file(file, "config.json", speech, err);
    if (!status) status = speech_file(file, "generation_config.json", speech, err);
    if (!status) status = speech_file(file, "preprocessor_config.json", NULL, err);
    if (status) return status;
    speech->first_timestamp = speech->no_timestamps < 0 ? -1 : speech->no_timestamps + 1;
    if (speech->first_timestamp + speech->frames / 2 >= speech->vocab_size) speech->first_timestamp = -1;
    if (speech->start < 0 || speech->end < 0)
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no decoder_start_token_id or no eos_token_id", file->path);
    if (speech->n_languages && (speech->transcribe < 0 || speech->translate < 0))
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s knows languages, and no tokens for transcribe and translate",
                        file->path);
    return PCO_OK;
}

void pco_speech_release(pco_speech *speech)
{
    free(speech->suppressed);
    *speech = (pco_speech){0};
}

/* ---- rules ---------------------------------------------------------------------------------------------- */

static int speech_is_time(const pco_speech *speech, int32_t id) { return id >= speech->first_timestamp; }

static void speech_forbid(float *logits, int64_t first, int64_t behind)
{
    for (int64_t i = first; i < behind; i++) logits[i] = -INFINITY;
}

/* log of the sum of exp(logits[first ... behind - 1]), in double. */
static double speech_log_sum(const float *logits, int64_t first, int64_t behind, double *largest)
{
    double sum = 0;
    *largest = -INFINITY;
    for (int64_t i = first; i < behind; i++) *largest = fmax(*largest, (double)logits[i]);
    if (!isfinite(*largest)) return *largest;
    for (int64_t i = first; i < behind; i++) sum += exp((double)logits[i] - *largest);
    return *largest + log(sum);
}

/* Times come in pairs, the end of a piece and the beginning of the next, and do not go back; the first token is one. A
 * time is next where all times together are likelier than each other token. */
static void speech_allow_times(const pco_speech *speech, const int32_t *ids, int64_t count, float *logits)
{
    const int64_t first = speech->first_timestamp, vocab = speech->vocab_size;
    const int last_is = count >= 1 && speech_is_time(speech, ids[count - 1]),
              before_is = count < 2 || speech_is_time(speech, ids[count - 2]);
    int64_t latest = -1;
    double other, text;
    for (int64_t i = 0; i < count; i++)
        if (speech_is_time(speech, ids[i])) latest = ids[i];
    logits[speech->no_timestamps] = -INFINITY;
    if (last_is && before_is) speech_forbid(logits, first, vocab);
    if (last_is && !before_is) speech_forbid(logits, 0, speech->end);
    if (latest >= 0) speech_forbid(logits, first, last_is && !before_is ? latest : latest + 1);
    if (count == 0) {
        speech_forbid(logits, 0, first);
        if (speech->max_initial_timestamp >= 0 && first + speech->max_initial_timestamp + 1 < vocab)
            speech_forbid(logits, first + speech->max_initial_timestamp + 1, vocab);
    }
    const double times = speech_log_sum(logits, first, vocab, &other);
    (void)speech_log_sum(logits, 0, first, &text);
    if (times > text) speech_forbid(logits, 0, first);
}

void pco_speech_allow(const pco_speech *speech, int times, const int32_t *ids, int64_t count, float *logits)
{
    const unsigned char mark = count == 0 ? 3 : 1;
    double largest;
    const double total = speech_log_sum(logits, 0, speech->vocab_size, &largest);
    for (int64_t i = 0; i < speech->vocab_size; i++)
        logits[i] = speech->suppressed[i] & mark ? -INFINITY : (float)((double)logits[i] - total);
    if (times) speech_allow_times(speech, ids, count, logits);
}

/* ---- pieces --------------------------------------------------------------------------------------------- */

/* A piece from the times at its ends, which it may lack at one. */
static pco_speech_piece speech_piece(const pco_speech *speech, const int32_t *ids, int64_t first, int64_t behind,
                                     int64_t begin, int64_t end)
{
    pco_speech_piece piece = {first, behind, begin, end};
    if (first < behind && speech_is_time(speech, ids[first]))
        piece.begin = 2 * (ids[piece.first++] - speech->first_timestamp);
    if (piece.first < behind && speech_is_time(speech, ids[behind - 1]))
        piece.end = 2 * (ids[--piece.behind] - speech->first_timestamp);
    return piece;
}

int64_t pco_speech_cut(const pco_speech *speech, int times, const int32_t *ids, int64_t count, int64_t heard,
                       pco_speech_piece *pieces, int64_t *next)
{
    int64_t made = 0, from = 0;
    *next = speech->frames;
    for (int64_t i = 1; times && i < count; i++) {
        if (!speech_is_time(speech, ids[i - 1]) || !speech_is_time(speech, ids[i])) continue;
        pieces[made] = speech_piece(speech, ids, from, i, 0, heard);
        from = i;
        *next = pieces[made++].end;
    }
    const int ended = count >= 2 && speech_is_time(speech, ids[count - 1]) && !speech_is_time(speech, ids[count - 2]);
    if (!times || made == 0 || ended) { /* nothing is said behind its last piece */
        pieces[made++] =
            times ? speech_piece(speech, ids, from, count, 0, heard) : (pco_speech_piece){0, count, 0, heard};
        *next = speech->frames;
    }
    if (*next < 2) *next = 2;
    return made;
}
