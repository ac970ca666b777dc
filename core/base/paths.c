#include "base/paths.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The build defines these: its own folder, and paths from the installed program's folder, and the library's, to plugins and
 * helpers. */
#ifndef PCO_PLUGINS_FROM_BIN
#define PCO_BUILD_ROOT       ""
#define PCO_PLUGINS_FROM_BIN "../lib/portico"
#define PCO_PLUGINS_FROM_LIB "portico"
#define PCO_PROBE_FROM_BIN   "../libexec/portico/portico-probe"
#define PCO_PROBE_FROM_LIB   "../libexec/portico/portico-probe"
#endif

/* Any address inside this object does to find its file. */
static const char PATHS_MARK = 0;

int pco_path_self(char *path, size_t size)
{
    Dl_info info;
    char real[PATH_MAX];
    if (!dladdr(&PATHS_MARK, &info)) return 0;
    const char *file = info.dli_fname;
    if (!strchr(file, '/')) file = "/proc/self/exe"; /* a program found through PATH */
    return realpath(file, real) && (size_t)snprintf(path, size, "%s", real) < size;
}

/* The folder of that file. */
static int paths_own(char *dir, size_t size)
{
    char *slash = pco_path_self(dir, size) ? strrchr(dir, '/') : NULL;
    if (slash) *slash = 0;
    return slash != NULL;
}

/* Is it the folder of the build, or one right below it, where tests and examples lie? The build knows its own folder, so
 * that nothing that somebody puts beside an install can make it look like one. */
static int paths_is_build(const char *dir)
{
    const size_t root = strlen(PCO_BUILD_ROOT);
    if (!root || strncmp(dir, PCO_BUILD_ROOT, root) != 0) return 0;
    return dir[root] == 0 || (dir[root] == '/' && !strchr(dir + root + 1, '/'));
}

/* The first of the candidates that is there: those of a build tree, or those of an install. */
static int paths_find(const char *const *built, const char *const *installed, char *path, size_t size)
{
    char dir[PATH_MAX];
    if (!paths_own(dir, sizeof dir)) return 0;
    const char *const *candidates = paths_is_build(dir) ? built : installed;
    for (; *candidates; candidates++) {
        int length = snprintf(path, size, "%s/%s", dir, *candidates);
        if (length > 0 && (size_t)length < size && access(path, R_OK | X_OK) == 0) return 1;
    }
    return 0;
}

int pco_path_plugins(char *path, size_t size)
{
    /* In a build tree the plugins are in "backends" beside the program, or beside the folder of the tests. */
    static const char *const built[] = {"backends", "../backends", NULL};
    static const char *const installed[] = {PCO_PLUGINS_FROM_BIN, PCO_PLUGINS_FROM_LIB, NULL};
    return paths_find(built, installed, path, size);
}

int pco_path_probe(char *path, size_t size)
{
    static const char *const built[] = {"portico-probe", "../portico-probe", NULL};
    static const char *const installed[] = {PCO_PROBE_FROM_BIN, PCO_PROBE_FROM_LIB, NULL};
    return paths_find(built, installed, path, size);
}
