// Entry points: events of whole contexts, and the usage count that contexts had before CUDA 4.
#include "entry/entry.h"
#include "streams/task.h"

using namespace softdev::driver;

namespace {

// NULL is the current context.
CUresult find(CUcontext handle, CUevent event_handle, std::shared_ptr<Context> *context,
              std::shared_ptr<Event> *event) {
  if (handle) {
    if (CUresult bad = enter()) return bad;
    *context = driver()->handles.find<Context>(handle);
    if (!*context || !(*context)->active())
      return refuse(CUDA_ERROR_INVALID_CONTEXT, "%p is no context", static_cast<void *>(handle));
    if (CUresult sticky = (*context)->error()) return sticky;
  } else if (CUresult bad = enter(context)) {
    return bad;
  }
  *event = driver()->handles.find<Event>(event_handle);
  if (!*event) return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no event", (void *)event_handle);
  if ((*event)->board)
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "an event between processes is of one stream");
  return admit_wait(**context);
}

}  // namespace

extern "C" {

CUresult cuCtxRecordEvent(CUcontext handle, CUevent event_handle) {
  std::shared_ptr<Context> context;
  std::shared_ptr<Event> event;
  if (CUresult bad = find(handle, event_handle, &context, &event)) return bad;
  if (event->context.lock() != context)
    return refuse(CUDA_ERROR_INVALID_HANDLE, "the event is of another context");
  return guarded([&] {
    Queue::record_all(*event, context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxWaitEvent(CUcontext handle, CUevent event_handle) {
  std::shared_ptr<Context> context;
  std::shared_ptr<Event> event;
  if (CUresult bad = find(handle, event_handle, &context, &event)) return bad;
  Work recorded = Queue::recorded(*event);
  if (!recorded) return CUDA_SUCCESS;
  return guarded([&] {
    for (const auto &stream : context->all_streams())
      Queue::push(*stream, std::make_shared<Operation>(context, Where::kInline), recorded);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxAttach(CUcontext *handle, unsigned int flags) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!handle || flags) return CUDA_ERROR_INVALID_VALUE;
  if (context->primary())
    return refuse(CUDA_ERROR_INVALID_CONTEXT, "a primary context is retained, not attached to");
  context->attached++;
  *handle = as_handle<CUcontext>(*context);
  return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext handle) {
  if (CUresult bad = enter()) return bad;
  auto context = driver()->handles.find<Context>(handle);
  if (!context || context->primary() || ContextStack::top() != context->handle())
    return refuse(CUDA_ERROR_INVALID_CONTEXT, "%p is not the current context, or was not created",
                  static_cast<void *>(handle));
  return --context->attached == 0 ? cuCtxDestroy_v2(handle) : CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!affinity || static_cast<unsigned>(type) >= CU_EXEC_AFFINITY_TYPE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  return refuse(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "contexts have no part of the device alone");
}

}  // extern "C"
