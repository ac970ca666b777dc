/* What the unit tests share: cmocka with the headers that it needs, and checks of statuses and messages. */
#ifndef PCO_TESTS_CHECK_H
#define PCO_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/error.h"

/* `call` uses `err`; it must succeed. */
#define check_ok(call) \
    do { \
        pco_error err = {""}; \
        pco_status check_status = (call); \
        if (check_status) fail_msg("%s: status %d: %s", #call, (int)check_status, err.message); \
    } while (0)

/* It must fail with `status`, and the message must contain `part`. */
#define check_fails(call, status, part) \
    do { \
        pco_error err = {""}; \
        pco_status check_status = (call); \
        if (check_status != (status) || !strstr(err.message, part)) \
            fail_msg("%s: status %d, message '%s'; expected %d and '%s'", #call, (int)check_status, err.message, \
                     (int)(status), part); \
    } while (0)

/* A folder of the test's own: setup and teardown of a group, for tests that define CHECK_FOLDER before this file. */
#ifdef CHECK_FOLDER
static char check_folder[] = "/tmp/portico-test-XXXXXX";

static int check_make_folder(void **state)
{
    (void)state;
    return mkdtemp(check_folder) ? 0 : -1;
}

static int check_remove_folder(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", check_folder);
    return system(command);
}
#endif

/* Devices that not every machine has, for tests that define CHECK_SESSIONS before this file. */
#ifdef CHECK_SESSIONS
#include "portico/session.h"

/* A session on the device; NULL, and a line, where there is no such device, which the processor never is. A device that
 * is there and does not open is no reason to test without it. */
static pco_session *open_if_there(pco_context *context, const char *device)
{
    pco_session *session = NULL;
    pco_error err = {""};
    const pco_status status = pco_session_open(context, device, &session, &err);
    if (status && (status != PCO_ERROR_NOT_FOUND || strncmp(device, "cpu", 3) == 0))
        fail_msg("%s: status %d: %s", device, (int)status, err.message);
    if (status) print_message("%s is not there\n", device);
    return session;
}
#endif

#endif
