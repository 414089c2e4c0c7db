// Memory and events that sessions share.
#include <unistd.h>

#include "commands/share_names.h"
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

void handle_MemoryExport(Session &s, const wire_MemoryExport &q) {
  const uint64_t request = q.request.request;
  const auto refuse = [&](CUresult result) {
    answer_share_name<wire_MemoryExport_reply>(s, request, result, std::nullopt);
  };
  if (!q.memory && !s.memory().is_mapping(q.address, q.size)) {
    return refuse(CUDA_ERROR_INVALID_VALUE);
  }
  Shared shared;
  shared.kind = Shared::kMemory;
  int fd = -1;
  // What becomes another piece of memory must not be written meanwhile.
  CUresult result =
      q.memory || s.memory().is_shareable(q.address) ? CUDA_SUCCESS : s.driver().cuCtxSynchronize();
  if (result == CUDA_SUCCESS) {
    result = q.memory ? s.memory().share(q.memory, &shared, &fd)
                      : s.memory().share_mapping(q.address, &shared, &fd);
  }
  if (result != CUDA_SUCCESS) return refuse(result);
  shared.offset = q.offset;
  shared.length = q.length;
  if (q.offset > shared.size || q.length > shared.size - q.offset) {
    close(fd);
    return refuse(CUDA_ERROR_INVALID_VALUE);
  }
  const uint64_t key = q.memory ? q.memory : q.address;
  answer_share_name<wire_MemoryExport_reply>(s, request, CUDA_SUCCESS,
                                             Offers::own().offer(s.sharer(), key, shared, fd));
}

void handle_MemoryImport(Session &s, const wire_MemoryImport &q) {
  const uint64_t request = q.request.request;
  if (const char *what = s.memory().create_misuse(q.memory, s.memory().granule())) {
    return s.violation(what);
  }
  const ShareName name = share_name_of(q);
  wire_MemoryImport_reply reply{};
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  Shared shared;
  int fd = -1;
  if (!q.own && Offers::own().is_own(name)) {
    result = CUDA_ERROR_INVALID_CONTEXT;
  } else if (Offers::own().fetch(name, s.sharer(), &shared, &fd)) {
    if (shared.kind == Shared::kMemory && fd >= 0) {
      result = s.memory().import(q.memory, shared, fd);
    }
    if (fd >= 0) close(fd);
  }
  if (result == CUDA_SUCCESS) {
    reply.size = shared.size;
    reply.offset = shared.offset;
    reply.length = shared.length;
  }
  s.count_memory();
  s.answers().send(request, result, &reply.reply, sizeof reply);
}

// The memory itself ends when it is unmapped.
void handle_ShareEnd(Session &s, const wire_ShareEnd &q) {
  Offers::own().end(s.sharer().session, q.address, q.offset, q.length);
}

void handle_ShareCheck(Session &s, const wire_ShareCheck &q) {
  const bool stands = Offers::own().is_offered(share_name_of(q), s.sharer());
  s.answers().send(q.request.request, stands ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

void handle_EventExport(Session &s, const wire_EventExport &q) {
  const uint64_t request = q.request.request;
  CUevent event;
  Shared shared;
  shared.kind = Shared::kEvent;
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  if (s.objects().find(q.event, &event))
    result = s.driver().cuIpcGetEventHandle(&shared.event, event);
  std::optional<ShareName> name;
  if (result == CUDA_SUCCESS) name = Offers::own().offer(s.sharer(), q.event, shared, -1);
  if (name) s.objects().note_exported(q.event);
  answer_share_name<wire_EventExport_reply>(s, request, result, name);
}

void handle_EventImport(Session &s, const wire_EventImport &q) {
  const uint64_t request = q.request.request;
  if (!s.objects().can_mint<CUevent>(q.event))
    return s.violation("a handle of an event cannot be minted");
  const ShareName name = share_name_of(q);
  Shared shared;
  int fd = -1;
  if (Offers::own().is_own(name)) return s.answers().send(request, CUDA_ERROR_INVALID_CONTEXT);
  if (!Offers::own().fetch(name, s.sharer(), &shared, &fd) || shared.kind != Shared::kEvent) {
    if (fd >= 0) close(fd);
    return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE);
  }
  if (!s.has_room<CUevent>()) return s.answers().send(request, CUDA_ERROR_OUT_OF_MEMORY);
  CUevent event;
  const CUresult result = s.driver().cuIpcOpenEventHandle(&event, shared.event);
  if (result == CUDA_SUCCESS) s.objects().keep(q.event, event);
  s.answers().send(request, result);
}

void handle_Acknowledge(Session &s, const wire_Acknowledge &q) {
  s.answers().send(q.request.request, CUDA_SUCCESS);
}

}  // namespace outboard
