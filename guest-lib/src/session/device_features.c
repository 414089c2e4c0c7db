// Questions about devices that have one answer here: what a device beyond the network does not
// offer, it does not claim.
#include <pthread.h>
#include <stdlib.h>

#include "guest_calls.h"
#include "session/context.h"
#include "session/device.h"

CUresult guest_cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (!pi || (unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *pi = 0;
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type) {
  if (!pExecAffinity || (unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

// ---- atomic operations across devices ----------------------------------------------------------

// No memory of this machine is one that a kernel's atomic operation reaches; nor is that of another
// device, but for those of the same server.
static CUresult atomics_of(const struct peer_device *peer, unsigned *capabilities,
                           const CUatomicOperation *operations, unsigned count) {
  if (!capabilities || !operations || !count) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++)
    if ((unsigned)operations[i] >= CU_ATOMIC_OPERATION_MAX) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++)
    capabilities[i] =
        peer && (unsigned)operations[i] < peer->atomic_count ? peer->atomics[operations[i]] : 0;
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
                                                 const CUatomicOperation *operations,
                                                 unsigned int count, CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  return atomics_of(NULL, capabilities, operations, count);
}

CUresult guest_cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
                                                const CUatomicOperation *operations,
                                                unsigned int count, CUdevice srcDevice,
                                                CUdevice dstDevice) {
  if (!device_exists(srcDevice) || !device_exists(dstDevice) || srcDevice == dstDevice)
    return CUDA_ERROR_INVALID_DEVICE;
  return atomics_of(device_peer(srcDevice, dstDevice), capabilities, operations, count);
}

// ---- notifications -----------------------------------------------------------------------------

// A session's memory is its own, so none is ever over its budget and nobody is notified.
struct notification {
  CUdevice device;
  struct notification *next;
};
static struct notification *notifications;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

CUresult guest_cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
                                                 void *userData, CUasyncCallbackHandle *callback) {
  (void)userData;
  if (!device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!callbackFunc || !callback) return CUDA_ERROR_INVALID_VALUE;
  struct notification *made = malloc(sizeof *made);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  made->device = device;
  pthread_mutex_lock(&lock);
  made->next = notifications;
  notifications = made;
  pthread_mutex_unlock(&lock);
  *callback = (CUasyncCallbackHandle)(void *)made;
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceUnregisterAsyncNotification(CUdevice device,
                                                   CUasyncCallbackHandle callback) {
  if (!device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  pthread_mutex_lock(&lock);
  struct notification **link = &notifications;
  while (*link && (void *)*link != (void *)callback) link = &(*link)->next;
  struct notification *found = *link && (*link)->device == device ? *link : NULL;
  if (found) *link = found->next;
  pthread_mutex_unlock(&lock);
  free(found);
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
