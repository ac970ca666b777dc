/* What a model is made of, as data: one spec for all families. The file of a family fills it
 * (models/family.h), models/graphs.h builds it, models/causal.h and models/seq2seq.h run it, train/graph.h
 * trains it. Pairs are indexed by pco_model_side. */
#ifndef PCO_MODELS_SPEC_H
#define PCO_MODELS_SPEC_H

#include "nn/nn.h"

/* A decoder alone has no layers at PCO_ENCODER; its vocabulary and heads are there too. So it is the other way round
 * with an encoder alone. */
typedef enum pco_model_side { PCO_ENCODER = 0, PCO_DECODER = 1 } pco_model_side;

typedef enum pco_position_embedding {
    PCO_POSITION_SINUSOIDAL = 0,
    PCO_POSITION_ROPE = 1,
    PCO_POSITION_LEARNED = 2, /* a table with position_rows rows, added to the embeddings */
    PCO_POSITION_NONE = 3     /* nothing is added: positions show in attention only, or not at all */
} pco_position_embedding;

typedef enum pco_bias {
    PCO_BIAS_NONE = 0,
    PCO_BIAS_ALL = 1,
    PCO_BIAS_FOUND = 2 /* in the layers where the file has one */
} pco_bias;

/* Names of a stack. `layer` is a template, in which * stands for the number of the layer: the nodes of a
 * layer have it as their scope, and its tensors begin with it and a dot. */
typedef struct pco_stack_names {
    const char *embed_scope, *head_scope; /* of the nodes before and behind the layers */
    const char *embedding;                /* the table of the vocabulary */
    const char *positions;                /* the table of learned positions */
    const char *layer;
    const char *last_norm;
    const char *token_types;          /* the table of token types, added to the embeddings; NULL: none. Where there is
                                         no input for types, all are 0 */
    const char *embedding_norm;       /* of the sum of all embeddings; NULL: none */
    const char *embedding_projection; /* from embedding_size to d_model, behind that norm; NULL: none */
    const char *relative_bias;        /* [relative_buckets,H], added to the scores of all layers; NULL: none */
} pco_stack_names;

/* The head that guesses masked tokens (Devlin et al. 2018, 3.1): norm(activation(dense(x))) times the embeddings, plus
 * a bias. */
typedef struct pco_masked_head {
    const char *dense, *norm, *bias;
    const char *output; /* NULL: the table of embeddings */
    pco_nn_activation activation;
} pco_masked_head;

/* An encoder that hears: log-mel features f32 [bands, 2 rows] go through two convolutions of 3 taps with GELU, of which
 * the second takes every other frame, and get a learned position each (Radford et al. 2022, 2.2). */
typedef struct pco_sound_source {
    const char *conv1, *conv2;
    int64_t bands, rows; /* bands 0: the source is text */
} pco_sound_source;

/* A row on its way out of an encoder alone: x W^T, plus a bias, and tanh of that where there is one. */
typedef struct pco_row_head {
    const char *linear; /* what it is called; NULL: none */
    int64_t width;
    int bias, tanh;
} pco_row_head;

/* What an encoder reads instead of ids (Dosovitskiy et al. 2020): a row for each patch of an image, behind one that is
 * learned, which `class_token` names. */
typedef struct pco_patches {
    int64_t channels, image[2], patch[2]; /* heights and widths in pixels; patch[0] 0: it reads ids */
    const char *projection;               /* [d_model, channels * patch[0] * patch[1]] */
    int bias;
    const char *class_token; /* [d_model] */
} pco_patches;

/* Most pixels of an image's side. */
enum { PCO_SPEC_IMAGE = 4096 };

/* How many patches an image has. */
static inline int64_t pco_patch_count(const pco_patches *patches)
{
    return patches->image[0] / patches->patch[0] * (patches->image[1] / patches->patch[1]);
}

/* Names in a layer, behind its template; NULL where a model has none. */
typedef struct pco_layer_names {
    const char *self_attention_norm, *cross_attention_norm, *ffn_norm;
    const char *self_attention_post_norm, *ffn_post_norm; /* of what a block adds */
    const char *query, *key, *value, *fused, *output;     /* as in pco_nn_attention_params */
    const char *query_norm, *key_norm;                    /* of self-attention, as query_norm_whole says */
    const char *cross_query, *cross_key, *cross_value, *cross_output;
    const char *fc1, *fc2, *gate, *up, *down, *gate_up, *router; /* as in pco_nn_ffn_params */
} pco_layer_names;

/* In a family's spec: models of it may have windows, where their files say so. It becomes 0 when it is read. */
enum { PCO_SPEC_NO_WINDOW = -1 };

/* For text_end_id. */
enum { PCO_SPEC_HIGHEST = -1 };

/* Most experts of a layer. */
enum { PCO_SPEC_EXPERTS = 1024, PCO_SPEC_LAYERS = 1 << 12 };

/* Most pairs of channels of a head whose frequencies have factors of their own. */
enum { PCO_ROPE_PAIRS = 256 };

/* Fields are called as in a config.json of Hugging Face, where one has them. */
typedef struct pco_model_spec {
    const char *program; /* what executables are called */
    pco_stack_names stacks[2];
    pco_layer_names names;
    const pco_layer_names *decoder_names; /* where those of decoder layers differ; NULL: they do not */
    pco_masked_head masked_head;          /* of an encoder alone; all NULL: none */
    pco_sound_source sound;               /* what an encoder-decoder has for a source instead of text */
    pco_patches patches;                  /* of an encoder alone */
    /* Of an encoder alone: what a text or an image as a whole is, and scores of labels, from the row of the first
     * token, or (features_last) of the last one. */
    pco_row_head features, classes;
    int features_last;
    const char *logit_scale; /* the logarithm of what a cosine is multiplied by to be a logit; NULL: none */
    const char *lm_head;     /* the output projection, unless tie_word_embeddings */
    const char *logits_bias; /* NULL: none */
    int64_t vocab_size[2], d_model;
    int64_t embedding_size;    /* of the tables; 0: d_model */
    int64_t token_types;       /* rows of that table */
    int64_t layer_groups;      /* layers share their weights in so many groups of equal size; 0: each has its own */
    int64_t relative_buckets;  /* of distances between positions (Raffel et al. 2020, 2.1); 0: none */
    int64_t relative_distance; /* from here on all distances fall into the last bucket */
    int64_t layers[2], attention_heads[2], kv_heads[2], head_dim[2], ffn_dim[2];
    int64_t experts, experts_used; /* of the decoder's feed-forward blocks; 0: each is one block, of ffn_dim too */
    int experts_normalized;
    pco_nn_activation activation_function;
    int normalize_before;
    int parallel_residual; /* x + attention(norm(x)) + feed-forward(norm(x)); without an ffn_norm of one norm */
    pco_nn_norm_params norm, last_norm; /* of the layers; the stacks' own, with final_norm */
    int final_norm;
    int query_norm_whole;     /* query_norm and key_norm: 1: of all heads as one row; 0: of each head */
    double attention_scale;   /* 0: 1 / sqrt(head_dim) */
    double attention_softcap; /* 0: none */
    int64_t sliding_window;   /* self-attention of the decoder sees that many keys; 0: all; PCO_SPEC_NO_WINDOW */
    int64_t full_first, full_interval;              /* but all in the first layers, and in every so many, the last of
                                                       each; 0: in none */
    double logits_softcap;                          /* logits become softcap * tanh(logits / softcap); 0: they do not */
    pco_bias attention_bias, output_bias, ffn_bias; /* of query, key and value; of what attention ends with */
    int no_key_bias;                                /* but the projection of keys has none */
    pco_position_embedding position_embedding;
    int64_t rope_dimensions;                /* of each head; 0: all */
    double rope_theta, rope_theta_windowed; /* the second in layers with a window, which then have none of the scalings
                                               below; 0: as the others */
    double rope_scale;                      /* positions are divided by it; 0: they are not */
    int64_t rope_factor_count;              /* rope_dimensions / 2, or 0: no factors */
    float rope_factors[PCO_ROPE_PAIRS];     /* what each frequency is divided by */
    int64_t rope_original_context;          /* for longer contexts it is divided by: */
    float rope_long_factors[PCO_ROPE_PAIRS];
    double rope_amplitude;                   /* of sine and cosine; 0: 1 */
    int64_t rope_none_interval;              /* no rotation in every so many layers, the last of each; 0: all rotate */
    int rope_interleaved, sinusoidal_layout; /* as pco_nn_sinusoidal */
    int64_t position_offset;
    int scale_embedding, tie_word_embeddings, share_embeddings;
    int32_t pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id; /* -1: none */
    int64_t max_position_embeddings;
    int64_t position_rows; /* of the table of learned positions; 0: max_position_embeddings */
    double head_scale;     /* the output projection reads x times this; 0: x */
    int add_eos_to_source;
    int decoder_only; /* a language model, without encoder and cross-attention */
    int encoder_only; /* it writes no text: without decoder and output projection */
    int causal;       /* of an encoder alone: each token sees those before it and itself */
    /* Of an encoder alone: features are of a text up to the first of these, PCO_SPEC_HIGHEST: the highest id that is
     * in it; 0: of the whole text. */
    int32_t text_end_id;
    double dropout; /* in training graphs only, on embeddings and on what each block adds */
} pco_model_spec;

/* What follows for norms from the width of the model. */
static inline void pco_spec_set_norm(pco_model_spec *spec)
{
    spec->norm.size = sizeof spec->norm;
    spec->norm.width = spec->d_model;
}

/* Names of the layers of a side. */
static inline const pco_layer_names *pco_spec_names(const pco_model_spec *spec, pco_model_side side)
{
    return side == PCO_DECODER && spec->decoder_names ? spec->decoder_names : &spec->names;
}

/* The name of a part of a layer, or of the layer itself for NULL; written to `name`, and returned. */
enum { PCO_SPEC_NAME = 256 };
/* The spec as a model with that context runs it: with the factors for long texts where it is one. */
pco_model_spec pco_spec_for_context(const pco_model_spec *spec, int64_t context);
/* Does the layer of the decoder see all keys, whatever sliding_window is? */
int pco_spec_sees_all(const pco_model_spec *spec, int64_t layer);
/* Sets full_first and full_interval as the flags of so many layers say. Returns `layers`, or the first layer that does
 * not fit into a period. */
int64_t pco_spec_find_pattern(pco_model_spec *spec, const unsigned char *sees_all, int64_t layers);
const char *pco_spec_layer_name(const pco_model_spec *spec, pco_model_side side, int64_t index, const char *part,
                                char name[PCO_SPEC_NAME]);

#endif
