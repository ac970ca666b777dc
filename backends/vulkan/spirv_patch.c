/* Execution modes for 32-bit floats, written into a module when it is loaded. GLSL has no way to ask for
 * them, and without them Vulkan promises neither the rounding mode nor what happens to NaN, infinity and
 * subnormals (SPV_KHR_float_controls). */
#include "vk.h"

#include <string.h>

enum {
    VK_OP_EXTENSION = 10,
    VK_OP_ENTRY_POINT = 15,
    VK_OP_EXECUTION_MODE = 16,
    VK_OP_CAPABILITY = 17,
    VK_SPIRV_MAGIC = 0x07230203,
    VK_SPIRV_HEADER = 5,
};

static const struct {
    uint32_t flag, capability, mode;
} vk_modes[] = {
    {VK_MODE_KEEP_SUBNORMALS, 4464, 4459}, /* DenormPreserve */
    {VK_MODE_KEEP_NAN_INF, 4466, 4461},    /* SignedZeroInfNanPreserve */
    {VK_MODE_ROUND_TO_EVEN, 4467, 4462},   /* RoundingModeRTE */
};
enum { VK_N_MODES = sizeof vk_modes / sizeof vk_modes[0] };

typedef struct vk_layout {
    size_t capabilities_end, modes_at; /* word positions */
    uint32_t entry;
    uint32_t declared; /* VK_MODE_* whose capability the module has already */
    uint32_t extended; /* 1: the extension is declared, or part of the module's version */
} vk_layout;

static const char vk_extension[] = "SPV_KHR_float_controls";

/* Finds the sections. 0 for a module that is malformed or has not exactly one entry point. */
static int vk_find_sections(const uint32_t *words, size_t n, vk_layout *layout)
{
    memset(layout, 0, sizeof *layout);
    if (n < VK_SPIRV_HEADER || words[0] != VK_SPIRV_MAGIC) return 0;
    layout->extended = words[1] >= 0x00010400u;
    layout->capabilities_end = VK_SPIRV_HEADER;
    uint32_t entries = 0;
    for (size_t at = VK_SPIRV_HEADER; at < n;) {
        uint32_t op = words[at] & 0xffffu, length = words[at] >> 16;
        if (length == 0 || length > n - at) return 0;
        if (op == VK_OP_CAPABILITY && length == 2) {
            for (uint32_t m = 0; m < VK_N_MODES; m++)
                if (words[at + 1] == vk_modes[m].capability) layout->declared |= vk_modes[m].flag;
            layout->capabilities_end = at + length;
        } else if (op == VK_OP_EXTENSION) {
            if ((length - 1) * 4 >= sizeof vk_extension &&
                memcmp(&words[at + 1], vk_extension, sizeof vk_extension) == 0)
                layout->extended = 1;
        } else if (op == VK_OP_ENTRY_POINT && length >= 4) {
            layout->entry = words[at + 2];
            layout->modes_at = at + length;
            entries++;
        } else if (entries) {
            break; /* past the entry points: everything of interest has been seen */
        }
        at += length;
    }
    return entries == 1 && layout->capabilities_end <= layout->modes_at;
}

size_t vk_spirv_patch(const uint32_t *words, size_t n, uint32_t modes, uint32_t *out)
{
    vk_layout layout;
    if (!vk_find_sections(words, n, &layout)) return 0;
    modes &= ~layout.declared;
    size_t to = layout.capabilities_end;
    memcpy(out, words, to * sizeof *out);
    for (uint32_t m = 0; m < VK_N_MODES; m++) {
        if (!(modes & vk_modes[m].flag)) continue;
        out[to++] = 2u << 16 | VK_OP_CAPABILITY;
        out[to++] = vk_modes[m].capability;
    }
    if (modes && !layout.extended) {
        uint32_t length = 1 + (sizeof vk_extension + 3) / 4;
        memset(&out[to], 0, length * sizeof *out);
        out[to] = length << 16 | VK_OP_EXTENSION;
        memcpy(&out[to + 1], vk_extension, sizeof vk_extension);
        to += length;
    }
    size_t middle = layout.modes_at - layout.capabilities_end;
    memcpy(&out[to], &words[layout.capabilities_end], middle * sizeof *out);
    to += middle;
    for (uint32_t m = 0; m < VK_N_MODES; m++) {
        if (!(modes & vk_modes[m].flag)) continue;
        out[to++] = 4u << 16 | VK_OP_EXECUTION_MODE;
        out[to++] = layout.entry;
        out[to++] = vk_modes[m].mode;
        out[to++] = 32;
    }
    memcpy(&out[to], &words[layout.modes_at], (n - layout.modes_at) * sizeof *out);
    return to + n - layout.modes_at;
}
