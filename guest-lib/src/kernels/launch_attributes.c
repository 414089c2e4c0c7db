// Attributes of a launch: the vendor's unions to the words that travel
// (api-server/executor/commands/launch_attributes.cc reads them).
#include <string.h>

#include "abi_launch.h"
#include "kernels/internal.h"
#include "kernels/launch.h"
#include "setup/log.h"
#include "streams/event.h"

static uint64_t two(uint32_t low, uint32_t high) { return low | (uint64_t)high << 32; }

// True: it travels. False with CUDA_SUCCESS: it need not.
static _Bool read_one(const CUlaunchAttribute *given, uint64_t *word, struct launch_shape *shape,
                      CUevent *event, CUresult *result) {
  const CUlaunchAttributeValue *value = &given->value;
  *result = abi_launch_attribute_sound(given->id, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (*result) return 0;
  switch (given->id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    // A hint about traffic between the GPUs of a process, of which a session has one.
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      return 0;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      word[0] = (uint64_t)(uintptr_t)value->accessPolicyWindow.base_ptr;
      word[1] = value->accessPolicyWindow.num_bytes;
      memcpy(&word[2], &value->accessPolicyWindow.hitRatio, 4);
      word[2] |= (uint64_t)(uint16_t)value->accessPolicyWindow.hitProp << 32 |
                 (uint64_t)(uint16_t)value->accessPolicyWindow.missProp << 48;
      return value->accessPolicyWindow.num_bytes != 0;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      shape->cooperative = value->cooperative != 0;
      word[0] = shape->cooperative;
      return 1;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      word[0] = (uint32_t)value->syncPolicy;
      return 1;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      shape->cluster[0] = value->clusterDim.x;
      shape->cluster[1] = value->clusterDim.y;
      shape->cluster[2] = value->clusterDim.z;
      if (!shape->cluster[0] || !shape->cluster[1] || !shape->cluster[2])
        *result = CUDA_ERROR_INVALID_CLUSTER_SIZE;
      word[0] = two(shape->cluster[0], shape->cluster[1]);
      word[1] = shape->cluster[2];
      return 1;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      word[0] = two(value->preferredClusterDim.x, value->preferredClusterDim.y);
      word[1] = value->preferredClusterDim.z;
      return 1;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      word[0] = (uint32_t)value->clusterSchedulingPolicyPreference;
      return 1;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      word[0] = value->programmaticStreamSerializationAllowed != 0;
      return 1;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      *event = value->programmaticEvent.event;
      *result = event_check_untimed(*event);
      word[0] = (uint64_t)(uintptr_t)*event;
      word[1] = two((uint32_t)value->programmaticEvent.flags,
                    value->programmaticEvent.triggerAtBlockStart != 0);
      return 1;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      *event = value->launchCompletionEvent.event;
      *result = event_check_untimed(*event);
      word[0] = (uint64_t)(uintptr_t)*event;
      word[1] = (uint32_t)value->launchCompletionEvent.flags;
      return 1;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      word[0] = (uint32_t)value->priority;
      return 1;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      word[0] = two(value->memSyncDomainMap.default_, value->memSyncDomainMap.remote);
      return 1;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      word[0] = (uint32_t)value->memSyncDomain;
      return 1;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      word[0] = value->sharedMemCarveout;
      return 1;
    default:
      log_warn("launch attribute %d is not served", (int)given->id);
      *result = abi_launch_attribute_refusal(given->id);
      return 0;
  }
}

CUresult launch_attributes_read(const CUlaunchAttribute *given, unsigned count,
                                struct launch_attributes *attributes, struct launch_shape *shape) {
  unsigned events = 0;
  attributes->count = 0;
  attributes->events[0] = attributes->events[1] = NULL;
  for (unsigned i = 0; i < count; i++) {
    struct wire_launch_attribute one = {.id = (uint32_t)given[i].id};
    CUevent event = NULL;
    CUresult result;
    _Bool travels = read_one(&given[i], one.value, shape, &event, &result);
    if (result) return result;
    if (event) {
      if (events == 2) return CUDA_ERROR_INVALID_VALUE;
      attributes->events[events++] = event;
    }
    if (!travels) continue;
    if (attributes->count == WIRE_LAUNCH_ATTRIBUTES) return CUDA_ERROR_INVALID_VALUE;
    attributes->travel[attributes->count++] = one;
  }
  return CUDA_SUCCESS;
}
