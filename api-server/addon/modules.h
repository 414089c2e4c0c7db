// Modules that a session expects, and those that it uses, as JavaScript has them.
#pragma once

#include <napi.h>

#include <functional>
#include <memory>
#include <vector>

#include "images/expected_modules.h"

namespace addon {

Napi::Value list_modules(Napi::Env env, const std::vector<outboard::ExpectedModule> &modules);
std::vector<outboard::ExpectedModule> to_modules(const Napi::Array &list);
// Calls it until the session is gone.
std::function<void(const outboard::ExpectedModule &)> caller_of_used(Napi::Env env,
                                                                     Napi::Function on_used);

}  // namespace addon
