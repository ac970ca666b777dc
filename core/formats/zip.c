#include "formats/zip.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { ZIP_END = 22, ZIP_END64 = 56, ZIP_LOCATOR = 20, ZIP_CENTRAL = 46, ZIP_LOCAL = 30, ZIP_COMMENT = 65535 };

static uint64_t zip_number(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)p[i] << (8 * i);
    return value;
}

static int zip_compare_names(const char *a, size_t a_size, const char *b, size_t b_size)
{
    const int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int zip_compare(const void *a, const void *b)
{
    const pco_zip_entry *x = a, *y = b;
    return zip_compare_names(x->name, x->name_size, y->name, y->name_size);
}

static pco_status zip_damaged(const char *label, const char *what, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: the zip archive is damaged or cut off: %s", label, what);
}

/* Where the list begins and how many it has, from the record at the end. */
static int zip_end(const unsigned char *data, size_t size, uint64_t *at, uint64_t *count)
{
    if (size < ZIP_END) return 0;
    const size_t most = size - ZIP_END < ZIP_COMMENT ? size - ZIP_END : ZIP_COMMENT;
    for (size_t back = 0; back <= most; back++) {
        const unsigned char *end = data + size - ZIP_END - back;
        if (memcmp(end, "PK\5\6", 4) != 0) continue;
        *count = zip_number(end + 10, 2);
        *at = zip_number(end + 16, 4);
        const size_t before = (size_t)(end - data);
        if (before < ZIP_LOCATOR || memcmp(end - ZIP_LOCATOR, "PK\6\7", 4) != 0) return 1;
        const uint64_t wide = zip_number(end - ZIP_LOCATOR + 8, 8);
        if (size < ZIP_END64 || wide > size - ZIP_END64 || memcmp(data + wide, "PK\6\6", 4) != 0) return 0;
        *count = zip_number(data + wide + 32, 8);
        *at = zip_number(data + wide + 48, 8);
        return 1;
    }
    return 0;
}

/* The 8-byte numbers of an entry that does not fit into 4: size, size in the archive, offset, as far as they are there.
 */
static int zip_wide(const unsigned char *extra, size_t size, uint64_t *plain, uint64_t *packed, uint64_t *offset)
{
    uint64_t *const fields[] = {plain, packed, offset};
    while (size >= 4) {
        const size_t bytes = (size_t)zip_number(extra + 2, 2);
        if (bytes > size - 4) return 0;
        if (zip_number(extra, 2) == 1) {
            size_t used = 0;
            for (int i = 0; i < 3; i++) {
                if (*fields[i] != UINT32_MAX) continue;
                if (bytes - used < 8) return 0;
                *fields[i] = zip_number(extra + 4 + used, 8);
                used += 8;
            }
        }
        extra += 4 + bytes;
        size -= 4 + bytes;
    }
    return 1;
}

/* The entry at *at of the list; *at moves on. */
static pco_status zip_entry(const unsigned char *data, size_t size, uint64_t *at, const char *label,
                            pco_zip_entry *entry, pco_error *err)
{
    if (size < ZIP_CENTRAL || *at > size - ZIP_CENTRAL || memcmp(data + *at, "PK\1\2", 4) != 0)
        return zip_damaged(label, "its list of files", err);
    const unsigned char *p = data + *at;
    const unsigned flags = (unsigned)zip_number(p + 8, 2), method = (unsigned)zip_number(p + 10, 2);
    uint64_t packed = zip_number(p + 20, 4), plain = zip_number(p + 24, 4), offset = zip_number(p + 42, 4);
    const size_t name = (size_t)zip_number(p + 28, 2), extra = (size_t)zip_number(p + 30, 2),
                 comment = (size_t)zip_number(p + 32, 2);
    if (name + extra + comment > size - *at - ZIP_CENTRAL ||
        !zip_wide(p + ZIP_CENTRAL + name, extra, &plain, &packed, &offset))
        return zip_damaged(label, "its list of files", err);
    if (method || (flags & 1) || packed != plain)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s is a zip archive with compressed or encrypted files, which torch.save does not write; "
                        "unpack it if it is an archive of several files",
                        label);
    if (size < ZIP_LOCAL || offset > size - ZIP_LOCAL || memcmp(data + offset, "PK\3\4", 4) != 0)
        return zip_damaged(label, "a file's place", err);
    const uint64_t begin = offset + ZIP_LOCAL + zip_number(data + offset + 26, 2) + zip_number(data + offset + 28, 2);
    if (begin > size || plain > size - begin) return zip_damaged(label, "a file's size", err);
    *entry = (pco_zip_entry){(const char *)p + ZIP_CENTRAL, (uint32_t)name, plain, data + begin};
    *at += ZIP_CENTRAL + name + extra + comment;
    return PCO_OK;
}

pco_status pco_zip_read(const void *data, size_t size, const char *label, pco_zip *zip, pco_error *err)
{
    uint64_t at, count;
    *zip = (pco_zip){0};
    if (!zip_end(data, size, &at, &count)) return zip_damaged(label, "its end", err);
    if (count > size / ZIP_CENTRAL || count > UINT32_MAX) return zip_damaged(label, "its list of files", err);
    zip->entries = malloc((size_t)(count + 1) * sizeof *zip->entries);
    if (!zip->entries) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", label);
    pco_status status = PCO_OK;
    for (; !status && zip->count < count; zip->count += !status)
        status = zip_entry(data, size, &at, label, &zip->entries[zip->count], err);
    if (status) {
        free(zip->entries);
        *zip = (pco_zip){0};
        return status;
    }
    qsort(zip->entries, zip->count, sizeof *zip->entries, zip_compare);
    return PCO_OK;
}

const pco_zip_entry *pco_zip_find(const pco_zip *zip, const char *name, size_t size)
{
    uint32_t low = 0, high = zip->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const pco_zip_entry *entry = &zip->entries[middle];
        const int side = zip_compare_names(name, size, entry->name, entry->name_size);
        if (side == 0) return entry;
        if (side < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
