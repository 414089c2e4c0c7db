// Values that cross between JavaScript and C++. What is not as it should be is an Error; whoever is
// called by JavaScript runs in `guarded`.
#pragma once

#include <napi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"

namespace addon {

inline void raise(Napi::Env env, const std::string &code, const std::string &message) {
  Napi::Error error = Napi::Error::New(env, message);
  error.Set("code", code);
  error.ThrowAsJavaScriptException();
}

// Runs what may throw an Error; the result is undefined then, and the exception pending.
template <class F>
Napi::Value guarded(Napi::Env env, F f) {
  try {
    return f();
  } catch (const outboard::Error &error) {
    raise(env, error.code, error.what());
  } catch (const std::exception &error) {
    raise(env, "OB_INTERNAL", error.what());
  }
  return env.Undefined();
}

// A function of JavaScript that any thread may call, until nobody holds it.
inline std::shared_ptr<Napi::ThreadSafeFunction> hold_function(Napi::Env env,
                                                               Napi::Function function,
                                                               const char *name) {
  using Call = Napi::ThreadSafeFunction;
  return {new Call(Call::New(env, function, name, 0, 1)), [](Call *held) {
            held->Release();
            delete held;
          }};
}

inline uint64_t to_u64(const Napi::Value &value, const char *name) {
  bool lossless = false;
  const uint64_t number = value.IsBigInt() ? value.As<Napi::BigInt>().Uint64Value(&lossless) : 0;
  if (!lossless)
    throw outboard::Error("OB_INTERNAL", std::string(name) + " must be a bigint of 64 bits");
  return number;
}

inline int to_int(const Napi::Value &value, const char *name) {
  if (!value.IsNumber())
    throw outboard::Error("OB_INTERNAL", std::string(name) + " must be a number");
  return value.As<Napi::Number>().Int32Value();
}

inline std::string to_text(const Napi::Value &value, const char *name) {
  if (!value.IsString())
    throw outboard::Error("OB_INTERNAL", std::string(name) + " must be a string");
  return value.As<Napi::String>().Utf8Value();
}

inline Napi::Object to_object(const Napi::Value &value, const char *name) {
  if (!value.IsObject())
    throw outboard::Error("OB_INTERNAL", std::string(name) + " must be an object");
  return value.As<Napi::Object>();
}

inline bool to_bool(const Napi::Value &value, const char *name) {
  if (!value.IsBoolean())
    throw outboard::Error("OB_INTERNAL", std::string(name) + " must be a boolean");
  return value.As<Napi::Boolean>().Value();
}

inline Napi::Array to_array(const Napi::Value &value, const char *name) {
  if (!value.IsArray())
    throw outboard::Error("OB_INTERNAL", std::string(name) + " must be an array");
  return value.As<Napi::Array>();
}

inline Napi::Function to_function(const Napi::Value &value, const char *name) {
  if (!value.IsFunction())
    throw outboard::Error("OB_INTERNAL", std::string(name) + " must be a function");
  return value.As<Napi::Function>();
}

// Null stands for none. What is not there at all is an Error of `convert`, one of those above.
template <class Convert>
auto to_optional(const Napi::Value &value, const char *name, Convert convert)
    -> std::optional<decltype(convert(value, name))> {
  if (value.IsNull()) return std::nullopt;
  return convert(value, name);
}

template <class T>
Napi::Value handle(Napi::Env env, T pointer) {
  return Napi::External<T>::New(env, new T(std::move(pointer)),
                                [](Napi::Env, T *held) { delete held; });
}

template <class T>
T &from_handle(const Napi::Value &value, const char *name) {
  if (!value.IsExternal()) throw outboard::Error("OB_INTERNAL", std::string(name) + " is none");
  T &pointer = *value.As<Napi::External<T>>().Data();
  if (!pointer) throw outboard::Error("OB_INTERNAL", std::string(name) + " has been closed");
  return pointer;
}

inline Napi::Value bigint(Napi::Env env, uint64_t value) { return Napi::BigInt::New(env, value); }

}  // namespace addon
