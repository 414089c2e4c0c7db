// Entry points: events.
#include <unistd.h>

#include "entry/entry.h"
#include "entry/memory/sharing.h"
#include "graphs/capture.h"
#include "graphs/tasks.h"
#include "streams/event_board.h"

using namespace softdev::driver;

namespace {

CUresult find(CUevent handle, std::shared_ptr<Event> *event) {
  if (CUresult bad = enter()) return bad;
  *event = driver()->handles.find<Event>(handle);
  if (!*event) return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no event", (void *)handle);
  return CUDA_SUCCESS;
}

CUresult record(CUevent event_handle, CUstream handle, unsigned flags, Default null) {
  std::shared_ptr<Event> event;
  if (CUresult bad = find(event_handle, &event)) return bad;
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) return CUDA_ERROR_INVALID_VALUE;
  if (event->context.lock() != stream.context)
    return refuse(CUDA_ERROR_INVALID_HANDLE, "the event and the stream are of different contexts");
  return guarded([&]() -> CUresult {
    if (CUresult bad = admit(stream, Use::kQueue)) return bad;
    if (flags & CU_EVENT_RECORD_EXTERNAL) {
      if (!stream->capturing())
        return refuse(CUDA_ERROR_INVALID_VALUE, "only a captured stream records external events");
      return submit(stream, std::make_shared<EventTask>(stream.context, event, true));
    }
    if (stream->capturing() || event->captured()) {
      GraphsLock lock;
      if (stream->capture()) return capture_record(stream, *event);
      event->set_capture(nullptr);
    }
    softdev::driver::record(*event, stream);
    return CUDA_SUCCESS;
  });
}

// The error of the context an event belongs to.
CUresult health(const Event &event) {
  std::shared_ptr<Context> context = event.context.lock();
  return context ? context->error() : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult elapsed(float *milliseconds, CUevent start_handle, CUevent end_handle) {
  std::shared_ptr<Event> start, end;
  if (CUresult bad = find(start_handle, &start)) return bad;
  if (CUresult bad = find(end_handle, &end)) return bad;
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult bad = check_event(*start)) return bad;
  if (CUresult bad = check_event(*end)) return bad;
  if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
    return refuse(CUDA_ERROR_INVALID_HANDLE, "an event was created without timing");
  if (start->context.lock() != end->context.lock())
    return refuse(CUDA_ERROR_INVALID_HANDLE, "the events are of different contexts");
  Work first = Queue::recorded(*start), last = Queue::recorded(*end);
  if (!first || !last) return refuse(CUDA_ERROR_INVALID_HANDLE, "an event was never recorded");
  if (CUresult sticky = health(*start)) return sticky;
  if (!first->done() || !last->done()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(last->finished_ns() - first->finished_ns()) / 1e6f;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuEventCreate(CUevent *handle, unsigned int flags) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
  if (!handle || (flags & ~(known | static_cast<unsigned>(CU_EVENT_INTERPROCESS))))
    return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))
    return refuse(CUDA_ERROR_INVALID_VALUE, "events between processes take no time");
  return guarded([&] {
    auto event = std::make_shared<Event>(context, flags);
    if (flags & CU_EVENT_INTERPROCESS) {
      event->board = EventBoard::create(context->device().uuid());
      if (!event->board) return refuse(CUDA_ERROR_OUT_OF_MEMORY, "no memory file for an event");
    }
    context->own(driver()->handles.add(event));
    *handle = as_handle<CUevent>(*event);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy_v2(CUevent handle) {
  if (CUresult bad = enter()) return bad;
  auto event = driver()->handles.remove<Event>(handle);
  if (!event) return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no event", (void *)handle);
  if (std::shared_ptr<Context> context = event->context.lock()) context->disown(event->handle());
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return record(event, stream, 0, Default::kLegacy);
}
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return record(event, stream, 0, Default::kPerThread);
}
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  return record(event, stream, flags, Default::kLegacy);
}
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags) {
  return record(event, stream, flags, Default::kPerThread);
}

CUresult cuEventQuery(CUevent handle) {
  std::shared_ptr<Event> event;
  if (CUresult bad = find(handle, &event)) return bad;
  if (CUresult bad = check_event(*event)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  if (CUresult sticky = health(*event)) return sticky;
  if (event->board)
    return event->board->done(event->board->latest()) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  Work recorded = Queue::recorded(*event);
  return !recorded || recorded->done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent handle) {
  std::shared_ptr<Event> event;
  if (CUresult bad = find(handle, &event)) return bad;
  if (CUresult bad = check_event(*event)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  if (event->board) {
    uint64_t number = event->board->latest();
    while (!event->board->done(number) && health(*event) == CUDA_SUCCESS) usleep(50);
  } else if (Work recorded = Queue::recorded(*event)) {
    // The flags of a context are about streams: events have one of their own.
    const bool spins =
        driver()->settings.traits.spinning && !(event->flags & CU_EVENT_BLOCKING_SYNC);
    recorded->wait(spins ? Waiting::kAwake : Waiting::kAsleep);
  }
  if (std::shared_ptr<Context> context = event->context.lock()) context->flush_prints();
  return health(*event);
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event_handle) {
  std::shared_ptr<Event> event;
  if (CUresult bad = find(event_handle, &event)) return bad;
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  if (!event->board)
    return refuse(CUDA_ERROR_INVALID_HANDLE, "the event was not made to be shared");
  return guarded([&]() -> CUresult {
    const ShareName *name = event->board->name();
    if (!name) return refuse(CUDA_ERROR_MAP_FAILED, "the event cannot be shared");
    memcpy(handle, name, sizeof *handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcOpenEventHandle(CUevent *handle, CUipcEventHandle from) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    ShareName name;
    static_assert(sizeof name == sizeof from);
    memcpy(&name, &from, sizeof name);
    Description description;
    std::shared_ptr<File> file;
    Opened opened = open_shared(name, SharedKind::kEvent, &description, &file);
    if (opened != Opened::kOk) return refuse_ticket(opened);
    auto event = std::make_shared<Event>(
        context, unsigned{CU_EVENT_INTERPROCESS} | unsigned{CU_EVENT_DISABLE_TIMING});
    event->board = EventBoard::join(file);
    if (!event->board) return refuse(CUDA_ERROR_INVALID_HANDLE, "this is no event");
    context->own(driver()->handles.add(event));
    *handle = as_handle<CUevent>(*event);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return elapsed(milliseconds, start, end);
}
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
  return elapsed(milliseconds, start, end);
}

}  // extern "C"
