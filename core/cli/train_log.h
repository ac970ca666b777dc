/* The log of a training run: one record per update, as CSV or as JSON lines, by the file's ending. */
#ifndef PCO_CLI_TRAIN_LOG_H
#define PCO_CLI_TRAIN_LOG_H

#include <stdint.h>

typedef struct train_record {
    int64_t step, tokens; /* tokens: labels of this update */
    double loss, learning_rate, grad_norm;
    double seconds;         /* since the program began to train */
    double validation_loss; /* NaN: not measured at this step */
    double loss_scale;      /* of a scaled log; there grad_norm may be infinite, which means a skipped update */
} train_record;

typedef struct train_log {
    const char *path; /* NULL: no log */
    int fd, json, scaled;
} train_log;

/* 1: the path ends in .csv or .jsonl; 0 after a message. */
int train_log_check(const char *path);

/* Opens the log; `resume_after` at least 0: records of later steps are cut off, and the rest is continued.
 * `scaled`: records have a loss_scale. 0 after a message. */
int train_log_open(train_log *log, const char *path, int64_t resume_after, int scaled);
/* Writes a record through to the file. 0 after a message. */
int train_log_write(train_log *log, const train_record *record);
void train_log_close(train_log *log);

/* Reads a log back: records[*count], malloc'ed. 0 after a message. */
int train_log_read(const char *path, train_record **records, uint32_t *count);

#endif
