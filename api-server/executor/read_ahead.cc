#include "read_ahead.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "wire_calls.h"

namespace outboard {

bool may_wait_for_device(uint16_t op) {
  switch (op) {
    case WIRE_cuCtxSetLimit:
    case WIRE_LimitSet:
    case WIRE_MemoryMap:
    case WIRE_MemoryUnmap:
    case WIRE_MemoryCreate:
    case WIRE_MemoryRelease:
    case WIRE_MemoryPlace:
    case WIRE_MemoryAccess:
    case WIRE_MemoryExport:
    case WIRE_MemoryImport:
    case WIRE_ModuleUnload:
    case WIRE_ArrayCreate:
    case WIRE_ArrayDestroy:
    case WIRE_TextureDestroy:
    case WIRE_GraphDestroy:
    case WIRE_cuStreamDestroy_v2:
      return true;
    default:
      return false;
  }
}

ReadAhead::ReadAhead(Crew &crew, Receiver &receiver, HostFunctions &functions)
    : receiver_(receiver), functions_(functions), stop_(eventfd(0, EFD_CLOEXEC)) {
  if (stop_ < 0) {
    done_.set_value();
    return;
  }
  crew.post([this] { read(); });
}

ReadAhead::~ReadAhead() {
  if (stop_ >= 0) {
    const uint64_t one = 1;
    while (write(stop_, &one, sizeof one) < 0 && errno == EINTR) {
    }
  }
  done_.get_future().wait();
  if (stop_ >= 0) close(stop_);
}

void ReadAhead::read() {
  pollfd watched[2] = {{stop_, POLLIN, 0}, {receiver_.fd(), POLLIN, 0}};
  // -1: nothing more can be taken up, only the end of the leader's call is waited for.
  if (!look()) watched[1].fd = -1;
  for (;;) {
    if (poll(watched, 2, -1) < 0) continue;
    if (watched[0].revents) break;
    if (watched[1].revents && !(receiver_.read_ahead() && look())) watched[1].fd = -1;
  }
  done_.set_value();
}

// False at the first frame whose end is not in the buffer and cannot come to be.
bool ReadAhead::look() {
  for (;;) {
    const size_t there = receiver_.available() - seen_;
    if (there < sizeof(wire_header)) return true;
    const auto &head = *reinterpret_cast<const wire_header *>(receiver_.data() + seen_);
    // The leader will find out what is wrong with it.
    if (head.size < sizeof head || head.size % 8) return false;
    if (head.size > there) return head.size <= Receiver::kFrameSpace;
    if (head.op == WIRE_HostFunctionDone && head.size == sizeof(wire_HostFunctionDone))
      functions_.done_early(reinterpret_cast<const wire_HostFunctionDone &>(head).call);
    seen_ += head.size;
  }
}

}  // namespace outboard
