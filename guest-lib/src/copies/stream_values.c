// Values in memory that streams wait for and write.
#include "copies/stream_values.h"

#include "guest_calls.h"
#include "memory/memory_range.h"
#include "streams/pending.h"
#include "streams/recorder.h"
#include "streams/stream.h"

_Bool value_waits(uint32_t operation) {
  return operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

CUresult value_check(struct wire_value *value) {
  _Bool waits = value_waits(value->operation);
  _Bool wide = value->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
               value->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
  uint64_t size = wide ? 8 : 4;
  // There are no remote writes that could be flushed.
  if (waits && value->flags & CU_STREAM_WAIT_VALUE_FLUSH) return CUDA_ERROR_NOT_SUPPORTED;
  uint32_t most = waits ? CU_STREAM_WAIT_VALUE_NOR : CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
  if (value->flags > most || !value->address || value->address % size)
    return CUDA_ERROR_INVALID_VALUE;
  if (!wide) value->value = (uint32_t)value->value;
  // The driver would wait for ever: no value has a bit of none, or lacks one of none.
  const uint64_t all = wide ? UINT64_MAX : UINT32_MAX;
  if (waits && ((value->flags == CU_STREAM_WAIT_VALUE_AND && !value->value) ||
                (value->flags == CU_STREAM_WAIT_VALUE_NOR && value->value == all)))
    return CUDA_ERROR_INVALID_VALUE;
  return memory_check(value->address, size);
}

static CUresult queue(CUstream stream, int per_thread, struct wire_value *values, uint32_t count) {
  uint64_t wire;
  CUresult result = stream_for_work(stream, per_thread, &wire);
  for (uint32_t i = 0; i < count && !result; i++) result = value_check(&values[i]);
  if (result || !count) return result;
  if (capture_active()) {
    result = recorder->values(wire, values, count);
    if (result != CAPTURE_NONE) return result;
  }
  struct session *session = session_here();
  result = put_StreamValues(session, wire, values, count * (uint32_t)sizeof *values);
  for (uint32_t i = 0; i < count; i++)
    if (value_waits(values[i].operation)) {
      pending_note(session, wire);
      break;
    }
  return result;
}

static CUresult one(CUstream stream, int per_thread, uint32_t operation, CUdeviceptr address,
                    uint64_t value, unsigned flags) {
  struct wire_value only = {operation, flags, address, value};
  return queue(stream, per_thread, &only, 1);
}

// The first version of each asked for a module option that CUDA 12 did away with.
#define VALUE_CALL(name, OPERATION, bits)                                             \
  CUresult guest_##name(CUstream stream, CUdeviceptr addr, cuuint##bits##_t value,    \
                        unsigned int flags, int per_thread) {                         \
    return one(stream, per_thread, CU_STREAM_MEM_OP_##OPERATION, addr, value, flags); \
  }
VALUE_CALL(cuStreamWaitValue32, WAIT_VALUE_32, 32)
VALUE_CALL(cuStreamWaitValue32_v2, WAIT_VALUE_32, 32)
VALUE_CALL(cuStreamWaitValue64, WAIT_VALUE_64, 64)
VALUE_CALL(cuStreamWaitValue64_v2, WAIT_VALUE_64, 64)
VALUE_CALL(cuStreamWriteValue32, WRITE_VALUE_32, 32)
VALUE_CALL(cuStreamWriteValue32_v2, WRITE_VALUE_32, 32)
VALUE_CALL(cuStreamWriteValue64, WRITE_VALUE_64, 64)
VALUE_CALL(cuStreamWriteValue64_v2, WRITE_VALUE_64, 64)

CUresult value_read(const CUstreamBatchMemOpParams *entry, struct wire_value *out, _Bool *made) {
  struct wire_value value = {entry->operation, 0, 0, 0};
  *made = 0;
  switch (entry->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      value.flags = entry->waitValue.flags;
      value.address = entry->waitValue.address;
      value.value = entry->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? entry->waitValue.value
                                                                       : entry->waitValue.value64;
      break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      value.flags = entry->writeValue.flags;
      value.address = entry->writeValue.address;
      value.value = entry->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ? entry->writeValue.value
                                                                        : entry->writeValue.value64;
      break;
    case CU_STREAM_MEM_OP_BARRIER:
      return entry->memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU
                 ? CUDA_ERROR_INVALID_VALUE
                 : CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  *out = value;
  *made = 1;
  return CUDA_SUCCESS;
}

CUresult guest_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                     CUstreamBatchMemOpParams *paramArray, unsigned int flags,
                                     int per_thread) {
  struct wire_value values[WIRE_VALUES_MAX];
  uint32_t used = 0;
  if (flags || !paramArray || !count || count > WIRE_VALUES_MAX) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++) {
    _Bool made;
    CUresult result = value_read(&paramArray[i], &values[used], &made);
    if (result) return result;
    used += made;
  }
  return queue(stream, per_thread, values, used);
}

CUresult guest_cuStreamBatchMemOp(CUstream stream, unsigned int count,
                                  CUstreamBatchMemOpParams *paramArray, unsigned int flags,
                                  int per_thread) {
  return guest_cuStreamBatchMemOp_v2(stream, count, paramArray, flags, per_thread);
}
