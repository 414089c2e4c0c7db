#include "commands/launch_attributes.h"

#include <cstring>

#include "abi_launch.h"
#include "session/session.h"

namespace outboard {

namespace {

constexpr uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }
constexpr uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

bool names_event(CUlaunchAttributeID id) {
  return id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
         id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
}

// False for attributes that a launch from afar cannot have.
bool read(const wire_launch_attribute &from, CUlaunchAttribute *to) {
  const uint64_t *word = from.value;
  CUlaunchAttributeValue &value = to->value;
  to->id = static_cast<CUlaunchAttributeID>(from.id);
  switch (to->id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      value.accessPolicyWindow.base_ptr = reinterpret_cast<void *>(word[0]);
      value.accessPolicyWindow.num_bytes = word[1];
      static_assert(sizeof value.accessPolicyWindow.hitRatio == 4);
      memcpy(&value.accessPolicyWindow.hitRatio, &word[2], 4);
      value.accessPolicyWindow.hitProp = static_cast<CUaccessProperty>(high(word[2]) & 0xffff);
      value.accessPolicyWindow.missProp = static_cast<CUaccessProperty>(high(word[2]) >> 16);
      return true;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      value.cooperative = low(word[0]) != 0;
      return true;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      value.syncPolicy = static_cast<CUsynchronizationPolicy>(low(word[0]));
      return true;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      value.clusterDim = {low(word[0]), high(word[0]), low(word[1])};
      return true;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      value.preferredClusterDim = {low(word[0]), high(word[0]), low(word[1])};
      return true;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      value.clusterSchedulingPolicyPreference =
          static_cast<CUclusterSchedulingPolicy>(low(word[0]));
      return true;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      value.programmaticStreamSerializationAllowed = low(word[0]) != 0;
      return true;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      value.programmaticEvent.flags = static_cast<int>(low(word[1]));
      value.programmaticEvent.triggerAtBlockStart = high(word[1]) != 0;
      return true;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      value.launchCompletionEvent.flags = static_cast<int>(low(word[1]));
      return true;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      value.priority = static_cast<int>(low(word[0]));
      return true;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      value.memSyncDomainMap.default_ = static_cast<unsigned char>(low(word[0]));
      value.memSyncDomainMap.remote = static_cast<unsigned char>(high(word[0]));
      return true;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      value.memSyncDomain = static_cast<CUlaunchMemSyncDomain>(low(word[0]));
      return true;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      value.sharedMemCarveout = low(word[0]);
      return true;
    default:
      return false;
  }
}

}  // namespace

const char *LaunchAttributes::decode(std::span<const uint8_t> bytes) {
  if (bytes.size() % sizeof(wire_launch_attribute) != 0 ||
      bytes.size() / sizeof(wire_launch_attribute) > WIRE_LAUNCH_ATTRIBUTES) {
    return "malformed launch: its attributes are not whole, or too many";
  }
  for (size_t at = 0; at < bytes.size(); at += sizeof(wire_launch_attribute)) {
    wire_launch_attribute from;
    memcpy(&from, bytes.data() + at, sizeof from);
    CUlaunchAttribute &attribute = attributes_[count_];
    if (!read(from, &attribute)) return "a launch has an attribute of unknown kind";
    known_ = known_ && abi_launch_attribute_sound(attribute.id, &attribute.value);
    events_[count_] = from.value[0];
    count_++;
  }
  return nullptr;
}

CUresult LaunchAttributes::resolve(Session &s) {
  if (!known_) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count_; i++) {
    CUlaunchAttribute &attribute = attributes_[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW &&
        !s.reachable(reinterpret_cast<uint64_t>(attribute.value.accessPolicyWindow.base_ptr),
                     attribute.value.accessPolicyWindow.num_bytes)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (!names_event(attribute.id)) continue;
    CUevent event;
    if (!s.objects().find(events_[i], &event)) return CUDA_ERROR_INVALID_HANDLE;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
      attribute.value.programmaticEvent.event = event;
    } else {
      attribute.value.launchCompletionEvent.event = event;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace outboard
