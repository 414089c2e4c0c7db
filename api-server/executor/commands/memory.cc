// Mapping memory into the window.
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

namespace {

template <class Command>
void map(Session &s, const Command &q, uint16_t op, bool pinned) {
  if (q.device != 0) return s.violation("memory is wanted on a device that the session lacks");
  if (const char *what = s.memory().misuse(q.address, q.size)) return s.violation(what);
  CUresult result = s.memory().map(q.address, q.size, pinned);
  // What moves here waits for it: it is there before the session stops.
  if (result == CUDA_SUCCESS && s.arrives()) result = s.memory().touch(q.address, q.size);
  s.count_memory();
  s.posted(op, result);
}

}  // namespace

void handle_MemoryMap(Session &s, const wire_MemoryMap &q) { map(s, q, WIRE_MemoryMap, false); }

void handle_PinnedMap(Session &s, const wire_PinnedMap &q) { map(s, q, WIRE_PinnedMap, true); }

void handle_MemoryRoom(Session &s, const wire_MemoryRoom &q) {
  s.answers().send(q.request.request, s.memory().find_room(q.size));
}

void handle_MemoryUnmap(Session &s, const wire_MemoryUnmap &q) {
  if (!s.memory().is_mapping(q.address, q.size)) {
    return s.violation("what is unmapped was not mapped like that");
  }
  const CUresult result = s.memory().unmap(q.address);
  s.count_memory();
  s.posted(WIRE_MemoryUnmap, result);
}

}  // namespace outboard
