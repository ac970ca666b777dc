/* What is nested in an ONNX file, seen without parsing it: a parser would follow messages in messages as deep as they
 * go, and needs many bytes for one that has few. (https://protobuf.dev/programming-guides/encoding/) */
#include "formats/onnx.h"

#include "base/error.h"

#include "onnx.pb-c.h"

typedef enum nesting_kind {
    NESTING_NONE, /* a message or text that holds none of the others */
    NESTING_MODEL,
    NESTING_GRAPH,
    NESTING_NODE,
    NESTING_ATTRIBUTE,
    NESTING_FUNCTION,
    NESTING_VALUE,
    NESTING_TYPE,
    NESTING_TENSOR_TYPE,
    NESTING_SHAPE,
    NESTING_TENSOR,
} nesting_kind;

/* Which message a field holds, and the bytes that parsing it takes beside its own. */
static const struct {
    nesting_kind in;
    uint32_t field;
    nesting_kind holds;
    size_t bytes;
} NESTING[] = {
    {NESTING_MODEL, 7, NESTING_GRAPH, sizeof(Onnx__GraphProto)},
    {NESTING_MODEL, 8, NESTING_NONE, sizeof(Onnx__OperatorSetIdProto)},
    {NESTING_MODEL, 25, NESTING_FUNCTION, sizeof(Onnx__FunctionProto)},
    {NESTING_FUNCTION, 7, NESTING_NODE, sizeof(Onnx__NodeProto) + sizeof(pco_onnx_node)},
    {NESTING_FUNCTION, 11, NESTING_ATTRIBUTE, sizeof(Onnx__AttributeProto) + sizeof(pco_onnx_attribute)},
    {NESTING_GRAPH, 1, NESTING_NODE, sizeof(Onnx__NodeProto) + sizeof(pco_onnx_node)},
    {NESTING_GRAPH, 5, NESTING_TENSOR, sizeof(Onnx__TensorProto)},
    {NESTING_GRAPH, 11, NESTING_VALUE, sizeof(Onnx__ValueInfoProto) + sizeof(pco_onnx_value)},
    {NESTING_GRAPH, 12, NESTING_VALUE, sizeof(Onnx__ValueInfoProto) + sizeof(pco_onnx_value)},
    {NESTING_NODE, 5, NESTING_ATTRIBUTE, sizeof(Onnx__AttributeProto) + sizeof(pco_onnx_attribute)},
    {NESTING_ATTRIBUTE, 5, NESTING_TENSOR, sizeof(Onnx__TensorProto)},
    {NESTING_ATTRIBUTE, 6, NESTING_GRAPH, sizeof(Onnx__GraphProto) + sizeof(pco_onnx_graph)},
    {NESTING_VALUE, 2, NESTING_TYPE, sizeof(Onnx__TypeProto)},
    {NESTING_TYPE, 1, NESTING_TENSOR_TYPE, sizeof(Onnx__TensorTypeProto)},
    {NESTING_TENSOR_TYPE, 2, NESTING_SHAPE, sizeof(Onnx__TensorShapeProto)},
    {NESTING_SHAPE, 1, NESTING_NONE, sizeof(Onnx__Dimension)},
    {NESTING_TENSOR, 13, NESTING_NONE, sizeof(Onnx__StringStringEntryProto)},
};

typedef struct nesting_walk {
    size_t budget; /* bytes that messages may still take */
    bool deep, many;
} nesting_walk;

static bool nesting_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128)) return true;
    }
    return false;
}

/* What is malformed ends the walk: the parser refuses it. */
static void nesting_message(nesting_walk *walk, nesting_kind kind, const uint8_t *at, const uint8_t *end, int depth)
{
    uint64_t key, length;
    if (depth > PCO_ONNX_DEEPEST) walk->deep = true;
    while (!walk->deep && !walk->many && nesting_varint(&at, end, &key)) {
        const uint32_t wire = key & 7, field = (uint32_t)(key >> 3);
        if (wire == 0 && !nesting_varint(&at, end, &length)) return;
        if (wire == 0) continue;
        length = wire == 1 ? 8 : 4;
        if ((wire != 1 && wire != 2 && wire != 5) || (wire == 2 && !nesting_varint(&at, end, &length))) return;
        if (length > (uint64_t)(end - at)) return;
        for (size_t i = 0; wire == 2 && i < sizeof NESTING / sizeof *NESTING; i++) {
            if (NESTING[i].in != kind || NESTING[i].field != field) continue;
            if (walk->budget < NESTING[i].bytes) walk->many = true;
            walk->budget -= walk->many ? 0 : NESTING[i].bytes;
            if (NESTING[i].holds != NESTING_NONE) nesting_message(walk, NESTING[i].holds, at, at + length, depth + 1);
        }
        at += length;
    }
}

pco_status pco_onnx_nesting(const void *data, size_t size, const char *label, pco_error *err)
{
    enum { TIMES = 8, LITTLE = 1 << 16 }; /* the other two are for what the messages hold: numbers and names */
    nesting_walk walk = {.budget = size < SIZE_MAX / 16 ? size * TIMES + LITTLE : SIZE_MAX};
    nesting_message(&walk, NESTING_MODEL, data, (const uint8_t *)data + size, 0);
    if (walk.deep)
        return pco_fail(err, PCO_ERROR_FORMAT, "'%s' nests messages more than %d deep; ONNX models do not", label,
                        PCO_ONNX_DEEPEST);
    if (walk.many)
        return pco_fail(err, PCO_ERROR_FORMAT, "'%s' has more empty messages than a model of %zu bytes can need", label,
                        size);
    return PCO_OK;
}
