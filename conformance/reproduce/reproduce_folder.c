/* Folders that appear whole or not at all. */
#include "reproduce/reproduce.h"

#include "base/error.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file that makes a folder a reproducer, and its first word. */
static const char MARK_FILE[] = "README.txt", MARK[] = "Reproducer";

/* Folders of reproducers are flat. */
static void conf_folder_remove(const char *path)
{
    char name[1400];
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL) {
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        unlink(name); /* fails for . and .. */
    }
    if (folder) closedir(folder);
    rmdir(path);
}

static bool conf_folder_is_reproducer(const char *path)
{
    char name[1400], first[sizeof MARK] = "";
    snprintf(name, sizeof name, "%s/%s", path, MARK_FILE);
    FILE *file = fopen(name, "r");
    if (!file) return false;
    size_t got = fread(first, 1, sizeof MARK - 1, file);
    fclose(file);
    return got == sizeof MARK - 1 && memcmp(first, MARK, got) == 0;
}

/* Creates all folders above the last name of `path`. */
static pco_status conf_folder_parents(const char *path, pco_error *err)
{
    char name[1024];
    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        snprintf(name, sizeof name, "%.*s", (int)(at - path), path);
        if (mkdir(name, 0777) != 0 && errno != EEXIST)
            return pco_fail(err, PCO_ERROR_IO, "%s: the folder cannot be created: %s", name, strerror(errno));
    }
    return PCO_OK;
}

pco_status conf_folder_create(conf_folder *folder, const char *target, pco_error *err)
{
    struct stat st;
    memset(folder, 0, sizeof *folder);
    if (strlen(target) + 1 > sizeof folder->target || !*target)
        return pco_fail(err, PCO_ERROR_INVALID, "a folder's name of %zu characters", strlen(target));
    snprintf(folder->target, sizeof folder->target, "%s", target);
    for (size_t end = strlen(folder->target); end > 1 && folder->target[end - 1] == '/';) folder->target[--end] = 0;
    if (lstat(folder->target, &st) == 0 && !conf_folder_is_reproducer(folder->target))
        return pco_fail(err, PCO_ERROR_INVALID, "%s exists and is no reproducer; remove it or name another folder",
                        folder->target);
    pco_status status = conf_folder_parents(folder->target, err);
    if (status) return status;
    const char *slash = strrchr(folder->target, '/'), *name = slash ? slash + 1 : folder->target;
    snprintf(folder->scratch, sizeof folder->scratch, "%.*s.%.200s.XXXXXX", (int)(name - folder->target),
             folder->target, name);
    if (mkdtemp(folder->scratch) && chmod(folder->scratch, 0755) == 0) return PCO_OK;
    status =
        pco_fail(err, PCO_ERROR_IO, "%s: a folder beside it cannot be created: %s", folder->target, strerror(errno));
    folder->scratch[0] = 0;
    return status;
}

pco_status conf_folder_write(const conf_folder *folder, const char *name, const void *data, size_t bytes,
                             pco_error *err)
{
    char path[1400];
    snprintf(path, sizeof path, "%s/%s", folder->scratch, name);
    return pco_file_write(path, data, bytes, err);
}

pco_status conf_folder_save(const conf_folder *folder, const char *name, const pco_writer *text, pco_error *err)
{
    char path[1400];
    snprintf(path, sizeof path, "%s/%s", folder->scratch, name);
    return pco_writer_save(text, path, err);
}

static void conf_folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) fsync(fd), close(fd);
}

pco_status conf_folder_finish(conf_folder *folder, pco_error *err)
{
    char old[sizeof folder->scratch + 8];
    struct stat st;
    conf_folder_sync(folder->scratch);
    snprintf(old, sizeof old, "%s.old", folder->scratch);
    bool replaces = lstat(folder->target, &st) == 0;
    if ((replaces && rename(folder->target, old) != 0) || rename(folder->scratch, folder->target) != 0) {
        pco_status status =
            pco_fail(err, PCO_ERROR_IO, "%s: cannot be put in place: %s", folder->target, strerror(errno));
        if (replaces && lstat(folder->target, &st) != 0 && rename(old, folder->target) != 0)
            return pco_fail_prefix(err, status, "what was there is now %s", old);
        return status;
    }
    if (replaces) conf_folder_remove(old);
    folder->scratch[0] = 0;
    return PCO_OK;
}

void conf_folder_destroy(conf_folder *folder)
{
    if (folder->scratch[0]) conf_folder_remove(folder->scratch);
    folder->scratch[0] = 0;
}
