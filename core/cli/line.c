#include "cli/line.h"
#include "cli/cli.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#ifdef PCO_HAVE_EDIT
#include <histedit.h>
#endif

struct cli_lines {
    int interactive, failed;
    const char *prompt;
    char *text;
    size_t capacity;
#ifdef PCO_HAVE_EDIT
    EditLine *edit; /* NULL: plain reading */
    History *history;
    FILE *shown; /* stderr with a descriptor of its own */
#endif
};

/* Waits until stdin has something; 0 when a signal came, also one that came shortly before. */
static int line_wait(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t all, kept;
    int ready = -1;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &kept);
    while (!cli_interrupted() && (ready = ppoll(&in, 1, NULL, &kept)) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    return ready > 0;
}

int cli_lines_interactive(const cli_lines *lines) { return lines->interactive; }

#ifdef PCO_HAVE_EDIT

static char *line_prompt(EditLine *edit)
{
    cli_lines *lines = NULL;
    el_get(edit, EL_CLIENTDATA, &lines);
    return (char *)lines->prompt;
}

/* One character. libedit would go on after a signal. */
static int line_character(EditLine *edit, wchar_t *character)
{
    char bytes[8];
    mbstate_t state = {0};
    (void)edit;
    for (size_t used = 0; used < sizeof bytes; used++) {
        if (!line_wait()) return -1;
        const ssize_t got = read(STDIN_FILENO, bytes + used, 1);
        if (got <= 0) return (int)got;
        const size_t length = mbrtowc(character, bytes + used, 1, &state);
        if (length == (size_t)-1) { /* not UTF-8: left out */
            state = (mbstate_t){0};
            used = (size_t)-1;
        } else if (length != (size_t)-2) {
            return 1;
        }
    }
    return 0;
}

/* Without a terminal that libedit knows (TERM), lines are read plainly. */
static void line_edit(cli_lines *lines)
{
    HistEvent event;
    const char *const kind = setlocale(LC_CTYPE, "");
    if (!kind || MB_CUR_MAX < 4) (void)setlocale(LC_CTYPE, "C.UTF-8");
    const int fd = dup(STDERR_FILENO);
    lines->shown = fd < 0 ? NULL : fdopen(fd, "w");
    lines->history = history_init();
    lines->edit = lines->shown && lines->history ? el_init("portico", stdin, lines->shown, lines->shown) : NULL;
    if (!lines->edit) return;
    history(lines->history, &event, H_SETSIZE, 1000);
    history(lines->history, &event, H_SETUNIQUE, 1);
    el_set(lines->edit, EL_CLIENTDATA, lines);
    el_set(lines->edit, EL_PROMPT, line_prompt);
    el_set(lines->edit, EL_HIST, history, lines->history);
    el_set(lines->edit, EL_EDITOR, "emacs");
    el_set(lines->edit, EL_SIGNAL, 0);
    el_set(lines->edit, EL_GETCFN, line_character);
}

static void line_close(cli_lines *lines)
{
    if (lines->edit) el_end(lines->edit);
    if (lines->history) history_end(lines->history);
    if (lines->shown) fclose(lines->shown);
}

static cli_line_end line_read_edited(cli_lines *lines, char **line)
{
    int count = 0;
    HistEvent event;
    const char *read = el_gets(lines->edit, &count);
    if (cli_interrupted()) {
        el_reset(lines->edit);
        fputc('\n', stderr);
        return CLI_LINE_INTERRUPTED;
    }
    if (!read || count <= 0) {
        fputc('\n', stderr);
        return CLI_LINE_END;
    }
    if (strspn(read, " \t\r\n") < (size_t)count) history(lines->history, &event, H_ENTER, read);
    free(lines->text);
    *line = lines->text = strdup(read);
    if (!*line) return CLI_LINE_FAILED;
    (*line)[strcspn(*line, "\r\n")] = 0;
    return CLI_LINE;
}

#endif

cli_lines *cli_lines_open(void)
{
    cli_lines *lines = calloc(1, sizeof *lines);
    if (!lines) {
        cli_error("out of host memory");
        return NULL;
    }
    lines->interactive = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    if (lines->interactive) setvbuf(stdin, NULL, _IONBF, 0); /* what was read already, line_wait does not see */
#ifdef PCO_HAVE_EDIT
    if (lines->interactive) line_edit(lines);
#endif
    return lines;
}

void cli_lines_close(cli_lines *lines)
{
    if (!lines) return;
#ifdef PCO_HAVE_EDIT
    line_close(lines);
#endif
    free(lines->text);
    free(lines);
}

cli_line_end cli_lines_read(cli_lines *lines, const char *prompt, char **line)
{
    *line = NULL;
    lines->prompt = prompt;
#ifdef PCO_HAVE_EDIT
    if (lines->edit) return line_read_edited(lines, line);
#endif
    if (lines->interactive) fputs(prompt, stderr);
    cli_signals_end_reads(1);
    const ssize_t length = lines->interactive && !line_wait() ? -1 : getline(&lines->text, &lines->capacity, stdin);
    cli_signals_end_reads(0);
    if (length < 0 && cli_interrupted()) {
        clearerr(stdin);
        if (lines->interactive) fputc('\n', stderr);
        return CLI_LINE_INTERRUPTED;
    }
    if (length < 0 && ferror(stdin)) {
        cli_error("stdin cannot be read: %s", strerror(errno));
        return CLI_LINE_FAILED;
    }
    if (length < 0) {
        if (lines->interactive) fputc('\n', stderr);
        return CLI_LINE_END;
    }
    if (strlen(lines->text) != (size_t)length) {
        cli_error("a NUL byte on stdin is no text");
        return CLI_LINE_FAILED;
    }
    lines->text[strcspn(lines->text, "\r\n")] = 0;
    *line = lines->text;
    return CLI_LINE;
}
