/* Known questions: is the device still there, and still sane? */
#include "cases/case_build.h"
#include "isolate/isolate.h"
#include "run/runner.h"

#include "base/error.h"

#include <stdlib.h>

typedef struct conf_known {
    const pco_conformance_device *device;
    uint32_t wanted, question, mask;
    void (*asks)(void *user, uint32_t question);
    void *user;
    bool right;
    pco_status status;
    pco_error *err;
} conf_known;

static void conf_known_report(void *user, pco_conformance_case *one)
{
    conf_known *known = user;
    known->right = one->state == PCO_CASE_PASS || one->state == PCO_CASE_FLAKY;
}

/* One variant is enough. */
static int conf_known_begin(void *user, const pco_conformance_case *next, int whole)
{
    bool *asked = user;
    (void)next;
    if (whole) return 1;
    if (*asked) return 0;
    *asked = true;
    return 1;
}

/* A device whose errors come and go is not lost: it gets the question again. */
static bool conf_known_visit(void *user, const conf_case *one)
{
    enum { TRIES = 3 };
    conf_known *known = user;
    const uint32_t question = known->question++;
    if (!(known->wanted >> question & 1)) return true;
    if (known->asks) known->asks(known->user, question);
    known->right = false;
    for (int i = 0; i < TRIES && !known->right && known->status == PCO_OK; i++) {
        bool asked = false;
        const pco_conformance_options options = {
            .tier = PCO_CONFORMANCE_TINY, .begin = conf_known_begin, .user = &asked};
        known->status = conf_run_case(known->device, one, &options, conf_known_report, known, known->err);
    }
    known->mask |= (uint32_t)known->right << question;
    return known->status == PCO_OK;
}

pco_status conf_known_ask(const pco_conformance_device *device, uint32_t wanted,
                          void (*asks)(void *user, uint32_t question), void *user, uint32_t *mask, pco_error *err)
{
    conf_known known = {.device = device, .wanted = wanted, .asks = asks, .user = user, .err = err};
    conf_cases_context *context = calloc(1, sizeof *context);
    *mask = 0;
    if (!context) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for cases");
    context->visit = conf_known_visit, context->user = &known;
    conf_case *one = conf_cases_begin(context, PCO_OP_ADD, CONF_EXACT);
    conf_cases_in(one, PCO_F32, "67");
    conf_cases_in(one, PCO_F32, "67");
    conf_cases_emit(context);
    one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_EXACT);
    conf_cases_in(one, PCO_F32, "3,17");
    conf_cases_in(one, PCO_F32, "17,5");
    conf_cases_emit(context);
    one = conf_cases_begin(context, PCO_OP_MUL, CONF_EXACT);
    conf_cases_in(one, PCO_F32, "67");
    conf_cases_in(one, PCO_F32, "67");
    conf_cases_emit(context);
    free(context);
    *mask = known.mask;
    return known.status;
}
