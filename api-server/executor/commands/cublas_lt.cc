#include "commands/cublas_lt.h"

#include <optional>
#include <string>
#include <vector>

#include "libraries/cublas.h"
#include "libraries/lt_arguments.h"
#include "session/session.h"

namespace outboard {

namespace {

void answer_lt(Session &s, uint64_t request, int status, const LtAnswer *results = nullptr) {
  wire_LibraryAsk_reply reply{};
  reply.status = status;
  reply.results_size = results ? results->size : 0;
  s.answers().send(request, CUDA_SUCCESS, &reply.reply, sizeof reply,
                   results ? results->words : nullptr, reply.results_size);
}

// Whether a call may reach the library: it says no other status then.
bool is_allowed(Session &s, const LtArguments &arguments) {
  const char *why = nullptr;
  if (arguments.has_algo && !s.libraries().algos().has(arguments.algo))
    why = "its algorithm is none that this server's library has given the program";
  const auto reachable = [&s](uint64_t at, uint64_t size) { return s.reachable(at, size); };
  if (!why && arguments.starts() && !arguments.are_reachable(reachable))
    why = "it names memory that the session does not have";
  if (why) s.libraries().say_refused(s.id(), "a call of cuBLASLt is refused: " + std::string(why));
  return !why;
}

}  // namespace

void ask_cublas_lt(Session &s, const wire_LibraryAsk &q, std::span<const uint8_t> bytes,
                   Starts<Work::kKernel> work) {
  const uint64_t request = q.request.request, key = q.key;
  const uint32_t function = q.function;
  LtArguments arguments;
  if (const char *why = arguments.decode(q.function, bytes))
    return s.violation(std::string("malformed LibraryAsk: ") + why);
  Libraries &libraries = s.libraries();
  libraries.learnt().is_used();
  Stream stream;
  if (!libraries.cublas()) return answer_lt(s, request, kCublasNotInitialized);
  if (!s.objects().find(q.stream, &stream)) return answer_lt(s, request, kCublasInvalidValue);
  if (!is_allowed(s, arguments)) return answer_lt(s, request, kCublasInvalidValue);
  const CublasLt &lt = libraries.cublas()->lt();
  int status = kCublasSuccess;
  if (!arguments.starts()) {
    // It may load code, as for what a heuristic looks at.
    const std::vector<uint8_t> asked(bytes.begin(), bytes.end());
    const Session::Keeps keeps(s);
    s.hand_over();
    LtAnswer results;
    std::optional<Detours::Load> loads(std::in_place, s.detours());
    if (void *handle = libraries.lt_handle(&status)) {
      status = lt.ask(handle, arguments, &libraries.algos(), &results);
      loads.reset();
      if (cublas_status_lasts(status)) libraries.learnt().answered(key, function, asked);
    }
    return answer_lt(s, request, status, &results);
  }
  count_alone(s.count().launches);
  s.answers().launched();
  KernelCost *const cost = libraries.cost_of(arguments);
  s.objects().pin(stream.object);
  Gate::Pass pass = work.launch_apart(stream.object, *cost, 1);
  const Session::Keeps keeps(s);
  s.hand_over();
  {
    const Detours::Load loads(s.detours());
    if (void *handle = libraries.lt_handle(&status))
      status = lt.start(pass, handle, arguments, libraries.algos(), stream.object);
  }
  pass.ended();
  if (status == kCublasSuccess) libraries.learnt().succeeded(key, LearntCalls::kStartsLt);
  s.objects().unpin(stream.object);
  answer_lt(s, request, status);
}

void call_cublas_lt(Session &s, const wire_LibraryCall &q, std::span<const uint8_t> bytes,
                    Starts<Work::kKernel> work) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_LibraryCall, result); };
  LtArguments arguments;
  if (const char *why = arguments.decode(q.function, bytes))
    return s.violation(std::string("malformed LibraryCall: ") + why);
  // Nobody waits for results of these.
  if (!arguments.starts()) return s.violation("a call of a library that has results was posted");
  Libraries &libraries = s.libraries();
  CUstream stream;
  // The same has succeeded before, so there is one.
  void *const handle = libraries.lt_handle_there();
  if (!handle) return posted(CUDA_ERROR_NOT_SUPPORTED);
  if (!s.objects().find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  if (!is_allowed(s, arguments)) return posted(CUDA_ERROR_INVALID_VALUE);
  count_alone(s.count().launches);
  s.answers().launched();
  Gate::Pass pass = work.launch(stream, *libraries.cost_of(arguments), 1);
  const int status =
      libraries.cublas()->lt().start(pass, handle, arguments, libraries.algos(), stream);
  posted(pass.started(status == kCublasSuccess ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
}

}  // namespace outboard
