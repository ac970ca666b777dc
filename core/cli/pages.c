#include "cli/pages.h"

#include "base/env.h"
#include "cli/help.h"

#include <string.h>

/* One character of running text: a backslash and what begins a request at the start of a line are roff's. */
static void man_character(FILE *out, char c, int begins)
{
    if (begins && (c == '.' || c == '\'')) fputs("\\&", out);
    if (c == '\\')
        fputs("\\e", out);
    else if (c == '-')
        fputs("\\-", out);
    else
        fputc(c, out);
}

static void man_verbatim(FILE *out, const char *text, const char *end)
{
    for (int begins = 1; text < end; begins = *text++ == '\n') man_character(out, *text, begins);
}

/* Text that roff fills: indents are dropped. */
static void man_filled(FILE *out, const char *text, const char *end)
{
    for (int begins = 1; text < end; text++) {
        if (begins && *text == ' ') continue;
        man_character(out, *text, begins);
        begins = *text == '\n';
    }
    fputc('\n', out);
}

static void man_text(FILE *out, const char *text) { man_filled(out, text, text + strlen(text)); }

static void man_item(FILE *out, const cli_help_item *item)
{
    fputs(".TP\n.B ", out);
    man_verbatim(out, item->names, item->names_end);
    fputc('\n', out);
    man_filled(out, item->text, item->end);
}

/* Lines as they are, less the indent that all but the first have. */
static void man_lines(FILE *out, const char *text, const char *end, size_t indent)
{
    fputs(".nf\n", out);
    while (text < end) {
        const char *stop = cli_line_end(text);
        man_verbatim(out, text, stop);
        fputc('\n', out);
        text = stop + (*stop == '\n');
        const size_t blank = cli_indent(text);
        text += blank < indent ? blank : indent;
    }
    fputs(".fi\n", out);
}

/* A paragraph of a help text, which may be or end in a list of options. The section of these has been begun if
 * *options. */
static void man_paragraph(FILE *out, const char *text, const char *end, int first, int *options)
{
    cli_help_item item;
    if (strncmp(text, "Exit status:", 12) == 0) {
        fputs(".SH EXIT STATUS\n", out);
        text += 12 + strspn(text + 12, " ");
    } else if (!first && !cli_help_item_at(text, &item)) {
        fputs(".PP\n", out);
    }
    /* Lines of a table or of an example are set apart, and stay lines. */
    const int listed = cli_indent(text) > 0 && !cli_help_item_at(text, &item);
    if (listed) {
        man_lines(out, text, end, 0);
        return;
    }
    while (text < end) {
        if (cli_help_item_at(text, &item)) {
            if (!*options) fputs(".SH OPTIONS\n", out);
            *options = 1;
            man_item(out, &item);
            text = item.end + (*item.end == '\n');
            continue;
        }
        const char *stop = cli_line_end(text);
        man_filled(out, text, stop);
        text = stop + (*stop == '\n');
    }
}

static void man_head(FILE *out, const char *name, const char *summary)
{
    fputs(".\\\" Made from the program's own tables; change those.\n.TH ", out);
    for (const char *at = name; *at; at++) fputc(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at, out);
    fprintf(out, " 1 \"\" \"Portico " PCO_VERSION "\" \"User Commands\"\n.SH NAME\n");
    for (const char *at = name; *at; at++) man_character(out, *at, 0);
    fputs(" \\- ", out);
    man_text(out, summary);
}

static void man_command(FILE *out, const cli_command *command)
{
    char name[64];
    snprintf(name, sizeof name, "portico-%s", command->name);
    man_head(out, name, command->summary);
    const char *text = command->help;
    if (strncmp(text, "usage: ", 7) == 0) {
        const char *end = strstr(text, "\n\n");
        if (!end) end = text + strlen(text);
        fputs(".SH SYNOPSIS\n", out);
        man_lines(out, text + 7, end, 7);
        text = end + strspn(end, "\n");
    }
    fputs(".SH DESCRIPTION\n", out);
    int options = 0;
    for (int first = 1; *text; first = 0) {
        const char *end = strstr(text, "\n\n");
        if (!end) end = text + strlen(text) - (text[strlen(text) - 1] == '\n');
        man_paragraph(out, text, end, first, &options);
        text = end + strspn(end, "\n");
    }
    fputs(".SH SEE ALSO\n.BR portico (1)\n", out);
}

static void man_listed(FILE *out, const cli_command *command)
{
    fprintf(out, ".TP\n.BR portico\\-%s (1)\n", command->name);
    man_text(out, command->summary);
}

static void man_program(FILE *out)
{
    man_head(out, "portico", "runs and trains transformer models on any compute device");
    fputs(".SH SYNOPSIS\n.B portico\n.I COMMAND\n.RI [ ARGUMENT \" ...]\"\n.br\n.B portico help\n.RI [ COMMAND ]\n"
          ".SH DESCRIPTION\n",
          out);
    man_text(out,
             "A model is one graph of operations; backends for the CPU, OpenCL and Vulkan are plugins that are found "
             "at run time; and a conformance suite proves, element by element, that a device and its driver compute "
             "what they should.\nOptions may stand anywhere behind the command, as --name VALUE or --name=VALUE, "
             "short ones as -n VALUE or -nVALUE; what follows -- is no option.");
    fputs(".SH COMMANDS\n", out);
    for (int i = 0; cli_commands[i]; i++) man_listed(out, cli_commands[i]);
    man_listed(out, &cli_completion_command);
    fputs(".SH ENVIRONMENT\n", out);
    uint32_t count;
    const pco_env_row *rows = pco_env_table(&count);
    for (uint32_t i = 0; i < count; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s (%s; default: %s)", rows[i].doc, rows[i].values, rows[i].initial);
        fprintf(out, ".TP\n.B %s\n", rows[i].name);
        man_text(out, text);
    }
    fputs(".SH EXIT STATUS\n", out);
    man_text(out, "0 done, 1 failed, 2 wrong usage, 128 + N ended early by signal N (130: Ctrl-C, 143: SIGTERM).");
    fputs(".SH SEE ALSO\n", out);
    for (int i = 0; cli_commands[i]; i++) fprintf(out, ".BR portico\\-%s (1),\n", cli_commands[i]->name);
    fprintf(out, ".BR portico\\-%s (1)\n", cli_completion_command.name);
}

void cli_man_page(FILE *out, const cli_command *command)
{
    if (command)
        man_command(out, command);
    else
        man_program(out);
}
