#include "models/sentence.h"

#include "base/error.h"
#include "formats/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pco_status sentence_pooling(const cJSON *root, const char *label, pco_sentence *sentence, pco_error *err)
{
    static const struct {
        const char *key, *mode;
        int output; /* -1: not there */
    } modes[] = {{"pooling_mode_cls_token", "cls", PCO_ENCODER_CLS},
                 {"pooling_mode_mean_tokens", "mean", PCO_ENCODER_MEAN},
                 {"pooling_mode_lasttoken", "lasttoken", PCO_ENCODER_LAST},
                 {"pooling_mode_max_tokens", "max", -1},
                 {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", -1},
                 {"pooling_mode_weightedmean_tokens", "weightedmean", -1}};
    const char *mode = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "pooling_mode"));
    int found = 0;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (mode ? strcmp(mode, modes[i].mode) != 0
                 : !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(root, modes[i].key)))
            continue;
        if (modes[i].output < 0 || found++)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "%s: pooling by '%s'%s, which Portico does not have; it has mean, cls and last", label,
                            modes[i].mode, found > 1 ? " beside another" : "");
        sentence->pooling = (pco_encoder_output)modes[i].output;
    }
    if (found) return PCO_OK;
    return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                    "%s: a kind of pooling that Portico does not know; it has mean, cls and "
                    "last",
                    label);
}

static int sentence_plain(const char *part) { return part && *part && !strchr(part, '/') && strcmp(part, "..") != 0; }

/* One module: what follows the last dot of its type. */
static pco_status sentence_module(const char *folder, const cJSON *module, const char *label, pco_sentence *sentence,
                                  pco_error *err)
{
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(module, "type"));
    const char *part = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(module, "path"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    const char *name = dot ? dot + 1 : type ? type : "";
    char *path, *config;
    cJSON *root;
    if (strcmp(name, "Transformer") == 0) return PCO_OK;
    if (strcmp(name, "Normalize") == 0) {
        sentence->normalize = 1;
        return PCO_OK;
    }
    if (strcmp(name, "Pooling") != 0)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: a module of type '%s'; Portico has Transformer, Pooling and Normalize", label, name);
    if (!sentence_plain(part))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: the path of the pooling is no name of a folder", label);
    if (asprintf(&config, "%s/config.json", part) < 0)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", label);
    pco_status status = pco_json_load_if(folder, config, &path, &root, err);
    if (!status && !root) status = pco_fail(err, PCO_ERROR_NOT_FOUND, "%s/%s is missing", folder, config);
    if (!status) status = sentence_pooling(root, path, sentence, err);
    cJSON_Delete(root);
    free(path);
    free(config);
    return status;
}

pco_status pco_sentence_read(const char *folder, pco_sentence *sentence, pco_error *err)
{
    char *label;
    cJSON *modules, *config = NULL;
    const cJSON *module;
    *sentence = (pco_sentence){.pooling = PCO_ENCODER_MEAN};
    pco_status status = pco_json_load_if(folder, "modules.json", &label, &modules, err);
    cJSON_ArrayForEach(module, modules) if (!status) status = sentence_module(folder, module, label, sentence, err);
    cJSON_Delete(modules);
    free(label);
    if (status) return status;
    status = pco_json_load_if(folder, "sentence_bert_config.json", &label, &config, err);
    if (!status && config) {
        pco_json_reader reader = {.root = config, .label = label, .err = err};
        sentence->max_tokens = pco_json_read_int(&reader, "max_seq_length", 1, 1 << 24, 0);
        if (pco_json_read_bool(&reader, "do_lower_case", 0))
            reader.status = pco_fail(err, PCO_ERROR_UNSUPPORTED,
                                     "%s: 'do_lower_case' is true; Portico leaves that to the tokenizer", label);
        status = reader.status;
    }
    cJSON_Delete(config);
    free(label);
    return status;
}
