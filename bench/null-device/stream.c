// Streams and events. Everything is done before the call that asks for it returns, so streams only
// remember what they were made with, and events the time they were recorded. But host functions,
// which may wait for their caller, are called by a thread, one after the other.
#include <pthread.h>
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

// Nothing is ever under way, so that there is nothing to wait for.
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                               CUstreamBatchMemOpParams *operations, unsigned int flags) {
  (void)stream, (void)count, (void)operations, (void)flags;
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream) {
  (void)stream;
  return CUDA_SUCCESS;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct call {
  CUhostFn function;
  void *data;
  struct call *next;
} * first, **last = &first;
static bool calling, started;

static void *caller(void *unused) {
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!first) pthread_cond_wait(&changed, &lock);
    struct call *call = first;
    first = call->next;
    if (!first) last = &first;
    calling = true;
    pthread_mutex_unlock(&lock);
    call->function(call->data);
    free(call);
    pthread_mutex_lock(&lock);
    calling = false;
    pthread_cond_broadcast(&changed);
  }
  return unused;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  (void)stream;
  struct call *call = malloc(sizeof *call);
  if (!call) return CUDA_ERROR_OUT_OF_MEMORY;
  *call = (struct call){function, data, NULL};
  pthread_mutex_lock(&lock);
  pthread_t thread;
  if (!started && pthread_create(&thread, NULL, caller, NULL) == 0) {
    pthread_detach(thread);
    started = true;
  }
  *last = call;
  last = &call->next;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

void null_finish(void) {
  pthread_mutex_lock(&lock);
  while (first || calling) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

CUresult cuStreamSynchronize(CUstream stream) {
  (void)stream;
  null_finish();
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  (void)stream, (void)event, (void)flags;
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
