#include "api/api.h"

#include "portico/session.h"

pco_status pco_session_open(pco_context *context, const char *devices, pco_session **session, pco_error *err)
{
    PCO_NEEDS(session);
    *session = NULL;
    PCO_NEEDS(context);
    pco_status status = pco_registry_check(context->registry, err);
    return status ? status : pco_registry_open(context->registry, devices, session, err);
}
