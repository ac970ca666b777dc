/* Building blocks of transformers, from the inside: portico/nn.h declares them and says what they do.
 *
 * Each function checks what it is given, as others call it too. A pco_nn lies where its owner wants it: on the stack of
 * who builds one graph. */
#ifndef PCO_NN_NN_H
#define PCO_NN_NN_H

#include "formats/weights.h"
#include "graph/graph.h"
#include "portico/nn.h"

/* Where to build, and from what. All are borrowed. `weights` outlives every program made from the graph only
 * as far as graph.h asks for it: constants are read when an executable is created. */
struct pco_nn {
    pco_graph *graph;
    const pco_weights *weights;
    int keep_attention;
    struct pco_nn_training *training; /* NULL: weights are constants from `weights` */
    const char *scope;                /* in front of names of weights; NULL: none */
};

/* ---- parameters that are trained (parameter.c) ------------------------------------------------------ */

/* A weight that the graph keeps as a state of the same name, f32, instead of a constant. */
typedef struct pco_nn_parameter {
    char *name;
    pco_nn_role role;
    uint32_t rank;
    int64_t shape[PCO_MAX_RANK];
    int stack;       /* a matrix for each expert, not one of more dimensions */
    uint32_t tensor; /* in the graph that was built last */
} pco_nn_parameter;

/* A role beside those of portico/nn.h: what begins as 0, so that it changes nothing at first. */
enum { PCO_NN_ROLE_ZERO = PCO_NN_ROLE_RESIDUAL + 1 };

/* Adapters that are trained (Hu et al. 2021, LoRA; lora.c): the projections that `wants` names get two small matrices
 * each, and all else is frozen. */
typedef struct pco_nn_lora {
    int64_t rank;
    double scale;   /* of what an adapter adds */
    double dropout; /* of what it reads */
    int (*wants)(const void *user, const char *projection);
    const void *user;
} pco_nn_lora;

/* With this in pco_nn, weights become states, listed here in the order in which the graph first asks for them, and
 * `weights` says only which biases there are (NULL: those that the model always has). With `lora` the adapters'
 * matrices alone are states, and weights are constants. Building several graphs of one model with the same struct gives
 * one list. Zero it first; pco_nn_training_begin before each graph. */
typedef struct pco_nn_training {
    pco_nn_parameter *items;
    uint32_t count, capacity;
    const pco_nn_lora *lora; /* NULL: all weights are trained */
    pco_dtype dtype; /* f32, or the half type of activations and products; parameters and their gradients stay f32 */
    double lora_dropout; /* of this graph */
    double dropout; /* above 0: there are dropout layers; `seed` and `offset` are then i32 [2] tensors of the graph, and
                       each layer takes the next stream */
    uint32_t seed, offset;
    int64_t streams;
    const struct pco_nn_layer_scope *layers; /* of whole stacks in this graph, the last one first; in its memory */
} pco_nn_training;

/* The scope of a layer's nodes. */
typedef struct pco_nn_layer_scope {
    const char *name;
    const struct pco_nn_layer_scope *before;
} pco_nn_layer_scope;
void pco_nn_training_release(pco_nn_training *training);

/* Appends a copy of a list, for other graphs. 0 without memory: then `to` is empty. */
int pco_nn_training_copy(pco_nn_training *to, const pco_nn_training *from);

/* Elements of a parameter. */
static inline int64_t pco_nn_elements(const pco_nn_parameter *parameter)
{
    int64_t elements = 1;
    for (uint32_t i = 0; i < parameter->rank; i++) elements *= parameter->shape[i];
    return elements;
}

/* The type of activations, and dropout, of the graph that is built next (and of adapters): with dropout it gets the run
 * values "dropout_seed" and "dropout_offset". */
void pco_nn_training_begin(const pco_nn *nn, pco_dtype dtype, double dropout, double lora_dropout);

/* The parameter of that name, or NULL. */
const pco_nn_parameter *pco_nn_training_find(const pco_nn_training *training, const char *name);

/* The state of that name and shape, listed, for weight.c. */
uint32_t pco_nn_parameter_state(const pco_nn *nn, const char *name, uint32_t rank, const int64_t *shape);

/* The same for a stack of matrices, [count,rows,columns], as if these were one matrix. */
uint32_t pco_nn_parameter_stack(const pco_nn *nn, const char *name, const int64_t shape[3]);

/* ---- arguments (arguments.c) ------------------------------------------------------------------------ */

/* No size of a block is above this, so that products of two are numbers. */
enum { PCO_NN_MOST = 1 << 30 };

/* May this function go on? Not without `nn`, after an error, or, which become errors, without `params`, or with a size
 * of it that is not known. *known, of `size` bytes, receives what the caller has of it. */
int pco_nn_take(const pco_nn *nn, const char *function, void *known, size_t size, const void *params);
/* The same for tensors of an attention, or NULL: none. */
int pco_nn_take_operands(const pco_nn *nn, const char *function, pco_nn_attention_operands *known,
                         const pco_nn_attention_operands *operands);
/* Are these there? If not, an error. A tensor of that rank; a size from 1 to PCO_NN_MOST; a name. */
int pco_nn_has(const pco_nn *nn, const char *function, uint32_t x, uint32_t rank);
int pco_nn_size(const pco_nn *nn, const char *function, const char *what, int64_t size);
int pco_nn_named(const pco_nn *nn, const char *function, const char *name);

/* ---- weights (weight.c) ----------------------------------------------------------------------------- */

/* A formatted name, kept as long as the graph; "" after an error. */
const char *pco_nn_name(const pco_nn *nn, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Rows first .. first+count-1 of that tensor as a constant of their own; they share the file's memory. */
uint32_t pco_nn_weight_rows(const pco_nn *nn, const char *name, uint32_t rank, const int64_t *shape, int64_t first,
                            int64_t count);

/* Rows first .. first+count-1 of a stack of matrices, [count,rows,columns], as if these were one matrix. */
uint32_t pco_nn_weight_stack(const pco_nn *nn, const char *name, const int64_t shape[3], int64_t first, int64_t count);

/* A name behind the scope. */
const char *pco_nn_scoped(const pco_nn *nn, const char *name);

/* A matrix, in the type of the training's activations if it is trained; a frozen one stays as it is. */
uint32_t pco_nn_matrix(const pco_nn *nn, uint32_t weight);

/* pco_nn_dropout with a share of its own. */
uint32_t pco_nn_dropout_by(const pco_nn *nn, uint32_t x, double p);

/* ---- adapters (lora.c) ------------------------------------------------------------------------------ */

/* What the two matrices of a projection's adapter are called, behind its name: [rank,in] and [out,rank]; of a stack of
 * experts, [experts,rank,in] and [experts,out,rank]. */
#define PCO_NN_LORA_A ".lora_A.weight"
#define PCO_NN_LORA_B ".lora_B.weight"

/* Does the projection have an adapter: one that is trained, or tensors of those names among `weights`? */
int pco_nn_adapted(const pco_nn *nn, const char *projection);

/* scale (x A^T) B^T for rows first .. first+count-1 of B, which has `total`; scale is 1 outside of training, where B
 * holds it. */
uint32_t pco_nn_adapter(const pco_nn *nn, uint32_t x, const char *projection, int64_t total, int64_t first,
                        int64_t count);

/* The same for a stack: of x [B,S,in] or [B,S,used,in] by the experts that were chosen, [B,S,used,out]. */
uint32_t pco_nn_expert_adapter(const pco_nn *nn, uint32_t x, uint32_t chosen, const char *projection, int64_t experts,
                               int64_t out, int64_t in);

/* ---- caches (cache.c) ------------------------------------------------------------------------------- */

/* Keys or values of L sequences, which the device keeps from run to run. */
struct pco_nn_cache {
    uint32_t type;   /* PCO_F32 or PCO_F16: `state` is [L,T,G,D] of it. PCO_Q8_0: four quants of 8 bits in each word */
    uint32_t state;  /* of a state i32 [L,T,G*D/4], and for each 32 of them one factor */
    uint32_t scales; /* in a state f16 [L,T,G*D/32]. PCO_NONE for the other types */
    int64_t heads, head_dim; /* G and D */
};

/* A cache of that type, of `tokens` rows for each of `lanes` sequences, zero at first; its states are `name`, and
 * `name`.scale. Errors, kept in the graph: UNSUPPORTED for a type that is none of the three, and for rows of G*D
 * elements that blocks of 32 do not fill. */
pco_nn_cache pco_nn_cache_state(const pco_nn *nn, const char *name, uint32_t type, const int64_t shape[4]);

/* x [B,S,G,D] to rows index[l] ... of lane l (index i32 [L], or [1] for all); where `take` is not PCO_NONE lane l takes
 * row take[l] of the batch (i32 [L]), and none for -1. The cache after that. */
pco_nn_cache pco_nn_cache_write(const pco_nn *nn, const pco_nn_cache *cache, uint32_t x, uint32_t index, uint32_t take);

/* All of it, [L,T,G,D], as attention reads it. */
uint32_t pco_nn_cache_read(const pco_nn *nn, const pco_nn_cache *cache);

/* ---- feed-forward (experts.c) ----------------------------------------------------------------------- */

/* A mixture of experts, which pco_nn_ffn calls: with swiglu only. */
uint32_t pco_nn_experts(const pco_nn *nn, uint32_t x, const pco_nn_ffn_params *params);

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
uint32_t pco_nn_self_layer(const pco_nn *nn, uint32_t x, const pco_nn_layer_params *params,
                           const pco_nn_attention_operands *self_attention);

/* With cross-attention between them; its operands name memory, or key and value. */
uint32_t pco_nn_cross_layer(const pco_nn *nn, uint32_t x, const pco_nn_layer_params *params,
                            const pco_nn_attention_operands *self_attention,
                            const pco_nn_attention_operands *cross_attention);

#endif
