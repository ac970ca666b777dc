#include "models/hub.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Room for the path and the key in messages. */
enum { PCO_HUB_LABEL = 1024 };

/* Keys that say nothing of what a model computes from ids: of saving, training, sampling, and of outputs that nobody
 * asks for here. */
static const char *const hub_harmless[] = {
    "_name_or_path",
    "activation_dropout",
    "add_cross_attention", /* true has tensors that no decoder here uses, which are refused */
    "architectures",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_pdrop",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classif_dropout",
    "classifier_dropout",
    "classifier_dropout_prob",
    "cls_token_id",
    "decoder_layerdrop",
    "decoder_start_token_id",
    "directionality", /* said by files of 2018, and never looked at */
    "diversity_penalty",
    "do_sample",
    "dropout",
    "dropout_rate",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "embedding_dropout",
    "encoder_layerdrop",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "eos_token_ids",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "init_std",
    "initializer_factor",
    "initializer_range",
    "is_decoder",
    "label2id",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "pooler_fc_size", /* of a head that is not here, as the next ones */
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "prefix",
    "pretraining_tp", /* the same sums in parts */
    "problem_type",
    "qa_dropout",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "residual_dropout",
    "return_dict",
    "return_dict_in_generate",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "sep_token_id",
    "seq_classif_dropout",
    "summary_activation", /* likewise */
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_return_dict",
    "xla_device",
};

const pco_hub_keys pco_hub_usual_keys = {PCO_HUB_USUAL_KEYS, .eps = "rms_norm_eps"};

static void hub_read_heads(pco_hub_reader *r, const pco_hub_keys *keys, const pco_hub_sizes *usual,
                           pco_model_spec *spec)
{
    const int64_t heads = pco_hub_usual_size(r, keys->heads, 1 << 12, usual->heads),
                  kv_heads = pco_hub_size_or(r, keys->kv_heads, 1 << 12, usual->kv_heads ? usual->kv_heads : heads),
                  head_dim = pco_hub_size_or(r, keys->head_dim, 1 << 16, usual->head_dim);
    if (!r->status && !head_dim && spec->d_model % heads)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: '%s' %" PRId64 " is no multiple of '%s' %" PRId64, r->label,
                             keys->width, spec->d_model, keys->heads, heads);
    if (!r->status && heads % kv_heads)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: '%s' %" PRId64 " is no multiple of '%s' %" PRId64, r->label,
                             keys->heads, heads, keys->kv_heads, kv_heads);
    for (int side = 0; side < 2; side++) {
        spec->attention_heads[side] = heads;
        spec->kv_heads[side] = kv_heads;
        spec->head_dim[side] = head_dim ? head_dim : spec->d_model / heads;
    }
}

void pco_hub_read_decoder(pco_hub_reader *r, const pco_hub_keys *keys, pco_model_spec *spec)
{
    static const pco_hub_sizes none;
    const pco_hub_sizes *usual = keys->usual ? keys->usual : &none;
    spec->d_model = pco_hub_usual_size(r, keys->width, 1 << 20, usual->width);
    spec->layers[PCO_DECODER] = pco_hub_usual_size(r, keys->layers, PCO_SPEC_LAYERS, usual->layers);
    spec->ffn_dim[PCO_DECODER] = pco_hub_size_or(r, keys->ffn, 1 << 24, usual->ffn ? usual->ffn : 4 * spec->d_model);
    spec->max_position_embeddings =
        pco_hub_size_or(r, keys->context, 1 << 30, usual->positions ? usual->positions : 2048);
    spec->vocab_size[0] = spec->vocab_size[1] = pco_hub_usual_size(r, "vocab_size", INT32_MAX, usual->vocab);
    hub_read_heads(r, keys, usual, spec);
    if (!pco_hub_item(r, keys->eps) && !usual->eps && !r->status)
        r->status = pco_fail(r->err, PCO_ERROR_NOT_FOUND, "%s has no '%s'", r->label, keys->eps);
    spec->norm.eps = pco_hub_number(r, keys->eps, 0x1p-149, 1e3, usual->eps ? usual->eps : 1);
    pco_spec_set_norm(spec);
    spec->last_norm = spec->norm;
    spec->activation_function = pco_hub_activation(r, keys->activation, spec->activation_function);
    spec->tie_word_embeddings = pco_hub_bool(r, "tie_word_embeddings", spec->tie_word_embeddings);
    spec->rope_interleaved = 0;
    if (spec->position_embedding == PCO_POSITION_ROPE) pco_hub_read_rope(r, keys->rotary > 0 ? keys->rotary : 1, spec);
    pco_hub_only(r, "is_encoder_decoder", 0);
    spec->bos_token_id = spec->eos_token_id = spec->pad_token_id = spec->decoder_start_token_id = -1;
}

void pco_hub_read_experts(pco_hub_reader *r, const char *count_key, int64_t count, const char *used_key, int64_t used,
                          pco_model_spec *spec)
{
    spec->experts = pco_hub_size_or(r, count_key, PCO_SPEC_EXPERTS, count);
    spec->experts_used = pco_hub_size_or(r, used_key, spec->experts, used < spec->experts ? used : spec->experts);
    if (!r->status && spec->activation_function != PCO_NN_SWIGLU)
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: 'hidden_act' is none that Portico can run in experts; it runs 'silu'", r->label);
}

/* Does the list's layer see all keys? -1 for another kind than the two. */
static int hub_full_layer(const cJSON *item)
{
    const char *type = cJSON_GetStringValue(item);
    if (type && strcmp(type, "full_attention") == 0) return 1;
    return type && strcmp(type, "sliding_attention") == 0 ? 0 : -1;
}

/* The pattern that a list of layer_types has, as full_first and full_interval. */
static void hub_read_types(pco_hub_reader *r, const cJSON *list, pco_model_spec *spec)
{
    const int64_t layers = spec->layers[PCO_DECODER];
    unsigned char sees_all[PCO_SPEC_LAYERS];
    const cJSON *item;
    int64_t index = 0;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != layers) {
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: 'layer_types' must be a list of %" PRId64 " texts",
                             r->label, layers);
        return;
    }
    cJSON_ArrayForEach(item, list)
    {
        const int full = hub_full_layer(item);
        if (full < 0)
            r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                                 "%s: 'layer_types' has a layer other than 'full_attention' and 'sliding_attention', "
                                 "which Portico cannot run",
                                 r->label);
        if (full < 0) return;
        sees_all[index++] = (unsigned char)full;
    }
    index = pco_spec_find_pattern(spec, sees_all, layers);
    if (index < layers)
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: 'layer_types' has no period, which Portico cannot run: layer %" PRId64
                             " does not go on as those before it",
                             r->label, index);
}

void pco_hub_read_window(pco_hub_reader *r, int on, pco_model_spec *spec)
{
    const cJSON *types = pco_hub_item(r, "layer_types");
    const int said = cJSON_HasObjectItem(r->root, "sliding_window"); /* null: there is none */
    const int64_t window = pco_hub_size_or(r, "sliding_window", 1 << 30, on && !said ? spec->sliding_window : 0);
    on = pco_hub_bool(r, "use_sliding_window", on);
    spec->full_first = (int64_t)pco_hub_number(r, "max_window_layers", 0, PCO_SPEC_LAYERS, (double)spec->full_first);
    spec->sliding_window = on || types ? window : 0;
    if (!types || r->status) return;
    hub_read_types(r, types, spec);
    if (spec->full_first == spec->layers[PCO_DECODER])
        spec->sliding_window = 0;
    else if (!r->status && !window)
        r->status = pco_fail(r->err, PCO_ERROR_NOT_FOUND, "%s has no 'sliding_window' for its 'layer_types'", r->label);
}

void pco_hub_check_keys(pco_hub_reader *r)
{
    for (const cJSON *item = r->root->child; item && !r->status; item = item->next) {
        const int empty = (cJSON_IsObject(item) || cJSON_IsArray(item)) && !item->child;
        int known = empty || cJSON_IsNull(item) || item->string[0] == '_';
        for (size_t i = 0; i < sizeof hub_harmless / sizeof *hub_harmless && !known; i++)
            known = strcmp(hub_harmless[i], item->string) == 0;
        for (uint32_t i = 0; i < r->n_read && !known; i++) known = strcmp(r->read[i], item->string) == 0;
        if (!known)
            r->status =
                pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                         "%s: Portico does not know '%.100s' of this model_type, which may change what the model "
                         "computes; if it does not, take it out of the file",
                         r->label, item->string);
    }
}

void pco_hub_read_part(pco_hub_reader *r, const char *key, pco_hub_part_fn read, pco_model_spec *spec)
{
    const cJSON *item = pco_hub_item(r, key);
    cJSON *none = item ? NULL : cJSON_CreateObject();
    char label[PCO_HUB_LABEL];
    pco_hub_reader part = {.root = item ? item : none, .label = label, .status = r->status, .err = r->err};
    snprintf(label, sizeof label, "%.900s, '%s'", r->label, key);
    if (!part.status && item && !cJSON_IsObject(item))
        part.status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: '%s' must be an object", r->label, key);
    if (!part.status && !part.root)
        part.status = pco_fail(r->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", r->label);
    if (!part.status) read(&part, spec);
    if (!part.status) pco_hub_check_keys(&part);
    r->status = part.status;
    cJSON_Delete(none);
}

pco_status pco_hub_read_images(const pco_hub *hub, const cJSON *root, const char *label, pco_model_spec *spec,
                               pco_error *err)
{
    pco_hub_reader reader = {.root = root, .label = label, .err = err};
    hub->read_images(&reader, spec);
    if (!reader.status) pco_hub_check_keys(&reader);
    return reader.status;
}

pco_status pco_hub_refuse_packed(const cJSON *root, const char *label, pco_error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, "quantization_config");
    if (!item || cJSON_IsNull(item)) return PCO_OK;
    return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                    "%s: 'quantization_config' says that weights are packed in a way of its own, which Portico cannot "
                    "run; take the model in BF16, or as GGUF",
                    label);
}

pco_status pco_hub_read(const pco_hub *hub, const cJSON *root, const char *label, pco_model_spec *spec, pco_error *err)
{
    pco_hub_reader reader = {.root = root, .label = label, .err = err};
    if (hub->stack.layer) {
        spec->stacks[PCO_DECODER] = hub->stack;
        spec->names = hub->names;
        spec->lm_head = hub->lm_head;
    }
    if (spec->sliding_window == PCO_SPEC_NO_WINDOW) spec->sliding_window = 0;
    hub->read(&reader, spec);
    if (!reader.status) reader.status = pco_hub_refuse_packed(root, label, err);
    pco_hub_check_keys(&reader);
    return reader.status;
}
