/* portico devices: plugins and what they offer. */
#include "cli/cli.h"

#include "base/dtype.h"
#include "formats/json.h"
#include "runtime/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES_COLUMN = 16 };

static void devices_row(const char *label, const char *text)
{
    if (!*text) return;
    printf("  %-*s", DEVICES_COLUMN - 2, label);
    cli_wrap(text, DEVICES_COLUMN, DEVICES_COLUMN);
}

/* A limit beyond any machine is none. */
static const char *devices_limit(uint64_t bytes, char *text)
{
    return bytes >> 50 ? "unlimited" : cli_bytes(bytes, text);
}

static void devices_limits(const pco_device_info *info)
{
    char text[512], a[32], b[32], c[32];
    size_t used = 0;
    devices_row("memory", info->memory ? cli_bytes(info->memory, a) : "unknown");
    cli_append(text, sizeof text, &used, "allocation %s, binding %s, alignment %u B",
               devices_limit(info->max_allocation, a), devices_limit(info->max_binding, b), info->buffer_alignment);
    cli_append(text, sizeof text, &used, info->type == PCO_DEVICE_CPU ? ", %u threads" : ", workgroup %u",
               info->max_workgroup);
    if (info->shared_memory)
        cli_append(text, sizeof text, &used, ", shared memory %s", cli_bytes(info->shared_memory, c));
    if (info->subgroup_max) {
        if (info->subgroup_min == info->subgroup_max)
            cli_append(text, sizeof text, &used, ", subgroups of %u", info->subgroup_max);
        else
            cli_append(text, sizeof text, &used, ", subgroups of %u to %u", info->subgroup_min, info->subgroup_max);
    }
    devices_row("limits", text);
}

static void devices_features(const pco_device_info *info)
{
    char text[512] = "none";
    size_t used = 0;
    for (int i = 0; i < PCO_N_FEATURE_WORDS; i++)
        if (info->features & PCO_FEATURE_WORDS[i].bit)
            cli_append(text, sizeof text, &used, "%s%s", used ? ", " : "", PCO_FEATURE_WORDS[i].name);
    devices_row("features", text);
    devices_row("not in build", info->not_in_build);
}

static void devices_contract(const pco_contract *c)
{
    char text[512];
    size_t used = 0;
    cli_append(text, sizeof text, &used, "sums of f32 in %s, f16 in %s, bf16 in %s; functions in %s",
               pco_accumulator_word(c->accumulate_f32), pco_accumulator_word(c->accumulate_f16),
               pco_accumulator_word(c->accumulate_bf16), pco_accumulator_word(c->compute));
    cli_append(text, sizeof text, &used, "; + - * %s",
               c->round_to_nearest ? "rounded to nearest" : "rounded to either neighbour");
    cli_append(text, sizeof text, &used, ", division %g ulp, sqrt %g ulp, rsqrt %g ulp, functions %g ulp",
               (double)c->div_ulp, (double)c->sqrt_ulp, (double)c->rsqrt_ulp, (double)c->function_ulp);
    cli_append(text, sizeof text, &used, "; subnormals %s; a*b+c %s; NaN and infinity %s",
               c->subnormals ? "kept" : "may be flushed", c->contraction ? "may be rounded once" : "is rounded twice",
               c->nan_inf ? "as IEEE 754" : "not promised");
    devices_row("numbers", text);
}

static void devices_print(const pco_device_entry *device, const char *chosen)
{
    const pco_device_info *info = &device->info;
    printf("%s%s\n", device->id, chosen);
    devices_row("name", info->name);
    devices_row("type", pco_device_type_word(info->type));
    devices_row("driver", info->driver);
    devices_row("platform", info->platform);
    devices_row("aliases", info->aliases);
    devices_limits(info);
    devices_features(info);
    devices_contract(&info->contract);
    putchar('\n');
}

static void devices_plugins(const pco_registry *registry)
{
    const pco_plugin_entry *plugins;
    uint32_t count = pco_registry_plugins(registry, &plugins);
    printf(count ? "plugins\n" : "No plugin was found: see PORTICO_PLUGIN_PATH in portico --help.\n");
    for (uint32_t i = 0; i < count; i++) {
        const pco_plugin_entry *p = &plugins[i];
        const char *slash = strrchr(p->path, '/');
        if (p->plugin)
            printf("  %s %s, %u device%s: %s\n    %s\n", p->name, p->plugin->version, p->n_devices,
                   p->n_devices == 1 ? "" : "s", p->plugin->description, p->path);
        else
            printf("  %s: cannot be used\n    %s\n", *p->name ? p->name : slash ? slash + 1 : p->path, p->path);
        if (!p->plugin && *p->reason) {
            printf("    ");
            cli_wrap(p->reason, 4, 4);
        }
    }
}

static void devices_json_text(pco_json_writer *json, const char *key, const char *text)
{
    pco_json_key(json, key);
    pco_json_write_string(json, text);
}

static void devices_json_uint(pco_json_writer *json, const char *key, uint64_t value)
{
    pco_json_key(json, key);
    pco_json_write_uint(json, value);
}

static void devices_json_contract(pco_json_writer *json, const pco_contract *c)
{
    static const char *const flags[] = {"round_to_nearest", "subnormals", "contraction", "nan_inf"};
    static const char *const figures[] = {"div_ulp", "sqrt_ulp", "rsqrt_ulp", "function_ulp"};
    const uint32_t flag_values[] = {c->round_to_nearest, c->subnormals, c->contraction, c->nan_inf};
    const float figure_values[] = {c->div_ulp, c->sqrt_ulp, c->rsqrt_ulp, c->function_ulp};
    pco_json_key(json, "contract");
    pco_json_begin_object(json);
    devices_json_text(json, "accumulate_f32", pco_accumulator_word(c->accumulate_f32));
    devices_json_text(json, "accumulate_f16", pco_accumulator_word(c->accumulate_f16));
    devices_json_text(json, "accumulate_bf16", pco_accumulator_word(c->accumulate_bf16));
    devices_json_text(json, "compute", pco_accumulator_word(c->compute));
    for (int i = 0; i < 4; i++) {
        pco_json_key(json, flags[i]);
        pco_json_write_bool(json, flag_values[i] != 0);
    }
    for (int i = 0; i < 4; i++) {
        pco_json_key(json, figures[i]);
        pco_json_write_number(json, (double)figure_values[i]);
    }
    pco_json_end_object(json);
}

static void devices_json_device(pco_json_writer *json, const pco_device_entry *device, int chosen)
{
    const pco_device_info *info = &device->info;
    pco_json_begin_object(json);
    devices_json_text(json, "id", device->id);
    pco_json_key(json, "chosen");
    pco_json_write_bool(json, chosen);
    devices_json_text(json, "name", info->name);
    devices_json_text(json, "driver", info->driver);
    devices_json_text(json, "platform", info->platform);
    devices_json_text(json, "aliases", info->aliases);
    devices_json_text(json, "type", pco_device_type_word(info->type));
    devices_json_uint(json, "memory", info->memory);
    devices_json_uint(json, "max_allocation", info->max_allocation);
    devices_json_uint(json, "max_binding", info->max_binding);
    devices_json_uint(json, "buffer_alignment", info->buffer_alignment);
    devices_json_uint(json, "max_workgroup", info->max_workgroup);
    devices_json_uint(json, "shared_memory", info->shared_memory);
    devices_json_uint(json, "subgroup_min", info->subgroup_min);
    devices_json_uint(json, "subgroup_max", info->subgroup_max);
    pco_json_key(json, "features");
    pco_json_begin_array(json);
    for (int i = 0; i < PCO_N_FEATURE_WORDS; i++)
        if (info->features & PCO_FEATURE_WORDS[i].bit) pco_json_write_string(json, PCO_FEATURE_WORDS[i].name);
    pco_json_end_array(json);
    devices_json_text(json, "not_in_build", info->not_in_build);
    devices_json_contract(json, &info->contract);
    pco_json_end_object(json);
}

static int devices_has(const pco_device_set *set, uint32_t index)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->devices[i] == index) return 1;
    return 0;
}

/* Several that are used together, as the programs that run models show them. */
static void devices_together(const pco_registry *registry, const pco_device_set *set)
{
    pco_device_entry whole;
    char bytes[32];
    if (set->count < 2) return;
    pco_registry_describe_set(registry, set, &whole);
    printf("%s  (chosen by PORTICO_BACKEND)\n", whole.id);
    devices_row("name", whole.info.name);
    devices_row("memory", whole.info.memory ? cli_bytes(whole.info.memory, bytes) : "unknown");
    putchar('\n');
}

static int devices_json(const pco_registry *registry, const pco_device_set *chosen)
{
    const pco_plugin_entry *plugins;
    const pco_device_entry *devices;
    uint32_t n_plugins = pco_registry_plugins(registry, &plugins), n = pco_registry_devices(registry, &devices);
    pco_writer text = {0};
    pco_json_writer json = {.out = &text, .indent = 2};
    pco_json_begin_object(&json);
    pco_json_key(&json, "plugins");
    pco_json_begin_array(&json);
    for (uint32_t i = 0; i < n_plugins; i++) {
        pco_json_begin_object(&json);
        devices_json_text(&json, "path", plugins[i].path);
        devices_json_text(&json, "name", plugins[i].name);
        devices_json_text(&json, "version", plugins[i].plugin ? plugins[i].plugin->version : "");
        devices_json_text(&json, "reason", plugins[i].reason);
        devices_json_uint(&json, "devices", plugins[i].n_devices);
        pco_json_end_object(&json);
    }
    pco_json_end_array(&json);
    pco_json_key(&json, "devices");
    pco_json_begin_array(&json);
    for (uint32_t i = 0; i < n; i++) devices_json_device(&json, &devices[i], devices_has(chosen, i));
    pco_json_end_array(&json);
    pco_json_end_object(&json);
    return cli_print(&text);
}

typedef struct devices_arguments {
    int json;
} devices_arguments;

static const cli_option DEVICES_OPTIONS[] = {{CLI_FLAG("--json", devices_arguments, json)}};

static int devices_run(int argc, char **argv)
{
    devices_arguments arguments = {0};
    int status = cli_parse(&cli_devices, argc, argv, &arguments, NULL);
    if (status) return status;
    pco_registry *registry = cli_registry("all", &status);
    if (!registry) return status;
    const pco_device_entry *devices;
    uint32_t count = pco_registry_devices(registry, &devices), matching;
    pco_device_set chosen = {0};
    const char *asked = pco_registry_config(registry)->backend;
    pco_error err = {""};
    /* The list is printed whether or not PORTICO_BACKEND matches: it is what one looks at then. */
    if (pco_registry_select_sets(registry, asked, &chosen, 1, &matching, &err)) {
        chosen.count = 0;
        if (*asked) {
            cli_error("PORTICO_BACKEND: %s", err.message);
            status = CLI_USAGE;
        }
    }
    if (arguments.json) {
        const int printed = devices_json(registry, &chosen);
        if (printed) status = printed;
    } else {
        for (uint32_t i = 0; i < count; i++)
            devices_print(&devices[i], !devices_has(&chosen, i) ? ""
                                       : chosen.count > 1       ? "  (one of those chosen by PORTICO_BACKEND)"
                                       : *asked                 ? "  (chosen by PORTICO_BACKEND)"
                                                                : "  (the default)");
        devices_together(registry, &chosen);
        devices_plugins(registry);
    }
    pco_registry_destroy(registry);
    return status;
}

const cli_command cli_devices = {
    .name = "devices",
    .summary = "devices and plugins that were found",
    .help = "usage: portico devices [--json]\n\n"
            "Lists every device with its limits, features and numeric contract (what the conformance suite\n"
            "holds it to), and every plugin, also those that cannot be used, with the reason. The device\n"
            "that PORTICO_BACKEND chooses, or that is used when nothing is said, is marked. `id` is what\n"
            "--device and PORTICO_BACKEND take; so are parts of a name: vulkan:radeon, opencl:pocl.\n"
            "Devices joined with + are used together: vulkan:0+cpu:native.\n\n"
            "  --json   one object with `plugins` and `devices`, sizes in bytes\n\n"
            "Exit status: 0 done, 2 PORTICO_BACKEND matches no device.\n",
    CLI_OPTIONS(DEVICES_OPTIONS),
    .run = devices_run,
};
