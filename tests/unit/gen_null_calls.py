"""gen_null_calls.py HEADER... NULL-CALLS SECOND-CALLS: each function of the public headers, called with each of its pointers as
NULL in turn; and each that has a status and something of a context, called well.

A parameter whose type has no value in VALUES is an error: who adds a function says here what a good call of it is."""
import re
import sys

# What a good call passes, by type and, where a type has several uses, by name or by function and name. test_api.c defines the variables.
VALUES = {
    "pco_status": "PCO_OK", "void *": "NULL", "const pco_context_params *": "&context_params", "pco_context **": "&context_out",
    "pco_error *": "&err", "pco_context *": "context", "const pco_context *": "context", "pco_device_description *": "devices",
    "pco_plugin_description *": "plugins", "uint32_t": "1", "const pco_model_params *": "&model_params",
    "pco_model **": "&model_out", "pco_model *": "model", "const pco_model *": "model", "pco_model_info *": "&info",
    "int64_t": "0", "size_t": "2", "size_t bytes": "1", "int": "1", "int32_t **": "&ids_out", "size_t *": "&count_out",
    "const int32_t *": "ids", "char **": "&text_out", "const pco_generate_params *": "&generate_params",
    "pco_text_fn": "take_text", "pco_generate_stats *": "&stats", "float *": "logits", "double **": "&numbers_out",
    "pco_attention_fn": "take_map", "const char *path": "path", "const char *": '"3"',
    "pco_graph *": "fresh_graph(&graph)", "const pco_graph *": "fresh_graph(&graph)", "pco_dtype": "PCO_F32", "uint32_t rank": "2",
    "const int64_t *": "shape", "const void *": "values", "void *data": "values", "uint32_t tensor": "0", "uint32_t loss": "2",
    "pco_tensor *": "&tensor", "const pco_tensor *": "&tensor", "pco_op": "PCO_OP_EXP", "uint32_t *": "numbers",
    "const uint32_t *": "wrt", "double": "1", "const double *": "frequencies", "const float *": "factors",
    "uint32_t axis": "0", "pco_session **": "&session_out", "const char *devices": '"cpu"', "pco_session *": "session",
    "const pco_session *": "session", "uint64_t *": "&bytes_out", "uint64_t": "4", "const pco_executable_params *": "&executable_params",
    "pco_executable **": "&executable_out", "pco_executable *": "executable", "const pco_executable *": "executable",
    "pco_executable_write handle": "handles[0]", "pco_executable_read handle": "handles[1]", "pco_session_lend data": "page",
    "uint32_t first": "0", "uint32_t count": "1", "pco_executable_stats *": "&counts", "uint32_t handle": "0",
    "pco_model_open_memory data": "gguf", "pco_model_open_memory bytes": "gguf_bytes",
    "pco_sequence_truncate length": "0", "pco_special_ids *": "&special", "pco_sequence **": "&sequence_out", "pco_sequence *": "emptied(sequence)",
    "const pco_sequence *": "sequence", "pco_prompt_fn": "NULL", "pco_sequence *const *": "sequences",
    "int32_t *id": "&id_out", "int32_t": "5",
    "pco_onnx_model **": "&onnx_out", "pco_onnx_open path": "onnx_path", "pco_onnx_model *": "NULL", "const pco_onnx_model *": "onnx",
    "pco_onnx_parse data": "onnx_bytes", "pco_onnx_parse size": "sizeof onnx_bytes - 1", "const char *folder": "NULL",
    "pco_onnx_input index": "0", "pco_onnx_output index": "0", "pco_onnx_value *": "&onnx_value",
    "pco_onnx_problem_fn": "NULL", "void *user": "NULL", "pco_onnx_runner **": "&runner_out", "pco_onnx_runner *": "runner",
    "const pco_onnx_runner *": "runner", "pco_onnx_runner_destroy runner": "NULL", "const pco_onnx_array *": "&onnx_input",
    "pco_onnx_array *": "&onnx_output", "pco_onnx_runner_output index": "0",
    "pco_executable_map handle": "handles[0]", "pco_executable_lend handle": "handles[0]", "pco_executable_lend data": "values", "pco_executable_lend bytes": "16", "pco_executable_write_dlpack handle": "handles[0]", "pco_executable_read_dlpack handle": "handles[1]",
    "void **": "&address_out", "const struct DLManagedTensor *": "&managed", "struct DLManagedTensor **": "&managed_out",
    "pco_node_timing *": "node_timings",
    "const pco_op_declaration *": "&declaration", "const pco_operation **": "&operation_out", "const pco_operation *": "operation", "pco_graph_apply inputs": "wrt",
    "pco_image *": "&image_out", "pco_image_read path": "image_path", "pco_model_classify model": "image_model", "pco_model_embed_images model": "image_model", "pco_model_embed_images count": "1", "pco_model_classify count": "1", "const pco_image *": "&image", "const pco_classify_params *": "&classify_params", "const char *const **": "&labels_out", "pco_pooling": "PCO_POOLING_DEFAULT",
    "const char *const *": "texts", "const pco_embed_params *": "&embed_params", "const pco_beam_params *": "&beam_params", "pco_beam_fn": "take_beam", "pco_answer_fn": "take_answer", "void *const *": "NULL",
    "pco_sound_read path": "sound_path", "float **": "&samples_out", "const float *samples": "logits", "const pco_transcribe_params *": "&transcribe_params",
    "pco_speech_fn": "take_speech", "pco_transcribe_stats *": "&transcribe_stats",
    "pco_nn *": "fresh_nn(&graph, &nn)", "const pco_nn *": "fresh_nn(&graph, &nn)", "pco_nn_destroy nn": "NULL", "const pco_nn_params *": "&nn_params", "pco_weights **": "&weights_out", "pco_weights_open path": "weights_path",
    "pco_weights *": "NULL", "const pco_initialization *": "&initialization", "pco_nn_role": "PCO_NN_ROLE_PLAIN", "const pco_nn_linear_params *": "&linear_params", "const pco_nn_norm_params *": "&norm_params",
    "const pco_nn_attention_params *": "&attention_params", "const pco_nn_attention_operands *": "&attention_operands", "const pco_nn_ffn_params *": "&ffn_params",
    "const pco_nn_transformer_params *": "&transformer_params", "const pco_nn_transformer_inputs *": "&transformer_inputs",
    "const pco_training_params *": "&training_params", "pco_training **": "&training_out", "pco_training *": "training", "const pco_training *": "training", "pco_training_destroy training": "NULL",
    "pco_training_result *": "&training_result", "pco_training_add nn": "trained_nn(&graph, &nn)", "pco_training_add executable": "&batch_out", "pco_training_step executable": "fed(batch_out)", "pco_training_save path": "checkpoint_path", "pco_training_save_weights path": "checkpoint_path", "pco_training_load path": "checkpoint_path",
    "const pco_chat_message *": "&chat_message", "const pco_chat_params *": "&chat_params", "pco_chat_render count": "1", "pco_chat_source model": "decoder", "pco_chat_render model": "decoder", "pco_chat_encode model": "decoder",
    "pco_chat_encode count": "1", "pco_chat_answer count": "1", "pco_chat_answer generate": "&chat_generate", "int64_t axis": "0", "int64_t size": "1", "uint32_t weight": "1", "uint32_t bias": "PCO_NONE",
}
FUNCTIONS = {"pco_text_fn", "pco_attention_fn", "pco_beam_fn", "pco_answer_fn", "pco_speech_fn"}
ALWAYS_ALLOWED = {"err", "user"}
BUILDS = {"pco_graph *", "const pco_nn *", "pco_nn *"}  # the graph keeps the error
ROWS = {"x", "memory", "source", "target"}  # what blocks read; test_api.c has it
OF_CONTEXTS = {f"{const}pco_{name} *" for const in ("", "const ")
               for name in ("sequence *const", "context", "model", "sequence", "session", "executable", "training", "onnx_runner")}
IN_PEACE = {"emptied(sequence)": "sequence", "fed(batch_out)": "executable"}  # what are calls themselves
OWNED = {"pco_nn *": "pco_nn_destroy"}  # what the caller gives back
NO_BUILDERS = {"pco_graph_destroy", "pco_nn_create", "pco_nn_destroy", "pco_nn_parameters", "pco_nn_cache_create"}


def parameters(text):
    for parameter in text.split(","):
        kind, name = re.fullmatch(r"\s*(.*?)(\w+)\s*", parameter.strip()).groups()
        yield re.sub(r"\s*(\*+)$", r" \1", kind.strip()), name


def good(function, kind, name):
    if function.startswith("pco_nn_") and kind == "uint32_t" and name in ROWS:
        return "6"
    named = f"{kind}{name}" if kind.endswith("*") else f"{kind} {name}"
    value = VALUES.get(f"{function} {name}", VALUES.get(named, VALUES.get(kind)))
    if value is None:
        sys.exit(f"gen_null_calls.py: {function} has a parameter '{kind} {name}'; add a value for it")
    return value


def functions(header):
    found = re.findall(r"(?:/\*((?:[^*]|\*(?!/))*)\*/\s*)?PCO_EXPORT\s+([\w\s*]+?)(\w+)\(([^)]*)\)", header)
    if len(found) != header.count("PCO_EXPORT "):
        sys.exit("gen_null_calls.py: a declaration was not understood")
    for comment, result, function, text in found:
        if text.strip() != "void":
            yield comment, result.strip(), function, list(parameters(text.replace(", ...", "")))


def second_calls(header):
    for _, result, function, known in functions(header):
        if result == "pco_status" and any(kind in OF_CONTEXTS for kind, _ in known):
            values = [IN_PEACE.get(value, value) for value in (good(function, *each) for each in known)]
            yield f'SECOND_CALL("{function}", {function}({", ".join(values)}))'


def calls(header):
    for comment, result, function, known in functions(header):
        allowed = set(ALWAYS_ALLOWED)
        for sentence in re.findall(r"((?:`\w+`[,\s*]*(?:and\s+)?)+)may[\s*]+be[\s*]+NULL", comment):
            allowed |= set(re.findall(r"`(\w+)`", sentence))
        if re.search(r"NULL[\s*]+is[\s*]+allowed", comment):
            allowed |= {name for _, name in known}
        for i, (kind, name) in enumerate(known):
            if "*" not in kind and kind not in FUNCTIONS:
                continue
            values = [good(function, *other) for other in known]
            values[i] = "NULL"
            call = f"{function}({', '.join(values)})"
            if result in OWNED:
                call = f"({OWNED[result]}({call}), 0)"
            kind_of_call = "STATUS" if result == "pco_status" else "PLAIN"
            if kind_of_call == "PLAIN" and known[0][0] in BUILDS and function not in NO_BUILDERS:
                call = f"({call}, PCO_NONE)" if result == "void" else call
                if i == 0:
                    yield f'NO_GRAPH_CALL("{function}, {name}", {call})'
                    continue
                kind_of_call = "BUILD"
            yield f'{kind_of_call}_CALL("{function}, {name}", {call}, {int(name in allowed)})'


if __name__ == "__main__":
    for made, output in ((calls, sys.argv[-2]), (second_calls, sys.argv[-1])):
        lines = [line for header in sys.argv[1:-2] for line in made(open(header, encoding="utf-8").read())]
        open(output, "w", encoding="utf-8").write("\n".join(lines) + "\n")
