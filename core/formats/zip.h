/* The list of a zip archive's files, stored without compression, as torch.save writes them. The format: PKWARE's
 * APPNOTE 6.3.9, sections 4.3 and 4.4. */
#ifndef PCO_FORMATS_ZIP_H
#define PCO_FORMATS_ZIP_H

#include "portico/plugin.h"

#include <stddef.h>

typedef struct pco_zip_entry {
    const char *name; /* [name_size], in the archive's memory */
    uint32_t name_size;
    uint64_t size;
    const void *data;
} pco_zip_entry;

typedef struct pco_zip {
    pco_zip_entry *entries; /* sorted by name */
    uint32_t count;
} pco_zip;

/* Give it to free(zip->entries). Errors: FORMAT for an archive that is damaged; UNSUPPORTED for compressed or encrypted
 * files; OUT_OF_HOST_MEMORY. */
pco_status pco_zip_read(const void *data, size_t size, const char *label, pco_zip *zip, pco_error *err) PCO_NODISCARD;

/* NULL when there is none. */
const pco_zip_entry *pco_zip_find(const pco_zip *zip, const char *name, size_t size);

#endif
