#include "runtime/plugin_file.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/paths.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

pco_status pco_plugin_file_trust(const char *path, pco_error *err)
{
    char own[PATH_MAX];
    struct stat st, self = {0};
    if (stat(path, &st) != 0) return pco_fail(err, PCO_ERROR_IO, "%s: cannot stat: %s", path, strerror(errno));
    /* Who can change Portico itself gains nothing from a plugin: its owner, and its group where that may write it. */
    const int known = pco_path_self(own, sizeof own) && stat(own, &self) == 0;
    if (st.st_uid != 0 && st.st_uid != geteuid() && !(known && st.st_uid == self.st_uid))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s belongs to user %lu, who is neither root nor you; take plugins only from whom you trust: copy it",
                        path, (unsigned long)st.st_uid);
    const int group = known && self.st_mode & S_IWGRP && st.st_gid == self.st_gid;
    const mode_t others = S_IWOTH | (group ? 0 : S_IWGRP);
    if (!(st.st_mode & others)) return PCO_OK;
    return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s can be written by others, who could put their own code there; chmod go-w it",
                    path);
}

pco_status pco_plugin_file_identity(const char *path, uint64_t *identity, pco_error *err)
{
    pco_map map;
    const pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    *identity = pco_hash(pco_hash(PCO_HASH_START, path, strlen(path)), map.data, map.size);
    pco_map_close(&map);
    return PCO_OK;
}
