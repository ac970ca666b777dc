/* Heights and ticks of the axes of a figure. */
#include "cli/plot.h"

#include <math.h>

double plot_height(const plot_figure *figure, double loss)
{
    return figure->logarithmic ? log10(loss > 1e-12 ? loss : 1e-12) : loss;
}

double plot_tick(double span, int ticks)
{
    static const double steps[] = {1, 2, 5, 10};
    double raw = span > 0 ? span / ticks : 1, power = pow(10, floor(log10(raw)));
    for (int i = 0; i < 4; i++)
        if (steps[i] * power >= raw) return steps[i] * power;
    return 10 * power;
}
