/* ONNX models made at random, with operators, attributes and operands that belong together only by chance, and then
 * with a few bytes changed: whatever they say, the reader and the mapping to graphs read nothing that is not there.
 * fuzz_onnx [rounds (10000) [seed]], the same way each time; scripts/test --all runs it under sanitizers. With
 * libFuzzer, on files as they come: scripts/fuzz, which begins with the models that `fuzz_onnx ROUNDS SEED FOLDER`
 * writes there. */
#include "base/file.h"
#include "models/onnx/import.h"

#include "onnx.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef PCO_LIBFUZZER

#include "fuzz_limits.h"

/* Inputs of the shapes that the file says, 2 where it leaves one open, and of values that count up. */
static void fuzz_bind(const pco_onnx_file *file, pco_onnx_bound *bound)
{
    enum { MOST = 4096 };
    static int64_t raw[MOST];
    for (size_t i = 0; i < MOST; i++) raw[i] = (int64_t)i % 7;
    for (uint32_t i = 0; i < file->graph.n_inputs; i++) {
        const pco_onnx_value *input = &file->graph.inputs[i];
        pco_onnx_tensor tensor = {.type = input->type, .rank = input->rank, .count = 1, .raw = raw};
        bool small = input->shaped && pco_onnx_type_bytes(input->type);
        for (uint32_t d = 0; d < input->rank && small; d++) {
            tensor.shape[d] = input->dims[d] < 0 ? 2 : input->dims[d];
            small = !__builtin_mul_overflow(tensor.count, tensor.shape[d], &tensor.count) && tensor.count <= MOST;
        }
        if (small) bound[i] = (pco_onnx_bound){.tensor = tensor, .given = true};
    }
}

static int fuzz_input(const uint8_t *data, size_t size)
{
    pco_onnx_file file;
    pco_onnx_import import;
    pco_error err;
    if (pco_onnx_file_parse(data, size, "fuzz", NULL, &file, &err) == PCO_OK) {
        pco_onnx_bound *bound = calloc(file.graph.n_inputs + 1u, sizeof *bound);
        if (!bound) abort();
        fuzz_bind(&file, bound);
        pco_onnx_unknown(&file, NULL, NULL);
        const bool mapped = pco_onnx_import_create(&file, bound, true, NULL, NULL, &import, &err) == PCO_OK;
        for (uint32_t i = 0; mapped && i < import.n_made; i++)
            if (!import.made[i].in_graph && !import.made[i].tensor.value) abort();
        pco_onnx_import_clear(&import);
        free(bound);
    }
    pco_onnx_file_close(&file);
    return 0;
}

#else

enum { INITIALIZERS = 8, MOST_INTS = 10, MOST_VALUES = 625 };

static const struct {
    const char *op, *attributes[6];
} OPS[] = {
    {"Abs", {NULL}},
    {"Add", {NULL}},
    {"Where", {NULL}},
    {"Min", {NULL}},
    {"Gelu", {"approximate"}},
    {"Clip", {NULL}},
    {"Pow", {NULL}},
    {"LeakyRelu", {"alpha"}},
    {"Softplus", {NULL}},
    {"HardSwish", {NULL}},
    {"Swish", {"alpha"}},
    {"SwiGLU", {"alpha"}},
    {"Cast", {"to", "saturate"}},
    {"MatMul", {NULL}},
    {"Gemm", {"alpha", "beta", "transA", "transB"}},
    {"Einsum", {"equation"}},
    {"ReduceSum", {"axes", "keepdims", "noop_with_empty_axes"}},
    {"ReduceMean", {"axes", "keepdims"}},
    {"ReduceL2", {"axes", "keepdims"}},
    {"ReduceMax", {"axes", "keepdims", "noop_with_empty_axes"}},
    {"ReduceMin", {"axes"}},
    {"ArgMax", {"axis", "keepdims", "select_last_index"}},
    {"Softmax", {"axis"}},
    {"LogSoftmax", {"axis"}},
    {"Transpose", {"perm"}},
    {"Reshape", {"allowzero"}},
    {"Squeeze", {NULL}},
    {"Unsqueeze", {NULL}},
    {"Expand", {NULL}},
    {"Concat", {"axis"}},
    {"Split", {"axis", "num_outputs"}},
    {"Slice", {NULL}},
    {"Gather", {"axis"}},
    {"GatherElements", {"axis"}},
    {"GatherND", {"batch_dims"}},
    {"Trilu", {"upper"}},
    {"CumSum", {"exclusive", "reverse"}},
    {"TopK", {"axis", "largest", "sorted"}},
    {"TensorScatter", {"axis", "mode"}},
    {"LayerNormalization", {"axis", "epsilon", "stash_type"}},
    {"RMSNormalization", {"axis", "epsilon"}},
    {"Conv", {"auto_pad", "pads", "strides", "dilations", "group"}},
    {"RotaryEmbedding", {"interleaved", "num_heads", "rotary_embedding_dim"}},
    {"Attention", {"q_num_heads", "kv_num_heads", "scale", "softcap", "is_causal", "qk_matmul_output_mode"}},
    {"QuantizeLinear", {"axis", "block_size", "output_dtype"}},
    {"DequantizeLinear", {"axis", "block_size"}},
    {"DynamicQuantizeLinear", {NULL}},
    {"MatMulInteger", {NULL}},
    {"QLinearMatMul", {NULL}},
    {"Unknown", {"axis"}},
};
enum { N_OPS = sizeof OPS / sizeof *OPS };
static const char *const TEXTS[] = {"",      "tanh",  "linear", "circular", "SAME_UPPER",   "SAME_LOWER",
                                    "VALID", "ij->i", "ij->ji", "i,i",      "bij,bjk->bik", "...ii->...i"};
static const int64_t NUMBERS[] = {0, 1, 2, 3, 4, 7, 8, 9, -1, -2, -4, -9, 1 << 24, INT32_MAX, INT64_MAX, INT64_MIN};
static const int32_t TYPES[] = {PCO_ONNX_FLOAT, PCO_ONNX_FLOAT,   PCO_ONNX_FLOAT,  PCO_ONNX_INT64,
                                PCO_ONNX_INT64, PCO_ONNX_INT32,   PCO_ONNX_BOOL,   PCO_ONNX_INT8,
                                PCO_ONNX_UINT8, PCO_ONNX_FLOAT16, PCO_ONNX_DOUBLE, PCO_ONNX_STRING};

static uint64_t fuzz_state = 1;

/* SplitMix64 (Steele, Lea, Flood 2014) */
static uint32_t fuzz_below(uint32_t n)
{
    uint64_t z = fuzz_state += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (uint32_t)((z >> 32) % n);
}

#define FUZZ_ONE(list) (list)[fuzz_below(sizeof(list) / sizeof *(list))]

static void *fuzz_text(const char *text) { return (void *)(size_t)text; }

static void fuzz_tensor(Onnx__TensorProto *tensor, int64_t *dims, int64_t *values, uint8_t *raw)
{
    size_t count = 1;
    onnx__tensor_proto__init(tensor);
    tensor->has_data_type = 1, tensor->data_type = FUZZ_ONE(TYPES);
    tensor->n_dims = fuzz_below(16) ? fuzz_below(5) : 9, tensor->dims = dims;
    for (size_t i = 0; i < tensor->n_dims; i++) {
        dims[i] = i < 4 ? (int64_t)fuzz_below(fuzz_below(8) ? 4 : 6) : 1;
        count *= (size_t)dims[i];
    }
    if (fuzz_below(16) == 0) count += fuzz_below(3);
    if (count > MOST_VALUES) count = MOST_VALUES;
    for (size_t i = 0; i < count; i++) values[i] = fuzz_below(3) ? (int64_t)i % 4 : FUZZ_ONE(NUMBERS);
    if (tensor->data_type == PCO_ONNX_INT64) {
        tensor->n_int64_data = count, tensor->int64_data = values;
        return;
    }
    memset(raw, (int)fuzz_below(256), 8 * MOST_VALUES);
    tensor->has_raw_data = 1, tensor->raw_data.data = raw;
    tensor->raw_data.len = count * (tensor->data_type == PCO_ONNX_DOUBLE                                         ? 8
                                    : tensor->data_type == PCO_ONNX_FLOAT || tensor->data_type == PCO_ONNX_INT32 ? 4
                                    : tensor->data_type == PCO_ONNX_FLOAT16                                      ? 2
                                                                                                                 : 1);
}

/* Of an operator, or now and then of any other; it may have none. */
static void fuzz_attribute(Onnx__AttributeProto *attribute, size_t op, int64_t *ints)
{
    enum { MOST = sizeof OPS->attributes / sizeof *OPS->attributes };
    const char *name = NULL;
    if (fuzz_below(16) == 0) op = fuzz_below(N_OPS);
    for (uint32_t i = fuzz_below(MOST), tries = 0; !name && tries < MOST; tries++)
        name = OPS[op].attributes[(i + tries) % MOST];
    onnx__attribute_proto__init(attribute);
    attribute->name = fuzz_text(name);
    attribute->has_i = fuzz_below(4) != 0, attribute->i = FUZZ_ONE(NUMBERS);
    attribute->has_f = fuzz_below(4) != 0, attribute->f = (float)FUZZ_ONE(NUMBERS);
    attribute->has_s = fuzz_below(4) != 0, attribute->s.data = fuzz_text(FUZZ_ONE(TEXTS));
    attribute->s.len = strlen((const char *)attribute->s.data);
    attribute->n_ints = fuzz_below(MOST_INTS + 1), attribute->ints = ints;
    for (size_t i = 0; i < attribute->n_ints; i++) ints[i] = FUZZ_ONE(NUMBERS);
}

/* A model of one node, whose operands are among its initializers; packed, malloc'ed. */
static uint8_t *fuzz_model(size_t *size)
{
    enum { MOST_OPERANDS = 9, MOST_ATTRIBUTES = 4 };
    static int64_t dims[INITIALIZERS][9], values[INITIALIZERS][MOST_VALUES + 2], ints[MOST_ATTRIBUTES][MOST_INTS];
    static uint8_t raw[INITIALIZERS][8 * MOST_VALUES];
    static const char *const NAMES[INITIALIZERS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    Onnx__TensorProto tensors[INITIALIZERS], *initializers[INITIALIZERS];
    Onnx__AttributeProto attributes[MOST_ATTRIBUTES], *said[MOST_ATTRIBUTES];
    Onnx__NodeProto node = ONNX__NODE_PROTO__INIT, *nodes[] = {&node};
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    char *inputs[MOST_OPERANDS], *outputs[MOST_OPERANDS];
    for (int i = 0; i < INITIALIZERS; i++) {
        fuzz_tensor(&tensors[i], dims[i], values[i], raw[i]);
        tensors[i].name = fuzz_text(NAMES[i]), initializers[i] = &tensors[i];
    }
    const size_t op = fuzz_below(N_OPS);
    node.op_type = fuzz_text(OPS[op].op);
    node.n_input = fuzz_below(32) ? fuzz_below(8) : MOST_OPERANDS, node.input = inputs;
    node.n_output = fuzz_below(32) ? 1 + (fuzz_below(4) == 0 ? fuzz_below(4) : 0) : 0, node.output = outputs;
    for (int i = 0; i < MOST_OPERANDS; i++) {
        inputs[i] = fuzz_text(fuzz_below(8) ? NAMES[fuzz_below(INITIALIZERS)] : "");
        outputs[i] = fuzz_text(i == 0 || fuzz_below(8) ? "y" : "");
    }
    node.attribute = said;
    for (uint32_t i = fuzz_below(MOST_ATTRIBUTES + 1); i > 0; i--) {
        Onnx__AttributeProto *made = &attributes[node.n_attribute];
        fuzz_attribute(made, op, ints[node.n_attribute]);
        if (made->name) said[node.n_attribute++] = made;
    }
    graph.n_node = 1, graph.node = nodes, graph.n_initializer = INITIALIZERS, graph.initializer = initializers;
    Onnx__ValueInfoProto in = ONNX__VALUE_INFO_PROTO__INIT, out = in, *ins[] = {&in}, *outs[] = {&out};
    in.name = fuzz_text("b"), out.name = fuzz_text("y");
    graph.n_input = fuzz_below(4) == 0, graph.input = ins;
    graph.n_output = 1, graph.output = outs;
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = {&opset};
    opset.has_version = 1, opset.version = 7 + fuzz_below(22);
    model.graph = &graph, model.n_opset_import = 1, model.opset_import = opsets;
    uint8_t *packed = malloc(onnx__model_proto__get_packed_size(&model) + 1);
    if (!packed) abort();
    *size = onnx__model_proto__pack(&model, packed);
    return packed;
}

/* Whether its nodes were mapped. The values of inputs are those of initializers. */
static bool fuzz_map(const pco_onnx_file *file)
{
    pco_onnx_import import;
    pco_error err;
    pco_onnx_bound *bound = calloc(file->graph.n_inputs + 1u, sizeof *bound);
    if (!bound) abort();
    for (uint32_t i = 0; i < file->graph.n_inputs && file->graph.n_initializers; i++) /* they shadow initializers */
        bound[i].given = pco_onnx_initializer(file, &file->graph, fuzz_below(file->graph.n_initializers),
                                              &bound[i].tensor, &err) == PCO_OK &&
                         bound[i].tensor.raw;
    const bool mapped = pco_onnx_import_create(file, bound, true, NULL, NULL, &import, &err) == PCO_OK;
    for (uint32_t i = 0; mapped && i < import.n_made; i++)
        if (!import.made[i].in_graph && !import.made[i].tensor.value) abort();
    pco_onnx_import_clear(&import);
    for (uint32_t i = 0; i < file->graph.n_inputs; i++) pco_onnx_tensor_clear(&bound[i].tensor);
    free(bound);
    return mapped;
}

/* A seed for libFuzzer. */
static void fuzz_keep(const char *folder, unsigned long round, const uint8_t *bytes, size_t size)
{
    char path[1024];
    pco_error err;
    snprintf(path, sizeof path, "%s/%lu.onnx", folder, round);
    if (pco_file_write(path, bytes, size, &err)) abort();
}

int main(int argc, char **argv)
{
    const unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000;
    unsigned long read = 0, mapped = 0;
    if (argc > 2) fuzz_state = strtoull(argv[2], NULL, 10);
    char path[64];
    const int file = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    for (unsigned long round = 0; round < rounds; round++) {
        size_t size;
        uint8_t *bytes = fuzz_model(&size);
        for (uint32_t i = round % 2 ? fuzz_below(4) : 0; i > 0; i--)
            bytes[fuzz_below((uint32_t)size)] = (uint8_t)fuzz_below(256);
        if (argc > 3) fuzz_keep(argv[3], round, bytes, size);
        if (ftruncate(file, (off_t)size) != 0 || pwrite(file, bytes, size, 0) != (ssize_t)size) abort();
        free(bytes);
        pco_onnx_file file_read;
        pco_onnx_tensor tensor;
        pco_error err;
        if (pco_onnx_file_open(path, &file_read, &err) == PCO_OK) {
            read++;
            mapped += fuzz_map(&file_read);
        }
        pco_onnx_file_close(&file_read);
        if (pco_onnx_tensor_read(path, &tensor, &err) == PCO_OK && !tensor.value) abort();
        pco_onnx_tensor_clear(&tensor);
    }
    close(file);
    fprintf(stderr, "%lu models, %lu read, %lu mapped: nothing crashed\n", rounds, read, mapped);
    return rounds >= 1000 && (read < rounds / 2 || mapped < rounds / 200); /* or it would show nothing */
}

#endif
