/* Exactly the tokens that others give: for every FILE.inp and FILE.out beside a vocabulary FILE, as llama.cpp keeps
 * them in models/. Texts are separated by a line "__ggml_vocab_test__"; each line of .out has the ids of one, as the
 * model's own tokenizer gave them. usage: test_vocabularies FOLDER ...; a folder that is absent is skipped. */
#include <dirent.h>

#include "base/file.h"
#include "check.h"
#include "text/tokenizer.h"

static char **folders;
static int folder_count;

static char *text_of(const char *path)
{
    pco_map map;
    check_ok(pco_map_open(path, &map, &err));
    char *text = calloc(1, map.size + 1);
    memcpy(text, map.data, map.size);
    pco_map_close(&map);
    return text;
}

/* " 1 2 3" */
static char *ids_text(const int32_t *ids, size_t count)
{
    char *text = calloc(1, 12 * count + 1);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) used += (size_t)sprintf(text + used, " %d", ids[i]);
    return text;
}

/* Does the kind give back every text as it was? */
static int is_lossless(const pco_gguf *gguf)
{
    const char *model;
    check_ok(pco_gguf_text(gguf, "tokenizer.ggml.model", &model, &err));
    return strcmp(model, "gpt2") == 0 || strcmp(model, "llama") == 0;
}

static int check_case(const pco_tokenizer *tokenizer, const char *name, const char *text, size_t size,
                      const char *wanted, int lossless)
{
    int32_t *ids;
    size_t count, back_size;
    char *back;
    while (*wanted == ' ') wanted++;
    check_ok(pco_tokenizer_encode(tokenizer, text, size, 0, &ids, &count, &err));
    char *got = ids_text(ids, count);
    int wrong = strcmp(count ? got + 1 : got, wanted) != 0;
    if (wrong) printf("%s: '%.*s'\n gave   '%s'\n wanted ' %s'\n", name, (int)size, text, got, wanted);
    check_ok(pco_tokenizer_decode(tokenizer, ids, count, &back, &back_size, &err));
    if (lossless) {
        assert_int_equal(back_size, size);
        assert_memory_equal(back, text, size);
    }
    free(got);
    free(ids);
    free(back);
    return wrong;
}

/* Returns the number of cases. */
static int check_vocabulary(const char *folder, const char *name)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    char path[1024];
    pco_gguf *gguf;
    pco_tokenizer *tokenizer;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    check_ok(pco_gguf_open(path, PCO_GGUF_METADATA_ONLY, &gguf, &err));
    check_ok(pco_tokenizer_from_gguf(gguf, &tokenizer, &err));
    const int lossless = is_lossless(gguf);
    pco_gguf_close(gguf);
    snprintf(path, sizeof path, "%s/%s.inp", folder, name);
    char *input = text_of(path), *text = input;
    snprintf(path, sizeof path, "%s/%s.out", folder, name);
    char *output = text_of(path), *line = output;
    int wrong = 0, cases = 0;
    while (text) {
        char *next = strstr(text, separator), *end = strchr(line, '\n');
        if (end) *end = 0; /* the last line may have none */
        wrong += check_case(tokenizer, name, text, next ? (size_t)(next - text) : strlen(text), line, lossless);
        text = next ? next + strlen(separator) : NULL;
        line = end ? end + 1 : line + strlen(line);
        cases++;
    }
    assert_int_equal(wrong, 0);
    assert_true(cases >= 46);
    printf("%s: %d texts\n", name, cases);
    free(input);
    free(output);
    pco_tokenizer_destroy(tokenizer);
    return cases;
}

static void vocabularies(void **state)
{
    (void)state;
    int cases = 0, files = 0;
    for (int i = 0; i < folder_count; i++) {
        DIR *folder = opendir(folders[i]);
        const struct dirent *entry;
        while (folder && (entry = readdir(folder))) {
            char name[300];
            size_t size = (size_t)snprintf(name, sizeof name, "%s", entry->d_name);
            if (size < 5 || strcmp(name + size - 4, ".inp") != 0) continue;
            name[size - 4] = 0;
            cases += check_vocabulary(folders[i], name);
            files++;
        }
        if (folder) closedir(folder);
    }
    assert_true(files > 0);
    printf("%d vocabularies, %d texts: the same ids\n", files, cases);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vocabularies)};
    folders = argv + 1;
    for (int i = 1; i < argc; i++) folder_count = pco_is_directory(argv[i]) ? i : folder_count;
    if (!folder_count) {
        printf("skipped: no folder of vocabularies\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
