/* WAV files: RIFF with a "fmt " and a "data" chunk (Microsoft and IBM 1991, "Multimedia Programming Interface and Data
 * Specifications 1.0"; WAVEFORMATEXTENSIBLE of 2001). Whole numbers of 8 (unsigned), 16, 24 and 32 bits, and floats of
 * 32 and 64, little-endian, of any number of channels. */
#ifndef PCO_FORMATS_WAV_H
#define PCO_FORMATS_WAV_H

#include "base/file.h"

/* Read-only once opened. */
typedef struct pco_wav {
    int64_t frames; /* samples of each channel */
    uint32_t rate;  /* of them in a second */
    uint32_t channels, bits;
    int is_float;
    const unsigned char *data; /* frames * channels samples, inside the file */
    const char *label;         /* borrowed, for messages */
    pco_map map;               /* owned; empty when parsed from the caller's memory */
} pco_wav;

/* Maps and checks `path`, which lives until the close. Close *wav with pco_wav_close; after an error there is nothing
 * to close. Errors: IO; FORMAT: no WAV file, sizes that do not go together, bytes missing; UNSUPPORTED for a coding
 * other than those above, by its number, and for rates outside of 8,000 to 768,000 Hz. */
pco_status pco_wav_open(const char *path, pco_wav *wav, pco_error *err) PCO_NODISCARD;

/* The same for bytes that the caller keeps alive and unchanged until the close. */
pco_status pco_wav_parse(const void *data, size_t size, const char *label, pco_wav *wav, pco_error *err) PCO_NODISCARD;

void pco_wav_close(pco_wav *wav);

/* The sound at another rate: *samples (release with free) holds *count, the mean of the channels, full scale at 1.
 * Errors: FORMAT for a sample that is no finite float; OUT_OF_HOST_MEMORY. */
pco_status pco_wav_read(const pco_wav *wav, uint32_t rate, float **samples, int64_t *count,
                        pco_error *err) PCO_NODISCARD;

#endif
