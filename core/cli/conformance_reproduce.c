#include "cli/conformance_reproduce.h"

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/conformance_worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Opening the device, writing and a machine that is busy take a while however short the limit of a case is. */
enum { LEAST_SECONDS = 10 };

void conformance_reproducer_folder(const conformance_reproducers *wanted, const char *device, char *path, size_t size)
{
    snprintf(path, size, "%s%s%s", wanted->folder, wanted->several ? "/" : "", wanted->several ? device : "");
    for (char *at = path + strlen(wanted->folder); *at; at++)
        if (*at == ':') *at = '-';
}

static int reproduce_is_gone(const pco_conformance_case *one)
{
    return one->state == PCO_CASE_CRASHED || one->state == PCO_CASE_HUNG || one->state == PCO_CASE_DEVICE_LOST;
}

/* The case may be run three times: as it was, again when it was wrong, and to find the run that shows it. */
static double reproduce_limit(const conformance_reproducers *wanted, const pco_conformance_case *one,
                              pco_conformance_tier tier)
{
    double limit = conformance_timeout(wanted->timeout, tier);
    if (limit < LEAST_SECONDS) limit = LEAST_SECONDS;
    return reproduce_is_gone(one) ? limit : limit + 3 * one->seconds;
}

/* In a process of its own: preparing may crash, and running may do so this time. */
static int reproduce_apart(const conformance_reproducers *wanted, const char *folder,
                           const pco_conformance_device *device, const pco_conformance_case *one,
                           const pco_conformance_options *options, const char *found, cli_child *child)
{
    char id[16], seed[32];
    const char *variant = one->variant[0] ? one->variant : "*"; /* none: a case that was refused */
    const char *how = reproduce_is_gone(one) ? "--no-run" : wanted->always ? "--always" : NULL;
    const char *words[] = {"portico",   "conformance", "--devices",
                           device->id,  "--tier",      pco_conformance_tier_name(options->tier),
                           "--ops",     one->op_name,  "--seed",
                           seed,        "--case",      id,
                           "--variant", variant,       "--reproducers",
                           folder,      "--here",      "--found",
                           found,       NULL,          NULL,
                           NULL,        NULL};
    size_t n = 0;
    while (words[n]) n++;
    if (options->own_from) words[n++] = "--ops-from", words[n++] = options->own_from;
    if (how) words[n++] = how;
    snprintf(id, sizeof id, "%08x", one->id);
    snprintf(seed, sizeof seed, "%" PRIu64, one->seed);
    return cli_child_run(words, reproduce_limit(wanted, one, options->tier), NULL, child);
}

typedef enum reproduce_end { REPRODUCE_FAILED, REPRODUCE_WRITTEN, REPRODUCE_TOO_LARGE } reproduce_end;

static reproduce_end reproduce_one(const conformance_reproducers *wanted, const pco_conformance_device *device,
                                   const pco_conformance_case *one, const pco_conformance_options *options)
{
    char name[256], folder[600], path[1024], how[400], found[600];
    pco_error err = {""};
    cli_child child;
    pco_conformance_case told = *one;
    /* a crash, a hang, a loss: which of them is said before how it was seen */
    snprintf(found, sizeof found, "%s%s%s", reproduce_is_gone(one) ? pco_conformance_state_name(one->state) : "",
             reproduce_is_gone(one) ? ": " : "", one->detail);
    conformance_reproducer_folder(wanted, device->id, folder, sizeof folder);
    if (!reproduce_apart(wanted, folder, device, one, options, found, &child)) return REPRODUCE_FAILED;
    if (child.exited && child.status == CLI_OK) return REPRODUCE_WRITTEN;
    if (child.exited && child.status == CONFORMANCE_TOO_LARGE) return REPRODUCE_TOO_LARGE;
    pco_conformance_reproducer_name(one, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    cli_child_describe(&child, how, sizeof how);
    snprintf(told.detail, sizeof told.detail, "%.290s%s%.160s", found,
             child.exited             ? ""
             : reproduce_is_gone(one) ? "; for this folder it was only prepared: "
                                      : "; for this folder it was run again: ",
             child.exited ? "" : how);
    if (!child.exited)
        cli_note("%s: %s #%08x [%s]: %s while its reproducer was made: it has no kernels and no program\n", device->id,
                 one->op_name, one->id, one->variant, how);
    pco_status status = pco_conformance_write_reproducer(device, options, &told, PCO_REPRODUCER_NO_DEVICE, path, &err);
    if (status) cli_error("%s: %s", path, err.message);
    return status == PCO_OK                  ? REPRODUCE_WRITTEN
           : status == PCO_ERROR_UNSUPPORTED ? REPRODUCE_TOO_LARGE
                                             : REPRODUCE_FAILED;
}

int conformance_reproduce(const conformance_reproducers *wanted, const pco_conformance_device *device,
                          const pco_conformance_options *options, const pco_conformance_result *result)
{
    uint32_t ends[3] = {0}, due = 0;
    const uint32_t most = wanted->most ? wanted->most : UINT32_MAX;
    if (!wanted->folder) return 1;
    for (uint32_t i = 0; i < result->n_cases; i++) {
        const pco_conformance_case *one = &result->cases[i];
        int bad = pco_conformance_state_is_bad(one->state) && !pco_conformance_is_given_up(one);
        if (!bad && !(wanted->always && pco_conformance_state_is_judged(one->state))) continue;
        if (due++ >= most) continue;
        ends[reproduce_one(wanted, device, one, options)]++;
    }
    if (due)
        cli_note("%s: %u of %u reproducers written to %s\n", device->id, ends[REPRODUCE_WRITTEN], due, wanted->folder);
    if (ends[REPRODUCE_TOO_LARGE])
        cli_note("%s: %u cases have no reproducer: too large; their commands repeat them\n", device->id,
                 ends[REPRODUCE_TOO_LARGE]);
    return ends[REPRODUCE_FAILED] == 0;
}

pco_status conformance_reproduce_here(const conformance_reproducers *wanted, const pco_conformance_device *device,
                                      const pco_conformance_options *options)
{
    char name[256], folder[600], path[1024];
    pco_error err = {""};
    const uint32_t flags = wanted->no_run ? PCO_REPRODUCER_NO_RUN : wanted->always ? PCO_REPRODUCER_ALWAYS : 0;
    pco_conformance_case one = {.id = options->case_id,
                                .op_name = options->ops,
                                .variant = options->variant,
                                .seed = options->seed,
                                .detail = "nothing yet: the case was not run"};
    if (wanted->found) snprintf(one.detail, sizeof one.detail, "%s", wanted->found);
    pco_conformance_reproducer_name(&one, name, sizeof name);
    conformance_reproducer_folder(wanted, device->id, folder, sizeof folder);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    pco_status status = pco_conformance_write_reproducer(device, options, &one, flags, path, &err);
    if (status) cli_error("%s: %s", path, err.message);
    return status;
}
