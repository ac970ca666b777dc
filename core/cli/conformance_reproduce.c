#include "cli/conformance_reproduce.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* A driver may hang while it compiles, too. */
enum { PATIENCE_SECONDS = 300 };

void conformance_reproducer_folder(const conformance_reproducers *wanted, const char *device, char *path,
                                   size_t size)
{
    snprintf(path, size, "%s%s%s", wanted->folder, wanted->several ? "/" : "", wanted->several ? device : "");
    for (char *at = path + strlen(wanted->folder); *at; at++)
        if (*at == ':') *at = '-';
}

/* Waits for a child; 1 when it ended well in time. */
static int reproduce_wait(pid_t child)
{
    int state = 0;
    for (double start = cli_seconds(); cli_seconds() - start < PATIENCE_SECONDS;) {
        const struct timespec nap = {.tv_nsec = 20000000};
        pid_t ended = waitpid(child, &state, WNOHANG);
        if (ended == child) return WIFEXITED(state) && WEXITSTATUS(state) == CLI_OK;
        if (ended < 0) return 0;
        nanosleep(&nap, NULL);
    }
    kill(child, SIGKILL);
    waitpid(child, &state, 0);
    return 0;
}

/* In a process of its own: preparing may crash, and running may do so this time. */
static int reproduce_apart(const char *folder, const pco_conformance_device *device,
                           const pco_conformance_case *one, pco_conformance_tier tier, const char *how)
{
    char id[16], seed[32];
    const char *words[] = {
        "portico",   "conformance", "--devices",     device->id, "--tier", pco_conformance_tier_name(tier),
        "--ops",     one->op_name,  "--seed",        seed,       "--case", id,
        "--variant", one->variant,  "--reproducers", folder,     "--here", how,
        NULL};
    pid_t child;
    snprintf(id, sizeof id, "%08x", one->id);
    snprintf(seed, sizeof seed, "%" PRIu64, one->seed);
    fflush(NULL);
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, (char **)(uintptr_t)words, environ)) return 0;
    return reproduce_wait(child);
}

static int reproduce_one(const conformance_reproducers *wanted, const pco_conformance_device *device,
                         const pco_conformance_case *one, pco_conformance_tier tier)
{
    char name[256], folder[600], path[1024];
    pco_error err = {""};
    const int gone =
        one->state == PCO_CASE_CRASHED || one->state == PCO_CASE_HUNG || one->state == PCO_CASE_DEVICE_LOST;
    conformance_reproducer_folder(wanted, device->id, folder, sizeof folder);
    if (reproduce_apart(folder, device, one, tier, gone ? "--no-run" : wanted->always ? "--always" : NULL))
        return 1;
    pco_conformance_reproducer_name(one, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    pco_status status =
        pco_conformance_write_reproducer(device, tier, one, PCO_REPRODUCER_NO_DEVICE, path, &err);
    if (status) cli_error("%s: %s", path, err.message);
    return status == PCO_OK;
}

int conformance_reproduce(const conformance_reproducers *wanted, const pco_conformance_device *device,
                          const pco_conformance_result *result)
{
    uint32_t written = 0, due = 0;
    const uint32_t most = wanted->most ? wanted->most : UINT32_MAX;
    if (!wanted->folder) return 1;
    for (uint32_t i = 0; i < result->n_cases; i++) {
        const pco_conformance_case *one = &result->cases[i];
        int bad = pco_conformance_state_is_bad(one->state);
        if (!bad && !(wanted->always && pco_conformance_state_is_judged(one->state))) continue;
        if (due++ >= most) continue;
        written += reproduce_one(wanted, device, one, result->tier) ? 1 : 0;
    }
    if (due)
        fprintf(stderr, "%s: %u of %u reproducers written to %s\n", device->id, written, due, wanted->folder);
    return written == (due < most ? due : most);
}

int conformance_reproduce_here(const conformance_reproducers *wanted, const pco_conformance_device *device,
                               const pco_conformance_options *options)
{
    char name[256], folder[600], path[1024];
    pco_error err = {""};
    const uint32_t flags = wanted->no_run   ? PCO_REPRODUCER_NO_RUN
                           : wanted->always ? PCO_REPRODUCER_ALWAYS
                                            : 0;
    pco_conformance_case one = {.id = options->case_id,
                                .op_name = options->ops,
                                .variant = options->variant,
                                .seed = options->seed,
                                .detail = "not run here: a run crashed, hung or lost the device"};
    pco_conformance_reproducer_name(&one, name, sizeof name);
    conformance_reproducer_folder(wanted, device->id, folder, sizeof folder);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!pco_conformance_write_reproducer(device, options->tier, &one, flags, path, &err)) return 1;
    cli_error("%s: %s", path, err.message);
    return 0;
}
