#include "cli/beams.h"

#include "base/error.h"
#include "cli/answer.h"
#include "formats/json.h"

#include <stdio.h>

const char *const cli_early_stopping[] = {"likely", "first", "never", NULL};

typedef struct beams_output {
    int json;
    int *broken;
    pco_writer line;
} beams_output;

static void beams_json(beams_output *out, const pco_beam *beam)
{
    pco_json_writer json = {.out = &out->line};
    pco_json_begin_object(&json);
    pco_json_key(&json, "text");
    pco_json_write_bytes(&json, beam->text ? beam->text : "", beam->bytes);
    pco_json_key(&json, "score");
    pco_json_write_number(&json, beam->score);
    pco_json_key(&json, "log_probability");
    pco_json_write_number(&json, beam->log_probability);
    pco_json_key(&json, "stop_reason");
    pco_json_write_string(&json, cli_stop_reason(beam->stop_reason));
    pco_json_key(&json, "tokens");
    pco_json_begin_array(&json);
    for (size_t i = 0; i < beam->count; i++) pco_json_write_int(&json, beam->ids[i]);
    pco_json_end_array(&json);
    pco_json_end_object(&json);
}

static int beams_receive(void *user, const pco_beam *beam)
{
    beams_output *out = user;
    out->line.size = 0;
    if (out->json)
        beams_json(out, beam);
    else
        pco_write(&out->line, beam->text ? beam->text : "", beam->bytes);
    pco_write_char(&out->line, '\n');
    if (out->line.status) return 1;
    if (fwrite(out->line.data, 1, out->line.size, stdout) != out->line.size || fflush(stdout) != 0) *out->broken = 1;
    return *out->broken;
}

static int beams_progress(void *user, int64_t tokens)
{
    (void)user;
    (void)tokens;
    return cli_interrupted() != 0;
}

double cli_length_penalty(double said) { return said == 0 ? PCO_NO_LENGTH_PENALTY : said; }

pco_status cli_beam_search(pco_model *model, const char *text, const pco_generate_params *generate,
                           const cli_beams *beams, int json, pco_generate_stats *stats, int *broken, pco_error *err)
{
    beams_output out = {.json = json, .broken = broken};
    pco_beam_params how = beams->params;
    how.size = sizeof how;
    how.early_stopping = (pco_early_stopping)beams->early_stopping;
    how.length_penalty = cli_length_penalty(beams->length_penalty);
    how.progress = beams_progress;
    pco_status status = pco_model_beam_search(model, text, generate, &how, beams_receive, &out, stats, err);
    if (status == PCO_ERROR_CANCELLED && cli_interrupted()) status = PCO_OK;
    if (!status) status = pco_writer_check(&out.line, "an answer", err);
    pco_writer_release(&out.line);
    return status;
}
