// Events of everything that the session does: recorded behind all its streams, waited for by all.
// Drivers for CUDA 12.4 have no such calls, and guests know that by the version that they were
// told.
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

void handle_ContextRecord(Session &s, const wire_ContextRecord &q) {
  CUevent event;
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  if (s.objects().find(q.event, &event)) {
    result = s.driver().cuCtxRecordEvent ? s.driver().cuCtxRecordEvent(s.device().context(), event)
                                         : CUDA_ERROR_NOT_SUPPORTED;
  }
  s.posted(WIRE_ContextRecord, result);
}

void handle_ContextWait(Session &s, const wire_ContextWait &q) {
  CUevent event;
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  if (s.objects().find(q.event, &event)) {
    result = s.driver().cuCtxWaitEvent ? s.driver().cuCtxWaitEvent(s.device().context(), event)
                                       : CUDA_ERROR_NOT_SUPPORTED;
  }
  s.posted(WIRE_ContextWait, result);
}

}  // namespace outboard
