/* Training without a device: schedules, data, first values, configs, BLEU. */
#define CHECK_FOLDER
#include "check.h"

#include <math.h>

#include "train/bleu.h"
#include "train/config.h"
#include "train/dates.h"
#include "train/random.h"

/* cmocka's own comparison is in float. */
#define check_near(value, wanted, off) \
    do { \
        double near_value = (value), near_wanted = (wanted); \
        if (!(fabs(near_value - near_wanted) <= (off))) \
            fail_msg("%s is %.17g, and %.17g was expected", #value, near_value, near_wanted); \
    } while (0)

/* ---- schedules ---- */

static void schedules(void **state)
{
    (void)state;
    pco_schedule s = {
        .type = PCO_SCHEDULE_COSINE, .learning_rate = 8, .min_learning_rate = 2, .warmup_steps = 4, .steps = 12};
    check_near(pco_schedule_rate(&s, 1), 2, 1e-12); /* 8 * 1/4 */
    check_near(pco_schedule_rate(&s, 4), 8, 1e-12);
    check_near(pco_schedule_rate(&s, 8), 5, 1e-12);                       /* half way: the mean of 8 and 2 */
    check_near(pco_schedule_rate(&s, 6), 2 + 3 * (1 + sqrt(0.5)), 1e-12); /* cos(pi / 4) */
    check_near(pco_schedule_rate(&s, 12), 2, 0);
    check_near(pco_schedule_rate(&s, 100), 2, 0);
    s.type = PCO_SCHEDULE_LINEAR;
    check_near(pco_schedule_rate(&s, 6), 6.5, 1e-12);
    s.type = PCO_SCHEDULE_CONSTANT;
    check_near(pco_schedule_rate(&s, 2), 4, 1e-12);
    check_near(pco_schedule_rate(&s, 100), 8, 0);
    /* Vaswani et al. 2017, (3): d 512, warm-up 4000: 512^-0.5 * 4000^-0.5 at its top, and half of it 4 times
     * later */
    s = (pco_schedule){.type = PCO_SCHEDULE_INVERSE_SQRT, .learning_rate = 1, .warmup_steps = 4000, .d_model = 512};
    check_near(pco_schedule_rate(&s, 4000), 6.987712429686843e-04, 1e-15);
    check_near(pco_schedule_rate(&s, 16000), 3.4938562148434217e-04, 1e-15);
    check_near(pco_schedule_rate(&s, 1), 6.987712429686843e-04 / 4000, 1e-15);
}

/* ---- dates ---- */

static void dates(void **state)
{
    (void)state;
    pco_dates *d = pco_dates_create();
    pco_vocabulary v;
    int valid = 0, lower = 0;
    assert_non_null(d);
    /* counted by models/dates/generate.py */
    assert_int_equal(pco_dates_days(d, PCO_DATES_TRAIN), 32113);
    assert_int_equal(pco_dates_days(d, PCO_DATES_VALID), 741);
    assert_int_equal(pco_dates_days(d, PCO_DATES_TEST), 3671);
    for (uint64_t i = 0; i < 2000; i++) {
        char written[PCO_DATES_WRITTEN], iso[PCO_DATES_ISO], again[PCO_DATES_WRITTEN], iso_again[PCO_DATES_ISO];
        int year, month, day;
        pco_dates_pair(d, PCO_DATES_TRAIN, 5, i, written, iso);
        pco_dates_pair(d, PCO_DATES_TRAIN, 5, i, again, iso_again);
        assert_string_equal(written, again);
        assert_string_equal(iso, iso_again);
        assert_int_equal(sscanf(iso, "%4d-%2d-%2d", &year, &month, &day), 3);
        valid += year >= 1970 && year <= 2069 && month >= 1 && month <= 12 && day >= 1 && day <= 31;
        char digits[3] = {iso[2], iso[3], 0};
        assert_non_null(strstr(written, digits)); /* every form spells the year's last two digits */
        int letters = 0;
        for (const char *c = written; *c; c++) letters |= *c >= 'A' && *c <= 'Z';
        lower += !letters;
    }
    assert_int_equal(valid, 2000);
    assert_true(lower > 500 && lower < 1200); /* a quarter, and the forms without letters */
    check_ok(pco_dates_vocabulary(&v, &err));
    assert_int_equal(v.count, 65);
    assert_string_equal(v.tokens[3], " ");
    assert_string_equal(v.tokens[64], "y");
    pco_vocabulary_release(&v);
    pco_dates_destroy(d);
}

/* ---- BLEU ---- */

static void check_tokens(const char *line, const char *wanted)
{
    char *tokens;
    check_ok(pco_bleu_tokenize(line, &tokens, &err));
    assert_string_equal(tokens, wanted);
    free(tokens);
}

static void bleu(void **state)
{
    (void)state;
    /* the four substitutions of mteval-v13a, done by hand */
    check_tokens("Hello, world! It's 1,000.5 (or so)-ish: 5-4 a...b.",
                 "Hello , world ! It's 1,000.5 ( or so ) -ish : 5 - 4 a . . . b .");
    check_tokens("&quot;A&amp;B&quot; &lt;x&gt; 3.x y.3 2,z", "\" A & B \" < x > 3 . x y . 3 2 , z");
    check_tokens("\xD9\x84\xD8\xA8. \xDA\x86\xD8\x9F\xC2\xA0\xE3\x80\x80x", "\xD9\x84\xD8\xA8 . \xDA\x86\xD8\x9F x");
    check_tokens("e-mail 12-13-x -1", "e-mail 12 - 13 - x -1");
    check_tokens("...,,", ". . . , ,");
    check_tokens("", "");
    /* matches 14/17, 7/14, 5/11, 3/8; lengths 17 and 18: 100 exp(1 - 18/17) (14/17 * 1/2 * 5/11 * 3/8)^(1/4),
     * the figure that sacreBLEU's documentation gives for these sentences */
    static const char *const answers[] = {"The dog bit the man.", "It wasn't surprising.",
                                          "The man had just bitten him."};
    static const char *const references[][2] = {{"The dog bit the man.", "The dog had bit the man."},
                                                {"It was not unexpected.", "No one was surprised."},
                                                {"The man bit him first.", "The man had bitten the dog."}};
    pco_bleu b = {0};
    double precisions[4], brevity;
    for (int i = 0; i < 3; i++) check_ok(pco_bleu_add(&b, answers[i], references[i], 2, &err));
    check_near(pco_bleu_score(&b, &brevity, precisions), 48.53082744, 1e-6);
    assert_int_equal(b.matches[0], 14);
    assert_int_equal(b.totals[3], 8);
    check_near(brevity, exp(1 - 18.0 / 17), 1e-12);
    /* Papineni's clipping, and smoothing: 2/7, then 1/(2*6), 1/(4*5), 1/(8*4) */
    static const char *const cat[] = {"the cat is on the mat"};
    b = (pco_bleu){0};
    check_ok(pco_bleu_add(&b, "the the the the the the the", cat, 1, &err));
    check_near(pco_bleu_score(&b, NULL, precisions), 7.80984984230064, 1e-9);
    check_near(precisions[3], 100.0 / 32, 1e-12);
    b = (pco_bleu){0};
    check_ok(pco_bleu_add(&b, "a dog", cat, 1, &err)); /* nothing in common */
    assert_true(pco_bleu_score(&b, NULL, NULL) == 0);
    b = (pco_bleu){0};
    check_ok(pco_bleu_add(&b, "the cat", cat, 1, &err)); /* no 4-grams at all */
    assert_true(pco_bleu_score(&b, NULL, NULL) == 0);
}

/* ---- data ---- */

static const char *file_with(const char *name, const char *text, size_t size)
{
    static char path[4][160];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", check_folder, name);
    FILE *out = fopen(p, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, size, out), size);
    fclose(out);
    return p;
}
#define FILE_WITH(name, text) file_with(name, text, sizeof text - 1)

static pco_data_config pairs_config(const char *file)
{
    return (pco_data_config){.kind = PCO_DATA_PAIRS,
                             .file = (char *)file,
                             .source_column = 1,
                             .target_column = 2,
                             .context = 16,
                             .share_vocabulary = 1,
                             .buckets = {{4, 8, 16}, {5, 16}},
                             .n_buckets = {3, 2}};
}

static void check_data_fails(const char *file, const char *part)
{
    pco_data_config config = pairs_config(file);
    pco_data *data;
    check_fails(pco_data_open(&config, NULL, 1, 2, &data, &err), PCO_ERROR_FORMAT, part);
}

static void data_errors(void **state)
{
    (void)state;
    check_data_fails(FILE_WITH("empty.tsv", ""), "empty.tsv:1: the file is empty");
    check_data_fails(FILE_WITH("one.tsv", "a\tb\nlonely\n"), "one.tsv:2: column 2 is missing: the line has 1 column");
    check_data_fails(FILE_WITH("hole.tsv", "a\tb\n\tb\n"), "hole.tsv:2: column 1 is empty");
    check_data_fails(FILE_WITH("latin.tsv", "a\tb\nc\td\ncaf\xE9\tb\n"),
                     "latin.tsv:3: the line is not UTF-8 at byte 3");
    check_data_fails(FILE_WITH("nul.tsv", "a\tb\0\n"), "nul.tsv:1");
    pco_data_config text = {.kind = PCO_DATA_TEXT,
                            .file = (char *)FILE_WITH("bad.txt", "fine\nn\xFFo"),
                            .context = 4,
                            .share_vocabulary = 1,
                            .buckets = {{4}, {4}},
                            .n_buckets = {1, 1}};
    pco_data *data;
    check_fails(pco_data_open(&text, NULL, 1, 2, &data, &err), PCO_ERROR_FORMAT,
                "bad.txt:2: the text is not UTF-8 at byte 6");
    text.file = (char *)FILE_WITH("short.txt", "abcdefg");
    check_ok(pco_data_open(&text, NULL, 1, 2, &data, &err));
    const pco_data_ids none = {-1, -1, -1, 0};
    check_fails(pco_data_encode(data, &none, &err), PCO_ERROR_FORMAT, "7 tokens, too few for windows of 4");
    pco_data_close(data);
    text.file = (char *)"/nowhere/at/all.txt";
    check_fails(pco_data_open(&text, NULL, 1, 2, &data, &err), PCO_ERROR_IO, "/nowhere/at/all.txt");
}

/* A row must not be longer than the last bucket, which is what batches have room for. */
static void data_buckets(void **state)
{
    (void)state;
    pco_data_config pairs = pairs_config(FILE_WITH("long.tsv", "abcdefghijkl\tx\nx\tabcdefghijkl\n"));
    pco_data_config dates = {
        .kind = PCO_DATA_DATES, .context = 64, .share_vocabulary = 1, .buckets = {{36}, {11}}, .n_buckets = {1, 1}};
    const pco_data_ids ids = {.pad = 0, .eos = 2, .decoder_start = 1, .add_eos_to_source = 1};
    pco_data *data;
    pairs.buckets[0][2] = 9;
    check_ok(pco_data_open(&pairs, NULL, 1, 2, &data, &err));
    check_fails(pco_data_encode(data, &ids, &err), PCO_ERROR_FORMAT,
                "'source_buckets' ends at 9, and a row can have 16 tokens");
    pco_data_close(data);
    pairs.buckets[0][2] = 16;
    pairs.n_buckets[1] = 1;
    check_ok(pco_data_open(&pairs, NULL, 1, 2, &data, &err));
    check_fails(pco_data_encode(data, &ids, &err), PCO_ERROR_FORMAT, "'target_buckets' ends at 5");
    pco_data_close(data);
    check_ok(pco_data_open(&dates, NULL, 1, 2, &data, &err));
    check_fails(pco_data_encode(data, &ids, &err), PCO_ERROR_FORMAT,
                "'source_buckets' ends at 36, and a row can have 37 tokens");
    pco_data_close(data);
    dates.buckets[0][0] = 37;
    check_ok(pco_data_open(&dates, NULL, 1, 64, &data, &err));
    check_ok(pco_data_encode(data, &ids, &err));
    int64_t longest = 0; /* a row of 37 does come up, and none is longer */
    for (int64_t i = 0; i < 512; i++) {
        pco_data_batch batch;
        pco_data_read(data, PCO_DATA_TRAIN, i, &batch);
        assert_int_equal(batch.target_length, 11);
        for (int64_t row = 0; row < batch.rows; row++)
            if (batch.source_lengths[row] > longest) longest = batch.source_lengths[row];
    }
    assert_int_equal(longest, 37);
    pco_data_close(data);
}

/* Eleven pairs: "N" letters and a number, of different lengths; further columns are ignored. */
static const char pairs_text[] =
    "a\tk\tx\nbb\tkk\nccc\tkkk\tx\ty\ndddd\tk\neeeee\tk\r\nf\tk\ng\tk\nhh\tkkkkkk\nii\tk\njj\tk\n"
    "kkkkkkkkkkkkkkkkkkkkk\tk\n";

/* Which pairs a batch holds, by their source's first id. */
static void check_batch(const pco_data_batch *batch, int *seen)
{
    int64_t tokens = 0;
    for (int64_t row = 0; row < batch->rows; row++) {
        const int32_t *target = batch->target + row * batch->target_length,
                      *labels = batch->labels + row * batch->target_length;
        const int32_t *source = batch->source + row * batch->source_length;
        int64_t end = 0;
        if (labels[0] == PCO_DATA_IGNORE) continue;
        assert_int_equal(target[0], 1);
        while (labels[end] != 2) {
            assert_int_equal(labels[end], target[end + 1]);
            end++;
        }
        for (int64_t i = end + 1; i < batch->target_length; i++) {
            assert_int_equal(labels[i], PCO_DATA_IGNORE);
            assert_int_equal(target[i], 0);
        }
        int32_t length = batch->source_lengths[row];
        assert_int_equal(source[length - 1], 2);
        for (int64_t i = length; i < batch->source_length; i++) assert_int_equal(source[i], 0);
        seen[source[0]]++;
        tokens += end + 1;
    }
    assert_int_equal(tokens, batch->tokens);
}

static void data_pairs(void **state)
{
    (void)state;
    pco_data_config config = pairs_config(FILE_WITH("pairs.tsv", pairs_text));
    pco_data *data, *again;
    int64_t left_out;
    const pco_data_ids ids = {.pad = 0, .eos = 2, .decoder_start = 1, .add_eos_to_source = 1};
    check_ok(pco_data_open(&config, NULL, 9, 3, &data, &err));
    check_ok(pco_data_encode(data, &ids, &err));
    check_ok(pco_data_open(&config, NULL, 9, 3, &again, &err));
    check_ok(pco_data_encode(again, &ids, &err));
    assert_int_equal(pco_data_samples(data, PCO_DATA_TRAIN, &left_out), 10);
    assert_int_equal(left_out, 1);
    assert_int_equal(pco_data_batches(data, PCO_DATA_TRAIN), 4);
    int differs = 0;
    int32_t first[2][64] = {{0}};
    for (int epoch = 0; epoch < 3; epoch++) {
        int seen[64] = {0};
        for (int i = 0; i < 4; i++) {
            pco_data_batch batch, same;
            pco_data_read(data, PCO_DATA_TRAIN, 4 * epoch + i, &batch);
            check_batch(&batch, seen);
            assert_true(batch.target_length == 5 || batch.target_length == 16);
            if (i == 0) first[epoch > 0][batch.source[0]]++;
            pco_data_read(again, PCO_DATA_TRAIN, 11 - (4 * epoch + i), &same); /* another order of reading ... */
            pco_data_read(again, PCO_DATA_TRAIN, 4 * epoch + i, &same);        /* ... gives the same batch */
            assert_int_equal(same.source_length, batch.source_length);
            assert_memory_equal(same.source, batch.source, 3 * (size_t)batch.source_length * sizeof(int32_t));
            assert_memory_equal(same.labels, batch.labels, 3 * (size_t)batch.target_length * sizeof(int32_t));
        }
        int pairs = 0;
        for (int c = 0; c < 64; c++) {
            assert_true(seen[c] <= 1); /* each pair once an epoch */
            pairs += seen[c];
        }
        assert_int_equal(pairs, 10);
    }
    for (int c = 0; c < 64; c++) differs |= first[0][c] != first[1][c];
    assert_true(differs);
    pco_data_close(again);
    pco_data_close(data);
}

static void data_text(void **state)
{
    (void)state;
    char text[1001];
    for (int i = 0; i < 1000; i++) text[i] = (char)('a' + (i * i + i / 7) % 23);
    pco_data_config config = {.kind = PCO_DATA_TEXT,
                              .file = (char *)file_with("text.txt", text, 1000),
                              .context = 8,
                              .held_out = 0.2,
                              .share_vocabulary = 1,
                              .buckets = {{8}, {8}},
                              .n_buckets = {1, 1}};
    pco_data *data;
    pco_data_batch batch;
    const pco_data_ids none = {-1, -1, -1, 0};
    check_ok(pco_data_open(&config, NULL, 4, 5, &data, &err));
    check_ok(pco_data_encode(data, &none, &err));
    assert_int_equal(pco_data_samples(data, PCO_DATA_TRAIN, NULL), 99);    /* (800 - 8) / 8 */
    assert_int_equal(pco_data_samples(data, PCO_DATA_HELD_OUT, NULL), 24); /* (200 - 1) / 8 */
    assert_int_equal(pco_data_batches(data, PCO_DATA_TRAIN), 19);
    pco_data_read(data, PCO_DATA_HELD_OUT, 4, &batch); /* windows 20 .. 23, and a row of none */
    assert_int_equal(batch.tokens, 4 * 8);
    assert_null(batch.source);
    pco_data_read(data, PCO_DATA_TRAIN, 0, &batch);
    assert_int_equal(batch.tokens, 5 * 8);
    for (int row = 0; row < 5; row++)
        for (int i = 0; i < 7; i++) assert_int_equal(batch.labels[8 * row + i], batch.target[8 * row + i + 1]);
    pco_data_close(data);
}

/* ---- first values ---- */

static double moment(const pco_initialization *how, const char *name, pco_nn_role role, uint32_t rank, int64_t rows,
                     int64_t columns, double *most)
{
    pco_nn_parameter p = {.name = (char *)name, .role = role, .rank = rank, .shape = {rows, columns}};
    const int64_t count = rank == 2 ? rows * columns : rows;
    float *values = malloc((size_t)count * sizeof *values);
    double sum = 0;
    assert_non_null(values);
    *most = 0;
    pco_initialize(how, 3, &p, 2, values);
    for (int64_t i = 0; i < count; i++) {
        sum += (double)values[i] * (double)values[i];
        if (fabs((double)values[i]) > *most) *most = fabs((double)values[i]);
    }
    free(values);
    return sqrt(sum / (double)count);
}

static void first_values(void **state)
{
    (void)state;
    /* the deviation of n = 40000 values is off by more than 4 / sqrt(2 n) = 1.4 % of itself once in 16,000
     * times for normal values, and less for uniform ones; the seed is fixed */
    const double off = 4 / sqrt(2 * 40000.0);
    pco_initialization how = {.type = PCO_INITIALIZATION_PYTORCH, .std = 0.02};
    double most;
    check_near(moment(&how, "decoder.layers.0.fc1.weight", PCO_NN_ROLE_PLAIN, 2, 400, 100, &most), 0.1 / sqrt(3),
               off * 0.1);
    assert_true(most <= 0.1 && most > 0.0995);
    check_near(moment(&how, "shared.weight", PCO_NN_ROLE_EMBEDDING, 2, 400, 100, &most), 0.1, off * 0.1);
    assert_true(most > 0.3);
    assert_true(moment(&how, "decoder.layers.0.fc1.bias", PCO_NN_ROLE_PLAIN, 1, 100, 0, &most) == 0);
    assert_true(moment(&how, "encoder.layer_norm.weight", PCO_NN_ROLE_NORM, 1, 100, 0, &most) == 1);
    assert_true(moment(&how, "encoder.layers.1.self_attn_layer_norm.bias", PCO_NN_ROLE_PLAIN, 1, 100, 0, &most) == 0);
    how.type = PCO_INITIALIZATION_XAVIER;
    check_near(moment(&how, "decoder.layers.0.fc1.weight", PCO_NN_ROLE_PLAIN, 2, 400, 100, &most), sqrt(2.0 / 500),
               off * 0.1);
    how.type = PCO_INITIALIZATION_NORMAL;
    check_near(moment(&how, "decoder.layers.0.fc1.weight", PCO_NN_ROLE_PLAIN, 2, 400, 100, &most), 0.02, off * 0.02);
    check_near(moment(&how, "decoder.layers.0.fc2.weight", PCO_NN_ROLE_RESIDUAL, 2, 400, 100, &most), 0.01, off * 0.01);
}

/* Of 4 matrices [400,100] an element is a sum of 100 products, and one of 400 places of a convolution of 25. */
static void first_values_of_more(void **state)
{
    (void)state;
    const pco_initialization pytorch = {.type = PCO_INITIALIZATION_PYTORCH},
                             xavier = {.type = PCO_INITIALIZATION_XAVIER};
    pco_nn_parameter p = {.name = (char *)"w", .rank = 3, .shape = {4, 400, 100}, .stack = 1};
    enum { COUNT = 4 * 400 * 100 };
    float *values = malloc(COUNT * sizeof *values);
    assert_non_null(values);
    const struct {
        const pco_initialization *how;
        int stack;
        int64_t shape[3];
        double most;
    } rows[] = {{&pytorch, 1, {4, 400, 100}, 0.1},
                {&xavier, 1, {4, 400, 100}, sqrt(6.0 / 500)},
                {&pytorch, 0, {400, 16, 25}, 1 / sqrt(400.0)},
                {&xavier, 0, {400, 16, 25}, sqrt(6.0 / (416 * 25.0))}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double most = 0;
        p.stack = rows[i].stack;
        memcpy(p.shape, rows[i].shape, sizeof rows[i].shape);
        pco_initialize(rows[i].how, 3, &p, 2, values);
        for (int64_t j = 0; j < pco_nn_elements(&p); j++)
            if (fabs((double)values[j]) > most) most = fabs((double)values[j]);
        assert_true(most <= rows[i].most && most > 0.995 * rows[i].most);
    }
    free(values);
}

/* ---- configs ---- */

static void check_config_fails(const char *text, const char *part)
{
    pco_train_config config;
    const pco_train_overrides none = {.seed = -1};
    check_fails(pco_train_config_load(file_with("config.json", text, strlen(text)), &none, &config, &err),
                PCO_ERROR_FORMAT, part);
}

/* A config for dates whose model has one more field. */
static void check_model_fails(const char *field, const char *part)
{
    char text[256];
    const pco_train_overrides none = {.seed = -1};
    pco_train_config config;
    pco_data *data;
    cJSON *document;
    pco_model_spec model;
    int size = snprintf(text, sizeof text, "{\"model\": {%s}, \"data\": {\"kind\": \"dates\"}, \"out\": \"x\"}", field);
    check_ok(pco_train_config_load(file_with("model.json", text, (size_t)size), &none, &config, &err));
    check_ok(pco_data_open(&config.data, NULL, 0, 2, &data, &err));
    check_fails(pco_train_model_config(&config, data, &document, &model, &err), PCO_ERROR_FORMAT, part);
    pco_data_close(data);
    pco_train_config_release(&config);
}

static void configs(void **state)
{
    (void)state;
    pco_train_config config;
    const pco_train_overrides none = {.seed = -1}, other = {.seed = 7, .out = "there"};
    check_config_fails("{\"model\": {}, \"data\": {\"kind\": \"dates\"}, \"out\": \"x\", \"stesp\": 1, \"loss\": 2}",
                       "stesp");
    check_config_fails("{\"model\": {}, \"data\": {\"kind\": \"dates\"}, \"out\": \"x\", \"stesp\": 1, \"loss\": 2}",
                       "loss");
    check_config_fails("{\"data\": {\"kind\": \"dates\"}, \"out\": \"x\"}", "'model' must be an object");
    check_config_fails("{\"model\": {}, \"data\": {\"kind\": \"dates\", \"file\": \"a\"}, \"out\": \"x\"}",
                       "dates have no 'file'");
    check_config_fails("{\"model\": {}, \"data\": {\"kind\": \"pairs\"}, \"out\": \"x\"}", "'file' is missing");
    check_config_fails("{\"model\": {}, \"data\": {\"kind\": \"dates\"}}", "out");
    check_config_fails("{\"model\": {}, \"data\": {\"kind\": \"dates\"}, \"out\": \"\"}", "'out' is empty");
    check_config_fails(
        "{\"model\": {}, \"data\": {\"kind\": \"dates\"}, \"out\": \"x\", \"optimizer\": {\"beta3\": 1}}", "beta3");
    check_config_fails("{\"model\": {}, \"data\": {\"kind\": \"dates\"}, \"out\": \"x\", \"steps\": 5,"
                       "\"schedule\": {\"warmup_steps\": 6}}",
                       "warmup_steps 6 is above steps 5");
    check_config_fails("{\"model\": {}, \"data\": {\"kind\": \"dates\", \"source_buckets\": [8, 4]}, \"out\": \"x\"}",
                       "'source_buckets' must be a list of at most 32 rising lengths");
    static const char good[] =
        "{\"model\": {\"vocab_size\": 64}, \"data\": {\"kind\": \"dates\"}, \"out\": \"x\", \"steps\": 9}";
    check_ok(pco_train_config_load(FILE_WITH("good.json", good), &none, &config, &err));
    assert_int_equal(config.steps, 9);
    assert_true(config.checkpoint_seconds == 600); /* the most that a crash costs by default */
    assert_int_equal(config.data.buckets[0][0], 8);
    pco_data *data;
    cJSON *document;
    pco_model_spec model;
    check_ok(pco_data_open(&config.data, NULL, 0, 2, &data, &err));
    check_fails(pco_train_model_config(&config, data, &document, &model, &err), PCO_ERROR_FORMAT,
                "vocab_size does not match the tokenizer, which has 65 tokens");
    pco_data_close(data);
    check_model_fails("\"eos_token_id\": 65", "model: eos_token_id 65 is no token: the vocabulary has 65");
    check_model_fails("\"decoder_start_token_id\": 70", "decoder_start_token_id 70 is no token");
    check_model_fails("\"max_position_embeddings\": 63", "63 is below the data's context_length 64");
    pco_train_config second;
    check_ok(pco_train_config_load(FILE_WITH("good.json", good), &other, &second, &err));
    assert_string_equal(second.out, "there");
    assert_int_equal(second.seed, 7);
    assert_string_equal(pco_train_config_difference(config.root, second.root), "seed");
    assert_null(pco_train_config_difference(config.root, config.root));
    pco_train_config_release(&second);
    pco_train_config_release(&config);
}

/* Each number just outside its range is refused, and the message names its key. */
static void ranges(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *key;
    } rows[] = {
        {"\"optimizer\": {\"eps\": 0}", "'eps'"},
        {"\"optimizer\": {\"eps\": 1e-39}", "'eps'"}, /* 0 on devices that flush subnormals */
        {"\"optimizer\": {\"eps\": -1e-8}", "'eps'"},
        {"\"optimizer\": {\"beta1\": 1}", "'beta1'"},
        {"\"optimizer\": {\"beta1\": -0.1}", "'beta1'"},
        {"\"optimizer\": {\"beta2\": 1}", "'beta2'"},
        {"\"optimizer\": {\"type\": \"sgd\", \"momentum\": 1}", "'momentum'"},
        {"\"optimizer\": {\"weight_decay\": -1}", "'weight_decay'"},
        {"\"schedule\": {\"learning_rate\": -1e-3}", "'learning_rate'"},
        {"\"schedule\": {\"learning_rate\": 1e400}", "'learning_rate'"},
        {"\"schedule\": {\"min_learning_rate\": -1}", "'min_learning_rate'"},
        {"\"schedule\": {\"learning_rate\": 0.1, \"min_learning_rate\": 0.2}",
         "min_learning_rate 0.2 is above learning_rate 0.1"},
        {"\"schedule\": {\"warmup_steps\": -1}", "'warmup_steps'"},
        {"\"steps\": 5, \"schedule\": {\"type\": \"cosine\", \"warmup_steps\": 6}", "warmup_steps 6 is above steps 5"},
        {"\"initialization\": {\"type\": \"normal\", \"std\": 0}", "'std'"},
        {"\"initialization\": {\"embedding_std\": -1}", "'embedding_std'"},
        {"\"steps\": 0", "'steps'"},
        {"\"steps\": 1.5", "'steps'"},
        {"\"steps\": 1e18", "'steps'"},
        {"\"batch_size\": 0", "'batch_size'"},
        {"\"gradient_accumulation_steps\": 0", "'gradient_accumulation_steps'"},
        {"\"seed\": -1", "'seed'"},
        {"\"max_grad_norm\": -1", "'max_grad_norm'"},
        {"\"label_smoothing\": 1", "'label_smoothing'"},
        {"\"checkpoint_interval\": -1", "'checkpoint_interval'"},
        {"\"evaluation_interval\": -1", "'evaluation_interval'"},
        {"\"evaluation_batches\": -1", "'evaluation_batches'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"model\": {}, \"data\": {\"kind\": \"dates\"}, \"out\": \"x\", %s}",
                 rows[i].fields);
        check_config_fails(text, rows[i].key);
    }
    check_model_fails("\"dropout\": 1", "'dropout'");
    check_model_fails("\"norm_eps\": 0", "'norm_eps' must be at least");
    check_model_fails("\"final_norm_eps\": 0", "'final_norm_eps' must be at least");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules),    cmocka_unit_test(dates),
        cmocka_unit_test(bleu),         cmocka_unit_test(data_errors),
        cmocka_unit_test(data_pairs),   cmocka_unit_test(data_text),
        cmocka_unit_test(first_values), cmocka_unit_test(first_values_of_more),
        cmocka_unit_test(configs),      cmocka_unit_test(data_buckets),
        cmocka_unit_test(ranges),
    };
    return cmocka_run_group_tests(tests, check_make_folder, check_remove_folder);
}
