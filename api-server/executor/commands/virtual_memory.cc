// Memory that the guest manages itself.
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

void handle_MemoryCreate(Session &s, const wire_MemoryCreate &q) {
  if (q.device != 0) return s.violation("memory is wanted on a device that the session lacks");
  if (const char *what = s.memory().create_misuse(q.memory, q.size)) return s.violation(what);
  const CUresult result = s.memory().create(q.memory, q.size, q.shareable != 0);
  s.count_memory();
  s.posted(WIRE_MemoryCreate, result);
}

void handle_MemoryRelease(Session &s, const wire_MemoryRelease &q) {
  // Making it may have failed, which the guest had not heard of.
  const CUresult result =
      s.memory().can_end(q.memory) ? s.memory().end(q.memory) : CUDA_ERROR_INVALID_HANDLE;
  s.count_memory();
  s.posted(WIRE_MemoryRelease, result);
}

void handle_MemoryPlace(Session &s, const wire_MemoryPlace &q) {
  if (const char *what = s.memory().place_misuse(q.address, q.size, q.offset, q.memory)) {
    return s.violation(what);
  }
  s.posted(WIRE_MemoryPlace, s.memory().place(q.address, q.size, q.offset, q.memory));
}

void handle_MemoryDisplace(Session &s, const wire_MemoryDisplace &q) {
  const uint64_t request = q.request.request;
  if (!s.memory().is_placed(q.address, q.size, true)) {
    return s.answers().send(request, CUDA_ERROR_INVALID_VALUE);
  }
  s.wait(request,
         [&s, sequence = s.sequence(), gone = s.memory().displace(q.address, q.size)]() mutable {
           // Whether a driver's unmapping waits for work is its own affair. A large download takes
           // its pieces one after the other: the device may rest in between.
           s.transfers().settle(sequence, nullptr, true);
           CUresult first = s.driver().cuCtxSynchronize();
           for (const auto &[address, size, keeps] : gone) {
             keep_first(first, s.driver().cuMemUnmap(address, size));
           }
           // Before the answer: the guest may end the pieces then.
           gone.clear();
           return first;
         });
}

void handle_MemoryAccess(Session &s, const wire_MemoryAccess &q) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (s.memory().is_placed(q.address, q.size, false)) {
    result = s.memory().set_access(q.address, q.size, q.flags);
  }
  s.posted(WIRE_MemoryAccess, result);
}

}  // namespace outboard
