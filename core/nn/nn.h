/* Building blocks of transformers: functions that add nodes to a graph and take their weights, by name, from
 * a model file.
 *
 * Ids of tensors go in and come out, as in portico/graph.h, and errors are sticky in the graph in the same way:
 * a tensor that is missing, has a wrong shape or a type that cannot run becomes the graph's error, with the
 * tensor, the file and both shapes. Activations are f32, [B,S,C] (batch, sequence, channels); weights keep
 * the type that they have in the file, matrices [out, in] as PyTorch keeps them. Names of parameters and
 * tensors are those of PyTorch and Hugging Face.
 *
 * A projection called "a.q_proj" has the tensors "a.q_proj.weight" and "a.q_proj.bias"; a name that ends in
 * '_' takes them without the dot ("a.in_proj_" has "a.in_proj_weight", as torch.nn.MultiheadAttention). */
#ifndef PCO_NN_NN_H
#define PCO_NN_NN_H

#include "formats/weights.h"
#include "graph/graph.h"

/* Where to build, and from what. Both are borrowed. `weights` outlives every program made from the graph only
 * as far as graph.h asks for it: constants are read when an executable is created. */
typedef struct pco_nn {
    pco_graph *graph;
    const pco_weights *weights;
    int keep_attention; /* 1: the softmax weights of each attention become an output, f32 [B,H,S,T], called
                           "attention:" and the name of its output projection */
    struct pco_nn_training *training; /* NULL: weights are constants from `weights` */
} pco_nn;

/* ---- parameters that are trained (weight.c) --------------------------------------------------------- */

/* What a weight is for, as far as its first values depend on it. */
typedef enum pco_nn_role {
    PCO_NN_ROLE_PLAIN = 0, /* projections and biases */
    PCO_NN_ROLE_EMBEDDING = 1,
    PCO_NN_ROLE_NORM = 2,     /* the factor of a norm */
    PCO_NN_ROLE_RESIDUAL = 3, /* the projection that ends a residual block */
} pco_nn_role;

/* A weight that the graph keeps as a state of the same name, f32, instead of a constant. */
typedef struct pco_nn_parameter {
    char *name;
    pco_nn_role role;
    uint32_t rank;
    int64_t shape[PCO_MAX_RANK];
    uint32_t tensor; /* in the graph that was built last */
} pco_nn_parameter;

/* With this in pco_nn, weights become states, listed here in the order in which the graph first asks for them, and
 * `weights` is not looked at (NULL is fine). Building several graphs of one model with the same struct gives one
 * list. Zero it first. Dropout layers are built where `dropout` is above 0; `seed` and `offset` are then
 * i32 [2] tensors of the graph (as in the op dropout), and each layer takes the next stream. */
typedef struct pco_nn_training {
    pco_nn_parameter *items;
    uint32_t count, capacity;
    pco_dtype dtype; /* f32, or the half type of activations and products; parameters and their gradients stay f32 */
    double dropout;
    uint32_t seed, offset;
    int64_t streams; /* set to 0 before each graph */
} pco_nn_training;
void pco_nn_training_release(pco_nn_training *training);

/* The parameter of that name, or NULL. */
const pco_nn_parameter *pco_nn_training_find(const pco_nn_training *training, const char *name);

/* x in the type of the training's activations; x itself outside of training. */
uint32_t pco_nn_activations(const pco_nn *nn, uint32_t x);

/* x, with elements set to 0 at random (Srivastava et al. 2014) in a training graph with dropout. */
uint32_t pco_nn_dropout(const pco_nn *nn, uint32_t x);

/* ---- weights (weight.c) ----------------------------------------------------------------------------- */

/* A formatted name, kept as long as the graph; "" after an error. */
const char *pco_nn_name(const pco_nn *nn, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The constant (or, in training, the state) of that name, which must have that shape. Matrices are floats or
 * quantised; tensors of rank 1 f32, f16 or bf16. The same name gives the same constant again. Errors (kept): NOT_FOUND,
 * FORMAT for a shape, UNSUPPORTED for a type. */
uint32_t pco_nn_weight(const pco_nn *nn, const char *name, uint32_t rank, const int64_t *shape);

/* In training: what the weight of that name, asked for before, is for. */
void pco_nn_set_role(const pco_nn *nn, const char *name, pco_nn_role role);

/* Rows first .. first+count-1 of that tensor as a constant of their own; they share the file's memory. */
uint32_t pco_nn_weight_rows(const pco_nn *nn, const char *name, uint32_t rank, const int64_t *shape, int64_t first,
                            int64_t count);

/* Rows first .. first+count-1 of a stack of matrices, [count,rows,columns], as if these were one matrix. */
uint32_t pco_nn_weight_stack(const pco_nn *nn, const char *name, const int64_t shape[3], int64_t first, int64_t count);

/* ---- linear and embedding (linear.c) ---------------------------------------------------------------- */

/* As the attribute `activation` of matmul. */
typedef enum pco_nn_activation {
    PCO_NN_IDENTITY = 0,
    PCO_NN_RELU = 1,
    PCO_NN_GELU = 2, /* with erf */
    PCO_NN_GELU_TANH = 3,
    PCO_NN_SILU = 4,
    PCO_NN_SWIGLU = 5, /* feed-forward blocks only: silu(gate) * up */
    PCO_NN_GEGLU = 6,  /* feed-forward blocks only: gelu_tanh(gate) * up */
} pco_nn_activation;

typedef struct pco_nn_linear_params {
    const char *name;
    int64_t in_features, out_features;
    int bias; /* 1: there is a bias */
    pco_nn_activation activation;
    pco_nn_role role; /* of the matrix */
    /* A part of a fused projection: rows first_row .. first_row+out_features-1 of a tensor with total_rows
     * rows. total_rows 0: all rows. */
    int64_t first_row, total_rows;
} pco_nn_linear_params;

/* activation(x W^T + b): x [..,in_features] -> [..,out_features]. */
uint32_t pco_nn_linear(const pco_nn *nn, uint32_t x, const pco_nn_linear_params *params);

/* Rows of the tensor `name` [vocab, width]: ids i32 [B,S] -> f32 [B,S,width]. Ids outside give zeros. */
uint32_t pco_nn_embedding(const pco_nn *nn, uint32_t ids, const char *name, int64_t vocab, int64_t width);

/* ---- norms (norm.c) --------------------------------------------------------------------------------- */

typedef enum pco_nn_norm_type {
    PCO_NN_LAYER_NORM = 0, /* Ba et al. 2016 */
    PCO_NN_RMS_NORM = 1,   /* Zhang & Sennrich 2019; no bias */
} pco_nn_norm_type;

typedef enum pco_nn_norm_form {
    PCO_NN_VAR_EPS = 0, /* (x - mean) / sqrt(var + eps), biased variance */
    PCO_NN_STD_EPS = 1, /* (x - mean) / (std + eps), unbiased deviation: the Annotated Transformer's */
} pco_nn_norm_form;

typedef struct pco_nn_norm_params {
    pco_nn_norm_type type;
    pco_nn_norm_form form; /* layer_norm only */
    double eps;
    int64_t size; /* of the last dimension */
} pco_nn_norm_params;

/* x [..,size] -> the same, with "name.weight" and, for layer_norm, "name.bias". */
uint32_t pco_nn_norm(const pco_nn *nn, uint32_t x, const char *name, const pco_nn_norm_params *params);

/* ---- positions (positional.c) --------------------------------------------------------------------- */

/* i32 [1,length]: first, first+1, ... as a node without inputs. */
uint32_t pco_nn_positions(const pco_nn *nn, int64_t first, int64_t length);

/* x [B,S,C] + the sinusoidal encoding (Vaswani et al. 2017, 3.5) of positions i32 [B,S] or [1,S]. layout 0:
 * sine on even, cosine on odd channels; 1: all sines, then all cosines (tensor2tensor's exponents); 2: all sines, then
 * all cosines, with the exponents of the paper (Marian). C is even. */
uint32_t pco_nn_sinusoidal(const pco_nn *nn, uint32_t x, uint32_t positions, int layout);

/* Rotates x [B,S,H,D] (RoFormer: Su et al. 2021) by positions i32 [B,S] or [1,S]; `phase` as pco_rope_phase
 * makes it. interleaved 1: pairs (2i, 2i+1); 0: pairs (i, i + R). Sine and cosine are multiplied by
 * `amplitude`, 0: 1. */
uint32_t pco_nn_rope(const pco_nn *nn, uint32_t x, uint32_t positions, uint32_t phase, int interleaved,
                     double amplitude);

/* ---- attention (attention.c) ---------------------------------------------------------------------- */

/* Multi-head attention (Vaswani et al. 2017, 3.2.2), with grouped queries (Ainslie et al. 2023) where
 * kv_heads is below heads. What a model decides: */
typedef struct pco_nn_attention_params {
    const char *query, *key, *value; /* names of the projections */
    const char *fused;               /* instead of these three: one projection with rows query, key, value */
    const char *output;
    int64_t width; /* channels of x, and of the result */
    int64_t heads, kv_heads, head_dim;
    int bias, output_bias; /* of query, key and value; of output */
    int causal;            /* row i of sequence b sees keys j <= starts[b] + i */
    int rope_interleaved;
    double rope_amplitude;             /* of sine and cosine; 0: 1 */
    const char *query_norm, *key_norm; /* before RoPE; NULL: none */
    int norm_whole;                    /* of all heads as one row; 0: of each head */
    pco_nn_norm_params head_norm;      /* how; its size is not looked at */
    double scale;                      /* factor on query key^T; 0: 1 / sqrt(head_dim) */
    double softcap;                    /* above 0: scores become softcap * tanh(score / softcap) */
    int64_t window;                    /* above 0: a row sees that many keys, its own the last */
} pco_nn_attention_params;

/* Keys or values of L sequences, which the device keeps from run to run (cache.c). */
typedef struct pco_nn_cache {
    uint32_t type;   /* PCO_F32 or PCO_F16: `state` is [L,T,G,D] of it. PCO_Q8_0: four quants of 8 bits in each word */
    uint32_t state;  /* of a state i32 [L,T,G*D/4], and for each 32 of them one factor */
    uint32_t scales; /* in a state f16 [L,T,G*D/32]. PCO_NONE for the other types */
    int64_t heads, head_dim; /* G and D */
} pco_nn_cache;

/* A cache of that type, of `tokens` rows for each of `lanes` sequences, zero at first; its states are `name`, and
 * `name`.scale. Errors, kept in the graph: UNSUPPORTED for a type that is none of the three, and for rows of G*D
 * elements that blocks of 32 do not fill. */
pco_nn_cache pco_nn_cache_state(const pco_nn *nn, const char *name, uint32_t type, const int64_t shape[4]);

/* x [B,S,G,D] to rows index[l] ... of lane l (index i32 [L], or [1] for all); where `take` is not PCO_NONE lane l takes
 * row take[l] of the batch (i32 [L]), and none for -1. The cache after that. */
pco_nn_cache pco_nn_cache_write(const pco_nn *nn, const pco_nn_cache *cache, uint32_t x, uint32_t index, uint32_t take);

/* All of it, [L,T,G,D], as attention reads it. */
uint32_t pco_nn_cache_read(const pco_nn *nn, const pco_nn_cache *cache);

/* Its tensors, PCO_NONE for those that are absent; start from PCO_NN_NO_OPERANDS. */
typedef struct pco_nn_attention_operands {
    uint32_t memory;           /* [B,T,width]: keys and values come from here; absent: self-attention */
    uint32_t key, value;       /* [B,T,G,D]: they are there already, and nothing is projected */
    uint32_t mask;             /* bool [B|1,H|1,S|1,T|1]: true where a key is seen */
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
    ((pco_nn_attention_operands){PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE, NULL, \
                                 NULL, PCO_NONE, PCO_NONE, PCO_NONE})

/* Keys and values [B,T,G,D] of memory [B,T,width], rotated where there is RoPE, before any cache. */
void pco_nn_attention_memory(const pco_nn *nn, uint32_t memory, const pco_nn_attention_params *params,
                             const pco_nn_attention_operands *operands, uint32_t *key, uint32_t *value);

/* x [B,S,width] -> [B,S,width], the output projection included. */
uint32_t pco_nn_attention(const pco_nn *nn, uint32_t x, const pco_nn_attention_params *params,
                          const pco_nn_attention_operands *operands);

/* ---- feed-forward (ffn.c) --------------------------------------------------------------------------- */

typedef struct pco_nn_ffn_params {
    pco_nn_activation activation;
    const char *fc1, *fc2;        /* fc2(activation(fc1(x))), unless gated */
    const char *gate, *up, *down; /* swiglu, geglu (Shazeer 2020): down(silu(gate(x)) * up(x)) */
    const char *gate_up;          /* swiglu, instead of gate and up: one projection, gate rows first */
    int64_t width, hidden;
    int bias;
    /* A mixture of `experts` blocks of that size, of which each row takes the experts_used that router(x) is largest
     * for, in parts of its softmax, which with experts_normalized are divided by their sum. gate, up and down are then
     * stacks, [experts,hidden,width] and [experts,width,hidden], without biases. 0: one block, without a router. */
    const char *router;
    int64_t experts, experts_used;
    int experts_normalized;
} pco_nn_ffn_params;

/* The same for experts (experts.c), which pco_nn_ffn calls: with swiglu only. */
uint32_t pco_nn_experts(const pco_nn *nn, uint32_t x, const pco_nn_ffn_params *params);

/* x [B,S,width] -> the same. */
uint32_t pco_nn_ffn(const pco_nn *nn, uint32_t x, const pco_nn_ffn_params *params);

/* ---- layers (block.c) ----------------------------------------------------------------------------- */

/* A residual block each for self-attention, cross-attention (decoder layers) and feed-forward:
 * x + f(norm(x)) with normalize_before (Xiong et al. 2020), norm(x + f(x)) without (Vaswani et al. 2017). Where there
 * is a post_norm, f ends with it and where a norm has no name, there is none. `parallel` (Wang & Komatsuzaki 2021;
 * encoder layers with normalize_before): x + attention(norm(x)) + feed-forward(norm(x)), without an ffn_norm of one
 * norm. In training, dropout comes between f and the sum. */
typedef struct pco_nn_layer_params {
    int normalize_before, parallel;
    pco_nn_norm_params norm;
    const char *self_attention_norm, *cross_attention_norm, *ffn_norm;
    const char *self_attention_post_norm, *ffn_post_norm; /* NULL: none */
    pco_nn_attention_params self_attention, cross_attention;
    pco_nn_ffn_params ffn;
} pco_nn_layer_params;

/* One residual block around `block`, for layers of other kinds: what pco_nn_residual gives to the caller's
 * function is x, or norm(x). */
typedef uint32_t (*pco_nn_block_fn)(const pco_nn *nn, uint32_t x, const void *user);
uint32_t pco_nn_residual(const pco_nn *nn, uint32_t x, int normalize_before, const char *norm_name,
                         const pco_nn_norm_params *norm, pco_nn_block_fn block, const void *user);

/* Self-attention and feed-forward: encoders, and decoders without cross-attention. x [B,S,width] -> the same.
 */
uint32_t pco_nn_encoder_layer(const pco_nn *nn, uint32_t x, const pco_nn_layer_params *params,
                              const pco_nn_attention_operands *self_attention);

/* With cross-attention between them; its operands name memory, or key and value. */
uint32_t pco_nn_decoder_layer(const pco_nn *nn, uint32_t x, const pco_nn_layer_params *params,
                              const pco_nn_attention_operands *self_attention,
                              const pco_nn_attention_operands *cross_attention);

#endif
