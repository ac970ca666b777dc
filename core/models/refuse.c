#include "models/refuse.h"

#include "base/error.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* How the advice goes on behind "PATH is ". */
static const char REFUSE_PICKLE[] =
    "a PyTorch checkpoint, and does not say of what model; put it into a folder as pytorch_model.bin, with a "
    "config.json "
    "beside it, and give the folder, or convert a language model to GGUF (llama.cpp's convert_hf_to_gguf.py)";
static const char REFUSE_ONNX[] =
    "an ONNX graph, which takes and gives arrays and not text; 'portico onnx' runs it. For text give the model that it "
    "was exported from: a GGUF file, or a folder with config.json and model.safetensors";
static const char REFUSE_GGML[] = "a GGML file, of the time before GGUF; convert the original model to GGUF "
                                  "(llama.cpp's convert_hf_to_gguf.py)";
static const char REFUSE_HDF5[] = "an HDF5 file, as Keras writes them; save its tensors as safetensors beside a "
                                  "config.json";

/* How files begin. Zip archives are PyTorch's since 1.6; a lone pickle was before. */
static const struct {
    const char *magic;
    size_t size;
    const char *what;
} refuse_magics[] = {
    {"PK\3\4", 4, REFUSE_PICKLE}, {"\x80\2", 2, REFUSE_PICKLE}, {"\x80\4", 2, REFUSE_PICKLE}, {"lmgg", 4, REFUSE_GGML},
    {"fmgg", 4, REFUSE_GGML},     {"tjgg", 4, REFUSE_GGML},     {"\x89HDF", 4, REFUSE_HDF5},
};

/* How the names of files end whose content does not tell. */
static const struct {
    const char *end, *what;
} refuse_ends[] = {{".onnx", REFUSE_ONNX},  {".pt", REFUSE_PICKLE},   {".pth", REFUSE_PICKLE},
                   {".bin", REFUSE_PICKLE}, {".ckpt", REFUSE_PICKLE}, {".pkl", REFUSE_PICKLE}};

static int refuse_ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), tail = strlen(end);
    return length > tail && strcasecmp(name + length - tail, end) == 0;
}

static int refuse_there(const char *folder, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", folder, name) < 0) return 0;
    const int there = access(path, F_OK) == 0;
    free(path);
    return there;
}

/* The folder that the file lies in, malloc'ed. */
static char *refuse_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup(".");
}

/* Weights without the description of their model. */
static pco_status refuse_safetensors(const char *path, pco_error *err)
{
    char *folder = refuse_folder_of(path);
    if (!folder) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
    if (refuse_there(folder, "config.json"))
        pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s holds the weights of a model; give its folder instead: %s", path,
                 folder);
    else
        pco_fail(err, PCO_ERROR_UNSUPPORTED,
                 "%s holds weights, and a safetensors file alone does not say of what model; put it into a folder as "
                 "model.safetensors, with a config.json beside it, and give the folder",
                 path);
    free(folder);
    return PCO_ERROR_UNSUPPORTED;
}

static pco_status refuse_content(const char *path, const pco_map *map, pco_error *err)
{
    if (map->size == 0) return pco_fail(err, PCO_ERROR_FORMAT, "%s is empty; copy or download it again", path);
    if (refuse_ends_with(path, ".safetensors") || (map->size >= 9 && map->data[8] == '{'))
        return refuse_safetensors(path, err);
    for (size_t i = 0; i < sizeof refuse_magics / sizeof *refuse_magics; i++)
        if (map->size >= refuse_magics[i].size && memcmp(map->data, refuse_magics[i].magic, refuse_magics[i].size) == 0)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s is %s", path, refuse_magics[i].what);
    for (size_t i = 0; i < sizeof refuse_ends / sizeof *refuse_ends; i++)
        if (refuse_ends_with(path, refuse_ends[i].end))
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s is by its name %s", path, refuse_ends[i].what);
    return pco_fail(err, PCO_ERROR_FORMAT,
                    "%s is neither a GGUF file nor a folder with config.json and model.safetensors", path);
}

pco_status pco_model_refuse(const char *path, pco_error *err)
{
    pco_map map;
    pco_status status = pco_map_open(path, &map, err);
    if (!status) status = refuse_content(path, &map, err);
    pco_map_close(&map);
    return status;
}

/* What else than model.safetensors holds the weights of a folder? NULL for nothing that is known. */
static const char *refuse_weights(const char *folder, char *name, size_t size)
{
    static const struct {
        const char *end, *advice;
    } kinds[] = {
        {".gguf", "a model by itself; give that file"},
        {".safetensors.index.json", "not by that name; call it model.safetensors.index.json"},
        {".bin", REFUSE_PICKLE},
        {".pt", REFUSE_PICKLE},
        {".pth", REFUSE_PICKLE},
        {".onnx", REFUSE_ONNX},
        {".safetensors", "not by that name; call it model.safetensors if it holds all weights"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        DIR *list = opendir(folder);
        const struct dirent *entry;
        const char *advice = NULL;
        while (list && !advice && (entry = readdir(list)))
            if (refuse_ends_with(entry->d_name, kinds[i].end)) {
                snprintf(name, size, "%s", entry->d_name);
                advice = kinds[i].advice;
            }
        if (list) closedir(list);
        if (advice) return advice;
    }
    return NULL;
}

char *pco_model_find_weights(const char *folder)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"};
    char *path = NULL;
    for (int i = 0; i < 3; i++)
        if (refuse_there(folder, names[i])) return asprintf(&path, "%s/%s", folder, names[i]) < 0 ? NULL : path;
    return NULL;
}

pco_status pco_model_find_other(const char *folder, char **path, pco_error *err)
{
    static const char *const names[] = {"model.bin", "model.gguf", "adapter_config.json"};
    char *weights = pco_model_find_weights(folder);
    pco_status status = PCO_OK;
    *path = NULL;
    for (int i = 0; !weights && !status && !*path && i < 3; i++) status = pco_file_find(folder, names[i], path, err);
    free(weights);
    return status;
}

pco_status pco_model_check_folder(const char *path, pco_error *err)
{
    char name[256];
    const int config = refuse_there(path, "config.json"),
              weights = refuse_there(path, "model.safetensors") || refuse_there(path, "model.safetensors.index.json") ||
                        refuse_there(path, "pytorch_model.bin");
    if (config && weights) return PCO_OK;
    const char *missing = config    ? "model.safetensors"
                          : weights ? "config.json"
                                    : "config.json and no model.safetensors";
    const char *advice = weights ? NULL : refuse_weights(path, name, sizeof name);
    if (!advice)
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no %s; a model is a folder with both, or a GGUF file", path,
                        missing);
    return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no %s; %s in it is %s", path, missing, name, advice);
}

pco_status pco_model_check_kind(const char *path, const pco_gguf *gguf, pco_error *err)
{
    const char *type = "model";
    pco_status status = pco_gguf_text_or(gguf, "general.type", type, &type, err);
    if (!status && strcmp(type, "model") != 0)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s holds no model by itself (key 'general.type' is '%s'); give the model that it is for", path,
                        type);
    return status;
}
