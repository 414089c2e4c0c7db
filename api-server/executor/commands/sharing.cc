// Memory and events that sessions share.
#include <unistd.h>

#include "commands/token_words.h"
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

void handle_MemoryExport(Session &s, const wire_MemoryExport &q) {
  const uint64_t request = q.request.request;
  const auto refuse = [&](CUresult result) {
    answer_token<wire_MemoryExport_reply>(s, request, result, std::nullopt);
  };
  if (!q.memory && !s.memory().is_mapping(q.address, q.size)) {
    return refuse(CUDA_ERROR_INVALID_VALUE);
  }
  Ware ware;
  ware.kind = Ware::kMemory;
  int fd = -1;
  // What becomes another piece of memory must not be written meanwhile.
  CUresult result =
      q.memory || s.memory().is_shareable(q.address) ? CUDA_SUCCESS : s.driver().cuCtxSynchronize();
  if (result == CUDA_SUCCESS) {
    result = q.memory ? s.memory().share(q.memory, &ware.size, &fd)
                      : s.memory().share_mapping(q.address, &ware.size, &fd);
  }
  if (result != CUDA_SUCCESS) return refuse(result);
  ware.offset = q.offset;
  ware.length = q.length;
  if (q.offset > ware.size || q.length > ware.size - q.offset) {
    close(fd);
    return refuse(CUDA_ERROR_INVALID_VALUE);
  }
  const uint64_t key = q.memory ? q.memory : q.address;
  answer_token<wire_MemoryExport_reply>(s, request, CUDA_SUCCESS,
                                        Offers::own().offer(s.sharer(), key, ware, fd));
}

void handle_MemoryImport(Session &s, const wire_MemoryImport &q) {
  const uint64_t request = q.request.request;
  if (const char *what = s.memory().create_misuse(q.memory, WIRE_GRANULE)) {
    return s.violation(what);
  }
  const Token token = token_of(q);
  wire_MemoryImport_reply reply{};
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  Ware ware;
  int fd = -1;
  if (!q.own && Offers::own().is_own(token)) {
    result = CUDA_ERROR_INVALID_CONTEXT;
  } else if (Offers::own().fetch(token, s.sharer(), &ware, &fd)) {
    if (ware.kind == Ware::kMemory && fd >= 0) {
      result = s.memory().import(q.memory, ware.size, fd, token);
    }
    if (fd >= 0) close(fd);
  }
  if (result == CUDA_SUCCESS) {
    reply.size = ware.size;
    reply.offset = ware.offset;
    reply.length = ware.length;
  }
  s.count_memory();
  s.answers().send(request, result, &reply.reply, sizeof reply);
}

void handle_EventExport(Session &s, const wire_EventExport &q) {
  const uint64_t request = q.request.request;
  CUevent event;
  Ware ware;
  ware.kind = Ware::kEvent;
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  if (s.objects().find(q.event, &event))
    result = s.driver().cuIpcGetEventHandle(&ware.event, event);
  std::optional<Token> token;
  if (result == CUDA_SUCCESS) token = Offers::own().offer(s.sharer(), q.event, ware, -1);
  if (token) s.objects().note_exported(q.event);
  answer_token<wire_EventExport_reply>(s, request, result, token);
}

void handle_EventImport(Session &s, const wire_EventImport &q) {
  const uint64_t request = q.request.request;
  if (!s.objects().can_mint<CUevent>(q.event))
    return s.violation("a handle of an event cannot be minted");
  const Token token = token_of(q);
  Ware ware;
  int fd = -1;
  if (Offers::own().is_own(token)) return s.answers().send(request, CUDA_ERROR_INVALID_CONTEXT);
  if (!Offers::own().fetch(token, s.sharer(), &ware, &fd) || ware.kind != Ware::kEvent) {
    if (fd >= 0) close(fd);
    return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE);
  }
  if (!s.has_room<CUevent>()) return s.answers().send(request, CUDA_ERROR_OUT_OF_MEMORY);
  CUevent event;
  const CUresult result = s.driver().cuIpcOpenEventHandle(&event, ware.event);
  if (result == CUDA_SUCCESS) s.objects().keep(q.event, event);
  s.answers().send(request, result);
}

void handle_Acknowledge(Session &s, const wire_Acknowledge &q) {
  s.answers().send(q.request.request, CUDA_SUCCESS);
}

}  // namespace outboard
