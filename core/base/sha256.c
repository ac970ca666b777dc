#include "base/sha256.h"

#include <string.h>

static const uint32_t SHA256_START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t SHA256_ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t sha256_turn(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void sha256_block(uint32_t *state, const unsigned char *block)
{
    uint32_t w[64], s[8];
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 | (uint32_t)block[4 * t + 2] << 8 |
               block[4 * t + 3];
    for (int t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];
        w[t] = w[t - 16] + w[t - 7] + (sha256_turn(a, 7) ^ sha256_turn(a, 18) ^ a >> 3) +
               (sha256_turn(b, 17) ^ sha256_turn(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int t = 0; t < 64; t++) {
        uint32_t one = s[7] + (sha256_turn(s[4], 6) ^ sha256_turn(s[4], 11) ^ sha256_turn(s[4], 25)) +
                       ((s[4] & s[5]) ^ (~s[4] & s[6])) + SHA256_ROUNDS[t] + w[t];
        uint32_t two = (sha256_turn(s[0], 2) ^ sha256_turn(s[0], 13) ^ sha256_turn(s[0], 22)) +
                       ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

void pco_sha256_start(pco_sha256 *sha)
{
    memcpy(sha->state, SHA256_START, sizeof SHA256_START);
    sha->bytes = 0;
}

void pco_sha256_add(pco_sha256 *sha, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    while (bytes > 0) {
        size_t filled = sha->bytes % sizeof sha->block, take = sizeof sha->block - filled;
        if (take > bytes) take = bytes;
        memcpy(sha->block + filled, at, take);
        sha->bytes += take;
        at += take, bytes -= take;
        if (filled + take == sizeof sha->block) sha256_block(sha->state, sha->block);
    }
}

void pco_sha256_finish(pco_sha256 *sha, unsigned char digest[PCO_SHA256_BYTES])
{
    static const unsigned char PADDING[64] = {0x80};
    uint64_t bits = sha->bytes * 8;
    size_t filled = sha->bytes % 64;
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
    pco_sha256_add(sha, PADDING, (filled < 56 ? 56 : 120) - filled);
    pco_sha256_add(sha, length, sizeof length);
    for (int i = 0; i < PCO_SHA256_BYTES; i++) digest[i] = (unsigned char)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}

void pco_sha256_finish_text(pco_sha256 *sha, char text[PCO_SHA256_TEXT])
{
    static const char DIGITS[] = "0123456789abcdef";
    unsigned char digest[PCO_SHA256_BYTES];
    pco_sha256_finish(sha, digest);
    for (int i = 0; i < PCO_SHA256_BYTES; i++) {
        text[2 * i] = DIGITS[digest[i] >> 4];
        text[2 * i + 1] = DIGITS[digest[i] & 15];
    }
    text[PCO_SHA256_TEXT - 1] = 0;
}
