#include "text/beam.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a text under way begins with, where only the first may go on: below all that a model says. */
static const double beam_closed = -1e9;

/* A text under way and one more token. */
typedef struct beam_candidate {
    double score; /* log-probability */
    int64_t from;
    int32_t id;
    int ends;
} beam_candidate;

/* A text that ended: `last` behind the first length - 1 tokens of text `from`, as it was then. */
typedef struct beam_ended {
    double score, log_probability;
    int64_t length, from;
    int32_t last;
    int by_token;
} beam_ended;

struct pco_beams {
    pco_beam_rules rules;
    int64_t steps, capacity; /* tokens of the texts under way; room in the history */
    int32_t *ids;            /* history [capacity,beams]: the token of each step */
    int32_t *from;           /* and which text of the step before it is behind */
    double *scores;          /* [beams] of the texts under way */
    beam_candidate *best;    /* [beams] of all candidates of a step */
    beam_candidate *open;    /* [beams] of those that go on */
    beam_ended *ended;       /* [beams], the best first */
    int64_t n_best, n_open, n_ended;
    unsigned char *never; /* [vocab_size]: 1 where no text gets it; or NULL */
    int hopeless;         /* no text under way can become better than those that have ended */
    int32_t *text;
};

pco_status pco_beams_create(const pco_beam_rules *rules, pco_beams **out, pco_error *err)
{
    const size_t n = (size_t)rules->beams;
    pco_beams *beams = *out = calloc(1, sizeof *beams);
    if (beams) {
        beams->rules = *rules;
        beams->scores = malloc(n * sizeof *beams->scores);
        beams->best = malloc(n * sizeof *beams->best);
        beams->open = malloc(n * sizeof *beams->open);
        beams->ended = malloc(n * sizeof *beams->ended);
        if (rules->n_never) beams->never = calloc((size_t)rules->vocab_size, 1);
    }
    if (!beams || !beams->scores || !beams->best || !beams->open || !beams->ended ||
        (rules->n_never && !beams->never)) {
        pco_beams_destroy(beams);
        *out = NULL;
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %zu beams", n);
    }
    for (size_t i = 0; i < n; i++) beams->scores[i] = i ? beam_closed : 0;
    for (uint32_t i = 0; i < rules->n_never; i++) beams->never[rules->never[i]] = 1;
    return PCO_OK;
}

void pco_beams_destroy(pco_beams *beams)
{
    if (!beams) return;
    free(beams->ids);
    free(beams->from);
    free(beams->scores);
    free(beams->best);
    free(beams->open);
    free(beams->ended);
    free(beams->never);
    free(beams->text);
    free(beams);
}

/* Room for one more step of the history. */
static pco_status beams_remember(pco_beams *beams, pco_error *err)
{
    if (beams->steps < beams->capacity) return PCO_OK;
    const int64_t capacity = 2 * beams->capacity + 32;
    const size_t bytes = (size_t)(capacity * beams->rules.beams) * sizeof *beams->ids;
    int32_t *ids = realloc(beams->ids, bytes);
    if (ids) beams->ids = ids;
    int32_t *from = ids ? realloc(beams->from, bytes) : NULL;
    if (from) beams->from = from;
    int32_t *text = from ? realloc(beams->text, (size_t)(capacity + 1) * sizeof *text) : NULL;
    if (!text) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for beams");
    beams->text = text;
    beams->capacity = capacity;
    return PCO_OK;
}

/* Into a list with the best first; of equals the one that came first. */
static void beams_insert(beam_candidate *list, int64_t *count, int64_t most, const beam_candidate *candidate)
{
    if (*count == most && !(candidate->score > list[most - 1].score)) return;
    int64_t at = *count < most ? (*count)++ : most - 1;
    for (; at > 0 && list[at - 1].score < candidate->score; at--) list[at] = list[at - 1];
    list[at] = *candidate;
}

/* log of the sum of exp(logits), in double. */
static pco_status beams_log_total(const float *logits, int64_t count, double *total, pco_error *err)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return pco_fail(err, PCO_ERROR_INVALID, "the logit of token %" PRId64 " is %g", i, (double)logits[i]);
        if ((double)logits[i] > largest) largest = (double)logits[i];
    }
    for (int64_t i = 0; i < count && largest > -INFINITY; i++) sum += exp((double)logits[i] - largest);
    *total = largest > -INFINITY ? largest + log(sum) : 0; /* where no token may follow, all scores stay -infinity */
    return PCO_OK;
}

static pco_status beams_collect(pco_beams *beams, const float *logits, pco_error *err)
{
    const pco_beam_rules *rules = &beams->rules;
    const int last = beams->steps + 1 >= rules->max_tokens;
    beams->n_best = beams->n_open = 0;
    for (int64_t b = 0; b < rules->beams; b++) {
        const float *row = logits + b * rules->vocab_size;
        double total;
        const pco_status status = beams_log_total(row, rules->vocab_size, &total, err);
        if (status) return status;
        if (rules->normalized) total = 0;
        for (int64_t id = 0; id < rules->vocab_size; id++) {
            if (beams->never && beams->never[id]) continue;
            const beam_candidate c = {beams->scores[b] + ((double)row[id] - total), b, (int32_t)id,
                                      last || rules->ends(rules->user, (int32_t)id)};
            beams_insert(beams->best, &beams->n_best, rules->beams, &c);
            if (!c.ends) beams_insert(beams->open, &beams->n_open, rules->beams, &c);
        }
    }
    return PCO_OK;
}

/* The best candidates that end a text join those that have ended. */
static void beams_close(pco_beams *beams)
{
    const pco_beam_rules *rules = &beams->rules;
    const int64_t length = beams->steps + 1;
    const int full = beams->n_ended == rules->beams;
    if (beams->hopeless || (full && rules->stopping == PCO_BEAM_STOP_FIRST)) return;
    for (int64_t i = 0; i < beams->n_best; i++) {
        const beam_candidate *c = &beams->best[i];
        const double score = c->score / pow((double)length, rules->length_penalty);
        if (!c->ends || (beams->n_ended == rules->beams && !(score > beams->ended[rules->beams - 1].score))) continue;
        int64_t at = beams->n_ended < rules->beams ? beams->n_ended++ : rules->beams - 1;
        for (; at > 0 && beams->ended[at - 1].score < score; at--) beams->ended[at] = beams->ended[at - 1];
        beams->ended[at] = (beam_ended){score, c->score, length, c->from, c->id, rules->ends(rules->user, c->id)};
    }
}

/* Is there nothing to go on with, or for? The step is done, and counted. */
static int beams_done(pco_beams *beams)
{
    const pco_beam_rules *rules = &beams->rules;
    const int full = beams->n_ended == rules->beams;
    const int far = rules->stopping == PCO_BEAM_STOP_NEVER && rules->length_penalty > 0;
    if (beams->n_open == 0) return 1;
    const double best =
        beams->open[0].score / pow((double)(far ? rules->max_tokens : beams->steps), rules->length_penalty);
    if (full && !(best > beams->ended[rules->beams - 1].score)) beams->hopeless = 1;
    return beams->hopeless || (full && rules->stopping == PCO_BEAM_STOP_FIRST);
}

pco_status pco_beams_step(pco_beams *beams, const float *logits, int64_t *from, int32_t *ids, int *done, pco_error *err)
{
    const int64_t count = beams->rules.beams;
    pco_status status = beams_remember(beams, err);
    if (!status) status = beams_collect(beams, logits, err);
    if (status) return status;
    *done = !beams->n_best || !(beams->best[0].score > -INFINITY);
    if (*done) return PCO_OK;
    beams_close(beams);
    for (int64_t i = 0; i < count && beams->n_open; i++) {
        const beam_candidate *c = &beams->open[i < beams->n_open ? i : 0]; /* a tiny vocabulary has not so many */
        beams->ids[beams->steps * count + i] = ids[i] = c->id;
        beams->from[beams->steps * count + i] = (int32_t)c->from;
        from[i] = c->from;
        beams->scores[i] = i < beams->n_open ? c->score : -INFINITY;
    }
    beams->steps++;
    *done = beams_done(beams);
    return PCO_OK;
}

int pco_beams_text(pco_beams *beams, int64_t rank, pco_beam_text *text)
{
    if (rank < 0 || rank >= beams->n_ended) return 0;
    const beam_ended *e = &beams->ended[rank];
    int64_t from = e->from;
    for (int64_t step = e->length - 2; step >= 0; step--) {
        beams->text[step] = beams->ids[step * beams->rules.beams + from];
        from = beams->from[step * beams->rules.beams + from];
    }
    beams->text[e->length - 1] = e->last;
    *text = (pco_beam_text){beams->text, (size_t)(e->length - e->by_token), e->score, e->log_probability, e->by_token};
    return 1;
}
