/* test_speech FOLDER: tiny Whispers in Hugging Face's layout, on the device that PORTICO_BACKEND picks, against
 * transformers (tests/golden/make_speech.py): the spectrogram, logits in float64 (|y - want| <= 1e-4 (|want| + rms of
 * the row)), and the tokens that are found, in one window and in several. */
#include "seq2seq_logits.h"

#include "base/utf8.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/log_mel.h"
#include "models/seq2seq.h"
#include "models/speech.h"

#include <portico/speech.h>

enum { MOST_TOKENS = 64, MOST_FRAMES = 100 };

static const char *speech_folder;
static pco_weights *goldens, *spectrograms;
static cJSON *cases;
static float *sound;
static size_t sound_count;

static int speech_open(void **state)
{
    char path[512];
    (void)state;
    snprintf(path, sizeof path, "%s/goldens.safetensors", speech_folder);
    if (pco_safetensors_open(path, &goldens, NULL)) return -1;
    const char *text = pco_weights_note_value(goldens, "cases");
    if (!text || pco_json_parse(text, strlen(text), path, &cases, NULL)) return -1;
    snprintf(path, sizeof path, "%s/features.safetensors", speech_folder);
    if (pco_safetensors_open(path, &spectrograms, NULL)) return -1;
    snprintf(path, sizeof path, "%s/sound.wav", speech_folder);
    return pco_sound_read(path, &sound, &sound_count, NULL) ? -1 : 0;
}

static int speech_close(void **state)
{
    (void)state;
    pco_free(sound);
    cJSON_Delete(cases);
    pco_weights_close(goldens);
    pco_weights_close(spectrograms);
    return 0;
}

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!found) fail_msg("no '%s'", name);
    return found;
}

/* Theirs is float32 in between: a spectrum rounded to it, its squares and their sums are off by (2 + 1 + 1) 2^-24 of
 * themselves or less, which log10 and the division by 4 make 2.6e-8; the result, below 2, is rounded by 2^-24, here and
 * there. */
static void check_features(const char *name, const char *what, size_t first, size_t behind)
{
    const double bound = 4 * 0x1p-24 / 2.302585 / 4 + 2 * 0x1p-24;
    const pco_weight *want = seq2seq_stored(spectrograms, name, what);
    static float features[128 * MOST_FRAMES];
    pco_log_mel *mel;
    double worst = 0;
    assert_true(want->shape[0] <= 128 && want->shape[1] == MOST_FRAMES);
    check_ok(pco_log_mel_create(want->shape[0], &mel, &err));
    check_ok(pco_log_mel_run(mel, sound + first, (int64_t)(behind - first), want->shape[1], features, &err));
    pco_log_mel_destroy(mel);
    for (int64_t i = 0; i < want->shape[0] * want->shape[1]; i++) {
        const double error = fabs((double)features[i] - (double)((const float *)want->data)[i]);
        if (!(error <= worst)) worst = error;
    }
    print_message("  %-10s %-8s largest difference %.3g, bound %.3g\n", name, what, worst, bound);
    assert_true(worst <= bound);
}

static void test_features(void **state)
{
    const cJSON *item;
    (void)state;
    cJSON_ArrayForEach(item, cases)
    {
        const char *name = member(item, "name")->valuestring;
        check_features(name, "features", 8000, 24000);
        check_features(name, "half", 0, 7000);
    }
}

static void check_logits(const char *name)
{
    const pco_weight *features = seq2seq_stored(spectrograms, name, "features"),
                     *target = seq2seq_stored(goldens, name, "target"), *want = seq2seq_stored(goldens, name, "logits");
    const int32_t *ids = target->data;
    char path[512];
    models_device device;
    pco_model_file *file;
    pco_seq2seq *run;
    snprintf(path, sizeof path, "%s/%s", speech_folder, name);
    check_ok(pco_model_file_open(path, &file, &err));
    models_device_open(&device);
    check_ok(pco_seq2seq_create(device.session, file->weights, &file->spec, 32, PCO_F32, &run, &err));
    assert_int_equal(ids[0], file->spec.decoder_start_token_id);
    check_fails(pco_seq2seq_encode(run, ids, 1, &err), PCO_ERROR_INVALID, "sound");
    check_ok(pco_seq2seq_hear(run, features->data, &err));
    seq2seq_logits_check(run, name, target, want);
    pco_seq2seq_destroy(run);
    models_device_close(&device);
    pco_model_file_close(file);
}

static void test_logits(void **state)
{
    const cJSON *item;
    (void)state;
    cJSON_ArrayForEach(item, cases) check_logits(member(item, "name")->valuestring);
}

/* ---- transcripts ---- */

/* What is to come: the pieces of the windows of a golden, in their order. */
typedef struct expected {
    const pco_speech *speech;
    const cJSON *windows; /* the one whose pieces are next */
    int times;
    int64_t left; /* frames of the sound behind its beginning */
    int32_t ids[MOST_TOKENS];
    int64_t count, pieces, at; /* tokens of the window, its pieces, and which is next */
    pco_speech_piece piece[MOST_TOKENS + 1];
    int64_t given, tokens;
} expected;

/* The next piece that has a token; NULL behind the last. */
static const pco_speech_piece *expected_next(expected *e, int64_t *frame)
{
    for (;; e->windows = e->windows->next, e->pieces = 0) {
        if (!e->windows) return NULL;
        *frame = (int64_t)member(e->windows, "frame")->valuedouble;
        if (!e->pieces) {
            int64_t next;
            const cJSON *item;
            e->count = e->at = 0;
            cJSON_ArrayForEach(item, member(e->windows, "tokens"))
            {
                assert_true(e->count < MOST_TOKENS);
                e->ids[e->count++] = item->valueint;
            }
            const int64_t left = e->left - *frame, heard = left < e->speech->frames ? left : e->speech->frames;
            e->pieces = pco_speech_cut(e->speech, e->times, e->ids, e->count, heard, e->piece, &next);
        }
        while (e->at < e->pieces) {
            const pco_speech_piece *piece = &e->piece[e->at++];
            for (int64_t i = piece->first; i < piece->behind; i++)
                if (e->ids[i] < e->speech->end) return piece;
        }
    }
}

static int receive_piece(void *user, const pco_speech_segment *segment)
{
    expected *e = user;
    int64_t frame, at = 0;
    const pco_speech_piece *want = expected_next(e, &frame);
    assert_non_null(want);
    for (int64_t i = want->first; i < want->behind; i++) {
        if (e->ids[i] >= e->speech->end) continue;
        assert_true(at < (int64_t)segment->count);
        assert_int_equal(segment->ids[at++], e->ids[i]);
    }
    assert_int_equal(at, segment->count);
    const double sound_end = (double)e->left / 100; /* to the frame */
    assert_true(fabs(segment->begin - fmin((double)(frame + want->begin) / 100, sound_end)) < 0.01);
    assert_true(fabs(segment->end - fmin((double)(frame + want->end) / 100, sound_end)) < 0.01);
    assert_true(segment->text[segment->bytes] == 0);
    e->given++;
    e->tokens += at;
    return 0;
}

/* What a search of the goldens asks for. */
static pco_transcribe_params search_params(const cJSON *want)
{
    const cJSON *task = member(want, "task");
    return (pco_transcribe_params){.size = sizeof(pco_transcribe_params),
                                   .language = cJSON_GetStringValue(member(want, "language")),
                                   .translate = cJSON_IsString(task) && strcmp(task->valuestring, "translate") == 0,
                                   .timestamps = cJSON_IsTrue(member(want, "return_timestamps")),
                                   .beams = (int64_t)member(want, "num_beams")->valuedouble,
                                   .max_tokens = (int64_t)member(want, "max_tokens")->valuedouble};
}

static void check_search(pco_model *model, const pco_speech *speech, const cJSON *want)
{
    const int64_t begin = (int64_t)member(want, "begin")->valuedouble,
                  count = (int64_t)member(want, "count")->valuedouble;
    const pco_transcribe_params params = search_params(want);
    expected e = {.speech = speech,
                  .windows = member(want, "windows")->child,
                  .times = params.timestamps,
                  .left = (count + 159) / 160};
    pco_transcribe_stats stats = {.size = sizeof stats};
    int64_t frame;
    const int windows = cJSON_GetArraySize(member(want, "windows"));
    check_ok(pco_model_transcribe(model, sound + begin, (size_t)count, &params, receive_piece, &e, &stats, &err));
    assert_null(expected_next(&e, &frame));
    assert_int_equal(stats.windows, windows);
    assert_string_equal(stats.language, params.language ? params.language : "");
}

/* Timestamps of one window: the tokens, by the rules alone. */
static int first_window(void *user, const pco_speech_segment *segment)
{
    return segment->window > 0 ? 1 : receive_piece(user, segment);
}

static void check_one(pco_model *model, const pco_speech *speech, const cJSON *want)
{
    const int64_t begin = (int64_t)member(want, "begin")->valuedouble,
                  count = (int64_t)member(want, "count")->valuedouble;
    pco_transcribe_params params = search_params(want);
    params.timestamps = 1;
    const cJSON *first = member(want, "windows")->child;
    expected e = {.speech = speech, .windows = first, .times = 1, .left = (count + 159) / 160};
    int64_t frame;
    check_ok(pco_model_transcribe(model, sound + begin, (size_t)count, &params, first_window, &e, NULL, &err));
    assert_true(e.given > 0 && (expected_next(&e, &frame) == NULL || e.windows != first));
}

static int ignore_piece(void *user, const pco_speech_segment *segment)
{
    (void)segment;
    return user != NULL;
}

static int stop_at_once(void *user, double seconds, double total)
{
    (void)user;
    return seconds < total;
}

/* Tokens of a window, written by hand, and the pieces that they have by the rules of Radford et al.'s program: a pair
 * of times ends a piece; behind a time that stands alone at the end nothing more is said; a piece without its end is
 * said again in the next window. */
enum { TIME_0 = 100, CUT_HEARD = 900, CUT_FRAMES = 1000 };
#define AT(frame) (TIME_0 + (frame) / 2)

typedef struct cut_case {
    const char *what;
    int times;
    int32_t ids[8];
    int64_t count, pieces, next;
    pco_speech_piece piece[3];
} cut_case;

static const cut_case CUTS[] = {
    {"without times", 0, {5, 6, 7}, 3, 1, CUT_FRAMES, {{0, 3, 0, CUT_HEARD}}},
    {"nothing", 1, {0}, 0, 1, CUT_FRAMES, {{0, 0, 0, CUT_HEARD}}},
    {"no end", 1, {AT(0), 5, 6}, 3, 1, CUT_FRAMES, {{1, 3, 0, CUT_HEARD}}},
    {"one piece", 1, {AT(4), 5, 6, AT(20)}, 4, 1, CUT_FRAMES, {{1, 3, 4, 20}}},
    {"one piece, and more to come", 1, {AT(0), 5, AT(20), AT(20)}, 4, 1, 20, {{1, 2, 0, 20}}},
    {"a piece that is cut off", 1, {AT(0), 5, AT(20), AT(24), 6}, 5, 1, 20, {{1, 2, 0, 20}}},
    {"two pieces", 1, {AT(0), 5, AT(20), AT(24), 6, AT(40)}, 6, 2, CUT_FRAMES, {{1, 2, 0, 20}, {4, 5, 24, 40}}},
    {"two, and more", 1, {AT(0), 5, AT(20), AT(24), 6, AT(40), AT(40)}, 7, 2, 40, {{1, 2, 0, 20}, {4, 5, 24, 40}}},
    {"no time passes", 1, {AT(0), 5, AT(0), AT(0), 6}, 5, 1, 2, {{1, 2, 0, 0}}},
};

static void test_pieces(void **state)
{
    const pco_speech speech = {
        .end = 90, .first_timestamp = TIME_0, .vocab_size = AT(CUT_FRAMES) + 1, .frames = CUT_FRAMES};
    (void)state;
    for (size_t i = 0; i < sizeof CUTS / sizeof *CUTS; i++) {
        const cut_case *one = &CUTS[i];
        pco_speech_piece got[9];
        int64_t next;
        print_message("  %s\n", one->what);
        assert_int_equal(pco_speech_cut(&speech, one->times, one->ids, one->count, CUT_HEARD, got, &next), one->pieces);
        assert_int_equal(next, one->next);
        assert_memory_equal(got, one->piece, (size_t)one->pieces * sizeof *got);
    }
}

static void check_refusals(pco_model *model, const pco_speech *speech)
{
    static const float silence[2] = {0, NAN};
    pco_transcribe_params params = {.size = sizeof params};
    int32_t id = 1;
    float logits[1024];
    check_fails(pco_model_transcribe(model, silence, 0, NULL, ignore_piece, NULL, NULL, &err), PCO_ERROR_INVALID,
                "no samples");
    check_fails(pco_model_transcribe(model, silence, 2, NULL, ignore_piece, NULL, NULL, &err), PCO_ERROR_INVALID,
                "sample 1");
    params.language = "xx";
    check_fails(pco_model_transcribe(model, silence, 1, &params, ignore_piece, NULL, NULL, &err), PCO_ERROR_INVALID,
                speech->n_languages ? "it knows de, en, zh" : "one language");
    params.language = NULL;
    params.beams = 65;
    check_fails(pco_model_transcribe(model, silence, 1, &params, ignore_piece, NULL, NULL, &err), PCO_ERROR_INVALID,
                "65 beams");
    params.beams = 0;
    params.progress = stop_at_once;
    check_fails(pco_model_transcribe(model, silence, 1, &params, ignore_piece, NULL, NULL, &err), PCO_ERROR_CANCELLED,
                "callback");
    check_fails(pco_model_generate(model, "text", NULL, NULL, NULL, NULL, &err), PCO_ERROR_UNSUPPORTED, "hears sound");
    check_fails(pco_model_hidden_states(model, &id, 1, logits, &err), PCO_ERROR_UNSUPPORTED, "hears sound");
}

static void check_detection(pco_model *model, const cJSON *item)
{
    const cJSON *language = cJSON_GetObjectItemCaseSensitive(item, "language");
    pco_transcribe_stats stats = {.size = sizeof stats};
    char wanted[32];
    check_ok(pco_model_transcribe(model, sound + 8000, 16000, NULL, ignore_piece, NULL, &stats, &err));
    snprintf(wanted, sizeof wanted, "<|%s|>", stats.language);
    if (language) assert_string_equal(wanted, language->valuestring);
    assert_true(stats.windows == 1 && fabs(stats.sound_seconds - 1) < 1e-9);
}

/* text[size] as theirs is shown, with U+FFFD for what is no UTF-8; to be freed. */
static char *replace_malformed(const char *text, size_t size)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    char *shown = malloc(3 * size + 1);
    size_t written = 0;
    assert_non_null(shown);
    for (size_t i = 0; i < size;) {
        const size_t length = pco_utf8_decode(text + i, size - i, NULL);
        if (length) {
            memcpy(shown + written, text + i, length);
            written += length;
            i += length;
        } else {
            memcpy(shown + written, replacement, 3);
            written += 3;
            i += pco_utf8_malformed(text + i, size - i);
        }
    }
    shown[written] = 0;
    return shown;
}

static void check_text(const pco_model_file *file, const cJSON *item)
{
    int32_t ids[MOST_TOKENS];
    size_t count = 0, bytes;
    char *text;
    const cJSON *id;
    cJSON_ArrayForEach(id, member(item, "ids")) ids[count++] = id->valueint;
    check_ok(pco_tokenizer_decode(file->target, ids, count, &text, &bytes, &err));
    char *shown = replace_malformed(text, bytes);
    assert_string_equal(shown, member(item, "text")->valuestring);
    free(shown);
    free(text);
}

static void test_transcripts(void **state)
{
    const cJSON *item, *search;
    pco_context *context;
    (void)state;
    check_ok(pco_context_create(NULL, &context, &err));
    cJSON_ArrayForEach(item, cases)
    {
        char path[512];
        pco_model *model;
        pco_model_file *file;
        pco_speech speech;
        int64_t searches = 0, several = 0, times = 0;
        snprintf(path, sizeof path, "%s/%s", speech_folder, member(item, "name")->valuestring);
        check_ok(pco_model_file_open(path, &file, &err));
        check_ok(pco_speech_read(file, &speech, &err));
        check_text(file, item);
        check_ok(pco_model_open(context, path, NULL, &model, &err));
        cJSON_ArrayForEach(search, member(item, "searches"))
        {
            const int stamps = cJSON_IsTrue(member(search, "return_timestamps"));
            const int windows = cJSON_GetArraySize(member(search, "windows"));
            if (stamps && windows == 1)
                check_one(model, &speech, search);
            else
                check_search(model, &speech, search);
            searches++;
            several += windows > 1;
            times += stamps;
        }
        check_detection(model, item);
        check_refusals(model, &speech);
        print_message("  %-10s %d searches, %d with times, %d of several windows\n", member(item, "name")->valuestring,
                      (int)searches, (int)times, (int)several);
        assert_true(searches >= 4 && times >= 2 && several >= 1);
        pco_model_close(model);
        pco_speech_release(&speech);
        pco_model_file_close(file);
    }
    pco_context_destroy(context);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_features), cmocka_unit_test(test_pieces),
                                       cmocka_unit_test(test_logits), cmocka_unit_test(test_transcripts)};
    if (argc != 2) return 2;
    speech_folder = argv[1];
    return cmocka_run_group_tests_name("speech", tests, speech_open, speech_close);
}
