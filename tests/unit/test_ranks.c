/* Ranks as threads of one process: sums in the order of the ranks whatever the timing, agreements, and
 * training on the CPU with three ranks against one with the whole batch. Without MPI: tests/cli/test_ranks.sh
 * has it. */
#define CHECK_FOLDER
#include "check.h"

#include <math.h>
#include <pthread.h>

#include "train/trainer_internal.h"

/* ---- a transport between threads ---- */

enum { MOST = 7 };

typedef struct letter {
    struct letter *next;
    uint64_t bytes;
    char data[];
} letter;

typedef struct post {
    pthread_mutex_t mutex;
    pthread_cond_t came;
    letter *box[MOST][MOST]; /* [from][to], the oldest first */
    int cut;                 /* 1: nothing arrives any more */
} post;

typedef struct thread_rank {
    post *office;
    uint32_t rank, count;
    unsigned delay; /* state of a generator: pauses before messages, other ones for each rank */
    pco_ranks *ranks;
    pco_error err;
    pco_status status;
    void *user;
    void (*work)(struct thread_rank *self);
    pthread_t thread;
} thread_rank;

static pco_status thread_exchange(void *user, uint32_t to, const void *out, uint64_t out_bytes, uint32_t from, void *in,
                                  uint64_t in_bytes, pco_error *error)
{
    thread_rank *self = user;
    post *office = self->office;
    self->delay = self->delay * 1103515245 + 12345;
    if (self->delay >> 16 & 1) usleep(self->delay >> 20 & 255);
    pthread_mutex_lock(&office->mutex);
    if (out_bytes) {
        letter *sent = malloc(sizeof *sent + out_bytes), **end = &office->box[self->rank][to];
        sent->next = NULL;
        sent->bytes = out_bytes;
        memcpy(sent->data, out, out_bytes);
        while (*end) end = &(*end)->next;
        *end = sent;
        pthread_cond_broadcast(&office->came);
    }
    pco_status status = PCO_OK;
    if (in_bytes) {
        letter **first = &office->box[from][self->rank], *got;
        while (!*first && !office->cut) pthread_cond_wait(&office->came, &office->mutex);
        got = *first;
        if (!got || got->bytes != in_bytes) {
            status = pco_fail(error, PCO_ERROR_IO, "the post is cut");
        } else {
            memcpy(in, got->data, in_bytes);
            *first = got->next;
            free(got);
        }
    }
    pthread_mutex_unlock(&office->mutex);
    return status;
}

static void *thread_main(void *user)
{
    thread_rank *self = user;
    const pco_transport transport = {.user = self,
                                     .rank = self->rank,
                                     .count = self->count,
                                     .threads = self->rank % 2 == 0,
                                     .exchange = thread_exchange};
    self->status = pco_ranks_create(&transport, &self->ranks, &self->err);
    if (!self->status) self->work(self);
    pco_ranks_destroy(self->ranks);
    return NULL;
}

/* Runs work on `count` ranks; users[i] is that of rank i. Rank 1 and 3 have no thread of their own for sums.
 */
static void run_ranks(thread_rank *all, uint32_t count, void (*work)(thread_rank *self), void **users)
{
    post office = {.mutex = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};
    for (uint32_t i = 0; i < count; i++) {
        all[i] = (thread_rank){.office = &office,
                               .rank = i,
                               .count = count,
                               .delay = 17 * i + count,
                               .work = work,
                               .user = users ? users[i] : NULL};
        assert_int_equal(pthread_create(&all[i].thread, NULL, thread_main, &all[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++) pthread_join(all[i].thread, NULL);
    for (int from = 0; from < MOST; from++)
        for (int to = 0; to < MOST; to++)
            while (office.box[from][to]) {
                letter *left = office.box[from][to];
                office.box[from][to] = left->next;
                free(left);
            }
}

/* ---- messages ---- */

static void shares_are_even(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= MOST; n++)
        for (int64_t rows = n; rows < 40; rows++) {
            int64_t next = 0;
            for (uint32_t i = 0; i < n; i++) {
                int64_t first, count;
                pco_ranks_share(i, n, rows, &first, &count);
                assert_int_equal(first, next);
                assert_in_range(count, rows / n, (rows + n - 1) / n);
                next += count;
            }
            assert_int_equal(next, rows);
        }
}

enum { SUM_SIZES = 6 };
static const uint64_t sum_sizes[SUM_SIZES] = {0, 1, 2, 5, 64, 1001};

/* Large and small, of both signs, so that the order of additions shows. */
static float sum_value(uint32_t rank, uint64_t i)
{
    uint32_t bits = (uint32_t)(i * 2654435761u) ^ (rank + 1) * 0x9E3779B9u;
    bits ^= bits >> 15, bits *= 0x2C1B3C6Du, bits ^= bits >> 12;
    return ldexpf((float)(int32_t)bits, (int)(bits % 40) - 40);
}

static void do_sums(thread_rank *self)
{
    float *values = self->user;
    uint64_t at = 0;
    self->status = pco_ranks_reserve(self->ranks, 1001, &self->err);
    for (int round = 0; round < 2; round++)
        for (int k = 0; k < SUM_SIZES; k++)
            for (uint64_t i = 0; i < sum_sizes[k]; i++, at++) values[at] = sum_value(self->rank, at);
    at = 0;
    for (int round = 0; round < 2 && !self->status; round++) {
        for (int k = 0; k < SUM_SIZES; at += sum_sizes[k++])
            pco_ranks_sum_start(self->ranks, values + at, sum_sizes[k]);
        self->status = pco_ranks_sum_wait(self->ranks, &self->err);
    }
}

static void sums_are_in_the_order_of_ranks(void **state)
{
    (void)state;
    static float values[MOST][3000];
    thread_rank all[MOST];
    void *users[MOST];
    int differ = 0;
    for (int i = 0; i < MOST; i++) users[i] = values[i];
    for (uint32_t n = 1; n <= MOST; n += n < 4 ? 1 : 3) {
        run_ranks(all, n, do_sums, users);
        for (uint32_t r = 0; r < n; r++) assert_int_equal(all[r].status, PCO_OK);
        for (uint64_t i = 0; i < 2 * 1073; i++) {
            double forwards = 0, backwards = 0;
            for (uint32_t r = 0; r < n; r++) forwards += (double)sum_value(r, i);
            for (uint32_t r = n; r-- > 0;) backwards += (double)sum_value(r, i);
            differ += forwards != backwards;
            for (uint32_t r = 0; r < n; r++) assert_true(values[r][i] == (float)forwards);
        }
    }
    assert_true(differ > 0); /* so that another order would have been seen */
}

static void do_messages(thread_rank *self)
{
    uint32_t all[MOST], *said = self->user;
    for (uint32_t root = 0; root < self->count && !self->status; root++) {
        uint32_t mine = 10 * self->rank + root, sent[300] = {0};
        self->status = pco_ranks_gather(self->ranks, &mine, sizeof mine, all, &self->err);
        for (uint32_t i = 0; i < self->count; i++) *said += all[i] != 10 * i + root;
        if (self->rank == root)
            for (uint32_t i = 0; i < 300; i++) sent[i] = i + root;
        if (!self->status) self->status = pco_ranks_broadcast(self->ranks, root, sent, sizeof sent, &self->err);
        for (uint32_t i = 0; i < 300; i++) *said += sent[i] != i + root;
        int any = -1;
        const int flag = self->rank == root ? 200 : self->rank % 3;
        if (!self->status) self->status = pco_ranks_largest(self->ranks, flag, &any, &self->err);
        *said += any != 200;
        if (!self->status) self->status = pco_ranks_largest(self->ranks, 0, &any, &self->err);
        *said += any != 0;
    }
}

static void messages_arrive(void **state)
{
    (void)state;
    thread_rank all[MOST];
    uint32_t wrong[MOST] = {0};
    void *users[MOST];
    for (int i = 0; i < MOST; i++) users[i] = &wrong[i];
    for (uint32_t n = 1; n <= MOST; n++) {
        run_ranks(all, n, do_messages, users);
        for (uint32_t r = 0; r < n; r++) assert_int_equal(all[r].status, PCO_OK);
        for (uint32_t r = 0; r < n; r++) assert_int_equal(wrong[r], 0);
    }
}

typedef struct opinion {
    pco_status status;
    int weight;
    const char *message;
} opinion;

static void do_agree(thread_rank *self)
{
    const opinion *mine = self->user;
    if (mine->status) pco_fail(&self->err, mine->status, "%s", mine->message);
    self->status = pco_ranks_agree(self->ranks, mine->status, mine->weight, &self->err);
}

static void agree(const opinion *opinions, uint32_t count, pco_status status, const char *message)
{
    thread_rank all[MOST];
    void *users[MOST];
    for (uint32_t i = 0; i < count; i++) users[i] = (void *)&opinions[i];
    run_ranks(all, count, do_agree, users);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(all[i].status, status);
        if (status) assert_string_equal(all[i].err.message, message);
    }
}

static void ranks_agree(void **state)
{
    (void)state;
    const opinion good[] = {{0}, {0}, {0}, {0}}, one[] = {{0}, {0}, {PCO_ERROR_DEVICE_LOST, 0, "gone"}, {0}},
                  two[] = {{0}, {PCO_ERROR_IO, 0, "less"}, {0}, {PCO_ERROR_INVALID, 1, "more"}},
                  every[] = {{PCO_ERROR_IO, 0, "no file"}, {PCO_ERROR_IO, 0, "no file"}, {PCO_ERROR_IO, 0, "no file"}};
    agree(good, 4, PCO_OK, NULL);
    agree(one, 4, PCO_ERROR_DEVICE_LOST, "rank 2: gone");
    agree(two, 4, PCO_ERROR_INVALID, "rank 3: more");
    agree(every, 3, PCO_ERROR_IO, "no file");
}

/* Rank 1 ends without a word: the others are told by the transport, and say so ever after. */
static void do_lose(thread_rank *self)
{
    float values[100] = {0};
    if (self->rank == 1) {
        usleep(2000);
        pthread_mutex_lock(&self->office->mutex);
        self->office->cut = 1;
        pthread_cond_broadcast(&self->office->came);
        pthread_mutex_unlock(&self->office->mutex);
        return;
    }
    if (pco_ranks_reserve(self->ranks, 100, &self->err)) return;
    pco_ranks_sum_start(self->ranks, values, 100);
    pco_ranks_sum_start(self->ranks, values, 100);
    self->status = pco_ranks_sum_wait(self->ranks, &self->err);
    if (pco_ranks_broken(self->ranks) && pco_ranks_agree(self->ranks, PCO_OK, 0, &self->err) != PCO_ERROR_IO)
        self->status = PCO_OK;
}

static void a_lost_rank_is_noticed(void **state)
{
    (void)state;
    thread_rank all[3];
    run_ranks(all, 3, do_lose, NULL);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(all[i].status, PCO_ERROR_IO);
        assert_non_null(strstr(all[i].err.message, "the ranks have lost each other: the post is cut"));
    }
}

/* ---- training ---- */

/* What a rank is to do, and what came of it. */
typedef struct job {
    const char *text, *out, *device;
    int steps, resume, save;
    uint64_t poison; /* not 0: this rank's first parameter becomes NaN after that many steps */
    pco_train_result results[8];
    double validation;
    float *values;
    int64_t count;
    int mixed;
    uint32_t buckets, first, last, segments; /* segments after which the first and the last bucket can be read; all */
} job;

static pco_status job_read(pco_trainer *trainer, job *j, pco_error *error)
{
    const pco_nn_training *training = pco_trainer_parameters(trainer, &j->count);
    pco_status status = PCO_OK;
    float *at = j->values = calloc((size_t)j->count, sizeof *at);
    for (uint32_t i = 0; i < training->count && !status; i++) {
        int64_t n = 1;
        for (uint32_t k = 0; k < training->items[i].rank; k++) n *= training->items[i].shape[k];
        status = pco_trainer_read(trainer, training->items[i].name, at, n, error);
        at += n;
    }
    return status;
}

static pco_status job_run(job *j, pco_session *session, const pco_train_config *config, pco_ranks *ranks,
                          pco_error *error)
{
    pco_trainer *trainer = NULL;
    int64_t tokens;
    pco_status status = pco_trainer_create_ranks(session, config, ranks, j->resume, &trainer, error);
    for (int i = 0; i < j->steps && !status; i++) {
        status = pco_trainer_step(trainer, &j->results[i], error);
        if (!status && j->poison == (uint64_t)i + 1) {
            const pco_nn_parameter *p = &pco_trainer_parameters(trainer, &tokens)->items[0];
            const uint64_t bytes = (uint64_t)(p->shape[0] * p->shape[1]) * sizeof(float);
            float *bad = malloc(bytes);
            memset(bad, 0xFF, bytes); /* NaN */
            status = pco_session_write_state(session, p->name, bad, bytes, error);
            free(bad);
        }
    }
    if (!status) status = pco_trainer_evaluate(trainer, &j->validation, &tokens, error);
    if (!status && j->save) status = pco_trainer_save(trainer, error);
    if (!status) status = job_read(trainer, j, error);
    if (trainer) j->mixed = pco_trainer_mixed(trainer);
    if (trainer && trainer->n_buckets) {
        const trainer_stage *stage = trainer->stages[0];
        j->buckets = trainer->n_buckets;
        j->first = stage->until[0];
        j->last = stage->until[j->buckets - 1];
        j->segments = pco_executable_segments(stage->executable);
    }
    pco_trainer_destroy(trainer);
    return status;
}

static void do_job(thread_rank *self)
{
    job *j = self->user;
    char path[200], out[200];
    pco_config environment;
    pco_registry *registry = NULL;
    pco_session *session = NULL;
    pco_train_config config = {0};
    snprintf(path, sizeof path, "%s/%s-%u.json", check_folder, j->out, self->rank);
    snprintf(out, sizeof out, "%s/%s", check_folder, j->out);
    FILE *file = fopen(path, "w");
    if (!file || fputs(j->text, file) < 0 || fclose(file)) {
        self->status = PCO_ERROR_IO;
        return;
    }
    const pco_train_overrides overrides = {.seed = -1, .out = out};
    self->status = pco_train_config_load(path, &overrides, &config, &self->err);
    if (!self->status) self->status = pco_config_read(&environment, &self->err);
    environment.threads = 1;
    if (!self->status) self->status = pco_registry_create(&environment, &registry, &self->err);
    if (!self->status)
        self->status = pco_registry_open(registry, j->device ? j->device : "cpu:native", &session, &self->err);
    if (!self->status) self->status = job_run(j, session, &config, self->ranks, &self->err);
    pco_session_close(session);
    pco_registry_destroy(registry);
    pco_train_config_release(&config);
}

static void train(job *jobs, uint32_t count, pco_status status, const char *message)
{
    thread_rank all[MOST];
    void *users[MOST];
    for (uint32_t i = 0; i < count; i++) users[i] = &jobs[i];
    run_ranks(all, count, do_job, users);
    for (uint32_t i = 0; i < count; i++) {
        if (all[i].status != status || (status && !strstr(all[i].err.message, message)))
            fail_msg("rank %u: status %d, '%s'", i, (int)all[i].status, all[i].err.message);
    }
}

static void release(job *jobs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) free(jobs[i].values);
}

/* Sixteen thousand parameters, so that there are several buckets. Pairs of one length, eight of them for
 * training. */
#define TEXT(OPTIMIZER, BATCH, MORE) \
    "{\"model\": {\"d_model\": 32, \"encoder_layers\": 1, \"decoder_layers\": 1, " \
    "\"encoder_attention_heads\": 2, " \
    "\"decoder_attention_heads\": 2, \"encoder_ffn_dim\": 48, \"decoder_ffn_dim\": 48, " \
    "\"normalize_before\": true, " \
    "\"final_norm\": true, \"scale_embedding\": true, \"add_eos_to_source\": true}, " \
    "\"data\": {\"kind\": \"pairs\", \"file\": \"pairs.tsv\", \"held_out\": 0.3, \"context_length\": 8, " \
    "\"source_buckets\": [4, 8], \"target_buckets\": [4, 8], \"tokenizer\": {\"kind\": \"char\"}}, " \
    "\"optimizer\": " OPTIMIZER ", \"schedule\": {\"learning_rate\": 0.1}, \"max_grad_norm\": 1, \"steps\": 8, " \
    "\"seed\": 3, \"out\": \"x\", \"batch_size\": " BATCH MORE "}"
#define SGD "{\"type\": \"sgd\", \"momentum\": 0.9}"

static void write_pairs(void)
{
    char path[200];
    snprintf(path, sizeof path, "%s/pairs.tsv", check_folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("abc\tcab\nbca\tacb\ncba\tabc\naab\tbba\nbba\taab\ncca\tacc\nbcc\tccb\nacc\tcca\ncab\tbac\nccc\taaa\n"
          "bbb\tcbc\naca\tcac\n",
          file);
    assert_int_equal(fclose(file), 0);
}

/* Gradients differ by the rounding of sums of a few hundred terms, some 1e-5 of their size, as in
 * test_trainer.c, and so do two steps of plain gradient descent: a rate of 0.1 times 1e-4 of a gradient whose
 * norm is clipped to 1. */
static void compare(const job *whole, const job *part)
{
    assert_int_equal(whole->count, part->count);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(whole->results[i].tokens, part->results[i].tokens);
        assert_true(fabs(whole->results[i].loss - part->results[i].loss) <= 1e-5 * whole->results[i].loss);
        assert_true(fabs(whole->results[i].grad_norm - part->results[i].grad_norm) <=
                    1e-4 * whole->results[i].grad_norm);
    }
    assert_true(fabs(whole->validation - part->validation) <= 1e-4 * whole->validation);
    for (int64_t i = 0; i < whole->count; i++)
        assert_true(fabs((double)whole->values[i] - (double)part->values[i]) <= 0.1 * 1e-4);
}

/* Three ranks with 2, 3 and 3 rows of eight, and one with all of them; then with two batches an update. */
static void three_ranks_are_one(void **state)
{
    (void)state;
    const char *const texts[] = {TEXT(SGD, "8", ""), TEXT(SGD, "4", ", \"gradient_accumulation_steps\": 2")};
    for (int k = 0; k < 2; k++) {
        char names[2][16];
        snprintf(names[0], sizeof names[0], "one%d", k);
        snprintf(names[1], sizeof names[1], "three%d", k);
        job whole = {.text = texts[k], .out = names[0], .steps = 2}, parts[3];
        for (int i = 0; i < 3; i++) parts[i] = (job){.text = texts[k], .out = names[1], .steps = 2, .save = 1};
        train(&whole, 1, PCO_OK, NULL);
        train(parts, 3, PCO_OK, NULL);
        compare(&whole, &parts[0]);
        assert_in_range(parts[0].buckets, 3, PCO_RANKS_BUCKETS); /* the first goes out long before the last is there */
        assert_true(parts[0].first > 0 && parts[0].first < parts[0].last - parts[0].last / 5);
        assert_true(parts[0].last <= parts[0].segments);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(parts[i].mixed, 0);
            assert_memory_equal(parts[i].results, parts[0].results, 2 * sizeof *parts[0].results);
            assert_memory_equal(parts[i].values, parts[0].values, (size_t)parts[0].count * sizeof(float));
        }
        release(&whole, 1);
        release(parts, 3);
    }
}

/* The CPU's two devices round differently; the weights are rank 0's all the same. */
static void mixed_ranks_hold_the_same(void **state)
{
    (void)state;
    const char *text = TEXT("{\"type\": \"adamw\"}", "8", "");
    job parts[3];
    for (int i = 0; i < 3; i++)
        parts[i] =
            (job){.text = text, .out = "mixed", .steps = 4, .save = 1, .device = i == 1 ? "cpu:reference" : NULL};
    train(parts, 3, PCO_OK, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(parts[i].mixed, 1);
        assert_memory_equal(parts[i].results, parts[0].results, 4 * sizeof *parts[0].results);
        assert_memory_equal(parts[i].values, parts[0].values, (size_t)parts[0].count * sizeof(float));
    }
    release(parts, 3);
}

/* Three ranks in two parts are three ranks in one, bit by bit; and two ranks, or one, go on with it. */
static void resumes_with_any_number(void **state)
{
    (void)state;
    const char *text = TEXT("{\"type\": \"adamw\"}", "8", "");
    job straight[3], first[3], then[3];
    for (int i = 0; i < 3; i++) {
        straight[i] = (job){.text = text, .out = "straight", .steps = 4};
        first[i] = (job){.text = text, .out = "parts", .steps = 2, .save = 1};
        then[i] = (job){.text = text, .out = "parts", .steps = 2, .resume = 1};
    }
    train(straight, 3, PCO_OK, NULL);
    train(first, 3, PCO_OK, NULL);
    train(then, 3, PCO_OK, NULL);
    assert_memory_equal(straight[0].results + 2, then[0].results, 2 * sizeof *then[0].results);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(straight[i].values, then[i].values, (size_t)then[i].count * sizeof(float));
    for (uint32_t n = 1; n <= 2; n++) {
        job others[2];
        for (int i = 0; i < 2; i++) others[i] = (job){.text = text, .out = "parts", .steps = 1, .resume = 1};
        train(others, n, PCO_OK, NULL);
        assert_true(fabs(others[0].results[0].loss - then[0].results[0].loss) <= 1e-5 * then[0].results[0].loss);
        release(others, n);
    }
    release(straight, 3);
    release(first, 3);
    release(then, 3);
}

/* What one rank finds wrong, all say. */
static void all_end_together(void **state)
{
    (void)state;
    const char *text = TEXT(SGD, "8", "");
    job jobs[3];
    for (int i = 0; i < 3; i++)
        jobs[i] = (job){.text = i == 2 ? TEXT(SGD, "8", ", \"label_smoothing\": 0.1") : text, .out = "a"};
    train(jobs, 3, PCO_ERROR_INVALID, "rank 2: its config is another than rank 0's: 'label_smoothing' differs");
    for (int i = 0; i < 3; i++) jobs[i] = (job){.text = TEXT(SGD, "2", ""), .out = "b"};
    train(jobs, 3, PCO_ERROR_INVALID, "a batch_size of 2 cannot be shared among 3 ranks");
    for (int i = 0; i < 3; i++) jobs[i] = (job){.text = text, .out = "d", .resume = 1};
    train(jobs, 3, PCO_ERROR_NOT_FOUND, "rank 0: ");
    for (int i = 0; i < 3; i++)
        jobs[i] = (job){.text = text, .out = "e", .steps = 4, .save = 1, .poison = i == 1 ? 2 : 0};
    train(jobs, 3, PCO_ERROR_INVALID, "rank 1: the loss of step 3 is");
    for (int i = 0; i < 3; i++)
        jobs[i] = (job){.text = text, .out = "f", .steps = 2, .save = 1, .poison = i == 1 ? 2 : 0};
    /* the held-out loss is then NaN, and the save finds out who differs */
    train(jobs, 3, PCO_ERROR_INVALID, "the weights of rank 1 are not those of rank 0");
}

static int make(void **state)
{
    if (check_make_folder(state)) return -1;
    write_pairs();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_even),           cmocka_unit_test(sums_are_in_the_order_of_ranks),
        cmocka_unit_test(messages_arrive),           cmocka_unit_test(ranks_agree),
        cmocka_unit_test(a_lost_rank_is_noticed),    cmocka_unit_test(three_ranks_are_one),
        cmocka_unit_test(mixed_ranks_hold_the_same), cmocka_unit_test(resumes_with_any_number),
        cmocka_unit_test(all_end_together),
    };
    return cmocka_run_group_tests(tests, make, check_remove_folder);
}
