/* Sequences: texts under way, whose keys and values stay on the device between calls. A model that is opened with room
 * for several (pco_model_params.sequences) keeps that many apart, continues them together, and copies one to try two
 * ways on. For models that are decoders alone.
 *
 *     pco_model_params params = {.size = sizeof params, .sequences = 2};
 *     if (pco_model_open(context, "model.gguf", &params, &model, &err)) ...
 *     if (pco_sequence_create(model, &one, &err)) ...
 *     if (pco_sequence_append(one, prompt, n, logits, NULL, NULL, &err)) ...      the prompt is read once
 *     if (pco_sequence_fork(one, &two, &err)) ...
 *     if (pco_sequences_step((pco_sequence *[]){one, two}, ids, 2, logits, &err)) ... one run for both
 *
 * A sequence has the ids that were appended or generated. What of them the model has not read yet, it reads when their
 * logits are asked for.
 *
 * Threads, NULL and fork: as in portico.h; sequences belong to their model, and are destroyed before it is closed. */
#ifndef PORTICO_SEQUENCE_H
#define PORTICO_SEQUENCE_H

#include <portico/portico.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pco_sequence pco_sequence;

/* An empty sequence, which takes one of the model's caches until it is destroyed. Errors: UNSUPPORTED for an
 * encoder-decoder; INVALID when all caches are taken; OUT_OF_HOST_MEMORY. */
PCO_EXPORT pco_status pco_sequence_create(pco_model *model, pco_sequence **sequence, pco_error *err) PCO_NODISCARD;
/* NULL is allowed. */
PCO_EXPORT void pco_sequence_destroy(pco_sequence *sequence);

/* A second sequence with the same ids; keys and values are copied on the device. Errors: as create, and what the device
 * returned. */
PCO_EXPORT pco_status pco_sequence_fork(pco_sequence *from, pco_sequence **sequence, pco_error *err) PCO_NODISCARD;

/* Its ids, *count of them, until the next call that changes it; NULL for NULL. `count` may be NULL. */
PCO_EXPORT const int32_t *pco_sequence_ids(const pco_sequence *sequence, size_t *count);

/* Forgets what is behind the first `length` ids; costs nothing. Errors: INVALID when there are fewer. */
PCO_EXPORT pco_status pco_sequence_truncate(pco_sequence *sequence, size_t length, pco_error *err) PCO_NODISCARD;

/* Appends ids[count] (nothing is added to them; with 0, only what is unread is read), and has the model read all.
 * `logits` may be NULL: f32 [vocab_size], those of the token to come. `progress` may be NULL. Errors: INVALID for ids
 * outside the vocabulary, for more than the context holds, with both numbers, and for logits of an empty sequence;
 * CANCELLED; what the device returned. The sequence is then as before. */
PCO_EXPORT pco_status pco_sequence_append(pco_sequence *sequence, const int32_t *ids, size_t count, float *logits,
                                          pco_prompt_fn progress, void *user, pco_error *err) PCO_NODISCARD;

/* Appends one id to each of `count` sequences of one model, in one run: ids[i] to sequences[i]. `logits` may be NULL:
 * f32 [count][vocab_size]. Errors: as append, and INVALID for one that is named twice or of another model. */
PCO_EXPORT pco_status pco_sequences_step(pco_sequence *const *sequences, const int32_t *ids, size_t count,
                                         float *logits, pco_error *err) PCO_NODISCARD;

/* As pco_model_generate, behind what the sequence has, to which prompt and answer are appended (but not the token that
 * ended it). A prompt's text gets BOS and EOS only where the sequence is empty; an empty prompt continues one that is
 * not. `params`, `text` and `stats` may be NULL; the prompt only where params has ids. */
PCO_EXPORT pco_status pco_sequence_generate(pco_sequence *sequence, const char *prompt,
                                            const pco_generate_params *params, pco_text_fn text, void *user,
                                            pco_generate_stats *stats, pco_error *err) PCO_NODISCARD;

/* Called when an answer of several is whole, with its own stats. Returning non-zero ends the call, which is no error.
 */
typedef int (*pco_answer_fn)(void *user, const pco_generate_stats *stats);

/* As pco_model_generate for each of prompts[count], which are texts. A decoder continues as many of them side by side
 * as the model has room for sequences (pco_model_params.sequences, less the caller's), one token of each in one run,
 * and takes the next prompt where one ends; what a sequence has read of the same tokens is copied, not read again
 * (stats->shared_tokens). An encoder-decoder, and a model with a draft, answers one after the other. Each text is the
 * one that the prompt alone would have, but for rounding: rows of several sequences may be added up in another order.
 *
 * The callbacks receive users[i] for prompt i; text of several prompts comes in turns. `params`, `text`, `answered`,
 * `users` and `stats` may be NULL; without users the callbacks receive NULL. The stats are of all, generation_seconds
 * by the clock. Threads: as in portico.h. Errors: as pco_model_generate, by the number of the prompt, from 0; INVALID
 * for params->prompt_ids. An error ends all texts that are under way, which `answered` then never hears of. */
PCO_EXPORT pco_status pco_model_generate_batch(pco_model *model, const char *const *prompts, size_t count,
                                               const pco_generate_params *params, pco_text_fn text,
                                               pco_answer_fn answered, void *const *users, pco_generate_stats *stats,
                                               pco_error *err) PCO_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
