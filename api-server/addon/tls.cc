#include "tls.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <vector>

#include "outboard_tls.h"
#include "values.h"

namespace addon {

namespace {

using outboard::Error;

struct Ends {
  void operator()(outboard_tls *tls) const { outboard_tls_end(tls); }
  void operator()(outboard_tls_server *server) const { outboard_tls_server_end(server); }
};
using Server = std::shared_ptr<outboard_tls_server>;
using Connection = std::shared_ptr<outboard_tls>;

// What a step of a handshake makes: our certificates and 16 KiB.
constexpr size_t kRoom = 128 << 10;

Napi::Uint8Array to_bytes(const Napi::Value &value, const char *name) {
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array)
    throw Error("OB_INTERNAL", std::string(name) + " must be a Uint8Array");
  return value.As<Napi::Uint8Array>();
}

outboard_tls_bytes as_bytes(const Napi::Value &value, const char *name) {
  if (value.IsNull()) return {nullptr, 0};
  const Napi::Uint8Array bytes = to_bytes(value, name);
  return {bytes.Data(), bytes.ByteLength()};
}

Napi::Value copied(Napi::Env env, const uint8_t *at, size_t size) {
  Napi::Uint8Array bytes = Napi::Uint8Array::New(env, size);
  if (size) memcpy(bytes.Data(), at, size);
  return bytes;
}

Napi::Value server(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const Napi::Object given = to_object(info[0], "files");
    const outboard_tls_files files = {as_bytes(given.Get("cert"), "cert"),
                                      as_bytes(given.Get("key"), "key"),
                                      as_bytes(given.Get("ca"), "ca")};
    outboard_tls_server *made = nullptr;
    if (const int failure = outboard_tls_serve(&files, &made))
      return Napi::Number::New(env, failure);
    return handle(env, Server(made, Ends{}));
  });
}

Napi::Value accept(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    outboard_tls *made = nullptr;
    const int failure = outboard_tls_accept(from_handle<Server>(info[0], "server").get(),
                                            static_cast<uint64_t>(time(nullptr)), &made);
    if (failure) throw Error("OB_INTERNAL", "no TLS: failure " + std::to_string(failure));
    return handle(env, Connection(made, Ends{}));
  });
}

Napi::Value shake(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    outboard_tls *tls = from_handle<Connection>(info[0], "connection").get();
    Napi::Uint8Array in = to_bytes(info[1], "bytes");
    std::vector<uint8_t> out(kRoom);
    // Neither pointer may be null.
    uint8_t nothing = 0;
    struct outboard_tls_shake step {};
    const int failure = outboard_tls_shake(tls, in.ByteLength() ? in.Data() : &nothing,
                                           in.ByteLength(), out.data(), out.size(), &step);
    Napi::Object result = Napi::Object::New(env);
    result.Set("used", Napi::Number::New(env, static_cast<double>(step.used)));
    result.Set("out", copied(env, out.data(), step.made));
    result.Set("done", Napi::Boolean::New(env, step.done));
    result.Set("failure", Napi::Number::New(env, failure));
    return result;
  });
}

Napi::Value shown(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    outboard_tls_bytes certificate{};
    const int judgement =
        outboard_tls_shown(from_handle<Connection>(info[0], "connection").get(), &certificate);
    if (!certificate.size) return env.Null();
    Napi::Object result = Napi::Object::New(env);
    result.Set("certificate", copied(env, certificate.at, certificate.size));
    result.Set("judgement", Napi::Number::New(env, judgement));
    return result;
  });
}

Napi::Value save(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    Napi::Uint8Array state = Napi::Uint8Array::New(env, OUTBOARD_TLS_STATE);
    if (outboard_tls_save(from_handle<Connection>(info[0], "connection").get(), state.Data()))
      return env.Null();
    return state;
  });
}

Napi::Value restore(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const Napi::Uint8Array state = to_bytes(info[0], "state");
    outboard_tls *made = nullptr;
    if (outboard_tls_restore(state.Data(), state.ByteLength(), &made)) return env.Null();
    return handle(env, Connection(made, Ends{}));
  });
}

// All whole records that are there, in place.
Napi::Value open(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    outboard_tls *tls = from_handle<Connection>(info[0], "connection").get();
    Napi::Uint8Array bytes = to_bytes(info[1], "bytes");
    size_t used = 0, size = 0;
    int failure = 0;
    uint8_t *const begin = bytes.Data();
    while (!failure && outboard_tls_has_record(begin + used, bytes.ByteLength() - used)) {
      outboard_tls_content content{};
      failure = outboard_tls_open(tls, begin + used, bytes.ByteLength() - used, &content);
      if (failure || !content.used) break;
      memmove(begin + size, content.at, content.size);
      size += content.size;
      used += content.used;
    }
    Napi::Object result = Napi::Object::New(env);
    result.Set("data", copied(env, begin, size));
    result.Set("used", Napi::Number::New(env, static_cast<double>(used)));
    result.Set("failure", Napi::Number::New(env, failure));
    return result;
  });
}

Napi::Value seal(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    outboard_tls *tls = from_handle<Connection>(info[0], "connection").get();
    Napi::Uint8Array bytes = to_bytes(info[1], "bytes");
    const bool last = to_bool(info[2], "last");
    const size_t records = bytes.ByteLength() / OUTBOARD_TLS_CONTENT + 1;
    std::vector<uint8_t> out(bytes.ByteLength() + records * OUTBOARD_TLS_OVERHEAD +
                             OUTBOARD_TLS_UPDATE + OUTBOARD_TLS_LAST);
    size_t made = outboard_tls_update(tls, out.data());
    for (size_t at = 0; at < bytes.ByteLength();) {
      const size_t piece = std::min<size_t>(bytes.ByteLength() - at, OUTBOARD_TLS_CONTENT);
      memcpy(out.data() + made + OUTBOARD_TLS_HEADER, bytes.Data() + at, piece);
      const size_t sealed = outboard_tls_seal(tls, out.data() + made, piece);
      if (!sealed) throw Error("OB_INTERNAL", "nothing can be sent by this connection any more");
      made += sealed;
      at += piece;
    }
    if (last) made += outboard_tls_close(tls, out.data() + made);
    return copied(env, out.data(), made);
  });
}

Napi::Value end(const Napi::CallbackInfo &info) {
  return guarded(info.Env(), [&] {
    from_handle<Connection>(info[0], "connection").reset();
    return info.Env().Undefined();
  });
}

}  // namespace

Napi::Value tls(Napi::Env env) {
  Napi::Object tls = Napi::Object::New(env);
  tls.Set("server", Napi::Function::New(env, server));
  tls.Set("accept", Napi::Function::New(env, accept));
  tls.Set("shake", Napi::Function::New(env, shake));
  tls.Set("shown", Napi::Function::New(env, shown));
  tls.Set("save", Napi::Function::New(env, save));
  tls.Set("restore", Napi::Function::New(env, restore));
  tls.Set("open", Napi::Function::New(env, open));
  tls.Set("seal", Napi::Function::New(env, seal));
  tls.Set("end", Napi::Function::New(env, end));
  return tls;
}

}  // namespace addon
