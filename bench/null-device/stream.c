// Streams and events. Everything is done before the call that asks for it returns, so streams only
// remember what they were made with, and events the time they were recorded.
#include <stdlib.h>
#include <time.h>

#include "null.h"

struct CUstream_st {
  unsigned flags;
};

struct CUevent_st {
  struct timespec recorded;
};

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) {
  (void)priority;
  *stream = calloc(1, sizeof **stream);
  if (!*stream) return CUDA_ERROR_OUT_OF_MEMORY;
  (*stream)->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  free(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags) {
  bool made = stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
  *flags = made ? stream->flags : 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) {
  (void)stream;
  *priority = 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream) {
  (void)stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  (void)stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  (void)stream, (void)event, (void)flags;
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  (void)stream;
  function(data);
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
  (void)flags;
  *event = calloc(1, sizeof **event);
  return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuEventDestroy_v2(CUevent event) {
  free(event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  (void)stream, (void)flags;
  clock_gettime(CLOCK_MONOTONIC, &event->recorded);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}

CUresult cuEventQuery(CUevent event) {
  (void)event;
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  (void)event;
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
  *milliseconds = (float)(end->recorded.tv_sec - start->recorded.tv_sec) * 1e3f +
                  (float)(end->recorded.tv_nsec - start->recorded.tv_nsec) * 1e-6f;
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}
