// What guest, server and software device have to agree on about attributes of launches: which there
// are, and which numbers stand for something. A driver newer than us may know others.
#ifndef ABI_LAUNCH_H
#define ABI_LAUNCH_H

#include "cuda_driver.h"

static inline int abi_launch_attribute_known(CUlaunchAttributeID id) {
  switch ((int)id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      return 1;
    default:
      return 0;
  }
}

// What a program gets for an attribute that is not known: there is one that drivers know and we do
// not serve; the others they do not know either.
static inline CUresult abi_launch_attribute_refusal(CUlaunchAttributeID id) {
  return id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE ? CUDA_ERROR_NOT_SUPPORTED
                                                                : CUDA_ERROR_INVALID_VALUE;
}

static inline int abi_access_property_sound(CUaccessProperty property) {
  return (int)property >= CU_ACCESS_PROPERTY_NORMAL &&
         (int)property <= CU_ACCESS_PROPERTY_PERSISTING;
}

// Of the attributes that are numbers of enumerations, or have one.
static inline int abi_launch_attribute_sound(CUlaunchAttributeID id,
                                             const CUlaunchAttributeValue *value) {
  int number;
  switch ((int)id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      return value->accessPolicyWindow.hitRatio >= 0 && value->accessPolicyWindow.hitRatio <= 1 &&
             abi_access_property_sound(value->accessPolicyWindow.hitProp) &&
             abi_access_property_sound(value->accessPolicyWindow.missProp);
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      number = (int)value->syncPolicy;
      return number >= CU_SYNC_POLICY_AUTO && number <= CU_SYNC_POLICY_BLOCKING_SYNC;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      number = (int)value->clusterSchedulingPolicyPreference;
      return number >= CU_CLUSTER_SCHEDULING_POLICY_DEFAULT &&
             number <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      number = (int)value->memSyncDomain;
      return number >= CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT &&
             number <= CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      number = value->programmaticEvent.flags;
      return number == CU_EVENT_RECORD_DEFAULT || number == CU_EVENT_RECORD_EXTERNAL;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      number = value->launchCompletionEvent.flags;
      return number == CU_EVENT_RECORD_DEFAULT || number == CU_EVENT_RECORD_EXTERNAL;
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      return value->nvlinkUtilCentricScheduling <= 1;
    default:
      return 1;
  }
}

#endif
