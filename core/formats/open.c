#include "base/error.h"
#include "formats/shards.h"
#include "formats/torch_file.h"
#include "portico/nn.h"

#include <string.h>

pco_status pco_weights_open(const char *path, pco_weights **weights, pco_error *err)
{
    static const char *const torch[] = {".bin", ".pt", ".pth"};
    PCO_NEEDS(weights);
    *weights = NULL;
    PCO_NEEDS(path);
    const char *end = strrchr(path, '.');
    for (size_t i = 0; end && i < sizeof torch / sizeof *torch; i++)
        if (strcmp(end, torch[i]) == 0) return pco_torch_open(path, weights, err);
    return pco_shards_open(path, weights, err);
}
