/* The commands of `portico`, in the order in which its help lists them. */
#include "cli/cli.h"

/* clang-format off */
const cli_command *const cli_commands[] = {
    &cli_run,
    &cli_chat,
    &cli_translate,
    &cli_transcribe,
    &cli_embed,
    &cli_classify,
    &cli_inspect,
    &cli_devices,
    &cli_ops,
    &cli_compare,
    &cli_conformance,
    &cli_bench,
    &cli_train,
    &cli_eval,
    &cli_plot,
    &cli_tokenizer,
    &cli_onnx,
    &cli_convert,
    NULL,
};
