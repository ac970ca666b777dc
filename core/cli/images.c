#include "cli/images.h"

#include "cli/cli.h"

#include <stdlib.h>

int cli_images_add(cli_image_list *list, const char *path)
{
    const char **paths = realloc(list->paths, (list->count + 1) * sizeof *paths);
    if (!paths) {
        cli_error("out of host memory");
        return 0;
    }
    list->paths = paths;
    paths[list->count++] = path;
    return 1;
}

int cli_images_read(cli_image_list *list)
{
    pco_error err = {""};
    if (!list->count) return CLI_OK;
    list->items = calloc(list->count, sizeof *list->items);
    if (!list->items) {
        cli_error("out of host memory");
        return CLI_FAILED;
    }
    for (size_t i = 0; i < list->count; i++) list->items[i].size = sizeof *list->items;
    for (size_t i = 0; i < list->count; i++)
        if (pco_image_read(list->paths[i], &list->items[i], &err)) return cli_fail(&err);
    return CLI_OK;
}

void cli_images_release(cli_image_list *list)
{
    for (size_t i = 0; list->items && i < list->count; i++) pco_free((void *)list->items[i].rgb);
    free(list->items);
    free(list->paths);
    *list = (cli_image_list){0};
}
