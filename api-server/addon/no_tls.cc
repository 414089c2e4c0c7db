#include "tls.h"

namespace addon {

Napi::Value tls(Napi::Env env) { return env.Null(); }

}  // namespace addon
