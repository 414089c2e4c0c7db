// LimitSet: heaps, stacks and buffers of kernels, and what grids that launch grids need, are memory
// of the device, and count as such.
#include "base/log.h"
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

namespace {

uint64_t add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// What the session has raised above what the device's context has anyway, were `limit` at `value`.
uint64_t bytes_beside(Device &device, int limit, uint64_t value) {
  const uint64_t threads = device.resident_threads();
  uint64_t sum = 0;
  for (int each = 0; each < CU_LIMIT_MAX; each++) {
    const uint64_t unit = wire_limit_bytes(static_cast<unsigned>(each), threads);
    const uint64_t before = device.limit(each);
    size_t now = 0;
    if (unit == 0 || before == Device::kNoLimit) continue;
    device.driver().cuCtxGetLimit(&now, static_cast<CUlimit>(each));
    const uint64_t wanted = each == limit ? value : now;
    if (wanted <= before) continue;
    uint64_t more = 0;
    if (__builtin_mul_overflow(wanted - before, unit, &more)) more = UINT64_MAX;
    sum = add(sum, more);
  }
  return sum;
}

CUresult set_limit(Session &s, int which, uint64_t value, uint64_t *made) {
  // Those behind it are switches that no session has a use for.
  if (which < 0 || which > CU_LIMIT_PERSISTING_L2_CACHE_SIZE) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  const auto limit = static_cast<CUlimit>(which);
  // The driver does not know of kernels that were launched elsewhere.
  if (limit == CU_LIMIT_PRINTF_FIFO_SIZE && s.has_printed()) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(s.limits_mutex());
  size_t before = 0;
  s.driver().cuCtxGetLimit(&before, limit);
  // Counted first, so that it is never there uncounted.
  if (!s.memory().set_beside(bytes_beside(s.device(), limit, value))) {
    log_line(
        LogLevel::kWarn, s.id(),
        "cuCtxSetLimit refused: more memory for stacks, heap, printf or nested launches than the "
        "session's memory limit leaves");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = s.driver().cuCtxSetLimit(limit, static_cast<size_t>(value));
  size_t now = before;
  if (result == CUDA_SUCCESS) s.driver().cuCtxGetLimit(&now, limit);
  if (limit == CU_LIMIT_STACK_SIZE && result == CUDA_SUCCESS) s.stacks().limit_is(now);
  // What the driver made of it may be more or less.
  if (now != value) s.memory().set_beside(bytes_beside(s.device(), limit, now));
  *made = now;
  return result;
}

}  // namespace

void handle_LimitSet(Session &s, const wire_LimitSet &q) {
  const uint64_t request = q.request.request;
  wire_LimitSet_reply reply{};
  const int which = q.limit > INT32_MAX ? -1 : static_cast<int>(q.limit);
  const CUresult result = set_limit(s, which, q.value, &reply.value);
  s.answers().send(request, result, &reply.reply, sizeof reply);
}

// As guests of earlier releases ask for it.
void handle_cuCtxSetLimit(Session &s, const wire_cuCtxSetLimit &q) {
  uint64_t made;
  const uint64_t request = q.request.request;
  s.answers().send(request, set_limit(s, q.limit, q.value, &made));
}

}  // namespace outboard
