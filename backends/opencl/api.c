/* libOpenCL as a table of functions, found at run time: a machine without it only lacks this backend. */
#include "opencl.h"

#include <dlfcn.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} ocl_functions[] = {
#define OCL_ROW(name) {"cl" #name, offsetof(ocl_api, name)},
    OCL_API_FUNCTIONS(OCL_ROW)
#undef OCL_ROW
};

pco_status ocl_api_load(ocl_api *api, pco_error *err)
{
    /* A debugger such as oclgrind puts itself in front of the process: what is there already wins. */
    void *library = RTLD_DEFAULT;
    if (!dlsym(RTLD_DEFAULT, "clGetPlatformIDs")) {
        /* Never closed again: drivers start threads and do not survive it. */
        library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            const char *why = dlerror();
            return ocl_fail(err, PCO_ERROR_UNSUPPORTED, "there is no OpenCL loader on this machine: %s",
                            why ? why : "libOpenCL.so.1 does not open");
        }
    }
    for (size_t i = 0; i < sizeof ocl_functions / sizeof ocl_functions[0]; i++) {
        void *function = dlsym(library, ocl_functions[i].name);
        if (!function)
            return ocl_fail(err, PCO_ERROR_UNSUPPORTED, "the OpenCL loader lacks %s: it is older than 1.2",
                            ocl_functions[i].name);
        memcpy((char *)api + ocl_functions[i].offset, &function, sizeof function);
    }
    return PCO_OK;
}
