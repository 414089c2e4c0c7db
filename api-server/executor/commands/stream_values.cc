// Values in memory that streams wait for and write; attributes of streams.
#include <cstring>

#include "base/served_values.h"
#include "base/session_limits.h"
#include "dispatch.h"
#include "memory/stream_waits.h"
#include "session/session.h"

namespace outboard {

namespace {

// The driver's form. False: it is none of the four operations.
bool describe(const wire_value &value, CUstreamBatchMemOpParams *entry) {
  *entry = {};
  switch (value.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      entry->waitValue.operation = static_cast<CUstreamBatchMemOpType>(value.operation);
      entry->waitValue.address = value.address;
      entry->waitValue.value64 = value.value;
      entry->waitValue.flags = value.flags;
      return true;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      entry->writeValue.operation = static_cast<CUstreamBatchMemOpType>(value.operation);
      entry->writeValue.address = value.address;
      entry->writeValue.value64 = value.value;
      entry->writeValue.flags = value.flags;
      return true;
    default:
      return false;
  }
}

}  // namespace

void handle_StreamValues(Session &s, const wire_StreamValues &q, std::span<const uint8_t> values,
                         Starts<Work::kSet> work) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_StreamValues, result); };
  CUstream stream;
  if (!s.objects().find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  const size_t count = values.size() / sizeof(wire_value);
  if (count == 0 || count > WIRE_VALUES_MAX || values.size() % sizeof(wire_value) != 0) {
    return posted(CUDA_ERROR_INVALID_VALUE);
  }
  CUstreamBatchMemOpParams entries[WIRE_VALUES_MAX];
  wire_value value;
  for (size_t i = 0; i < count; i++) {
    memcpy(&value, &values[i * sizeof value], sizeof value);
    const uint64_t size = is_wide(value) ? 8 : 4;
    if (!is_served_value(value.operation, value.flags, value.value) ||
        !describe(value, &entries[i]) || value.address % size != 0 ||
        !s.reachable(value.address, size)) {
      return posted(CUDA_ERROR_INVALID_VALUE);
    }
  }
  Gate::Pass pass = work.move(stream, values.size());
  const CUresult result =
      pass.started(pass->cuStreamBatchMemOp_v2(stream, static_cast<unsigned>(count), entries, 0));
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
    memcpy(&value, &values[i * sizeof value], sizeof value);
    s.stream_waits().note(value);
  }
  posted(result);
}

void handle_StreamAttribute(Session &s, const wire_StreamAttribute &q,
                            std::span<const uint8_t> bytes) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_StreamAttribute, result); };
  CUstream stream;
  if (!s.objects().find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  CUstreamAttrValue value;
  if (bytes.size() != sizeof value) return posted(CUDA_ERROR_INVALID_VALUE);
  memcpy(&value, bytes.data(), sizeof value);
  const auto attribute = static_cast<CUstreamAttrID>(q.attribute);
  if (!is_served_stream(attribute, value)) return posted(CUDA_ERROR_INVALID_VALUE);
  if (attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) {
    const CUaccessPolicyWindow &window = value.accessPolicyWindow;
    if (!s.reachable(reinterpret_cast<uint64_t>(window.base_ptr), window.num_bytes)) {
      return posted(CUDA_ERROR_INVALID_VALUE);
    }
  }
  posted(s.driver().cuStreamSetAttribute(stream, attribute, &value));
}

}  // namespace outboard
