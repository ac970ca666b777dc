/* Opens a model as `portico inspect` needs it: ready to run. */
#include "cli/inspect.h"
#include "cli/model.h"

#include "models/seq2seq.h"

pco_status inspect_open_model(const inspect_arguments *arguments, pco_context *context, pco_model **model,
                              pco_error *err)
{
    pco_status status =
        cli_open_model(context, arguments->path, CLI_OPEN(arguments->device, arguments->context), model, err);
    if (!status && (*model)->causal) status = pco_causal_reserve((*model)->causal, (*model)->context_length, err);
    if (!status && (*model)->causal) status = pco_causal_warm_up((*model)->causal, err);
    if (!status && (*model)->seq2seq) status = pco_seq2seq_warm_up((*model)->seq2seq, err);
    return status;
}
