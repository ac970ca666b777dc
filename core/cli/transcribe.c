/* portico transcribe: what is said in WAV files, as text. */
#include "cli/beams.h"
#include "cli/model.h"

#include "base/writer.h"
#include "formats/json.h"
#include "portico/speech.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSCRIBE_FILES = 4096 };

static const char *const transcribe_tasks[] = {"transcribe", "translate", NULL};

typedef struct transcribe_arguments {
    const char *model, *language, *device;
    const char *files[TRANSCRIBE_FILES];
    int64_t n_files, max_tokens, beams;
    double length_penalty;
    int task, cache_type, timestamps, json;
} transcribe_arguments;

/* One file under way. */
typedef struct transcribe_output {
    const transcribe_arguments *arguments;
    const char *file;
    pco_writer line;
    int64_t pieces;
    int broken; /* stdout */
} transcribe_output;

static void transcribe_json(transcribe_output *out, const pco_speech_segment *segment)
{
    pco_json_writer json = {.out = &out->line};
    pco_json_begin_object(&json);
    pco_json_key(&json, "file");
    pco_json_write_string(&json, out->file);
    pco_json_key(&json, "begin");
    pco_json_write_number(&json, segment->begin);
    pco_json_key(&json, "end");
    pco_json_write_number(&json, segment->end);
    pco_json_key(&json, "text");
    pco_json_write_bytes(&json, segment->text, segment->bytes);
    pco_json_key(&json, "language");
    if (*segment->language)
        pco_json_write_string(&json, segment->language);
    else
        pco_json_write_null(&json);
    pco_json_key(&json, "log_probability");
    pco_json_write_number(&json, segment->log_probability);
    pco_json_key(&json, "tokens");
    pco_json_begin_array(&json);
    for (size_t i = 0; i < segment->count; i++) pco_json_write_int(&json, segment->ids[i]);
    pco_json_end_array(&json);
    pco_json_end_object(&json);
    pco_write_char(&out->line, '\n');
}

/* 1:02:03.45, and without the hours where there are none. */
static void transcribe_time(pco_writer *line, double seconds)
{
    const int64_t hundredths = (int64_t)(seconds * 100 + 0.5), minutes = hundredths / 6000;
    if (minutes >= 60) pco_print(line, "%" PRId64 ":", minutes / 60);
    pco_print(line, "%02d:%02d.%02d", (int)(minutes % 60), (int)(hundredths / 100 % 60), (int)(hundredths % 100));
}

static int transcribe_receive(void *user, const pco_speech_segment *segment)
{
    transcribe_output *out = user;
    const size_t blank = segment->bytes && *segment->text == ' ';
    out->line.size = 0;
    if (out->arguments->json) {
        transcribe_json(out, segment);
    } else if (out->arguments->timestamps) {
        pco_write_char(&out->line, '[');
        transcribe_time(&out->line, segment->begin);
        pco_write_text(&out->line, " --> ");
        transcribe_time(&out->line, segment->end);
        pco_write_text(&out->line, "] ");
        pco_write(&out->line, segment->text + blank, segment->bytes - blank);
        pco_write_char(&out->line, '\n');
    } else {
        const size_t skip = out->pieces ? 0 : blank;
        pco_write(&out->line, segment->text + skip, segment->bytes - skip);
    }
    out->pieces++;
    if (out->line.status) return 1;
    if (fwrite(out->line.data, 1, out->line.size, stdout) != out->line.size || fflush(stdout) != 0) out->broken = 1;
    return out->broken;
}

static int transcribe_progress(void *user, double seconds, double total)
{
    (void)user;
    (void)seconds;
    (void)total;
    return cli_interrupted() != 0;
}

static pco_status transcribe_file(pco_model *model, transcribe_output *out, pco_error *err)
{
    const transcribe_arguments *arguments = out->arguments;
    const pco_transcribe_params params = {.size = sizeof params,
                                          .language = arguments->language,
                                          .translate = arguments->task,
                                          .timestamps = arguments->timestamps,
                                          .beams = arguments->beams,
                                          .length_penalty = cli_length_penalty(arguments->length_penalty),
                                          .max_tokens = arguments->max_tokens,
                                          .progress = transcribe_progress};
    pco_transcribe_stats stats = {.size = sizeof stats};
    float *samples;
    size_t count;
    pco_status status = pco_sound_read(out->file, &samples, &count, err);
    if (!status && !count) {
        pco_free(samples);
        status = pco_fail(err, PCO_ERROR_INVALID, "%s: the sound has no samples", out->file);
    }
    if (status) return status;
    out->pieces = 0;
    status = pco_model_transcribe(model, samples, count, &params, transcribe_receive, out, &stats, err);
    pco_free(samples);
    if (status == PCO_ERROR_CANCELLED && cli_interrupted()) status = PCO_OK;
    if (!status) status = pco_writer_check(&out->line, "a transcript", err);
    const int line = !arguments->json && !arguments->timestamps && (!status || out->pieces);
    if (line && putchar('\n') == EOF) out->broken = 1; /* also where nothing is said: a line for each file */
    if (!status)
        cli_note("transcribed  %.2f s of sound%s%s in %" PRId64 " window%s, %" PRId64
                 " tokens, %.3f s on %s (spectrogram %.3f, encoder %.3f, decoder %.3f)\n",
                 stats.sound_seconds, *stats.language ? ", " : "", stats.language, stats.windows,
                 stats.windows == 1 ? "" : "s", stats.tokens,
                 stats.features_seconds + stats.encoder_seconds + stats.decoder_seconds,
                 pco_session_device_id(model->session), stats.features_seconds, stats.encoder_seconds,
                 stats.decoder_seconds);
    return status;
}

static int transcribe_read_file(void *user, const char *option, const char *value)
{
    transcribe_arguments *arguments = user;
    (void)option;
    if (arguments->n_files == TRANSCRIBE_FILES) {
        cli_error("transcribe: more than %d files", TRANSCRIBE_FILES);
        return 0;
    }
    arguments->files[arguments->n_files++] = value;
    return 1;
}

static const cli_option TRANSCRIBE_OPTIONS[] = {
    {CLI_OPERAND("a model", transcribe_arguments, model)},
    {CLI_OPERANDS("a WAV file", transcribe_read_file)},
    {CLI_TEXT("--language", transcribe_arguments, language)},
    {CLI_WORD("--task", transcribe_arguments, task, transcribe_tasks)},
    {CLI_FLAG("--timestamps", transcribe_arguments, timestamps)},
    {CLI_WHOLE("--beams", transcribe_arguments, beams, 1, 64)},
    {CLI_NUMBER("--length-penalty", transcribe_arguments, length_penalty, -100, 100)},
    {CLI_WHOLE("--max-tokens", transcribe_arguments, max_tokens, 0, INT32_MAX), .letter = "-n"},
    {CLI_WORD("--cache-type", transcribe_arguments, cache_type, cli_cache_types)},
    {CLI_TEXT("--device", transcribe_arguments, device), .traits = CLI_MAY_BE_EMPTY},
    {CLI_FLAG("--json", transcribe_arguments, json)},
};

static int transcribe_all(const transcribe_arguments *arguments)
{
    const pco_model_params how = {.device = arguments->device, .cache_type = cli_cache_dtype(arguments->cache_type)};
    transcribe_output out = {.arguments = arguments};
    pco_model *model = NULL;
    pco_error err = {""};
    int exit_status;
    cli_watch_signals();
    pco_context *context = cli_context(arguments->device, &exit_status);
    if (!context) return exit_status;
    pco_status status = cli_open_any_model(context, arguments->model, &how, &model, &err);
    for (int64_t i = 0; !status && i < arguments->n_files && !out.broken && !cli_interrupted(); i++) {
        out.file = arguments->files[i];
        status = transcribe_file(model, &out, &err);
    }
    exit_status = !status || status == PCO_ERROR_CANCELLED ? CLI_OK : cli_fail(&err);
    if (cli_interrupted()) cli_note("interrupted\n");
    pco_writer_release(&out.line);
    pco_model_close(model);
    pco_context_destroy(context);
    return cli_exit_status(exit_status);
}

static int transcribe_main(int argc, char **argv)
{
    transcribe_arguments *arguments = calloc(1, sizeof *arguments);
    if (!arguments) {
        cli_error("transcribe: out of host memory");
        return CLI_FAILED;
    }
    arguments->beams = 1;
    arguments->length_penalty = 1;
    int status = cli_parse(&cli_transcribe, argc, argv, arguments, NULL) ? CLI_USAGE : CLI_OK;
    if (!status && !arguments->n_files) {
        cli_error("transcribe: a WAV file is missing");
        status = CLI_USAGE;
    }
    if (!status) status = transcribe_all(arguments);
    free(arguments);
    return status;
}

const cli_command cli_transcribe = {
    .name = "transcribe",
    .summary = "write down what is said in WAV files",
    .help = "usage: portico transcribe MODEL FILE.wav ... [OPTION ...]\n\n"
            "MODEL is a Whisper, as a folder of Hugging Face. Files are WAV (PCM of 8, 16, 24 or 32 bits, or floats,\n"
            "at any rate from 8 kHz on; channels are mixed down). Each gives one line on stdout, or one for each\n"
            "piece. Sounds longer than a window of 30 s are heard in windows, none of which cuts a word. Statistics\n"
            "go to stderr.\n\n"
            "  --language XX       what is spoken: en, de ...; without it the model finds out\n"
            "  --task T            transcribe (default), or translate into English\n"
            "  --timestamps        a line for each piece, with its times\n"
            "  --beams N           texts that are tried side by side (default 1: always the likeliest token)\n"
            "  --length-penalty P  with beams: a text of N tokens scores log p / N^P (default 1; 0: log p)\n"
            "  -n, --max-tokens N  most tokens of a window; 0 (default): until the text ends or the context is full\n"
            "  --cache-type T      how keys and values are kept: f32 (default), f16 or q8_0\n"
            "  --device D          as PORTICO_BACKEND, and before it\n"
            "  --json              one JSON object a line for each piece: file, times, text, language, tokens\n\n"
            "Exit status: 0 done, 1 failed, 2 wrong usage, 128 + N ended by signal N.\n",
    CLI_OPTIONS(TRANSCRIBE_OPTIONS),
    .run = transcribe_main,
};
