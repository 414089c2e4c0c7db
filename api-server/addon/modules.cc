#include "modules.h"

#include <cstring>

#include "values.h"

namespace addon {

using outboard::Error;
using outboard::ExpectedModule;

namespace {

Napi::Object to_object(Napi::Env env, const ExpectedModule &module) {
  Napi::Uint8Array hash = Napi::Uint8Array::New(env, sizeof module.hash);
  memcpy(hash.Data(), module.hash.data(), sizeof module.hash);
  Napi::Object one = Napi::Object::New(env);
  one.Set("hash", hash);
  one.Set("size", bigint(env, module.size));
  return one;
}

// On JavaScript's thread.
void tell_used(Napi::Env env, Napi::Function on_used, ExpectedModule *module) {
  const std::unique_ptr<ExpectedModule> owned(module);
  if (env && on_used) on_used.Call({to_object(env, *owned)});
}

}  // namespace

Napi::Value list_modules(Napi::Env env, const std::vector<ExpectedModule> &modules) {
  Napi::Array list = Napi::Array::New(env, modules.size());
  for (uint32_t i = 0; i < modules.size(); i++) list.Set(i, to_object(env, modules[i]));
  return list;
}

std::vector<ExpectedModule> to_modules(const Napi::Array &list) {
  std::vector<ExpectedModule> modules(list.Length());
  if (modules.size() > WIRE_EXPECTED_MAX) throw Error("OB_INTERNAL", "too many modules expected");
  for (uint32_t i = 0; i < modules.size(); i++) {
    const Napi::Object one = to_object(list.Get(i), "expected[]");
    const Napi::Value hash = one.Get("hash");
    if (!hash.IsTypedArray() ||
        hash.As<Napi::TypedArray>().ByteLength() != sizeof modules[i].hash) {
      throw Error("OB_INTERNAL", "expected[].hash must have 32 bytes");
    }
    memcpy(modules[i].hash.data(), hash.As<Napi::Uint8Array>().Data(), sizeof modules[i].hash);
    modules[i].size = to_u64(one.Get("size"), "expected[].size");
  }
  return modules;
}

std::function<void(const ExpectedModule &)> caller_of_used(Napi::Env env, Napi::Function on_used) {
  const auto call = hold_function(env, on_used, "module used");
  return [call](const ExpectedModule &module) {
    auto *copy = new ExpectedModule(module);
    if (call->NonBlockingCall(copy, tell_used) != napi_ok) delete copy;
  };
}

}  // namespace addon
