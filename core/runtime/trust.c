#include "runtime/trust.h"

#include "base/error.h"
#include "base/paths.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

pco_status pco_trust(const char *path, const char *advice, pco_error *err)
{
    char own[PATH_MAX];
    struct stat st, self = {0};
    if (stat(path, &st) != 0) return pco_fail(err, PCO_ERROR_IO, "%s: cannot stat: %s", path, strerror(errno));
    /* Who can change Portico itself gains nothing from this: its owner, and its group or all others where they may
     * write it (file systems without modes show all files so). */
    const int known = pco_path_self(own, sizeof own) && stat(own, &self) == 0;
    if (st.st_uid != 0 && st.st_uid != geteuid() && !(known && st.st_uid == self.st_uid))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s belongs to user %lu, who is neither root nor you; %s", path,
                        (unsigned long)st.st_uid, advice);
    const int all = known && self.st_mode & S_IWOTH;
    const int group = known && self.st_mode & S_IWGRP && st.st_gid == self.st_gid;
    const mode_t others = all ? 0 : S_IWOTH | (group ? 0 : S_IWGRP);
    if (!(st.st_mode & others)) return PCO_OK;
    return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                    "%s can be written by others, who could put their own code there; chmod go-w it", path);
}
