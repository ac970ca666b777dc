/* Submitting and waiting. One in-order queue: every dispatch sees the writes of all earlier ones. */
#include "opencl.h"

#include <time.h>

uint64_t ocl_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Enqueues steps first .. end-1; *last becomes an event of the last command, owned by the caller, or stays
 * NULL when nothing was to be done. */
static cl_int ocl_enqueue(pco_device *device, pco_gpu_recording *recording, uint32_t first, uint32_t end,
                          cl_event *last)
{
    const ocl_api *api = device->api;
    int timed = recording->timed && device->gpu.profile;
    int by_host = timed && device->clock_unknown;
    while (end > first && !recording->steps[end - 1].kernel) end--;
    for (uint32_t i = first; i < end; i++) {
        ocl_step *step = &recording->steps[i];
        if (step->event) {
            api->ReleaseEvent(step->event);
            step->event = NULL;
        }
        if (!step->kernel) continue;
        uint64_t start = by_host ? ocl_now() : 0;
        cl_event *event = timed ? &step->event : i + 1 == end ? last : NULL;
        cl_int code =
            api->EnqueueNDRangeKernel(device->queue, step->kernel, 3, NULL, step->global, step->local, 0, NULL, event);
        if (code != CL_SUCCESS) {
            if (event) *event = NULL; /* nothing is said of the event */
            return code;
        }
        if (by_host) {
            code = api->WaitForEvents(1, &step->event);
            if (code != CL_SUCCESS) return code;
            step->nanoseconds = ocl_now() - start;
        }
        if (timed && i + 1 == end && api->RetainEvent(step->event) == CL_SUCCESS) *last = step->event;
    }
    return CL_SUCCESS;
}

static pco_status ocl_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count, uint64_t *ticket,
                             pco_error *err)
{
    *ticket = device->ticket;
    pco_status status = ocl_alive(device, err);
    if (status != PCO_OK) return status;
    pco_gpu_recording *recording = program->recording;
    uint32_t segments = device->gpu.driver->segments(recording);
    if (first > segments || count > segments - first)
        return ocl_fail(err, PCO_ERROR_INVALID, "segments %u and %u more of a program that has %u", first, count,
                        segments);
    uint32_t begin = first * recording->per_segment;
    uint64_t after = ((uint64_t)first + count) * recording->per_segment;
    uint32_t end = after < recording->count ? (uint32_t)after : recording->count;
    cl_event last = NULL;
    cl_int code = begin < end ? ocl_enqueue(device, recording, begin, end, &last) : CL_SUCCESS;
    if (code == CL_SUCCESS && last) code = device->api->Flush(device->queue);
    if (code != CL_SUCCESS) {
        if (last) device->api->ReleaseEvent(last);
        return ocl_fail_code(device, err, code, "starting kernels");
    }
    if (!last) return PCO_OK; /* nothing to do: done when what came before it is */
    cl_event *oldest = &device->events[++device->ticket % OCL_TICKETS];
    if (*oldest) device->api->ReleaseEvent(*oldest);
    *oldest = last;
    *ticket = device->ticket;
    return PCO_OK;
}

/* CL_COMPLETE, another status of a command under way, or a negative error code. */
static cl_int ocl_event_status(const pco_device *device, cl_event event)
{
    cl_int status = CL_COMPLETE;
    cl_int code = device->api->GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    return code == CL_SUCCESS ? status : code;
}

/* Until the event is complete; CL_QUEUED when time is up. */
static cl_int ocl_wait_event(const pco_device *device, cl_event event, uint64_t nanoseconds)
{
    cl_int status = ocl_event_status(device, event);
    if (status <= CL_COMPLETE) return status;
    if (nanoseconds == UINT64_MAX) {
        cl_int code = device->api->WaitForEvents(1, &event);
        status = ocl_event_status(device, event);
        return status < 0 ? status : code < 0 ? code : CL_COMPLETE;
    }
    uint64_t start = ocl_now();
    struct timespec nap = {.tv_nsec = 20000};
    for (;;) {
        uint64_t spent = ocl_now() - start;
        if (spent >= nanoseconds) return CL_QUEUED;
        if (nanoseconds - spent < (uint64_t)nap.tv_nsec) nap.tv_nsec = (long)(nanoseconds - spent);
        nanosleep(&nap, NULL);
        status = ocl_event_status(device, event);
        if (status <= CL_COMPLETE) return status;
        if (nap.tv_nsec < 1000000) nap.tv_nsec += nap.tv_nsec / 4;
    }
}

static pco_status ocl_wait(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err)
{
    pco_status status = ocl_alive(device, err);
    if (status != PCO_OK || !ticket) return status;
    if (ticket > device->ticket)
        return ocl_fail(err, PCO_ERROR_INVALID, "ticket %llu was never given out", (unsigned long long)ticket);
    /* Of an older submission no event is left: the oldest one that is kept came after it. */
    if (device->ticket - ticket >= OCL_TICKETS) ticket = device->ticket - OCL_TICKETS + 1;
    cl_int code = ocl_wait_event(device, device->events[ticket % OCL_TICKETS], nanoseconds);
    if (code > 0)
        return ocl_fail(err, PCO_ERROR_TIMEOUT, "%s is still at work after %.3f s", device->gpu.name,
                        (double)nanoseconds * 1e-9);
    if (code < 0) {
        /* Kernels that were accepted and then failed leave nothing to be trusted. */
        device->lost = 1;
        return ocl_fail(err, PCO_ERROR_DEVICE_LOST, "kernels failed on %s, which is lost (%s, %d)", device->gpu.name,
                        ocl_code_name(code), code);
    }
    return PCO_OK;
}

/* 1 and how long the step took in its last run, or 0. */
static int ocl_step_time(const pco_device *device, const ocl_step *step, uint64_t *nanoseconds)
{
    const ocl_api *api = device->api;
    cl_ulong start = 0, end = 0;
    *nanoseconds = step->nanoseconds;
    if (!step->event || device->clock_unknown) return step->event != NULL;
    if (api->GetEventProfilingInfo(step->event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL) ||
        api->GetEventProfilingInfo(step->event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL))
        return 0;
    *nanoseconds = end > start ? end - start : 0;
    return 1;
}

uint32_t ocl_queue_timings(pco_gpu_device *gpu, pco_gpu_recording *recording, pco_timing *out, uint32_t capacity)
{
    pco_device *device = (pco_device *)gpu;
    pco_gpu_timings sum = {.out = out, .capacity = capacity};
    uint64_t time = 0;
    for (uint32_t i = 0; i < recording->count && !device->lost; i++)
        if (ocl_step_time(device, &recording->steps[i], &time))
            pco_gpu_add_timing(&sum, recording->steps[i].node, time);
    return sum.n;
}

const pco_queue_api ocl_queue_api = {
    .size = sizeof(pco_queue_api),
    .submit = ocl_submit,
    .wait = ocl_wait,
};
