/* Graphs in Graphviz's language. */
#include "cli/inspect.h"

#include "base/dtype.h"
#include "base/error.h"
#include "models/causal.h"
#include "models/encoder.h"
#include "models/seq2seq.h"

#include <stdio.h>
#include <string.h>

/* Inside a quoted string. */
static void dot_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        putchar(*text);
    }
}

/* A tensor that no node makes. */
static void dot_source(const char *prefix, const pco_graph *graph, uint32_t t)
{
    static const char *const shapes[] = {"note", "cylinder", "ellipse", "ellipse", "plain", "diamond"};
    static const char *const colours[] = {"gray90", "lightyellow", "lightblue", "lightblue", "white", "lavender"};
    const pco_tensor *x = &graph->tensors[t];
    char shape[192];
    uint32_t kind = x->kind <= PCO_KIND_VALUE ? x->kind : PCO_KIND_TRANSIENT;
    printf("    %s_t%u [shape=%s, style=filled, fillcolor=%s, label=\"", prefix, t, shapes[kind], colours[kind]);
    dot_text(x->name);
    printf("\\n%s %s\"];\n", pco_dtype_name(x->dtype), pco_shape_text(x->rank, x->shape, shape, sizeof shape));
}

static void dot_graph(const char *prefix, const char *title, const pco_graph *graph)
{
    char shape[192];
    printf("  subgraph cluster_%s {\n    label=\"%s\";\n", prefix, title);
    for (uint32_t t = 0; t < graph->n_tensors; t++)
        if (graph->producers[t] == PCO_NONE) dot_source(prefix, graph, t);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const pco_node *node = &graph->nodes[i];
        printf("    %s_n%u [shape=box, label=\"%s\\n", prefix, i, pco_node_op(node)->name);
        dot_text(node->name);
        printf("\"];\n");
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            uint32_t t = node->inputs[k];
            if (t == PCO_NONE) continue;
            const pco_tensor *x = &graph->tensors[t];
            uint32_t producer = graph->producers[t];
            if (producer == PCO_NONE)
                printf("    %s_t%u -> %s_n%u;\n", prefix, t, prefix, i);
            else
                printf("    %s_n%u -> %s_n%u [label=\"%s\"];\n", prefix, producer, prefix, i,
                       pco_shape_text(x->rank, x->shape, shape, sizeof shape));
        }
    }
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        if (graph->tensors[t].kind != PCO_KIND_OUTPUT || graph->producers[t] == PCO_NONE) continue;
        dot_source(prefix, graph, t);
        printf("    %s_n%u -> %s_t%u;\n", prefix, graph->producers[t], prefix, t);
    }
    printf("  }\n");
}

pco_status inspect_dot(const inspect_file *file, pco_error *err)
{
    const pco_model_file *model = file->model;
    int causal = model->spec.decoder_only;
    pco_graph *step = pco_graph_create(), *encoder = causal ? NULL : pco_graph_create();
    pco_status status = PCO_OK;
    if (!step || (!causal && !encoder)) {
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a graph");
    } else if (!pco_model_reads_texts(model)) {
        pco_image_encoder_build(&(pco_nn){.graph = encoder, .weights = model->weights}, model->images, 1,
                                PCO_ENCODER_HIDDEN);
        status = pco_graph_check(encoder, err);
    } else if (model->spec.encoder_only) {
        pco_encoder_build(&(pco_nn){.graph = encoder, .weights = model->weights}, &model->spec, 1,
                          file->context < 64 ? file->context : 64, PCO_ENCODER_HIDDEN);
        status = pco_graph_check(encoder, err);
    } else if (causal) {
        pco_causal_build(&(pco_nn){.graph = step, .weights = model->weights}, &model->spec,
                         PCO_CAUSAL_ROWS(file->context, 1));
    } else {
        int64_t rows = file->context < 64 ? file->context : 64;
        pco_seq2seq_build_encode(&(pco_nn){.graph = encoder, .weights = model->weights}, &model->spec,
                                 &(pco_seq2seq_form){.context = file->context, .rows = rows});
        pco_seq2seq_build_decode(&(pco_nn){.graph = step, .weights = model->weights}, &model->spec,
                                 &(pco_seq2seq_form){.context = file->context, .rows = 1, .step = 1});
        status = pco_graph_check(encoder, err);
    }
    if (!status) status = pco_graph_check(step, err);
    if (!status) {
        printf("digraph portico {\n  rankdir=TB;\n  node [fontsize=10];\n  edge [fontsize=8];\n");
        if (encoder) dot_graph("encoder", "encoder", encoder);
        if (!model->spec.encoder_only) dot_graph("step", causal ? "one token" : "decoder, one token", step);
        printf("}\n");
    }
    pco_graph_destroy(step);
    pco_graph_destroy(encoder);
    return status;
}
