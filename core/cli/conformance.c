/* portico conformance: which operation is wrong on a device, by how much, and how to see it again. */
#include "cli/child.h"
#include "cli/conformance_parts.h"

#include "base/file.h"

#include <stdlib.h>

/* Has one of the devices such cases at all? */
static int conformance_has_cases(const conformance_arguments *arguments, const pco_registry *registry,
                                 const uint32_t *indices, uint32_t count)
{
    const pco_conformance_options *options = &arguments->options;
    const pco_device_entry *entries;
    char scope[PCO_CONFORMANCE_SCOPE_TEXT];
    pco_registry_devices(registry, &entries);
    for (uint32_t i = 0; i < count; i++)
        if (pco_conformance_count(options, &entries[indices[i]].info)) return 1;
    cli_error("no case matches: tier %s, ops '%s', case %x",
              pco_conformance_scope(options->tier, options->slice, scope), options->ops ? options->ops : "*",
              options->case_id);
    return 0;
}

/* Runs on the devices that were chosen. */
static int conformance_start(const conformance_arguments *arguments)
{
    int status = CLI_OK;
    pco_registry *registry = cli_registry(arguments->devices, &status);
    if (!registry) return status;
    uint32_t *indices, count = cli_select_devices(registry, arguments->devices, &indices, &status);
    pco_error err;
    if (!count && status == CLI_OK) status = CLI_USAGE; /* nothing was tested */
    if (count > 1 && arguments->reproducers.here) {
        cli_error("conformance: --no-run prepares a case on one device, and --devices names %u", count);
        status = CLI_USAGE;
    } else if (count && !arguments->probe && !conformance_has_cases(arguments, registry, indices, count)) {
        status = CLI_USAGE;
    } else if (count && arguments->options.code && pco_folder_make(arguments->options.code, &err)) {
        status = cli_fail(&err);
    } else if (count) {
        status = conformance_devices(arguments, registry, indices, count);
    }
    free(indices);
    pco_registry_destroy(registry);
    return status;
}

int conformance_do(conformance_arguments *arguments, int argc, char **argv)
{
    if (arguments->worker) return conformance_worker(arguments);
    if (arguments->bisect.child || arguments->reproducers.here) cli_child_begin();
    if (arguments->bisect.model) {
        arguments->bisect.devices = arguments->devices;
        arguments->bisect.reproducers = &arguments->reproducers;
        arguments->bisect.timeout = arguments->timeout;
        arguments->bisect.in_process = arguments->in_process;
        return conformance_bisect(&arguments->bisect);
    }
    arguments->report.json = arguments->json;
    cli_report_command(&arguments->report, argc, argv);
    const cli_report_rerun rerun = {arguments->devices, arguments->options.seed, arguments->timeout,
                                    arguments->in_process};
    int status = cli_report_begin(&arguments->report);
    if (status == CLI_OK)
        status =
            arguments->report.verify ? cli_report_verify(&arguments->report, &rerun) : conformance_start(arguments);
    cli_report_clear(&arguments->report);
    return status;
}
