/* Files that other projects wrote, with their verdicts: argv[1] is the folder that holds safetensors/,
 * gguf-cases/, ggml-quants/, vocab/ and stories260k/. Without it, or when it is absent, the test is skipped
 * (exit 77). */
#include <errno.h>
#include <math.h>

#include "base/dtype.h"
#include "base/file.h"
#include "check.h"
#include "formats/safetensors.h"
#include "text/tokenizer.h"

static char *folder; /* set once by main */

static char *path_of(const char *name, char path[1024])
{
    snprintf(path, 1024, "%s/%s", folder, name);
    return path;
}

/* The whole file, with NUL; freed by the caller. */
static char *text_of(const char *name, size_t *size)
{
    char path[1024];
    pco_map map;
    check_ok(pco_map_open(path_of(name, path), &map, &err));
    char *text = malloc(map.size + 1);
    assert_non_null(text);
    if (map.size) memcpy(text, map.data, map.size);
    text[map.size] = 0;
    *size = map.size;
    pco_map_close(&map);
    return text;
}

/* For each line of a VERDICTS.tsv: does `judge` agree? */
static void check_verdicts(const char *set, int expected, pco_status (*judge)(const char *, const char *, pco_error *))
{
    char name[512], path[1024];
    size_t size;
    int lines = 0, wrong = 0;
    snprintf(name, sizeof name, "%s/VERDICTS.tsv", set);
    char *text = text_of(name, &size), *rest = text, *line;
    (void)strtok_r(rest, "\n", &rest);
    while ((line = strtok_r(NULL, "\n", &rest)) != NULL) {
        char file[128], verdict[128], level[64] = "";
        pco_error err = {""};
        assert_true(sscanf(line, "%127[^\t]\t%127[^\t]\t%63[^\t]", file, verdict, level) >= 2);
        snprintf(path, sizeof path, "%s/%s/%s", folder, set, file);
        pco_status status = judge(path, level, &err);
        int accepted = status == PCO_OK, should = strncmp(verdict, "accept", 6) == 0;
        if (accepted != should || (!accepted && status != PCO_ERROR_FORMAT)) {
            printf("%s: should be %s; status %d: %s\n", file, verdict, (int)status, err.message);
            wrong++;
        }
        lines++;
    }
    free(text);
    assert_int_equal(wrong, 0);
    assert_int_equal(lines, expected);
}

static pco_status judge_safetensors(const char *path, const char *level, pco_error *err)
{
    (void)level;
    pco_weights *weights;
    pco_status status = pco_safetensors_open(path, &weights, err);
    pco_weights_close(weights);
    return status;
}

static pco_status judge_gguf(const char *path, const char *level, pco_error *err)
{
    pco_gguf *gguf;
    uint32_t flags = strcmp(level, "metadata") == 0 ? PCO_GGUF_METADATA_ONLY : 0;
    pco_status status = pco_gguf_open(path, flags, &gguf, err);
    pco_gguf_close(gguf);
    return status;
}

static void verdicts(void **state)
{
    (void)state;
    check_verdicts("safetensors", 12, judge_safetensors);
    check_verdicts("gguf-cases", 27, judge_gguf);
}

static void dequantisation(void **state)
{
    (void)state;
    static const char *const names[] = {"f16",  "bf16", "q8_0", "q4_0", "q4_1", "q5_0",   "q5_1",
                                        "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"};
    char path[1024], name[64];
    pco_gguf *gguf;
    const pco_weight *source, *coded, *decoded;
    check_ok(pco_gguf_open(path_of("ggml-quants/quant-vectors.gguf", path), 0, &gguf, &err));
    const pco_weights *weights = pco_gguf_weights(gguf);
    check_ok(pco_weights_require(weights, "src.f32", &source, &err));
    int64_t count = (int64_t)source->bytes / 4;
    float *out = malloc(source->bytes), *in = malloc(source->bytes);
    unsigned char *blocks = malloc(source->bytes);
    memcpy(in, source->data, source->bytes);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "%s", names[i]);
        const int searched = suffix[0] == 'i' || strstr(suffix, "_k"); /* for scales: ours lose no more */
        if (strstr(suffix, "_k")) strstr(suffix, "_k")[1] = 'K';
        snprintf(name, sizeof name, "quant.%s", suffix);
        check_ok(pco_weights_require(weights, name, &coded, &err));
        snprintf(name, sizeof name, "dequant.%s", suffix);
        check_ok(pco_weights_require(weights, name, &decoded, &err));
        assert_string_equal(pco_dtype_name((uint32_t)coded->dtype), names[i]);
        check_ok(pco_dtype_to_f32((uint32_t)coded->dtype, coded->data, count, out, &err));
        assert_memory_equal(out, decoded->data, source->bytes);
        check_ok(pco_dtype_from_f32((uint32_t)coded->dtype, in, count, blocks, &err));
        if (searched) {
            double ours = 0, theirs = 0;
            for (int64_t k = 0; k < count; k++) theirs += pow((double)(out[k] - in[k]), 2);
            check_ok(pco_dtype_to_f32((uint32_t)coded->dtype, blocks, count, out, &err));
            for (int64_t k = 0; k < count; k++) ours += pow((double)(out[k] - in[k]), 2);
            printf("%s: squared error %.6g, ggml's %.6g\n", names[i], ours, theirs);
            assert_true(ours <= theirs);
            continue;
        }
        size_t differ = 0;
        for (size_t b = 0; b < coded->bytes; b++) differ += blocks[b] != ((const unsigned char *)coded->data)[b];
        printf("%s: %zu of %zu bytes differ from ggml's quantiser\n", names[i], differ, (size_t)coded->bytes);
        assert_int_equal(differ, 0);
    }
    free(out);
    free(in);
    free(blocks);
    pco_gguf_close(gguf);
}

static pco_tokenizer *tokenizer_of(const char *name)
{
    char path[1024];
    pco_gguf *gguf;
    pco_tokenizer *tokenizer;
    check_ok(pco_gguf_open(path_of(name, path), 0, &gguf, &err));
    check_ok(pco_tokenizer_from_gguf(gguf, &tokenizer, &err));
    pco_gguf_close(gguf);
    return tokenizer;
}

/* " 1 2 3" */
static char *ids_text(const int32_t *ids, size_t count)
{
    char *text = calloc(1, 12 * count + 1);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) used += (size_t)sprintf(text + used, " %d", ids[i]);
    return text;
}

static void check_ids(const pco_tokenizer *tokenizer, const char *text, uint32_t flags, const char *expected)
{
    int32_t *ids;
    size_t count;
    check_ok(pco_tokenizer_encode(tokenizer, text, strlen(text), flags, &ids, &count, &err));
    char *got = ids_text(ids, count);
    assert_string_equal(got, expected);
    free(got);
    free(ids);
}

static void stories(void **state)
{
    (void)state;
    static const int32_t begin[] = {1, 403, 407, 261, 378, 432, 383};
    pco_tokenizer *t = tokenizer_of("stories260k/stories260K.gguf");
    pco_tokenizer_special special = pco_tokenizer_specials(t);
    assert_true(special.bos == 1 && special.eos == 2 && special.unk == 0 && special.pad == -1);
    check_ids(t, "This is a test", 0, " 274 415 293 410 293 261 259 411 356");
    check_ids(t, "This is a test", PCO_ENCODE_BOS, " 1 274 415 293 410 293 261 259 411 356");
    check_ids(t, "Once upon a time", PCO_ENCODE_BOS, " 1 403 407 261 378");
    check_ids(t, "", PCO_ENCODE_BOS, " 1");
    check_ids(t, "Lily and Tom went to the park", PCO_ENCODE_BOS, " 1 317 269 274 287 263 377 267 265 282 295 433");
    char *text;
    size_t size;
    check_ok(pco_tokenizer_decode(t, begin, 7, &text, &size, &err));
    assert_string_equal(text, "Once upon a time, there");
    free(text);
    pco_tokenizer_destroy(t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts),
        cmocka_unit_test(dequantisation),
        cmocka_unit_test(stories),
    };
    if (argc < 2 || !pco_is_directory(argv[1])) {
        printf("skipped: %s\n",
               argc < 2 ? "no folder of shared data was given" : "the folder of shared data is absent");
        return 77;
    }
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
