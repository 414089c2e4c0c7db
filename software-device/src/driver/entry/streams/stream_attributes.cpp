// Entry points: attributes of streams. They are hints to hardware, and are kept to be asked for.
#include <algorithm>

#include "abi_launch.h"
#include "entry/entry.h"

using namespace softdev::driver;

namespace {

bool known(CUstreamAttrID attribute) {
  return attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
         attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
         attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

CUstreamAttrValue initial(const Stream &stream, CUstreamAttrID attribute) {
  CUstreamAttrValue value;
  memset(&value, 0, sizeof value);
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) value.priority = stream.priority;
  if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
    value.syncPolicy = CU_SYNC_POLICY_AUTO;
  if (attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) value.memSyncDomainMap.remote = 1;
  return value;
}

CUresult get(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue *value, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!value || !known(attribute)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard(stream->attributes_mutex);
  auto found = stream->attributes.find(attribute);
  *value = found == stream->attributes.end() ? initial(*stream, attribute) : found->second;
  return CUDA_SUCCESS;
}

CUresult set(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue *value,
             Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!value || !known(attribute)) return CUDA_ERROR_INVALID_VALUE;
  if (!abi_launch_attribute_sound(attribute, value)) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    CUstreamAttrValue held = *value;
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY)
      held.priority =
          std::max(limits::kGreatestPriority, std::min(limits::kLeastPriority, held.priority));
    std::lock_guard guard(stream->attributes_mutex);
    stream->attributes[attribute] = held;
    return CUDA_SUCCESS;
  });
}

CUresult copy(CUstream to_handle, CUstream from_handle, Default null) {
  StreamRef to, from;
  if (CUresult bad = find_stream(to_handle, null, &to)) return bad;
  if (CUresult bad = find_stream(from_handle, null, &from)) return bad;
  if (to.stream == from.stream) return CUDA_SUCCESS;
  return guarded([&] {
    std::scoped_lock guard(to->attributes_mutex, from->attributes_mutex);
    to->attributes = from->attributes;
    return CUDA_SUCCESS;
  });
}

}  // namespace

extern "C" {

CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value) {
  return get(stream, attribute, value, Default::kLegacy);
}
CUresult cuStreamGetAttribute_ptsz(CUstream stream, CUstreamAttrID attribute,
                                   CUstreamAttrValue *value) {
  return get(stream, attribute, value, Default::kPerThread);
}
CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attribute,
                              const CUstreamAttrValue *value) {
  return set(stream, attribute, value, Default::kLegacy);
}
CUresult cuStreamSetAttribute_ptsz(CUstream stream, CUstreamAttrID attribute,
                                   const CUstreamAttrValue *value) {
  return set(stream, attribute, value, Default::kPerThread);
}
CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  return copy(to, from, Default::kLegacy);
}
CUresult cuStreamCopyAttributes_ptsz(CUstream to, CUstream from) {
  return copy(to, from, Default::kPerThread);
}

}  // extern "C"
