#include "base/paths.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The build defines these: paths from the folder of the program, and of the library, to plugins and helpers. */
#ifndef PCO_PLUGINS_FROM_BIN
#define PCO_PLUGINS_FROM_BIN "../lib/portico"
#define PCO_PLUGINS_FROM_LIB "portico"
#define PCO_PROBE_FROM_BIN   "../libexec/portico/portico-probe"
#define PCO_PROBE_FROM_LIB   "../libexec/portico/portico-probe"
#endif

/* Any address inside this object does to find its file. */
static const char PATHS_MARK = 0;

/* The folder of the object that holds this function: the program, or libportico.so. */
static int paths_own(char *dir, size_t size)
{
    Dl_info info;
    char real[PATH_MAX];
    if (!dladdr(&PATHS_MARK, &info)) return 0;
    const char *file = info.dli_fname;
    if (!strchr(file, '/')) file = "/proc/self/exe"; /* a program found through PATH */
    if (!realpath(file, real)) return 0;
    char *slash = strrchr(real, '/');
    if (!slash) return 0;
    *slash = 0;
    return (size_t)snprintf(dir, size, "%s", real) < size;
}

static int paths_find(const char *const *candidates, char *path, size_t size)
{
    char dir[PATH_MAX];
    if (!paths_own(dir, sizeof dir)) return 0;
    for (; *candidates; candidates++) {
        int length = snprintf(path, size, "%s/%s", dir, *candidates);
        if (length > 0 && (size_t)length < size && access(path, R_OK | X_OK) == 0) return 1;
    }
    return 0;
}

int pco_path_plugins(char *path, size_t size)
{
    /* In a build tree the plugins are in "backends" beside the program, or beside the folder of the tests. */
    static const char *const candidates[] = {"backends", "../backends", PCO_PLUGINS_FROM_BIN, PCO_PLUGINS_FROM_LIB,
                                             NULL};
    return paths_find(candidates, path, size);
}

int pco_path_probe(char *path, size_t size)
{
    static const char *const candidates[] = {"portico-probe", "../portico-probe", PCO_PROBE_FROM_BIN,
                                             PCO_PROBE_FROM_LIB, NULL};
    return paths_find(candidates, path, size);
}
