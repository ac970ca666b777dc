#include "cli/terminal.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/utf8.h"
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int cli_terminal(void) { return isatty(STDERR_FILENO); }

/* What the terminal says, else COLUMNS, else what terminals once had. */
static uint32_t terminal_columns(void)
{
    struct winsize size = {0};
    uint32_t columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    if (!columns) columns = pco_env_columns();
    return columns ? columns : 80;
}

/* Columns of a character: none for accents that stand on the one before, two for those of East Asia and for pictures
 * (Unicode Standard Annex 11, in blocks). */
static uint32_t terminal_width(uint32_t code)
{
    static const struct {
        uint32_t from, to, width;
    } blocks[] = {{0x300, 0x36f, 0},   {0x200b, 0x200f, 0}, {0xfe00, 0xfe0f, 0},   {0x1100, 0x115f, 2},
                  {0x2e80, 0xa4cf, 2}, {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2},   {0xfe30, 0xfe6f, 2},
                  {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (code >= blocks[i].from && code <= blocks[i].to) return blocks[i].width;
    return 1;
}

/* Bytes of `text` that fit into `columns`, and in *used the columns that they take. A byte that is not UTF-8 counts as
 * a column. */
static size_t terminal_cut(const char *text, uint32_t columns, uint32_t *used)
{
    const size_t size = strlen(text);
    size_t at = 0;
    *used = 0;
    while (at < size) {
        uint32_t code = 0;
        const size_t step = pco_utf8_decode(text + at, size - at, &code);
        const uint32_t width = step ? terminal_width(code) : 1;
        if (*used + width > columns) break;
        *used += width;
        at += step ? step : 1;
    }
    return at;
}

void cli_line_fit(char *line, size_t size, const char *head, double part, const char *tail, uint32_t columns)
{
    enum { BAR = 24, BAR_LEAST = 4 };
    char bar[BAR + 4] = "";
    uint32_t head_width, tail_width;
    terminal_cut(head, UINT32_MAX / 2, &head_width);
    terminal_cut(tail, UINT32_MAX / 2, &tail_width);
    const uint32_t words = head_width + tail_width + 4; /* brackets and the spaces around them */
    if (columns >= words + BAR_LEAST) {
        const int width = columns - words < BAR ? (int)(columns - words) : BAR;
        const int filled = part > 0 ? (int)((part < 1 ? part : 1) * width) : 0;
        int at = snprintf(bar, sizeof bar, "[");
        for (int i = 0; i < width; i++) bar[at++] = i < filled ? '#' : ' ';
        snprintf(bar + at, sizeof bar - (size_t)at, "] ");
    }
    snprintf(line, size, "%s %s%s", head, bar, tail);
    line[terminal_cut(line, columns, &head_width)] = 0;
}

void cli_line_show(const char *head, double part, const char *tail)
{
    char line[512];
    const int terminal = cli_terminal();
    /* a cursor behind the last column would begin a new line */
    const uint32_t columns = terminal ? terminal_columns() - 1 : sizeof line;
    cli_line_fit(line, sizeof line, head, part, tail, columns);
    fprintf(stderr, terminal ? "\r%s\033[K" : "%s\n", line);
}

void cli_line_clear(void)
{
    if (cli_terminal()) fputs("\r\033[K", stderr);
}

void cli_progress_start(cli_progress *progress, const char *label, const char *unit)
{
    *progress = (cli_progress){.label = label, .unit = unit, .start = pco_seconds(), .last_tenth = -1};
}

void cli_progress_update(cli_progress *progress, uint64_t done, uint64_t total)
{
    double now = pco_seconds(), spent = now - progress->start, part = total ? (double)done / (double)total : 1;
    int tenth = (int)(part * 10);
    double quiet = now - (progress->last_print > 0 ? progress->last_print : progress->start);
    if (cli_terminal() ? quiet < 0.1 && done < total : tenth == progress->last_tenth || quiet < 1) return;
    progress->last_print = now;
    progress->last_tenth = tenth;
    char head[160], tail[160];
    double rate = spent > 0 ? (double)done / spent : 0, left = rate > 0 ? (double)(total - done) / rate : 0;
    snprintf(head, sizeof head, "%s %3.0f %%", progress->label, 100 * part);
    snprintf(tail, sizeof tail, "%" PRIu64 "/%" PRIu64 " %s %.1f/s, %.0f s left", done, total, progress->unit, rate,
             left);
    cli_line_show(head, part, tail);
}

void cli_progress_end(cli_progress *progress)
{
    if (progress->last_print > 0) cli_line_clear();
    progress->last_print = 0;
}
