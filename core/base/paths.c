#include "base/paths.h"

/* Made by the build: PCO_BUILD_ROOT, its own folder (empty: -Drun_from_build=false), and paths from the installed
 * program's folder (..._FROM_BIN), and the library's (..._FROM_LIB), to plugins and helpers; where these are installed
 * (..._INSTALLED; empty: nowhere that is known). */
#include "build_paths.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Any address inside this object does to find its file. */
static const char PATHS_MARK = 0;

/* The name of the program itself is its caller's word for it (argv[0]), which decides nothing where the program has
 * more rights than its caller. */
static int paths_is_insecure(const Dl_info *own)
{
    Dl_info program;
    if (!getauxval(AT_SECURE)) return 0;
    return !dladdr((const void *)(uintptr_t)getauxval(AT_PHDR), &program) || program.dli_fbase == own->dli_fbase;
}

int pco_path_self(char *path, size_t size)
{
    Dl_info info;
    char real[PATH_MAX];
    if (!dladdr(&PATHS_MARK, &info)) return 0;
    const char *file = info.dli_fname;
    if (!strchr(file, '/') || paths_is_insecure(&info)) file = "/proc/self/exe"; /* a program found through PATH */
    return realpath(file, real) && (size_t)snprintf(path, size, "%s", real) < size;
}

/* The folder of that file. */
static int paths_own(char *dir, size_t size)
{
    char *slash = pco_path_self(dir, size) ? strrchr(dir, '/') : NULL;
    if (slash) *slash = 0;
    return slash != NULL;
}

/* Is it the folder of the build, or one right below it, where tests and examples lie? The build knows its own folder,
 * so that nothing that somebody puts beside an install can make it look like one. */
static int paths_is_build(const char *dir)
{
    const size_t root = strlen(PCO_BUILD_ROOT);
    if (!root || strncmp(dir, PCO_BUILD_ROOT, root) != 0) return 0;
    return dir[root] == 0 || (dir[root] == '/' && !strchr(dir + root + 1, '/'));
}

/* Is this code part of the program itself? Then it may be anybody's, with libportico.a in it, and lie anywhere. */
static int paths_is_program(void)
{
    Dl_info own, program;
    return dladdr(&PATHS_MARK, &own) && dladdr((const void *)(uintptr_t)getauxval(AT_PHDR), &program) &&
           own.dli_fbase == program.dli_fbase;
}

/* The first of the candidates that is there: those of a build tree, or those of an install; and for a program that is
 * not beside them, where they are installed. */
static int paths_find(const char *const *built, const char *const *installed, const char *absolute, char *path,
                      size_t size)
{
    char dir[PATH_MAX];
    if (!paths_own(dir, sizeof dir)) return 0;
    const char *const *candidates = paths_is_build(dir) ? built : installed;
    for (; *candidates; candidates++) {
        int length = snprintf(path, size, "%s/%s", dir, *candidates);
        if (length > 0 && (size_t)length < size && access(path, R_OK | X_OK) == 0) return 1;
    }
    return *absolute && paths_is_program() && access(absolute, R_OK | X_OK) == 0 &&
           (size_t)snprintf(path, size, "%s", absolute) < size;
}

int pco_path_plugins(char *path, size_t size)
{
    /* In a build tree the plugins are in "backends" beside the program, or beside the folder of the tests. */
    static const char *const built[] = {"backends", "../backends", NULL};
    static const char *const installed[] = {PCO_PLUGINS_FROM_BIN, PCO_PLUGINS_FROM_LIB, NULL};
    return paths_find(built, installed, PCO_PLUGINS_INSTALLED, path, size);
}

int pco_path_probe(char *path, size_t size)
{
    static const char *const built[] = {"portico-probe", "../portico-probe", NULL};
    static const char *const installed[] = {PCO_PROBE_FROM_BIN, PCO_PROBE_FROM_LIB, NULL};
    return paths_find(built, installed, PCO_PROBE_INSTALLED, path, size);
}
