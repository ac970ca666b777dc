/* The kernels of a reproducer, how they are launched, and repro.c, which launches them. */
#include "reproduce/reproduce_internal.h"

#include "base/error.h"
#include "graph/op.h"

#include <inttypes.h>
#include <string.h>

/* Embedded by meson.build. */
extern const char conf_reproduce_common[], conf_reproduce_vulkan[], conf_reproduce_opencl[];

enum { MAX_LINES = 300 }; /* of repro.c; beyond it the tables go into a file of their own */

/* ---- launches ---- */

static void conf_put_numbers(pco_writer *out, const char *name, const int64_t *values, uint32_t count)
{
    while (count > 1 && values[count - 1] == 0) count--; /* the rest of an array is 0 */
    pco_print(out, ", .%s = {", name);
    for (uint32_t i = 0; i < count; i++)
        pco_print(out, "%s%s%" PRId64, i ? "," : "", i && i % 24 == 0 ? "\n      " : i ? " " : "", values[i]);
    pco_print(out, "}");
}

/* A string constant. Question marks are escaped, too: two of them begin a trigraph, also that of the
 * backslash. */
void conf_put_string(pco_writer *out, const char *text)
{
    pco_write_char(out, '"');
    for (; *text; text++) {
        if (strchr("\"\\?", *text)) pco_write_char(out, '\\');
        pco_write_char(out, (unsigned char)*text < ' ' ? ' ' : *text);
    }
    pco_write_char(out, '"');
}

static void conf_put_launch(pco_writer *out, const pco_dispatch_info *info, const char *kernel, bool opencl)
{
    int64_t specs[PCO_DISPATCH_SPECS], params[PCO_DISPATCH_PARAMS];
    for (uint32_t i = 0; i < info->n_specs; i++) specs[i] = info->specs[i];
    for (uint32_t i = 0; i < info->n_params; i++) params[i] = info->params[i];
    pco_write_text(out, "    {.kernel = ");
    conf_put_string(out, kernel);
    pco_write_text(out, ", .entry = ");
    conf_put_string(out, info->entry);
    pco_print(out, ", .groups = {%u, %u, %u}, .local = {%u, %u, %u}", info->groups[0], info->groups[1], info->groups[2],
              info->workgroup[0], info->workgroup[1], info->workgroup[2]);
    if (info->subgroup_size) pco_print(out, ", .subgroup_size = %u", info->subgroup_size);
    if (info->full_subgroups) pco_print(out, ", .full_subgroups = 1");
    if (info->barrier_before) pco_print(out, ", .barrier_before = 1");
    if (opencl) {
        pco_print(out, ",\n     .options = ");
        conf_put_string(out, info->options);
    } else {
        pco_print(out, ",\n     .n_specs = %u", info->n_specs);
        conf_put_numbers(out, "specs", specs, info->n_specs);
    }
    conf_put_numbers(out, "params", params, info->n_params);
    pco_print(out, ",\n     .n_windows = %u, .windows = {", info->n_bindings);
    for (uint32_t i = 0; i < info->n_bindings; i++)
        pco_print(out, "%s{%u, %" PRIu64 ", %" PRIu64 "}", i ? ", " : "", info->bindings[i].buffer,
                  info->bindings[i].offset, info->bindings[i].bytes);
    pco_print(out, "}},\n");
}

/* Kernel files, and the launch in C and in words. */
static pco_status conf_write_launch(conf_writing *w, uint32_t index, const pco_dispatch_info *info)
{
    char file[96], source[96] = "";
    bool opencl = info->api == PCO_DISPATCH_OPENCL;
    pco_status status = PCO_OK;
    if (info->n_specs > PCO_DISPATCH_SPECS || info->n_params > PCO_DISPATCH_PARAMS ||
        info->n_bindings > PCO_DISPATCH_BINDINGS || strchr(info->kernel, '/') ||
        (!opencl && info->api != PCO_DISPATCH_VULKAN))
        return pco_fail(w->err, PCO_ERROR_INTERNAL, "launch %u: the plugin's description is not valid", index);
    w->api = info->api;
    snprintf(file, sizeof file, "%.80s.%s", info->kernel, opencl ? "cl" : "spv");
    if (opencl) {
        status = conf_folder_write(&w->folder, file, info->source, info->source_bytes, w->err);
    } else {
        status = conf_folder_write(&w->folder, file, info->binary, info->binary_bytes, w->err);
        snprintf(source, sizeof source, "%.80s.comp", info->kernel);
        if (!status && info->source_bytes)
            status = conf_folder_write(&w->folder, source, info->source, info->source_bytes, w->err);
    }
    if (status) return status;
    conf_put_launch(&w->tables, info, file, opencl);
    pco_print(&w->list, "  %u. %s, workgroups %u x %u x %u of %u x %u x %u%s\n", index, file, info->groups[0],
              info->groups[1], info->groups[2], info->workgroup[0], info->workgroup[1], info->workgroup[2],
              info->barrier_before ? ", behind a barrier" : "");
    if (!opencl) {
        pco_print(&w->list, "     specialisation constants 0 to %u:", info->n_specs - 1);
        for (uint32_t i = 0; i < info->n_specs; i++) pco_print(&w->list, " %d", info->specs[i]);
        pco_print(&w->list, "\n");
    } else {
        pco_print(&w->list, "     build options: %s\n", info->options);
    }
    for (uint32_t i = 0; i < info->n_bindings; i++)
        pco_print(&w->list, "     binding %u: buffer%u.bin, bytes %" PRIu64 " to %" PRIu64 ", %s\n", i,
                  info->bindings[i].buffer, info->bindings[i].offset,
                  info->bindings[i].offset + info->bindings[i].bytes, info->bindings[i].write ? "written" : "read");
    return PCO_OK;
}

pco_status conf_write_launches(conf_writing *w)
{
    const pco_conformance_device *device = w->device;
    const pco_program_api *program = device->plugin->program;
    if (!program->describe) return PCO_OK;
    w->describes = true;
    pco_print(&w->tables, "static const launch launches[] = {\n");
    for (;; w->n_launches++) {
        pco_dispatch_info info = {.size = sizeof info};
        pco_status status = program->describe(device->device, w->execution->program, w->n_launches, &info, w->err);
        if (status == PCO_ERROR_NOT_FOUND) break;
        if (!status) status = conf_write_launch(w, w->n_launches, &info);
        if (status) return status;
    }
    pco_print(&w->tables, "};\n");
    return PCO_OK;
}

/* ---- repro.c ---- */

static uint32_t conf_lines(const char *text)
{
    uint32_t lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

/* In a comment, on one line. Nothing in it ends the comment or the line: a slash behind a star is left out,
 * however many there are, and so is a backslash, which at the end of a line would join the next one to it. */
void conf_put_comment(pco_writer *out, const char *text)
{
    for (char before = 0; *text; text++) {
        if ((*text == '/' && before == '*') || *text == '\\') continue;
        before = (unsigned char)*text < ' ' ? ' ' : *text;
        pco_write_char(out, before);
    }
    pco_write_char(out, '\n');
}

pco_status conf_write_program(conf_writing *w)
{
    static const char MARK[] = "@TABLES@\n";
    const bool opencl = w->api == PCO_DISPATCH_OPENCL;
    const char *tail = opencl ? conf_reproduce_opencl : conf_reproduce_vulkan;
    const char *mark = strstr(conf_reproduce_common, MARK);
    pco_writer text = {0};
    bool apart = conf_lines(conf_reproduce_common) + conf_lines(tail) + conf_lines(w->tables.data) + 5 >= MAX_LINES;
    pco_print(&text, "/* %s: shows without Portico what README.txt tells. cc repro.c %s -lm -o repro\n * Seen: ",
              conf_case_op(w->problem->one)->name, opencl ? "-lOpenCL" : "-lvulkan");
    conf_put_comment(&text, w->text->found);
    pco_write(&text, conf_reproduce_common, (size_t)(mark - conf_reproduce_common));
    pco_print(&text, "#define DEVICE ");
    conf_put_string(&text, w->device->info->name);
    pco_print(&text, "\nenum { N_BUFFERS = %u, N_LAUNCHES = %u, N_WRITABLE = %u, N_FRESH = %u, N_OUTPUTS = %u };\n",
              w->execution->large ? w->execution->large->n_buffers : w->execution->memory->n_buffers, w->n_launches,
              w->n_writable, w->n_fresh, w->n_outputs);
    if (apart)
        pco_print(&text, "#include \"launches.h\" /* buffers, writable, launches, outputs */\n");
    else
        pco_write(&text, w->tables.data, w->tables.size);
    pco_print(&text, "%s%s", mark + strlen(MARK), tail);
    pco_status status = conf_folder_save(&w->folder, "repro.c", &text, w->err);
    if (!status && apart) status = conf_folder_save(&w->folder, "launches.h", &w->tables, w->err);
    pco_writer_release(&text);
    return status;
}
