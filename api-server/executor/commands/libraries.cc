// Calls of libraries, which travel whole: one that is asked is carried out beside the leader, as
// the library may load code for it or wait. One that is posted has succeeded before, and the leader
// carries it out in its place among the commands; while a stream waits for the guest, another
// thread reads meanwhile, as a library may wait all the same (watchman.h).
#include "libraries/cublas.h"

#include "commands/cublas_lt.h"
#include "dispatch.h"
#include "libraries/library_arguments.h"
#include "session/loading.h"
#include "session/session.h"

namespace outboard {

namespace {

// Of a call that the guest made as no guest of ours does.
const char *why_malformed(uint32_t library, uint32_t function) {
  if (library != LIBRARY_CUBLAS) return "a call of a library that there is not";
  if (function >= CUBLAS_CALL_COUNT) return "a call of a function that its library does not have";
  return nullptr;
}

// What it sets of a handle starts nothing.
bool only_sets(uint32_t function) {
  switch (function) {
    case CUBLAS_cublasSetStream_v2:
    case CUBLAS_cublasSetWorkspace_v2:
    case CUBLAS_cublasSetAtomicsMode:
    case CUBLAS_cublasSetMathMode:
    case CUBLAS_cublasSetSmCountTarget:
    case CUBLAS_cublasSetEmulationStrategy:
    case CUBLAS_cublasSetEnvironmentMode:
      return true;
    default:
      return false;
  }
}

bool are_reachable(Session &s, const LibraryArguments &arguments, uint32_t function) {
  if (arguments.are_reachable(
          [&s](uint64_t address, uint64_t size) { return s.reachable(address, size); }))
    return true;
  s.libraries().say_refused(s.id(), std::string(cublas_calls[function].name) +
                                        " is refused: it names memory that the session does not "
                                        "have, or an operation that there is not");
  return false;
}

// Puts stream and pointer mode of the call in force.
int prepare(const Cublas &cublas, CublasHandle &handle, CUstream stream, uint32_t mode) {
  int status = kCublasSuccess;
  if (stream != handle.stream) status = cublas.set_stream(handle.object, stream);
  handle.stream = stream;
  if (status == kCublasSuccess && mode != handle.mode) {
    status = cublas.set_mode(handle.object, mode);
    if (status == kCublasSuccess) handle.mode = mode;
  }
  return status;
}

int set(const Cublas &cublas, CublasHandle &handle, CUstream stream, uint32_t function,
        const LibraryArguments &arguments) {
  if (function != CUBLAS_cublasSetStream_v2)
    return cublas.set(function, handle.object, arguments.words());
  // Even if it is the same: the workspace is given up.
  handle.stream = stream;
  return cublas.set_stream(handle.object, stream);
}

void answer(Session &s, uint64_t request, int status, const LibraryArguments *arguments = nullptr) {
  wire_LibraryAsk_reply reply{};
  reply.status = status;
  reply.results_size = arguments && status == kCublasSuccess ? arguments->results_size() : 0;
  s.answers().send(request, CUDA_SUCCESS, &reply.reply, sizeof reply,
                   arguments ? arguments->results() : nullptr, reply.results_size);
}

void create(Session &s, const wire_LibraryAsk &q) {
  const uint64_t request = q.request.request, number = q.handle;
  Libraries &libraries = s.libraries();
  if (!libraries.can_mint(number))
    return s.violation("a handle of a library that cannot be minted");
  if (!libraries.has_room()) return answer(s, request, kCublasAllocFailed);
  // One that could not be made stands for nothing, until the guest ends it.
  auto handle = std::make_shared<CublasHandle>();
  libraries.keep(number, handle);
  if (!libraries.cublas()) return answer(s, request, kCublasNotInitialized);
  handle->busy = true;
  const Session::Keeps keeps(s);
  const bool handed_over = s.hand_over();
  int status;
  {
    const Detours::Load loads(s.detours());
    status = s.take_cublas_handle(handle.get(), handed_over);
  }
  handle->busy = false;
  if (status != kCublasSuccess) count(s.count().libraries_refused);
  answer(s, request, status);
}

}  // namespace

void handle_LibraryAsk(Session &s, const wire_LibraryAsk &q, std::span<const uint8_t> bytes,
                       Starts<Work::kKernel> work) {
  if (q.library == LIBRARY_CUBLASLT) return ask_cublas_lt(s, q, bytes, work);
  if (const char *why = why_malformed(q.library, q.function)) return s.violation(why);
  const uint64_t request = q.request.request, key = q.key;
  const uint32_t function = q.function;
  LibraryArguments arguments;
  if (const char *why = arguments.decode(cublas_calls[function], q.mode, bytes))
    return s.violation(std::string("malformed LibraryAsk: ") + why);
  s.libraries().learnt().is_used();
  if (function == CUBLAS_cublasCreate_v2) return create(s, q);
  const Cublas *const cublas = s.libraries().cublas();
  const auto handle = s.libraries().find(q.handle);
  Stream stream;
  const bool found = handle && handle->object && s.objects().find(q.stream, &stream);
  if (!found || function == CUBLAS_cublasDestroy_v2) return answer(s, request, kCublasInvalidValue);
  if (handle->busy.exchange(true))
    return s.violation("a handle of a library is used by two calls at once");
  const auto refuse = [&](int status) {
    handle->busy = false;
    answer(s, request, status);
  };
  if (!cublas->has(function)) return refuse(kCublasNotSupported);
  if (!are_reachable(s, arguments, function)) return refuse(kCublasInvalidValue);
  const uint32_t mode = q.mode;
  count_alone(s.count().launches);
  s.answers().launched();
  KernelCost *const cost = s.libraries().cost_of(function, arguments);
  s.objects().pin(stream.object);
  Gate::Pass pass = work.launch_apart(stream.object, *cost, 1);
  const Session::Keeps keeps(s);
  s.hand_over();
  int status;
  {
    const Detours::Load loads(s.detours());
    status = prepare(*cublas, *handle, stream.object, mode);
    if (status == kCublasSuccess) {
      status = only_sets(function)
                   ? set(*cublas, *handle, stream.object, function, arguments)
                   : cublas->start(pass, function, handle->object, arguments.words());
    }
  }
  pass.ended();
  s.objects().unpin(stream.object);
  handle->busy = false;
  if (status == kCublasSuccess && !arguments.results_size())
    s.libraries().learnt().succeeded(key, LearntCalls::kStarts);
  answer(s, request, status, &arguments);
}

void handle_LibraryUnserved(Session &s, const wire_LibraryUnserved &) {
  count(s.count().libraries_refused);
  s.posted(WIRE_LibraryUnserved, CUDA_SUCCESS);
}

void handle_LibraryCall(Session &s, const wire_LibraryCall &q, std::span<const uint8_t> bytes,
                        Starts<Work::kKernel> work) {
  if (q.library == LIBRARY_CUBLASLT) return call_cublas_lt(s, q, bytes, work);
  if (const char *why = why_malformed(q.library, q.function)) return s.violation(why);
  const auto posted = [&](CUresult result) { s.posted(WIRE_LibraryCall, result); };
  const uint32_t function = q.function;
  LibraryArguments arguments;
  if (const char *why = arguments.decode(cublas_calls[function], q.mode, bytes))
    return s.violation(std::string("malformed LibraryCall: ") + why);
  // Nobody waits for results of these; and the library would wait for the device.
  if (arguments.results_size() || function == CUBLAS_cublasCreate_v2)
    return s.violation("a call of a library that has results was posted");
  const Cublas *const cublas = s.libraries().cublas();
  const auto handle = s.libraries().find(q.handle);
  CUstream stream;
  // There was no room for it.
  if (!handle && function == CUBLAS_cublasDestroy_v2) return posted(CUDA_SUCCESS);
  if (!handle || !s.objects().find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  if (handle->busy) return s.violation("a handle of a library is used by two calls at once");
  if (function == CUBLAS_cublasDestroy_v2) {
    s.libraries().take(q.handle);
    posted(CUDA_SUCCESS);
    return s.give_cublas_handle(handle);
  }
  if (!handle->object || !cublas->has(function)) return posted(CUDA_ERROR_NOT_SUPPORTED);
  if (!are_reachable(s, arguments, function)) return posted(CUDA_ERROR_INVALID_VALUE);
  const auto result_of = [](int status) {
    return status == kCublasSuccess ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  if (only_sets(function)) {
    return posted(result_of(set(*cublas, *handle, stream, function, arguments)));
  }
  if (const int status = prepare(*cublas, *handle, stream, q.mode))
    return posted(result_of(status));
  count_alone(s.count().launches);
  s.answers().launched();
  Gate::Pass pass = work.launch(stream, *s.libraries().cost_of(function, arguments), 1);
  posted(pass.started(result_of(cublas->start(pass, function, handle->object, arguments.words()))));
}

}  // namespace outboard
