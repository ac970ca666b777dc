/* Building blocks of transformers for graphs (portico/graph.h): functions that add nodes and name their weights.
 *
 *     pco_graph *graph = pco_graph_create();
 *     pco_nn *nn = pco_nn_create(graph, NULL);
 *     const pco_nn_transformer_params params = {.size = sizeof params, .width = 64, .heads = 4, .layers = 2};
 *     uint32_t ids = pco_graph_input(graph, "ids", PCO_I32, 2, (int64_t[]){8, 32});
 *     uint32_t x = pco_nn_embedding(nn, ids, "embedding.weight", 100, 64);
 *     x = pco_nn_encoder(nn, pco_nn_sinusoidal(nn, x, PCO_NONE, 0), "layers", &params, NULL);
 *     x = pco_nn_linear(nn, x, &(pco_nn_linear_params){sizeof(pco_nn_linear_params), "head", 64, 100, 1});
 *
 * Weights are parameters: states of the session, f32, which have the names of the weights, begin as pco_nn_initialize
 * says, and are trained by portico/train.h or by the optimisers of graph.h. With `weights` in pco_nn_params they are
 * constants of a file instead. Names of weights and arguments are those of PyTorch: a projection called "a.q_proj" has
 * "a.q_proj.weight" [out,in] and "a.q_proj.bias" [out]; a name that ends in '_' takes them without the dot
 * ("a.in_proj_" has "a.in_proj_weight", as torch.nn.MultiheadAttention). The same name is the same weight.
 *
 * Activations are [B,S,C] (batch, sequence, channels), f32 unless `dtype` says otherwise. Tensors go in and come out as
 * numbers, PCO_NONE for one that is absent. Errors are kept in the graph, as those of graph.h: from the first on every
 * function returns PCO_NONE, and pco_graph_check says what it was, with the weight or the block and what was expected:
 * INVALID for an argument or a tensor that does not fit, a struct whose size is not set, NULL; of weights from a file
 * NOT_FOUND, FORMAT for another shape, UNSUPPORTED for a type that cannot run. NULL for a pco_nn gives PCO_NONE.
 * `params` are copied; 0 in a field is what its comment says.
 *
 * Threads: a pco_nn belongs to its graph, and is used by the thread that uses that. */
#ifndef PORTICO_NN_H
#define PORTICO_NN_H

#include <portico/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pco_nn pco_nn;

/* ---- weights of a file ------------------------------------------------------------------------------ */

/* Named tensors of a file. After opening it is only read: any number of pco_nn and threads may use it at once. */
typedef struct pco_weights pco_weights;

/* Opens a safetensors file (also the index of one in several parts, model.safetensors.index.json) or a state dict of
 * torch.save (.bin, .pt, .pth). The file is mapped and must not change. Errors: IO; FORMAT, with the tensor and what is
 * wrong; OUT_OF_HOST_MEMORY. */
PCO_EXPORT pco_status pco_weights_open(const char *path, pco_weights **weights, pco_error *err) PCO_NODISCARD;
/* After the sessions that run what was made from it. NULL is allowed. */
PCO_EXPORT void pco_weights_close(pco_weights *weights);

/* ---- where to build --------------------------------------------------------------------------------- */

typedef struct pco_nn_params {
    size_t size;                /* sizeof(pco_nn_params) */
    const pco_weights *weights; /* NULL: weights are parameters; borrowed until the graph's executables are made */
    pco_dtype dtype;    /* of activations and products of parameters: PCO_F32 (0), PCO_F16 or PCO_BF16; parameters
                           and their gradients stay f32. Not with `weights` */
    double dropout;     /* share of elements that pco_nn_dropout sets to 0, in [0, 1); 0: none. Not with `weights` */
    int keep_attention; /* 1: the weights of each attention become an output, f32 [B,H,S,T], called "attention:"
                           and the name of its output projection */
} pco_nn_params;

/* Blocks for a graph, which is borrowed: destroy the pco_nn first. `params` may be NULL: all 0. With dropout the graph
 * gets the run values "dropout_seed" and "dropout_offset", i32 [2] each, as the op dropout takes them; portico/train.h
 * writes them. NULL without memory, or after an error, which the graph keeps. */
PCO_EXPORT pco_nn *pco_nn_create(pco_graph *graph, const pco_nn_params *params);
/* NULL is allowed. */
PCO_EXPORT void pco_nn_destroy(pco_nn *nn);

/* Names of weights, and of nodes, get "scope." in front from now on; "" for none. */
PCO_EXPORT void pco_nn_scope(pco_nn *nn, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* How many parameters were asked for so far; 0 with weights of a file. Their tensors, in the order in which the graph
 * first had them, go to tensors[capacity], as pco_gradients takes them; pco_graph_describe tells name and shape.
 * `tensors` may be NULL. */
PCO_EXPORT uint32_t pco_nn_parameters(const pco_nn *nn, uint32_t *tensors, uint32_t capacity);

/* ---- first values ----------------------------------------------------------------------------------- */

typedef enum pco_initialization_type {
    PCO_INITIALIZATION_PYTORCH = 0, /* matrices uniform within 1 / sqrt(fan in), as torch.nn.Linear; of [out,in,places]
                                       the fan in is in * places, of a stack of experts that of one of its matrices */
    PCO_INITIALIZATION_XAVIER = 1,  /* matrices uniform within sqrt(6 / (fan in + fan out)) (Glorot & Bengio 2010):
                                       tensor2tensor's, and torch.nn.MultiheadAttention's */
    PCO_INITIALIZATION_NORMAL = 2,  /* matrices normal with `std`; of the projections that end a residual block
                                       with std / sqrt(2 layers) (Radford et al. 2019, 2.3) */
    PCO_INITIALIZATION_ZEROS = 3,   /* all but norms */
} pco_initialization_type;

typedef struct pco_initialization {
    size_t size; /* sizeof(pco_initialization) */
    pco_initialization_type type;
    double std;           /* of NORMAL; 0.02 in GPT-2 */
    double embedding_std; /* of embeddings, normal; 0: 1 / sqrt(width), as tensor2tensor */
    uint64_t seed;
    int64_t layers; /* of NORMAL; 0: 1 */
} pco_initialization;

/* Writes first values into all parameters that `nn` has; an executable of its graph must have been made in the session,
 * so that they are there. Biases begin as 0, norms as 1 and 0; what element i of another one is depends on seed, name,
 * kind and shape alone, on no device and no order, and is what `portico train` begins with. `how` may be NULL: all 0.
 * Errors: INVALID for a std that is not finite, or 0 where it is needed; NOT_FOUND without an executable;
 * OUT_OF_HOST_MEMORY; of the device. */
PCO_EXPORT pco_status pco_nn_initialize(const pco_nn *nn, pco_session *session, const pco_initialization *how,
                                        pco_error *err) PCO_NODISCARD;

/* ---- weights, linear, embedding --------------------------------------------------------------------- */

/* What a weight is for, as far as its first values depend on it. */
typedef enum pco_nn_role {
    PCO_NN_ROLE_PLAIN = 0, /* projections and biases */
    PCO_NN_ROLE_EMBEDDING = 1,
    PCO_NN_ROLE_NORM = 2,     /* the factor of a norm */
    PCO_NN_ROLE_RESIDUAL = 3, /* the projection that ends a residual block */
} pco_nn_role;

/* The weight of that name (behind the scope), for blocks of one's own. From a file, matrices are floats or quantised,
 * tensors of rank 1 f32, f16 or bf16. */
PCO_EXPORT uint32_t pco_nn_weight(const pco_nn *nn, const char *name, uint32_t rank, const int64_t *shape);
/* What the parameter of that name, asked for before, is for. */
PCO_EXPORT void pco_nn_set_role(const pco_nn *nn, const char *name, pco_nn_role role);

/* x in the type of activations that pco_nn_params has, where weights are parameters. */
PCO_EXPORT uint32_t pco_nn_activations(const pco_nn *nn, uint32_t x);

/* x with elements set to 0 at random and the others divided by 1 - dropout (Srivastava et al. 2014); x itself where
 * dropout is 0. Each has random numbers of its own. */
PCO_EXPORT uint32_t pco_nn_dropout(const pco_nn *nn, uint32_t x);

/* As the attribute `activation` of matmul. */
typedef enum pco_nn_activation {
    PCO_NN_IDENTITY = 0,
    PCO_NN_RELU = 1,
    PCO_NN_GELU = 2, /* with erf */
    PCO_NN_GELU_TANH = 3,
    PCO_NN_SILU = 4,
    PCO_NN_SWIGLU = 5,     /* feed-forward blocks only: silu(gate) * up */
    PCO_NN_GEGLU = 6,      /* feed-forward blocks only: gelu_tanh(gate) * up */
    PCO_NN_QUICK_GELU = 7, /* x sigmoid(1.702 x) (Hendrycks & Gimpel 2016), of CLIP; no attribute of matmul */
} pco_nn_activation;

typedef struct pco_nn_linear_params {
    size_t size;      /* sizeof(pco_nn_linear_params) */
    const char *name; /* "NAME.weight" and, with bias, "NAME.bias" */
    int64_t in_features, out_features;
    int bias; /* 1: there is a bias */
    pco_nn_activation activation;
    pco_nn_role role; /* of the matrix */
    /* A part of a fused projection: rows first_row .. first_row+out_features-1 of a tensor with total_rows
     * rows. total_rows 0: all rows. */
    int64_t first_row, total_rows;
} pco_nn_linear_params;

/* activation(x W^T + b): x [..,in_features] -> [..,out_features]. */
PCO_EXPORT uint32_t pco_nn_linear(const pco_nn *nn, uint32_t x, const pco_nn_linear_params *params);

/* Rows of the tensor `name` [vocab,width]: ids i32 [B,S] -> f32 [B,S,width]. Ids outside give zeros. */
PCO_EXPORT uint32_t pco_nn_embedding(const pco_nn *nn, uint32_t ids, const char *name, int64_t vocab, int64_t width);

/* The mean of the losses of logits f32 [..,N] for labels i32 [..], f32 [1]: torch.nn.functional.cross_entropy with
 * `smoothing` in [0, 1]. Labels of -100 do not count; 0 where none does. */
PCO_EXPORT uint32_t pco_nn_cross_entropy(const pco_nn *nn, uint32_t logits, uint32_t labels, double smoothing);

/* ---- norms ------------------------------------------------------------------------------------------ */

typedef enum pco_nn_norm_type {
    PCO_NN_LAYER_NORM = 0, /* Ba et al. 2016 */
    PCO_NN_RMS_NORM = 1,   /* Zhang & Sennrich 2019; no bias */
} pco_nn_norm_type;

typedef enum pco_nn_norm_form {
    PCO_NN_VAR_EPS = 0, /* (x - mean) / sqrt(var + eps), biased variance */
    PCO_NN_STD_EPS = 1, /* (x - mean) / (std + eps), unbiased deviation: the Annotated Transformer's */
} pco_nn_norm_form;

typedef struct pco_nn_norm_params {
    size_t size; /* sizeof(pco_nn_norm_params) */
    pco_nn_norm_type type;
    pco_nn_norm_form form; /* of layer_norm only */
    double eps;
    int64_t width; /* of the last dimension */
} pco_nn_norm_params;

/* x [..,width] -> the same, with "NAME.weight" and, for layer_norm, "NAME.bias". */
PCO_EXPORT uint32_t pco_nn_norm(const pco_nn *nn, uint32_t x, const char *name, const pco_nn_norm_params *params);

/* ---- positions -------------------------------------------------------------------------------------- */

/* i32 [1,length]: first, first+1, ... */
PCO_EXPORT uint32_t pco_nn_positions(const pco_nn *nn, int64_t first, int64_t length);

/* x [B,S,C] + the sinusoidal encoding (Vaswani et al. 2017, 3.5) of positions i32 [B,S] or [1,S]; PCO_NONE: 0 .. S-1.
 * layout 0: sine on even, cosine on odd channels; 1: all sines, then all cosines (tensor2tensor's exponents); 2: all
 * sines, then all cosines, with the exponents of the paper (Marian). C is even. */
PCO_EXPORT uint32_t pco_nn_sinusoidal(const pco_nn *nn, uint32_t x, uint32_t positions, int layout);

/* x [B,S,C] + rows of the tensor `name` [rows,C], chosen by positions as above (Gehring et al. 2017, 3.1). */
PCO_EXPORT uint32_t pco_nn_learned_positions(const pco_nn *nn, uint32_t x, uint32_t positions, const char *name,
                                             int64_t rows);

/* Rotates x [B,S,H,D] (RoFormer: Su et al. 2021) by positions i32 [B,S] or [1,S], PCO_NONE: 0 .. S-1; `phase` as
 * pco_rope_phase makes it. interleaved 1: pairs (2i, 2i+1); 0: pairs (i, i + R). Sine and cosine are multiplied by
 * `amplitude`, 0: 1. */
PCO_EXPORT uint32_t pco_nn_rope(const pco_nn *nn, uint32_t x, uint32_t positions, uint32_t phase, int interleaved,
                                double amplitude);

/* ---- attention -------------------------------------------------------------------------------------- */

/* Multi-head attention (Vaswani et al. 2017, 3.2.2), with grouped queries (Ainslie et al. 2023) where kv_heads is below
 * heads. What a model decides: */
typedef struct pco_nn_attention_params {
    size_t size;      /* sizeof(pco_nn_attention_params) */
    const char *name; /* where a name below is NULL: NAME.q_proj, NAME.k_proj, NAME.v_proj, NAME.out_proj */
    const char *query, *key, *value; /* names of the projections */
    const char *fused;               /* instead of these three: one projection with rows query, key, value */
    const char *output;
    int64_t width;                     /* channels of x, and of the result */
    int64_t heads, kv_heads, head_dim; /* kv_heads 0: heads; head_dim 0: width / heads */
    int bias, output_bias;             /* of query, key and value; of output */
    int causal;                        /* row i of sequence b sees keys j <= starts[b] + i */
    int rope_interleaved;
    double rope_amplitude;               /* of sine and cosine; 0: 1 */
    const char *query_norm, *key_norm;   /* before RoPE; NULL: none */
    int norm_whole;                      /* of all heads as one row; 0: of each head */
    const pco_nn_norm_params *head_norm; /* how these norms are; their width is not looked at */
    double scale;                        /* factor on query key^T; 0: 1 / sqrt(head_dim) */
    double softcap;                      /* above 0: scores become softcap * tanh(score / softcap) */
    int64_t window;                      /* above 0: a row sees that many keys, its own the last */
    int no_key_bias;                     /* with bias: 1: the projection of keys has none; not with `fused` */
} pco_nn_attention_params;

/* Keys or values of L sequences, [L,T,G,D], which the device keeps from run to run. In the graph's memory. */
typedef struct pco_nn_cache pco_nn_cache;

/* A cache of `tokens` rows for each of `lanes` sequences, zero at first, of PCO_F32, PCO_F16 or PCO_Q8_0 (then heads *
 * head_dim is a multiple of 32). Its states are `name`, behind the scope, and in PCO_Q8_0 `name`.scale too. NULL after
 * an error. */
PCO_EXPORT const pco_nn_cache *pco_nn_cache_create(const pco_nn *nn, const char *name, pco_dtype type, int64_t lanes,
                                                   int64_t tokens, int64_t heads, int64_t head_dim);

/* Its tensors, PCO_NONE for those that are absent; start from PCO_NN_NO_OPERANDS. */
typedef struct pco_nn_attention_operands {
    size_t size;
    uint32_t memory;           /* [B,T,width]: keys and values come from here; absent: self-attention */
    uint32_t key, value;       /* [B,T,G,D]: they are there already, and nothing is projected */
    uint32_t mask;             /* bool [B|1,H|1,S|1,T|1]: true where a key is seen; or f32, which is added to scores */
    uint32_t lengths;          /* i32 [B]: keys that are valid */
    uint32_t starts;           /* i32 [B]: position of the first row among the keys */
    uint32_t phase, positions; /* RoPE: the table, and i32 [B,S] or [1,S] */
    /* Caches of B sequences; NULL without. The new keys and values are written from index[b] on (i32 [B]), and
     * attention is over all of them after that. */
    const pco_nn_cache *key_cache, *value_cache;
    uint32_t index;
    /* Sequences of a cache with more lanes than the batch, [L,T,G,D]: lane l takes row take[l] of the batch (i32 [L];
     * none for -1), and row b of the result is that of lane lane[b] (i32 [B]). lengths, starts and index are then those
     * of the lanes. */
    uint32_t take, lane;
} pco_nn_attention_operands;

#define PCO_NN_NO_OPERANDS \
    ((pco_nn_attention_operands){sizeof(pco_nn_attention_operands), PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE, \
                                 PCO_NONE, PCO_NONE, PCO_NONE, NULL, NULL, PCO_NONE, PCO_NONE, PCO_NONE})

/* Keys and values [B,T,G,D] of memory [B,T,width], rotated where there is RoPE, before any cache: of an encoder's
 * result they are the same in each step of the decoder. `operands` may be NULL: none. */
PCO_EXPORT void pco_nn_attention_memory(const pco_nn *nn, uint32_t memory, const pco_nn_attention_params *params,
                                        const pco_nn_attention_operands *operands, uint32_t *key, uint32_t *value);

/* x [B,S,width] -> [B,S,width], the output projection included. `operands` may be NULL: none. */
PCO_EXPORT uint32_t pco_nn_attention(const pco_nn *nn, uint32_t x, const pco_nn_attention_params *params,
                                     const pco_nn_attention_operands *operands);

/* ---- feed-forward ----------------------------------------------------------------------------------- */

typedef struct pco_nn_ffn_params {
    size_t size;      /* sizeof(pco_nn_ffn_params) */
    const char *name; /* where a name below is NULL: NAME.linear1 and NAME.linear2; of gated ones
                         NAME.gate_proj, NAME.up_proj, NAME.down_proj */
    pco_nn_activation activation;
    const char *fc1, *fc2;        /* fc2(activation(fc1(x))), unless gated */
    const char *gate, *up, *down; /* swiglu, geglu (Shazeer 2020): down(silu(gate(x)) * up(x)) */
    const char *gate_up;          /* swiglu, instead of gate and up: one projection, gate rows first */
    int64_t width, hidden;
    int bias;
    /* A mixture of `experts` blocks of that size, of which each row takes the experts_used that router(x) is largest
     * for, in parts of its softmax, which with experts_normalized are divided by their sum. gate, up and down are then
     * stacks, [experts,hidden,width] and [experts,width,hidden], without biases; swiglu only. 0: one block, without a
     * router. */
    const char *router;
    int64_t experts, experts_used;
    int experts_normalized;
} pco_nn_ffn_params;

/* x [B,S,width] -> the same. */
PCO_EXPORT uint32_t pco_nn_ffn(const pco_nn *nn, uint32_t x, const pco_nn_ffn_params *params);

/* ---- layers and whole models ------------------------------------------------------------------------ */

/* A transformer (Vaswani et al. 2017), as torch.nn.Transformer and its layers have it, or in the forms that came since.
 * What is 0 is PyTorch's default where a comment says nothing else. */
typedef struct pco_nn_transformer_params {
    size_t size;                       /* sizeof(pco_nn_transformer_params) */
    int64_t width;                     /* channels; d_model */
    int64_t heads, kv_heads, head_dim; /* kv_heads 0: heads; head_dim 0: width / heads */
    int64_t hidden;                    /* of the feed-forward blocks; 0: 4 width */
    int64_t layers, decoder_layers;    /* decoder_layers 0: layers. One layer alone does not look at them */
    pco_nn_activation activation;      /* PCO_NN_IDENTITY (0): PCO_NN_RELU */
    int normalize_before;              /* 1: x + f(norm(x)) (Xiong et al. 2020); 0: norm(x + f(x)) */
    pco_nn_norm_type norm;
    pco_nn_norm_form norm_form;
    double norm_eps;      /* 0: 1e-5 */
    int no_bias;          /* 1: projections without biases */
    int no_last_norm;     /* 1: whole stacks do not end in a norm of their own, "NAME.norm" */
    int fused_projection; /* 1: query, key and value of an attention are one projection, NAME.in_proj_weight, as
                             torch.nn.MultiheadAttention has it; 0: q_proj, k_proj, v_proj */
    int causal;           /* of encoder layers: 1 for a decoder alone. Decoder layers are always causal */
    int64_t window;       /* of self-attention, as in pco_nn_attention_params; 0: none */
    double softcap;       /* of all attention; 0: none */
    double rope_base;     /* of RoPE in self-attention, as in pco_rope_phase; 0: no RoPE */
    int rope_interleaved;
    int64_t context;      /* above 0: self-attention keeps keys and values of that many rows in states, called
                             "NAME.self_attn.key_cache" and value_cache, as pco_nn_cache_create; `starts`
                             says where new rows go */
    pco_dtype cache_type; /* of these: PCO_F32 (0), PCO_F16 or PCO_Q8_0 */
} pco_nn_transformer_params;

/* Its tensors, PCO_NONE for those that are absent; start from PCO_NN_NO_INPUTS. B is the batch, S are rows of x, T of
 * memory. */
typedef struct pco_nn_transformer_inputs {
    size_t size;
    uint32_t mask;      /* of self-attention, bool [B|1,H|1,S|1,S|1]: true where a key is seen; or f32,
                           which is added to scores */
    uint32_t lengths;   /* i32 [B]: rows of x that are valid; the others are no keys */
    uint32_t positions; /* i32 [B,S] or [1,S], of RoPE; absent: from starts, or 0, on */
    uint32_t starts;    /* i32 [B]: with a context, where the rows of x go */
    uint32_t memory_mask, memory_lengths; /* the same of cross-attention, over T keys */
} pco_nn_transformer_inputs;

#define PCO_NN_NO_INPUTS \
    ((pco_nn_transformer_inputs){sizeof(pco_nn_transformer_inputs), PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE, \
                                 PCO_NONE})

/* A layer: x [B,S,width] -> the same. Weights are NAME.self_attn.*, NAME.linear1, NAME.linear2 (gated:
 * NAME.gate_proj, up_proj, down_proj), NAME.norm1, NAME.norm2; of decoder layers also NAME.multihead_attn.* and
 * NAME.norm3. With dropout, it comes behind each block. `inputs` may be NULL: none. */
PCO_EXPORT uint32_t pco_nn_encoder_layer(const pco_nn *nn, uint32_t x, const char *name,
                                         const pco_nn_transformer_params *params,
                                         const pco_nn_transformer_inputs *inputs);
/* With cross-attention to memory [B,T,width]. `inputs` may be NULL: none. */
PCO_EXPORT uint32_t pco_nn_decoder_layer(const pco_nn *nn, uint32_t x, uint32_t memory, const char *name,
                                         const pco_nn_transformer_params *params,
                                         const pco_nn_transformer_inputs *inputs);

/* A stack of `layers` (decoder_layers) of them, NAME.layers.0 ..., and the last norm. Nodes of each layer have a scope
 * of their own. `inputs` may be NULL: none. */
PCO_EXPORT uint32_t pco_nn_encoder(const pco_nn *nn, uint32_t x, const char *name,
                                   const pco_nn_transformer_params *params, const pco_nn_transformer_inputs *inputs);
/* `inputs` may be NULL: none. */
PCO_EXPORT uint32_t pco_nn_decoder(const pco_nn *nn, uint32_t x, uint32_t memory, const char *name,
                                   const pco_nn_transformer_params *params, const pco_nn_transformer_inputs *inputs);

/* Both: source [B,T,width], target [B,S,width] -> [B,S,width], with NAME.encoder and NAME.decoder. In `inputs`, which
 * may be NULL, memory_mask and memory_lengths are those of the source: the encoder's own, and the decoder's of its
 * memory; the others are the target's. `inputs` may be NULL: none. */
PCO_EXPORT uint32_t pco_nn_transformer(const pco_nn *nn, uint32_t source, uint32_t target, const char *name,
                                       const pco_nn_transformer_params *params,
                                       const pco_nn_transformer_inputs *inputs);

#ifdef __cplusplus
}
#endif

#endif
