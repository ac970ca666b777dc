#include "base/quant.h"

#include <math.h>

float quant_inverse(float scale)
{
    const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
    return isfinite(inverse) ? inverse : 0.0f;
}

unsigned char quant_level(float x, int most)
{
    const float q = floorf(x + 0.5f);
    return (unsigned char)(q < 0 ? 0 : q > (float)most ? (float)most : q);
}
