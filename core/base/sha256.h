/* SHA-256 (FIPS 180-4), for digests that are compared across machines and versions. */
#ifndef PCO_BASE_SHA256_H
#define PCO_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct pco_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* taken so far */
    unsigned char block[64];
} pco_sha256;

enum { PCO_SHA256_BYTES = 32, PCO_SHA256_TEXT = 65 }; /* the digest; its hexadecimal text with the NUL */

void pco_sha256_start(pco_sha256 *sha);
void pco_sha256_add(pco_sha256 *sha, const void *data, size_t bytes);
/* Ends the sum; `sha` must be started anew before it is used again. */
void pco_sha256_finish(pco_sha256 *sha, unsigned char digest[PCO_SHA256_BYTES]);
/* The same, as lower-case hexadecimal digits. */
void pco_sha256_finish_text(pco_sha256 *sha, char text[PCO_SHA256_TEXT]);

#endif
