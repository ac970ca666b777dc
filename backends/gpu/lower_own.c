/* Operations that are declared outside of the table: a kernel is made of the declaration's text when a device first
 * needs it, for each combination of types. docs/own_operations.md says what the text may use; all of it is defined
 * here. */
#include "lower.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { OWN_TEXT = 8192 }; /* of what is defined for a kernel */

/* A text under way, and the parameters that go with it. */
typedef struct own_text {
    char text[OWN_TEXT];
    size_t used;
    uint32_t n_params, n_bindings;
    uint32_t params[PCO_GPU_MAX_PARAMS];
    uint32_t tensors[PCO_GPU_MAX_BINDINGS]; /* by binding */
    uint32_t first_output;                  /* binding of the first result; PCO_NONE: it has no memory */
    const char *too_many;                   /* of what there is more than a kernel has, or NULL */
} own_text;

__attribute__((format(printf, 2, 3))) static void own_write(own_text *own, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(own->text + own->used, OWN_TEXT - own->used, format, list);
    va_end(list);
    own->used += (size_t)length;
    if (own->used >= OWN_TEXT) own->used = OWN_TEXT - 1, own->too_many = "definitions";
}

/* #define NAME PI(n), or PF(n) */
static void own_parameter(own_text *own, const char *name, const char *behind, const char *macro, uint32_t value)
{
    if (own->n_params == PCO_GPU_MAX_PARAMS) {
        own->too_many = "parameters (sizes of operands, letters of the signature, attributes)";
        return;
    }
    own_write(own, "#define %s%s %s(%u)\n", name, behind, macro, own->n_params);
    own->params[own->n_params++] = value;
}

/* "alpha" in capitals. */
static void own_capitals(char *to, const char *from, size_t length)
{
    for (size_t i = 0; i < length; i++)
        to[i] = (char)(from[i] >= 'a' && from[i] <= 'z' ? from[i] - 'a' + 'A' : from[i]);
    to[length] = 0;
}

/* DIM_K for each letter of "..,K,2" that has none yet: letters are counted from the last dimension. "*" and "@" stand
 * alone, and are none. */
static void own_letters(own_text *own, const char *dims, size_t length, const pco_tensor *tensor, uint32_t *seen)
{
    uint32_t from_end = 0;
    for (size_t i = length; i-- > 0;) {
        if (dims[i] == ',' || dims[i] == '.') continue;
        from_end++;
        if (dims[i] < 'A' || dims[i] > 'Z' || (*seen >> (dims[i] - 'A') & 1) || from_end > tensor->rank) continue;
        const char name[] = {'D', 'I', 'M', '_', dims[i], 0};
        *seen |= 1u << (dims[i] - 'A');
        own_parameter(own, name, "", "PI", (uint32_t)tensor->shape[tensor->rank - from_end]);
    }
}

/* Type, sizes and buffer of one operand or result. `at` is its place in the signature; returns what is behind. */
static const char *own_tensor(gpu_lowering *gpu, own_text *own, const char *at, uint32_t index, int result,
                              char *buffers, size_t room, uint32_t *letters)
{
    char lower[32], name[32];
    const size_t length = strcspn(at, "?:"), dims = strcspn(at, "[") + 1, end = strcspn(at, "]");
    snprintf(lower, sizeof lower, "%.*s", (int)length, at);
    own_capitals(name, lower, strlen(lower));
    at += end + 1;
    const char *next = at + strspn(at, " ");
    own_write(own, "#define HAS_%s %d\n", name, index != PCO_NONE);
    if (index == PCO_NONE) return next;
    const pco_tensor *tensor = &gpu->part->tensors[index];
    const uint64_t count = gpu_count(tensor);
    own_letters(own, at - (end + 1) + dims, end - dims, tensor, letters);
    own_write(own, "#define %s %u\n", name, tensor->dtype);
    own_parameter(own, name, "_SIZE", "PI", (uint32_t)count);
    if (result) own_parameter(own, name, "_WORDS", "PI", (uint32_t)gpu_div_up(count, gpu_lanes(tensor->dtype)));
    if (own->n_bindings == PCO_GPU_MAX_BINDINGS) {
        own->too_many = "operands and results";
        return next;
    }
    const size_t used = strlen(buffers);
    snprintf(buffers + used, room - used, "%suse(%s, %u, %s)", used ? " " : "", result ? "RW" : "RO", own->n_bindings,
             lower);
    if (result && own->first_output == PCO_NONE) own->first_output = own->n_bindings;
    own->tensors[own->n_bindings++] = index;
    return next;
}

static void own_attributes(gpu_lowering *gpu, own_text *own, const pco_op_declaration *declaration)
{
    const unsigned char *at = (const unsigned char *)gpu->node->attrs + sizeof(pco_own_attrs);
    for (uint32_t i = 0; i < declaration->n_attributes; i++, at += 8) {
        const pco_op_attribute *attribute = &declaration->attributes[i];
        char name[32];
        double real;
        int64_t whole;
        uint32_t word;
        memcpy(&real, at, 8);
        memcpy(&whole, at, 8);
        own_capitals(name, attribute->name, strnlen(attribute->name, 31));
        const float narrow = (float)real;
        if (attribute->is_float)
            memcpy(&word, &narrow, 4);
        else if (whole < INT32_MIN || whole > INT32_MAX)
            gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "attribute %s is beyond 32 bits", attribute->name);
        else
            word = (uint32_t)whole;
        if (gpu->status == PCO_OK) own_parameter(own, name, "", attribute->is_float ? "PF" : "PI", word);
    }
}

/* All that is defined for the node's kernel. */
static void own_define(gpu_lowering *gpu, own_text *own, const pco_op_declaration *declaration)
{
    char buffers[512] = "";
    uint32_t letters = 0, i = 0;
    const char *at = declaration->signature + strspn(declaration->signature, " ");
    own->first_output = PCO_NONE;
    for (; *at && strncmp(at, "->", 2) != 0; i++)
        at = own_tensor(gpu, own, at, gpu_input_index(gpu, i), 0, buffers, sizeof buffers, &letters);
    at += 2 + strspn(at + 2, " ");
    for (i = 0; *at; i++) at = own_tensor(gpu, own, at, gpu_output_index(gpu, i), 1, buffers, sizeof buffers, &letters);
    own_attributes(gpu, own, declaration);
    own_write(own, "#define BUFFERS(use) %s\n", buffers);
    if (own->too_many) gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "its kernel would have too many %s", own->too_many);
}

static uint64_t own_hash(uint64_t hash, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The number of the kernel, made when it is not there yet. */
static uint32_t own_kernel(gpu_lowering *gpu, const own_text *own, const pco_op_declaration *declaration)
{
    static const char LINE[] = "#line 1\n", NO_ARRAYS[] = "#define SHARED_ARRAYS\n";
    const char *arrays = strstr(declaration->kernel, "SHARED_ARRAYS") ? "" : NO_ARRAYS;
    const size_t body = strlen(declaration->kernel);
    uint64_t key = own_hash(UINT64_C(0xcbf29ce484222325), own->text, own->used);
    key = own_hash(own_hash(key, declaration->kernel, body), declaration->name, strlen(declaration->name));
    uint32_t kernel = pco_gpu_find_made(gpu->device, key);
    if (kernel == PCO_NONE) {
        const size_t bytes = pco_gpu_prelude.bytes + own->used + strlen(arrays) + sizeof LINE - 1 + body;
        char *text = gpu->host->allocate(gpu->host->user, bytes + 1, 64);
        if (!text) {
            gpu_fail(gpu, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a kernel's text");
            return PCO_NONE;
        }
        snprintf(text, bytes + 1, "%.*s%s%s%s%s", (int)pco_gpu_prelude.bytes, (const char *)pco_gpu_prelude.data,
                 own->text, arrays, LINE, declaration->kernel);
        const pco_gpu_kernel row = {.n_bindings = own->n_bindings,
                                    .writable = own->first_output == PCO_NONE ? 0 : ~UINT32_C(0) << own->first_output,
                                    .n_specs = 3,
                                    .n_params = own->n_params,
                                    .hash = own_hash(UINT64_C(0xcbf29ce484222325), text, bytes),
                                    .interface = UINT32_MAX};
        pco_error why = {""};
        const pco_status status =
            pco_gpu_make(gpu->device, declaration->name, key, &row, (pco_gpu_code){text, bytes}, &kernel, &why);
        if (status != PCO_OK) {
            gpu_fail(gpu, status, "%s", why.message);
            return PCO_NONE;
        }
    }
    const pco_gpu_made *made = gpu->device->made[kernel - pco_gpu_n_kernels];
    if (made->status != PCO_OK) gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "%s", made->why);
    return kernel;
}

/* How many workgroups: a row of the first result each, or so that each word of it has an invocation. */
static uint64_t own_groups(const gpu_lowering *gpu, const pco_op_declaration *declaration, uint32_t workgroup)
{
    const pco_tensor *y = gpu_output(gpu, 0);
    if (!declaration->group_per_row) return gpu_div_up(gpu_div_up(gpu_count(y), gpu_lanes(y->dtype)), workgroup);
    const uint64_t last = y->rank ? (uint64_t)y->shape[y->rank - 1] : 1;
    return last ? gpu_count(y) / last : 0;
}

static pco_status gpu_own(gpu_lowering *gpu)
{
    const pco_op_declaration *declaration = ((const pco_own_attrs *)gpu->node->attrs)->declaration;
    own_text own = {.used = 0};
    if (!declaration->kernel) return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "it is declared without a kernel");
    const uint32_t wanted = declaration->workgroup ? declaration->workgroup : 64, size = gpu_workgroup(gpu, wanted);
    if (size < wanted && (declaration->workgroup || declaration->group_per_row))
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "its kernel wants a workgroup of %u, the device has %u", wanted,
                        size);
    own_define(gpu, &own, declaration);
    if (gpu->status != PCO_OK) return gpu->status;
    const uint32_t kernel = own_kernel(gpu, &own, declaration);
    if (gpu->status != PCO_OK) return gpu->status;
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, kernel, size, 1, 1);
    for (uint32_t i = 0; i < own.n_bindings; i++) {
        const pco_tensor *tensor = &gpu->part->tensors[own.tensors[i]];
        if (gpu_bind_elements(gpu, &d, i, own.tensors[i], 0, gpu_count(tensor), i >= own.first_output) != 0)
            gpu_fail(gpu, PCO_ERROR_INTERNAL, "%s lies %u bytes behind a multiple of the device's alignment",
                     tensor->name, gpu->limits->offset_alignment);
    }
    memcpy(d.params, own.params, sizeof d.params);
    gpu->named |= GPU_NAMED_PARAMS;
    return gpu_emit(gpu, &d, own_groups(gpu, declaration, size));
}

/* A kernel counts from where a window begins: so tensors begin there. */
static void gpu_own_propose(gpu_lowering *gpu, pco_proposal *proposal)
{
    for (uint32_t i = 0; i < PCO_MAX_INPUTS + PCO_MAX_OUTPUTS; i++) {
        const uint32_t tensor =
            i < PCO_MAX_INPUTS ? gpu_input_index(gpu, i) : gpu_output_index(gpu, i - PCO_MAX_INPUTS);
        if (tensor == PCO_NONE) continue;
        if (proposal->tensors[tensor].alignment < gpu->limits->offset_alignment)
            proposal->tensors[tensor].alignment = gpu->limits->offset_alignment;
    }
}

const gpu_lowerer gpu_lower_own = {.propose = gpu_own_propose, .lower = gpu_own};
