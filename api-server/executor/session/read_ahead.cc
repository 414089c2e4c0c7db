#include "session/read_ahead.h"

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
    case WIRE_MemoryRoom:
    case WIRE_PinnedMap:
    case WIRE_MemoryUnmap:
    case WIRE_MemoryCreate:
    case WIRE_MemoryRelease:
    case WIRE_MemoryPlace:
    case WIRE_MemoryAccess:
    case WIRE_PeerMap:
    case WIRE_PeerUnmap:
    case WIRE_MemoryExport:
    case WIRE_MemoryImport:
    case WIRE_ArrayCreate:
    case WIRE_ArrayDestroy:
    case WIRE_TextureDestroy:
    case WIRE_GraphDestroy:
    case WIRE_cuStreamDestroy_v2:
    // Under lazy loading, the first time that a function is looked up.
    case WIRE_FunctionGet:
    // A library loads code, takes memory and waits as it likes.
    case WIRE_LibraryCall:
      return true;
    default:
      return false;
  }
}

ReadAhead::ReadAhead(ThreadPool &pool, Receiver &receiver, HostFunctions &functions, size_t payload)
    : receiver_(receiver), functions_(functions), seen_(payload), stop_(eventfd(0, EFD_CLOEXEC)) {
  if (stop_ < 0) {
    done_.set_value();
    return;
  }
  pool.run([this] { read(); });
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
    if (!watched[1].revents) continue;
    if (watched[1].fd == receiver_.offered_fd()) {
      // A guest that has come back goes on where it was; one that never will is the leader's.
      watched[1].fd = receiver_.resume() ? receiver_.fd() : -1;
    } else if (!receiver_.read_ahead()) {
      watched[1].fd = receiver_.has_room() ? receiver_.offered_fd() : -1;
    } else if (!look()) {
      watched[1].fd = -1;
    }
  }
  done_.set_value();
}

// False when there is nothing more to look for.
bool ReadAhead::look() {
  wire_HostFunctionDone frame;
  for (;;) {
    if (!receiver_.look_ahead(seen_, &frame.header, sizeof frame.header)) return true;
    const wire_header &head = frame.header;
    // The leader will find out what is wrong with it.
    if (head.size < sizeof head || head.size % 8) return false;
    // What the function has written must be there before its return is heard of.
    if (head.op == WIRE_PagesUpload) return false;
    if (head.op == WIRE_HostFunctionDone && head.size == sizeof frame) {
      if (!receiver_.look_ahead(seen_, &frame, sizeof frame)) return true;
      functions_.done_early(frame.call);
    }
    seen_ += head.size;
  }
}

}  // namespace outboard
