/* Chats: messages to the text that a model was taught to answer (its chat template), and answers, with keys and values
 * kept from turn to turn. For models that are decoders alone.
 *
 *     const pco_chat_message talk[] = {{"system", "Be brief."}, {"user", "Why is the sea salty?"}};
 *     if (pco_sequence_create(model, &sequence, &err)) ...
 *     if (pco_chat_answer(sequence, talk, 2, NULL, NULL, print, NULL, NULL, &err)) ...
 *
 * The template is that of the model's file: the GGUF key tokenizer.chat_template, or a folder's chat_template.jinja,
 * chat_template.json or tokenizer_config.json (of several, the one called "default"). It is rendered as jinja2 does
 * with the settings of Hugging Face's transformers. Jinja that templates do not use is UNSUPPORTED, by name and line,
 * where it is reached.
 *
 * Messages are not escaped, as elsewhere: a control token that is spelled out in a message becomes one.
 *
 * Threads, NULL and fork: as in portico.h. */
#ifndef PORTICO_CHAT_H
#define PORTICO_CHAT_H

#include <portico/sequence.h>

#ifdef __cplusplus
extern "C" {
#endif

/* UTF-8. Roles are for the template to know: "system", "user", "assistant". The struct never grows: what a template
 * wants beyond these two is in the variables of the params. */
typedef struct pco_chat_message {
    const char *role, *content;
} pco_chat_message;

typedef struct pco_chat_params {
    size_t size;
    const char *source; /* Jinja, instead of the model's own template; NULL: that one */
    int complete;       /* 1: no answer is begun behind the messages (add_generation_prompt is false) */
    int64_t time;       /* for strftime_now, in seconds since 1970; 0: now */
    /* A JSON object: more variables of the template ("tools", "enable_thinking" ...), and "messages" where those have
     * more than a role and a content; then none are given as structs. NULL: none. */
    const char *variables;
} pco_chat_params;

/* The model's chat template, Jinja: *source (pco_free). Errors: NOT_FOUND where it has none; IO and FORMAT of its
 * files. */
PCO_EXPORT pco_status pco_chat_source(const pco_model *model, char **source, pco_error *err) PCO_NODISCARD;

/* messages[count] as the template writes them: *text (pco_free) of *bytes bytes and a NUL. `params` may be NULL.
 * Errors: NOT_FOUND as above; FORMAT for what is no template, and for variables that are no JSON object; INVALID for
 * text that is not UTF-8, for messages that the template refuses, and for a template that takes too much time or
 * memory; UNSUPPORTED; each with the template's line. */
PCO_EXPORT pco_status pco_chat_render(const pco_model *model, const pco_chat_message *messages, size_t count,
                                      const pco_chat_params *params, char **text, size_t *bytes,
                                      pco_error *err) PCO_NODISCARD;

/* The same as *ids (pco_free) of *n_ids tokens. BOS is there if the template writes it. `params` may be NULL. */
PCO_EXPORT pco_status pco_chat_encode(const pco_model *model, const pco_chat_message *messages, size_t count,
                                      const pco_chat_params *params, int32_t **ids, size_t *n_ids,
                                      pco_error *err) PCO_NODISCARD;

/* Answers the messages. What the sequence has already of their tokens stays there and is not read again, what follows
 * is forgotten; then it is as pco_sequence_generate. The answer ends with the model's end tokens, and with the control
 * token that the template writes behind an answer. stats->prompt_tokens counts those that were read. `params`,
 * `generate`, `text` and `stats` may be NULL; `generate` has no prompt. Errors: as pco_chat_encode and
 * pco_sequence_generate; INVALID when messages fill the context, with both numbers. */
PCO_EXPORT pco_status pco_chat_answer(pco_sequence *sequence, const pco_chat_message *messages, size_t count,
                                      const pco_chat_params *params, const pco_generate_params *generate,
                                      pco_text_fn text, void *user, pco_generate_stats *stats,
                                      pco_error *err) PCO_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
