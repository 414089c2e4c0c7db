// Memory that guest and server share: opening it, and whose its slots are. Downloads are in
// download.cc.
#include <bit>
#include <chrono>
#include <thread>

#include "dispatch.h"
#include "session/session.h"

namespace outboard {

namespace {

// How long a guest waits for slots before its uploads go by the socket: what holds the streams may
// be waiting for a command of its own.
constexpr std::chrono::milliseconds kPatience{10};

void settle_move(Session &s, uint64_t request) {
  const int enough = static_cast<int>(s.region()->uploads()) * 3 / 4;
  wire_RegionSettle_reply reply{};
  while (std::popcount(reply.busy = s.region()->busy()) > enough && !s.is_ending())
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  s.answers().send(request, CUDA_SUCCESS, &reply.reply, sizeof reply);
}

}  // namespace

void handle_RegionOpen(Session &s, const wire_RegionOpen &q) {
  const uint64_t request = q.request.request;
  if (s.region()) return s.violation("RegionOpen a second time");
  Region *region = s.open_region();
  if (!region) return s.answers().send(request, CUDA_ERROR_NOT_SUPPORTED);
  wire_RegionOpen_reply reply{};
  reply.slot = region->slot();
  reply.uploads = region->uploads();
  reply.downloads = region->downloads();
  s.answers().with_descriptor(request, &reply.reply, sizeof reply, region->descriptor());
}

void handle_RegionUpload(Session &s, const wire_RegionUpload &q, Starts<Work::kCopy> work) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_RegionUpload, result); };
  if (!s.region()) return s.violation("RegionUpload without a region");
  const uint8_t *bytes = s.region()->upload(q.slot, q.length);
  if (!bytes) return s.violation("RegionUpload of what is not a slot");
  if (!s.reachable(q.destination, q.length)) return posted(CUDA_ERROR_INVALID_VALUE);
  CUstream stream;
  if (!s.objects().find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  if (q.length == 0) return posted(CUDA_SUCCESS);
  count_alone(s.count().uploads);
  Gate::Pass pass = work.move(stream, q.length);
  const CUresult result = pass->cuMemcpyHtoDAsync_v2(q.destination, bytes, q.length, stream);
  if (result == CUDA_SUCCESS) s.region()->uploading(q.slot, stream);
  posted(pass.started(result));
}

void handle_RegionSettle(Session &s, const wire_RegionSettle &q) {
  const uint64_t request = q.request.request;
  if (!s.region()) return s.violation("RegionSettle without a region");
  // A session that arrives has nobody else to hear, and asks in time.
  if (s.arrives()) return settle_move(s, request);
  wire_RegionSettle_reply reply{};
  const uint64_t asked = s.region()->busy();
  reply.busy = asked;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  // A guest that fills slots while others are copied needs some of them at a time.
  const int enough = std::popcount(asked) / 2;
  if (asked) s.hand_over();
  while (std::popcount(reply.busy) > enough && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    reply.busy = s.region()->busy(asked);
  }
  s.answers().send(request, CUDA_SUCCESS, &reply.reply, sizeof reply);
}

void handle_RegionTaken(Session &s, const wire_RegionTaken &q) {
  if (!s.region() || !s.region()->taken(q.slots)) {
    return s.violation("RegionTaken of a slot that is not the guest's");
  }
  s.posted(WIRE_RegionTaken, CUDA_SUCCESS);
}

}  // namespace outboard
