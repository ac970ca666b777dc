/* The messages of a chat, and files of them. */
#ifndef PCO_CLI_TALK_H
#define PCO_CLI_TALK_H

#include "portico/chat.h"

/* Zero-initialised: empty. Roles are literals, contents are the talk's own. */
typedef struct cli_talk {
    pco_chat_message *messages;
    size_t count, capacity;
} cli_talk;

void cli_talk_release(cli_talk *talk);
/* Removes messages from number `first` on. */
void cli_talk_cut(cli_talk *talk, size_t first);
/* Removes the oldest turn: a user's message and what answers it. The system's stays, and so does the last turn. Returns
 * how many messages that were. */
size_t cli_talk_forget(cli_talk *talk);
pco_status cli_talk_add(cli_talk *talk, const char *role, const char *content, pco_error *err) PCO_NODISCARD;
/* Sets the system's message, the first one; an empty text removes it. */
pco_status cli_talk_system(cli_talk *talk, const char *content, pco_error *err) PCO_NODISCARD;

/* A file of them: JSON, [{"role": ..., "content": ...}, ...]. Errors: IO, FORMAT; the talk is then as it was. */
pco_status cli_talk_save(const cli_talk *talk, const char *path, pco_error *err) PCO_NODISCARD;
pco_status cli_talk_load(cli_talk *talk, const char *path, pco_error *err) PCO_NODISCARD;

#endif
