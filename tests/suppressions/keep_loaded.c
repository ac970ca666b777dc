/* For the leak sanitizer: no library is unloaded, so that a leak in a driver is known by the driver's name, which
 * lsan.txt lists, and not as one in an unknown module. Part of each program where -Db_sanitize has `address`, and
 * nowhere else. */
__attribute__((visibility("default"))) int dlclose(void *library);

int dlclose(void *library)
{
    (void)library;
    return 0;
}
