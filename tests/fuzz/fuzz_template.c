/* Chat templates from anywhere: none may crash, hang or take more memory than is promised. With libFuzzer:
 * scripts/fuzz. Alone, it puts together and changes the templates of a file of test_template, the same way each time:
 * fuzz_template CASES.json [rounds (20000)] */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template.h"
#include "fuzz_files.h"

static const char fuzz_variables[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"be brief\"}, {\"role\": \"user\", \"content\": \"a\\n<b> "
    "\\u00e9\"},"
    "{\"role\": \"assistant\", \"content\": [1, -2.5, null, {\"type\": \"text\"}], \"tool_calls\": [{\"id\": "
    "\"abcdefghi\"}]}],"
    "\"tools\": [{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"x\": {\"type\": \"int\"}}}}}],"
    "\"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}";
static cJSON *fuzz_root;
static unsigned long fuzz_rendered;

static int fuzz_input(const uint8_t *data, size_t size)
{
    pco_error err;
    pco_template *template;
    char *text;
    size_t bytes;
    if (!fuzz_root && pco_json_parse(fuzz_variables, sizeof fuzz_variables - 1, "fuzz", &fuzz_root, &err)) abort();
    if (pco_template_parse((const char *)data, size, "fuzz", &template, &err)) return 0;
    fuzz_parsed++;
    /* Of template_execute.c: a budget of 2^23 bytes, with 64 for each of the variables and 10 for each of the template.
     * What is written ends there, but for its last value, which repr() makes 4 times as long; its array doubles. */
    fuzz_allow(2 * 5 * ((1u << 23) + 64 * (size + sizeof fuzz_variables)));
    if (!pco_template_render(template, fuzz_root, 0, &text, &bytes, &err)) {
        fuzz_rendered++;
        if (text[bytes]) abort();
        free(text);
    }
    pco_template_destroy(template);
    return 0;
}

#ifndef PCO_LIBFUZZER

/* Moves and copies a piece of one template into another, or changes a byte, up to four times. */
static size_t fuzz_change(char *text, size_t size, size_t most, const char *other)
{
    const size_t length = strlen(other);
    for (uint32_t n = fuzz_below(5); n > 0 && size; n--) {
        const uint32_t at = fuzz_below((uint32_t)size + 1);
        uint32_t from = fuzz_below((uint32_t)length + 1), count = fuzz_below(40);
        if (count > length - from) count = (uint32_t)(length - from);
        if (fuzz_below(2) && size + count <= most) {
            memmove(text + at + count, text + at, size - at);
            memcpy(text + at, other + from, count);
            size += count;
        } else if (fuzz_below(2)) {
            count = fuzz_below(20) % (uint32_t)(size - at + 1);
            memmove(text + at, text + at + count, size - at - count);
            size -= count;
        } else if (at < size) {
            text[at] = (char)(fuzz_below(4) ? " {}%()[]|.,-+:='\"_a0\\\n"[fuzz_below(22)] : (char)fuzz_below(256));
        }
    }
    return size;
}

int main(int argc, char **argv)
{
    enum { MOST = 1 << 16 };
    static char text[MOST];
    cJSON *root;
    pco_error err;
    const unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 20000;
    if (argc < 2 || pco_json_load(argv[1], &root, &err)) {
        fprintf(stderr, "%s\n", argc < 2 ? "fuzz_template CASES.json [rounds]" : err.message);
        return 2;
    }
    const cJSON *templates = cJSON_GetObjectItemCaseSensitive(root, "templates");
    const uint32_t count = (uint32_t)cJSON_GetArraySize(templates);
    for (unsigned long i = 0; i < rounds; i++) {
        const char *one = cJSON_GetArrayItem(templates, (int)(i % count))->valuestring;
        const char *other = cJSON_GetArrayItem(templates, (int)fuzz_below(count))->valuestring;
        const size_t size = strlen(one) < MOST ? strlen(one) : MOST;
        memcpy(text, one, size);
        fuzz_exact(text, fuzz_change(text, size, MOST, other));
    }
    fprintf(stderr, "%lu templates, %lu parsed, %lu rendered: nothing crashed\n", rounds, fuzz_parsed, fuzz_rendered);
    cJSON_Delete(root);
    cJSON_Delete(fuzz_root);
    return fuzz_parsed < rounds / 4 || fuzz_rendered < rounds / 20; /* or it would show nothing */
}

#endif
