/* test_wav SOUND.wav: reading WAV files, other rates, and the bands of the spectrogram. */
#include <math.h>

#include "check.h"
#include "formats/resample.h"
#include "formats/wav.h"
#include "models/log_mel.h"

/* A file under construction. */
typedef struct wav_file {
    unsigned char bytes[1024];
    size_t size;
} wav_file;

static void put_bytes(wav_file *file, const void *data, size_t size)
{
    assert_true(file->size + size <= sizeof file->bytes);
    memcpy(file->bytes + file->size, data, size);
    file->size += size;
}

static void put_number(wav_file *file, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) put_bytes(file, &(unsigned char){(unsigned char)(value >> (8 * i))}, 1);
}

static void put_format(wav_file *file, uint32_t coding, uint32_t bits, uint32_t channels, uint32_t rate)
{
    file->size = 0;
    put_bytes(file, "RIFF\0\0\0\0WAVEfmt \x10\0\0\0", 20);
    put_number(file, coding, 2);
    put_number(file, channels, 2);
    put_number(file, rate, 4);
    put_number(file, (uint64_t)rate * channels * bits / 8, 4);
    put_number(file, channels * bits / 8, 2);
    put_number(file, bits, 2);
}

static void put_data(wav_file *file, uint32_t bytes)
{
    put_bytes(file, "data", 4);
    put_number(file, bytes, 4);
}

static void check_samples(const wav_file *file, const float *want, int64_t count)
{
    pco_wav wav;
    float *samples;
    int64_t made;
    check_ok(pco_wav_parse(file->bytes, file->size, "f", &wav, &err));
    check_ok(pco_wav_read(&wav, wav.rate, &samples, &made, &err));
    assert_int_equal(made, count);
    for (int64_t i = 0; i < count; i++) assert_true(samples[i] == want[i]);
    free(samples);
    pco_wav_close(&wav);
}

static void reads(void **state)
{
    static const float three[] = {0.5f, -1, 0.25f};
    static const double doubles[] = {0.5, -1, 0.25};
    wav_file file = {.size = 0};
    (void)state;
    put_format(&file, 1, 8, 1, 8000);
    put_data(&file, 3);
    put_bytes(&file, "\xC0\x00\xA0", 3);
    check_samples(&file, three, 3);
    for (uint32_t bits = 16; bits <= 32; bits += 8) {
        put_format(&file, 1, bits, 1, 16000);
        put_bytes(&file, "odd \x01\0\0\0x\0", 10); /* a chunk that nobody knows, of an odd size */
        put_data(&file, 3 * bits / 8);
        put_number(&file, (uint64_t)1 << (bits - 2), bits / 8);
        put_number(&file, (uint64_t)1 << (bits - 1), bits / 8);
        put_number(&file, (uint64_t)1 << (bits - 3), bits / 8);
        check_samples(&file, three, 3);
    }
    put_format(&file, 3, 32, 1, 16000);
    put_data(&file, sizeof three);
    put_bytes(&file, three, sizeof three);
    check_samples(&file, three, 3);
    put_format(&file, 3, 64, 1, 16000);
    put_data(&file, UINT32_MAX); /* up to the end */
    put_bytes(&file, doubles, sizeof doubles);
    check_samples(&file, three, 3);
    put_format(&file, 1, 16, 2, 16000);
    put_data(&file, 8);
    put_bytes(&file, "\x00\x40\x00\xC0\x00\x40\x00\x20", 8);
    check_samples(&file, (const float[]){0, 0.375f}, 2);
}

static void refuses(void **state)
{
    static const struct {
        uint32_t coding, bits, channels, rate;
        pco_status status;
        const char *part;
    } cases[] = {
        {1, 12, 1, 16000, PCO_ERROR_UNSUPPORTED, "12 bits"},  {3, 16, 1, 16000, PCO_ERROR_UNSUPPORTED, "coding 3"},
        {7, 8, 1, 16000, PCO_ERROR_UNSUPPORTED, "mu-law"},    {1, 16, 0, 16000, PCO_ERROR_FORMAT, "blocks"},
        {1, 16, 1, 7999, PCO_ERROR_UNSUPPORTED, "7999"},      {1, 16, 1, 768001, PCO_ERROR_UNSUPPORTED, "768001"},
        {0x55, 16, 2, 44100, PCO_ERROR_UNSUPPORTED, "(MP3)"}, {1, 32, 40000, 16000, PCO_ERROR_FORMAT, "blocks"},
    };
    wav_file file = {.size = 0};
    pco_wav wav;
    float *samples;
    int64_t count;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_format(&file, cases[i].coding, cases[i].bits, cases[i].channels, cases[i].rate);
        put_data(&file, 0);
        check_fails(pco_wav_parse(file.bytes, file.size, "f", &wav, &err), cases[i].status, cases[i].part);
    }
    check_fails(pco_wav_parse("RIFX", 4, "f", &wav, &err), PCO_ERROR_FORMAT, "RIFF");
    check_fails(pco_wav_parse("RF64", 4, "f", &wav, &err), PCO_ERROR_UNSUPPORTED, "RF64");
    put_format(&file, 1, 16, 1, 16000);
    check_fails(pco_wav_parse(file.bytes, file.size, "f", &wav, &err), PCO_ERROR_FORMAT, "no 'data'");
    check_fails(pco_wav_parse(file.bytes, file.size - 1, "f", &wav, &err), PCO_ERROR_FORMAT, "ends after 15");
    put_data(&file, 100);
    check_fails(pco_wav_parse(file.bytes, file.size, "f", &wav, &err), PCO_ERROR_FORMAT, "should have 100 bytes");
    put_format(&file, 3, 32, 1, 16000);
    put_data(&file, 8);
    put_bytes(&file, "\0\0\0\0\0\0\x80\x7F", 8); /* infinity */
    check_ok(pco_wav_parse(file.bytes, file.size, "f", &wav, &err));
    check_fails(pco_wav_read(&wav, 16000, &samples, &count, &err), PCO_ERROR_FORMAT, "sample 1");
    check_fails(pco_wav_read(&wav, 8000, &samples, &count, &err), PCO_ERROR_FORMAT, "sample 1");
    check_fails(pco_wav_open("/nowhere.wav", &wav, &err), PCO_ERROR_IO, "/nowhere.wav");
}

/* ---- other rates ---- */

typedef struct wave {
    double step; /* radians from one sample to the next */
} wave;

static int read_wave(void *user, int64_t first, int64_t count, float *samples)
{
    const wave *w = user;
    for (int64_t i = 0; i < count; i++) samples[i] = (float)sin(w->step * (double)(first + i));
    return 0;
}

/* The largest difference from the same sine times `gain`, away from the ends. */
static double resampled(double hertz, uint32_t from, uint32_t to, double gain)
{
    const double pi = 3.14159265358979323846;
    wave w = {2 * pi * hertz / from};
    const int64_t count = from / 4, made = pco_resample_count(count, from, to);
    float *samples = malloc((size_t)made * sizeof *samples);
    double worst = 0;
    assert_non_null(samples);
    assert_int_equal(pco_resample(read_wave, &w, count, from, to, samples), 0);
    for (int64_t i = made / 4; i < made * 3 / 4; i++)
        worst = fmax(worst, fabs((double)samples[i] - gain * sin(2 * pi * hertz / to * (double)i)));
    free(samples);
    return worst;
}

static void resamples(void **state)
{
    static const uint32_t rates[] = {8000, 11025, 22050, 32000, 44100, 48000, 96000, 44101};
    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        const double limit = (rates[i] < 16000 ? rates[i] : 16000) / 2.0;
        for (double share = 0.05; share <= 0.9; share += 0.17) {
            const double error = resampled(share * limit, rates[i], 16000, 1);
            if (!(error <= 1e-4)) fail_msg("%u Hz: %g Hz is off by %g", rates[i], share * limit, error);
        }
        for (double share = 1.1; rates[i] > 16000 && share * limit < rates[i] / 2.0; share += 0.13) {
            const double left = resampled(share * limit, rates[i], 16000, 0);
            if (!(left <= 1e-4)) fail_msg("%u Hz: of %g Hz %g is left", rates[i], share * limit, left);
        }
    }
    assert_int_equal(pco_resample_count(3, 48000, 16000), 1);
    assert_int_equal(pco_resample_count(4, 48000, 16000), 2);
    assert_int_equal(pco_resample_count(0, 48000, 16000), 0);
}

/* ---- the spectrogram ---- */

static void bands(void **state)
{
    pco_log_mel *mel;
    double area = 0;
    (void)state;
    check_fails(pco_log_mel_create(0, &mel, &err), PCO_ERROR_INVALID, "0 bands");
    check_ok(pco_log_mel_create(80, &mel, &err));
    /* librosa.filters.mel(sr=16000, n_fft=400, n_mels=80): the first band has one bin, in which it is 0.02486259 */
    assert_true(fabs(pco_log_mel_filter(mel, 0, 1) - 0.02486259) < 1e-8);
    assert_true(pco_log_mel_filter(mel, 0, 0) == 0 && pco_log_mel_filter(mel, 0, 2) == 0);
    for (int bin = 0; bin < PCO_LOG_MEL_BINS; bin++) area += 40 * pco_log_mel_filter(mel, 79, bin);
    assert_true(fabs(area - 1) < 0.01);
    pco_log_mel_destroy(mel);
}

/* The power of one frame by its definition, a sum over all samples for each bin. */
static void transforms(void **state)
{
    const double pi = 3.14159265358979323846;
    enum { FRAMES = 3, SAMPLES = FRAMES * PCO_LOG_MEL_HOP, BANDS = 20 };
    float samples[SAMPLES], features[BANDS * FRAMES];
    double logs[BANDS * FRAMES], largest = -INFINITY;
    pco_log_mel *mel;
    (void)state;
    check_ok(pco_log_mel_create(BANDS, &mel, &err));
    for (int i = 0; i < SAMPLES; i++) samples[i] = (float)(sin(0.31 * i) + 0.3 * cos(1.7 * i * i));
    check_ok(pco_log_mel_run(mel, samples, SAMPLES - 40, FRAMES, features, &err));
    for (int frame = 0; frame < FRAMES; frame++) {
        double power[PCO_LOG_MEL_BINS];
        for (int bin = 0; bin < PCO_LOG_MEL_BINS; bin++) {
            double real = 0, imaginary = 0;
            for (int i = 0; i < PCO_LOG_MEL_FFT; i++) {
                int at = frame * PCO_LOG_MEL_HOP - 200 + i;
                at = at < 0 ? -at : at >= SAMPLES ? 2 * (SAMPLES - 1) - at : at;
                const double x = at < SAMPLES - 40 ? (double)samples[at] : 0;
                const double weighted = x * (0.5 - 0.5 * cos(2 * pi * i / 400)), angle = 2 * pi * bin * i / 400;
                real += weighted * cos(angle);
                imaginary -= weighted * sin(angle);
            }
            power[bin] = real * real + imaginary * imaginary;
        }
        for (int band = 0; band < BANDS; band++) {
            double sum = 0;
            for (int bin = 0; bin < PCO_LOG_MEL_BINS; bin++) sum += pco_log_mel_filter(mel, band, bin) * power[bin];
            logs[band * FRAMES + frame] = log10(fmax(sum, 1e-10));
            largest = fmax(largest, logs[band * FRAMES + frame]);
        }
    }
    for (int i = 0; i < BANDS * FRAMES; i++) /* rounded to float32 once; sums of 400 in double are far below that */
        assert_true(fabs((double)features[i] - (fmax(logs[i], largest - 8) + 4) / 4) <= 2 * 0x1p-24);
    pco_log_mel_destroy(mel);
}

static const char *sound_path;

static void opens(void **state)
{
    pco_wav wav;
    float *samples;
    int64_t count;
    (void)state;
    check_ok(pco_wav_open(sound_path, &wav, &err));
    assert_true(wav.rate == 16000 && wav.channels == 1 && wav.bits == 16 && !wav.is_float);
    check_ok(pco_wav_read(&wav, 16000, &samples, &count, &err));
    assert_int_equal(count, wav.frames);
    free(samples);
    pco_wav_close(&wav);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads),      cmocka_unit_test(refuses),
                                       cmocka_unit_test(resamples),  cmocka_unit_test(bands),
                                       cmocka_unit_test(transforms), cmocka_unit_test(opens)};
    if (argc != 2) return 2;
    sound_path = argv[1];
    return cmocka_run_group_tests_name("wav", tests, NULL, NULL);
}
