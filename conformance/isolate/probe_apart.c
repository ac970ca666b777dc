/* Probes in a worker process: a device that crashes or hangs there has no fingerprint, and the run goes on.
 */
#include "isolate/isolate.h"
#include "run/probe.h"
#include "run/result.h"

#include "base/clock.h"
#include "base/error.h"

#include <poll.h>
#include <string.h>

enum { PATIENCE = 5 /* as long as a variant of a case may take, so many times, for all probes together */ };

typedef struct conf_probe_apart {
    conf_process process;
    pco_conformance_probe *probe;
    bool done;
    pco_status status;
    pco_error *err;
} conf_probe_apart;

pco_status conf_probe_line_read(const cJSON *object, const char *label, pco_conformance_probe_line *line,
                                pco_error *err)
{
    const char *words[PCO_PROBE_BROKEN + 1], *name = "", *value = "", *declared = "";
    uint32_t verdict = 0;
    int64_t bits = 0;
    for (int i = 0; i <= PCO_PROBE_BROKEN; i++) words[i] = pco_conformance_probe_word((pco_conformance_probe_verdict)i);
    pco_status status = pco_json_string(object, label, "probe", &name, err);
    if (!status) status = pco_json_string(object, label, "value", &value, err);
    if (!status) status = pco_json_string(object, label, "declared", &declared, err);
    if (!status) status = pco_json_enum(object, label, "verdict", words, PCO_PROBE_BROKEN + 1, &verdict, err);
    if (!status) status = pco_json_int(object, label, "bits", 0, UINT32_MAX, &bits, err);
    *line = (pco_conformance_probe_line){.verdict = (pco_conformance_probe_verdict)verdict, .bits = (uint32_t)bits};
    snprintf(line->name, sizeof line->name, "%s", name);
    snprintf(line->value, sizeof line->value, "%s", value);
    snprintf(line->declared, sizeof line->declared, "%s", declared);
    return status;
}

static bool probe_answer(void *user, char *text)
{
    conf_probe_apart *apart = user;
    cJSON *line = NULL;
    const char *kind = "", *why = "";
    pco_conformance_probe_line one;
    apart->status = pco_json_parse(text, strlen(text), "a worker's answer", &line, apart->err);
    if (!apart->status) apart->status = pco_json_string(line, "an answer", "kind", &kind, apart->err);
    if (!apart->status && strcmp(kind, "probe") == 0) {
        apart->status = conf_probe_line_read(line, "an answer", &one, apart->err);
        if (!apart->status) apart->status = conf_probe_add(apart->probe, &one, apart->err);
    } else if (!apart->status && (strcmp(kind, "stops") == 0 || strcmp(kind, "broken") == 0)) {
        apart->status = pco_json_string(line, "an answer", "why", &why, apart->err);
        snprintf(apart->probe->message, sizeof apart->probe->message, "%s%.200s",
                 *kind == 'b' ? "it could not be opened: " : "", why);
        apart->done = true;
    } else if (!apart->status && strcmp(kind, "probed") == 0) {
        apart->done = true;
    }
    cJSON_Delete(line);
    return !apart->status && !apart->done;
}

pco_status pco_conformance_probe_isolated(const pco_conformance_isolation *isolation, pco_conformance_probe *probe,
                                          pco_error *err)
{
    conf_probe_apart apart = {.probe = probe, .err = err};
    bool gone = false, killed;
    int state = 0;
    *probe = (pco_conformance_probe){0};
    apart.status = conf_process_start(&apart.process, isolation->command, err);
    if (apart.status) return apart.status;
    const double limit = pco_seconds() + PATIENCE * isolation->timeout;
    conf_process_send(&apart.process, "{\"probe\": 1}\n");
    while (!apart.done && !apart.status && !gone && pco_seconds() < limit &&
           !(isolation->interrupted && *isolation->interrupted)) {
        struct pollfd fds[] = {{.fd = apart.process.out, .events = POLLIN},
                               {.fd = apart.process.error, .events = POLLIN}};
        poll(fds, 2, 100);
        conf_process_drain(&apart.process);
        gone = conf_process_ended(&apart.process, &state);
        if (gone) conf_process_drain(&apart.process);
        conf_process_read(&apart.process, probe_answer, &apart);
    }
    if (!apart.done && gone) conf_process_describe(&apart.process, state, probe->message, sizeof probe->message);
    if (!apart.done && !gone) {
        if (isolation->interrupted && *isolation->interrupted)
            snprintf(probe->message, sizeof probe->message, "interrupted");
        else if (!apart.status)
            snprintf(probe->message, sizeof probe->message, "no answer within %g s", PATIENCE * isolation->timeout);
        conf_process_kill(&apart.process);
    }
    conf_process_finish(&apart.process, 20, &killed);
    conf_probe_finish(probe);
    return apart.status;
}
