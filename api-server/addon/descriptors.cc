#include "descriptors.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/local_socket.h"
#include "values.h"

namespace addon {

using outboard::Error;

Napi::Value socket_pair(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const int type = to_text(info[0], "kind") == "bytes" ? SOCK_STREAM : SOCK_SEQPACKET;
    int ends[2];
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
      throw Error("OB_INTERNAL", std::string("no pair of sockets can be made: ") + strerror(errno));
    }
    Napi::Object result = Napi::Object::New(env);
    result.Set("here", ends[0]);
    result.Set("there", ends[1]);
    return result;
  });
}

Napi::Value send_descriptor(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    // Some byte has to carry it.
    const char carrier = 0;
    const int end = to_int(info[0], "end"), descriptor = to_int(info[1], "descriptor");
    return Napi::Boolean::New(env,
                              outboard::send_message(end, &carrier, sizeof carrier, descriptor));
  });
}

Napi::Value receive_descriptor(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    char carrier;
    int descriptor = -1;
    const int end = to_int(info[0], "end");
    if (!outboard::receive_message(end, &carrier, sizeof carrier, &descriptor) || descriptor < 0) {
      return env.Null();
    }
    return Napi::Number::New(env, descriptor);
  });
}

}  // namespace addon
