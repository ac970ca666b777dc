/* Images that a command line names. */
#ifndef PCO_CLI_IMAGES_H
#define PCO_CLI_IMAGES_H

#include "portico/image.h"

/* Zero it first. */
typedef struct cli_image_list {
    const char **paths; /* [count], of argv */
    pco_image *items;   /* [count] once they are read */
    size_t count;
} cli_image_list;

/* Appends a path; 0 after a message. */
int cli_images_add(cli_image_list *list, const char *path);

/* Reads all of them. Returns the exit status, not CLI_OK after a message. */
int cli_images_read(cli_image_list *list);
void cli_images_release(cli_image_list *list);

#endif
