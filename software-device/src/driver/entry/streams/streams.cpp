// Entry points: streams.
#include "entry/entry.h"
#include "graphs/capture.h"
#include "graphs/tasks.h"
#include "streams/event_board.h"
#include "streams/transfer.h"

using namespace softdev::driver;

namespace {

CUresult create(CUstream *handle, unsigned flags, int priority) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!handle || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)))
    return CUDA_ERROR_INVALID_VALUE;
  if (priority < limits::kGreatestPriority) priority = limits::kGreatestPriority;
  if (priority > limits::kLeastPriority) priority = limits::kLeastPriority;
  return guarded([&] {
    std::shared_ptr<Stream> stream = context->create_stream(flags, priority);
    context->own(driver()->handles.add(stream));
    *handle = as_handle<CUstream>(*stream);
    return CUDA_SUCCESS;
  });
}

CUresult query(CUstream handle, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  if (CUresult bad = admit(stream, Use::kWait)) return bad;
  if (!Queue::idle(stream)) return CUDA_ERROR_NOT_READY;
  stream.context->flush_prints();
  return stream.context->error();
}

CUresult wait(CUstream handle, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  return guarded([&] { return synchronise(stream); });
}

CUresult wait_event(CUstream handle, CUevent event_handle, unsigned flags, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  auto event = driver()->handles.find<Event>(event_handle);
  if (!event) return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no event", (void *)event_handle);
  if (flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    if (flags & CU_EVENT_WAIT_EXTERNAL) {
      if (CUresult bad = admit(stream, Use::kQueue)) return bad;
      if (!stream->capturing())
        return refuse(CUDA_ERROR_INVALID_VALUE, "only a captured stream waits for external events");
      return submit(stream, std::make_shared<EventTask>(stream.context, event, false));
    }
    if (event->captured() || stream->capturing()) {
      GraphsLock lock;
      bool handled;
      CUresult result = capture_wait(stream, *event, &handled);
      if (handled) return result;
    }
    if (CUresult bad = admit(stream, Use::kQueue)) return bad;
    if (event->board) {
      wait_for_board(stream, *event);
      return CUDA_SUCCESS;
    }
    Work recorded = Queue::recorded(*event);
    if (!recorded) return CUDA_SUCCESS;
    auto mark = std::make_shared<Operation>(stream.context, Where::kInline);
    Queue::push(*stream, mark, recorded);
    return CUDA_SUCCESS;
  });
}

// What a stream can be asked, in one place: the names differ by default stream only.
template <class Ask>
CUresult ask(CUstream handle, Default null, const void *answer, Ask get) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!answer) return CUDA_ERROR_INVALID_VALUE;
  get(stream);
  return CUDA_SUCCESS;
}

CUresult get_context(CUstream handle, CUcontext *context, Default null) {
  return ask(handle, null, context,
             [&](const StreamRef &stream) { *context = as_handle<CUcontext>(*stream.context); });
}

// There are no green contexts, so no stream is of one.
CUresult get_green(CUstream handle, CUgreenCtx *green, Default null) {
  return ask(handle, null, green, [&](const StreamRef &) { *green = nullptr; });
}

CUresult get_contexts(CUstream handle, CUcontext *context, CUgreenCtx *green, Default null) {
  CUresult result = get_context(handle, context, null);
  if (result == CUDA_SUCCESS && green) *green = nullptr;
  return result;
}

CUresult get_device(CUstream handle, CUdevice *device, Default null) {
  return ask(handle, null, device,
             [&](const StreamRef &stream) { *device = stream.context->device().ordinal; });
}

CUresult get_flags(CUstream handle, unsigned *flags, Default null) {
  return ask(handle, null, flags, [&](const StreamRef &stream) { *flags = stream->flags; });
}

CUresult get_priority(CUstream handle, int *priority, Default null) {
  return ask(handle, null, priority,
             [&](const StreamRef &stream) { *priority = stream->priority; });
}

CUresult get_id(CUstream handle, unsigned long long *id, Default null) {
  return ask(handle, null, id, [&](const StreamRef &stream) {
    // Unique in the process, not only in the context.
    *id = stream.context->id() << 32 | stream->id;
  });
}

}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) { return create(stream, flags, 0); }

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) {
  return create(stream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  if (CUresult bad = enter()) return bad;
  auto stream = driver()->handles.remove<Stream>(handle);
  if (!stream) return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no stream", (void *)handle);
  if (std::shared_ptr<Context> context = stream->context.lock()) {
    abandon_capture(*stream);
    context->disown(stream->handle());
    context->forget_stream(stream);
  }
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }

// Every call on a stream exists for either meaning of the NULL stream.
#define BOTH(name, ptsz, parameters, legacy_call, per_thread_call) \
  CUresult name parameters { return legacy_call; }                 \
  CUresult ptsz parameters { return per_thread_call; }
#define LEGACY Default::kLegacy
#define PER_THREAD Default::kPerThread

BOTH(cuStreamQuery, cuStreamQuery_ptsz, (CUstream stream), query(stream, LEGACY),
     query(stream, PER_THREAD))
BOTH(cuStreamSynchronize, cuStreamSynchronize_ptsz, (CUstream stream), wait(stream, LEGACY),
     wait(stream, PER_THREAD))
BOTH(cuStreamWaitEvent, cuStreamWaitEvent_ptsz,
     (CUstream stream, CUevent event, unsigned int flags), wait_event(stream, event, flags, LEGACY),
     wait_event(stream, event, flags, PER_THREAD))
BOTH(cuStreamGetCtx, cuStreamGetCtx_ptsz, (CUstream stream, CUcontext *context),
     get_context(stream, context, LEGACY), get_context(stream, context, PER_THREAD))
BOTH(cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz,
     (CUstream stream, CUcontext *context, CUgreenCtx *green),
     get_contexts(stream, context, green, LEGACY), get_contexts(stream, context, green, PER_THREAD))
CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green) {
  return get_green(stream, green, LEGACY);
}
BOTH(cuStreamGetDevice, cuStreamGetDevice_ptsz, (CUstream stream, CUdevice *device),
     get_device(stream, device, LEGACY), get_device(stream, device, PER_THREAD))
BOTH(cuStreamGetFlags, cuStreamGetFlags_ptsz, (CUstream stream, unsigned int *flags),
     get_flags(stream, flags, LEGACY), get_flags(stream, flags, PER_THREAD))
BOTH(cuStreamGetPriority, cuStreamGetPriority_ptsz, (CUstream stream, int *priority),
     get_priority(stream, priority, LEGACY), get_priority(stream, priority, PER_THREAD))
BOTH(cuStreamGetId, cuStreamGetId_ptsz, (CUstream stream, unsigned long long *id),
     get_id(stream, id, LEGACY), get_id(stream, id, PER_THREAD))

}  // extern "C"

#undef LEGACY
#undef PER_THREAD
