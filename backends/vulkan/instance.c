/* The loader and the instance. The loader is opened at run time, so that a machine without Vulkan gets a
 * message and not a plugin that does not load. It is never closed: drivers do not survive being unloaded. */
#include "vk.h"

#include <dlfcn.h>
#include <string.h>

#if defined(__APPLE__)
static const char *const vk_libraries[] = {"libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"};
#else
static const char *const vk_libraries[] = {"libvulkan.so.1", "libvulkan.so"};
#endif
enum { VK_N_LIBRARIES = sizeof vk_libraries / sizeof vk_libraries[0] };

static pco_status vk_open_loader(pco_backend *backend, pco_error *err)
{
    char why[512] = "";
    for (uint32_t i = 0; i < VK_N_LIBRARIES && !backend->library; i++) {
        backend->library = dlopen(vk_libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!backend->library && i == 0) {
            const char *text = dlerror();
            if (text) strncpy(why, text, sizeof why - 1);
        }
    }
    if (!backend->library)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "no Vulkan loader (%s)", why[0] ? why : vk_libraries[0]);
    void *symbol = dlsym(backend->library, "vkGetInstanceProcAddr");
    if (!symbol) return vk_fail(err, PCO_ERROR_UNSUPPORTED, "the Vulkan loader lacks vkGetInstanceProcAddr");
    memcpy(&backend->get, &symbol, sizeof symbol);
    return PCO_OK;
}

/* 1 if the instance extension is there. */
static int vk_instance_offers(pco_backend *backend, const char *name)
{
    PFN_vkEnumerateInstanceExtensionProperties list =
        (PFN_vkEnumerateInstanceExtensionProperties)backend->get(NULL, "vkEnumerateInstanceExtensionProperties");
    uint32_t count = 0;
    if (!list || list(NULL, &count, NULL) != VK_SUCCESS || count == 0) return 0;
    VkExtensionProperties *all = vk_allocate(backend->host, count, sizeof *all);
    if (!all) return 0;
    VkResult result = list(NULL, &count, all);
    int found = 0;
    for (uint32_t i = 0; i < count && (result == VK_SUCCESS || result == VK_INCOMPLETE); i++)
        found |= strcmp(all[i].extensionName, name) == 0;
    vk_release(backend->host, all);
    return found;
}

#define VK_LOAD(name) \
    backend->vk.name = (PFN_vk##name)backend->get(backend->instance, "vk" #name); \
    if (!backend->vk.name) missing = "vk" #name;

pco_status vk_instance_create(pco_backend *backend, pco_error *err)
{
    pco_status status = vk_open_loader(backend, err);
    if (status != PCO_OK) return status;
    PFN_vkEnumerateInstanceVersion version =
        (PFN_vkEnumerateInstanceVersion)backend->get(NULL, "vkEnumerateInstanceVersion");
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)backend->get(NULL, "vkCreateInstance");
    uint32_t offered = VK_API_VERSION_1_0;
    if (!create || !version || version(&offered) != VK_SUCCESS || offered < VK_API_VERSION_1_1)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "the Vulkan loader knows Vulkan 1.0 only, 1.1 is needed");
    backend->api_version = offered < VK_API_VERSION_1_3 ? offered : VK_API_VERSION_1_3;

    const char *extensions[1];
    uint32_t n_extensions = 0, flags = 0;
    if (vk_instance_offers(backend, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
        extensions[n_extensions++] = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
        flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
    }
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "portico",
        .pEngineName = "portico",
        .apiVersion = backend->api_version,
    };
    VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .flags = flags,
        .pApplicationInfo = &application,
        .enabledExtensionCount = n_extensions,
        .ppEnabledExtensionNames = extensions,
    };
    VkResult result = VK_MAKE(&backend->instance, create, &info, NULL);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED,
                       "the Vulkan loader found no driver that it can open (VK_LOADER_DEBUG=error,driver says why)");
    if (result != VK_SUCCESS)
        return vk_fail(err, PCO_ERROR_UNSUPPORTED, "no Vulkan instance: %s (%d)", vk_result_name(result), (int)result);
    const char *missing = NULL;
    VK_INSTANCE_CALLS(VK_LOAD)
    if (missing) return vk_fail(err, PCO_ERROR_UNSUPPORTED, "the Vulkan loader lacks %s", missing);
    return PCO_OK;
}

void vk_instance_destroy(pco_backend *backend)
{
    if (backend->instance && backend->vk.DestroyInstance) backend->vk.DestroyInstance(backend->instance, NULL);
    backend->instance = VK_NULL_HANDLE;
}
