// What a session that moves here sends before it is here: no guest may.
#include <cstring>
#include <vector>

#include "base/session_limits.h"
#include "commands/image_search.h"
#include "commands/text.h"
#include "dispatch.h"
#include "session/loading.h"
#include "session/session.h"

namespace outboard {

namespace {

bool may_arrive(Session &s, const char *command) {
  if (!s.arrives()) s.violation(std::string(command) + " from a guest");
  return s.arrives();
}

}  // namespace

void handle_ModuleExpect(Session &s, const wire_ModuleExpect &q, std::span<const uint8_t> name) {
  if (!may_arrive(s, "ModuleExpect")) return;
  const uint64_t request = q.request.request;
  wire_ModuleExpect_reply reply{};
  const auto answer = [&](CUresult result) {
    s.answers().send(request, result, &reply.reply, sizeof reply);
  };
  if (q.index >= WIRE_EXPECTED_MAX) return s.violation("a module is expected at no place");
  if (!name.empty()) {
    Variable found;
    const CUresult result = s.expected().variable(s.driver(), q.index, text_of(name), &found);
    reply.address = found.address;
    reply.size = found.size;
    return answer(result);
  }
  Loading loading{WIRE_EXPECTED + q.index,
                  0,
                  {q.hash0, q.hash1, q.hash2, q.hash3},
                  q.total,
                  true,
                  true,
                  {},
                  {},
                  q.index};
  ImageSearch search(s, loading.hash, loading.total, Wanted::kModule);
  reply.state = WIRE_MODULE_WANTED;
  if (!search.over() && !search.settle()) return;
  if (!search.image()) return answer(CUDA_SUCCESS);
  ImageRoom::Taken room(s.image_room(), loading.total, true);
  if (!room.there()) return answer(CUDA_ERROR_OUT_OF_MEMORY);
  const bool loaded = load(s, loading, search.image(), room);
  reply.state = WIRE_MODULE_LOADED;
  answer(loaded ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE);
}

void handle_MoveState(Session &s, const wire_MoveState &in_place) {
  const wire_MoveState q = in_place;  // receiving the payload overwrites the frame
  if (!may_arrive(s, "MoveState")) return;
  std::vector<uint8_t> bytes((q.length + 7) & ~uint64_t{7});
  if (!s.payload(bytes.data(), q.length)) return;
  const bool taken = s.take_state(q.kind, {bytes.data(), q.length});
  // They may be keys.
  if (q.kind == WIRE_MOVE_TLS && !bytes.empty()) explicit_bzero(bytes.data(), bytes.size());
  if (!taken) return s.violation("the state of a session that moves here makes no sense");
  s.posted(WIRE_MoveState, CUDA_SUCCESS);
}

void handle_MoveCommit(Session &s, const wire_MoveCommit &q) {
  if (may_arrive(s, "MoveCommit")) s.arrive(q);
}

void handle_cuEventElapsedTime_v2(Session &s, const wire_cuEventElapsedTime_v2 &q) {
  const uint64_t request = q.request.request;
  CUevent start, end;
  if (!s.objects().find(q.hStart, &start) || !s.objects().find(q.hEnd, &end))
    return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE);
  wire_cuEventElapsedTime_v2_reply reply{};
  const CUresult result = s.elapsed(q.hStart, start, q.hEnd, end, &reply.pMilliseconds);
  s.answers().send(request, result, &reply.reply, sizeof reply);
}

}  // namespace outboard
