// TLS of a server (tls/) for JavaScript: api-server/src/native.ts, TlsNative.
#pragma once

#include <napi.h>

namespace addon {

// Null where this was built without.
Napi::Value tls(Napi::Env env);

}  // namespace addon
