#include "train/dates.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sha256.h"
#include "train/random.h"

enum { DATES_FIRST_YEAR = 1970, DATES_LAST_YEAR = 2069, DATES_MOST = 36600 };

typedef struct dates_day {
    int16_t year;
    uint8_t month, day, weekday; /* month and day from 1; weekday 0: Monday */
} dates_day;

struct pco_dates {
    dates_day days[3][DATES_MOST];
    uint32_t count[3];
};

static const char *const dates_months[] = {"January", "February", "March",     "April",   "May",      "June",
                                           "July",    "August",   "September", "October", "November", "December"};
static const char *const dates_weekdays[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                             "Friday", "Saturday", "Sunday"};

/* %d day, %D with two digits, %o ordinal; %m month, %M with two digits, %b its first three letters, %B its
 * name; %y year, %Y its last two digits; %w weekday's first three letters, %W its name. */
static const char *const dates_forms[] = {
    "%B %o, %y",     "%B %d, %y",          "%B %o %y",     "%B %d %y",     "%b %d, %y",       "%b %o %y",
    "%b %d, '%Y",    "%b %d '%Y",          "%d %b %y",     "%d %b %Y",     "%d %b '%Y",       "%d %B %y",
    "%d %B, %y",     "%o %B %y",           "%o of %B %y",  "%o of %B, %y", "the %o of %B %y", "the %o of %B, %y",
    "%D-%b-%y",      "%D-%b-%Y",           "%d-%b-%y",     "%W %d %B %y",  "%W, %d %B %y",    "%W, %B %o, %y",
    "%W, %B %d, %y", "%W the %o of %B %y", "%w, %D %b %y", "%w %d %b %Y",  "%d/%m/%y (%W)",   "%D/%M/%y (%w)",
    "%w %D/%M/%y",   "%d/%m/%y",           "%D/%M/%y",     "%d/%m/%Y",     "%D/%M/%Y",        "%d.%m.%y",
    "%D.%M.%y",      "%d.%m.%Y",           "%D.%M.%Y",     "%d-%m-%y",     "%D-%M-%y",        "%y.%M.%D",
    "%y/%m/%d",      "%y/%M/%D",           "%y%M%D",       "%y-%M-%D",     "%y-%m-%d",        "%y %B %d",
    "%y %b %D",      "%y-%b-%D",
};
enum { DATES_FORMS = sizeof dates_forms / sizeof *dates_forms };

static pco_dates_split dates_split_of(const dates_day *day)
{
    char iso[32];
    unsigned char digest[PCO_SHA256_BYTES];
    pco_sha256 sha;
    int size = snprintf(iso, sizeof iso, "%04d-%02d-%02d", day->year, day->month, day->day);
    pco_sha256_start(&sha);
    pco_sha256_add(&sha, iso, (size_t)size);
    pco_sha256_finish(&sha, digest);
    uint32_t word = (uint32_t)digest[0] << 24 | (uint32_t)digest[1] << 16 | (uint32_t)digest[2] << 8 | digest[3];
    return word % 50 < 5 ? PCO_DATES_TEST : word % 50 == 5 ? PCO_DATES_VALID : PCO_DATES_TRAIN;
}

pco_dates *pco_dates_create(void)
{
    static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    pco_dates *dates = calloc(1, sizeof *dates);
    int weekday = 3; /* 1970-01-01 was a Thursday */
    if (!dates) return NULL;
    for (int year = DATES_FIRST_YEAR; year <= DATES_LAST_YEAR; year++)
        for (int month = 1; month <= 12; month++) {
            int leap = month == 2 && year % 4 == 0; /* 2000 is one, and 2100 is beyond */
            for (int d = 1; d <= lengths[month - 1] + leap; d++) {
                dates_day day = {(int16_t)year, (uint8_t)month, (uint8_t)d, (uint8_t)weekday};
                pco_dates_split split = dates_split_of(&day);
                dates->days[split][dates->count[split]++] = day;
                weekday = (weekday + 1) % 7;
            }
        }
    return dates;
}

void pco_dates_destroy(pco_dates *dates) { free(dates); }

uint32_t pco_dates_days(const pco_dates *dates, pco_dates_split split) { return dates->count[split]; }

static const char *dates_ordinal(int n)
{
    static const char *const suffixes[] = {"th", "st", "nd", "rd"};
    return n / 10 == 1 || n % 10 > 3 ? suffixes[0] : suffixes[n % 10];
}

/* Writes a day in a form; the longest has PCO_DATES_LONGEST characters. */
static void dates_write(const char *form, const dates_day *day, char out[PCO_DATES_WRITTEN])
{
    char *at = out, *end = out + PCO_DATES_WRITTEN;
    const char *month = dates_months[day->month - 1], *weekday = dates_weekdays[day->weekday];
    for (; *form && at + 12 < end; form++) {
        size_t room = (size_t)(end - at);
        if (*form != '%') {
            *at++ = *form;
            continue;
        }
        switch (*++form) {
        case 'd': at += snprintf(at, room, "%d", day->day); break;
        case 'D': at += snprintf(at, room, "%02d", day->day); break;
        case 'o': at += snprintf(at, room, "%d%s", day->day, dates_ordinal(day->day)); break;
        case 'm': at += snprintf(at, room, "%d", day->month); break;
        case 'M': at += snprintf(at, room, "%02d", day->month); break;
        case 'b': at += snprintf(at, room, "%.3s", month); break;
        case 'B': at += snprintf(at, room, "%s", month); break;
        case 'y': at += snprintf(at, room, "%d", day->year); break;
        case 'Y': at += snprintf(at, room, "%02d", day->year % 100); break;
        case 'w': at += snprintf(at, room, "%.3s", weekday); break;
        default: at += snprintf(at, room, "%s", weekday); break;
        }
    }
    *at = 0;
}

void pco_dates_pair(const pco_dates *dates, pco_dates_split split, uint64_t seed, uint64_t index,
                    char written[PCO_DATES_WRITTEN], char iso[PCO_DATES_ISO])
{
    pco_philox r = pco_random_block(seed, PCO_RANDOM_DATES, (uint32_t)split, index);
    const dates_day *day = &dates->days[split][pco_random_below(r.word[0], dates->count[split])];
    const uint32_t letters = pco_random_below(r.word[2], 100);
    char text[32];
    dates_write(dates_forms[pco_random_below(r.word[1], DATES_FORMS)], day, written);
    snprintf(text, sizeof text, "%04d-%02d-%02d", day->year, day->month, day->day);
    memcpy(iso, text, PCO_DATES_ISO);
    for (char *c = written; *c && letters < 35; c++)
        *c = (char)(letters < 25 ? tolower((unsigned char)*c) : toupper((unsigned char)*c));
}

pco_status pco_dates_vocabulary(pco_vocabulary *vocabulary, pco_error *err)
{
    unsigned char seen[128] = {0};
    char text[256];
    size_t size = 0;
    const dates_day first = {DATES_FIRST_YEAR, 1, 1, 3};
    for (int i = 0; i < DATES_FORMS + 12 + 7; i++) {
        char sample[PCO_DATES_WRITTEN];
        if (i < DATES_FORMS)
            dates_write(dates_forms[i], &first, sample);
        else
            snprintf(sample, sizeof sample, "%s",
                     i < DATES_FORMS + 12 ? dates_months[i - DATES_FORMS] : dates_weekdays[i - DATES_FORMS - 12]);
        for (const char *c = sample; *c; c++)
            seen[(int)*c] = seen[tolower((unsigned char)*c)] = seen[toupper((unsigned char)*c)] = 1;
    }
    for (const char *c = "0123456789stndrdthSTNDRDTH"; *c; c++) seen[(int)*c] = 1;
    for (int c = 0; c < 128; c++)
        if (seen[c]) text[size++] = (char)c;
    return pco_vocabulary_train_characters(text, size, 1, vocabulary, err);
}
