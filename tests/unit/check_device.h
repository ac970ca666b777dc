/* For tests of a device: the one that PORTICO_BACKEND picks, open while the group runs. */
#ifndef PCO_TESTS_CHECK_DEVICE_H
#define PCO_TESTS_CHECK_DEVICE_H

#include "check.h"

#include "runtime/session.h"

static pco_registry *device_registry;
static pco_session *device_session;

/* Setup and teardown of a group. */
static int device_open(void **state)
{
    (void)state;
    pco_config config;
    pco_error why = {""};
    if (pco_config_read(&config, &why) || pco_registry_create(&config, &device_registry, &why) ||
        pco_registry_open(device_registry, NULL, &device_session, &why)) {
        print_error("%s\n", why.message);
        return -1;
    }
    return 0;
}

static int device_close(void **state)
{
    (void)state;
    pco_session_close(device_session);
    pco_registry_destroy(device_registry);
    return 0;
}

#endif
