#include "train/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/utf8.h"

static const char *const config_keys[] = {
    "from",
    "lora",
    "model",
    "data",
    "optimizer",
    "schedule",
    "initialization",
    "initial_weights",
    "steps",
    "batch_size",
    "gradient_accumulation_steps",
    "seed",
    "max_grad_norm",
    "label_smoothing",
    "recompute",
    "dtype",
    "loss_scaling",
    "checkpoint_interval",
    "checkpoint_seconds",
    "evaluation_interval",
    "evaluation_batches",
    "out",
};

/* Keys that may differ between a run and its continuation. */
static const char *const config_free[] = {"checkpoint_interval", "checkpoint_seconds", "evaluation_interval",
                                          "evaluation_batches",  "recompute",          "out"};

static pco_status config_no_memory(const char *label, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", label);
}

/* Reading goes on after an error without effect: the first one is kept. */
typedef struct config_reader {
    const cJSON *object;
    const char *label;
    pco_status status;
    pco_error *err;
} config_reader;

static int64_t config_int(config_reader *r, const char *key, int64_t least, int64_t most, int64_t fallback)
{
    int64_t value = fallback;
    if (!r->status) r->status = pco_json_int_or(r->object, r->label, key, least, most, fallback, &value, r->err);
    return value;
}

static double config_number(config_reader *r, const char *key, double least, double most, double fallback)
{
    double value = fallback;
    if (!r->status) r->status = pco_json_number_or(r->object, r->label, key, least, most, fallback, &value, r->err);
    return value;
}

static uint32_t config_enum(config_reader *r, const char *key, const char *const *names, uint32_t count)
{
    uint32_t value = 0;
    if (!r->status) r->status = pco_json_enum_or(r->object, r->label, key, names, count, 0, &value, r->err);
    return value;
}

/* The reader of a member object; an absent one reads as an empty one. */
static config_reader config_member(config_reader *r, const char *key, const char *const *known, uint32_t count)
{
    config_reader member = {cJSON_GetObjectItemCaseSensitive(r->object, key), r->label, r->status, r->err};
    if (!member.status && member.object) {
        member.status = pco_json_known(member.object, r->label, known, count, r->err);
        if (member.status) pco_fail_prefix(r->err, member.status, "'%s'", key);
    }
    return member;
}

static void config_optimizer(config_reader *r, pco_optimizer_config *optimizer)
{
    static const char *const keys[] = {"type", "beta1", "beta2", "eps", "momentum", "weight_decay", "weight_decay_on"};
    static const char *const types[] = {"adamw", "sgd"}, *const on[] = {"matrices", "all"};
    config_reader m = config_member(r, "optimizer", keys, 7);
    optimizer->type = (pco_optimizer_type)config_enum(&m, "type", types, 2);
    optimizer->beta1 = config_number(&m, "beta1", 0, 0.999999, 0.9);
    optimizer->beta2 = config_number(&m, "beta2", 0, 0.999999, 0.999);
    /* the smallest normal f32: with 0, or what f32 makes 0 of, an element that had no gradient yet is 0 / 0
     */
    optimizer->eps = config_number(&m, "eps", 0x1p-126, 1, 1e-8);
    optimizer->momentum = config_number(&m, "momentum", 0, 0.999999, 0);
    optimizer->weight_decay = config_number(&m, "weight_decay", 0, 100, 0.01);
    optimizer->decay_all = (int)config_enum(&m, "weight_decay_on", on, 2);
    r->status = m.status;
}

static void config_schedule(config_reader *r, pco_train_config *config)
{
    static const char *const keys[] = {"type", "learning_rate", "min_learning_rate", "warmup_steps"};
    static const char *const types[] = {"constant", "linear", "cosine", "inverse_sqrt"};
    config_reader m = config_member(r, "schedule", keys, 4);
    pco_schedule *schedule = &config->schedule;
    schedule->type = (pco_schedule_type)config_enum(&m, "type", types, 4);
    schedule->learning_rate =
        config_number(&m, "learning_rate", 0, 1e6, schedule->type == PCO_SCHEDULE_INVERSE_SQRT ? 1 : 1e-3);
    schedule->min_learning_rate = config_number(&m, "min_learning_rate", 0, 1e6, 0);
    schedule->warmup_steps = config_int(&m, "warmup_steps", 0, INT32_MAX, 0);
    schedule->steps = config->steps;
    if (!m.status && schedule->type != PCO_SCHEDULE_INVERSE_SQRT && schedule->warmup_steps > config->steps)
        m.status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: warmup_steps %lld is above steps %lld", r->label,
                            (long long)schedule->warmup_steps, (long long)config->steps);
    if (!m.status && schedule->min_learning_rate > schedule->learning_rate)
        m.status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: min_learning_rate %g is above learning_rate %g", r->label,
                            schedule->min_learning_rate, schedule->learning_rate);
    r->status = m.status;
}

static void config_initialization(config_reader *r, pco_initialization *how)
{
    static const char *const keys[] = {"type", "std", "embedding_std"};
    static const char *const types[] = {"pytorch", "xavier", "normal"};
    config_reader m = config_member(r, "initialization", keys, 3);
    how->type = (pco_initialization_type)config_enum(&m, "type", types, 3);
    how->std = config_number(&m, "std", 1e-9, 100, 0.02); /* with 0 all rows of a matrix stay alike */
    how->embedding_std = config_number(&m, "embedding_std", 0, 100, 0);
    r->status = m.status;
}

static void config_dtype(config_reader *r, pco_train_config *config)
{
    static const char *const keys[] = {"initial", "interval"};
    const char *names[PCO_DTYPE_COUNT];
    pco_dtype types[PCO_DTYPE_COUNT];
    uint32_t count = 0;
    for (uint32_t i = 0; i < PCO_DTYPE_COUNT; i++)
        if (pco_dtype_is_float(i)) names[count] = pco_dtype_name(i), types[count++] = (pco_dtype)i;
    config->dtype = types[config_enum(r, "dtype", names, count)];
    config_reader m = config_member(r, "loss_scaling", keys, 2);
    const int64_t initial = config_int(&m, "initial", 1, 1 << 24, 1 << 16);
    config->scaling.initial = (double)initial;
    config->scaling.interval = config_int(&m, "interval", 1, INT32_MAX, 1000);
    if (!m.status && (initial & (initial - 1)))
        m.status =
            pco_fail(r->err, PCO_ERROR_FORMAT, "%s: 'initial' of loss_scaling is %lld, and must be a power of two",
                     r->label, (long long)initial);
    if (!m.status && m.object && config->dtype != PCO_F16)
        m.status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: loss_scaling is for dtype f16 alone", r->label);
    r->status = m.status;
}

static void config_fields(config_reader *r, pco_train_config *config)
{
    config->steps = config_int(r, "steps", 1, INT32_MAX, 1000);
    config->rows = config_int(r, "batch_size", 1, 1 << 20, 32);
    config->accumulation = config_int(r, "gradient_accumulation_steps", 1, 1 << 20, 1);
    config->seed = (uint64_t)config_int(r, "seed", 0, INT64_C(1) << 53, 0);
    config->max_grad_norm = config_number(r, "max_grad_norm", 0, 1e9, 0);
    config->label_smoothing = config_number(r, "label_smoothing", 0, 0.999, 0);
    config->recompute = (pco_recompute)config_enum(r, "recompute", (const char *const[]){"none", "blocks"}, 2);
    config->checkpoint_interval = config_int(r, "checkpoint_interval", 0, INT32_MAX, 0);
    config->checkpoint_seconds = config_number(r, "checkpoint_seconds", 0, 1e9, 600);
    config->evaluation_interval = config_int(r, "evaluation_interval", 0, INT32_MAX, 0);
    config->evaluation_batches = config_int(r, "evaluation_batches", 0, INT32_MAX, 0);
    config_dtype(r, config);
    config_optimizer(r, &config->optimizer);
    config_schedule(r, config);
    config_initialization(r, &config->initialization);
}

static pco_status config_out(config_reader *r, const char *override, pco_train_config *config)
{
    const char *out = override;
    pco_status status = PCO_OK;
    if (!out) status = pco_json_string(r->object, r->label, "out", &out, r->err);
    if (!status && !*out)
        status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: 'out' is empty; name the folder of the run", r->label);
    if (!status && !(config->out = strdup(out))) status = config_no_memory(r->label, r->err);
    return status;
}

/* "lora", with PEFT's names and defaults. */
static void config_lora(config_reader *r, pco_train_config *config)
{
    static const char *const keys[] = {"r", "lora_alpha", "lora_dropout", "target_modules", "use_rslora"};
    config_reader m = config_member(r, "lora", keys, 5);
    pco_lora_config *lora = &config->lora;
    r->status = m.status;
    if (m.status || !m.object) return;
    if (!cJSON_IsObject(m.object)) {
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: 'lora' must be an object", r->label);
        return;
    }
    lora->params.rank = config_int(&m, "r", 1, 1 << 16, 8);
    lora->params.alpha = config_number(&m, "lora_alpha", 1e-6, 1e6, 8);
    lora->params.dropout = config_number(&m, "lora_dropout", 0, 0.99, 0);
    if (!m.status)
        m.status = pco_json_bool_or(m.object, m.label, "use_rslora", 0, &lora->params.rank_stabilised, m.err);
    const cJSON *targets = cJSON_GetObjectItemCaseSensitive(m.object, "target_modules"), *item;
    const char *all = cJSON_GetStringValue(targets);
    lora->all_linear = all && strcmp(all, "all-linear") == 0;
    if (cJSON_IsArray(targets) && targets->child) lora->targets = targets;
    int good = !targets || cJSON_IsNull(targets) || lora->all_linear || lora->targets;
    cJSON_ArrayForEach(item, lora->targets) good = good && cJSON_IsString(item) && *item->valuestring;
    if (!m.status && !good)
        m.status = pco_fail(r->err, PCO_ERROR_FORMAT,
                            "%s: 'target_modules' of lora must be a list of names (\"q_proj\", ...), or \"all-linear\"",
                            r->label);
    r->status = m.status;
}

/* What goes with a model that is trained further, and what does not. */
static void config_beginning(config_reader *r, const pco_train_config *config)
{
    static const char *const made[] = {"model", "initialization", "initial_weights"}, *const tokenizers[] = {
                                                                                          "tokenizer",
                                                                                          "source_tokenizer",
                                                                                          "target_tokenizer"};
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(r->object, "data");
    for (int i = 0; i < 3 && !r->status && config->from; i++) {
        if (cJSON_GetObjectItemCaseSensitive(r->object, made[i]))
            r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: 'from' excludes '%s': the model is there already",
                                 r->label, made[i]);
        else if (cJSON_GetObjectItemCaseSensitive(data, tokenizers[i]))
            r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: 'from' excludes '%s': the model has its own", r->label,
                                 tokenizers[i]);
    }
    if (r->status || config->from) return;
    if (config->lora.params.rank)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: 'lora' needs 'from', the model beside whose weights the adapters stand", r->label);
    else if (config->data.kind == PCO_DATA_CHAT)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: data of kind 'chat' need 'from', a model with a chat template", r->label);
}

/* A path that the command line gives. malloc'ed. */
static pco_status config_absolute(const char *path, const char *what, char **absolute, pco_error *err)
{
    *absolute = realpath(path, NULL);
    if (!*absolute) return pco_fail(err, PCO_ERROR_IO, "%s cannot be opened: %m", path);
    if (pco_utf8_check(*absolute, strlen(*absolute)) == strlen(*absolute)) return PCO_OK;
    free(*absolute); /* a checkpoint could not say it */
    return pco_fail(err, PCO_ERROR_INVALID, "%s: the path of the %s is not UTF-8; rename it", path, what);
}

/* What the command line says instead of the file. */
static pco_status config_override(cJSON *root, const pco_train_overrides *overrides, const char *path, pco_error *err)
{
    cJSON *data = cJSON_GetObjectItemCaseSensitive(root, "data");
    char *absolute = NULL;
    if (overrides->from) {
        pco_status status = config_absolute(overrides->from, "model", &absolute, err);
        if (status) return status;
        cJSON_DeleteItemFromObjectCaseSensitive(root, "from");
        const int given = cJSON_AddStringToObject(root, "from", absolute) != NULL;
        free(absolute);
        if (!given) return config_no_memory(path, err);
    }
    if (overrides->seed >= 0) {
        cJSON_DeleteItemFromObjectCaseSensitive(root, "seed");
        if (!cJSON_AddNumberToObject(root, "seed", (double)overrides->seed)) return config_no_memory(path, err);
    }
    if (!overrides->data_file) return PCO_OK;
    pco_status status = config_absolute(overrides->data_file, "data", &absolute, err);
    if (status) return status;
    if (!cJSON_IsObject(data) || !cJSON_GetObjectItemCaseSensitive(data, "file")) {
        free(absolute);
        return pco_fail(err, PCO_ERROR_INVALID, "%s: its data come from no file, so --data has no meaning", path);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(data, "file");
    const int given = cJSON_AddStringToObject(data, "file", absolute) != NULL;
    free(absolute);
    return given ? PCO_OK : config_no_memory(path, err);
}

/* A path, from the config's folder. */
static void config_path(config_reader *r, const char *key, const char *folder, char **to)
{
    const char *path = NULL;
    if (!r->status) r->status = pco_json_string_or(r->object, r->label, key, NULL, &path, r->err);
    if (r->status || !path) return;
    if (asprintf(to, "%s%s", path[0] == '/' ? "" : folder, path) >= 0) return;
    *to = NULL;
    r->status = config_no_memory(r->label, r->err);
}

pco_status pco_train_config_load(const char *path, const pco_train_overrides *overrides, pco_train_config *config,
                                 pco_error *err)
{
    *config = (pco_train_config){0};
    pco_status status = pco_json_load(path, &config->root, err);
    if (status) return status;
    const uint32_t n_keys = sizeof config_keys / sizeof *config_keys;
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("");
    config_reader reader = {config->root, path, PCO_OK, err};
    status = pco_json_known(config->root, path, config_keys, n_keys, err);
    if (!status && !folder) status = config_no_memory(path, err);
    if (!status) status = config_override(config->root, overrides, path, err);
    config->model = cJSON_GetObjectItemCaseSensitive(config->root, "model");
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(config->root, "data");
    reader.status = status;
    config_path(&reader, "from", folder, &config->from);
    status = reader.status;
    const int model = config->from ? 1 : cJSON_IsObject(config->model);
    if (!status && (!model || !cJSON_IsObject(data)))
        status = pco_fail(
            err, PCO_ERROR_FORMAT,
            model ? "%s: 'data' must be an object" : "%s: 'model' must be an object, or 'from' name a model", path);
    reader.status = status;
    config_fields(&reader, config);
    config_lora(&reader, config);
    if (!reader.status) reader.status = config_out(&reader, overrides->out, config);
    if (!reader.status) reader.status = pco_data_config_read(data, path, folder, &config->data, err);
    config_path(&reader, "initial_weights", folder, &config->initial_weights);
    config_beginning(&reader, config);
    free(folder);
    if (reader.status) pco_train_config_release(config);
    return reader.status;
}

void pco_train_config_release(pco_train_config *config)
{
    cJSON_Delete(config->root);
    pco_data_config_release(&config->data);
    free(config->out);
    free(config->initial_weights);
    free(config->from);
    *config = (pco_train_config){0};
}

const char *pco_train_config_difference(const cJSON *a, const cJSON *b)
{
    const cJSON *sides[2][2] = {{a, b}, {b, a}};
    for (int side = 0; side < 2; side++) {
        const cJSON *item;
        cJSON_ArrayForEach(item, sides[side][0])
        {
            int is_free = 0;
            for (uint32_t i = 0; i < sizeof config_free / sizeof *config_free; i++)
                is_free |= strcmp(item->string, config_free[i]) == 0;
            const cJSON *other = cJSON_GetObjectItemCaseSensitive(sides[side][1], item->string);
            if (!is_free && (!other || !cJSON_Compare(item, other, 1))) return item->string;
        }
    }
    return NULL;
}

/* ---- the model's config.json ---- */

/* What is added to the document. A part that there is no memory for makes all of it worthless, so that it is
 * kept and asked once. */
typedef struct model_document {
    cJSON *root;
    int failed;
} model_document;

static void model_add(model_document *document, const char *key, cJSON *item)
{
    if (!pco_json_give(document->root, key, item)) document->failed = 1;
}

static void model_add_list(model_document *document, const char *key, char *const *list, uint32_t count)
{
    cJSON *array = cJSON_CreateArray();
    for (uint32_t i = 0; i < count && !document->failed; i++)
        if (!pco_json_give(array, NULL, cJSON_CreateString(list[i]))) document->failed = 1;
    model_add(document, key, array);
}

static int model_says(const model_document *document, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(document->root, key) != NULL;
}

/* Adds a number unless the model says it already. */
static void model_default(model_document *document, const char *key, double value)
{
    if (!model_says(document, key)) model_add(document, key, cJSON_CreateNumber(value));
}

static pco_status model_vocab_size(model_document *document, const char *key, const pco_vocabulary *vocabulary,
                                   pco_error *err)
{
    int64_t said = 0;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(document->root, key);
    if (item && (!pco_json_whole(item, &said) || said != vocabulary->count))
        return pco_fail(err, PCO_ERROR_FORMAT, "the model's %s does not match the tokenizer, which has %u tokens", key,
                        vocabulary->count);
    model_default(document, key, vocabulary->count);
    return PCO_OK;
}

static pco_status model_vocabularies(const pco_train_config *config, const pco_data *data, model_document *document,
                                     pco_error *err)
{
    static const char *const names[3][3] = {{"encoder_vocab_size", "encoder_vocab", "encoder_merges"},
                                            {"decoder_vocab_size", "decoder_vocab", "decoder_merges"},
                                            {"vocab_size", "vocab", "merges"}};
    const int share = config->data.share_vocabulary;
    const pco_vocabulary *target = pco_data_vocabulary(data, 1), *source = pco_data_vocabulary(data, 0);
    const pco_tokenizer_special *a = &source->special, *b = &target->special;
    pco_status status = PCO_OK;
    if (!share && (a->pad != b->pad || a->bos != b->bos || a->eos != b->eos || source->bpe != target->bpe))
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "the two tokenizers must be of one kind and have the same padding, BOS and EOS ids");
    for (int side = share ? 2 : 0; side < (share ? 3 : 2) && !status; side++) {
        const pco_vocabulary *vocabulary = side == 0 ? source : target;
        status = model_vocab_size(document, names[side][0], vocabulary, err);
        model_add_list(document, names[side][1], vocabulary->tokens, vocabulary->count);
        if (vocabulary->bpe) model_add_list(document, names[side][2], vocabulary->merges, vocabulary->merge_count);
    }
    if (!share && !model_says(document, "share_embeddings"))
        model_add(document, "share_embeddings", cJSON_CreateFalse());
    const int text = config->data.kind == PCO_DATA_TEXT; /* nothing marks beginning and end of a window */
    model_default(document, "pad_token_id", text ? -1 : b->pad);
    model_default(document, "bos_token_id", text ? -1 : b->bos);
    model_default(document, "eos_token_id", text ? -1 : b->eos);
    model_default(document, "decoder_start_token_id", text ? -1 : b->bos);
    return status;
}

/* The tokens that training writes itself must be tokens: a label that is none has no loss. */
static pco_status model_check_tokens(const pco_model_spec *model, pco_error *err)
{
    const struct {
        const char *key;
        int64_t id;
    } tokens[] = {{"eos_token_id", model->eos_token_id},
                  {"decoder_start_token_id", model->decoder_start_token_id},
                  {"pad_token_id", model->pad_token_id}};
    for (int i = 0; i < 3 && !model->decoder_only; i++)
        for (int side = 0; side < 2; side++)
            if (tokens[i].id >= model->vocab_size[side])
                return pco_fail(err, PCO_ERROR_FORMAT, "model: %s %lld is no token: the vocabulary has %lld",
                                tokens[i].key, (long long)tokens[i].id, (long long)model->vocab_size[side]);
    return PCO_OK;
}

pco_status pco_train_model_config(const pco_train_config *config, const pco_data *data, cJSON **out,
                                  pco_model_spec *model, pco_error *err)
{
    const int text = config->data.kind == PCO_DATA_TEXT;
    const pco_family *family;
    *out = NULL;
    model_document document = {cJSON_Duplicate(config->model, 1), 0};
    if (!document.root) return config_no_memory("the model's config", err);
    if (!model_says(&document, "model_type"))
        model_add(&document, "model_type", cJSON_CreateString(pco_family_anew()->model_type));
    if (text && !model_says(&document, "is_encoder_decoder"))
        model_add(&document, "is_encoder_decoder", cJSON_CreateFalse());
    model_default(&document, "max_position_embeddings", (double)config->data.context);
    pco_status status = model_vocabularies(config, data, &document, err);
    if (!status && document.failed) status = config_no_memory("the model's config", err);
    if (!status) status = pco_family_of_config(document.root, "model", &family, model, err);
    if (!status && model->decoder_only != text)
        status = pco_fail(err, PCO_ERROR_FORMAT,
                          text ? "model: a text trains a decoder alone: is_encoder_decoder must be false"
                               : "model: pairs and dates train an encoder-decoder: is_encoder_decoder must be true");
    if (!status && !config->data.share_vocabulary && model->share_embeddings)
        status = pco_fail(err, PCO_ERROR_FORMAT, "model: two vocabularies cannot share_embeddings");
    if (!status) status = model_check_tokens(model, err);
    if (!status && (model->norm.eps < 0x1p-126 || model->last_norm.eps < 0x1p-126))
        status = pco_fail(err, PCO_ERROR_FORMAT,
                          "model: '%s' must be at least 1.18e-38 for training: with 0 a row of equal numbers "
                          "becomes 0 / 0",
                          model->norm.eps < 0x1p-126 ? "norm_eps" : "final_norm_eps");
    if (!status && config->data.context > model->max_position_embeddings)
        status = pco_fail(err, PCO_ERROR_FORMAT,
                          "model: max_position_embeddings %lld is below the data's context_length %lld",
                          (long long)model->max_position_embeddings, (long long)config->data.context);
    if (status)
        cJSON_Delete(document.root);
    else
        *out = document.root;
    return status;
}
