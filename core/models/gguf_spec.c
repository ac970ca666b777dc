#include "models/gguf_spec.h"
#include "models/rope.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reading goes on after an error without effect: the first one is kept. What is then returned is a value that
 * divides and sizes without harm, never what the file said. */
typedef struct gguf_reader {
    const pco_gguf *gguf;
    const char *label, *architecture;
    char key[128]; /* the one that was made last */
    pco_status status;
    pco_error *err;
} gguf_reader;

/* "ARCHITECTURE.name". */
static const char *gguf_key(gguf_reader *r, const char *name)
{
    snprintf(r->key, sizeof r->key, "%s.%s", r->architecture, name);
    return r->key;
}

static int64_t gguf_size(gguf_reader *r, const char *name, uint32_t most)
{
    uint32_t value = 1;
    const char *key = gguf_key(r, name);
    if (!r->status) r->status = pco_gguf_u32(r->gguf, key, &value, r->err);
    if (!r->status && (value < 1 || value > most))
        r->status =
            pco_fail(r->err, PCO_ERROR_FORMAT, "%s: key '%s' is %u, and must be 1 to %u", r->label, key, value, most);
    return r->status ? 1 : value;
}

static int64_t gguf_size_or(gguf_reader *r, const char *name, uint32_t most, int64_t fallback)
{
    return pco_gguf_find(r->gguf, gguf_key(r, name)) ? gguf_size(r, name, most) : fallback;
}

/* As gguf_size_or, but 0 says that the file leaves it open: llama.cpp writes all the keys that it knows into a file
 * that it saves itself, and 0 where the model had none. */
static int64_t gguf_size_unless_zero(gguf_reader *r, const char *name, uint32_t most, int64_t fallback)
{
    uint32_t value = 0;
    const char *key = gguf_key(r, name);
    if (!r->status) r->status = pco_gguf_u32_or(r->gguf, key, 0, &value, r->err);
    return value ? gguf_size(r, name, most) : fallback;
}

static double gguf_number(gguf_reader *r, const char *name, double least, double most, double fallback)
{
    float value = (float)fallback;
    const char *key = gguf_key(r, name);
    if (!r->status) r->status = pco_gguf_f32_or(r->gguf, key, value, &value, r->err);
    if (!r->status && !((double)value >= least && (double)value <= most))
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: key '%s' is %g, and must be %g to %g", r->label, key,
                             (double)value, least, most);
    return r->status ? fallback : (double)value;
}

/* As gguf_number, but 0 says that the file leaves it open, too. */
static double gguf_number_unless_zero(gguf_reader *r, const char *name, double least, double most, double fallback)
{
    float value = 0;
    const char *key = gguf_key(r, name);
    if (!r->status) r->status = pco_gguf_f32_or(r->gguf, key, 0, &value, r->err);
    return value == 0 ? fallback : gguf_number(r, name, least, most, fallback);
}

/* What divides the angles of positions: models have 1 to 64. Two of them are multiplied in f32. */
#define GGUF_FACTOR_LEAST 1e-6
#define GGUF_FACTOR_MOST  1e6

static double gguf_factor(gguf_reader *r, const char *name)
{
    return gguf_number_unless_zero(r, name, GGUF_FACTOR_LEAST, GGUF_FACTOR_MOST, 1);
}

void pco_gguf_name_experts(pco_layer_names *names)
{
    names->gate = "ffn_gate_exps";
    names->up = "ffn_up_exps";
    names->down = "ffn_down_exps";
}

/* A mixture of experts, in families that know some; their blocks may have a size of their own. */
static void gguf_read_experts(gguf_reader *r, pco_model_spec *spec)
{
    uint32_t experts = 0, softmax = 1;
    if (!r->status) r->status = pco_gguf_u32_or(r->gguf, gguf_key(r, "expert_count"), 0, &experts, r->err);
    if (r->status || !experts) return;
    if (!spec->names.router || experts > PCO_SPEC_EXPERTS)
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s is a mixture of %u experts, which Portico cannot run in a model of architecture '%s'",
                             r->label, experts, r->architecture);
    else
        r->status = pco_gguf_u32_or(r->gguf, gguf_key(r, "expert_gating_func"), 1, &softmax, r->err);
    if (!r->status && softmax > 1) /* 0: left open */
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED, "%s: key '%s' is %u, which Portico cannot run; it runs 1",
                             r->label, r->key, softmax);
    spec->experts = r->status ? 1 : experts;
    spec->experts_used = gguf_size(r, "expert_used_count", (uint32_t)spec->experts);
    spec->ffn_dim[PCO_DECODER] =
        gguf_size_unless_zero(r, "expert_feed_forward_length", 1 << 24, spec->ffn_dim[PCO_DECODER]);
    pco_gguf_name_experts(&spec->names);
}

static void gguf_read_sizes(gguf_reader *r, pco_model_spec *spec)
{
    spec->d_model = gguf_size(r, "embedding_length", 1 << 20);
    spec->layers[PCO_DECODER] = gguf_size(r, "block_count", PCO_SPEC_LAYERS);
    spec->ffn_dim[PCO_DECODER] = gguf_size(r, "feed_forward_length", 1 << 24);
    gguf_read_experts(r, spec);
    spec->attention_heads[PCO_DECODER] = gguf_size(r, "attention.head_count", 1 << 12);
    spec->kv_heads[PCO_DECODER] =
        gguf_size_or(r, "attention.head_count_kv", 1 << 12, spec->attention_heads[PCO_DECODER]);
    spec->max_position_embeddings = gguf_size(r, "context_length", 1 << 30);
}

static void gguf_read_norm(gguf_reader *r, pco_model_spec *spec)
{
    const char *name =
        spec->norm.type == PCO_NN_RMS_NORM ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
    spec->norm.eps = gguf_number(r, name, 0x1p-149, 1e3, 1);
    if (!r->status && !pco_gguf_find(r->gguf, gguf_key(r, name)))
        r->status = pco_fail(r->err, PCO_ERROR_NOT_FOUND, "%s has no key '%s'", r->label, r->key);
    pco_spec_set_norm(spec);
    spec->last_norm = spec->norm;
}

static void gguf_read_heads(gguf_reader *r, pco_model_spec *spec)
{
    const int64_t heads = spec->attention_heads[PCO_DECODER];
    if (!r->status && !pco_gguf_find(r->gguf, gguf_key(r, "attention.key_length")) && spec->d_model % heads)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: %s.embedding_length %" PRId64 " is no multiple of %s.attention.head_count %" PRId64,
                             r->label, r->architecture, spec->d_model, r->architecture, heads);
    const int64_t head_dim = gguf_size_or(r, "attention.key_length", 1 << 16, spec->d_model / heads);
    const int64_t value_dim = gguf_size_or(r, "attention.value_length", 1 << 16, head_dim);
    if (!r->status && value_dim != head_dim)
        r->status =
            pco_fail(r->err, PCO_ERROR_UNSUPPORTED, "%s: %s differs from the keys' length, which Portico cannot run",
                     r->label, gguf_key(r, "attention.value_length"));
    spec->head_dim[PCO_DECODER] = head_dim;
}

static int gguf_is_scaled(gguf_reader *r, const char *type)
{
    const char *found = "";
    if (!r->status) r->status = pco_gguf_text_or(r->gguf, gguf_key(r, "rope.scaling.type"), "", &found, r->err);
    return strcmp(found, type) == 0;
}

/* YaRN as llama.cpp has it in these families: 32 and 1 turns, an amplitude that follows from the factor, and
 * attn_factor on top of it. */
static void gguf_read_yarn(gguf_reader *r, pco_model_spec *spec)
{
    const int64_t original =
        gguf_size_or(r, "rope.scaling.original_context_length", 1 << 30, spec->max_position_embeddings);
    const pco_rope_yarn yarn = {.factor = gguf_factor(r, "rope.scaling.factor"),
                                .original_context = (double)original,
                                .beta_fast = 32,
                                .beta_slow = 1,
                                .truncate = 1};
    spec->rope_amplitude =
        (spec->rope_amplitude > 0 ? spec->rope_amplitude : 1) * pco_rope_yarn_amplitude(yarn.factor, 1);
    if (!r->status) r->status = pco_rope_scale_yarn(spec, &yarn, r->label, r->err);
}

/* rope.scaling.*: linear (Chen et al. 2023), YaRN, LongRoPE (whose factors are tensors), or refused by name. A factor
 * without a type is linear, and files of before these keys have rope.scale_linear. */
static void gguf_read_rope(gguf_reader *r, pco_model_spec *spec)
{
    const char *type = "linear";
    spec->rope_dimensions = gguf_size_or(r, "rope.dimension_count", 1 << 16, spec->head_dim[PCO_DECODER]);
    spec->rope_theta = gguf_number(r, "rope.freq_base", 1e-30, 1e30, 10000);
    if (spec->rope_theta_windowed > 0)
        spec->rope_theta_windowed = gguf_number(r, "rope.freq_base_swa", 1e-30, 1e30, spec->rope_theta_windowed);
    const double amplitude = gguf_number(r, "rope.scaling.attn_factor", GGUF_FACTOR_LEAST, GGUF_FACTOR_MOST, 1);
    if (amplitude != 1) spec->rope_amplitude = amplitude;
    if (!r->status) r->status = pco_gguf_text_or(r->gguf, gguf_key(r, "rope.scaling.type"), type, &type, r->err);
    if (r->status) return;
    if (strcmp(type, "linear") == 0)
        spec->rope_scale =
            gguf_factor(r, pco_gguf_find(r->gguf, gguf_key(r, "rope.scaling.factor")) ? "rope.scaling.factor"
                                                                                      : "rope.scale_linear");
    else if (strcmp(type, "yarn") == 0)
        gguf_read_yarn(r, spec);
    else if (strcmp(type, "none") != 0 && !(strcmp(type, "longrope") == 0 &&
                                            pco_weights_find(pco_gguf_weights(r->gguf), "rope_factors_short.weight")))
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: %s is '%s', which Portico cannot run; it runs 'none', 'linear', 'yarn' and "
                             "'longrope'",
                             r->label, r->key, type);
}

/* A soft cap, where the family has one. */
static void gguf_read_cap(gguf_reader *r, const char *name, double *cap)
{
    if (*cap > 0) *cap = gguf_number(r, name, 1e-3, 1e6, *cap);
}

/* Which layers have the window: one number, as full_interval, or a flag for each layer. */
static void gguf_read_pattern(gguf_reader *r, pco_model_spec *spec)
{
    static const char name[] = "attention.sliding_window_pattern";
    const int64_t layers = spec->layers[PCO_DECODER];
    const pco_gguf_entry *entry = pco_gguf_find(r->gguf, gguf_key(r, name));
    unsigned char *flags = NULL;
    uint64_t count = 0;
    if (r->status || !entry) return;
    if (!entry->is_array) {
        spec->full_interval = gguf_size(r, name, PCO_SPEC_LAYERS);
        return;
    }
    r->status = pco_gguf_bool_array(r->gguf, r->key, &flags, &count, r->err);
    if (!r->status && count < (uint64_t)layers)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: key '%s' has %" PRIu64 " elements for %" PRId64 " layers",
                             r->label, r->key, count, layers);
    for (int64_t i = 0; !r->status && i < layers; i++) flags[i] = !flags[i];
    const int64_t odd = r->status ? layers : pco_spec_find_pattern(spec, flags, layers);
    if (odd < layers)
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: key '%s' has no period, which Portico cannot run: layer %" PRId64
                             " does not go on as those before it",
                             r->label, r->key, odd);
    free(flags);
}

/* The window, where the family has one: as wide as the file says, in the layers of the family's pattern. */
static void gguf_read_window(gguf_reader *r, pco_model_spec *spec)
{
    const int windowed = spec->sliding_window != 0;
    uint32_t window = spec->sliding_window > 0 ? (uint32_t)spec->sliding_window : 0;
    if (!r->status)
        r->status = pco_gguf_u32_or(r->gguf, gguf_key(r, "attention.sliding_window"), window, &window, r->err);
    if (windowed) {
        spec->sliding_window = window;
        gguf_read_pattern(r, spec);
    } else if (!r->status && window > 0 && window < spec->max_position_embeddings) {
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: key '%s' is %u, which Portico cannot run in a model of architecture '%s'; it runs "
                             "windows from the context_length on, %" PRId64,
                             r->label, r->key, window, r->architecture, spec->max_position_embeddings);
    }
}

/* Keys that say that a model computes something that no family here does, or not this one: without an effect at `same`
 * only, and where they are 0, which says that they are not set. The caps of 50 and 30 are llama.cpp's values before it
 * reads a file; it saves them with each model, and applies them in the families that have caps. */
static void gguf_refuse(gguf_reader *r, const pco_model_spec *spec)
{
    const int rope = spec->position_embedding == PCO_POSITION_ROPE, yarn = rope && gguf_is_scaled(r, "yarn");
    const struct {
        const char *name;
        double same;
        int read; /* by the functions above, or of RoPE where there is none */
    } keys[] = {
        {"attention.clamp_kqv", 0},
        {"attention.max_alibi_bias", 0},
        {"attention.output_scale", 1},
        {"attention.scale", 1 / sqrt((double)spec->head_dim[PCO_DECODER])},
        {"attention.temperature_scale", 0},
        {"attn_logit_softcapping", 50, .read = spec->attention_softcap > 0},
        {"embedding_scale", 1},
        {"expert_weights_scale", 1},
        {"final_logit_softcapping", 30, .read = spec->logits_softcap > 0},
        {"logit_scale", 1},
        {"residual_scale", 1},
        {"rope.freq_base_swa", spec->rope_theta, .read = !rope || spec->rope_theta_windowed > 0},
        {"rope.scaling.yarn_attn_factor", 1, .read = !yarn},
        {"rope.scaling.yarn_beta_fast", 32, .read = !yarn},
        {"rope.scaling.yarn_beta_slow", 1, .read = !yarn},
        {"rope.scaling.yarn_ext_factor", -1, .read = !yarn},
        {"rope.scaling.yarn_log_multiplier", 0, .read = !yarn},
    };
    int causal = 1;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !r->status; i++) {
        float value = 0;
        const char *key = gguf_key(r, keys[i].name);
        r->status = pco_gguf_f32_or(r->gguf, key, 0, &value, r->err);
        if (!r->status && !keys[i].read && value != 0 && value != (float)keys[i].same)
            r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                                 "%s: key '%s' is %g, which Portico cannot run in a model of architecture '%s'",
                                 r->label, key, (double)value, r->architecture);
    }
    if (!r->status) r->status = pco_gguf_bool_or(r->gguf, gguf_key(r, "attention.causal"), 1, &causal, r->err);
    if (!r->status && !causal)
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: key '%s' is false, which Portico cannot run: it continues texts", r->label, r->key);
}

static void gguf_check_heads(gguf_reader *r, const pco_model_spec *spec)
{
    const int64_t heads = spec->attention_heads[PCO_DECODER], kv_heads = spec->kv_heads[PCO_DECODER],
                  head_dim = spec->head_dim[PCO_DECODER];
    if (r->status) return;
    if (heads % kv_heads)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: %s.attention.head_count %" PRId64 " is no multiple of %s.attention.head_count_kv "
                             "%" PRId64,
                             r->label, r->architecture, heads, r->architecture, kv_heads);
    else if (spec->rope_dimensions % 2 || spec->rope_dimensions > head_dim)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: %s is %" PRId64 ", and must be even and at most the head size %" PRId64, r->label,
                             gguf_key(r, "rope.dimension_count"), spec->rope_dimensions, head_dim);
}

/* The tensor, where there is one; returns whether there is. */
static int gguf_read_factors(gguf_reader *r, const char *name, const pco_model_spec *spec, float *factors)
{
    const pco_weight *found = pco_weights_find(pco_gguf_weights(r->gguf), name);
    const int64_t pairs = spec->rope_dimensions / 2;
    if (r->status || !found) return 0;
    if (found->dtype != PCO_F32 || found->rank != 1 || found->shape[0] != pairs || !found->data ||
        (uintptr_t)found->data % sizeof(float))
        r->status =
            pco_fail(r->err, PCO_ERROR_FORMAT, "%s: tensor '%s' must be F32 [%" PRId64 "]", r->label, name, pairs);
    else if (pairs > PCO_ROPE_PAIRS)
        r->status =
            pco_fail(r->err, PCO_ERROR_UNSUPPORTED, "%s: tensor '%s' has %" PRId64 " elements; Portico runs %d at most",
                     r->label, name, pairs, PCO_ROPE_PAIRS);
    const float *values = found->data;
    for (int64_t i = 0; !r->status && i < pairs; i++) {
        if (!((double)values[i] >= GGUF_FACTOR_LEAST && (double)values[i] <= GGUF_FACTOR_MOST))
            r->status =
                pco_fail(r->err, PCO_ERROR_FORMAT, "%s: element %" PRId64 " of '%s' is %g, and must be %g to %g",
                         r->label, i, name, (double)values[i], GGUF_FACTOR_LEAST, GGUF_FACTOR_MOST);
        factors[i] = values[i];
    }
    return !r->status;
}

/* One list of factors, or LongRoPE's two (Ding et al. 2024). */
static void gguf_read_all_factors(gguf_reader *r, pco_model_spec *spec)
{
    static const char long_name[] = "rope_factors_long.weight", short_name[] = "rope_factors_short.weight";
    const pco_weights *weights = pco_gguf_weights(r->gguf);
    if (!r->status && !pco_weights_find(weights, short_name) != !pco_weights_find(weights, long_name)) {
        const int only_long = pco_weights_find(weights, long_name) != NULL;
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED, "%s has a tensor '%s' and no '%s', and Portico needs both",
                             r->label, only_long ? long_name : short_name, only_long ? short_name : long_name);
    }
    float yarn[PCO_ROPE_PAIRS];
    const int64_t scaled = spec->rope_factor_count;
    for (int64_t i = 0; i < scaled; i++) yarn[i] = spec->rope_factors[i];
    const int one = gguf_read_factors(r, "rope_freqs.weight", spec, spec->rope_factors);
    for (int64_t i = 0; one && i < scaled; i++) spec->rope_factors[i] *= yarn[i];
    const int two = gguf_read_factors(r, short_name, spec, spec->rope_factors) &&
                    gguf_read_factors(r, long_name, spec, spec->rope_long_factors);
    if (one || two) spec->rope_factor_count = spec->rope_dimensions / 2;
    if (two)
        spec->rope_original_context =
            gguf_size_or(r, "rope.scaling.original_context_length", 1 << 30, spec->max_position_embeddings);
}

/* The embedding table's first dimension: the vocabulary. It is the output projection too where there is no
 * other. */
static void gguf_read_vocab(gguf_reader *r, pco_model_spec *spec)
{
    const pco_weights *weights = pco_gguf_weights(r->gguf);
    const char *name = spec->stacks[PCO_DECODER].embedding;
    const pco_weight *table = pco_weights_find(weights, name);
    if (r->status) return;
    if (!table || table->rank != 2)
        r->status = pco_fail(r->err, PCO_ERROR_NOT_FOUND, "%s has no tensor '%s' with two dimensions", r->label, name);
    else if (table->shape[0] < 1 || table->shape[0] > INT32_MAX)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: '%s' has %" PRId64 " rows, and must have one for each token, 1 to %d", r->label, name,
                             table->shape[0], INT32_MAX);
    else
        spec->vocab_size[PCO_DECODER] = table->shape[0];
    spec->tie_word_embeddings = pco_weights_find(weights, spec->lm_head) == NULL;
}

pco_status pco_gguf_read_spec(const pco_gguf *gguf, pco_model_spec *spec, pco_error *err)
{
    gguf_reader reader = {.gguf = gguf, .label = pco_gguf_label(gguf), .err = err};
    reader.status = pco_gguf_text(gguf, "general.architecture", &reader.architecture, err);
    if (reader.status) return reader.status;
    gguf_read_sizes(&reader, spec);
    gguf_read_norm(&reader, spec);
    gguf_read_heads(&reader, spec);
    if (spec->position_embedding == PCO_POSITION_ROPE) gguf_read_rope(&reader, spec);
    gguf_read_cap(&reader, "attn_logit_softcapping", &spec->attention_softcap);
    gguf_read_cap(&reader, "final_logit_softcapping", &spec->logits_softcap);
    gguf_read_window(&reader, spec);
    gguf_refuse(&reader, spec);
    gguf_check_heads(&reader, spec);
    if (spec->position_embedding == PCO_POSITION_ROPE) gguf_read_all_factors(&reader, spec);
    gguf_read_vocab(&reader, spec);
    spec->vocab_size[PCO_ENCODER] = spec->vocab_size[PCO_DECODER];
    spec->attention_heads[PCO_ENCODER] = spec->attention_heads[PCO_DECODER];
    spec->kv_heads[PCO_ENCODER] = spec->kv_heads[PCO_DECODER];
    spec->head_dim[PCO_ENCODER] = spec->head_dim[PCO_DECODER];
    spec->bos_token_id = spec->eos_token_id = spec->decoder_start_token_id = -1; /* the tokenizer knows them */
    return reader.status;
}
