/* PNM, the formats of Netpbm: a header of words, then samples as text (P1 to P3) or as bytes (P4 to P6). */
#include "formats/image.h"

#include "base/error.h"

/* Where the reader stands. */
typedef struct pnm_reader {
    const image_file *file;
    size_t at;
} pnm_reader;

static int pnm_blank(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Blanks, and comments, which go to the ends of their lines. */
static void pnm_skip(pnm_reader *r)
{
    const image_file *file = r->file;
    while (r->at < file->size && (pnm_blank(file->data[r->at]) || file->data[r->at] == '#'))
        if (file->data[r->at++] == '#')
            while (r->at < file->size && file->data[r->at] != '\n') r->at++;
}

/* A number of up to 65535, or (bit: 1) one digit; -1 for none. */
static int32_t pnm_number(pnm_reader *r, int bit)
{
    int32_t value = -1;
    pnm_skip(r);
    while (r->at < r->file->size && r->file->data[r->at] >= '0' && r->file->data[r->at] <= '9') {
        value = (value < 0 ? 0 : 10 * value) + (r->file->data[r->at++] - '0');
        if (value > 65535) return -1;
        if (bit) break;
    }
    return value;
}

static pco_status pnm_bad(const pnm_reader *r, const char *what)
{
    return pco_fail(r->file->err, PCO_ERROR_FORMAT, "%s: %s at byte %zu of this PNM file", r->file->label, what, r->at);
}

/* A sample as 0 to 255. */
static unsigned char pnm_scale(int32_t value, int32_t most)
{
    return (unsigned char)((value * 510 + most) / (2 * most));
}

/* A number of a byte, or of two where `most` needs them, the high one first; they are there. */
static int32_t pnm_binary(pnm_reader *r, int32_t most)
{
    int32_t value = r->file->data[r->at++];
    if (most > 255) value = value << 8 | r->file->data[r->at++];
    return value;
}

/* All samples of a file of numbers: as text, of which each may be one bit (1 is black), or as bytes. */
static pco_status pnm_samples(pnm_reader *r, int text, int bits, int channels, int32_t most)
{
    const pco_image *image = r->file->image;
    unsigned char *to = (unsigned char *)image->rgb;
    for (int64_t i = 0; i < image->width * image->height; i++, to += 3) {
        for (int c = 0; c < channels; c++) {
            const int32_t value = text ? pnm_number(r, bits) : pnm_binary(r, most);
            if (value < 0 || value > most)
                return pnm_bad(r, text ? "a sample is missing or too large" : "a sample is too large");
            to[c] = pnm_scale(bits ? 1 - value : value, most);
        }
        if (channels == 1) to[1] = to[2] = to[0];
    }
    return PCO_OK;
}

/* Rows of bits, which begin at bytes: 1 is black. */
static void pnm_bits(const pnm_reader *r)
{
    const pco_image *image = r->file->image;
    const unsigned char *from = r->file->data + r->at;
    unsigned char *to = (unsigned char *)image->rgb;
    for (int64_t y = 0; y < image->height; y++, from += (image->width + 7) / 8)
        for (int64_t x = 0; x < image->width; x++, to += 3)
            to[0] = to[1] = to[2] = from[x / 8] >> (7 - x % 8) & 1 ? 0 : 255;
}

pco_status image_read_pnm(image_file *file)
{
    pnm_reader r = {file, 2};
    const int kind = file->data[1] - '0', bits = kind == 1 || kind == 4, channels = kind % 3 == 0 ? 3 : 1;
    const int64_t width = pnm_number(&r, 0), height = pnm_number(&r, 0);
    const int32_t most = bits ? 1 : pnm_number(&r, 0);
    if (width < 1 || height < 1 || most < 1) return pnm_bad(&r, "no width, height or largest sample");
    if (kind >= 4 && (r.at == file->size || !pnm_blank(file->data[r.at++])))
        return pnm_bad(&r, "nothing between the header and the samples");
    const uint64_t left = file->size - r.at;
    const uint64_t need = kind == 4 ? (uint64_t)((width + 7) / 8) * (uint64_t)height
                                    : (uint64_t)(width * height * channels) * (kind > 4 && most > 255 ? 2 : 1);
    if (need > left) return pco_fail(file->err, PCO_ERROR_FORMAT, "%s ends before its samples do", file->label);
    pco_status status = image_allocate(file, width, height, 8);
    if (status) return status;
    if (kind == 4) return pnm_bits(&r), PCO_OK;
    return pnm_samples(&r, kind < 4, bits, channels, most);
}
