#include "formats/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "base/error.h"
#include "formats/json.h"
#include "formats/safetensors.h"

static const char shards_index[] = "model.safetensors.index.json";

/* Hubs split models into at most some hundred files. */
enum { SHARDS_MOST = 4096 };

static int shards_is_index(const char *path) { return pco_text_ends(path, shards_index); }

/* What an index names, as far as it was read. */
typedef struct shards_state {
    const char *path;   /* of the index */
    const cJSON *map;   /* weight_map */
    const char **files; /* the names of the shards, each once, in the order of the map; the document's */
    uint32_t count;
    uint32_t *ends;       /* how many tensors there are up to the end of each */
    pco_weights *weights; /* of the shards that were opened */
} shards_state;

static pco_status shards_no_memory(const char *path, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for the list of files", path);
}

/* Collects the names of files. A shard lies beside its index: nothing else of the machine is opened. */
static pco_status shards_names(shards_state *s, pco_error *err)
{
    for (const cJSON *item = s->map->child; item; item = item->next) {
        const char *name = cJSON_GetStringValue(item);
        uint32_t i = 0;
        if (!name || !*name || *name == '.' || strchr(name, '/'))
            return pco_fail(
                err, PCO_ERROR_FORMAT,
                "%s: 'weight_map' says that '%.200s' is in '%.200s'; it must be the name of a file beside it", s->path,
                item->string, name ? name : "no text");
        while (i < s->count && strcmp(s->files[i], name) != 0) i++;
        if (i < s->count) continue;
        if (s->count == SHARDS_MOST)
            return pco_fail(err, PCO_ERROR_FORMAT, "%s names more than %d files", s->path, SHARDS_MOST);
        const char **files = realloc(s->files, (s->count + 1) * sizeof *files);
        if (!files) return shards_no_memory(s->path, err);
        s->files = files;
        s->files[s->count++] = name;
    }
    return PCO_OK;
}

/* Each tensor that the map names must be in the file that it says, and no other tensors may be there. */
static pco_status shards_check(const shards_state *s, pco_error *err)
{
    uint32_t named = 0;
    for (const cJSON *item = s->map->child; item; item = item->next, named++) {
        const pco_weight *weight = pco_weights_find(s->weights, item->string);
        uint32_t shard = 0;
        while (weight && weight - s->weights->items >= s->ends[shard]) shard++;
        if (!weight || strcmp(s->files[shard], item->valuestring) != 0)
            return pco_fail(
                err, PCO_ERROR_FORMAT, "%s: 'weight_map' says that tensor '%.200s' is in %s, and it is %s%s", s->path,
                item->string, item->valuestring, weight ? "in " : "not there", weight ? s->files[shard] : "");
    }
    if (named != s->weights->count)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: 'weight_map' names %u tensors, and its files hold %u", s->path,
                        named, s->weights->count);
    return PCO_OK;
}

static pco_status shards_read(shards_state *s, pco_error *err)
{
    const int folder = (int)(strlen(s->path) - (sizeof shards_index - 1));
    pco_status status = shards_names(s, err);
    if (!status && !(s->ends = malloc(((size_t)s->count + 1) * sizeof *s->ends))) return shards_no_memory(s->path, err);
    for (uint32_t i = 0; i < s->count && !status; i++) {
        pco_weights *shard = NULL;
        char *path = NULL;
        if (asprintf(&path, "%.*s%s", folder, s->path, s->files[i]) < 0) return shards_no_memory(s->path, err);
        status = pco_safetensors_open(path, &shard, err);
        free(path);
        if (!status) status = pco_weights_join(s->weights, shard, err);
        if (status) pco_weights_close(shard);
        s->ends[i] = s->weights->count;
    }
    if (!status) status = pco_weights_index(s->weights, err);
    return status ? status : shards_check(s, err);
}

pco_status pco_shards_open(const char *path, pco_weights **weights, pco_error *err)
{
    *weights = NULL;
    if (!shards_is_index(path)) return pco_safetensors_open(path, weights, err);
    cJSON *root;
    pco_status status = pco_json_load(path, &root, err);
    if (status) return status;
    shards_state state = {.path = path, .map = cJSON_GetObjectItemCaseSensitive(root, "weight_map")};
    state.weights = pco_weights_create(path);
    if (!state.weights)
        status = shards_no_memory(path, err);
    else if (!cJSON_IsObject(state.map))
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s has no 'weight_map', an object of tensors and their files", path);
    else
        status = shards_read(&state, err);
    free(state.files);
    free(state.ends);
    cJSON_Delete(root);
    if (status)
        pco_weights_close(state.weights);
    else
        *weights = state.weights;
    return status;
}
