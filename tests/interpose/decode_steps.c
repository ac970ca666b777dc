/* A decode step allocates nothing, makes no object, records nothing; it submits once, and moves the token, the run
 * values and the logits. decode_steps MODEL PROMPT FIRST LAST [optional]: the steps from token FIRST to token LAST of
 * the answer are watched, on the device of PORTICO_BACKEND; an optional model that is not there is skipped (exit 77).
 * Run with libpco-interpose.so preloaded and as a layer. What goes through mapped memory in Vulkan is not seen. */
#include "interpose.h"

#include <portico/portico.h>

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More than a token and all run values of one sequence take. */
enum { STEP_BYTES = 64 };

typedef struct watch {
    interpose_mark_fn mark;
    interpose_counts_fn counts;
    int64_t first, last, token;
    interpose_counts seen;
} watch;

/* Counting begins after the text of token `first` and ends after that of token `last`. */
static int watch_text(void *user, const char *text, size_t bytes)
{
    watch *w = user;
    (void)text;
    (void)bytes;
    w->token++;
    if (w->token == w->first) w->mark(1);
    if (w->token == w->last) {
        w->mark(0);
        w->seen = *w->counts();
    }
    return 0;
}

static void print_allocation(void *address)
{
    Dl_info info;
    if (!dladdr(address, &info)) return;
    printf("the first allocation was made at %s+0x%zx (%s)\n", info.dli_fname,
           (size_t)((char *)address - (char *)info.dli_fbase), info.dli_sname ? info.dli_sname : "?");
}

static int check(int good, const char *what, uint64_t count, const char *limit)
{
    if (!good) printf("FAIL: %s: %" PRIu64 ", and it should be %s\n", what, count, limit);
    return !good;
}

/* Number of failures. */
static int judge(const watch *w, const pco_model_info *info)
{
    static const char *const names[] = INTERPOSE_NAMES;
    const uint64_t *count = w->seen.count, steps = (uint64_t)(w->last - w->first);
    int vulkan = strncmp(info->device, "vulkan", 6) == 0, opencl = strncmp(info->device, "opencl", 6) == 0, bad = 0;
    char submits[64], written[64], read[64];
    snprintf(submits, sizeof submits, "%" PRIu64 ", one for each step", steps);
    snprintf(written, sizeof written, "at most %d for each step", STEP_BYTES);
    snprintf(read, sizeof read, "at most %" PRId64 " for each step", 4 * info->vocab_size);
    printf("%s on %s, %" PRIu64 " steps:", info->architecture, info->device, steps);
    for (int i = 0; i < INTERPOSE_KINDS; i++) printf("%s %s %" PRIu64, i ? "," : "", names[i], count[i]);
    printf("\n");
    for (int i = 0; i < INTERPOSE_KINDS; i++)
        if (i != INTERPOSE_VK_SUBMITS && i != INTERPOSE_CL_LAUNCHES && i != INTERPOSE_CL_WRITTEN &&
            i != INTERPOSE_CL_READ)
            bad += check(count[i] == 0, names[i], count[i], "none");
    if (count[INTERPOSE_ALLOCATIONS]) print_allocation(w->seen.first_allocation);
    if (w->seen.first_call) printf("the first call was %s\n", w->seen.first_call);
    if (vulkan)
        bad += check(count[INTERPOSE_VK_SUBMITS] == steps, names[INTERPOSE_VK_SUBMITS], count[INTERPOSE_VK_SUBMITS],
                     submits);
    if (opencl) {
        uint64_t launches = count[INTERPOSE_CL_LAUNCHES];
        bad += check(launches > 0 && launches % steps == 0, names[INTERPOSE_CL_LAUNCHES], launches,
                     "the same in each step");
        bad += check(count[INTERPOSE_CL_WRITTEN] <= steps * STEP_BYTES, names[INTERPOSE_CL_WRITTEN],
                     count[INTERPOSE_CL_WRITTEN], written);
        bad += check(count[INTERPOSE_CL_READ] <= steps * 4 * (uint64_t)info->vocab_size, names[INTERPOSE_CL_READ],
                     count[INTERPOSE_CL_READ], read);
    }
    return bad;
}

/* Opening a model allocates, makes and records: if that is not seen, the counters are not in place. */
static int judge_opening(const interpose_counts *seen, const char *device)
{
    int bad = check(seen->count[INTERPOSE_ALLOCATIONS] > 0, "allocations while opening", 0, "some");
    if (strncmp(device, "vulkan", 6) == 0) {
        bad += check(seen->vk_devices > 0, "devices seen by the Vulkan layer", 0, "at least one");
        bad += check(seen->count[INTERPOSE_VK_OBJECTS] > 0, "Vulkan objects while opening", 0, "some");
        bad += check(seen->count[INTERPOSE_VK_RECORDS] > 0, "Vulkan records while opening", 0, "some");
    }
    if (strncmp(device, "opencl", 6) == 0) {
        bad += check(seen->cl_layers > 0, "OpenCL layers in place", 0, "one");
        bad += check(seen->count[INTERPOSE_CL_OBJECTS] > 0, "OpenCL objects while opening", 0, "some");
        bad += check(seen->count[INTERPOSE_CL_ARGUMENTS] > 0, "OpenCL arguments while opening", 0, "some");
        bad += check(seen->count[INTERPOSE_CL_WRITTEN] > 0, "OpenCL bytes written while opening", 0, "some");
    }
    return bad;
}

/* The counter must count: an allocation of this program, and one that the C library makes for it. */
static int check_counter(const watch *w)
{
    w->mark(1);
    char *volatile own = malloc(32);
    char *volatile copy = strdup("for us");
    w->mark(0);
    uint64_t seen = w->counts()->count[INTERPOSE_ALLOCATIONS];
    free(own);
    free(copy);
    return check(seen == 2, "allocations made on purpose and seen", seen, "2");
}

/* Opens the model and lets it answer twice: after the first answer everything that is built on demand is there.
 * Returns the number of failures. */
static int watch_model(watch *w, const char *path, const char *prompt)
{
    pco_context *context = NULL;
    pco_model *model = NULL;
    pco_model_info info = {.size = sizeof info};
    pco_error err = {""};
    int failures = 0;
    const pco_generate_params params = {.size = sizeof params, .max_tokens = w->last + 2};
    w->mark(1);
    pco_status status = pco_context_create(NULL, &context, &err);
    if (!status) status = pco_model_open(context, path, NULL, &model, &err);
    w->mark(0);
    if (!status) {
        pco_model_describe(model, &info);
        failures += judge_opening(w->counts(), info.device);
    }
    for (int round = 0; !status && round < 2; round++) {
        w->token = 0;
        status = pco_model_generate(model, prompt, &params, watch_text, w, NULL, &err);
    }
    if (status)
        failures += printf("FAIL: %s\n", err.message) > 0;
    else if (w->token < w->last)
        failures +=
            printf("FAIL: the answer had %" PRId64 " pieces, and %" PRId64 " are needed\n", w->token, w->last) > 0;
    else
        failures += judge(w, &info);
    pco_model_close(model);
    pco_context_destroy(context);
    return failures;
}

int main(int argc, char **argv)
{
    watch w = {.first = argc > 4 ? atoll(argv[3]) : 0, .last = argc > 4 ? atoll(argv[4]) : 0};
    if (argc < 5 || w.first < 1 || w.last <= w.first) {
        fprintf(stderr, "usage: %s MODEL PROMPT FIRST LAST [optional]\n", argv[0]);
        return 2;
    }
    if (argc > 5 && access(argv[1], R_OK) != 0) {
        printf("there is no '%s'\n", argv[1]);
        return 77;
    }
    *(void **)&w.mark = dlsym(RTLD_DEFAULT, "pco_interpose_mark");
    *(void **)&w.counts = dlsym(RTLD_DEFAULT, "pco_interpose_counts");
    if (!w.mark || !w.counts) {
        fprintf(stderr, "%s: libpco-interpose.so is not preloaded\n", argv[0]);
        return 2;
    }
    int failures = check_counter(&w);
    return failures + watch_model(&w, argv[1], argv[2]) != 0;
}
