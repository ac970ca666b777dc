/* What a process did between two marks: for the test that a decode step allocates, builds and records nothing.
 *
 * libpco-interpose.so is preloaded (it stands in front of malloc), and is at the same time a Vulkan layer and an
 * OpenCL layer (it stands between Portico's plugins and the drivers). Nothing is counted before a mark. */
#ifndef INTERPOSE_H
#define INTERPOSE_H

#include <stdint.h>
#include <string.h>

enum {
    INTERPOSE_ALLOCATIONS, /* malloc and its like, called by Portico or by the C library for it; not by drivers */
    INTERPOSE_VK_OBJECTS,  /* buffers, memory, pipelines, descriptor sets, pools, command buffers ... made */
    INTERPOSE_VK_RECORDS,  /* vkBeginCommandBuffer, vkCmd... */
    INTERPOSE_VK_SUBMITS,
    INTERPOSE_CL_OBJECTS,   /* buffers, programs, kernels, queues made */
    INTERPOSE_CL_ARGUMENTS, /* clSetKernelArg */
    INTERPOSE_CL_LAUNCHES,  /* clEnqueueNDRangeKernel */
    INTERPOSE_CL_WRITTEN,   /* bytes, by clEnqueueWriteBuffer and for writing mapped */
    INTERPOSE_CL_READ,      /* bytes, by clEnqueueReadBuffer and for reading mapped */
    INTERPOSE_KINDS,
};

#define INTERPOSE_NAMES \
    { \
        "allocations", "Vulkan objects", "Vulkan records", "Vulkan submissions", "OpenCL objects", "OpenCL arguments", \
            "OpenCL launches", "OpenCL bytes written", "OpenCL bytes read" \
    }

typedef struct interpose_counts {
    uint64_t count[INTERPOSE_KINDS];
    const char *first_call;         /* name of the first function that made or recorded something, or NULL */
    void *first_allocation;         /* return address of the first allocation that counted, or NULL */
    uint32_t vk_devices, cl_layers; /* since the process began: are the layers in place? */
} interpose_counts;

/* Found with dlsym: they are there only when the library was preloaded. mark(1) empties the counts and begins to
 * count, mark(0) ends it. */
typedef void (*interpose_mark_fn)(int on);                    /* "pco_interpose_mark" */
typedef const interpose_counts *(*interpose_counts_fn)(void); /* "pco_interpose_counts" */

/* Between the files of the library. */
void interpose_add(int kind, uint64_t amount, const char *call);
interpose_counts *interpose_state(void);

/* Is this one of Portico's objects? The library, and what lies in a folder of plugins itself: a driver may
 * lie anywhere below a folder called portico. */
static inline int interpose_is_ours(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *folder = slash ? slash : path;
    if (strstr(name, "interpose")) return 0;
    while (folder > path && folder[-1] != '/') folder--;
    return strncmp(name, "libportico", 10) == 0 || strncmp(folder, "backends/", 9) == 0 ||
           strncmp(folder, "portico/", 8) == 0;
}

#endif
