// Functions of the program: a stream is to call one, and the guest has returned from one.
#include "session/host_functions.h"

#include "dispatch.h"
#include "session/session.h"

namespace outboard {

void handle_HostFunction(Session &s, const wire_HostFunction &q) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_HostFunction, result); };
  CUstream stream;
  if (q.kind > WIRE_FUNCTION_STEP) return posted(CUDA_ERROR_INVALID_VALUE);
  s.pages().mark();
  const CUresult result =
      s.objects().find(q.stream, &stream)
          ? s.host_functions().call(stream, q.function, static_cast<wire_function>(q.kind))
          : CUDA_ERROR_INVALID_HANDLE;
  posted(result);
  // Another device's stream may wait for it.
  if (result != CUDA_SUCCESS && q.kind == WIRE_FUNCTION_STEP) {
    s.host_functions().call_now(q.function, result);
  }
}

void handle_HostFunctionDone(Session &s, const wire_HostFunctionDone &q) {
  // What the function has changed is seen by what waits behind it.
  s.pages().arrive();
  if (!s.host_functions().done(q.call)) {
    return s.violation("the guest returns from a call that it was not asked for");
  }
  s.posted(WIRE_HostFunctionDone, CUDA_SUCCESS);
}

}  // namespace outboard
