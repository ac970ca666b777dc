/* Models in the layout of Hugging Face: a folder with config.json, and its weights in safetensors (formats/shards.h).
 *
 * A config.json holds much that says nothing of the numbers that a model computes, and some that changes them. Each key
 * is either read by the family, or known to change nothing, or null; any other refuses the model by its name. */
#ifndef PCO_MODELS_HUB_H
#define PCO_MODELS_HUB_H

#include "formats/json.h"
#include "models/spec.h"

/* ---- reading config.json -------------------------------------------------------------------------------- */

enum { PCO_HUB_KEYS = 128 };

/* Reading goes on after an error without effect: the first one is kept. What is then returned is a value that divides
 * and sizes without harm. A key that is null counts as absent. */
typedef struct pco_hub_reader {
    const cJSON *root;
    const char *label; /* the path, for messages */
    const char *read[PCO_HUB_KEYS];
    uint32_t n_read;
    pco_status status;
    pco_error *err;
} pco_hub_reader;

/* The value of a key, which counts as read from then on; NULL where it is absent or null. */
const cJSON *pco_hub_item(pco_hub_reader *r, const char *key);
/* A number of things, 1 to `most`; the plain form asks for the key. */
int64_t pco_hub_size(pco_hub_reader *r, const char *key, int64_t most);
int64_t pco_hub_size_or(pco_hub_reader *r, const char *key, int64_t most, int64_t fallback);
double pco_hub_number(pco_hub_reader *r, const char *key, double least, double most, double fallback);
int pco_hub_bool(pco_hub_reader *r, const char *key, int fallback);
/* One that the file must say where no usual one is known (0). */
int64_t pco_hub_usual_size(pco_hub_reader *r, const char *key, int64_t most, int64_t usual);
/* The index of the text in names[count]. */
uint32_t pco_hub_enum(pco_hub_reader *r, const char *key, const char *const *names, uint32_t count, uint32_t fallback);
/* A key that Portico can follow only where it has this value: a number, or 0 and 1 for false and true; a text. */
void pco_hub_only(pco_hub_reader *r, const char *key, double value);
void pco_hub_only_text(pco_hub_reader *r, const char *key, const char *value);
/* A token id, or the first of a list of them; -1 for none. */
int32_t pco_hub_token(pco_hub_reader *r, const char *key, int32_t fallback);
/* The activation that the key names; that of gated blocks where `usual` is one. */
pco_nn_activation pco_hub_activation(pco_hub_reader *r, const char *key, pco_nn_activation usual);
/* A key that the family knows to change nothing. */
void pco_hub_ignore(pco_hub_reader *r, const char *key);

/* An error for a key that nobody has read and that may change what the model computes. What is null or empty says
 * nothing. */
void pco_hub_check_keys(pco_hub_reader *r);

/* Sizes of models whose files need not say them; 0 for what they must. */
typedef struct pco_hub_sizes {
    int64_t width, ffn, layers, heads, positions, vocab, kv_heads, head_dim;
    double eps;
} pco_hub_sizes;

/* What families call the same thing differently; NULL for what a family does not have. */
typedef struct pco_hub_keys {
    const char *width, *ffn, *layers, *heads, *kv_heads, *head_dim, *context, *eps, *activation;
    const char *theta;          /* NULL: "rope_theta" */
    const char *rotary_key;     /* which part of a head is rotated; NULL: the whole, in files that are written */
    double rotary;              /* no key: that part where the file does not say; 0: all */
    const pco_hub_sizes *usual; /* of a decoder; NULL: the file must say them */
} pco_hub_keys;

/* As most families call them; the parts are for the initialiser of those that call some otherwise. */
#define PCO_HUB_USUAL_HEADS \
    .width = "hidden_size", .layers = "num_hidden_layers", .heads = "num_attention_heads", \
    .kv_heads = "num_key_value_heads", .head_dim = "head_dim", .context = "max_position_embeddings"
#define PCO_HUB_USUAL_SIZES PCO_HUB_USUAL_HEADS, .ffn = "intermediate_size"
#define PCO_HUB_USUAL_KEYS  PCO_HUB_USUAL_SIZES, .activation = "hidden_act"
extern const pco_hub_keys pco_hub_usual_keys;

/* Sizes, the norms' epsilon, the activation (of gated blocks where the spec has a gated one), the vocabulary, tied
 * embeddings, RoPE with its scaling where positions are rotated. What is not said is as in most families: as many
 * kv_heads as heads, head_dim of width / heads. */
void pco_hub_read_decoder(pco_hub_reader *r, const pco_hub_keys *keys, pco_model_spec *spec);
/* The same of an encoder alone, with learned positions: also the padding token, which comes before those. What the
 * model has beyond that is refused: a decoder, positions other than absolute ones, an output projection of its own. */
void pco_hub_read_encoder(pco_hub_reader *r, const pco_hub_keys *keys, pco_model_spec *spec);
extern const pco_hub_keys pco_hub_encoder_keys;
/* The same where a file need not say sizes, which are then these. */
void pco_hub_read_encoder_or(pco_hub_reader *r, const pco_hub_keys *keys, const pco_hub_sizes *usual,
                             pco_model_spec *spec);
/* Of one that reads images: also how large they and their patches are. Sizes that are not said are those of ViT-Base
 * (Dosovitskiy et al. 2020, table 1), and of the spec. */
void pco_hub_read_image_encoder(pco_hub_reader *r, const pco_hub_keys *keys, pco_model_spec *spec);
/* How many labels a classifier has: "id2label", or "num_labels", or 2. */
int64_t pco_hub_labels(pco_hub_reader *r);
/* The object under a key, each of whose keys is read or known too; an empty one where it is missing. */
typedef void (*pco_hub_part_fn)(pco_hub_reader *r, pco_model_spec *spec);
void pco_hub_read_part(pco_hub_reader *r, const char *key, pco_hub_part_fn read, pco_model_spec *spec);
/* "attention_bias" and its like: of a bias that is everywhere, or nowhere. */
pco_bias pco_hub_bias(pco_hub_reader *r, const char *key, int fallback);
/* "sliding_window", "use_sliding_window", "max_window_layers" and "layer_types": which layers see how many keys. `on`:
 * the model has windows where none of the others says otherwise. */
void pco_hub_read_window(pco_hub_reader *r, int on, pco_model_spec *spec);
/* How many experts there are, and how many a token takes, up to all. */
void pco_hub_read_experts(pco_hub_reader *r, const char *count_key, int64_t count, const char *used_key, int64_t used,
                          pco_model_spec *spec);
/* "rope_parameters", or "rope_theta" and "rope_scaling" of before (hub_rope.c); called by pco_hub_read_decoder. `part`
 * of each head is rotated where the file does not say. */
void pco_hub_read_rope(pco_hub_reader *r, double part, pco_model_spec *spec);

/* ---- writing config.json -------------------------------------------------------------------------------- */

/* What has no memory is left out, and pco_hub_write fails. */
typedef struct pco_hub_writer {
    cJSON *root;
    const pco_model_spec *spec;
    int failed;
} pco_hub_writer;

/* A whole number, and one with a fraction; nothing for a key of NULL. */
void pco_hub_put_size(pco_hub_writer *w, const char *key, int64_t value);
void pco_hub_put_number(pco_hub_writer *w, const char *key, double value);
void pco_hub_put_bool(pco_hub_writer *w, const char *key, int value);
void pco_hub_put_text(pco_hub_writer *w, const char *key, const char *value);
/* The number, or null where it is not there. */
void pco_hub_put_or_null(pco_hub_writer *w, const char *key, double value, int is_there);
/* 1 / attention_scale^2, as a whole number where it is one. */
void pco_hub_put_query_scalar(pco_hub_writer *w, const char *key);
/* "layer_types", for each layer. */
void pco_hub_put_types(pco_hub_writer *w);
/* The activation, by the name that transformers has for it. */
void pco_hub_put_activation(pco_hub_writer *w, const char *key, pco_nn_activation activation);
/* An object, which `write` fills. */
typedef void (*pco_hub_put_fn)(pco_hub_writer *w, const pco_model_spec *spec);
void pco_hub_put_part(pco_hub_writer *w, const char *key, pco_hub_put_fn write);
/* "sliding_window", null where there is none; and with "use_sliding_window" and "layer_types" (says_use). */
void pco_hub_put_width(pco_hub_writer *w);
void pco_hub_put_window(pco_hub_writer *w, int says_use);

/* ---- families ------------------------------------------------------------------------------------------- */

/* A model of several media of which a family's model is the part for text (hub_whole.c). Lists are ended by NULL. */
typedef struct pco_hub_whole {
    const char *model_type;       /* of the whole */
    const char *const (*text)[2]; /* what names of the part's tensors begin with, and what stands there in files of the
                                     part alone */
    const char *const *others;    /* how names of the other parts' tensors begin */
    const char *const *keys;      /* of config.json beside the part's: of the others, and of how the text has their
                                     results in it */
} pco_hub_whole;

/* What folders of a family are like. */
typedef struct pco_hub {
    void (*read)(pco_hub_reader *r, pco_model_spec *spec);
    void (*read_images)(pco_hub_reader *r, pco_model_spec *spec); /* of the family's second spec; NULL: it has none */
    const char *telltale; /* a key that tells the family in a config.json without model_type; NULL: there is none */
    const pco_hub_whole *whole; /* what its models are a part of, too; NULL: of nothing */

    /* Encoders and encoder-decoders, whose spec has the names without what those of some files begin with. */
    const char *prefix;
    const char *const *bare;   /* how names begin that stand without the prefix, ended by NULL; or NULL */
    const char *const *unused; /* how names begin that the model does without, ended by NULL; or NULL */
    const char *unread;        /* a square projection that the class below has, and nobody reads: zeros in files that
                                  are written; NULL: there is none */
    /* Tensors of more dimensions than the spec's graph has: without those of 1 in front, and all behind the first as
     * one. Ended by NULL; or NULL. */
    const char *const *flattened;

    /* Decoders, whose spec has the names of GGUF, and here are those of folders. */
    pco_stack_names stack;
    pco_layer_names names;
    const char *lm_head;
    const char *base;              /* what names begin with, which files of the base model alone leave out */
    const char *const *transposed; /* projections whose matrices are [in,out], ended by NULL; or NULL */
    const char *const *ignored;    /* ends of names of tensors that are no weights, ended by NULL; or NULL */
    double norm_offset;            /* is added to the weights of norms */
    const pco_hub_keys *keys;      /* of a decoder that is written */

    const char *experts; /* what stands before the number of an expert, whose tensors become stacks; or NULL */
    int grouped;         /* rows of the fused projection: for each key head its queries, its key, its value */

    /* What is written: the class that transformers has for such a model with its output projection (NULL: none is), and
     * keys that others have not. An encoder-decoder without `write` is only written from folders of its own family,
     * whose config.json is copied. */
    const char *class;
    pco_hub_put_fn write;
} pco_hub;

/* For `unused` of an encoder: heads of tasks, and tables that are made from the config. */
#define PCO_HUB_ENCODER_UNUSED \
    "embeddings.position_ids", "pooler.", "classifier.", "qa_outputs.", "cls.seq_relationship."

/* `ignored` of most: tables that follow from the config. */
extern const char *const pco_hub_inverse_frequencies[];

/* For the initialiser of a pco_hub: what most families call their tensors, but for the norms in front of blocks. */
#define PCO_HUB_STACK \
    { \
        .embed_scope = "embed", .head_scope = "output", .embedding = "model.embed_tokens.weight", \
        .layer = "model.layers.*", .last_norm = "model.norm" \
    }
#define PCO_HUB_ATTENTION(attention_norm_name, ffn_norm_name) \
    .self_attention_norm = attention_norm_name, .ffn_norm = ffn_norm_name, .query = "self_attn.q_proj", \
    .key = "self_attn.k_proj", .value = "self_attn.v_proj", .output = "self_attn.o_proj"
#define PCO_HUB_NAMES(attention_norm_name, ffn_norm_name) \
    .stack = PCO_HUB_STACK, .base = "model.", .lm_head = "lm_head.weight", \
    .names = {PCO_HUB_ATTENTION(attention_norm_name, ffn_norm_name), .gate = "mlp.gate_proj", .up = "mlp.up_proj", \
              .down = "mlp.down_proj"}

/* Fills the spec, which has what all models of the family share, from a config.json. Errors: FORMAT and UNSUPPORTED,
 * naming the key. */
pco_status pco_hub_read(const pco_hub *hub, const cJSON *root, const char *label, pco_model_spec *spec,
                        pco_error *err) PCO_NODISCARD;

/* An error for a config.json whose weights are packed by a program of its own. */
pco_status pco_hub_refuse_packed(const cJSON *root, const char *label, pco_error *err) PCO_NODISCARD;

/* In the config.json of the whole that hub's models are a part of: the object that is the part's config; NULL: the file
 * is of no such model. `hub` may be NULL. */
const cJSON *pco_hub_text_part(const pco_hub *hub, const cJSON *root);
/* What stands beside that object: whether embeddings are tied, and keys of other parts; model_type is the part's.
 * Errors: UNSUPPORTED and FORMAT, naming the key. */
pco_status pco_hub_read_whole(const pco_hub *hub, const cJSON *root, const char *label, const char *model_type,
                              pco_model_spec *spec, pco_error *err) PCO_NODISCARD;
/* Takes out the tensors of the other parts, and calls those of the text's as in files of it alone. Errors: FORMAT when
 * two tensors have one name; OUT_OF_HOST_MEMORY. */
pco_status pco_hub_take_text_part(const pco_hub *hub, pco_weights *weights, pco_error *err) PCO_NODISCARD;

/* The same for the second spec of a family that has one, whose part of the file was not looked at. */
pco_status pco_hub_read_images(const pco_hub *hub, const cJSON *root, const char *label, pco_model_spec *spec,
                               pco_error *err) PCO_NODISCARD;

/* The opposite: a config.json of a family that has a class and says how, which the caller deletes. It is for its
 * reader to find out what of the spec it cannot say (pco_hub_read). Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_hub_write(const char *model_type, const pco_hub *hub, const pco_model_spec *spec, cJSON **root,
                         pco_error *err) PCO_NODISCARD;

/* Makes of a folder's tensors what the spec's graph asks for (hub_weights.c): names as in the spec, and in decoders
 * matrices [out,in], fused rows in the order q, k, v, norms with their offset, F64 as F32, and what is exact in F16, F8
 * and I8, as F16. What needs no change stays mapped. Errors: FORMAT when two tensors have one name;
 * OUT_OF_HOST_MEMORY. */
pco_status pco_hub_prepare(const pco_hub *hub, const pco_model_spec *spec, pco_weights *weights,
                           pco_error *err) PCO_NODISCARD;

/* The number of the expert whose tensor it is, -1 for none (also for one with zeros in front, which no expert is
 * called); *begin and *end are where the number stands and where what is behind its dot does. The family has experts.
 */
int64_t pco_hub_expert(const pco_hub *hub, const char *name, size_t *begin, size_t *end);
/* Makes one tensor [experts,..] of those of all experts, for each matrix in a layer, without the number in its name
 * (hub_experts.c). Errors: FORMAT for experts that are missing or differ; OUT_OF_HOST_MEMORY. */
pco_status pco_hub_stack_experts(const pco_hub *hub, int64_t experts, pco_weights *weights,
                                 pco_error *err) PCO_NODISCARD;

/* Is it a norm of the layers or behind them, or the bias of one? A projection whose matrix folders have as [in,out]? */
int pco_hub_is_norm(const pco_hub *hub, const char *name);
int pco_hub_is_transposed(const pco_hub *hub, const char *name);
/* Of heads of `head` rows, of which the first pair_rows are turned in pairs: where GGUF has row `row`, with pairs side
 * by side, a folder has this one, with pairs half of them apart. */
int64_t pco_hub_paired_row(int64_t row, int64_t head, int64_t pair_rows);

/* An element of a tensor of floats. */
float pco_hub_element(const pco_weight *weight, int64_t i);

/* The name of a tensor in files of the family, of which `name` is what the spec calls it. 0: it is too long. */
int pco_hub_stored_name(const pco_hub *hub, const char *name, char to[PCO_SPEC_NAME]);

/* Is it one of those that the model does without? */
int pco_hub_unused(const pco_hub *hub, const char *name);

#endif
