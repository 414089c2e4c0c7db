// Sockets without a name, and the descriptors that go through them.
#pragma once

#include <napi.h>

namespace addon {

// ("messages" or "bytes"): both ends of one, { here, there }. The caller closes them.
Napi::Value socket_pair(const Napi::CallbackInfo &info);

// (end, descriptor): whether the other end can receive it. Never waits.
Napi::Value send_descriptor(const Napi::CallbackInfo &info);

// (end): the next one, which is the caller's to close; null where none has come.
Napi::Value receive_descriptor(const Napi::CallbackInfo &info);

}  // namespace addon
