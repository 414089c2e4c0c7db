// Bytes for device memory: as they come, and those that the server has kept (upload_store.h).
#include <algorithm>
#include <cstring>

#include "dispatch.h"
#include "session/session.h"

namespace outboard {

namespace {

void upload(Session &s, uint16_t op, const wire_Upload &q, const Starts<Work::kCopy> &work,
            bool keep) {
  const auto posted = [&](CUresult result) { s.posted(op, result); };
  if (!s.reachable(q.destination, q.length)) return posted(CUDA_ERROR_INVALID_VALUE);
  CUstream stream;
  if (!s.objects().find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  if (q.length == 0) return posted(CUDA_SUCCESS);
  uint8_t *staged = s.upload_staging().place(q.length, stream);
  if (!s.payload(staged, q.length)) return;
  count_alone(s.count().uploads);
  Gate::Pass pass = work.move(stream, q.length);
  const CUresult result = pass->cuMemcpyHtoDAsync_v2(q.destination, staged, q.length, stream);
  if (keep) s.device().upload_store()->keep(s.kept_uploads(), {staged, q.length});
  s.upload_staging().copied();
  posted(pass.started(result));
}

}  // namespace

void handle_Upload(Session &s, const wire_Upload &in_place, Starts<Work::kCopy> work) {
  const wire_Upload q = in_place;  // receiving the payload overwrites the frame
  upload(s, WIRE_Upload, q, work, false);
}

void handle_UploadKeep(Session &s, const wire_UploadKeep &q, Starts<Work::kCopy> work) {
  if (!s.may_ask_for_uploads())
    return s.violation("UploadKeep in a session without an upload cache");
  upload(s, WIRE_UploadKeep, {q.header, q.destination, q.stream, q.length}, work,
         s.kept_uploads() != nullptr);
}

void handle_UploadAsk(Session &s, const wire_UploadAsk &q, std::span<const uint8_t> hashes,
                      Starts<Work::kCopy> work) {
  wire_UploadAsk_reply reply{};
  const auto answer = [&](CUresult result) {
    s.answers().send(q.request.request, result, &reply.reply, sizeof reply);
  };
  if (!s.may_ask_for_uploads())
    return s.violation("UploadAsk in a session without an upload cache");
  const size_t count = hashes.size() / sizeof(Hash);
  if (hashes.size() % sizeof(Hash) != 0 || count == 0 || count > WIRE_UPLOAD_PARTS ||
      q.length == 0 || (q.length - 1) / WIRE_BULK_MAX + 1 != count) {
    return s.violation("malformed UploadAsk: its hashes are not those of its parts");
  }
  if (!s.reachable(q.destination, q.length)) return answer(CUDA_ERROR_INVALID_VALUE);
  CUstream stream;
  if (!s.objects().find(q.stream, &stream)) return answer(CUDA_ERROR_INVALID_HANDLE);
  for (size_t i = 0; i < count; i++) {
    const uint64_t offset = i * WIRE_BULK_MAX;
    const uint64_t length = std::min<uint64_t>(q.length - offset, WIRE_BULK_MAX);
    Hash hash;
    memcpy(hash.data(), hashes.data() + i * sizeof hash, sizeof hash);
    uint8_t *staged = nullptr;
    const auto room = [&] { return staged = s.upload_staging().place(length, stream); };
    // What turns out to be damaged stays in its place, which the next part takes.
    if (!s.kept_uploads() || !s.kept_uploads()->read(hash, length, room)) {
      reply.missing |= uint64_t{1} << i;
      continue;
    }
    count_alone(s.count().uploads);
    count_alone(s.count().cached_uploads);
    count_alone(s.count().cached_bytes, length);
    Gate::Pass pass = work.move(stream, length);
    const CUresult result =
        pass.started(pass->cuMemcpyHtoDAsync_v2(q.destination + offset, staged, length, stream));
    s.upload_staging().copied();
    if (result != CUDA_SUCCESS) return answer(result);
  }
  answer(CUDA_SUCCESS);
}

}  // namespace outboard
