#include "train/schedule.h"

#include <math.h>

double pco_schedule_rate(const pco_schedule *schedule, int64_t step)
{
    const double t = (double)(step < 1 ? 1 : step), warmup = (double)schedule->warmup_steps;
    const double top = schedule->learning_rate, least = schedule->min_learning_rate, pi = 3.14159265358979323846;
    if (schedule->type == PCO_SCHEDULE_INVERSE_SQRT) {
        double falling = 1 / sqrt(t), rising = warmup > 0 ? t / (warmup * sqrt(warmup)) : falling;
        return top / sqrt((double)schedule->d_model) * (rising < falling ? rising : falling);
    }
    if (t < warmup) return top * t / warmup;
    if (schedule->type == PCO_SCHEDULE_CONSTANT) return top;
    if (t >= (double)schedule->steps) return least;
    double part = (t - warmup) / ((double)schedule->steps - warmup);
    if (schedule->type == PCO_SCHEDULE_LINEAR) return top + (least - top) * part;
    return least + 0.5 * (top - least) * (1 + cos(pi * part));
}
