/* An update of training allocates nothing, makes no object, records nothing; it submits once, and moves the
 * batch, the run values, the loss and the norm of the gradients. train_steps CONFIG: updates of that run are
 * watched once every bucket has been seen, on the device of PORTICO_BACKEND, over the end of an epoch. Run
 * with libpco-interpose.so preloaded and as a layer. What goes through mapped memory in Vulkan is not seen.
 */
#include "interpose.h"

#include "runtime/session.h"
#include "train/trainer.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TRAIN_WARM_UP = 16, /* updates: a whole epoch of the config's pool, so every bucket that it has */
    TRAIN_WATCHED = 20, /* with the beginning of another epoch among them */
    TRAIN_VALUES = 128, /* more than all run values take, lengths aside */
    TRAIN_READ = 8,     /* loss and norm */
};

static int failures;

static void check(int good, const char *what, uint64_t count, const char *wanted)
{
    if (good) return;
    printf("FAIL: %s: %" PRIu64 ", and it should be %s\n", what, count, wanted);
    failures++;
}

static void print_allocation(void *address)
{
    Dl_info info;
    if (!dladdr(address, &info)) return;
    printf("the first allocation was made at %s+0x%zx (%s)\n", info.dli_fname,
           (size_t)((char *)address - (char *)info.dli_fbase), info.dli_sname ? info.dli_sname : "?");
}

/* `batch`: bytes of the largest batch. */
static void judge(const interpose_counts *seen, const char *device, uint64_t batch)
{
    static const char *const names[] = INTERPOSE_NAMES;
    const uint64_t *count = seen->count;
    printf("%s, %d updates:", device, TRAIN_WATCHED);
    for (int i = 0; i < INTERPOSE_KINDS; i++) printf("%s %s %" PRIu64, i ? "," : "", names[i], count[i]);
    printf("\n");
    for (int i = 0; i < INTERPOSE_KINDS; i++)
        if (i != INTERPOSE_VK_SUBMITS && i != INTERPOSE_CL_LAUNCHES && i != INTERPOSE_CL_WRITTEN &&
            i != INTERPOSE_CL_READ)
            check(count[i] == 0, names[i], count[i], "none");
    if (count[INTERPOSE_ALLOCATIONS]) print_allocation(seen->first_allocation);
    if (seen->first_call) printf("the first call was %s\n", seen->first_call);
    if (strncmp(device, "vulkan", 6) == 0)
        check(count[INTERPOSE_VK_SUBMITS] == TRAIN_WATCHED, names[INTERPOSE_VK_SUBMITS], count[INTERPOSE_VK_SUBMITS],
              "one for each update");
    if (strncmp(device, "opencl", 6) == 0) {
        check(count[INTERPOSE_CL_LAUNCHES] > 0, names[INTERPOSE_CL_LAUNCHES], 0, "some");
        check(count[INTERPOSE_CL_WRITTEN] <= TRAIN_WATCHED * (batch + TRAIN_VALUES), names[INTERPOSE_CL_WRITTEN],
              count[INTERPOSE_CL_WRITTEN], "the batch and run values");
        check(count[INTERPOSE_CL_READ] <= TRAIN_WATCHED * TRAIN_READ, names[INTERPOSE_CL_READ],
              count[INTERPOSE_CL_READ], "loss and norm");
    }
}

static pco_status run(pco_session *session, const pco_train_config *config, interpose_mark_fn mark,
                      interpose_counts_fn counts, pco_error *err)
{
    pco_trainer *trainer = NULL;
    pco_train_result result;
    mark(1);
    pco_status status = pco_trainer_create(session, config, 0, &trainer, err);
    mark(0);
    check(status || counts()->count[INTERPOSE_ALLOCATIONS] > 0, "allocations while creating", 0, "some");
    for (int i = 0; i < TRAIN_WARM_UP && !status; i++) status = pco_trainer_step(trainer, &result, err);
    uint32_t executables = status ? 0 : pco_trainer_executables(trainer);
    mark(1);
    for (int i = 0; i < TRAIN_WATCHED && !status; i++) status = pco_trainer_step(trainer, &result, err);
    mark(0);
    if (!status) {
        const pco_data *data = pco_trainer_data(trainer);
        uint64_t row = sizeof(int32_t) * (uint64_t)(pco_data_longest(data, 0) + 2 * pco_data_longest(data, 1) + 1);
        check(pco_trainer_executables(trainer) == executables, "executables", pco_trainer_executables(trainer),
              "as before");
        judge(counts(), pco_session_device_id(session), row * (uint64_t)config->rows);
    }
    pco_trainer_destroy(trainer);
    return status;
}

int main(int argc, char **argv)
{
    interpose_mark_fn mark;
    interpose_counts_fn counts;
    pco_config environment;
    pco_registry *registry = NULL;
    pco_session *session = NULL;
    pco_train_config config = {0};
    pco_error err = {""};
    if (argc != 2) {
        fprintf(stderr, "usage: %s CONFIG\n", argv[0]);
        return 2;
    }
    *(void **)&mark = dlsym(RTLD_DEFAULT, "pco_interpose_mark");
    *(void **)&counts = dlsym(RTLD_DEFAULT, "pco_interpose_counts");
    if (!mark || !counts) {
        fprintf(stderr, "%s: libpco-interpose.so is not preloaded\n", argv[0]);
        return 2;
    }
    char out[] = "/tmp/portico-steps-XXXXXX"; /* no checkpoint is written, but the trainer makes its folder */
    if (!mkdtemp(out)) return 2;
    const pco_train_overrides overrides = {.seed = -1, .out = out};
    pco_status status = pco_train_config_load(argv[1], &overrides, &config, &err);
    if (!status) status = pco_config_read(&environment, &err);
    if (!status) status = pco_registry_create(&environment, &registry, &err);
    if (!status) status = pco_registry_open(registry, NULL, &session, &err);
    if (!status) status = run(session, &config, mark, counts, &err);
    if (status) failures += printf("FAIL: %s\n", err.message) > 0;
    pco_session_close(session);
    pco_registry_destroy(registry);
    pco_train_config_release(&config);
    rmdir(out);
    return failures != 0;
}
