/* portico train: from a config to a model. */
#include "cli/model.h"
#include "cli/ranks.h"
#include "cli/train_log.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"

typedef struct train_arguments {
    const char *config, *device, *log;
    pco_train_overrides overrides;
    int64_t steps; /* -1: as the config says */
    int resume, changed;
} train_arguments;

typedef struct train_run {
    const train_arguments *arguments;
    pco_train_config config;
    pco_ranks *ranks; /* NULL: this process alone. Rank 0 alone writes logs and lines */
    pco_trainer *trainer;
    train_log log;
    int64_t first, last; /* updates done before this run began; the one after which it ends */
    int64_t tokens, saved;
    double begin, last_print, evaluating, saved_at;
} train_run;

/* A line that is rewritten on a terminal; elsewhere a plain one at every tenth of the run. */
static void train_progress(train_run *run, const pco_train_result *result)
{
    const double now = pco_seconds(), spent = now - run->begin - run->evaluating;
    const int64_t step = pco_trainer_steps(run->trainer), done = step - run->first, total = run->last - run->first;
    const int tenth = done * 10 / total != (done - 1) * 10 / total || done == 1;
    if (pco_ranks_rank(run->ranks) != 0) return;
    if (cli_terminal() ? now - run->last_print < 0.1 && done < total : !tenth) return;
    char head[64], tail[128];
    run->last_print = now;
    snprintf(head, sizeof head, "step %" PRId64 "/%" PRId64, step, run->last);
    snprintf(tail, sizeof tail, "loss %.4f, %.0f tokens/s, %.0f s left", result->loss,
             spent > 0 ? (double)run->tokens / spent : 0, spent / (double)done * (double)(total - done));
    cli_line_show(head, (double)done / (double)total, tail);
}

/* What a step takes, and what it would take in f32 and without recomputation. */
static pco_status train_describe_memory(const train_run *run, pco_error *err)
{
    pco_train_plan plan, kept = {0};
    const pco_train_config *config = &run->config;
    const int half = config->dtype != PCO_F32;
    pco_status status = pco_trainer_plan(run->trainer, config->recompute, config->dtype, &plan, err);
    if (!status && (half || config->recompute))
        status = pco_trainer_plan(run->trainer, PCO_RECOMPUTE_NONE, PCO_F32, &kept, err);
    if (status) return status;
    cli_note("memory      %.1f MiB of activations%s%s for %" PRId64 " x %" PRId64 " tokens",
             (double)plan.bytes / 1048576, half ? " in " : "", half ? pco_dtype_name(config->dtype) : "", plan.rows,
             plan.length);
    if (half || config->recompute)
        cli_note(", %.1f MiB%s%s", (double)kept.bytes / 1048576, half ? " in f32" : "",
                 config->recompute ? " without recomputation" : "");
    fputc('\n', stderr);
    return PCO_OK;
}

/* The devices of all ranks; collective. Prints the first few. */
static pco_status train_describe_ranks(const train_run *run, const pco_session *session, pco_error *err)
{
    enum { SHOWN = 16 };
    const uint32_t count = pco_ranks_count(run->ranks);
    char mine[PCO_RANKS_RECORD] = "", *all = malloc((size_t)count * sizeof mine);
    pco_status status = all ? PCO_OK : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    snprintf(mine, sizeof mine, "%.*s", (int)sizeof mine - 1, pco_session_device_id(session));
    status = pco_ranks_agree(run->ranks, status, 0, err);
    if (!status) status = pco_ranks_gather(run->ranks, mine, sizeof mine, all, err);
    if (!status && pco_ranks_rank(run->ranks) == 0) {
        cli_note("ranks       %u: ", count);
        for (uint32_t i = 0; i < count && i < SHOWN; i++) cli_note("%s%.63s", i ? ", " : "", all + i * sizeof mine);
        cli_note("%s%s\n", count > SHOWN ? ", ..." : "",
                 pco_trainer_mixed(run->trainer) ? "; they differ, so rank 0 makes the updates and sends the weights"
                                                 : "");
    }
    free(all);
    return status;
}

/* `elements`: of what is trained. */
static void train_describe_model(const train_run *run, int64_t elements)
{
    const pco_model_file *base = pco_trainer_base(run->trainer);
    const pco_adapter_params *lora = &run->config.lora.params;
    if (base)
        cli_note("model       %s, vocabulary of %" PRId64 " tokens\n", base->path, base->spec.vocab_size[PCO_DECODER]);
    if (base && lora->rank)
        cli_note("trained     %" PRId64 " parameters of adapters of rank %" PRId64 "\n", elements, lora->rank);
    else if (base)
        cli_note("trained     all %" PRId64 " parameters\n", elements);
    else
        cli_note("model       %" PRId64 " parameters, vocabulary of %u tokens\n", elements,
                 pco_data_vocabulary(pco_trainer_data(run->trainer), 1)->count);
}

static void train_describe(const train_run *run, const pco_session *session)
{
    static const char *const samples_of[] = {"windows", "pairs", "dates", "chats"};
    int64_t elements, left_out[2];
    const pco_data *data = pco_trainer_data(run->trainer);
    const int64_t samples = pco_data_samples(data, PCO_DATA_TRAIN, &left_out[0]),
                  held_out = pco_data_samples(data, PCO_DATA_HELD_OUT, &left_out[1]);
    const pco_train_config *config = &run->config;
    pco_trainer_parameters(run->trainer, &elements);
    cli_note("device      %s, %s\n", pco_session_device_id(session), pco_session_device(session)->name);
    train_describe_model(run, elements);
    if (config->data.kind == PCO_DATA_DATES)
        cli_note("data        dates made from seed %" PRIu64 ", %" PRId64 " held out\n", config->seed, held_out);
    else
        cli_note("data        %s: %" PRId64 " %s, %" PRId64 " held out\n", config->data.file, samples,
                 samples_of[config->data.kind], held_out);
    if (left_out[0] + left_out[1])
        cli_note("            %" PRId64 " %s are longer than %" PRId64 " tokens and left out\n",
                 left_out[0] + left_out[1], samples_of[config->data.kind], config->data.context);
    if (pco_trainer_unlocked(run->trainer)) cli_error("warning: %s", pco_trainer_unlocked(run->trainer));
    if (run->first) cli_note("resumed     after step %" PRId64 "\n", run->first);
}

static pco_status train_evaluate(train_run *run, double *loss, pco_error *err)
{
    int64_t tokens;
    const double begin = pco_seconds();
    pco_status status = pco_trainer_evaluate(run->trainer, loss, &tokens, err);
    run->evaluating += pco_seconds() - begin;
    if (status == PCO_ERROR_CANCELLED) { /* by a signal, while its executable was made: the run ends behind this step */
        *loss = NAN;
        return PCO_OK;
    }
    if (status || tokens == 0 || pco_ranks_rank(run->ranks) != 0) return status;
    cli_line_clear();
    cli_note("step %" PRId64 ": validation loss %.4f, perplexity %.3f, over %" PRId64 " tokens\n",
             pco_trainer_steps(run->trainer), *loss, exp(*loss), tokens);
    return PCO_OK;
}

static pco_status train_save(train_run *run, pco_error *err)
{
    const int64_t step = pco_trainer_steps(run->trainer);
    if (run->saved == step) return PCO_OK;
    pco_status status = pco_trainer_save(run->trainer, err);
    run->saved_at = pco_seconds();
    if (!status) run->saved = step;
    return status;
}

static int train_due(int64_t step, int64_t interval, int64_t last)
{
    return interval > 0 && (step % interval == 0 || step == last);
}

/* One update and what is due behind it. */
static pco_status train_step(train_run *run, pco_error *err)
{
    pco_train_result result;
    pco_status status = pco_trainer_step(run->trainer, &result, err);
    if (status) return status;
    const int64_t step = pco_trainer_steps(run->trainer);
    run->tokens += result.tokens;
    train_record record = {.step = step,
                           .tokens = result.tokens,
                           .loss = result.loss,
                           .learning_rate = result.learning_rate,
                           .grad_norm = result.grad_norm,
                           .seconds = pco_seconds() - run->begin,
                           .validation_loss = NAN,
                           .loss_scale = result.loss_scale};
    train_progress(run, &result);
    if (result.skipped && pco_ranks_rank(run->ranks) == 0) {
        cli_line_clear();
        cli_note("step %" PRId64 ": gradients overflow f16 with the loss times %.0f; nothing is updated\n", step,
                 result.loss_scale);
    }
    if (train_due(step, run->config.evaluation_interval, run->last))
        status = train_evaluate(run, &record.validation_loss, err);
    if (!status && !train_log_write(&run->log, &record)) { /* rank 0 has said why */
        status = PCO_ERROR_IO;
        err->message[0] = 0;
    }
    status = pco_ranks_agree(run->ranks, status, 0, err);
    if (!status && train_due(step, run->config.checkpoint_interval, run->last)) status = train_save(run, err);
    return status;
}

static void train_done(const train_run *run)
{
    const double spent = pco_seconds() - run->begin - run->evaluating;
    double summing, waiting;
    if (pco_ranks_rank(run->ranks) != 0) return;
    cli_note("done        %" PRId64 " steps, %" PRId64 " tokens, %.1f s, %.0f tokens/s, %u executables\n",
             pco_trainer_steps(run->trainer) - run->first, run->tokens, spent,
             spent > 0 ? (double)run->tokens / spent : 0, pco_trainer_executables(run->trainer));
    pco_ranks_times(run->ranks, &summing, &waiting);
    if (run->ranks)
        cli_note("ranks       %.2f s in sums over the ranks, of which the backward pass did not hide %.2f s\n", summing,
                 waiting);
    printf("%s\n", run->config.out);
}

/* What all ranks do next, by the largest of what each says: a signal, of whichever of them, ends the run; rank 0's
 * clock asks for a checkpoint. */
enum { TRAIN_GOES_ON, TRAIN_SAVES, TRAIN_ENDS /* and above: by the signal TRAIN_ENDS + N */ };

static pco_status train_ask(const train_run *run, int *next, pco_error *err)
{
    const double interval = run->config.checkpoint_seconds;
    const int due = pco_ranks_rank(run->ranks) == 0 && interval > 0 && pco_seconds() - run->saved_at >= interval;
    const int mine = cli_interrupted() ? TRAIN_ENDS + cli_interrupted() : due ? TRAIN_SAVES : TRAIN_GOES_ON;
    return pco_ranks_largest(run->ranks, mine, next, err);
}

/* Updates until the end, a signal or an error. */
static int train_loop(train_run *run)
{
    pco_error err = {""};
    int next;
    pco_status status = train_ask(run, &next, &err);
    while (!status && pco_trainer_steps(run->trainer) < run->last && next < TRAIN_ENDS) {
        if (next == TRAIN_SAVES) status = train_save(run, &err);
        if (!status) status = train_step(run, &err);
        if (status == PCO_ERROR_CANCELLED) status = PCO_OK; /* by a signal, before the update, which is not made */
        if (!status) status = train_ask(run, &next, &err);
    }
    const int64_t step = pco_trainer_steps(run->trainer);
    const int interrupted = next >= TRAIN_ENDS && step < run->last;
    if (!status && !(interrupted && step == run->first)) status = train_save(run, &err);
    cli_line_clear();
    if (status) return cli_ranks_fail(run->ranks, &err);
    if (interrupted && pco_ranks_rank(run->ranks) == 0) {
        cli_note("interrupted after step %" PRId64, step);
        fputs(step == run->first ? ", where it began\n" : ", which is saved; --resume goes on\n", stderr);
    }
    train_done(run);
    return interrupted ? 128 + next - TRAIN_ENDS : CLI_OK;
}

static int train_on(train_run *run, pco_session *session)
{
    pco_error err = {""};
    const train_arguments *a = run->arguments;
    const pco_train_resume resume = a->changed  ? PCO_TRAIN_RESUME_CHANGED
                                    : a->resume ? PCO_TRAIN_RESUME
                                                : PCO_TRAIN_NEW;
    const int first = pco_ranks_rank(run->ranks) == 0;
    pco_status status = pco_trainer_create_ranks(session, &run->config, run->ranks, resume, &run->trainer, &err);
    if (status) return cli_ranks_fail(run->ranks, &err);
    run->first = run->saved = pco_trainer_steps(run->trainer);
    if (!a->resume) run->saved = -1;
    run->last = a->steps >= 0 ? a->steps : run->config.steps;
    if (first && !train_log_open(&run->log, a->log, a->resume ? run->first : -1, run->config.dtype == PCO_F16))
        status = PCO_ERROR_IO;
    err.message[0] = 0;
    status = pco_ranks_agree(run->ranks, status, 0, &err);
    if (status) return cli_ranks_fail(run->ranks, &err);
    if (first) train_describe(run, session);
    status = first ? train_describe_memory(run, &err) : PCO_OK;
    status = pco_ranks_agree(run->ranks, status, 0, &err);
    if (!status && run->ranks) status = train_describe_ranks(run, session, &err);
    if (status) return cli_ranks_fail(run->ranks, &err);
    if (first && run->first >= run->last && a->resume)
        cli_note("nothing to do: step %" PRId64 " was reached before\n", run->first);
    run->begin = run->saved_at = pco_seconds();
    return train_loop(run);
}

/* What it ends in says how it is written. */
static int train_log_name(void *arguments, const char *option, const char *value)
{
    (void)option;
    ((train_arguments *)arguments)->log = value;
    return train_log_check(value);
}

static const cli_option TRAIN_OPTIONS[] = {
    {CLI_OPERAND("a config", train_arguments, config)},
    {CLI_WHOLE("--steps", train_arguments, steps, 0, INT32_MAX)},
    {CLI_TEXT("--device", train_arguments, device), .traits = CLI_MAY_BE_EMPTY},
    {CLI_TEXT("--from", train_arguments, overrides.from)},
    {CLI_TEXT("--out", train_arguments, overrides.out)},
    {CLI_TEXT("--data", train_arguments, overrides.data_file)},
    {CLI_READ("--log", train_log_name)},
    {CLI_FLAG("--resume", train_arguments, resume)},
    {CLI_FLAG("--changed-data", train_arguments, changed)},
    {CLI_WHOLE("--seed", train_arguments, overrides.seed, 0, INT64_C(1) << 53)},
};

static int train_parse(int argc, char **argv, train_arguments *a)
{
    a->overrides.seed = -1;
    a->steps = -1;
    if (cli_parse(&cli_train, argc, argv, a, NULL)) return CLI_USAGE;
    if (a->changed && !a->resume) {
        cli_error("train: --changed-data is for --resume");
        return CLI_USAGE;
    }
    return CLI_OK;
}

/* Several ranks: the first whose arguments are wrong says so, alone. Rank 0's --steps, --resume and --log
 * count. */
static int train_parse_ranks(int argc, char **argv, pco_ranks *ranks, train_arguments *a)
{
    const int err = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) dup2(null, STDERR_FILENO);
    unsigned char wrong = train_parse(argc, argv, a) != CLI_OK, *all = malloc(pco_ranks_count(ranks));
    if (err >= 0) dup2(err, STDERR_FILENO);
    if (err >= 0) close(err);
    if (null >= 0) close(null);
    pco_error lost = {""};
    struct {
        int64_t steps;
        int32_t resume, log;
    } first = {a->steps, a->resume, a->log != NULL};
    pco_status status = all ? pco_ranks_gather(ranks, &wrong, 1, all, &lost) : PCO_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t rank = 0;
    while (!status && rank < pco_ranks_count(ranks) && !all[rank]) rank++;
    free(all);
    if (!status && rank < pco_ranks_count(ranks)) {
        *a = (train_arguments){0};
        if (rank == pco_ranks_rank(ranks)) (void)train_parse(argc, argv, a);
        return CLI_USAGE;
    }
    if (!status) status = pco_ranks_broadcast(ranks, 0, &first, sizeof first, &lost);
    if (status) return cli_ranks_fail(ranks, &lost);
    a->steps = first.steps;
    a->resume = first.resume;
    if (!first.log) a->log = NULL;
    return CLI_OK;
}

static void train_rank_log(void *user, pco_log_level level, const char *line)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    cli_note("portico: %s: rank %u: %s\n", names[level], pco_ranks_rank(user), line);
}

/* Registry and session of one of several ranks: all errors are for pco_ranks_agree. */
static pco_status train_open_rank(const train_run *run, pco_registry **registry, pco_session **session, pco_error *err)
{
    pco_config config;
    char *device = NULL;
    pco_status status = pco_config_read(&config, err);
    config.log_fn = train_rank_log;
    config.log_user = run->ranks;
    config.interrupted = cli_interrupted_flag();
    const char *list = run->arguments->device ? run->arguments->device : config.backend;
    if (!status) status = cli_ranks_device(list, pco_ranks_rank(run->ranks), &device, err);
    if (!status) status = pco_registry_create(&config, registry, err);
    if (!status) status = pco_registry_open(*registry, *device ? device : NULL, session, err);
    free(device);
    return status;
}

/* Sets *status when it fails. */
static int train_open(train_run *run, pco_registry **registry, pco_session **session, int *status)
{
    pco_error err = {""};
    char *device = NULL;
    if (run->ranks) {
        pco_status opened = train_open_rank(run, registry, session, &err);
        cli_keep_signals();
        if (pco_ranks_agree(run->ranks, opened, 0, &err)) *status = cli_ranks_fail(run->ranks, &err);
        return *status == CLI_OK;
    }
    *registry = cli_registry(run->arguments->device, status);
    if (!*registry) return 0;
    const char *list = run->arguments->device ? run->arguments->device : pco_registry_config(*registry)->backend;
    if (cli_ranks_device(list, 0, &device, &err))
        *status = cli_fail(&err);
    else if (cli_check_device(*registry, device, status) && pco_registry_open(*registry, device, session, &err))
        *status = cli_fail(&err);
    free(device);
    return *status == CLI_OK;
}

static int train_run_command(int argc, char **argv)
{
    train_arguments arguments = {0};
    train_run run = {.arguments = &arguments};
    pco_registry *registry = NULL;
    pco_session *session = NULL;
    pco_error err = {""};
    int status = CLI_OK;
    cli_watch_signals();
    if (cli_ranks_open(&run.ranks, &err)) {
        if (*err.message) cli_error("%s", err.message);
        return CLI_FAILED;
    }
    status = run.ranks ? train_parse_ranks(argc, argv, run.ranks, &arguments) : train_parse(argc, argv, &arguments);
    if (status == CLI_OK) {
        pco_status loaded = pco_train_config_load(arguments.config, &arguments.overrides, &run.config, &err);
        if (pco_ranks_agree(run.ranks, loaded, 0, &err)) status = cli_ranks_fail(run.ranks, &err);
    }
    if (status == CLI_OK && train_open(&run, &registry, &session, &status)) status = train_on(&run, session);
    if (status == CLI_FAILED && run.begin <= 0) status = cli_exit_status(status); /* nothing was begun */
    train_log_close(&run.log);
    pco_trainer_destroy(run.trainer);
    pco_session_close(session);
    pco_registry_destroy(registry);
    pco_train_config_release(&run.config);
    cli_ranks_close(run.ranks);
    return status;
}

const cli_command cli_train = {
    .name = "train",
    .summary = "trains a model, from nothing or further, on any device",
    .help =
        "usage: portico train CONFIG.json [--steps N] [--device D] [--out DIR] [--data FILE] [--log FILE]\n"
        "                     [--from MODEL] [--resume [--changed-data]] [--seed S]\n\n"
        "The config names the model, the data, the optimiser and the schedule (docs/training.md). DIR "
        "receives\n"
        "checkpoint.safetensors (weights, optimiser, step), config.json and model.safetensors: it is a model "
        "for\n"
        "portico run, eval and inspect. With \"from\" in the config a model is trained further, which becomes\n"
        "model.gguf; with \"lora\" DIR is an adapter for --adapter of run, chat, eval, embed and convert. A checkpoint "
        "is whole or not there; a run that ends at any moment "
        "loses\n"
        "the steps since the last one. stdout carries the name of the folder, stderr everything else.\n\n"
        "  --steps N     stop after update N, counted from the start of the run; the schedule stays as it "
        "is\n"
        "                (default: what the config says)\n"
        "  --device D    as PORTICO_BACKEND, and before it; with slashes a list by rank\n"
        "  --from MODEL  another model to go on with than the config's \"from\"\n"
        "  --out DIR     another folder than the config's \"out\"\n"
        "  --data FILE   another file than the config's\n"
        "  --log FILE    a record for each step: .csv or .jsonl\n"
        "  --resume      continue from the checkpoint in DIR, bit by bit as if the run had not stopped; the\n"
        "                log is continued, too; a file of data that has changed since is refused\n"
        "  --changed-data\n"
        "                with --resume: go on with the changed file, if its vocabulary is the same\n"
        "  --seed S      another seed than the config's\n\n"
        "mpirun -n N portico train ... trains on N machines or devices at once: each rank takes its share of "
        "every\n"
        "batch (docs/many_machines.md), and a device by its rank: --device cpu/opencl:pocl/vulkan.\n\n"
        "Ctrl-C, SIGTERM and SIGHUP (a closed terminal) end the run after a checkpoint, and every ten minutes there\n"
        "is one (\"checkpoint_seconds\"). Exit status: 0 done, 1 failed, 2 wrong usage, 128 + N ended by signal N.\n",
    CLI_OPTIONS(TRAIN_OPTIONS),
    .run = train_run_command,
};
