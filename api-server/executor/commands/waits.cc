// Queries: settled at once when they can be, else with a push later. And the end of everything.
#include "base/session_limits.h"
#include "base/waiting.h"
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

void handle_cuEventQuery(Session &s, const wire_cuEventQuery &q) {
  const uint64_t request = q.request.request;
  CUevent event;
  if (!s.objects().find(q.hEvent, &event))
    return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE);
  const CUresult result = s.driver().cuEventQuery(event);
  if (result != CUDA_ERROR_NOT_READY) return s.answer_query(request, result);
  // First the answer: the push must not overtake it.
  s.answers().send(request, result);
  s.watch(q.hEvent, request, event, false);
}

void handle_cuStreamQuery(Session &s, const wire_cuStreamQuery &q) {
  const uint64_t request = q.request.request;
  const uint64_t handle = q.hStream;
  Stream stream;
  if (!s.objects().peek(handle, &stream))
    return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE);
  const CUresult result = s.driver().cuStreamQuery(stream.object);
  if (result != CUDA_ERROR_NOT_READY) return s.answer_query(request, result);
  // What the stream holds now is done when an event behind it is.
  CUevent event = nullptr;
  const CUresult made = s.driver().cuEventCreate(&event, kWaitEvent);
  if (made != CUDA_SUCCESS) return s.answers().send(request, made);
  s.answers().send(request, result);
  s.driver().cuEventRecord(event, stream.object);
  s.watch(handle, request, event, true);
}

void handle_StreamMark(Session &s, const wire_StreamMark &q) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_StreamMark, result); };
  Stream stream;
  if (!s.objects().peek(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  if (s.stream_marks().count() >= session_limits.stream_marks)
    return s.violation("more marks are waited for than a guest may");
  posted(s.stream_marks().put(stream.object, q.stream, q.place));
}

void handle_Goodbye(Session &s, const wire_Goodbye &) {
  s.goodbye();
  s.posted(WIRE_Goodbye, CUDA_SUCCESS);
}

void handle_Echo(Session &s, const wire_Echo &q) {
  s.answers().send(q.request.request, CUDA_SUCCESS);
}

void handle_ContextReset(Session &s, const wire_ContextReset &q) {
  const uint64_t request = q.request.request;
  const CUresult result = s.reset(false);
  s.answers().synchronised(request, result);
}

}  // namespace outboard
