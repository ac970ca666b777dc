/* Every reader of formats/, the tokenizer loader and what `portico inspect` does with a file or a config.json, on bytes
 * from anywhere: none may crash, hang or read out of bounds. Alone, it mutates valid files itself, the same way each
 * time: fuzz_formats [rounds (20000)] [more seed files ...]
 * every prefix of each small seed and every four bytes of it as 0 and as 2^32 - 1, then `rounds` times a few changed
 * bytes. What inspect prints goes nowhere. With libFuzzer, one reader at a time (FUZZ_READERS): scripts/fuzz, which
 * begins with the seeds that `fuzz_formats --seeds FOLDER` writes there. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/llama2c_builder.h"
#include "../unit/model_builder.h"
#include "base/dtype.h"
#include "base/file.h"
#include "cli/inspect.h"
#include "formats/ct2.h"
#include "formats/json.h"
#include "formats/llama2c.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "formats/torch_file.h"
#include "text/tokenizer.h"
#include "fuzz_files.h"

enum fuzz_reader {
    FUZZ_SAFETENSORS = 1,
    FUZZ_CT2 = 2,
    FUZZ_TORCH = 4,
    FUZZ_GGUF = 8,
    FUZZ_NPY = 16,
    FUZZ_JSON = 32,
    FUZZ_INSPECT = 64,  /* config.json among others */
    FUZZ_LLAMA2C = 128, /* a checkpoint, and behind the last of its bytes its tokenizer */
    FUZZ_ALL = 255
};
#ifndef FUZZ_READERS
#define FUZZ_READERS FUZZ_ALL
#endif

/* Touches every byte that a reader says is there; memcmp does, and a sanitizer sees it do so at once. */
static int fuzz_touch_bytes(const void *data, size_t size)
{
    const void *volatile same = data;
    return size && memcmp(data, same, size) != 0;
}

static int fuzz_touch(const pco_weights *weights)
{
    int sum = 0;
    for (uint32_t i = 0; i < weights->count; i++) {
        const pco_weight *weight = &weights->items[i];
        if (pco_weights_find(weights, weight->name) != weight) abort();
        if (weight->data) sum += fuzz_touch_bytes(weight->data, weight->bytes);
    }
    return sum;
}

static void fuzz_tokenizer(const pco_gguf *gguf)
{
    static const char text[] = "<s> Hello,  w\xC3\xB6rld \xFF\n's 12<|end|>ab";
    pco_tokenizer *tokenizer;
    pco_error err;
    int32_t *ids;
    size_t count, size;
    char *back;
    if (pco_tokenizer_from_gguf(gguf, &tokenizer, &err)) return;
    for (uint32_t flags = 0; flags < 8; flags++) {
        if (pco_tokenizer_encode(tokenizer, text, sizeof text - 1, flags, &ids, &count, &err)) continue;
        if (pco_tokenizer_decode(tokenizer, ids, count, &back, &size, &err)) abort();
        free(back);
        free(ids);
    }
    pco_tokenizer_destroy(tokenizer);
}

/* The last four bytes say how many of the file are the tokenizer's. */
static int fuzz_llama2c(const uint8_t *data, size_t size)
{
    uint32_t tokens = 0;
    pco_gguf *gguf;
    pco_error err;
    if (size < sizeof tokens) return 0;
    size -= sizeof tokens;
    memcpy(&tokens, data + size, sizeof tokens);
    if (tokens > size) tokens = 0;
    if (pco_llama2c_parse(data, size - tokens, tokens ? data + size - tokens : NULL, tokens, "fuzz", &gguf, &err))
        return 0;
    const int sum = fuzz_touch(pco_gguf_weights(gguf));
    fuzz_tokenizer(gguf);
    pco_gguf_close(gguf);
    return sum;
}

/* The file under test as a path, and a model folder whose config.json it is. */
static struct {
    int file;
    char path[64], folder[64];
} fuzz_files;

static void fuzz_end(void)
{
    static const char *const names[] = {"config.json", "model.safetensors"};
    char name[128];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s/%s", fuzz_files.folder, names[i]);
        unlink(name);
    }
    rmdir(fuzz_files.folder);
}

static void fuzz_begin(void)
{
    char name[128];
    size_t size;
    pco_error err;
    void *weights = build_transformer_weights(&size);
    fuzz_files.file = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(fuzz_files.path, sizeof fuzz_files.path, "/proc/self/fd/%d", fuzz_files.file);
    snprintf(fuzz_files.folder, sizeof fuzz_files.folder, "/tmp/portico-fuzz-XXXXXX");
    if (!weights || fuzz_files.file < 0 || !mkdtemp(fuzz_files.folder) || !freopen("/dev/null", "w", stdout)) abort();
    snprintf(name, sizeof name, "%s/model.safetensors", fuzz_files.folder);
    if (pco_file_write(name, weights, size, &err)) abort();
    snprintf(name, sizeof name, "%s/config.json", fuzz_files.folder);
    if (symlink(fuzz_files.path, name)) abort();
    free(weights);
    atexit(fuzz_end);
}

/* As the config of a folder where it is an object, which by itself is refused by its first byte; else by itself. */
static void fuzz_inspect(const uint8_t *data, size_t size)
{
    const char *path = size && *data == '{' ? fuzz_files.folder : fuzz_files.path;
    inspect_file file;
    pco_error err;
    if (ftruncate(fuzz_files.file, 0) || pwrite(fuzz_files.file, data, size, 0) != (ssize_t)size) abort();
    if (inspect_open(path, 0, &file, &err)) return;
    inspect_print(&file, NULL);
    inspect_json(&file, NULL);
    if (file.model && inspect_dot(&file, &err)) abort();
    inspect_close(&file);
}

static int fuzz_input(const uint8_t *data, size_t size)
{
    pco_error err;
    pco_weights *weights;
    pco_gguf *gguf;
    pco_npy npy;
    cJSON *root;
    volatile int sum = 0;
    if (FUZZ_READERS & FUZZ_SAFETENSORS && !pco_safetensors_parse(data, size, "fuzz", &weights, &err)) {
        sum += fuzz_touch(weights);
        pco_weights_close(weights);
    }
    if (FUZZ_READERS & FUZZ_CT2 && !pco_ct2_parse(data, size, "fuzz", &weights, &err)) {
        sum += fuzz_touch(weights);
        pco_weights_close(weights);
    }
    if (FUZZ_READERS & FUZZ_TORCH && !pco_torch_parse(data, size, "fuzz", &weights, &err)) {
        sum += fuzz_touch(weights);
        pco_weights_close(weights);
    }
    for (uint32_t flags = 0; FUZZ_READERS & FUZZ_GGUF && flags < 2; flags++) {
        if (pco_gguf_parse(data, size, "fuzz", flags, &gguf, &err)) continue;
        sum += fuzz_touch(pco_gguf_weights(gguf));
        fuzz_tokenizer(gguf);
        pco_gguf_close(gguf);
    }
    if (FUZZ_READERS & FUZZ_NPY && !pco_npy_parse(data, size, "fuzz", &npy, &err))
        sum += fuzz_touch_bytes(npy.array.data, npy.array.bytes);
    if (FUZZ_READERS & FUZZ_JSON && !pco_json_parse((const char *)data, size, "fuzz", &root, &err)) cJSON_Delete(root);
    if (FUZZ_READERS & FUZZ_LLAMA2C) sum += fuzz_llama2c(data, size);
    if (FUZZ_READERS & FUZZ_INSPECT) fuzz_inspect(data, size);
    (void)sum;
    return 0;
}

#ifdef PCO_LIBFUZZER

FUZZ_INITIALIZE(fuzz_begin)

#else

typedef struct seed {
    unsigned char *data;
    size_t size;
} seed;

static seed fuzz_copy(const void *data, size_t size)
{
    seed copy = {malloc(size + 1), size};
    if (!copy.data) abort();
    memcpy(copy.data, data, size);
    return copy;
}

static seed fuzz_safetensors_seed(void)
{
    static const float data[6] = {1, 2, 3};
    pco_weight tensors[] = {{.name = (char *)"a", .dtype = PCO_F32, .rank = 2, .shape = {2, 3}, .data = data},
                            {.name = (char *)"b", .dtype = PCO_F16, .rank = 1, .shape = {3}, .data = data}};
    pco_weights_note notes[] = {{(char *)"format", (char *)"pt"}};
    seed made = {NULL, 0};
    pco_error err;
    void *file;
    if (pco_safetensors_encode(tensors, 2, notes, 1, &file, &made.size, &err)) abort();
    made.data = file;
    return made;
}

static seed fuzz_npy_seed(void)
{
    static const float data[6] = {1, 2, 3};
    pco_weight array = {.dtype = PCO_F32, .rank = 2, .shape = {2, 3}, .data = data};
    seed made = {NULL, 0};
    pco_error err;
    void *file;
    if (pco_npy_encode(&array, &file, &made.size, &err)) abort();
    made.data = file;
    return made;
}

/* A tokenizer of either kind, some tensors, and a key of each type. */
static seed fuzz_gguf_seed(const char *model)
{
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "a", "b", "ab", "\xE2\x96\x81", "<0x0A>", "\xC4\xA0"};
    static const char *const merges[] = {"a b"};
    static built file;
    put_header(&file, 3, 3, 10);
    put_key_u32(&file, "general.alignment", 32);
    put_key_text(&file, "tokenizer.ggml.model", model);
    put_key_text(&file, "tokenizer.ggml.pre", "gpt-2");
    put_key_texts(&file, "tokenizer.ggml.tokens", tokens, 9);
    put_key_texts(&file, "tokenizer.ggml.merges", merges, 1);
    put_key_array(&file, "tokenizer.ggml.scores", PCO_GGUF_F32, 9);
    for (int i = 0; i < 9; i++) put_f32(&file, (float)-i);
    put_key_array(&file, "tokenizer.ggml.token_type", PCO_GGUF_I32, 9);
    for (int i = 0; i < 9; i++) put_u32(&file, i == 0 ? 2 : i < 3 ? 3 : i == 7 ? 6 : 1);
    put_key_bool(&file, "flag", 1);
    put_key(&file, "big", PCO_GGUF_U64);
    put_u64(&file, 1);
    put_key_u32(&file, "tokenizer.ggml.unknown_token_id", 0);
    put_tensor(&file, "x", 2, (uint64_t[]){3, 2}, 0, 0);
    put_tensor(&file, "y", 2, (uint64_t[]){32, 1}, 8, 32);
    put_tensor(&file, "z", 1, (uint64_t[]){256}, 14, 96);
    put_padding(&file, 32);
    for (int i = 0; i < 32 + 64 + 224; i++) put(&file, "\x01", 1);
    return fuzz_copy(file.data, file.size);
}

static seed fuzz_llama2c_seed(int version)
{
    static built file, tokens;
    build_llama2c(&file, version, version);
    build_llama2c_tokens(&tokens);
    put(&file, tokens.data, tokens.size);
    put_u32(&file, (uint32_t)tokens.size);
    return fuzz_copy(file.data, file.size);
}

static void fuzz_one(const seed *from, size_t size, uint32_t changes)
{
    seed copy = fuzz_copy(from->data, from->size);
    for (uint32_t i = 0; i < changes && size; i++) {
        uint32_t at = fuzz_below(1u << 31), what = fuzz_below(1u << 31);
        unsigned char *byte = &copy.data[at % size];
        if (what & 256)
            *byte = (unsigned char)what;
        else if (what & 512)
            *byte = what & 1 ? 0xFF : 0;
        else
            *byte ^= (unsigned char)(1u << (what & 7));
    }
    fuzz_exact(copy.data, size);
    free(copy.data);
}

/* Every number of a small file at its ends: chance takes long to make a 0 of the one that divides. */
static void fuzz_numbers(const seed *from)
{
    for (size_t at = 0; at + 4 <= from->size; at++)
        for (int ones = 0; ones < 2; ones++) {
            seed copy = fuzz_copy(from->data, from->size);
            memset(copy.data + at, ones ? 0xFF : 0, 4);
            fuzz_exact(copy.data, copy.size);
            free(copy.data);
        }
}

/* The seeds as files, for libFuzzer. */
static int fuzz_keep(const seed *seeds, size_t count, const char *folder)
{
    for (size_t i = 0; i < count; i++) {
        char path[1024];
        pco_error err;
        snprintf(path, sizeof path, "%s/seed-%zu", folder, i);
        if (!pco_file_write(path, seeds[i].data, seeds[i].size, &err)) continue;
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    return 0;
}

enum { MOST = 64 };

/* What needs no file. */
static size_t fuzz_seeds(seed seeds[MOST])
{
    static built llama, factors;
    static const char config[] = BUILT_CONFIG(", \"rope_theta\": 500.5, \"dropout\": 0.1");
    static const char hub[] =
        "{\"model_type\": \"smollm3\", \"vocab_size\": 9, \"hidden_size\": 8, \"num_hidden_layers\": 3, "
        "\"num_attention_heads\": 2, \"rms_norm_eps\": 1e-5, \"no_rope_layers\": [1, 0, 1], "
        "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"], \"sliding_window\": 4, "
        "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2], \"long_factor\": [1, 2.5]}}";
    static const char experts[] = "{\"model_type\": \"mixtral\", \"vocab_size\": 9, \"hidden_size\": 8, "
                                  "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"rms_norm_eps\": 1e-5, "
                                  "\"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"pruned_heads\": {}}";
    static const char whole[] =
        "{\"model_type\": \"gemma3\", \"tie_word_embeddings\": true, \"vision_config\": {}, "
        "\"text_config\": {\"model_type\": \"gemma3_text\", \"hidden_size\": 8, \"head_dim\": 4}}";
    static const char json[] = "{\"a\": [1, -2.5e3, true, null, \"x\\u00e9\\n\"], \"b\": {\"c\": {}}}";
    build_llama(&llama, NULL);
    build_llama(&factors, &(built_change){.factors = 1, .value = 8, .least = 1});
    const seed made[] = {fuzz_safetensors_seed(),
                         fuzz_npy_seed(),
                         fuzz_gguf_seed("llama"),
                         fuzz_gguf_seed("gpt2"),
                         fuzz_copy(json, sizeof json - 1),
                         fuzz_copy(config, sizeof config - 1),
                         fuzz_copy(llama.data, llama.size),
                         fuzz_copy(factors.data, factors.size),
                         fuzz_copy(hub, sizeof hub - 1),
                         fuzz_copy(experts, sizeof experts - 1),
                         fuzz_copy(whole, sizeof whole - 1),
                         fuzz_llama2c_seed(0),
                         fuzz_llama2c_seed(1)};
    const size_t count = sizeof made / sizeof *made;
    memcpy(seeds, made, sizeof made);
    return count;
}

int main(int argc, char **argv)
{
    static seed seeds[MOST];
    size_t count = fuzz_seeds(seeds), prefixes = 0;
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) return fuzz_keep(seeds, count, argv[2]);
    fuzz_begin();
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
    for (int i = 2; i < argc && count < MOST; i++) {
        pco_map map;
        pco_error err;
        if (pco_map_open(argv[i], &map, &err)) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        seeds[count++] = fuzz_copy(map.data ? (const void *)map.data : "", map.size);
        pco_map_close(&map);
    }
    for (size_t s = 0; s < count; s++)
        for (size_t size = 0; seeds[s].size <= 8192 && size <= seeds[s].size; size++, prefixes++)
            fuzz_one(&seeds[s], size, 0);
    for (size_t s = 0; s < count; s++)
        if (seeds[s].size <= 8192) fuzz_numbers(&seeds[s]);
    for (unsigned long i = 0; i < rounds; i++) {
        const seed *from = &seeds[i % count];
        uint32_t cut = fuzz_below(1u << 31), changes = 1 + fuzz_below(1u << 31) % 6;
        size_t size = cut % 16 == 0 && from->size ? cut / 16 % from->size : from->size;
        fuzz_one(from, size, changes);
    }
    fprintf(stderr, "%zu seeds, %zu prefixes, %lu mutations: nothing crashed\n", count, prefixes, rounds);
    for (size_t s = 0; s < count; s++) free(seeds[s].data);
    return 0;
}

#endif
