// Attributes of streams: kept here to be asked for. Those that the device may make use of are sent.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "abi_launch.h"
#include "guest_calls.h"
#include "memory/memory_range.h"
#include "session/device.h"
#include "streams/stream.h"

static const CUstreamAttrID known[] = {
    CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
    CU_LAUNCH_ATTRIBUTE_PRIORITY, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN};
enum { KNOWN = sizeof known / sizeof *known };

struct stream_attributes {
  _Bool set[KNOWN];
  CUstreamAttrValue values[KNOWN];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int place_of(CUstreamAttrID attribute) {
  int place = 0;
  while (place < KNOWN && known[place] != attribute) place++;
  return place;
}

static CUresult check(CUstreamAttrID attribute, const CUstreamAttrValue *value) {
  return abi_launch_attribute_sound(attribute, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// How to wait is the host's business, and a window may lie in memory that only the guest has.
static CUresult tell(uint64_t wire, int place, const CUstreamAttrValue *value) {
  if (known[place] == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) return CUDA_SUCCESS;
  const CUaccessPolicyWindow *window = &value->accessPolicyWindow;
  if (known[place] == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW &&
      memory_check((uint64_t)(uintptr_t)window->base_ptr, window->num_bytes))
    return CUDA_SUCCESS;
  return put_StreamAttribute(session_here(), wire, known[place], value, sizeof *value);
}

CUresult guest_cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr,
                                    CUstreamAttrValue *value_out, int per_thread) {
  uint64_t wire;
  int place = place_of(attr), priority;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (!result && (!value_out || place == KNOWN)) result = CUDA_ERROR_INVALID_VALUE;
  if (!result) result = guest_cuStreamGetPriority(hStream, &priority, per_thread);
  if (result) return result;
  pthread_mutex_lock(&lock);
  const struct stream_attributes *attributes = *stream_attributes(wire);
  if (attributes && attributes->set[place]) {
    *value_out = attributes->values[place];
  } else {
    memset(value_out, 0, sizeof *value_out);
    if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY) value_out->priority = priority;
    if (attr == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
      value_out->syncPolicy = CU_SYNC_POLICY_AUTO;
    if (attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) value_out->memSyncDomainMap.remote = 1;
  }
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

// With the lock held.
static struct stream_attributes *attributes_of(uint64_t wire) {
  struct stream_attributes **attributes = stream_attributes(wire);
  if (!*attributes) *attributes = calloc(1, sizeof **attributes);
  return *attributes;
}

CUresult guest_cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
                                    const CUstreamAttrValue *value, int per_thread) {
  uint64_t wire;
  int place = place_of(attr);
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (!result && (!value || place == KNOWN)) result = CUDA_ERROR_INVALID_VALUE;
  if (!result) result = check(attr, value);
  if (result) return result;
  CUstreamAttrValue held = *value;
  if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY) held.priority = device_clamp_priority(held.priority);
  pthread_mutex_lock(&lock);
  struct stream_attributes *attributes = attributes_of(wire);
  if (attributes) {
    attributes->set[place] = 1;
    attributes->values[place] = held;
  }
  pthread_mutex_unlock(&lock);
  return attributes ? tell(wire, place, &held) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult guest_cuStreamCopyAttributes(CUstream dst, CUstream src, int per_thread) {
  uint64_t to, from;
  CUresult result = stream_resolve(dst, per_thread, &to);
  if (!result) result = stream_resolve(src, per_thread, &from);
  if (result || to == from) return result;
  struct stream_attributes copy = {0};
  pthread_mutex_lock(&lock);
  struct stream_attributes *into = attributes_of(to);
  if (*stream_attributes(from)) copy = **stream_attributes(from);
  if (into) *into = copy;
  pthread_mutex_unlock(&lock);
  if (!into) return CUDA_ERROR_OUT_OF_MEMORY;
  for (int place = 0; place < KNOWN && !result; place++)
    if (copy.set[place]) result = tell(to, place, &copy.values[place]);
  return result;
}
