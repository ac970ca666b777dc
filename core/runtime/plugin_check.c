#include "runtime/plugin_check.h"

#include "base/dtype.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { CHECK_MOST_ALIGNMENT = 1 << 20 };

/* ---- the tables ---- */

typedef struct check_function {
    const char *name;
    size_t offset;
    int may_be_null;
} check_function;

typedef struct check_table {
    const char *name;
    size_t size; /* in this host's header */
    const check_function *functions;
    size_t count;
} check_table;

#define CHECK_MUST(table, member) \
    { \
#member, offsetof(table, member), 0 \
    }
#define CHECK_MAY(table, member) \
    { \
#member, offsetof(table, member), 1 \
    }
#define CHECK_TABLE(name, table, functions) \
    { \
        name, sizeof(table), functions, sizeof functions / sizeof *functions \
    }
/* Every function from `first` to the end of a table has its line. */
#define CHECK_COMPLETE(table, first, end, functions) \
    _Static_assert(((end)-offsetof(table, first)) / sizeof(void (*)(void)) == sizeof functions / sizeof *functions, \
                   #table ": a function is neither required nor optional")

static const check_function CHECK_PLUGIN[] = {CHECK_MUST(pco_plugin, create), CHECK_MUST(pco_plugin, destroy),
                                              CHECK_MUST(pco_plugin, device_count), CHECK_MUST(pco_plugin, describe),
                                              CHECK_MUST(pco_plugin, open)};
CHECK_COMPLETE(pco_plugin, create, offsetof(pco_plugin, device), CHECK_PLUGIN);

static const check_function CHECK_DEVICE[] = {CHECK_MUST(pco_device_api, close),
                                              CHECK_MUST(pco_device_api, memory_left),
                                              CHECK_MAY(pco_device_api, profile), CHECK_MAY(pco_device_api, inspect)};
CHECK_COMPLETE(pco_device_api, close, sizeof(pco_device_api), CHECK_DEVICE);

static const check_function CHECK_BUFFER[] = {CHECK_MUST(pco_buffer_api, create), CHECK_MUST(pco_buffer_api, destroy),
                                              CHECK_MUST(pco_buffer_api, write),  CHECK_MUST(pco_buffer_api, read),
                                              CHECK_MAY(pco_buffer_api, copy),    CHECK_MAY(pco_buffer_api, map),
                                              CHECK_MAY(pco_buffer_api, import)};
CHECK_COMPLETE(pco_buffer_api, create, sizeof(pco_buffer_api), CHECK_BUFFER);

static const check_function CHECK_PROGRAM[] = {
    CHECK_MUST(pco_program_api, supports), CHECK_MAY(pco_program_api, variants),
    CHECK_MUST(pco_program_api, propose),  CHECK_MAY(pco_program_api, convert),
    CHECK_MUST(pco_program_api, prepare),  CHECK_MUST(pco_program_api, destroy),
    CHECK_MUST(pco_program_api, segments), CHECK_MAY(pco_program_api, timings),
    CHECK_MAY(pco_program_api, describe),  CHECK_MAY(pco_program_api, segments_until),
    CHECK_MAY(pco_program_api, pipelines), CHECK_MAY(pco_program_api, tunables),
    CHECK_MAY(pco_program_api, tune),      CHECK_MAY(pco_program_api, lend)};
CHECK_COMPLETE(pco_program_api, supports, sizeof(pco_program_api), CHECK_PROGRAM);

static const check_function CHECK_QUEUE[] = {CHECK_MUST(pco_queue_api, submit), CHECK_MUST(pco_queue_api, wait)};
CHECK_COMPLETE(pco_queue_api, submit, sizeof(pco_queue_api), CHECK_QUEUE);

/* Copies a table as far as it goes; what it leaves out, which may be NULL, is NULL. */
static pco_status check_copy(const check_table *table, const void *from, void *to, pco_error *err)
{
    uint32_t size;
    if (!from) return pco_fail(err, PCO_ERROR_ABI, "its table has no '%s'", table->name);
    memcpy(&size, from, sizeof size);
    memset(to, 0, table->size);
    memcpy(to, from, size < table->size ? size : table->size);
    for (size_t i = 0; i < table->count; i++) {
        void (*function)(void);
        const check_function *f = &table->functions[i];
        if (size < f->offset + sizeof function) {
            memset((char *)to + f->offset, 0, sizeof function);
            if (f->may_be_null) continue;
            return pco_fail(err, PCO_ERROR_ABI, "its table '%s' ends after %" PRIu32 " bytes, without %s", table->name,
                            size, f->name);
        }
        memcpy(&function, (const char *)from + f->offset, sizeof function);
        if (!function && !f->may_be_null)
            return pco_fail(err, PCO_ERROR_ABI, "its table '%s' has NULL for %s", table->name, f->name);
    }
    return PCO_OK;
}

pco_status pco_plugin_adopt(const pco_plugin *from, pco_plugin_tables *to, pco_error *err)
{
    static const check_table PLUGIN = CHECK_TABLE("plugin", pco_plugin, CHECK_PLUGIN),
                             DEVICE = CHECK_TABLE("device", pco_device_api, CHECK_DEVICE),
                             BUFFER = CHECK_TABLE("buffer", pco_buffer_api, CHECK_BUFFER),
                             PROGRAM = CHECK_TABLE("program", pco_program_api, CHECK_PROGRAM),
                             QUEUE = CHECK_TABLE("queue", pco_queue_api, CHECK_QUEUE);
    if (!from) return pco_fail(err, PCO_ERROR_ABI, "it does not serve plugin ABI %u.%u", PCO_ABI_MAJOR, PCO_ABI_MINOR);
    uint32_t major = from->abi_version >> 16, minor = from->abi_version & 0xffff;
    if (major != PCO_ABI_MAJOR || minor > PCO_ABI_MINOR)
        return pco_fail(err, PCO_ERROR_ABI, "it was made for plugin ABI %u.%u, and this Portico has %u.%u", major,
                        minor, PCO_ABI_MAJOR, PCO_ABI_MINOR);
    pco_plugin *plugin = &to->plugin;
    pco_status status = check_copy(&PLUGIN, from, plugin, err);
    if (status) return status;
    if (!plugin->name || !*plugin->name || strlen(plugin->name) > 63 ||
        strspn(plugin->name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(plugin->name))
        return pco_fail(err, PCO_ERROR_ABI, "its name is not made of up to 63 of a-z, 0-9 and _");
    if (!plugin->version || !plugin->description)
        return pco_fail(err, PCO_ERROR_ABI, "it has no %s", plugin->version ? "description" : "version");
    status = check_copy(&DEVICE, plugin->device, &to->device, err);
    if (!status) status = check_copy(&BUFFER, plugin->buffer, &to->buffer, err);
    if (!status) status = check_copy(&PROGRAM, plugin->program, &to->program, err);
    if (!status) status = check_copy(&QUEUE, plugin->queue, &to->queue, err);
    plugin->device = &to->device;
    plugin->buffer = &to->buffer;
    plugin->program = &to->program;
    plugin->queue = &to->queue;
    return status;
}

/* ---- a device ---- */

static pco_status check_texts(const pco_device_info *info, pco_error *err)
{
    const struct {
        const char *name, *text;
        size_t size;
    } texts[] = {{"name", info->name, sizeof info->name},
                 {"driver", info->driver, sizeof info->driver},
                 {"platform", info->platform, sizeof info->platform},
                 {"aliases", info->aliases, sizeof info->aliases},
                 {"not_in_build", info->not_in_build, sizeof info->not_in_build},
                 {"api", info->api, sizeof info->api},
                 {"driver_version", info->driver_version, sizeof info->driver_version},
                 {"driver_file", info->driver_file, sizeof info->driver_file}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!memchr(texts[i].text, 0, texts[i].size))
            return pco_fail(err, PCO_ERROR_INVALID, "its %s does not end within %zu bytes", texts[i].name,
                            texts[i].size);
    return *info->name ? PCO_OK : pco_fail(err, PCO_ERROR_INVALID, "it has no name");
}

static int check_is_power(uint64_t value) { return value && !(value & (value - 1)); }

static pco_status check_limits(const pco_device_info *info, pco_error *err)
{
    if (info->type > PCO_DEVICE_OTHER)
        return pco_fail(err, PCO_ERROR_INVALID, "its type %" PRIu32 " does not exist", info->type);
    if (!check_is_power(info->buffer_alignment) || info->buffer_alignment > CHECK_MOST_ALIGNMENT)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "its buffer_alignment is %" PRIu32 ", and must be a power of two up to %d",
                        info->buffer_alignment, CHECK_MOST_ALIGNMENT);
    if (!info->max_allocation || !info->max_binding || !info->max_workgroup)
        return pco_fail(err, PCO_ERROR_INVALID, "its %s is 0",
                        !info->max_allocation ? "max_allocation"
                        : !info->max_binding  ? "max_binding"
                                              : "max_workgroup");
    const uint32_t least = info->subgroup_min, most = info->subgroup_max;
    if (least > most || (least ? !check_is_power(least) || !check_is_power(most) : most))
        return pco_fail(err, PCO_ERROR_INVALID,
                        "its subgroups are %" PRIu32 " to %" PRIu32 " wide, and must be powers of two, or both 0",
                        least, most);
    if (info->n_edges > PCO_MAX_EDGES)
        return pco_fail(err, PCO_ERROR_INVALID, "it has %" PRIu32 " edges, more than %d", info->n_edges, PCO_MAX_EDGES);
    return PCO_OK;
}

static pco_status check_contract(const pco_contract *contract, pco_error *err)
{
    const uint32_t types[] = {contract->accumulate_f32, contract->accumulate_f16, contract->accumulate_bf16,
                              contract->compute};
    static const char *const TYPES[] = {"accumulate_f32", "accumulate_f16", "accumulate_bf16", "compute"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!pco_dtype_is_float(types[i]) && types[i] != PCO_CONTRACT_F64)
            return pco_fail(err, PCO_ERROR_INVALID, "its contract's %s is %" PRIu32 ", which is no type of floats",
                            TYPES[i], types[i]);
    const float figures[] = {contract->div_ulp, contract->sqrt_ulp, contract->rsqrt_ulp, contract->function_ulp};
    static const char *const FIGURES[] = {"div_ulp", "sqrt_ulp", "rsqrt_ulp", "function_ulp"};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (!isfinite(figures[i]) || figures[i] < 0)
            return pco_fail(err, PCO_ERROR_INVALID, "its contract's %s is %g", FIGURES[i], (double)figures[i]);
    return PCO_OK;
}

pco_status pco_device_info_check(const pco_device_info *info, pco_error *err)
{
    pco_status status = check_texts(info, err);
    if (!status) status = check_limits(info, err);
    return status ? status : check_contract(&info->contract, err);
}

/* ---- a device ---- */

pco_status pco_plugin_open_device(const pco_plugin *plugin, pco_backend *backend, uint32_t index, pco_device **device,
                                  pco_error *err)
{
    *device = NULL;
    pco_status status = plugin->open(backend, index, device, err);
    if (!status && !*device)
        status = pco_fail(err, PCO_ERROR_INTERNAL, "the plugin says that it opened the device, and gave none");
    if (status) *device = NULL;
    return status;
}

/* ---- a proposal ---- */

static pco_status check_tensor(const pco_plugin *plugin, const pco_tensor *tensor, const pco_tensor_proposal *proposed,
                               pco_error *err)
{
    if (!check_is_power(proposed->alignment))
        return pco_fail(err, PCO_ERROR_INTERNAL,
                        "the plugin proposed the alignment %" PRIu32 " for '%s', which is no power of two",
                        proposed->alignment, tensor->name);
    if (proposed->layout && tensor->kind != PCO_KIND_CONSTANT)
        return pco_fail(err, PCO_ERROR_INTERNAL, "the plugin proposed a layout for '%s', which is no constant",
                        tensor->name);
    if (proposed->layout && !plugin->program->convert)
        return pco_fail(err, PCO_ERROR_INTERNAL, "the plugin proposed a layout for '%s', and has NULL for convert",
                        tensor->name);
    if (!proposed->layout && proposed->bytes < tensor->bytes)
        return pco_fail(err, PCO_ERROR_INTERNAL, "the plugin proposed %" PRIu64 " bytes for '%s', which has %" PRIu64,
                        proposed->bytes, tensor->name, tensor->bytes);
    return PCO_OK;
}

pco_status pco_proposal_check(const pco_plugin *plugin, const pco_part *part, const pco_proposal *proposal,
                              pco_error *err)
{
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const uint64_t in_place = proposal->nodes[i].in_place;
        if (in_place >> part->nodes[i].n_inputs)
            return pco_fail(err, PCO_ERROR_INTERNAL,
                            "the plugin proposed the result of '%s' in place of an operand behind its %" PRIu32,
                            part->nodes[i].name, part->nodes[i].n_inputs);
    }
    for (uint32_t t = 0; t < part->n_tensors; t++) {
        pco_status status = check_tensor(plugin, &part->tensors[t], &proposal->tensors[t], err);
        if (status) return status;
    }
    return PCO_OK;
}
