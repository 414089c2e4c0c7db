// cuCtxSetLimit: heaps, stacks and buffers of kernels are memory of the device, and count as such.
#include "dispatch.h"
#include "log.h"
#include "session.h"

namespace outboard {

namespace {

uint64_t add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// What the session has raised above what the device's context has anyway, were `limit` at `value`.
uint64_t bytes_beside(Device &device, int limit, uint64_t value) {
  uint64_t sum = 0;
  for (int each : {CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE}) {
    size_t now = 0;
    device.driver().cuCtxGetLimit(&now, static_cast<CUlimit>(each));
    const uint64_t wanted = each == limit ? value : now;
    const uint64_t before = device.limit(each);
    if (wanted <= before) continue;
    uint64_t more = wanted - before;
    if (each == CU_LIMIT_STACK_SIZE &&
        __builtin_mul_overflow(more, device.resident_threads(), &more)) {
      more = UINT64_MAX;
    }
    sum = add(sum, more);
  }
  return sum;
}

}  // namespace

void handle_cuCtxSetLimit(Session &s, const wire_cuCtxSetLimit &q) {
  const uint64_t request = q.request.request;
  const auto limit = static_cast<CUlimit>(q.limit);
  size_t before = 0;
  s.driver().cuCtxGetLimit(&before, limit);
  // Counted first, so that it is never there uncounted.
  if (!s.memory().set_beside(bytes_beside(s.device(), q.limit, q.value))) {
    log_line(LogLevel::kWarn, s.id(),
             "cuCtxSetLimit refused: a heap, stack or printf buffer larger than what the session's "
             "memory limit leaves");
    return s.answer(request, CUDA_ERROR_OUT_OF_MEMORY);
  }
  const CUresult result = s.driver().cuCtxSetLimit(limit, static_cast<size_t>(q.value));
  if (result != CUDA_SUCCESS) s.memory().set_beside(bytes_beside(s.device(), q.limit, before));
  s.answer(request, result);
}

}  // namespace outboard
