#include "api/api.h"

#include "portico/session.h"

pco_status pco_session_open(pco_context *context, const char *devices, pco_session **session, pco_error *err)
{
    PCO_NEEDS(session);
    *session = NULL;
    PCO_NEEDS(context);
    PCO_ENTER(context->registry);
    return pco_registry_open(context->registry, devices, session, err);
}
