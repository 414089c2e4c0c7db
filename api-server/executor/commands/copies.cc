// Copies between guest and device, and on the device.
#include "commands/box.h"
#include "commands/download.h"
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

void handle_BoxUpload(Session &s, const wire_BoxUpload &in_place, Starts<Work::kCopy> work) {
  const wire_BoxUpload q = in_place;
  const auto posted = [&](CUresult result) { s.posted(WIRE_BoxUpload, result); };
  const Box box{q.width, q.height, q.depth};
  if (box.bytes() != q.length) return s.violation("a payload is not what its box takes");
  BoxEnd to;
  if (!find_box(s, q.array, q.x, q.y, q.z, box, &to)) return posted(CUDA_ERROR_INVALID_VALUE);
  CUstream stream;
  if (!s.objects().find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  if (q.length == 0) return posted(CUDA_SUCCESS);
  uint8_t *staged = s.upload_staging().place(q.length, stream);
  if (!s.payload(staged, q.length)) return;
  count_alone(s.count().uploads);
  Gate::Pass pass = work.move(stream, q.length);
  const CUDA_MEMCPY3D copy = to_device(to, staged, box);
  const CUresult result = pass->cuMemcpy3DAsync_v2(&copy, stream);
  s.upload_staging().copied();
  posted(pass.started(result));
}

// The driver has the copy before the bytes are there, so that nobody asks it for anything when they
// come.
void handle_LateUpload(Session &s, const wire_LateUpload &q, Starts<Work::kCopy> work) {
  const auto refused = [&](CUresult result) {
    s.posted(WIRE_LateUpload, result);
    // The guest waits to be called.
    s.host_functions().call_now(q.function, result);
  };
  const Box box{q.width, q.height, q.depth};
  if (box.bytes() != q.length || q.length == 0 || q.length > WIRE_LATE_MAX)
    return s.violation("a late upload is not as long as its box, or longer than one may be");
  BoxEnd to;
  if (!find_box(s, q.array, q.x, q.y, q.z, box, &to)) return refused(CUDA_ERROR_INVALID_VALUE);
  CUstream stream;
  if (!s.objects().find(q.stream, &stream)) return refused(CUDA_ERROR_INVALID_HANDLE);
  LateAreas::Area *const area = s.late_areas().take(q.length, q.stream);
  const std::span<uint8_t> bytes = area ? std::span(area->data, q.length) : std::span<uint8_t>();
  s.pages().mark();
  const CUresult called = s.host_functions().call_late(stream, q.function, bytes);
  if (called != CUDA_SUCCESS) {
    if (area) s.late_areas().give(area);
    return refused(called);
  }
  if (!area) return s.posted(WIRE_LateUpload, CUDA_SUCCESS);
  count_alone(s.count().uploads);
  Gate::Pass pass = work.move(stream, q.length);
  CUresult result;
  if (!to.array && q.height == 1 && q.depth == 1) {
    result = pass->cuMemcpyHtoDAsync_v2(to.x, area->data, q.length, stream);
  } else {
    const CUDA_MEMCPY3D copy = to_device(to, area->data, box);
    result = pass->cuMemcpy3DAsync_v2(&copy, stream);
  }
  result = pass.started(result);
  const CUresult marked = s.late_areas().copied(area, stream);
  s.posted(WIRE_LateUpload, result == CUDA_SUCCESS ? marked : result);
}

void handle_LatePayload(Session &s, const wire_LatePayload &in_place) {
  const wire_LatePayload q = in_place;  // receiving the payload overwrites the frame
  std::span<uint8_t> area;
  bool returned;
  if (!s.host_functions().area_of(q.call, &area, &returned))
    return s.violation("bytes come for a call that the guest was not asked for");
  // Who read ahead has taken them up.
  if (returned) return s.posted(WIRE_LatePayload, CUDA_SUCCESS);
  // As who read ahead leaves it.
  if (q.length == 0) return s.posted(WIRE_LatePayload, CUDA_SUCCESS);
  if (q.offset > area.size() || q.length > area.size() - q.offset)
    return s.violation("bytes come for a call that has no room for them");
  if (s.payload(area.data() + q.offset, q.length)) s.posted(WIRE_LatePayload, CUDA_SUCCESS);
}

void handle_BoxCopy(Session &s, const wire_BoxCopy &q, Starts<Work::kCopy> work) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_BoxCopy, result); };
  const Box box{q.width, q.height, q.depth};
  BoxEnd to, from;
  if (!find_box(s, q.to_array, q.to_x, q.to_y, q.to_z, box, &to) ||
      !find_box(s, q.from_array, q.from_x, q.from_y, q.from_z, box, &from)) {
    return posted(CUDA_ERROR_INVALID_VALUE);
  }
  CUstream stream;
  if (!s.objects().find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  Gate::Pass pass = work.move(stream, box.bytes());
  const CUDA_MEMCPY3D copy = on_device(to, from, box);
  posted(pass.started(pass->cuMemcpy3DAsync_v2(&copy, stream)));
}

void handle_Copy2D(Session &s, const wire_Copy2D &q, Starts<Work::kCopy> work) {
  wire_BoxCopy copy{};
  copy.to_x = q.destination;
  copy.to_y = q.destination_pitch;
  copy.from_x = q.source;
  copy.from_y = q.source_pitch;
  copy.width = q.width;
  copy.height = q.height;
  copy.depth = 1;
  copy.stream = q.stream;
  handle_BoxCopy(s, copy, work);
}

namespace {

// Of bytes in a row.
template <class Command>
void download_line(Session &s, const Command &q, Starts<Work::kCopy> work, Region *region) {
  const uint64_t request = q.request.request;
  if (!s.reachable(q.source, q.length)) return s.answers().send(request, CUDA_ERROR_INVALID_VALUE);
  Stream stream;
  if (!s.objects().find(q.stream, &stream))
    return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE);
  download(s, {request, {nullptr, q.source, q.length, 1}, {q.length, 1, 1}}, stream, work, region);
}

}  // namespace

void handle_Download(Session &s, const wire_Download &q, Starts<Work::kCopy> work) {
  download_line(s, q, work, nullptr);
}

void handle_RegionDownload(Session &s, const wire_RegionDownload &q, Starts<Work::kCopy> work) {
  if (!s.region()) return s.violation("RegionDownload without a region");
  download_line(s, q, work, s.region());
}

void handle_BoxDownload(Session &s, const wire_BoxDownload &q, Starts<Work::kCopy> work) {
  Asked asked{q.request.request, {}, {q.width, q.height, q.depth}};
  if (asked.box.bytes() == UINT64_MAX ||
      !find_box(s, q.array, q.x, q.y, q.z, asked.box, &asked.from)) {
    return s.answers().send(asked.request, CUDA_ERROR_INVALID_VALUE);
  }
  Stream stream;
  if (!s.objects().find(q.stream, &stream))
    return s.answers().send(asked.request, CUDA_ERROR_INVALID_HANDLE);
  download(s, asked, stream, work);
}

void handle_PagesFetch(Session &s, const wire_PagesFetch &q, Starts<Work::kCopy> work) {
  const Asked asked = {q.request.request, {nullptr, q.address, q.length, 1}, {q.length, 1, 1}};
  if (q.length == 0) {
    // Until what was sent has arrived, as another device waits for it.
    if (!s.pages().here()) {
      s.hand_over();
      s.pages().arrive();
    }
    return s.answers().send(asked.request, CUDA_SUCCESS);
  }
  if (!s.reachable(q.address, q.length))
    return s.answers().send(asked.request, CUDA_ERROR_INVALID_VALUE);
  // A function's, which the copy would keep waiting if code were loaded from now on.
  if (!q.wait && s.host_functions().pending() &&
      s.carry([&](CarriedPages &pages) { return pages.fetch(q); })) {
    return count_alone(s.count().downloads);
  }
  const Stream stream{s.pages().stream(), false};
  if (!stream.object) return s.answers().send(asked.request, CUDA_ERROR_OUT_OF_MEMORY);
  if (q.wait == 0 || (!s.transfers().pending() && s.objects().done())) {
    return download(s, asked, stream, work);
  }
  count_alone(s.count().downloads);
  const uint64_t sequence = s.sequence();
  Download late(s, asked, stream, work.move(stream.object, q.length));
  s.hand_over();
  const CUresult result = s.driver().cuCtxSynchronize();
  s.transfers().settle(sequence, nullptr, true);
  if (result != CUDA_SUCCESS) return s.answers().synchronised(asked.request, result);
  s.answers().output();
  late.begin_aside();
  late.finish();
}

}  // namespace outboard
