/* Figures of single operations: what goes in, and what is said of them. */
#include "cli/bench.h"

#include <stdio.h>

void bench_values(float *values, int64_t count, uint32_t salt)
{
    for (int64_t i = 0; i < count; i++) values[i] = (float)((i * 17 + i / 4096 * 31 + salt) % 255 - 127) / 127;
}

void bench_refuse(bench_figure *figure, const char *name, const pco_error *why)
{
    *figure = (bench_figure){.unit = ""};
    snprintf(figure->name, sizeof figure->name, "%s", name);
    snprintf(figure->error, sizeof figure->error, "%.500s", *why->message ? why->message : "failed");
}

void bench_rate(bench_figure *figure, double seconds, double flops, double bytes)
{
    figure->milliseconds = 1e3 * seconds;
    figure->rate = 1e-9 * (flops > 0 ? flops : bytes) / seconds;
    figure->unit = flops > 0 ? "GFLOP/s" : "GB/s";
}
