#include "portico/speech.h"
#include "api/text.h"

#include "base/clock.h"
#include "base/error.h"
#include "formats/wav.h"
#include "models/log_mel.h"
#include "models/speech.h"
#include "text/beam.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSCRIBE_BEAMS = 64 };

/* One call. */
typedef struct transcription {
    pco_model *model;
    pco_transcribe_params how;
    pco_speech_fn receive;
    void *user;
    pco_speech speech;
    pco_log_mel *mel;
    const float *samples;
    int64_t count;            /* of samples */
    int64_t seek;             /* the window's first frame */
    int times;                /* the model writes them */
    int32_t language;         /* which of speech.languages; -1: none yet, or no choice */
    int64_t room;             /* tokens of a window */
    float *features;          /* [bands,frames] */
    float *logits;            /* [beams,vocab_size] */
    int32_t *ids;             /* [2,beams,room]: what the beams have so far, before and behind a step */
    pco_speech_piece *pieces; /* [room + 1] */
    int64_t from[TRANSCRIBE_BEAMS];
    int32_t next[TRANSCRIBE_BEAMS];
    int stopped;
    pco_transcribe_stats stats;
    pco_error *err;
} transcription;

pco_status pco_sound_read(const char *path, float **samples, size_t *count, pco_error *err)
{
    pco_wav wav;
    int64_t made;
    PCO_NEEDS(samples);
    PCO_NEEDS(count);
    *samples = NULL;
    *count = 0;
    PCO_NEEDS(path);
    pco_status status = pco_wav_open(path, &wav, err);
    if (status) return status;
    status = pco_wav_read(&wav, PCO_SOUND_RATE, samples, &made, err);
    if (!status) *count = (size_t)made;
    pco_wav_close(&wav);
    return status;
}

/* ---- what is asked for ---------------------------------------------------------------------------------- */

static pco_status transcribe_no_language(const transcription *t, pco_error *err)
{
    char list[600];
    size_t at = 0;
    for (uint32_t i = 0; i < t->speech.n_languages && at + PCO_SPEECH_CODE < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", t->speech.languages[i].code);
    if (!t->speech.n_languages)
        return pco_fail(err, PCO_ERROR_INVALID, "%s is a model of one language, and takes none and no translation",
                        t->model->file->path);
    return pco_fail(err, PCO_ERROR_INVALID, "language '%.20s' is none that the model knows; it knows %s",
                    t->how.language, list);
}

static pco_status transcribe_check(transcription *t, pco_error *err)
{
    const pco_transcribe_params *how = &t->how;
    const pco_speech *speech = &t->speech;
    if (how->beams < 1 || how->beams > TRANSCRIBE_BEAMS)
        return pco_fail(err, PCO_ERROR_INVALID, "%" PRId64 " beams are not possible; it can be 1 to %d", how->beams,
                        TRANSCRIBE_BEAMS);
    if (how->max_tokens < 0) return pco_fail(err, PCO_ERROR_INVALID, "max_tokens is below 0");
    if (!(how->length_penalty >= -100 && how->length_penalty <= 100))
        return pco_fail(err, PCO_ERROR_INVALID, "length_penalty is %g; it can be -100 to 100", how->length_penalty);
    if (!t->count) return pco_fail(err, PCO_ERROR_INVALID, "the sound has no samples");
    for (int64_t i = 0; i < t->count; i++)
        if (!isfinite(t->samples[i]))
            return pco_fail(err, PCO_ERROR_INVALID, "sample %" PRId64 " of the sound is %g", i, (double)t->samples[i]);
    t->language = -1;
    for (uint32_t i = 0; how->language && i < speech->n_languages; i++)
        if (strcmp(how->language, speech->languages[i].code) == 0) t->language = (int32_t)i;
    if ((how->language && t->language < 0) || (how->translate && !speech->n_languages))
        return transcribe_no_language(t, err);
    if (how->timestamps && speech->first_timestamp < 0)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s has no tokens for times", t->model->file->path);
    return PCO_OK;
}

/* The tokens that a window's text begins with, the start included. */
static int64_t transcribe_prompt(const transcription *t, int32_t prompt[PCO_SPEECH_PROMPT])
{
    const pco_speech *speech = &t->speech;
    int64_t count = 0;
    prompt[count++] = speech->start;
    if (speech->n_languages) {
        prompt[count++] = speech->languages[t->language].id;
        prompt[count++] = t->how.translate ? speech->translate : speech->transcribe;
    }
    if (!t->times && speech->no_timestamps >= 0) prompt[count++] = speech->no_timestamps;
    return count;
}

static pco_status transcribe_memory(transcription *t)
{
    const pco_speech *speech = &t->speech;
    const int64_t window = speech->frames * PCO_LOG_MEL_HOP, bands = t->model->file->spec.sound.bands;
    t->times = speech->first_timestamp >= 0 && (t->how.timestamps || t->count > window);
    t->room = t->model->context_length - (speech->n_languages ? 3 : 1) - (!t->times && speech->no_timestamps >= 0);
    if (t->how.max_tokens && t->how.max_tokens < t->room) t->room = t->how.max_tokens;
    if (t->room < 1)
        return pco_fail(t->err, PCO_ERROR_INVALID, "a context of %" PRId64 " tokens has no room for a text",
                        t->model->context_length);
    const size_t beams = (size_t)t->how.beams, room = (size_t)t->room;
    t->features = malloc((size_t)(bands * speech->frames) * sizeof *t->features);
    t->logits = malloc(beams * (size_t)speech->vocab_size * sizeof *t->logits);
    t->ids = malloc(2 * beams * room * sizeof *t->ids);
    t->pieces = malloc((room + 1) * sizeof *t->pieces);
    if (!t->features || !t->logits || !t->ids || !t->pieces)
        return pco_fail(t->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a transcription");
    return pco_log_mel_create(bands, &t->mel, t->err);
}

/* ---- a window ------------------------------------------------------------------------------------------- */

static pco_status transcribe_progress(const transcription *t)
{
    const pco_transcribe_params *how = &t->how;
    const double seconds = fmin((double)t->seek / 100, t->stats.sound_seconds);
    if (!how->progress || !how->progress(how->progress_user, seconds, t->stats.sound_seconds)) return PCO_OK;
    return pco_fail(t->err, PCO_ERROR_CANCELLED, "the callback ended a transcription");
}

static pco_status transcribe_hear(transcription *t)
{
    const int64_t begin = t->seek * PCO_LOG_MEL_HOP, window = t->speech.frames * PCO_LOG_MEL_HOP;
    const int64_t count = t->count - begin < window ? t->count - begin : window;
    const double before = pco_seconds();
    pco_status status = pco_log_mel_run(t->mel, t->samples + begin, count, t->speech.frames, t->features, t->err);
    const double between = pco_seconds();
    if (!status) status = pco_seq2seq_hear(t->model->seq2seq, t->features, t->err);
    t->stats.features_seconds += between - before;
    t->stats.encoder_seconds += pco_seconds() - between;
    return status;
}

/* The likeliest language behind the start token (Radford et al. 2022, 2.3). */
static pco_status transcribe_detect(transcription *t)
{
    const pco_speech *speech = &t->speech;
    const float *logits = t->logits;
    const pco_status status = pco_seq2seq_step(t->model->seq2seq, speech->start, t->logits, t->err);
    if (status) return status;
    t->language = 0;
    for (uint32_t i = 1; i < speech->n_languages; i++)
        if (logits[speech->languages[i].id] > logits[speech->languages[t->language].id]) t->language = (int32_t)i;
    pco_seq2seq_restart(t->model->seq2seq);
    return PCO_OK;
}

static int transcribe_ends(const void *user, int32_t id) { return id == ((const transcription *)user)->speech.end; }

/* The prompt, of all beams; the logits are those of the first token. */
static pco_status transcribe_begin(transcription *t)
{
    int32_t prompt[PCO_SPEECH_PROMPT];
    const int64_t count = transcribe_prompt(t, prompt);
    pco_status status = pco_seq2seq_begin_beams(t->model->seq2seq, t->how.beams, t->err);
    for (int64_t i = 0; !status && i < count; i++) {
        for (int64_t b = 0; b < t->how.beams; b++) t->next[b] = prompt[i];
        status = pco_seq2seq_step_beams(t->model->seq2seq, t->next, i + 1 < count ? NULL : t->logits, t->err);
    }
    return status;
}

/* The beams' tokens behind a step: those of text from[b], and next[b]. */
static void transcribe_follow(transcription *t, int64_t tokens)
{
    const int64_t beams = t->how.beams;
    int32_t *old = t->ids + beams * t->room;
    memcpy(old, t->ids, (size_t)(beams * t->room) * sizeof *old);
    for (int64_t b = 0; b < beams; b++) {
        memcpy(t->ids + b * t->room, old + t->from[b] * t->room, (size_t)tokens * sizeof *old);
        t->ids[b * t->room + tokens] = t->next[b];
    }
}

static pco_status transcribe_search(transcription *t, pco_beams *search)
{
    pco_seq2seq *run = t->model->seq2seq;
    int done = 0;
    pco_status status = transcribe_begin(t);
    for (int64_t tokens = 0; !status; tokens++) {
        for (int64_t b = 0; b < t->how.beams; b++)
            pco_speech_allow(&t->speech, t->times, t->ids + b * t->room, tokens, t->logits + b * t->speech.vocab_size);
        status = pco_beams_step(search, t->logits, t->from, t->next, &done, t->err);
        if (status || done) break;
        transcribe_follow(t, tokens);
        status = transcribe_progress(t);
        if (!status) status = pco_seq2seq_reorder_beams(run, t->from, t->err);
        if (!status) status = pco_seq2seq_step_beams(run, t->next, t->logits, t->err);
    }
    return status;
}

/* The text of a piece, without times and control tokens, which are moved out of ids. */
static pco_status transcribe_text(const transcription *t, int32_t *ids, size_t *count, pco_writer *text)
{
    pco_decoder decoder = PCO_DECODER(t->model->file->target);
    pco_status status = PCO_OK;
    size_t kept = 0;
    decoder.begun = 1;
    text->size = 0;
    for (size_t i = 0; !status && i < *count; i++) {
        const char *piece;
        size_t bytes;
        if (ids[i] >= t->speech.end) continue;
        ids[kept++] = ids[i];
        status = pco_decoder_next(&decoder, ids[i], &piece, &bytes, t->err);
        if (!status) pco_write(text, piece, bytes);
    }
    *count = kept;
    pco_write_char(text, 0);
    return status ? status : pco_writer_check(text, "a text", t->err);
}

/* Gives out the pieces of the best text, and moves to the next window. */
static pco_status transcribe_give(transcription *t, pco_beams *search)
{
    const int64_t sound = (t->count + PCO_LOG_MEL_HOP - 1) / PCO_LOG_MEL_HOP, left = sound - t->seek;
    pco_beam_text best;
    pco_writer text = {0};
    pco_status status = PCO_OK;
    int64_t next;
    if (!pco_beams_text(search, 0, &best))
        return pco_fail(t->err, PCO_ERROR_FORMAT,
                        "%s: no token is left that the text could go on with; look at 'suppress_tokens' and "
                        "'begin_suppress_tokens' of its generation_config.json",
                        t->model->file->path);
    memcpy(t->ids, best.ids, best.count * sizeof *t->ids);
    const int64_t heard = left < t->speech.frames ? left : t->speech.frames;
    const int64_t pieces = pco_speech_cut(&t->speech, t->times, t->ids, (int64_t)best.count, heard, t->pieces, &next);
    for (int64_t i = 0; !status && !t->stopped && i < pieces; i++) {
        const pco_speech_piece *piece = &t->pieces[i];
        size_t count = (size_t)(piece->behind - piece->first);
        status = transcribe_text(t, t->ids + piece->first, &count, &text);
        if (status || !count) continue;
        const pco_speech_segment segment = {
            .size = sizeof segment,
            .window = t->stats.windows,
            .begin = fmin((double)(t->seek + piece->begin) / 100, t->stats.sound_seconds),
            .end = fmin((double)(t->seek + piece->end) / 100, t->stats.sound_seconds),
            .text = text.data,
            .bytes = text.size - 1,
            .ids = t->ids + piece->first,
            .count = count,
            .language = t->language < 0 ? "" : t->speech.languages[t->language].code,
            .log_probability = best.log_probability / (double)(best.count + (size_t)best.ended)};
        t->stopped = t->receive(t->user, &segment);
    }
    pco_writer_release(&text);
    t->stats.tokens += (int64_t)best.count;
    t->seek += next;
    return status;
}

static pco_status transcribe_window(transcription *t)
{
    const pco_beam_rules rules = {.beams = t->how.beams,
                                  .vocab_size = t->speech.vocab_size,
                                  .max_tokens = t->room,
                                  .length_penalty = t->how.length_penalty,
                                  .normalized = 1,
                                  .ends = transcribe_ends,
                                  .user = t};
    pco_beams *search = NULL;
    pco_status status = transcribe_progress(t);
    if (!status) status = transcribe_hear(t);
    const double begin = pco_seconds();
    if (!status && t->language < 0 && t->speech.n_languages) status = transcribe_detect(t);
    if (!status) status = pco_beams_create(&rules, &search, t->err);
    if (!status) status = transcribe_search(t, search);
    if (!status) status = transcribe_give(t, search);
    t->stats.decoder_seconds += pco_seconds() - begin;
    t->stats.windows++;
    pco_beams_destroy(search);
    return status;
}

static pco_status transcribe_run(transcription *t)
{
    pco_status status = pco_speech_read(t->model->file, &t->speech, t->err);
    if (!status) status = transcribe_check(t, t->err);
    if (!status) status = transcribe_memory(t);
    t->stats.sound_seconds = (double)t->count / PCO_LOG_MEL_RATE;
    while (!status && !t->stopped && t->seek * PCO_LOG_MEL_HOP < t->count) status = transcribe_window(t);
    if (!status && t->language >= 0)
        memcpy(t->stats.language, t->speech.languages[t->language].code, sizeof t->stats.language);
    pco_speech_release(&t->speech);
    pco_log_mel_destroy(t->mel);
    free(t->features);
    free(t->logits);
    free(t->ids);
    free(t->pieces);
    return status;
}

pco_status pco_model_transcribe(pco_model *model, const float *samples, size_t count,
                                const pco_transcribe_params *params, pco_speech_fn receive, void *user,
                                pco_transcribe_stats *stats, pco_error *err)
{
    transcription t = {.model = model,
                       .how = {.size = sizeof t.how},
                       .receive = receive,
                       .user = user,
                       .samples = samples,
                       .count = (int64_t)count,
                       .err = err};
    API_NEEDS_MODEL(model);
    PCO_NEEDS_SOME(samples, count);
    PCO_NEEDS(receive);
    pco_status status = params ? pco_copy_sized(&t.how, sizeof t.how, params, params->size, err) : PCO_OK;
    if (!status && stats) status = pco_check_sized(sizeof *stats, stats->size, err);
    if (status) return status;
    if (!model->file->spec.sound.bands)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s reads %s and hears no sound; Whisper does", model->file->path,
                        pco_model_reads_texts(model->file) ? "text" : "images");
    if (!t.how.beams) t.how.beams = 1;
    if (t.how.length_penalty == 0) t.how.length_penalty = 1;
    status = transcribe_run(&t);
    t.stats.load_seconds = model->load_seconds;
    pco_session_memory(model->session, &t.stats.peak_device_bytes);
    if (stats) (void)pco_fill_sized(stats, &t.stats, sizeof t.stats, NULL);
    return status;
}
