// Connections that the monitor hands to a slot's process, over a socket that carries nothing else.
#pragma once

#include <napi.h>

namespace addon {

// Both ends of one: { here, there }. The caller closes them.
Napi::Value descriptor_pair(const Napi::CallbackInfo &info);

// (end, descriptor): whether the other end can receive it. Never waits.
Napi::Value send_descriptor(const Napi::CallbackInfo &info);

// (end): the next one, which is the caller's to close; null where none has come.
Napi::Value receive_descriptor(const Napi::CallbackInfo &info);

}  // namespace addon
