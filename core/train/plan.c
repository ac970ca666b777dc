/* How much memory an update takes, without allocating it. */
#include "train/trainer_internal.h"

pco_status pco_trainer_plan(pco_trainer *trainer, pco_recompute recompute, pco_dtype dtype, pco_train_plan *plan,
                            pco_error *err)
{
    const trainer_stage *first = trainer->stages[0];
    pco_train_config config = *trainer->config;
    const pco_nn nn = {.graph = pco_graph_create(),
                       .weights = trainer->base ? trainer->base->weights : NULL,
                       .training = &trainer->training};
    pco_executable *executable = NULL;
    if (!nn.graph) return trainer_no_memory(err);
    config.recompute = recompute;
    config.dtype = dtype;
    pco_train_build(&nn, &config, &trainer->model, first->kind, trainer->rows, first->source_length,
                    first->target_length);
    pco_status status = pco_graph_check(nn.graph, err);
    if (!status)
        status = pco_executable_create(
            trainer->session, nn.graph,
            &(pco_executable_params){.size = sizeof(pco_executable_params), .name = "training", .plan_only = 1},
            &executable, err);
    if (!status) {
        const pco_executable_stats stats = pco_executable_counts(executable);
        *plan = (pco_train_plan){.rows = trainer->rows,
                                 .length = first->target_length,
                                 .bytes = stats.arena_bytes,
                                 .lower_bound = stats.arena_lower_bound};
    }
    pco_executable_destroy(executable);
    pco_graph_destroy(nn.graph);
    return status;
}
