#include "models/labels.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pco_labels_destroy(pco_labels *labels)
{
    if (!labels) return;
    for (size_t i = 0; labels->names && i < labels->count; i++) free(labels->names[i]);
    free(labels->names);
    free(labels);
}

/* One name of "id2label", which the caller has by its number; the last one counts. */
static void labels_put(pco_labels *labels, const cJSON *item)
{
    char *end;
    const unsigned long id = strtoul(item->string, &end, 10);
    if (end == item->string || *end || id >= labels->count || !cJSON_IsString(item)) return;
    char *name = strdup(item->valuestring);
    if (!name) return; /* noticed when the others are named */
    free(labels->names[id]);
    labels->names[id] = name;
}

pco_status pco_labels_read(const pco_model_file *file, size_t count, pco_labels **out, pco_error *err)
{
    char *path = NULL;
    cJSON *root = NULL;
    const cJSON *item;
    *out = NULL;
    const pco_status status = pco_json_load_if(file->path, "config.json", &path, &root, err);
    free(path);
    if (status) return status;
    pco_labels *labels = calloc(1, sizeof *labels);
    if (labels) labels->names = calloc(count + 1, sizeof *labels->names);
    if (labels && labels->names) {
        labels->count = count;
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "id2label")) if (item->string)
            labels_put(labels, item);
    }
    int whole = labels && labels->names;
    for (size_t i = 0; whole && i < count; i++)
        if (!labels->names[i] && asprintf(&labels->names[i], "LABEL_%zu", i) < 0) labels->names[i] = NULL, whole = 0;
    cJSON_Delete(root);
    if (!whole) {
        pco_labels_destroy(labels);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the labels of %s", file->path);
    }
    *out = labels;
    return PCO_OK;
}
